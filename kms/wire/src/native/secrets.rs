//! Of what makes, takes or gives out secrets.

use crate::secret::Secret;

wire! {
    [deny_unknown_fields]
    /// What to encrypt.
    Encrypt {
        /// The key, by name or id.
        key: String,
        /// Whose key it is, where it is given by name.
        tenant: Option<String>,
        /// The version that encrypts; the newest one if none is named.
        version: Option<u32>,
        /// The bytes.
        plaintext: Secret,
        /// What stands beside it, is not encrypted, and has to be the same for decryption.
        associated_data: Option<String>,
    }

    []
    /// What was encrypted, or wrapped.
    Encrypted {
        /// The id of the version that did it.
        by: String,
        /// Its number, which decryption has to be told.
        version: u32,
        /// The ciphertext.
        ciphertext: String,
        /// The revision of the store.
        revision: u64,
    }

    [deny_unknown_fields]
    /// What to decrypt, or to unwrap.
    Decrypt {
        /// The key, by name or id.
        key: String,
        /// Whose key it is, where it is given by name.
        tenant: Option<String>,
        /// The version that encrypted; the newest one if none is named.
        version: Option<u32>,
        /// The ciphertext.
        ciphertext: String,
        /// What stood beside it.
        associated_data: Option<String>,
    }

    []
    /// What was decrypted.
    Decrypted {
        /// The bytes.
        plaintext: Secret,
        /// The revision of the store.
        revision: u64,
    }

    [deny_unknown_fields]
    /// What to encrypt by another version.
    Rewrap {
        /// The key, by name or id.
        key: String,
        /// Whose key it is, where it is given by name.
        tenant: Option<String>,
        /// The version that encrypted.
        version: u32,
        /// The ciphertext.
        ciphertext: String,
        /// What stands beside it.
        associated_data: Option<String>,
        /// The version that is to encrypt; the newest one if none is named.
        to: Option<u32>,
        /// Whether it is a wrapped key, which stays one.
        wrapped: Option<bool>,
    }

    [deny_unknown_fields]
    /// A key for data to make.
    Datakey {
        /// The key that encrypts it, by name or id.
        key: String,
        /// Whose key it is, where it is given by name.
        tenant: Option<String>,
        /// Its bits: 128, 256 or 512; 256 if nothing is said.
        bits: Option<u32>,
        /// What stands beside it, is not encrypted, and has to be the same for decryption.
        associated_data: Option<String>,
        /// Whether it comes encrypted alone.
        wrapped_only: Option<bool>,
    }

    []
    /// A key for data.
    DatakeyMade {
        /// The id of the version that encrypted it.
        by: String,
        /// Its number, which decryption has to be told.
        version: u32,
        /// The key; none if it comes encrypted alone.
        plaintext: Option<Secret>,
        /// The same, encrypted: `decrypt` gives the key.
        ciphertext: String,
        /// The revision of the store.
        revision: u64,
    }

    [deny_unknown_fields]
    /// A key to wrap, which somebody has.
    Wrap {
        /// The key that wraps it, by name or id.
        key: String,
        /// Whose key that is, where it is given by name.
        tenant: Option<String>,
        /// The version that wraps; the newest one if none is named.
        version: Option<u32>,
        /// The bytes of the key to wrap.
        plaintext: Secret,
        /// What stands beside it, is not encrypted, and has to be the same for unwrapping.
        associated_data: Option<String>,
    }

    [deny_unknown_fields]
    /// A message whose tag is to be made.
    Hmac {
        /// The key, by name or id.
        key: String,
        /// Whose key it is, where it is given by name.
        tenant: Option<String>,
        /// The version that makes it; the newest one if none is named.
        version: Option<u32>,
        /// The message.
        message: Secret,
    }

    []
    /// A tag.
    Tagged {
        /// The id of the version that made it.
        by: String,
        /// Its number.
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
        /// Whose key it is, where it is given by name.
        tenant: Option<String>,
        /// The version that is said to have made it; the newest one if none is named.
        version: Option<u32>,
        /// The message.
        message: Secret,
        /// The tag.
        tag: String,
    }

    [deny_unknown_fields]
    /// A key for which a secret is to be made.
    Encaps {
        /// The key, by name or id.
        key: String,
        /// Whose key it is, where it is given by name.
        tenant: Option<String>,
        /// The version; the newest one if none is named.
        version: Option<u32>,
    }

    []
    /// A secret, and what brings it to who has the key.
    Encapsulated {
        /// The id of the version that gets the secret out.
        by: String,
        /// Its number.
        version: u32,
        /// What brings the secret.
        ciphertext: String,
        /// The secret.
        secret: Secret,
        /// The revision of the store.
        revision: u64,
    }

    [deny_unknown_fields]
    /// What brings a secret.
    Decaps {
        /// The key, by name or id.
        key: String,
        /// Whose key it is, where it is given by name.
        tenant: Option<String>,
        /// The version that it was made for; the newest one if none is named.
        version: Option<u32>,
        /// What brings the secret.
        ciphertext: String,
    }

    []
    /// A secret that somebody made for a key.
    Decapsulated {
        /// The secret. Of a ciphertext that was changed or is another key's, ML-KEM gives a secret that nobody else has.
        secret: Secret,
        /// The revision of the store.
        revision: u64,
    }

    [deny_unknown_fields]
    /// Random bytes to draw.
    Random {
        /// How many, at most 131072; 32 if nothing is said.
        bytes: Option<u32>,
    }

    []
    /// Random bytes.
    Drawn {
        /// The bytes.
        random_bytes: Secret,
        /// The revision of the store.
        revision: u64,
    }
}
