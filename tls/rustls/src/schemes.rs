//! The TLS signature schemes of keys.

use gabion_engine::Algorithm;
use rustls::{SignatureAlgorithm, SignatureScheme};

/// The algorithms that this crate signs with, and their schemes.
pub(crate) const OURS: [(Algorithm, SignatureScheme); 6] = [
    (Algorithm::MlDsa44, SignatureScheme::ML_DSA_44),
    (Algorithm::MlDsa65, SignatureScheme::ML_DSA_65),
    (Algorithm::MlDsa87, SignatureScheme::ML_DSA_87),
    (Algorithm::Ed25519, SignatureScheme::ED25519),
    (Algorithm::EcdsaP256, SignatureScheme::ECDSA_NISTP256_SHA256),
    (Algorithm::EcdsaP384, SignatureScheme::ECDSA_NISTP384_SHA384),
];

/// Returns the scheme of an algorithm that this crate signs with.
pub(crate) fn scheme_of(algorithm: Algorithm) -> Option<SignatureScheme> {
    OURS.iter().find(|(ours, _)| *ours == algorithm).map(|(_, scheme)| *scheme)
}

/// Returns the signature algorithm by which TLS 1.2 chooses its cipher suite. No cipher suite
/// supports ML-DSA.
pub(crate) fn algorithm_of(scheme: SignatureScheme) -> SignatureAlgorithm {
    match scheme {
        SignatureScheme::ED25519 => SignatureAlgorithm::ED25519,
        SignatureScheme::ECDSA_NISTP256_SHA256
        | SignatureScheme::ECDSA_NISTP384_SHA384
        | SignatureScheme::ECDSA_NISTP521_SHA512 => SignatureAlgorithm::ECDSA,
        SignatureScheme::RSA_PSS_SHA256
        | SignatureScheme::RSA_PSS_SHA384
        | SignatureScheme::RSA_PSS_SHA512
        | SignatureScheme::RSA_PKCS1_SHA256
        | SignatureScheme::RSA_PKCS1_SHA384
        | SignatureScheme::RSA_PKCS1_SHA512 => SignatureAlgorithm::RSA,
        _ => SignatureAlgorithm::Unknown(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes_are_those_of_the_table() {
        for (algorithm, scheme) in OURS {
            let number = algorithm.info().tls.unwrap().number;
            assert_eq!(u16::from(scheme), number, "{algorithm}");
        }
    }
}
