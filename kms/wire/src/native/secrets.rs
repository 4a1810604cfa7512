//! Encryption, tags, encapsulation and random bytes.

use crate::secret::Secret;

wire! {
    [deny_unknown_fields]
    /// A plaintext to encrypt.
    Encrypt {
        /// The key, by name or id.
        key: String,
        /// The key's tenant, if the key is given by name.
        tenant: Option<String>,
        /// The version that encrypts; the newest one by default.
        version: Option<u32>,
        /// The plaintext.
        plaintext: Secret,
        /// The associated data: it is not encrypted, and decryption needs the same bytes.
        associated_data: Option<String>,
    }

    []
    /// A ciphertext, or a wrapped key.
    Encrypted {
        /// The id of the version that encrypted or wrapped.
        by: String,
        /// The version's number, which decryption needs.
        version: u32,
        /// The ciphertext.
        ciphertext: String,
        /// The revision of the store.
        revision: u64,
    }

    [deny_unknown_fields]
    /// A ciphertext to decrypt, or a wrapped key to unwrap.
    Decrypt {
        /// The key, by name or id.
        key: String,
        /// The key's tenant, if the key is given by name.
        tenant: Option<String>,
        /// The version that encrypted; the newest one by default.
        version: Option<u32>,
        /// The ciphertext.
        ciphertext: String,
        /// The associated data.
        associated_data: Option<String>,
    }

    []
    /// A plaintext.
    Decrypted {
        /// The plaintext.
        plaintext: Secret,
        /// The revision of the store.
        revision: u64,
    }

    [deny_unknown_fields]
    /// A ciphertext to encrypt again with another version.
    Rewrap {
        /// The key, by name or id.
        key: String,
        /// The key's tenant, if the key is given by name.
        tenant: Option<String>,
        /// The version that encrypted.
        version: u32,
        /// The ciphertext.
        ciphertext: String,
        /// The associated data.
        associated_data: Option<String>,
        /// The version that encrypts; the newest one by default.
        to: Option<u32>,
        /// Whether the ciphertext is a wrapped key, which stays wrapped.
        wrapped: Option<bool>,
    }

    [deny_unknown_fields]
    /// A data key to generate.
    Datakey {
        /// The key that encrypts it, by name or id.
        key: String,
        /// The key's tenant, if the key is given by name.
        tenant: Option<String>,
        /// The key's size in bits: 128, 256 or 512; 256 by default.
        bits: Option<u32>,
        /// The associated data: it is not encrypted, and decryption needs the same bytes.
        associated_data: Option<String>,
        /// Whether to return only the encrypted key.
        wrapped_only: Option<bool>,
    }

    []
    /// A data key.
    DatakeyMade {
        /// The id of the version that encrypted it.
        by: String,
        /// The version's number, which decryption needs.
        version: u32,
        /// The key; missing if only the encrypted key was requested.
        plaintext: Option<Secret>,
        /// The encrypted key, for `decrypt`.
        ciphertext: String,
        /// The revision of the store.
        revision: u64,
    }

    [deny_unknown_fields]
    /// A key to wrap.
    Wrap {
        /// The key that wraps it, by name or id.
        key: String,
        /// The key's tenant, if the key is given by name.
        tenant: Option<String>,
        /// The version that wraps; the newest one by default.
        version: Option<u32>,
        /// The bytes of the key to wrap.
        plaintext: Secret,
        /// The associated data: it is not encrypted, and unwrapping needs the same bytes.
        associated_data: Option<String>,
    }

    [deny_unknown_fields]
    /// A message, to make its tag.
    Hmac {
        /// The key, by name or id.
        key: String,
        /// The key's tenant, if the key is given by name.
        tenant: Option<String>,
        /// The version that makes the tag; the newest one by default.
        version: Option<u32>,
        /// The message.
        message: Secret,
    }

    []
    /// A tag.
    Tagged {
        /// The id of the version that made it.
        by: String,
        /// The version's number.
        version: u32,
        /// The tag.
        tag: String,
        /// The revision of the store.
        revision: u64,
    }

    [deny_unknown_fields]
    /// A tag to verify.
    HmacVerify {
        /// The key, by name or id.
        key: String,
        /// The key's tenant, if the key is given by name.
        tenant: Option<String>,
        /// The claimed version; the newest one by default.
        version: Option<u32>,
        /// The message.
        message: Secret,
        /// The tag.
        tag: String,
    }

    [deny_unknown_fields]
    /// A key to encapsulate a shared secret for.
    Encaps {
        /// The key, by name or id.
        key: String,
        /// The key's tenant, if the key is given by name.
        tenant: Option<String>,
        /// The version; the newest one by default.
        version: Option<u32>,
    }

    []
    /// A shared secret and its ciphertext.
    Encapsulated {
        /// The id of the version that decapsulates the secret.
        by: String,
        /// The version's number.
        version: u32,
        /// The ciphertext.
        ciphertext: String,
        /// The shared secret.
        secret: Secret,
        /// The revision of the store.
        revision: u64,
    }

    [deny_unknown_fields]
    /// A ciphertext to decapsulate.
    Decaps {
        /// The key, by name or id.
        key: String,
        /// The key's tenant, if the key is given by name.
        tenant: Option<String>,
        /// The version that it was made for; the newest one by default.
        version: Option<u32>,
        /// The ciphertext.
        ciphertext: String,
    }

    []
    /// A decapsulated shared secret.
    Decapsulated {
        /// The shared secret. For a modified ciphertext, or one for another key, ML-KEM returns a
        /// different, pseudorandom secret.
        secret: Secret,
        /// The revision of the store.
        revision: u64,
    }

    [deny_unknown_fields]
    /// A request for random bytes.
    Random {
        /// The number of bytes, at most 131072; 32 by default.
        bytes: Option<u32>,
    }

    []
    /// Random bytes.
    Drawn {
        /// The plaintext.
        random_bytes: Secret,
        /// The revision of the store.
        revision: u64,
    }
}
