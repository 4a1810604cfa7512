//! Composite ML-DSA signatures: draft-ietf-lamps-pq-composite-sigs-19, section 6; the object
//! identifiers are IANA's (SMI Security for PKIX Algorithms). The version is in the names, since a
//! draft may change. Sizes are those of the longest encodings, for an RSA exponent of 65537.

use super::ml_dsa;
use super::{Algorithm, AlgorithmInfo, Family, Kind, Part, Size};
use crate::rsa::{self, Padding};

/// The ML-DSA part of a row, with the row that it has itself.
type MlDsa = (Part, AlgorithmInfo);
const ML_DSA_44: MlDsa = (Part::Algorithm(Algorithm::MlDsa44), ml_dsa::ML_DSA_44);
const ML_DSA_65: MlDsa = (Part::Algorithm(Algorithm::MlDsa65), ml_dsa::ML_DSA_65);
const ML_DSA_87: MlDsa = (Part::Algorithm(Algorithm::MlDsa87), ml_dsa::ML_DSA_87);

const ED25519: Part = Part::Algorithm(Algorithm::Ed25519);
const ECDSA_P256: Part = Part::Algorithm(Algorithm::EcdsaP256);
const ECDSA_P384: Part = Part::Algorithm(Algorithm::EcdsaP384);
const ECDSA_P521: Part = Part::Algorithm(Algorithm::EcdsaP521);
const RSA_2048_PSS: Part = rsa(2048, Padding::Pss);
const RSA_2048_PKCS1: Part = rsa(2048, Padding::Pkcs1);
const RSA_3072_PSS: Part = rsa(3072, Padding::Pss);
const RSA_3072_PKCS1: Part = rsa(3072, Padding::Pkcs1);
const RSA_4096_PSS: Part = rsa(4096, Padding::Pss);
const RSA_4096_PKCS1: Part = rsa(4096, Padding::Pkcs1);

const fn rsa(bits: usize, padding: Padding) -> Part {
    Part::Rsa(rsa::Params { bits, padding })
}

/// The numbers of an RSA key have no fixed length.
const fn private_key(classical: Part, len: usize) -> Size {
    if classical.is_rsa() { Size::UpTo(len) } else { Size::Fixed(len) }
}

/// An Ecdsa-Sig-Value drops leading zeros.
const fn output(classical: Part, len: usize) -> Size {
    use Algorithm::{EcdsaP256, EcdsaP384, EcdsaP521};
    match classical {
        Part::Algorithm(EcdsaP256 | EcdsaP384 | EcdsaP521) => Size::UpTo(len),
        Part::Algorithm(_) | Part::Rsa(_) => Size::Fixed(len),
    }
}

/// A row: the draft's name without its `id-`, the ML-DSA part, the classical part, the last arc of
/// the identifier, the sizes of public key, private key and signature.
macro_rules! composite {
    ($name:literal, $ml_dsa:expr, $classical:expr, $arc:literal, $sizes:expr) => {
        AlgorithmInfo {
            draft: true,
            oid: Some(concat!("1.3.6.1.5.5.7.6.", $arc)),
            oid_name: Some(concat!("id-", $name)),
            parts: &[$ml_dsa.0, $classical],
            private_key: private_key($classical, $sizes[1]),
            output: output($classical, $sizes[2]),
            ..AlgorithmInfo::new(
                (Kind::Signature, Family::Composite),
                concat!($name, "-draft19"),
                "composite-sigs-19",
                ($ml_dsa.1.category, $ml_dsa.1.security_bits),
                $sizes,
            )
        }
    };
}

pub(super) const MLDSA44_RSA2048_PSS_SHA256: AlgorithmInfo =
    composite!("MLDSA44-RSA2048-PSS-SHA256", ML_DSA_44, RSA_2048_PSS, "37", [1582, 1226, 2676]);
pub(super) const MLDSA44_RSA2048_PKCS15_SHA256: AlgorithmInfo = composite!(
    "MLDSA44-RSA2048-PKCS15-SHA256",
    ML_DSA_44,
    RSA_2048_PKCS1,
    "38",
    [1582, 1226, 2676]
);
pub(super) const MLDSA44_ED25519_SHA512: AlgorithmInfo =
    composite!("MLDSA44-Ed25519-SHA512", ML_DSA_44, ED25519, "39", [1344, 64, 2484]);
pub(super) const MLDSA44_ECDSA_P256_SHA256: AlgorithmInfo =
    composite!("MLDSA44-ECDSA-P256-SHA256", ML_DSA_44, ECDSA_P256, "40", [1377, 83, 2492]);
pub(super) const MLDSA65_RSA3072_PSS_SHA512: AlgorithmInfo =
    composite!("MLDSA65-RSA3072-PSS-SHA512", ML_DSA_65, RSA_3072_PSS, "41", [2350, 1802, 3693]);
pub(super) const MLDSA65_RSA3072_PKCS15_SHA512: AlgorithmInfo = composite!(
    "MLDSA65-RSA3072-PKCS15-SHA512",
    ML_DSA_65,
    RSA_3072_PKCS1,
    "42",
    [2350, 1802, 3693]
);
pub(super) const MLDSA65_RSA4096_PSS_SHA512: AlgorithmInfo =
    composite!("MLDSA65-RSA4096-PSS-SHA512", ML_DSA_65, RSA_4096_PSS, "43", [2478, 2383, 3821]);
pub(super) const MLDSA65_RSA4096_PKCS15_SHA512: AlgorithmInfo = composite!(
    "MLDSA65-RSA4096-PKCS15-SHA512",
    ML_DSA_65,
    RSA_4096_PKCS1,
    "44",
    [2478, 2383, 3821]
);
pub(super) const MLDSA65_ECDSA_P256_SHA512: AlgorithmInfo =
    composite!("MLDSA65-ECDSA-P256-SHA512", ML_DSA_65, ECDSA_P256, "45", [2017, 83, 3381]);
pub(super) const MLDSA65_ECDSA_P384_SHA512: AlgorithmInfo =
    composite!("MLDSA65-ECDSA-P384-SHA512", ML_DSA_65, ECDSA_P384, "46", [2049, 96, 3413]);
pub(super) const MLDSA65_ED25519_SHA512: AlgorithmInfo =
    composite!("MLDSA65-Ed25519-SHA512", ML_DSA_65, ED25519, "48", [1984, 64, 3373]);
pub(super) const MLDSA87_ECDSA_P384_SHA512: AlgorithmInfo =
    composite!("MLDSA87-ECDSA-P384-SHA512", ML_DSA_87, ECDSA_P384, "49", [2689, 96, 4731]);
pub(super) const MLDSA87_RSA3072_PSS_SHA512: AlgorithmInfo =
    composite!("MLDSA87-RSA3072-PSS-SHA512", ML_DSA_87, RSA_3072_PSS, "52", [2990, 1802, 5011]);
pub(super) const MLDSA87_RSA4096_PSS_SHA512: AlgorithmInfo =
    composite!("MLDSA87-RSA4096-PSS-SHA512", ML_DSA_87, RSA_4096_PSS, "53", [3118, 2383, 5139]);
pub(super) const MLDSA87_ECDSA_P521_SHA512: AlgorithmInfo =
    composite!("MLDSA87-ECDSA-P521-SHA512", ML_DSA_87, ECDSA_P521, "54", [2725, 114, 4766]);

/// The draft's other algorithms: name without `id-`, identifier, the missing component.
const REFUSED: [(&str, &str, &str); 3] = [
    ("MLDSA65-ECDSA-brainpoolP256r1-SHA512", "1.3.6.1.5.5.7.6.47", "ECDSA over brainpoolP256r1"),
    ("MLDSA87-ECDSA-brainpoolP384r1-SHA512", "1.3.6.1.5.5.7.6.50", "ECDSA over brainpoolP384r1"),
    ("MLDSA87-Ed448-SHAKE256", "1.3.6.1.5.5.7.6.51", "Ed448"),
];

/// Returns the missing component of an unsupported algorithm, if the text is one of its names.
pub(super) fn refused(text: &str) -> Option<&'static str> {
    let plain = text.strip_prefix("id-").unwrap_or(text);
    let plain = plain.strip_suffix("-draft19").unwrap_or(plain);
    let named = |row: &&(&str, &str, &str)| row.0.eq_ignore_ascii_case(plain) || row.1 == text;
    REFUSED.iter().find(named).map(|row| row.2)
}
