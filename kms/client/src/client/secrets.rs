//! Calls for secrets and batches.

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
    /// See [`Error`].
    pub fn encrypt(&self, what: &Encrypt) -> Result<Encrypted, Error> {
        self.post("/v1/kms/encrypt", what)
    }

    /// Decrypts. The error of a wrong ciphertext is always `decrypt_failed`, without the cause.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn decrypt(&self, what: &Decrypt) -> Result<Decrypted, Error> {
        self.post("/v1/kms/decrypt", what)
    }

    /// Encrypts a ciphertext again with another version.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn rewrap(&self, what: &Rewrap) -> Result<Encrypted, Error> {
        self.post("/v1/kms/rewrap", what)
    }

    /// Generates a data key, and encrypts it.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn datakey(&self, what: &Datakey) -> Result<DatakeyMade, Error> {
        self.post("/v1/kms/datakey", what)
    }

    /// Wraps a key.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn wrap(&self, what: &Wrap) -> Result<Encrypted, Error> {
        self.post("/v1/kms/wrap", what)
    }

    /// Unwraps a key. The error of a wrong ciphertext is always `decrypt_failed`, without the
    /// cause.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn unwrap(&self, what: &Decrypt) -> Result<Decrypted, Error> {
        self.post("/v1/kms/unwrap", what)
    }

    /// Makes a tag.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn hmac(&self, what: &Hmac) -> Result<Tagged, Error> {
        self.post("/v1/kms/hmac", what)
    }

    /// Verifies a tag. A wrong tag is an answer; bytes that cannot be a tag are an error.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn verify_hmac(&self, what: &HmacVerify) -> Result<Verified, Error> {
        self.post("/v1/kms/hmac/verify", what)
    }

    /// Encapsulates: generates a shared secret for the holder of a key.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn encaps(&self, what: &Encaps) -> Result<Encapsulated, Error> {
        self.post("/v1/kms/encaps", what)
    }

    /// Decapsulates a shared secret.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn decaps(&self, what: &Decaps) -> Result<Decapsulated, Error> {
        self.post("/v1/kms/decaps", what)
    }

    /// Returns random bytes.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn random(&self, what: &Random) -> Result<Drawn, Error> {
        self.post("/v1/kms/random", what)
    }

    /// Signs and verifies several items independently. Failed items have their own errors. Leave
    /// `status_if_failed` out: a response with an error status is returned as an error.
    ///
    /// # Errors
    /// See [`Error`]; a malformed batch.
    pub fn batch(&self, what: &Batch) -> Result<BatchDone, Error> {
        self.post("/v1/kms/batch", what)
    }

    /// Imports a key.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn import(&self, what: &ImportKey) -> Result<Key, Error> {
        self.post("/v1/kms/import", what)
    }

    /// Adds an imported version to a key.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn import_version(&self, key: &str, what: &ImportVersion) -> Result<Rotated, Error> {
        self.post(&of_key(key, "/import"), what)
    }

    /// Returns the service's public key for which to wrap imported keys: `x-wing` or `rsa`.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn wrapping_key(&self, kind: &str) -> Result<WrappingKey, Error> {
        self.get(&format!("/v1/kms/wrapping-key?kind={kind}"))
    }

    /// Exports the private key of a version, if the key allows that.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn export(&self, key: &str, what: &ExportKey) -> Result<Exported, Error> {
        self.post(&of_key(key, "/export"), what)
    }
}
