//! Composite ML-DSA signatures: draft-ietf-lamps-pq-composite-sigs-19, section 6; the object
//! identifiers are IANA's (SMI Security for PKIX Algorithms). The version is in the names, since a
//! draft may change. Sizes are those of the longest encodings, for an RSA exponent of 65537.

use super::ml_dsa::{ML_DSA_44, ML_DSA_65, ML_DSA_87};
use super::{AlgorithmInfo, Family, Kind};

const fn is_ecdsa(part: &str) -> bool {
    matches!(part.as_bytes(), [b'E', b'C', ..])
}

/// A row: the draft's name without its `id-`, the ML-DSA part, the classical part, the last arc of
/// the identifier, the sizes of public key, private key and signature.
macro_rules! composite {
    ($name:literal, $ml_dsa:expr, $classical:literal, $arc:literal, $sizes:expr) => {
        AlgorithmInfo {
            draft: true,
            oid: Some(concat!("1.3.6.1.5.5.7.6.", $arc)),
            oid_name: Some(concat!("id-", $name)),
            parts: &[$ml_dsa.name, $classical],
            // An Ecdsa-Sig-Value drops leading zeros.
            output_varies: is_ecdsa($classical),
            ..AlgorithmInfo::new(
                (Kind::Signature, Family::Composite),
                concat!($name, "-draft19"),
                "composite-sigs-19",
                ($ml_dsa.category, $ml_dsa.security_bits),
                $sizes,
            )
        }
    };
}

pub(super) const MLDSA44_RSA2048_PSS_SHA256: AlgorithmInfo =
    composite!("MLDSA44-RSA2048-PSS-SHA256", ML_DSA_44, "RSA-2048 PSS", "37", [1582, 1226, 2676]);
pub(super) const MLDSA44_RSA2048_PKCS15_SHA256: AlgorithmInfo = composite!(
    "MLDSA44-RSA2048-PKCS15-SHA256",
    ML_DSA_44,
    "RSA-2048 PKCS#1 v1.5",
    "38",
    [1582, 1226, 2676]
);
pub(super) const MLDSA44_ED25519_SHA512: AlgorithmInfo =
    composite!("MLDSA44-Ed25519-SHA512", ML_DSA_44, "Ed25519", "39", [1344, 64, 2484]);
pub(super) const MLDSA44_ECDSA_P256_SHA256: AlgorithmInfo =
    composite!("MLDSA44-ECDSA-P256-SHA256", ML_DSA_44, "ECDSA-P256", "40", [1377, 83, 2492]);
pub(super) const MLDSA65_RSA3072_PSS_SHA512: AlgorithmInfo =
    composite!("MLDSA65-RSA3072-PSS-SHA512", ML_DSA_65, "RSA-3072 PSS", "41", [2350, 1802, 3693]);
pub(super) const MLDSA65_RSA3072_PKCS15_SHA512: AlgorithmInfo = composite!(
    "MLDSA65-RSA3072-PKCS15-SHA512",
    ML_DSA_65,
    "RSA-3072 PKCS#1 v1.5",
    "42",
    [2350, 1802, 3693]
);
pub(super) const MLDSA65_RSA4096_PSS_SHA512: AlgorithmInfo =
    composite!("MLDSA65-RSA4096-PSS-SHA512", ML_DSA_65, "RSA-4096 PSS", "43", [2478, 2383, 3821]);
pub(super) const MLDSA65_RSA4096_PKCS15_SHA512: AlgorithmInfo = composite!(
    "MLDSA65-RSA4096-PKCS15-SHA512",
    ML_DSA_65,
    "RSA-4096 PKCS#1 v1.5",
    "44",
    [2478, 2383, 3821]
);
pub(super) const MLDSA65_ECDSA_P256_SHA512: AlgorithmInfo =
    composite!("MLDSA65-ECDSA-P256-SHA512", ML_DSA_65, "ECDSA-P256", "45", [2017, 83, 3381]);
pub(super) const MLDSA65_ECDSA_P384_SHA512: AlgorithmInfo =
    composite!("MLDSA65-ECDSA-P384-SHA512", ML_DSA_65, "ECDSA-P384", "46", [2049, 96, 3413]);
pub(super) const MLDSA65_ED25519_SHA512: AlgorithmInfo =
    composite!("MLDSA65-Ed25519-SHA512", ML_DSA_65, "Ed25519", "48", [1984, 64, 3373]);
pub(super) const MLDSA87_ECDSA_P384_SHA512: AlgorithmInfo =
    composite!("MLDSA87-ECDSA-P384-SHA512", ML_DSA_87, "ECDSA-P384", "49", [2689, 96, 4731]);
pub(super) const MLDSA87_RSA3072_PSS_SHA512: AlgorithmInfo =
    composite!("MLDSA87-RSA3072-PSS-SHA512", ML_DSA_87, "RSA-3072 PSS", "52", [2990, 1802, 5011]);
pub(super) const MLDSA87_RSA4096_PSS_SHA512: AlgorithmInfo =
    composite!("MLDSA87-RSA4096-PSS-SHA512", ML_DSA_87, "RSA-4096 PSS", "53", [3118, 2383, 5139]);
pub(super) const MLDSA87_ECDSA_P521_SHA512: AlgorithmInfo =
    composite!("MLDSA87-ECDSA-P521-SHA512", ML_DSA_87, "ECDSA-P521", "54", [2725, 114, 4766]);

/// The draft's other algorithms: name without `id-`, identifier, the part that is not there.
const REFUSED: [(&str, &str, &str); 3] = [
    ("MLDSA65-ECDSA-brainpoolP256r1-SHA512", "1.3.6.1.5.5.7.6.47", "ECDSA over brainpoolP256r1"),
    ("MLDSA87-ECDSA-brainpoolP384r1-SHA512", "1.3.6.1.5.5.7.6.50", "ECDSA over brainpoolP384r1"),
    ("MLDSA87-Ed448-SHAKE256", "1.3.6.1.5.5.7.6.51", "Ed448"),
];

/// The part of a refused algorithm that is not there, if the text names one by any of its names.
pub(super) fn refused(text: &str) -> Option<&'static str> {
    let plain = text.strip_prefix("id-").unwrap_or(text);
    let plain = plain.strip_suffix("-draft19").unwrap_or(plain);
    let named = |row: &&(&str, &str, &str)| row.0.eq_ignore_ascii_case(plain) || row.1 == text;
    REFUSED.iter().find(named).map(|row| row.2)
}
