//! A ciphertext, a tag or a signature with its version, as a line of text.

use std::fmt;
use std::str::FromStr;

use crate::text::{decode, encode};

/// A ciphertext, a tag or a signature with the version that made it: `vault:vN:BASE64`, as in
/// Vault's API and in the command line's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionedBytes {
    /// The version, from 1.
    pub version: u32,
    /// The bytes.
    pub bytes: Vec<u8>,
}

const PREFIX: &str = "vault:v";

impl fmt::Display for VersionedBytes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&Self::join(self.version, &encode(&self.bytes)))
    }
}

impl FromStr for VersionedBytes {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let read = || {
            let (version, base64) = Self::split(text)?;
            Some(VersionedBytes { version, bytes: decode(base64)? })
        };
        read().ok_or("not vault:vN:BASE64")
    }
}

impl VersionedBytes {
    /// Splits a line into the version and the text after it, which need not be base64.
    pub fn split(text: &str) -> Option<(u32, &str)> {
        let (version, made) = text.strip_prefix(PREFIX)?.split_once(':')?;
        let is_number =
            version.bytes().all(|byte| byte.is_ascii_digit()) && !version.starts_with('0');
        Some((version.parse().ok().filter(|_| is_number)?, made))
    }

    /// Joins a version and a text to a line.
    pub fn join(version: u32, made: &str) -> String {
        format!("{PREFIX}{version}:{made}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_read_in_one_way() {
        let one = VersionedBytes { version: 12, bytes: b"made".to_vec() };
        assert_eq!(one.to_string(), "vault:v12:bWFkZQ==");
        assert_eq!(one.to_string().parse(), Ok(one));
        for text in [
            "",
            "bWFkZQ==",
            "vault:v1",
            "vault:v:AAAA",
            "vault:v0:AAAA",
            "vault:v01:AAAA",
            "vault:v+1:AAAA",
            "vault:v4294967296:AAAA",
            "vault:v1:*",
            "vault:v1:AAAA\n",
        ] {
            assert!(text.parse::<VersionedBytes>().is_err(), "{text}");
        }
    }
}
