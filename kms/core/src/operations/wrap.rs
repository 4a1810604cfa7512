//! Keys that somebody has, wrapped: encrypted so that `decrypt` does not give them out, and `unwrap` alone does.

use zeroize::Zeroizing;

use super::encrypt::{Encrypted, WRAPPED};
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
    ) -> Result<Encrypted, Error> {
        let wrap = || self.encrypted(id, version, key, &within(beside));
        self.counted(Verb::Wrap, id.algorithm, wrap)
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
