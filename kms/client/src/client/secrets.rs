//! Calls that make, take or give out secrets, and batches.

use gabion_kms_wire::native::{
    Batch, BatchDone, Datakey, DatakeyMade, Decaps, Decapsulated, Decrypt, Decrypted, Drawn,
    Encaps, Encapsulated, Encrypt, Encrypted, ExportKey, Exported, Hmac, HmacVerify, ImportKey,
    ImportVersion, Key, Random, Rewrap, Rotated, Tagged, Verified, Wrap, WrappingKey,
};

use super::{Client, of_key};
use crate::error::Error;

impl Client {
    /// Encrypts.
    ///
    /// # Errors
    /// As of all calls: [`Error`].
    pub fn encrypt(&self, what: &Encrypt) -> Result<Encrypted, Error> {
        self.post("/v1/kms/encrypt", what)
    }

    /// Decrypts. Whatever is wrong with a ciphertext, the refusal is `decrypt_failed`.
    ///
    /// # Errors
    /// As of all calls.
    pub fn decrypt(&self, what: &Decrypt) -> Result<Decrypted, Error> {
        self.post("/v1/kms/decrypt", what)
    }

    /// Encrypts by another version.
    ///
    /// # Errors
    /// As of all calls.
    pub fn rewrap(&self, what: &Rewrap) -> Result<Encrypted, Error> {
        self.post("/v1/kms/rewrap", what)
    }

    /// Makes a key for data, and encrypts it.
    ///
    /// # Errors
    /// As of all calls.
    pub fn datakey(&self, what: &Datakey) -> Result<DatakeyMade, Error> {
        self.post("/v1/kms/datakey", what)
    }

    /// Wraps a key.
    ///
    /// # Errors
    /// As of all calls.
    pub fn wrap(&self, what: &Wrap) -> Result<Encrypted, Error> {
        self.post("/v1/kms/wrap", what)
    }

    /// Unwraps a key. Whatever is wrong with it, the refusal is `decrypt_failed`.
    ///
    /// # Errors
    /// As of all calls.
    pub fn unwrap(&self, what: &Decrypt) -> Result<Decrypted, Error> {
        self.post("/v1/kms/unwrap", what)
    }

    /// Makes a tag.
    ///
    /// # Errors
    /// As of all calls.
    pub fn hmac(&self, what: &Hmac) -> Result<Tagged, Error> {
        self.post("/v1/kms/hmac", what)
    }

    /// Verifies a tag. One that is wrong is an answer; one that can't be one is refused.
    ///
    /// # Errors
    /// As of all calls.
    pub fn verify_hmac(&self, what: &HmacVerify) -> Result<Verified, Error> {
        self.post("/v1/kms/hmac/verify", what)
    }

    /// Makes a secret for whoever has a key.
    ///
    /// # Errors
    /// As of all calls.
    pub fn encaps(&self, what: &Encaps) -> Result<Encapsulated, Error> {
        self.post("/v1/kms/encaps", what)
    }

    /// Gets the secret that somebody made for a key.
    ///
    /// # Errors
    /// As of all calls.
    pub fn decaps(&self, what: &Decaps) -> Result<Decapsulated, Error> {
        self.post("/v1/kms/decaps", what)
    }

    /// Draws random bytes.
    ///
    /// # Errors
    /// As of all calls.
    pub fn random(&self, what: &Random) -> Result<Drawn, Error> {
        self.post("/v1/kms/random", what)
    }

    /// Signs and verifies many, each by itself. An item that was not done says why; leave `status_if_failed` out, since an
    /// answer of another status is taken for a refusal.
    ///
    /// # Errors
    /// As of all calls, for what is no batch.
    pub fn batch(&self, what: &Batch) -> Result<BatchDone, Error> {
        self.post("/v1/kms/batch", what)
    }

    /// Makes a key of what somebody brings.
    ///
    /// # Errors
    /// As of all calls.
    pub fn import(&self, what: &ImportKey) -> Result<Key, Error> {
        self.post("/v1/kms/import", what)
    }

    /// Gives a key one version more, of what somebody brings.
    ///
    /// # Errors
    /// As of all calls.
    pub fn import_version(&self, key: &str, what: &ImportVersion) -> Result<Rotated, Error> {
        self.post(&of_key(key, "/import"), what)
    }

    /// The service's key for which to wrap what is imported: `x-wing` or `rsa`.
    ///
    /// # Errors
    /// As of all calls.
    pub fn wrapping_key(&self, kind: &str) -> Result<WrappingKey, Error> {
        self.get(&format!("/v1/kms/wrapping-key?kind={kind}"))
    }

    /// Gives out the private half of a version, if the key allows that.
    ///
    /// # Errors
    /// As of all calls.
    pub fn export(&self, key: &str, what: &ExportKey) -> Result<Exported, Error> {
        self.post(&of_key(key, "/export"), what)
    }
}
