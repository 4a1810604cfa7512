//! Requests of Vault's Transit API, with every documented field of Vault and OpenBao.
//!
//! Vault also accepts numbers and booleans as text, which its command line sends: [`Number`],
//! [`Flag`].

use std::fmt;

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::schema::{JsonSchema, Schemas};
use crate::secret::Secret;

/// Parses a boolean like Go's `strconv.ParseBool`, whose spellings Vault's clients use.
pub fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

/// A number, possibly as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Number(pub i64);

/// A boolean, possibly as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Flag(pub bool);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct NumberVisitor;
        impl Visitor<'_> for NumberVisitor {
            type Value = Number;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a whole number")
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Number, E> {
                Ok(Number(number))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Number, E> {
                let wrong = || E::invalid_value(de::Unexpected::Unsigned(number), &self);
                i64::try_from(number).map(Number).map_err(|_| wrong())
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Number, E> {
                let wrong = || E::invalid_value(de::Unexpected::Str(text), &self);
                text.parse().map(Number).map_err(|_| wrong())
            }
        }
        from.deserialize_any(NumberVisitor)
    }
}

impl<'de> Deserialize<'de> for Flag {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct FlagVisitor;
        impl Visitor<'_> for FlagVisitor {
            type Value = Flag;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("true or false")
            }

            fn visit_bool<E: de::Error>(self, flag: bool) -> Result<Flag, E> {
                Ok(Flag(flag))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Flag, E> {
                let wrong = || E::invalid_value(de::Unexpected::Str(text), &self);
                parse_bool(text).map(Flag).ok_or_else(wrong)
            }
        }
        from.deserialize_any(FlagVisitor)
    }
}

/// A number, a text, a boolean or null, as Vault's clients send them. Arrays and objects are
/// rejected.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Scalar(pub Value);

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct ScalarVisitor;
        impl Visitor<'_> for ScalarVisitor {
            type Value = Scalar;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a number or a text")
            }

            fn visit_bool<E>(self, flag: bool) -> Result<Scalar, E> {
                Ok(Scalar(flag.into()))
            }

            fn visit_i64<E>(self, number: i64) -> Result<Scalar, E> {
                Ok(Scalar(number.into()))
            }

            fn visit_u64<E>(self, number: u64) -> Result<Scalar, E> {
                Ok(Scalar(number.into()))
            }

            fn visit_f64<E>(self, number: f64) -> Result<Scalar, E> {
                Ok(Scalar(number.into()))
            }

            fn visit_str<E>(self, text: &str) -> Result<Scalar, E> {
                Ok(Scalar(text.into()))
            }

            fn visit_unit<E>(self) -> Result<Scalar, E> {
                Ok(Scalar(Value::Null))
            }
        }
        from.deserialize_any(ScalarVisitor)
    }
}

/// A list of texts, possibly as one text with commas.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Texts(pub Vec<String>);

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct TextsVisitor;
        impl<'de> Visitor<'de> for TextsVisitor {
            type Value = Texts;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a list of texts")
            }

            fn visit_str<E>(self, text: &str) -> Result<Texts, E> {
                Ok(Texts(text.split(',').map(|one| one.trim().to_owned()).collect()))
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, seq: A) -> Result<Texts, A::Error> {
                Vec::deserialize(de::value::SeqAccessDeserializer::new(seq)).map(Texts)
            }
        }
        from.deserialize_any(TextsVisitor)
    }
}

impl JsonSchema for Texts {
    fn schema(_: &mut Schemas) -> Value {
        json!({"type": ["array", "string"], "items": {"type": "string"}})
    }
}

impl JsonSchema for Scalar {
    fn schema(_: &mut Schemas) -> Value {
        json!({})
    }
}

impl JsonSchema for Number {
    fn schema(_: &mut Schemas) -> Value {
        json!({"type": ["integer", "string"]})
    }
}

impl JsonSchema for Flag {
    fn schema(_: &mut Schemas) -> Value {
        json!({"type": ["boolean", "string"]})
    }
}

wire! {
    [deny_unknown_fields]
    /// A key to create.
    TransitCreate {
        /// The key's name, if it is repeated here.
        name: Option<String>,
        /// The algorithm, by Vault's, OpenBao's or this service's name; aes256-gcm96 by default.
        r#type: Option<String>,
        /// For `ml-dsa` and `slh-dsa`: the parameter set, such as 65.
        parameter_set: Option<String>,
        /// Not supported, except for false.
        derived: Option<Flag>,
        /// Not supported, except for false.
        convergent_encryption: Option<Flag>,
        /// Not supported, except for false.
        exportable: Option<Flag>,
        /// Not supported, except for false.
        allow_plaintext_backup: Option<Flag>,
        /// For `hmac`, the key size in bytes: 32. Not supported otherwise, except for 0.
        key_size: Option<Number>,
        /// The rotation period, at least an hour: seconds, or a text such as 24h or 30d; 0 disables
        /// automatic rotation.
        auto_rotate_period: Option<Scalar>,
        /// Not supported.
        managed_key_name: Option<String>,
        /// Not supported.
        managed_key_id: Option<String>,
        /// Not supported.
        hybrid_key_type_pqc: Option<String>,
        /// Not supported.
        hybrid_key_type_ec: Option<String>,
    }

    [deny_unknown_fields]
    /// A key to import: `ciphertext` or `public_key`.
    TransitImport {
        /// The key's name, if it is repeated here.
        name: Option<String>,
        /// An AES-256 key, encrypted by RSA-OAEP for the service's key, followed by the imported
        /// key, wrapped by AES-KWP (RFC 5649). Symmetric keys are their bytes, others PKCS#8.
        ciphertext: Option<String>,
        /// A public key in PEM.
        public_key: Option<String>,
        /// The hash of OAEP: SHA256, SHA384 or SHA512; SHA256 by default.
        hash_function: Option<String>,
        /// The algorithm, by Vault's, OpenBao's or this service's name; aes256-gcm96 by default.
        r#type: Option<String>,
        /// For `ml-dsa` and `slh-dsa`: the parameter set, such as 65.
        parameter_set: Option<String>,
        /// Whether `rotate` may generate versions. Otherwise all versions are imported.
        allow_rotation: Option<Flag>,
        /// Not supported, except for false.
        derived: Option<Flag>,
        /// Not supported: belongs to derived keys.
        context: Option<String>,
        /// Not supported, except for false.
        exportable: Option<Flag>,
        /// Not supported, except for false.
        allow_plaintext_backup: Option<Flag>,
        /// The rotation period, at least an hour: seconds, or a text such as 24h or 30d; 0 disables
        /// automatic rotation.
        auto_rotate_period: Option<Scalar>,
    }

    [deny_unknown_fields]
    /// A version to import: `ciphertext` or `public_key`.
    TransitImportVersion {
        /// The key's name, if it is repeated here.
        name: Option<String>,
        /// The wrapped key, as for importing a key.
        ciphertext: Option<String>,
        /// A public key in PEM.
        public_key: Option<String>,
        /// The hash of OAEP: SHA256, SHA384 or SHA512; SHA256 by default.
        hash_function: Option<String>,
        /// Not supported, except for 0.
        version: Option<Number>,
    }

    [deny_unknown_fields]
    /// Changes to a key.
    TransitConfig {
        /// The key's name, if it is repeated here.
        name: Option<String>,
        /// The oldest version that decrypts and verifies.
        min_decryption_version: Option<Number>,
        /// The oldest version that encrypts and signs; 0: only the newest one.
        min_encryption_version: Option<Number>,
        /// Whether DELETE may destroy the key.
        deletion_allowed: Option<Flag>,
        /// Not supported, except for false.
        exportable: Option<Flag>,
        /// Not supported, except for false.
        allow_plaintext_backup: Option<Flag>,
        /// The rotation period, at least an hour: seconds, or a text such as 24h or 30d; 0 disables
        /// automatic rotation.
        auto_rotate_period: Option<Scalar>,
    }

    [deny_unknown_fields]
    /// A rotation.
    TransitRotate {
        /// The key's name, if it is repeated here.
        name: Option<String>,
        /// Not supported.
        managed_key_name: Option<String>,
        /// Not supported.
        managed_key_id: Option<String>,
    }

    [deny_unknown_fields]
    /// The versions to destroy permanently.
    TransitTrim {
        /// The key's name, if it is repeated here.
        name: Option<String>,
        /// The first version that stays. The minimum versions of all uses have to exclude older
        /// ones.
        min_available_version: Option<Number>,
    }

    [deny_unknown_fields]
    /// The configuration of all keys.
    TransitKeysConfig {
        /// Not supported, except for true: `encrypt` does not create keys.
        disable_upsert: Option<Flag>,
    }

    [deny_unknown_fields]
    /// A message of a batch.
    TransitSignItem {
        /// The message, or its digest if `prehashed` is set.
        input: Option<String>,
        /// The version that signs, which overrides that of the whole request.
        key_version: Option<Number>,
        /// Not supported: belongs to derived keys.
        context: Option<String>,
        /// A reference that the answer repeats.
        reference: Option<String>,
    }

    [deny_unknown_fields]
    /// Messages to sign.
    TransitSign {
        /// The key's name, if it is repeated here.
        name: Option<String>,
        /// The version that signs; 0, the default, is the newest one.
        key_version: Option<Number>,
        /// The hash for RSA and ECDSA, and for `prehashed` inputs.
        hash_algorithm: Option<String>,
        /// The older name of the same field.
        algorithm: Option<String>,
        /// The same value from the path.
        urlalgorithm: Option<String>,
        /// The message, or its digest if `prehashed` is set.
        input: Option<String>,
        /// A batch of messages, in place of `input`.
        batch_input: Option<Vec<TransitSignItem>>,
        /// Not supported: belongs to derived keys.
        context: Option<String>,
        /// Whether `input` is a digest.
        prehashed: Option<Flag>,
        /// For RSA.
        signature_algorithm: Option<String>,
        /// The text form of signatures: asn1 (base64), or jws (base64url without padding; ECDSA
        /// signatures are r and s, concatenated).
        marshaling_algorithm: Option<String>,
        /// For RSA.
        salt_length: Option<Scalar>,
        /// Not supported: belongs to Ed25519ctx and Ed25519ph.
        signature_context: Option<String>,
        /// Not supported here, only in items of `batch_input`.
        reference: Option<String>,
    }

    [deny_unknown_fields]
    /// A signature of a batch.
    TransitVerifyItem {
        /// The message, or its digest if `prehashed` is set.
        input: Option<String>,
        /// The signature: vault:vN:BASE64.
        signature: Option<String>,
        /// A tag in place of a signature: vault:vN:BASE64.
        hmac: Option<String>,
        /// Not supported.
        cmac: Option<String>,
        /// Not supported: belongs to CMAC.
        mac_length: Option<Number>,
        /// Not supported: belongs to derived keys.
        context: Option<String>,
        /// A reference that the answer repeats.
        reference: Option<String>,
    }

    [deny_unknown_fields]
    /// Signatures to verify.
    TransitVerify {
        /// The key's name, if it is repeated here.
        name: Option<String>,
        /// The hash for RSA and ECDSA, and for `prehashed` inputs.
        hash_algorithm: Option<String>,
        /// The older name of the same field.
        algorithm: Option<String>,
        /// The same value from the path.
        urlalgorithm: Option<String>,
        /// The message, or its digest if `prehashed` is set.
        input: Option<String>,
        /// The signature: vault:vN:BASE64.
        signature: Option<String>,
        /// A tag in place of a signature: vault:vN:BASE64.
        hmac: Option<String>,
        /// Not supported.
        cmac: Option<String>,
        /// Not supported: belongs to CMAC.
        mac_length: Option<Number>,
        /// A batch of signatures, in place of `input` and `signature`.
        batch_input: Option<Vec<TransitVerifyItem>>,
        /// Not supported: belongs to derived keys.
        context: Option<String>,
        /// Whether `input` is a digest.
        prehashed: Option<Flag>,
        /// For RSA.
        signature_algorithm: Option<String>,
        /// The text form of signatures: asn1 (base64), or jws (base64url without padding; ECDSA
        /// signatures are r and s, concatenated).
        marshaling_algorithm: Option<String>,
        /// For RSA.
        salt_length: Option<Scalar>,
        /// Not supported: belongs to Ed25519ctx and Ed25519ph.
        signature_context: Option<String>,
        /// Not supported here, only in items of `batch_input`.
        reference: Option<String>,
    }

    [deny_unknown_fields]
    /// A message of a batch, to make its tag.
    TransitHmacItem {
        /// The message, in base64.
        input: Option<Secret>,
        /// A reference that the answer repeats.
        reference: Option<String>,
    }

    [deny_unknown_fields]
    /// Messages, to make their tags.
    TransitHmac {
        /// The key's name, if it is repeated here.
        name: Option<String>,
        /// The version that makes the tags; 0, the default, is the newest one.
        key_version: Option<Number>,
        /// The hash; sha2-256 by default.
        algorithm: Option<String>,
        /// The same value from the path.
        urlalgorithm: Option<String>,
        /// The message, in base64.
        input: Option<Secret>,
        /// A batch of messages, in place of `input`.
        batch_input: Option<Vec<TransitHmacItem>>,
        /// Not supported here, only in items of `batch_input`.
        reference: Option<String>,
    }

    [deny_unknown_fields]
    /// An item of a batch to encrypt, decrypt or rewrap.
    TransitCipherItem {
        /// The plaintext, in base64.
        plaintext: Option<Secret>,
        /// The ciphertext: vault:vN:BASE64.
        ciphertext: Option<String>,
        /// The associated data in base64: it is not encrypted, and decryption needs the same bytes.
        associated_data: Option<String>,
        /// Not supported: belongs to derived keys.
        context: Option<String>,
        /// Not supported: nonces are random.
        nonce: Option<String>,
        /// For RSA: oaep.
        padding_scheme: Option<String>,
        /// For RSA in a rewrap: oaep.
        decrypt_padding_scheme: Option<String>,
        /// For RSA in a rewrap: oaep.
        encrypt_padding_scheme: Option<String>,
        /// The version that encrypts; 0, the default, is the newest one.
        key_version: Option<Number>,
        /// A reference that the answer repeats.
        reference: Option<String>,
    }

    [deny_unknown_fields]
    /// A plaintext to encrypt.
    TransitEncrypt {
        /// The key's name, if it is repeated here.
        name: Option<String>,
        /// The plaintext, in base64.
        plaintext: Option<Secret>,
        /// The associated data in base64: it is not encrypted, and decryption needs the same bytes.
        associated_data: Option<String>,
        /// Not supported: belongs to derived keys.
        context: Option<String>,
        /// Not supported: nonces are random.
        nonce: Option<String>,
        /// For RSA: oaep.
        padding_scheme: Option<String>,
        /// The version that encrypts; 0, the default, is the newest one.
        key_version: Option<Number>,
        /// Not supported: the key has to exist.
        r#type: Option<String>,
        /// Not supported, except for false.
        convergent_encryption: Option<Flag>,
        /// The status if some, but not all, items of a batch failed; 400 by default.
        partial_failure_response_code: Option<Number>,
        /// A batch of items, in place of a single one.
        batch_input: Option<Vec<TransitCipherItem>>,
        /// Not supported here, only in items of `batch_input`.
        reference: Option<String>,
    }

    [deny_unknown_fields]
    /// A ciphertext to decrypt.
    TransitDecrypt {
        /// The key's name, if it is repeated here.
        name: Option<String>,
        /// The ciphertext: vault:vN:BASE64.
        ciphertext: Option<String>,
        /// The associated data in base64: it is not encrypted, and decryption needs the same bytes.
        associated_data: Option<String>,
        /// Not supported: belongs to derived keys.
        context: Option<String>,
        /// Not supported: nonces are random.
        nonce: Option<String>,
        /// For RSA: oaep.
        padding_scheme: Option<String>,
        /// The status if some, but not all, items of a batch failed; 400 by default.
        partial_failure_response_code: Option<Number>,
        /// A batch of items, in place of a single one.
        batch_input: Option<Vec<TransitCipherItem>>,
        /// Not supported here, only in items of `batch_input`.
        reference: Option<String>,
    }

    [deny_unknown_fields]
    /// A ciphertext to encrypt again with another version.
    TransitRewrap {
        /// The key's name, if it is repeated here.
        name: Option<String>,
        /// The ciphertext: vault:vN:BASE64.
        ciphertext: Option<String>,
        /// The associated data in base64: it is not encrypted, and decryption needs the same bytes.
        associated_data: Option<String>,
        /// Not supported: belongs to derived keys.
        context: Option<String>,
        /// Not supported: nonces are random.
        nonce: Option<String>,
        /// For RSA: oaep.
        decrypt_padding_scheme: Option<String>,
        /// For RSA: oaep.
        encrypt_padding_scheme: Option<String>,
        /// The version that encrypts; 0, the default, is the newest one.
        key_version: Option<Number>,
        /// A batch of items, in place of a single one.
        batch_input: Option<Vec<TransitCipherItem>>,
        /// Not supported here, only in items of `batch_input`.
        reference: Option<String>,
    }

    [deny_unknown_fields]
    /// A data key.
    TransitDatakey {
        /// The key's name, if it is repeated here.
        name: Option<String>,
        /// The key's size in bits: 128, 256 or 512; 256 by default.
        bits: Option<Number>,
        /// The associated data in base64: decryption needs the same bytes.
        associated_data: Option<String>,
        /// For RSA: oaep.
        padding_scheme: Option<String>,
        /// Not supported, except for 0: the newest version encrypts it.
        key_version: Option<Number>,
        /// Not supported: belongs to derived keys.
        context: Option<String>,
        /// Not supported: nonces are random.
        nonce: Option<String>,
    }

    [deny_unknown_fields]
    /// The renewal of a token.
    TokenRenew {
        /// A duration from now on, such as 3600 or 1h. The token's expiry does not change, so
        /// longer durations are not supported.
        increment: Option<Scalar>,
        /// Not supported: the token is in the request head.
        token: Option<Secret>,
    }

    [deny_unknown_fields]
    /// Paths to query the caller's capabilities for.
    Capabilities {
        /// The paths, such as transit/sign/web.
        paths: Option<Texts>,
        /// The older name of the same field.
        path: Option<Texts>,
        /// The token of the request head again, which Vault's Go client sends.
        token: Option<Secret>,
    }

    [deny_unknown_fields]
    /// A message to hash.
    TransitHash {
        /// The message, in base64.
        input: Option<Secret>,
        /// The hash; sha2-256 by default.
        algorithm: Option<String>,
        /// The same value from the path.
        urlalgorithm: Option<String>,
        /// The encoding of the digest: base64 or hex; hex by default.
        format: Option<String>,
    }

    [deny_unknown_fields]
    /// Random bytes.
    TransitRandom {
        /// The number of bytes; 32 by default.
        bytes: Option<Number>,
        /// The encoding of the bytes: base64 or hex; base64 by default.
        format: Option<String>,
        /// Not supported, except for platform.
        source: Option<String>,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_flags_may_be_texts() {
        for (text, wanted) in [
            ("3", Some(3)),
            ("\"3\"", Some(3)),
            ("-1", Some(-1)),
            ("1.5", None),
            ("\"x\"", None),
            ("true", None),
            ("[]", None),
            ("18446744073709551615", None),
        ] {
            assert_eq!(serde_json::from_str::<Number>(text).ok(), wanted.map(Number), "{text}");
        }
        for (text, wanted) in [
            ("true", Some(true)),
            ("\"false\"", Some(false)),
            ("\"True\"", Some(true)),
            ("\"0\"", Some(false)),
            ("1", None),
            ("\"x\"", None),
            ("\"yes\"", None),
            ("\"\"", None),
        ] {
            assert_eq!(serde_json::from_str::<Flag>(text).ok(), wanted.map(Flag), "{text}");
        }
    }
}
