//! Names of keys, tenants and purposes.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// The maximum length of a name in bytes.
pub const NAME_MAX: usize = 64;

/// A name, in the charset of Vault's key names: `\w(([\w-.]+)?\w)?`, where `\w` is `0-9A-Za-z_`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Label(String);

impl Label {
    /// Validates a name. `what` is its kind, for the error message.
    ///
    /// # Errors
    /// [`Error::Name`].
    pub fn new(what: &'static str, text: &str) -> Result<Self, Error> {
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let bytes = text.as_bytes();
        let is_name = bytes.len() <= NAME_MAX
            && bytes.first().is_some_and(|&byte| is_word(byte))
            && bytes.last().is_some_and(|&byte| is_word(byte))
            && bytes.iter().all(|&byte| is_word(byte) || b"-.".contains(&byte));
        match is_name {
            true => Ok(Label(text.to_owned())),
            false => Err(Error::Name {
                what,
                text: text.chars().take(2 * NAME_MAX).collect(),
                expected: "1 to 64 of 0-9 A-Z a-z _ - . that neither begin nor end with - or .",
            }),
        }
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Label {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl TryFrom<String> for Label {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        Label::new("name", &text)
    }
}

impl From<Label> for String {
    fn from(label: Label) -> Self {
        label.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_vaults() {
        for good in ["a", "_", "key-1", "a.b", "A_b-c.D9", &"x".repeat(NAME_MAX)] {
            assert_eq!(Label::new("key", good).unwrap().as_str(), good);
        }
        for bad in ["", "-a", "a-", ".a", "a.", "a/b", "a b", "a#v1", "\u{e4}", "a\0b", "a\n"] {
            assert!(Label::new("key", bad).is_err(), "{bad:?}");
        }
        assert!(Label::new("key", &"x".repeat(NAME_MAX + 1)).is_err());
    }
}
