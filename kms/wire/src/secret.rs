//! Secret texts.

use std::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};
use zeroize::Zeroizing;

use crate::schema::{JsonSchema, Schemas};
use crate::text::{decode, encode};

/// A text that is wiped when it is dropped, and that no error message contains.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Returns the secret text.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Encodes bytes as base64.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Secret::from(encode(bytes))
    }

    /// Decodes the text as base64, if it is valid. The result is secret.
    pub fn bytes(&self) -> Option<Zeroizing<Vec<u8>>> {
        decode(&self.0).map(Zeroizing::new)
    }
}

impl AsRef<str> for Secret {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Secret(Zeroizing::new(text))
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        // `deserialize_string` would put a value of another type into its error message;
        // `deserialize_any` passes it to the visitor.
        from.deserialize_any(SecretVisitor)
    }
}

/// Accepts a text. A value of another type may be secret as well, so no message contains it.
struct SecretVisitor;

impl Visitor<'_> for SecretVisitor {
    type Value = Secret;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a text")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Secret, E> {
        Ok(Secret::from(text.to_owned()))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Secret, E> {
        Ok(Secret::from(text))
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Secret, E> {
        Err(E::custom("expected a text, not a number"))
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Secret, E> {
        Err(E::custom("expected a text, not a number"))
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Secret, E> {
        Err(E::custom("expected a text, not a number"))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Secret")
    }
}

impl JsonSchema for Secret {
    fn schema(_: &mut Schemas) -> Value {
        json!({"type": "string", "format": "password"})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_message_shows_what_is_secret() {
        let secret = Secret::of_bytes(b"of nobody's business");
        assert_eq!(**secret.bytes().unwrap(), *b"of nobody's business");
        assert_eq!(format!("{secret:?}"), "Secret");
        assert!(Secret::from("*".to_owned()).bytes().is_none());
        for wrong in ["271828", "-271828", "27.1828e4", "[271828]", "true", "{\"271828\": 1}"] {
            let error = serde_json::from_str::<Secret>(wrong).unwrap_err().to_string();
            assert!(error.contains("a text") && !error.contains("271828"), "{error}");
        }
    }
}
