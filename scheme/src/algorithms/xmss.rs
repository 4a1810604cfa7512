//! XMSS and XMSS^MT: RFC 8391, SP 800-208, RFC 9802. The parameter set stands in the key, as a number that is another
//! set's in the other scheme.

use super::{Algorithm, AlgorithmInfo, Family, Kind, Size};
use crate::xmss::{Scheme, VerifyKey};

pub(super) const XMSS: AlgorithmInfo = AlgorithmInfo {
    oid: Some("1.3.6.1.5.5.7.6.34"),
    oid_before: Some("0.4.0.127.0.15.1.1.13.0"),
    oid_name: Some("id-alg-xmss-hashsig"),
    ..row(Scheme::Xmss)
};

pub(super) const XMSS_MT: AlgorithmInfo = AlgorithmInfo {
    oid: Some("1.3.6.1.5.5.7.6.35"),
    oid_before: Some("0.4.0.127.0.15.1.1.14.0"),
    oid_name: Some("id-alg-xmssmt-hashsig"),
    ..row(Scheme::XmssMt)
};

const fn row(scheme: Scheme) -> AlgorithmInfo {
    let signature = scheme.signature_len_max();
    AlgorithmInfo {
        stateful: true,
        public_key: Size::OfKey(VerifyKey::LEN_MAX),
        output: Size::OfKey(signature),
        // Of the weakest sets, those of 24 bytes.
        ..AlgorithmInfo::new(
            (Kind::Signature, Family::Xmss),
            scheme.name(),
            "RFC 8391",
            (Some(3), 192),
            [VerifyKey::LEN_MAX, 0, signature],
        )
    }
}

impl Algorithm {
    /// Returns which of the two it is; none where it is another family's.
    pub const fn xmss(self) -> Option<Scheme> {
        match self {
            Algorithm::Xmss => Some(Scheme::Xmss),
            Algorithm::XmssMt => Some(Scheme::XmssMt),
            _ => None,
        }
    }
}

impl From<Scheme> for Algorithm {
    fn from(scheme: Scheme) -> Self {
        match scheme {
            Scheme::Xmss => Algorithm::Xmss,
            Scheme::XmssMt => Algorithm::XmssMt,
        }
    }
}
