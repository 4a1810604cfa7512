//! Keys that somebody has, wrapped: encrypted so that `decrypt` does not give them out, and `unwrap` alone does.

use zeroize::Zeroizing;

use super::encrypt::{EncryptOutput, WRAPPED};
use super::kms::Kms;
use super::metrics::Verb;
use crate::error::Error;
use crate::model::{KeyId, VersionId};

impl Kms {
    /// Wraps the bytes of a key, by a version or by the newest one. What stands beside it is not encrypted, and has to be
    /// the same for unwrapping.
    ///
    /// # Errors
    /// As [`Self::encrypt`].
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

    /// Unwraps a key, and wraps it by another version, or by the newest one: nobody sees it.
    ///
    /// # Errors
    /// As [`Self::unwrap`] and [`Self::wrap`].
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

    /// Gives the bytes of a key that a version wrapped.
    ///
    /// # Errors
    /// As [`Self::decrypt`]: what was encrypted and not wrapped is [`Error::DecryptFailed`], too.
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
