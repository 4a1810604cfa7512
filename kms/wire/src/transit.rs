//! Requests of Vault's Transit paths, with every field that Vault's and OpenBao's pages list.
//!
//! Vault takes numbers and truth values as text, too, which its command line sends: [`Number`], [`Flag`].

use std::fmt;

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::schema::{JsonSchema, Schemas};
use crate::secret::Secret;

/// Parses a truth value as Go's `strconv.ParseBool` does, whose spellings Vault's clients use.
pub fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

/// A number, or a text that is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Number(pub i64);

/// A truth value, or a text that is one.
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

/// A number, a text, a truth value or null, each of which Vault's clients send: nothing that has parts.
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

/// A list of texts, or one text that has them separated by commas.
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
    /// A key to make.
    TransitCreate {
        /// As in the path.
        name: Option<String>,
        /// The algorithm, by Vault's, OpenBao's or our name; aes256-gcm96 if nothing is said.
        r#type: Option<String>,
        /// Of `ml-dsa` and `slh-dsa`: which one, such as 65.
        parameter_set: Option<String>,
        /// Not supported, but for false.
        derived: Option<Flag>,
        /// Not supported, but for false.
        convergent_encryption: Option<Flag>,
        /// Not supported, but for false.
        exportable: Option<Flag>,
        /// Not supported, but for false.
        allow_plaintext_backup: Option<Flag>,
        /// Of `hmac`, in bytes: 32. Not supported elsewhere, but for 0.
        key_size: Option<Number>,
        /// After how long the clock has it rotated, an hour at least: seconds, or a text such as 24h or 30d; 0: never.
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
    /// A key to make of what somebody brings: `ciphertext` or `public_key`.
    TransitImport {
        /// As in the path.
        name: Option<String>,
        /// An AES-256 key by RSA-OAEP for the service's key, and behind it the key by AES-KWP (RFC 5649): of symmetric keys
        /// their bytes, of others PKCS#8.
        ciphertext: Option<String>,
        /// A public key alone, as PEM.
        public_key: Option<String>,
        /// The hash of OAEP: SHA256, SHA384 or SHA512; SHA256 if nothing is said.
        hash_function: Option<String>,
        /// The algorithm, by Vault's, OpenBao's or our name; aes256-gcm96 if nothing is said.
        r#type: Option<String>,
        /// Of `ml-dsa` and `slh-dsa`: which one, such as 65.
        parameter_set: Option<String>,
        /// Whether `rotate` may make versions; if not, they are imported, too.
        allow_rotation: Option<Flag>,
        /// Not supported, but for false.
        derived: Option<Flag>,
        /// Not supported: of derived keys.
        context: Option<String>,
        /// Not supported, but for false.
        exportable: Option<Flag>,
        /// Not supported, but for false.
        allow_plaintext_backup: Option<Flag>,
        /// After how long the clock has it rotated, an hour at least: seconds, or a text such as 24h or 30d; 0: never.
        auto_rotate_period: Option<Scalar>,
    }

    [deny_unknown_fields]
    /// A version to make of what somebody brings: `ciphertext` or `public_key`.
    TransitImportVersion {
        /// As in the path.
        name: Option<String>,
        /// As of a key that is imported.
        ciphertext: Option<String>,
        /// A public key alone, as PEM.
        public_key: Option<String>,
        /// The hash of OAEP: SHA256, SHA384 or SHA512; SHA256 if nothing is said.
        hash_function: Option<String>,
        /// Not supported, but for 0.
        version: Option<Number>,
    }

    [deny_unknown_fields]
    /// What is to change of a key.
    TransitConfig {
        /// As in the path.
        name: Option<String>,
        /// The oldest version that decrypts and verifies.
        min_decryption_version: Option<Number>,
        /// The oldest version that encrypts and signs; 0: the newest one alone.
        min_encryption_version: Option<Number>,
        /// Whether DELETE may destroy it.
        deletion_allowed: Option<Flag>,
        /// Not supported, but for false.
        exportable: Option<Flag>,
        /// Not supported, but for false.
        allow_plaintext_backup: Option<Flag>,
        /// After how long the clock has it rotated, an hour at least: seconds, or a text such as 24h or 30d; 0: never.
        auto_rotate_period: Option<Scalar>,
    }

    [deny_unknown_fields]
    /// A rotation.
    TransitRotate {
        /// As in the path.
        name: Option<String>,
        /// Not supported.
        managed_key_name: Option<String>,
        /// Not supported.
        managed_key_id: Option<String>,
    }

    [deny_unknown_fields]
    /// Which versions to destroy for good.
    TransitTrim {
        /// As in the path.
        name: Option<String>,
        /// The first version that stays: no use may need an older one.
        min_available_version: Option<Number>,
    }

    [deny_unknown_fields]
    /// What is to hold of all keys.
    TransitKeysConfig {
        /// Not supported, but for true: `encrypt` makes no key.
        disable_upsert: Option<Flag>,
    }

    [deny_unknown_fields]
    /// A message of a batch.
    TransitSignItem {
        /// The message, or its digest where `prehashed`.
        input: Option<String>,
        /// The version that signs, instead of that of the whole request.
        key_version: Option<Number>,
        /// Not supported: of derived keys.
        context: Option<String>,
        /// Comes back with the answer.
        reference: Option<String>,
    }

    [deny_unknown_fields]
    /// Messages to sign.
    TransitSign {
        /// As in the path.
        name: Option<String>,
        /// The version that signs; 0, or none: the newest.
        key_version: Option<Number>,
        /// The hash of RSA and ECDSA, and of what is `prehashed`.
        hash_algorithm: Option<String>,
        /// The same, as it was called before.
        algorithm: Option<String>,
        /// The same, as it stands in the path.
        urlalgorithm: Option<String>,
        /// The message, or its digest where `prehashed`.
        input: Option<String>,
        /// Messages, instead of `input`.
        batch_input: Option<Vec<TransitSignItem>>,
        /// Not supported: of derived keys.
        context: Option<String>,
        /// Whether `input` is a digest.
        prehashed: Option<Flag>,
        /// Of RSA alone.
        signature_algorithm: Option<String>,
        /// How signatures are written: asn1 (base64), or jws: base64url without padding, and of ECDSA r and s.
        marshaling_algorithm: Option<String>,
        /// Of RSA alone.
        salt_length: Option<Scalar>,
        /// Not supported: of Ed25519ctx and Ed25519ph.
        signature_context: Option<String>,
        /// Not supported: of items of `batch_input` alone.
        reference: Option<String>,
    }

    [deny_unknown_fields]
    /// A signature of a batch.
    TransitVerifyItem {
        /// The message, or its digest where `prehashed`.
        input: Option<String>,
        /// The signature: vault:vN:BASE64.
        signature: Option<String>,
        /// A tag instead: vault:vN:BASE64.
        hmac: Option<String>,
        /// Not supported.
        cmac: Option<String>,
        /// Not supported: of tags by CMAC.
        mac_length: Option<Number>,
        /// Not supported: of derived keys.
        context: Option<String>,
        /// Comes back with the answer.
        reference: Option<String>,
    }

    [deny_unknown_fields]
    /// Signatures to verify.
    TransitVerify {
        /// As in the path.
        name: Option<String>,
        /// The hash of RSA and ECDSA, and of what is `prehashed`.
        hash_algorithm: Option<String>,
        /// The same, as it was called before.
        algorithm: Option<String>,
        /// The same, as it stands in the path.
        urlalgorithm: Option<String>,
        /// The message, or its digest where `prehashed`.
        input: Option<String>,
        /// The signature: vault:vN:BASE64.
        signature: Option<String>,
        /// A tag instead: vault:vN:BASE64.
        hmac: Option<String>,
        /// Not supported.
        cmac: Option<String>,
        /// Not supported: of tags by CMAC.
        mac_length: Option<Number>,
        /// Signatures, instead of `input` and `signature`.
        batch_input: Option<Vec<TransitVerifyItem>>,
        /// Not supported: of derived keys.
        context: Option<String>,
        /// Whether `input` is a digest.
        prehashed: Option<Flag>,
        /// Of RSA alone.
        signature_algorithm: Option<String>,
        /// How signatures are written: asn1 (base64), or jws: base64url without padding, and of ECDSA r and s.
        marshaling_algorithm: Option<String>,
        /// Of RSA alone.
        salt_length: Option<Scalar>,
        /// Not supported: of Ed25519ctx and Ed25519ph.
        signature_context: Option<String>,
        /// Not supported: of items of `batch_input` alone.
        reference: Option<String>,
    }

    [deny_unknown_fields]
    /// A message of a batch whose tag is to be made.
    TransitHmacItem {
        /// The message, in base64.
        input: Option<Secret>,
        /// Comes back with the answer.
        reference: Option<String>,
    }

    [deny_unknown_fields]
    /// Messages whose tags are to be made.
    TransitHmac {
        /// As in the path.
        name: Option<String>,
        /// The version that makes them; 0, or none: the newest.
        key_version: Option<Number>,
        /// The key's hash; sha2-256 if nothing is said.
        algorithm: Option<String>,
        /// The same, as it stands in the path.
        urlalgorithm: Option<String>,
        /// The message, in base64.
        input: Option<Secret>,
        /// Messages, instead of `input`.
        batch_input: Option<Vec<TransitHmacItem>>,
        /// Not supported: of items of `batch_input` alone.
        reference: Option<String>,
    }

    [deny_unknown_fields]
    /// An item of a batch that is encrypted, decrypted or encrypted anew.
    TransitCipherItem {
        /// The bytes, in base64.
        plaintext: Option<Secret>,
        /// What was encrypted: vault:vN:BASE64.
        ciphertext: Option<String>,
        /// What stands beside it, is not encrypted, and has to be the same for decryption; in base64.
        associated_data: Option<String>,
        /// Not supported: of derived keys.
        context: Option<String>,
        /// Not supported: nonces are drawn.
        nonce: Option<String>,
        /// Of RSA: oaep.
        padding_scheme: Option<String>,
        /// Of RSA that is rewrapped: oaep.
        decrypt_padding_scheme: Option<String>,
        /// Of RSA that is rewrapped: oaep.
        encrypt_padding_scheme: Option<String>,
        /// The version that encrypts; 0, or none: the newest.
        key_version: Option<Number>,
        /// Comes back with the answer.
        reference: Option<String>,
    }

    [deny_unknown_fields]
    /// What to encrypt.
    TransitEncrypt {
        /// As in the path.
        name: Option<String>,
        /// The bytes, in base64.
        plaintext: Option<Secret>,
        /// What stands beside it, is not encrypted, and has to be the same for decryption; in base64.
        associated_data: Option<String>,
        /// Not supported: of derived keys.
        context: Option<String>,
        /// Not supported: nonces are drawn.
        nonce: Option<String>,
        /// Of RSA: oaep.
        padding_scheme: Option<String>,
        /// The version that encrypts; 0, or none: the newest.
        key_version: Option<Number>,
        /// Not supported: a key is made first.
        r#type: Option<String>,
        /// Not supported, but for false.
        convergent_encryption: Option<Flag>,
        /// The status where some items of a batch failed, and not all of them; 400 if nothing is said.
        partial_failure_response_code: Option<Number>,
        /// Items, instead of one.
        batch_input: Option<Vec<TransitCipherItem>>,
        /// Not supported: of items of `batch_input` alone.
        reference: Option<String>,
    }

    [deny_unknown_fields]
    /// What to decrypt.
    TransitDecrypt {
        /// As in the path.
        name: Option<String>,
        /// What was encrypted: vault:vN:BASE64.
        ciphertext: Option<String>,
        /// What stands beside it, is not encrypted, and has to be the same for decryption; in base64.
        associated_data: Option<String>,
        /// Not supported: of derived keys.
        context: Option<String>,
        /// Not supported: nonces are drawn.
        nonce: Option<String>,
        /// Of RSA: oaep.
        padding_scheme: Option<String>,
        /// The status where some items of a batch failed, and not all of them; 400 if nothing is said.
        partial_failure_response_code: Option<Number>,
        /// Items, instead of one.
        batch_input: Option<Vec<TransitCipherItem>>,
        /// Not supported: of items of `batch_input` alone.
        reference: Option<String>,
    }

    [deny_unknown_fields]
    /// What to encrypt by another version.
    TransitRewrap {
        /// As in the path.
        name: Option<String>,
        /// What was encrypted: vault:vN:BASE64.
        ciphertext: Option<String>,
        /// What stands beside it, is not encrypted, and has to be the same for decryption; in base64.
        associated_data: Option<String>,
        /// Not supported: of derived keys.
        context: Option<String>,
        /// Not supported: nonces are drawn.
        nonce: Option<String>,
        /// Of RSA: oaep.
        decrypt_padding_scheme: Option<String>,
        /// Of RSA: oaep.
        encrypt_padding_scheme: Option<String>,
        /// The version that encrypts; 0, or none: the newest.
        key_version: Option<Number>,
        /// Items, instead of one.
        batch_input: Option<Vec<TransitCipherItem>>,
        /// Not supported: of items of `batch_input` alone.
        reference: Option<String>,
    }

    [deny_unknown_fields]
    /// A key for data.
    TransitDatakey {
        /// As in the path.
        name: Option<String>,
        /// Its bits: 128, 256 or 512; 256 if nothing is said.
        bits: Option<Number>,
        /// What stands beside its ciphertext, and has to be the same for decryption; in base64.
        associated_data: Option<String>,
        /// Of RSA: oaep.
        padding_scheme: Option<String>,
        /// Not supported, but for 0: the newest version encrypts it.
        key_version: Option<Number>,
        /// Not supported: of derived keys.
        context: Option<String>,
        /// Not supported: nonces are drawn.
        nonce: Option<String>,
    }

    [deny_unknown_fields]
    /// How much longer a token is to live.
    TokenRenew {
        /// A time from now on, such as 3600 or 1h; not supported beyond the token's end, which does not move.
        increment: Option<Scalar>,
        /// Not supported: the token is that of the head.
        token: Option<Secret>,
    }

    [deny_unknown_fields]
    /// Paths of which the caller asks what it may do there.
    Capabilities {
        /// The paths, such as transit/sign/web.
        paths: Option<Texts>,
        /// The same, as it was called before.
        path: Option<Texts>,
        /// The token of the head once more, which Vault's Go client sends.
        token: Option<Secret>,
    }

    [deny_unknown_fields]
    /// A message to hash.
    TransitHash {
        /// The message, in base64.
        input: Option<Secret>,
        /// The hash; sha2-256 if nothing is said.
        algorithm: Option<String>,
        /// The same, as it stands in the path.
        urlalgorithm: Option<String>,
        /// base64 or hex; hex if nothing is said.
        format: Option<String>,
    }

    [deny_unknown_fields]
    /// Random bytes.
    TransitRandom {
        /// How many; 32 if nothing is said.
        bytes: Option<Number>,
        /// base64 or hex; base64 if nothing is said.
        format: Option<String>,
        /// Not supported, but for platform.
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
