//! Calls for messages of any size, which are sent in pieces.

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
    /// The key's tenant, if the key is given by name.
    pub tenant: Option<String>,
    /// The version; `None` for the newest one.
    pub version: Option<u32>,
    /// The context string, in base64.
    pub context: Option<String>,
    /// The hash of a pre-hash signature, such as SHA2-512.
    pub prehash: Option<String>,
    /// The RSA padding: pss or pkcs1v15.
    pub padding: Option<String>,
    /// The length of the salt of RSA-PSS in bytes.
    pub salt_length: Option<u32>,
    /// The text form of the signature: asn1, or jws, in which ECDSA signatures are `r || s`.
    pub marshaling: Option<String>,
}

impl StreamRequest {
    /// Creates a request for the newest version of a key, with default options.
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
    /// Signs the bytes of a reader, which are sent in pieces. `length` is their number, if known.
    ///
    /// # Errors
    /// See [`Error`]. After [`Error::Message`] nothing was signed.
    pub fn sign_stream(
        &self,
        what: &StreamRequest,
        message: &mut dyn Read,
        length: Option<u64>,
    ) -> Result<Signed, Error> {
        let body = Body { before: &[], message, length };
        self.stream(&what.query("/v1/kms/sign", None), body)
    }

    /// Verifies a base64 signature of the bytes of a reader.
    ///
    /// # Errors
    /// Those of [`Self::sign_stream`].
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

    /// Makes the tag of the bytes of a reader.
    ///
    /// # Errors
    /// Those of [`Self::sign_stream`].
    pub fn hmac_stream(
        &self,
        what: &StreamRequest,
        message: &mut dyn Read,
        length: Option<u64>,
    ) -> Result<Tagged, Error> {
        let body = Body { before: &[], message, length };
        self.stream(&what.query("/v1/kms/hmac", None), body)
    }

    /// Verifies a base64 tag of the bytes of a reader.
    ///
    /// # Errors
    /// Those of [`Self::sign_stream`].
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
    decode(text).ok_or_else(|| Error::Settings(format!("`{field}` is not base64")))
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
