//! Ids of keys and of their versions.

use std::fmt;
use std::str::FromStr;

use gabion_engine::{Algorithm, Kind};
use serde::{Deserialize, Serialize};

use super::name::Label;
use crate::error::Error;

/// An algorithm that a key may have: its standard's name in lower case is how ids spell it. It never changes in the
/// life of a key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KeyAlgorithm(Algorithm);

/// What tells a key from all others: 16 random bytes in the form of RFC 9562, version 4.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid([u8; 16]);

/// A key: `tenant/purpose/algorithm/uuid`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KeyId {
    /// Whose it is.
    pub tenant: Label,
    /// What it is for.
    pub purpose: Label,
    /// What it does.
    pub algorithm: KeyAlgorithm,
    /// Which one it is.
    pub uuid: Uuid,
}

/// A version of a key: `tenant/purpose/algorithm/uuid#vN`. Every text is one and is written like that again, or is
/// refused.
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
    /// Which version, from 1.
    pub version: u32,
}

impl KeyAlgorithm {
    /// Takes an algorithm that keys may have: those that sign, and stay what they are while they do.
    ///
    /// # Errors
    /// [`Error::Unsupported`].
    pub fn new(algorithm: Algorithm) -> Result<Self, Error> {
        let info = algorithm.info();
        match info.kind {
            Kind::Signature if !info.stateful => Ok(KeyAlgorithm(algorithm)),
            Kind::Signature | Kind::Kem | Kind::KeyExchange => Err(Error::Unsupported(format!(
                "there are no keys of {algorithm} yet; expected a signature algorithm whose keys signing does not use up"
            ))),
        }
    }

    /// Every one.
    pub fn all() -> impl Iterator<Item = KeyAlgorithm> {
        Algorithm::all().filter_map(|algorithm| Self::new(algorithm).ok())
    }

    /// The engine's.
    pub fn algorithm(self) -> Algorithm {
        self.0
    }
}

impl fmt::Display for KeyAlgorithm {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0.name().to_ascii_lowercase())
    }
}

impl FromStr for KeyAlgorithm {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::all().find(|known| known.to_string() == text).ok_or_else(|| {
            Error::Unsupported(format!(
                "there are no keys of `{}`; expected a signature algorithm's name in lower case, such as ml-dsa-65",
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
    /// Makes one of 16 random bytes, six bits of which say that it is one.
    pub fn of_random(mut bytes: [u8; 16]) -> Self {
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        Uuid(bytes)
    }

    /// The bytes.
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
        // Whatever was misread is written in another way.
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

/// Gives serde the texts.
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

/// As much of a text as belongs into a message.
fn shown(text: &str) -> String {
    text.chars().take(300).collect()
}
