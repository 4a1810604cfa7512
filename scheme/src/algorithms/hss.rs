//! HSS and LMS: RFC 8554, RFC 9858, SP 800-208, RFC 9802. The parameter set stands in the key.

use super::{AlgorithmInfo, Family, Kind, Size};
use crate::lms::{SIGNATURE_LEN_MAX, VerifyKey};

pub(super) const HSS: AlgorithmInfo = AlgorithmInfo {
    stateful: true,
    oid: Some("1.2.840.113549.1.9.16.3.17"),
    oid_name: Some("id-alg-hss-lms-hashsig"),
    public_key: Size::OfKey(VerifyKey::LEN_MAX),
    output: Size::OfKey(SIGNATURE_LEN_MAX),
    // Of its weakest sets, those of 24 bytes.
    ..AlgorithmInfo::new(
        (Kind::Signature, Family::Hss),
        "HSS",
        "RFC 8554",
        (Some(3), 192),
        [VerifyKey::LEN_MAX, 0, SIGNATURE_LEN_MAX],
    )
};
