//! Conformance labels: the standards that a key and its uses promise to follow.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use gabion_engine::{Algorithm, Message, Prehash};
use serde::{Deserialize, Serialize};

use super::id::KeyAlgorithm;
use super::rsa::Rsa;
use super::symmetric::Symmetric;
use crate::error::Error;
use crate::rsa::Scheme;

/// A conformance label. A key gets its labels when it is created, and descriptions of the key
/// include them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Conformance {
    /// The CNSA 2.0 algorithms: ML-KEM-1024, ML-DSA-87, AES-256-GCM, HMAC with SHA-384 or SHA-512.
    Cnsa2,
    /// Algorithms that FIPS standards approve. This is no statement about the module that runs
    /// them.
    FipsAlg,
    /// The key is held in software, as every key of this service.
    Software,
}

/// The minimum size of a symmetric `cnsa2` key in bytes: that of its AES (CNSA 2.0, 256 bits). The
/// strength of an HMAC key is limited by its length; the hash alone is strong enough (NIST SP
/// 800-107r1, section 5.3.4).
const CNSA2_SECRET_MIN: usize = 32;

/// The labels of a key.
pub type Conformances = BTreeSet<Conformance>;

impl Conformance {
    const ALL: [Conformance; 3] = [Conformance::Cnsa2, Conformance::FipsAlg, Conformance::Software];

    /// Returns the label's text.
    pub fn as_str(self) -> &'static str {
        match self {
            Conformance::Cnsa2 => "cnsa2",
            Conformance::FipsAlg => "fips-alg",
            Conformance::Software => "software",
        }
    }

    /// Returns whether the label requires uses that a standard defines.
    pub fn is_of_standards(self) -> bool {
        match self {
            Conformance::Cnsa2 | Conformance::FipsAlg => true,
            Conformance::Software => false,
        }
    }

    /// Rejects an algorithm that does not conform.
    ///
    /// # Errors
    /// [`Error::Unsupported`].
    pub fn check(self, algorithm: KeyAlgorithm) -> Result<(), Error> {
        let conforms = match (self, algorithm.algorithm(), algorithm.symmetric()) {
            (Conformance::Software, _, _) => true,
            (Conformance::Cnsa2, Some(pair), _) => {
                matches!(pair, Algorithm::MlKem1024 | Algorithm::MlDsa87)
            }
            (Conformance::FipsAlg, Some(pair), _) => {
                let standard = pair.info().standard;
                // FIPS 186-5 adopts Ed25519 from RFC 8032.
                pair == Algorithm::Ed25519
                    || ["FIPS 203", "FIPS 204", "FIPS 205", "FIPS 186-5"].contains(&standard)
            }
            (Conformance::Cnsa2, None, Some(symmetric)) => matches!(
                symmetric,
                Symmetric::Aes256Gcm96 | Symmetric::HmacSha384 | Symmetric::HmacSha512
            ),
            (Conformance::FipsAlg, None, Some(symmetric)) => matches!(
                symmetric,
                Symmetric::Aes256Gcm96
                    | Symmetric::HmacSha256
                    | Symmetric::HmacSha384
                    | Symmetric::HmacSha512
            ),
            // FIPS 186-5 approves its signatures, NIST SP 800-56B its OAEP.
            (Conformance::FipsAlg, None, None) => algorithm.rsa().is_some(),
            (Conformance::Cnsa2, None, None) => false,
        };
        match conforms {
            true => Ok(()),
            false => Err(Error::Unsupported(format!("{algorithm} does not conform to `{self}`"))),
        }
    }

    /// Rejects an imported key that does not conform. For a symmetric key, `len` is its size in
    /// bytes.
    ///
    /// # Errors
    /// [`Error::Unsupported`].
    pub fn check_imported(
        self,
        algorithm: KeyAlgorithm,
        secret_len: Option<usize>,
    ) -> Result<(), Error> {
        self.check(algorithm)?;
        match (self, secret_len) {
            (Conformance::Cnsa2, Some(len)) if len < CNSA2_SECRET_MIN => {
                Err(Error::Unsupported(format!(
                    "a key of {len} bytes does not conform to `{self}`; expected {CNSA2_SECRET_MIN} or more"
                )))
            }
            _ => Ok(()),
        }
    }

    /// Rejects a message whose form a key of the algorithm may not sign.
    ///
    /// # Errors
    /// [`Error::Unsupported`].
    pub fn check_message(
        self,
        algorithm: KeyAlgorithm,
        message: &Message<'_>,
    ) -> Result<(), Error> {
        let Message::Prehash { hash, .. } = message else { return Ok(()) };
        let conforms = match self {
            Conformance::Cnsa2 => matches!(hash, Prehash::Sha2_384 | Prehash::Sha2_512),
            Conformance::FipsAlg => is_strong_enough(algorithm, *hash),
            Conformance::Software => true,
        };
        if conforms { Ok(()) } else { Err(self.weak_digest(algorithm, *hash)) }
    }

    fn weak_digest(self, algorithm: KeyAlgorithm, hash: Prehash) -> Error {
        Error::Unsupported(format!(
            "a digest by {} does not conform to `{self}` for a key of {algorithm}; use SHA2-512",
            hash.name()
        ))
    }

    /// Returns the scheme with which an RSA key signs a digest. If the length of the salt is left
    /// to the service, it is that of the digest.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a salt that is longer than the digest (FIPS 186-5, 5.4), and for
    /// a hash that is weaker than the key.
    pub fn conforming_scheme(
        self,
        algorithm: KeyAlgorithm,
        scheme: Scheme,
    ) -> Result<Scheme, Error> {
        let hash = scheme.hash().prehash();
        if self == Conformance::FipsAlg && !is_strong_enough(algorithm, hash) {
            return Err(self.weak_digest(algorithm, hash));
        }
        match (self, scheme) {
            (Conformance::FipsAlg, Scheme::Pss { hash, salt: None }) => {
                Ok(Scheme::Pss { hash, salt: Some(hash.digest_len()) })
            }
            (Conformance::FipsAlg, Scheme::Pss { hash, salt: Some(salt) })
                if salt > hash.digest_len() =>
            {
                let most = hash.digest_len();
                Err(Error::Unsupported(format!(
                    "a salt of {salt} bytes does not conform to `{self}`; expected at most {most}, as many as the digest has"
                )))
            }
            (Conformance::FipsAlg | Conformance::Cnsa2 | Conformance::Software, scheme) => {
                Ok(scheme)
            }
        }
    }
}

/// Returns whether the collision resistance of a hash matches the strength of a key that signs its
/// digests.
fn is_strong_enough(algorithm: KeyAlgorithm, hash: Prehash) -> bool {
    let needed = match (algorithm.algorithm(), algorithm.rsa()) {
        (Some(algorithm), _) => prehash_strength(algorithm),
        (None, Some(Rsa::Rsa2048)) => Some(112),
        (None, Some(Rsa::Rsa3072 | Rsa::Rsa4096)) => Some(128),
        (None, None) => None,
    };
    collision_strength(hash) >= needed.unwrap_or(0)
}

/// Returns the collision resistance in bits that a signed digest needs: that of the parameter set
/// (FIPS 204, 5.4; FIPS 205, 10.2) or of the curve (NIST SP 800-57 Part 1, tables 2 and 3; by FIPS
/// 186-5, a weaker hash weakens the signature). `None` if the algorithm's standard requires none.
fn prehash_strength(algorithm: Algorithm) -> Option<u32> {
    let name = algorithm.name();
    match algorithm {
        Algorithm::MlDsa44 | Algorithm::EcdsaP256 => Some(128),
        Algorithm::MlDsa65 | Algorithm::EcdsaP384 => Some(192),
        Algorithm::MlDsa87 | Algorithm::EcdsaP521 => Some(256),
        _ if name.starts_with("SLH-DSA-") => {
            [("-128", 128), ("-192", 192), ("-256", 256)].into_iter().find_map(|(size, bits)| {
                (name.ends_with(&format!("{size}s")) || name.ends_with(&format!("{size}f")))
                    .then_some(bits)
            })
        }
        _ => None,
    }
}

/// Returns the collision resistance of a hash in bits (NIST SP 800-107r1, 4.2; FIPS 202, A.1).
fn collision_strength(hash: Prehash) -> u32 {
    match hash {
        Prehash::Sha2_224 | Prehash::Sha2_512_224 | Prehash::Sha3_224 => 112,
        Prehash::Sha2_256 | Prehash::Sha2_512_256 | Prehash::Sha3_256 | Prehash::Shake128 => 128,
        Prehash::Sha2_384 | Prehash::Sha3_384 => 192,
        Prehash::Sha2_512 | Prehash::Sha3_512 | Prehash::Shake256 => 256,
        // An unknown hash is not trusted.
        _ => 0,
    }
}

impl fmt::Display for Conformance {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

impl FromStr for Conformance {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let found = Self::ALL.into_iter().find(|known| known.as_str() == text);
        found.ok_or_else(|| match text {
            "hsm" | "fips-module" => Error::Unsupported(format!(
                "`{text}` is not available: keys are held in software, outside of validated modules"
            )),
            _ => Error::Parameter(format!(
                "unknown conformance label `{text}`; expected cnsa2, fips-alg or software"
            )),
        })
    }
}

impl TryFrom<String> for Conformance {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

impl From<Conformance> for String {
    fn from(label: Conformance) -> Self {
        label.as_str().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_label_has_its_algorithms() {
        let conforming = |label: Conformance| -> Vec<&str> {
            KeyAlgorithm::all().filter(|&it| label.check(it).is_ok()).map(|it| it.name()).collect()
        };
        assert_eq!(
            conforming(Conformance::Cnsa2),
            ["ML-KEM-1024", "ML-DSA-87", "aes256-gcm96", "hmac-sha-384", "hmac-sha-512"]
        );
        let fips = conforming(Conformance::FipsAlg);
        for yes in
            ["ML-KEM-768", "ML-DSA-44", "SLH-DSA-SHAKE-128f", "ECDSA-P-256", "Ed25519", "rsa-3072"]
        {
            assert!(fips.contains(&yes), "{yes}: {fips:?}");
        }
        for no in ["Ed25519-ZIP215", "FN-DSA-512-draft", "X-Wing", "xaes-256-gcm"] {
            assert!(!fips.contains(&no), "{no}: {fips:?}");
        }
        assert!(!fips.iter().any(|name| name.contains("MLDSA") || name.contains("MLKEM")));
        assert_eq!(conforming(Conformance::Software).len(), KeyAlgorithm::all().count());
    }

    #[test]
    fn digests_are_as_strong_as_the_parameter_set() {
        let refused = |label: Conformance, algorithm: &str| -> Vec<&str> {
            let algorithm = algorithm.parse().unwrap();
            let check = |hash: Prehash| {
                let digest = vec![0; hash.digest_len()];
                let message = Message::Prehash { context: b"", hash, digest: &digest };
                label.check_message(algorithm, &message)
            };
            Prehash::all().filter(|&hash| check(hash).is_err()).map(Prehash::name).collect()
        };
        let weak = ["SHA2-224", "SHA2-512/224", "SHA3-224"];
        let medium = ["SHA2-256", "SHA2-512/256", "SHA3-256", "SHAKE-128"];
        let fips = |algorithm| refused(Conformance::FipsAlg, algorithm).len();
        for (algorithm, most) in [
            ("ml-dsa-44", weak.len()),
            ("slh-dsa-sha2-128s", weak.len()),
            ("slh-dsa-shake-128f", weak.len()),
            ("ml-dsa-65", weak.len() + medium.len()),
            ("slh-dsa-sha2-192f", weak.len() + medium.len()),
            ("ml-dsa-87", 9),
            ("slh-dsa-shake-256s", 9),
            ("ecdsa-p-256", weak.len()),
            ("ecdsa-p-384", weak.len() + medium.len()),
            ("ecdsa-p-521", 9),
            ("rsa-2048", 0),
            ("rsa-3072", weak.len()),
            ("rsa-4096", weak.len()),
        ] {
            assert_eq!(fips(algorithm), most, "{algorithm}");
        }
        assert_eq!(refused(Conformance::FipsAlg, "ml-dsa-44"), weak);
        assert_eq!(refused(Conformance::Cnsa2, "ml-dsa-87").len(), 10);
        assert!(refused(Conformance::Software, "ml-dsa-87").is_empty());
    }

    #[test]
    fn salts_are_as_long_as_the_digest_at_most() {
        use crate::rsa::Hash;
        let [small, large] = ["rsa-2048", "rsa-3072"].map(|name| name.parse().unwrap());
        for hash in Hash::ALL {
            let len = hash.digest_len();
            let pss = |salt| Scheme::Pss { hash, salt };
            let fips = |salt| Conformance::FipsAlg.conforming_scheme(small, pss(salt));
            assert_eq!(fips(None), Ok(pss(Some(len))));
            assert_eq!((fips(Some(0)), fips(Some(len))), (Ok(pss(Some(0))), Ok(pss(Some(len)))));
            assert!(fips(Some(len + 1)).is_err());
            assert_eq!(Conformance::Software.conforming_scheme(small, pss(None)), Ok(pss(None)));
            let pkcs1 = Scheme::Pkcs1 { hash };
            assert_eq!(Conformance::FipsAlg.conforming_scheme(small, pkcs1), Ok(pkcs1));
            for scheme in [pkcs1, pss(Some(0))] {
                let fits = Conformance::FipsAlg.conforming_scheme(large, scheme).is_ok();
                assert_eq!(fits, len > 28, "{hash:?}");
            }
        }
    }

    #[test]
    fn a_label_is_read_as_it_is_written() {
        for label in Conformance::ALL {
            assert_eq!(label.to_string().parse(), Ok(label));
        }
        for (bad, says) in [("hsm", "software"), ("fips-module", "software"), ("CNSA2", "expected")]
        {
            let error = bad.parse::<Conformance>().unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
