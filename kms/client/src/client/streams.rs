//! Messages of any size, which are read and sent piece by piece.

use std::io::Read;

use gabion_kms_wire::decode;
use gabion_kms_wire::native::{Signed, Tagged, Verified};

use super::{Client, escaped};
use crate::error::Error;
use crate::http::Body;

/// The key and the form by which a stream is signed, verified or authenticated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamRequest {
    /// The key, by name or id.
    pub key: String,
    /// Whose key it is, where it is given by name.
    pub tenant: Option<String>,
    /// The version; the newest one if none is named.
    pub version: Option<u32>,
    /// The context string, in base64.
    pub context: Option<String>,
    /// The function that makes the digest that is signed, such as SHA2-512.
    pub prehash: Option<String>,
    /// Of RSA alone: pss or pkcs1v15.
    pub padding: Option<String>,
    /// Of RSA's pss: bytes of the salt.
    pub salt_length: Option<u32>,
    /// How the signature is written: asn1, or jws, which of ECDSA is r and s.
    pub marshaling: Option<String>,
}

impl StreamRequest {
    /// By the newest version of a key, of which nothing else is said.
    #[must_use]
    pub fn by(key: &str) -> Self {
        StreamRequest { key: key.to_owned(), ..StreamRequest::default() }
    }

    fn query(&self, path: &str, before: Option<(&str, usize)>) -> String {
        let StreamRequest {
            key,
            tenant,
            version,
            context,
            prehash,
            padding,
            salt_length,
            marshaling,
        } = self;
        let number = |number: &Option<u32>| number.map(|number| number.to_string());
        let mut query = format!("{path}?key={}", escaped(key));
        for (name, value) in [
            ("tenant", tenant.clone()),
            ("version", number(version)),
            ("context", context.clone()),
            ("prehash", prehash.clone()),
            ("padding", padding.clone()),
            ("salt_length", number(salt_length)),
            ("marshaling", marshaling.clone()),
        ] {
            if let Some(value) = value {
                query.push_str(&format!("&{name}={}", escaped(&value)));
            }
        }
        if let Some((name, bytes)) = before {
            query.push_str(&format!("&{name}={bytes}"));
        }
        query
    }
}

impl Client {
    /// Signs what a reader has, of any size: it is sent piece by piece. `length` says how many bytes there are, where that
    /// is known.
    ///
    /// # Errors
    /// As of all calls: [`Error`]. [`Error::Message`]: nothing was signed.
    pub fn sign_stream(
        &self,
        what: &StreamRequest,
        message: &mut dyn Read,
        length: Option<u64>,
    ) -> Result<Signed, Error> {
        let body = Body { before: &[], message, length };
        self.stream(&what.query("/v1/kms/sign", None), body)
    }

    /// Verifies a signature, in base64, of what a reader has.
    ///
    /// # Errors
    /// As of [`Self::sign_stream`].
    pub fn verify_stream(
        &self,
        what: &StreamRequest,
        signature: &str,
        message: &mut dyn Read,
        length: Option<u64>,
    ) -> Result<Verified, Error> {
        let before = bytes("signature", signature)?;
        let path = what.query("/v1/kms/verify", Some(("signature_bytes", before.len())));
        self.stream(&path, Body { before: &before, message, length })
    }

    /// Makes the tag of what a reader has.
    ///
    /// # Errors
    /// As of [`Self::sign_stream`].
    pub fn hmac_stream(
        &self,
        what: &StreamRequest,
        message: &mut dyn Read,
        length: Option<u64>,
    ) -> Result<Tagged, Error> {
        let body = Body { before: &[], message, length };
        self.stream(&what.query("/v1/kms/hmac", None), body)
    }

    /// Verifies a tag, in base64, of what a reader has.
    ///
    /// # Errors
    /// As of [`Self::sign_stream`].
    pub fn verify_hmac_stream(
        &self,
        what: &StreamRequest,
        tag: &str,
        message: &mut dyn Read,
        length: Option<u64>,
    ) -> Result<Verified, Error> {
        let before = bytes("tag", tag)?;
        let path = what.query("/v1/kms/hmac/verify", Some(("tag_bytes", before.len())));
        self.stream(&path, Body { before: &before, message, length })
    }
}

fn bytes(field: &str, text: &str) -> Result<Vec<u8>, Error> {
    decode(text).ok_or_else(|| Error::Settings(format!("`{field}` is no base64")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_request_fields_are_encoded_in_the_query() {
        assert_eq!(StreamRequest::by("a").query("/p", None), "/p?key=a");
        let all = StreamRequest {
            key: "a/b".into(),
            tenant: Some("t".into()),
            version: Some(3),
            context: Some("+/=".into()),
            prehash: Some("SHA2-512".into()),
            padding: Some("pss".into()),
            salt_length: Some(0),
            marshaling: Some("jws".into()),
        };
        assert_eq!(
            all.query("/p", Some(("tag_bytes", 32))),
            "/p?key=a%2Fb&tenant=t&version=3&context=%2B%2F%3D&prehash=SHA2-512&padding=pss&salt_length=0&marshaling=jws&tag_bytes=32"
        );
    }
}
