//! The text forms of signatures in requests and responses.

use gabion_engine::ecdsa::{der_to_raw, is_ecdsa, raw_to_der};
use gabion_kms::Error;
use gabion_kms::model::KeyAlgorithm;
use gabion_kms_wire::{decode_url, encode, encode_url};

use super::bytes::bytes;
use crate::problem::Problem;

/// The text form of signatures, by Vault's names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Marshaling {
    /// Base64. ECDSA signatures are DER.
    #[default]
    Asn1,
    /// The form of JWS (RFC 7515): base64url without padding. ECDSA signatures are `r || s` (RFC
    /// 7518, section 3.4).
    Jws,
}

impl Marshaling {
    /// Parses a field; `asn1` if it is missing or empty.
    ///
    /// # Errors
    /// `bad_request` for an unknown name.
    pub fn named(field: &str, name: Option<&str>) -> Result<Self, Problem> {
        match name.unwrap_or_default() {
            "" | "asn1" => Ok(Marshaling::Asn1),
            "jws" => Ok(Marshaling::Jws),
            _ => Err(Problem::bad(format!("unknown `{field}`; expected asn1 or jws"))),
        }
    }

    /// Converts a signature of a key to the bytes of this form.
    ///
    /// # Errors
    /// Does not fail for signatures of keys, which are strict DER.
    pub fn outward(self, algorithm: KeyAlgorithm, signature: Vec<u8>) -> Result<Vec<u8>, Problem> {
        match algorithm.algorithm().filter(|&of| self == Marshaling::Jws && is_ecdsa(of)) {
            None => Ok(signature),
            Some(of) => der_to_raw(of, &signature)
                .ok_or_else(|| Problem::internal("a signature of ECDSA is not DER")),
        }
    }

    /// Encodes a signature of a key as text.
    ///
    /// # Errors
    /// Those of [`Self::outward`].
    pub fn text(self, algorithm: KeyAlgorithm, signature: &[u8]) -> Result<String, Problem> {
        let signature = self.outward(algorithm, signature.to_vec())?;
        Ok(match self {
            Marshaling::Asn1 => encode(&signature),
            Marshaling::Jws => encode_url(&signature),
        })
    }

    /// Converts a signature of this form to the bytes that keys verify.
    ///
    /// # Errors
    /// `malformed` if its length is wrong for the algorithm.
    pub fn inward(self, algorithm: KeyAlgorithm, signature: Vec<u8>) -> Result<Vec<u8>, Problem> {
        match algorithm.algorithm().filter(|&of| self == Marshaling::Jws && is_ecdsa(of)) {
            None => Ok(signature),
            Some(of) => {
                let der = raw_to_der(of, &signature);
                der.ok_or_else(|| Error::Malformed(algorithm.name()).into())
            }
        }
    }

    /// Decodes the text of a signature, without checking the bytes.
    ///
    /// # Errors
    /// `malformed` if it is not base64 or base64url.
    pub fn decode(self, text: &str) -> Result<Vec<u8>, Problem> {
        match self {
            Marshaling::Asn1 => bytes("signature", text),
            Marshaling::Jws => decode_url(text).ok_or_else(|| {
                Problem::malformed("`signature` is not base64url without padding, which jws has")
            }),
        }
    }
}
