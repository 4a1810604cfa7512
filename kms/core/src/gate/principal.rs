//! What somebody is called who was authenticated.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// Most bytes of a principal: a token has one byte for the length.
const LEN_MAX: usize = 255;

/// Somebody: 1 to 255 of `0-9 A-Z a-z _ . : / @ + -`, such as `ci@example.com` or `spiffe://example.com/build`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Principal(String);

impl Principal {
    /// Takes a name.
    ///
    /// # Errors
    /// [`Error::Name`].
    pub fn new(text: &str) -> Result<Self, Error> {
        let is_one = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:/@+-".contains(&byte);
        match (1..=LEN_MAX).contains(&text.len()) && text.bytes().all(is_one) {
            true => Ok(Principal(text.to_owned())),
            false => Err(Error::Name {
                what: "principal",
                text: text.chars().take(LEN_MAX).collect(),
                expected: "1 to 255 of 0-9 A-Z a-z _ . : / @ + -",
            }),
        }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl TryFrom<String> for Principal {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        Principal::new(&text)
    }
}

impl From<Principal> for String {
    fn from(principal: Principal) -> Self {
        principal.0
    }
}
