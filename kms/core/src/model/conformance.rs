//! What a key promises to conform to: what it may be, and what may be done with it.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use gabion_engine::{Algorithm, Message, Prehash};
use serde::{Deserialize, Serialize};

use super::id::KeyAlgorithm;
use super::symmetric::Symmetric;
use crate::error::Error;

/// A label of conformance. A key has it from its making on, and whoever describes the key says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Conformance {
    /// The algorithms of CNSA 2.0 that there are here: ML-KEM-1024, ML-DSA-87, AES-256-GCM, HMAC with SHA-384 or SHA-512.
    Cnsa2,
    /// Algorithms that FIPS standards approve. It says nothing of the module that computes.
    FipsAlg,
    /// The key is held in software, as every key here is.
    Software,
}

/// Fewest bytes of a symmetric key of `cnsa2`: as many as its AES has (CNSA 2.0, 256 bits). An HMAC's key is at least as strong as
/// that by its hash alone (NIST SP 800-107r1, section 5.3.4), and no stronger than it is long.
const CNSA2_SECRET_MIN: usize = 32;

/// The labels of a key.
pub type Conformances = BTreeSet<Conformance>;

impl Conformance {
    const ALL: [Conformance; 3] = [Conformance::Cnsa2, Conformance::FipsAlg, Conformance::Software];

    /// How it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Conformance::Cnsa2 => "cnsa2",
            Conformance::FipsAlg => "fips-alg",
            Conformance::Software => "software",
        }
    }

    /// Whether what a key does must be in a standard.
    pub fn is_of_standards(self) -> bool {
        match self {
            Conformance::Cnsa2 | Conformance::FipsAlg => true,
            Conformance::Software => false,
        }
    }

    /// Refuses an algorithm that does not conform.
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
                // FIPS 186-5 takes Ed25519 over from RFC 8032.
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
            // FIPS 186-5 has its signatures, NIST SP 800-56B its OAEP.
            (Conformance::FipsAlg, None, None) => algorithm.rsa().is_some(),
            (Conformance::Cnsa2, None, None) => false,
        };
        match conforms {
            true => Ok(()),
            false => Err(Error::Unsupported(format!("{algorithm} does not conform to `{self}`"))),
        }
    }

    /// Refuses a key that somebody brings and that does not conform; of a symmetric one, its bytes are so many.
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

    /// Refuses a message whose form does not conform.
    ///
    /// # Errors
    /// [`Error::Unsupported`].
    pub fn check_message(self, message: &Message<'_>) -> Result<(), Error> {
        match (self, message) {
            (Conformance::Cnsa2, Message::Prehash { hash, .. })
                if !matches!(hash, Prehash::Sha2_384 | Prehash::Sha2_512) =>
            {
                let hash = hash.name();
                Err(Error::Unsupported(format!("a digest by {hash} does not conform to `{self}`")))
            }
            _ => Ok(()),
        }
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
                "no key here is `{text}`: keys are held in software, by no validated module"
            )),
            _ => Error::Parameter(format!(
                "`{text}` is no label of conformance; expected cnsa2, fips-alg or software"
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
