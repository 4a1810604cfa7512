//! JOSE names of algorithms.

use gabion_engine::Algorithm;

use super::id::KeyAlgorithm;
use crate::error::Error;

/// The JOSE names of an algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JoseNames {
    /// The type of its keys in a JWK (RFC 7517, section 4.1).
    pub kty: &'static str,
    /// The algorithm of its signatures in a JWS (RFC 7515, section 4.1.1).
    pub alg: &'static str,
}

impl KeyAlgorithm {
    /// Returns the JOSE names of the algorithm, or `None` if JOSE does not name it.
    pub fn jose(self) -> Option<JoseNames> {
        if self.rsa().is_some() {
            // RFC 7518, 3.5. This is the default scheme of RSA keys.
            return Some(JoseNames { kty: "RSA", alg: "PS256" });
        }
        let (kty, alg) = match self.algorithm()? {
            // RFC 9864 names it `Ed25519`, but libraries know the name of RFC 8037.
            Algorithm::Ed25519 => ("OKP", "EdDSA"),
            Algorithm::EcdsaP256 => ("EC", "ES256"),
            Algorithm::EcdsaP384 => ("EC", "ES384"),
            Algorithm::EcdsaP521 => ("EC", "ES512"),
            // RFC 9964 defines the three of ML-DSA, draft-ietf-cose-sphincs-plus-09 three of
            // SLH-DSA.
            algorithm => match algorithm.name() {
                name @ ("ML-DSA-44" | "ML-DSA-65" | "ML-DSA-87" | "SLH-DSA-SHA2-128s"
                | "SLH-DSA-SHAKE-128s" | "SLH-DSA-SHA2-128f") => ("AKP", name),
                _ => return None,
            },
        };
        Some(JoseNames { kty, alg })
    }

    /// Returns the `alg` of the JSON Web Tokens that its keys sign. Only registered names count;
    /// SLH-DSA lacks one.
    ///
    /// # Errors
    /// [`Error::Unsupported`].
    pub fn jwt_alg(self) -> Result<&'static str, Error> {
        let names = self.jose().filter(|names| !names.alg.starts_with("SLH-DSA"));
        names.map(|names| names.alg).ok_or_else(|| {
            Error::Unsupported(format!(
                "{self} does not sign JSON Web Tokens; expected a key of ed25519, ecdsa-p-256, ecdsa-p-384, ecdsa-p-521, \
                 ml-dsa-44, ml-dsa-65, ml-dsa-87 or RSA"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_have_registered_algorithms() {
        let of = |algorithm: KeyAlgorithm| algorithm.jwt_alg().ok();
        let all: Vec<_> = KeyAlgorithm::all().filter_map(of).collect();
        let wanted =
            ["EdDSA", "ES256", "ES384", "ES512", "ML-DSA-44", "ML-DSA-65", "ML-DSA-87", "PS256"];
        let mut found = all.clone();
        found.sort_unstable();
        found.dedup();
        let mut sorted = wanted.to_vec();
        sorted.sort_unstable();
        assert_eq!(found, sorted);
        // RSA has three sizes.
        assert_eq!(all.len(), wanted.len() + 2);
        for other in ["slh-dsa-sha2-128s", "hmac-sha-256", "ml-kem-768", "ed25519-zip215"] {
            let refused = other.parse::<KeyAlgorithm>().map(KeyAlgorithm::jwt_alg);
            assert!(matches!(refused, Ok(Err(Error::Unsupported(_))) | Err(_)), "{other}");
        }
    }
}
