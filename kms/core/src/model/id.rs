//! Ids of keys and versions.

use std::fmt;
use std::str::FromStr;

use gabion_engine::{ALGORITHMS, Algorithm, Kind};
use serde::{Deserialize, Serialize};

use super::name::Label;
use super::rsa::Rsa;
use super::symmetric::Symmetric;
use crate::error::Error;

/// An algorithm of keys. Ids use its standard's name in lower case. A key's algorithm never
/// changes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KeyAlgorithm(AlgorithmKind);

#[derive(Clone, Copy, PartialEq, Eq)]
enum AlgorithmKind {
    Engine(Algorithm),
    Symmetric(Symmetric),
    Rsa(Rsa),
}

/// The operations that keys of an algorithm support.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// Sign and verify.
    Sign,
    /// Encapsulate and decapsulate.
    Encapsulate,
    /// Encrypt and decrypt.
    Encrypt,
    /// Make and verify tags.
    Authenticate,
    /// Sign and verify, and encrypt and decrypt: RSA.
    SignAndEncrypt,
}

/// The unique part of a key's id: 16 bytes, a random UUID (RFC 9562, version 4).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid([u8; 16]);

/// The id of a key: `tenant/purpose/algorithm/uuid`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KeyId {
    /// The tenant.
    pub tenant: Label,
    /// The purpose.
    pub purpose: Label,
    /// The algorithm.
    pub algorithm: KeyAlgorithm,
    /// The UUID.
    pub uuid: Uuid,
}

/// The id of a version: `tenant/purpose/algorithm/uuid#vN`. The text form is canonical: other
/// spellings are rejected.
///
/// # Examples
/// ```
/// use gabion_kms::model::VersionId;
///
/// let text = "default/transit/ml-dsa-65/0192b1c4-5f6e-4d7a-8b9c-0d1e2f3a4b5c#v7";
/// let id: VersionId = text.parse()?;
/// assert_eq!((id.version, id.to_string().as_str()), (7, text));
/// assert!(text.to_uppercase().parse::<VersionId>().is_err());
/// # Ok::<(), gabion_kms::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct VersionId {
    /// The key.
    pub key: KeyId,
    /// The version's number, from 1.
    pub version: u32,
}

impl KeyAlgorithm {
    /// Wraps an engine algorithm that keys may have: KEMs, and signature algorithms without state.
    ///
    /// # Errors
    /// [`Error::Unsupported`].
    pub fn new(algorithm: Algorithm) -> Result<Self, Error> {
        let info = algorithm.info();
        match info.kind {
            Kind::Signature | Kind::Kem if !info.stateful => {
                Ok(KeyAlgorithm(AlgorithmKind::Engine(algorithm)))
            }
            Kind::Signature | Kind::Kem | Kind::KeyExchange => Err(Error::Unsupported(format!(
                "keys of {algorithm} are not supported; expected a KEM, or a stateless signature algorithm"
            ))),
        }
    }

    /// Returns all algorithms.
    pub fn all() -> impl Iterator<Item = KeyAlgorithm> {
        let symmetric = Symmetric::ALL.into_iter().map(KeyAlgorithm::from);
        let rsa = Rsa::ALL.into_iter().map(KeyAlgorithm::from);
        let of_engine = Algorithm::all().filter_map(|algorithm| Self::new(algorithm).ok());
        of_engine.chain(symmetric).chain(rsa)
    }

    /// Finds an algorithm by a name that a user typed, ignoring case and hyphens, so that
    /// `ecdsa-p256` and `ML-DSA-65` are found. Ids accept only the canonical name, which
    /// [`str::parse`] reads.
    ///
    /// # Errors
    /// [`Error::Unsupported`], which lists similar names, or all names.
    pub fn named(text: &str) -> Result<Self, Error> {
        let wanted = letters(text);
        if let Some(found) = Self::all().find(|known| letters(known.name()) == wanted) {
            return Ok(found);
        }
        let (text, names) = (shown(text), similar(&wanted).join(", "));
        Err(Error::Unsupported(format!("unknown algorithm `{text}`; expected one of {names}")))
    }

    /// Returns the engine's algorithm, if it is one.
    pub fn algorithm(self) -> Option<Algorithm> {
        match self.0 {
            AlgorithmKind::Engine(algorithm) => Some(algorithm),
            AlgorithmKind::Symmetric(_) | AlgorithmKind::Rsa(_) => None,
        }
    }

    /// Returns the symmetric algorithm, if it is one.
    pub fn symmetric(self) -> Option<Symmetric> {
        match self.0 {
            AlgorithmKind::Engine(_) | AlgorithmKind::Rsa(_) => None,
            AlgorithmKind::Symmetric(symmetric) => Some(symmetric),
        }
    }

    /// Returns the size, if it is RSA.
    pub fn rsa(self) -> Option<Rsa> {
        match self.0 {
            AlgorithmKind::Engine(_) | AlgorithmKind::Symmetric(_) => None,
            AlgorithmKind::Rsa(rsa) => Some(rsa),
        }
    }

    /// Returns the operations that its keys support.
    pub fn does(self) -> Capability {
        match self.0 {
            AlgorithmKind::Engine(algorithm) if algorithm.info().kind == Kind::Kem => {
                Capability::Encapsulate
            }
            AlgorithmKind::Engine(_) => Capability::Sign,
            AlgorithmKind::Symmetric(symmetric) if symmetric.is_aead() => Capability::Encrypt,
            AlgorithmKind::Symmetric(_) => Capability::Authenticate,
            AlgorithmKind::Rsa(_) => Capability::SignAndEncrypt,
        }
    }

    /// Returns the name as its standard writes it.
    pub fn name(self) -> &'static str {
        match self.0 {
            AlgorithmKind::Engine(algorithm) => algorithm.name(),
            AlgorithmKind::Symmetric(symmetric) => symmetric.name(),
            AlgorithmKind::Rsa(rsa) => rsa.name(),
        }
    }

    /// Returns the algorithm's index among all possible ones, for counters.
    pub(crate) fn place(self) -> usize {
        match self.0 {
            AlgorithmKind::Engine(algorithm) => algorithm as usize,
            AlgorithmKind::Symmetric(symmetric) => ALGORITHMS.len() + symmetric as usize,
            AlgorithmKind::Rsa(rsa) => ALGORITHMS.len() + Symmetric::ALL.len() + rsa as usize,
        }
    }
}

impl From<Symmetric> for KeyAlgorithm {
    fn from(symmetric: Symmetric) -> Self {
        KeyAlgorithm(AlgorithmKind::Symmetric(symmetric))
    }
}

impl From<Rsa> for KeyAlgorithm {
    fn from(rsa: Rsa) -> Self {
        KeyAlgorithm(AlgorithmKind::Rsa(rsa))
    }
}

/// Returns the names that contain `wanted`; otherwise those with the longest common prefix of four
/// letters or more; otherwise all. `wanted` is in the form of [`letters`].
fn similar(wanted: &str) -> Vec<String> {
    let common = |known: &KeyAlgorithm| {
        let name = letters(known.name());
        if name.contains(wanted) {
            return usize::MAX;
        }
        let same = name.chars().zip(wanted.chars()).take_while(|(a, b)| a == b).count();
        if same < 4 { 0 } else { same }
    };
    let most = KeyAlgorithm::all().map(|known| common(&known)).max().unwrap_or(0);
    KeyAlgorithm::all()
        .filter(|known| common(known) == most)
        .map(|known| known.to_string())
        .collect()
}

/// Returns a name without the parts that users spell differently.
fn letters(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|of| of.to_ascii_lowercase()).collect()
}

impl fmt::Display for KeyAlgorithm {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.name().to_ascii_lowercase())
    }
}

impl FromStr for KeyAlgorithm {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::all().find(|known| known.to_string() == text).ok_or_else(|| {
            Error::Unsupported(format!(
                "unknown algorithm `{}`; expected an algorithm's name in lower case, such as ml-dsa-65 or xaes-256-gcm",
                shown(text)
            ))
        })
    }
}

impl fmt::Debug for KeyAlgorithm {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

impl Uuid {
    /// Creates a UUID from 16 random bytes, by setting six bits.
    pub fn of_random(mut bytes: [u8; 16]) -> Self {
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        Uuid(bytes)
    }

    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, byte) in self.0.iter().enumerate() {
            let dash = if [4, 6, 8, 10].contains(&place) { "-" } else { "" };
            write!(out, "{dash}{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

impl FromStr for Uuid {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let digits: Vec<u8> = text.bytes().filter(|&byte| byte != b'-').collect();
        let mut bytes = [0; 16];
        if digits.len() == 2 * bytes.len() {
            for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
                let pair = std::str::from_utf8(pair).unwrap_or_default();
                *byte = u8::from_str_radix(pair, 16).unwrap_or_default();
            }
        }
        // A misread text is written differently.
        let uuid = Self::of_random(bytes);
        if uuid.to_string() == text { Ok(uuid) } else { Err(Error::KeyId(shown(text))) }
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}/{}/{}", self.tenant, self.purpose, self.algorithm, self.uuid)
    }
}

impl FromStr for KeyId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let refused = || Error::KeyId(shown(text));
        let parts: Vec<&str> = text.split('/').collect();
        let [tenant, purpose, algorithm, uuid] = parts[..] else { return Err(refused()) };
        Ok(KeyId {
            tenant: Label::new("tenant", tenant).map_err(|_| refused())?,
            purpose: Label::new("purpose", purpose).map_err(|_| refused())?,
            algorithm: algorithm.parse().map_err(|_| refused())?,
            uuid: uuid.parse().map_err(|_| refused())?,
        })
    }
}

impl fmt::Display for VersionId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}#v{}", self.key, self.version)
    }
}

impl FromStr for VersionId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let refused = || Error::KeyId(shown(text));
        let (key, version) = text.split_once("#v").ok_or_else(refused)?;
        let is_number =
            version.bytes().all(|byte| byte.is_ascii_digit()) && !version.starts_with('0');
        let version = version.parse().ok().filter(|_| is_number).ok_or_else(refused)?;
        Ok(VersionId { key: key.parse().map_err(|_| refused())?, version })
    }
}

/// Implements the conversions between a type and its text that serde needs.
macro_rules! as_text {
    ($($id:ident)*) => {$(
        impl TryFrom<String> for $id {
            type Error = Error;

            fn try_from(text: String) -> Result<Self, Error> {
                text.parse()
            }
        }

        impl From<$id> for String {
            fn from(id: $id) -> Self {
                id.to_string()
            }
        }
    )*};
}

as_text!(KeyId VersionId);

/// Returns a text, shortened for messages.
fn shown(text: &str) -> String {
    text.chars().take(300).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn algorithms_are_found_by_the_names_that_people_type() {
        for known in KeyAlgorithm::all() {
            // No two names differ only by hyphens or case.
            let same = |other: &KeyAlgorithm| letters(other.name()) == letters(known.name());
            assert_eq!(KeyAlgorithm::all().filter(same).count(), 1, "{known}");
            assert_eq!(KeyAlgorithm::named(known.name()).unwrap(), known);
            assert_eq!(KeyAlgorithm::named(&known.to_string()).unwrap(), known);
        }
        for (typed, wanted) in [
            ("ecdsa-p256", "ecdsa-p-256"),
            ("ECDSA-P521", "ecdsa-p-521"),
            ("mldsa65", "ml-dsa-65"),
            ("aes-256-gcm-96", "aes256-gcm96"),
            ("rsa2048", "rsa-2048"),
        ] {
            assert_eq!(KeyAlgorithm::named(typed).unwrap().to_string(), wanted);
        }
        for (typed, says) in [
            ("ml-dsa", "ml-dsa-44"),
            ("aes-256", "aes256-gcm96"),
            ("ecdsa", "ecdsa-p-384"),
            ("", "ed25519"),
            ("md5", "xaes-256-gcm"),
            ("ml-dsa-43", "ml-dsa-44"),
            ("ecdsa-p255", "ecdsa-p-256"),
        ] {
            let why = KeyAlgorithm::named(typed).unwrap_err().to_string();
            assert!(
                why.contains(&format!("unknown algorithm `{typed}`")) && why.contains(says),
                "{why}"
            );
        }
        for typed in ["aes-256", "ml-dsa-43", "ecdsa-p255"] {
            let few = KeyAlgorithm::named(typed).unwrap_err().to_string();
            assert!(!few.contains("ml-dsa-65"), "{few}");
        }
    }
}
