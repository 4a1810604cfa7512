//! Names of authenticated callers.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// The maximum length in bytes: a token has one byte for the length.
const LEN_MAX: usize = 255;

/// A principal's name: 1 to 255 of `0-9 A-Z a-z _ . : / @ + -`, such as `ci@example.com` or
/// `spiffe://example.com/build`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Principal(String);

impl Principal {
    /// Validates a name.
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

    /// Returns the name as a certificate's canonical name. The case of DNS names (RFC 4343) and of
    /// a URI's scheme and host (RFC 3986, section 6.2.2.1) does not count, so these become lower
    /// case.
    #[must_use]
    pub fn of_certificate(&self) -> Self {
        Principal(canonical(&self.0))
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Returns the canonical spelling of a certificate's name.
pub(super) fn canonical(name: &str) -> String {
    let host_end = match name.split_once("://") {
        Some((scheme, rest)) => scheme.len() + 3 + rest.find('/').unwrap_or(rest.len()),
        // A URI without a host.
        None if name.contains(':') => 0,
        None => name.len(),
    };
    let (host, path) = name.split_at(host_end);
    host.to_ascii_lowercase() + path
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_certificates_have_one_spelling() {
        for (name, wanted) in [
            ("Build.Example.COM", "build.example.com"),
            ("SPIFFE://Example.com/Build/A", "spiffe://example.com/Build/A"),
            ("https://Example.com", "https://example.com"),
            ("urn:Build:A", "urn:Build:A"),
            ("build.example.com", "build.example.com"),
        ] {
            assert_eq!(Principal::new(name).unwrap().of_certificate().as_str(), wanted);
        }
    }
}
