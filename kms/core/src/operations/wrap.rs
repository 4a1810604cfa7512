//! Wrapping of keys: encryption whose ciphertexts can only be unwrapped, not decrypted.

use zeroize::Zeroizing;

use super::encrypt::{EncryptOutput, WRAPPED};
use super::kms::Kms;
use super::metrics::Verb;
use crate::error::Error;
use crate::model::{KeyId, VersionId};

impl Kms {
    /// Wraps the bytes of a key with a version, or with the newest one. `beside` is associated
    /// data: it is not encrypted, and unwrapping needs the same bytes.
    ///
    /// # Errors
    /// Those of [`Self::encrypt`].
    pub fn wrap(
        &self,
        id: &KeyId,
        version: Option<u32>,
        key: &[u8],
        beside: &[u8],
    ) -> Result<EncryptOutput, Error> {
        let wrap = || self.encrypted(id, version, key, &within(beside));
        self.counted(Verb::Wrap, id.algorithm, wrap)
    }

    /// Unwraps a key, and wraps it with another version, or with the newest one. The key does not
    /// leave the service.
    ///
    /// # Errors
    /// Those of [`Self::unwrap`] and [`Self::wrap`].
    pub fn rewrap_key(
        &self,
        id: &VersionId,
        wrapped: &[u8],
        beside: &[u8],
        to: Option<u32>,
    ) -> Result<EncryptOutput, Error> {
        self.counted(Verb::Rewrap, id.key.algorithm, || {
            let beside = within(beside);
            let key = self.decrypted(id, wrapped, &beside)?;
            self.encrypted(&id.key, to, &key, &beside)
        })
    }

    /// Unwraps a key that a version wrapped.
    ///
    /// # Errors
    /// Those of [`Self::decrypt`]; [`Error::DecryptFailed`] also for ciphertexts that were not made
    /// by wrapping.
    pub fn unwrap(
        &self,
        id: &VersionId,
        wrapped: &[u8],
        beside: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, Error> {
        let unwrap = || self.decrypted(id, wrapped, &within(beside));
        self.counted(Verb::Unwrap, id.key.algorithm, unwrap)
    }
}

fn within(beside: &[u8]) -> Vec<u8> {
    [WRAPPED, beside].concat()
}
