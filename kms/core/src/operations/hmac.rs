//! Tags.

use gabion_engine::ct;

use super::cache::VersionView;
use super::kms::Kms;
use super::metrics::Verb;
use crate::error::Error;
use crate::model::{KeyId, Use, VersionId};

/// A tag, and which version made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tagged {
    /// The version.
    pub by: VersionId,
    /// The tag.
    pub tag: Vec<u8>,
}

impl Kms {
    /// Makes the tag of a message, by a version or by the newest one.
    ///
    /// # Errors
    /// No such key or version; one that may not make tags.
    pub fn hmac(&self, id: &KeyId, version: Option<u32>, message: &[u8]) -> Result<Tagged, Error> {
        self.counted(Verb::Hmac, id.algorithm, || {
            let by = self.begun(id, Use::Sign, version)?;
            let tag = |view: &VersionView| Ok(view.material.mac()?.tag(message));
            let tag = self.used(&by, Use::Sign, version.is_none(), tag)?;
            Ok(Tagged { by, tag })
        })
    }

    /// Whether a tag is that version's. One of another length is an error, one that is wrong is false.
    ///
    /// # Errors
    /// [`Error::Malformed`]; no such key or version; one that may not verify.
    pub fn verify_hmac(&self, id: &VersionId, message: &[u8], tag: &[u8]) -> Result<bool, Error> {
        let verify = || self.is_tag(id, tag, |view| Ok(view.material.mac()?.tag(message)));
        self.counted(Verb::VerifyHmac, id.key.algorithm, verify)
    }

    /// Whether a tag is the version's own, within a verb.
    pub(super) fn is_tag(
        &self,
        by: &VersionId,
        tag: &[u8],
        own: impl FnOnce(&VersionView) -> Result<Vec<u8>, Error>,
    ) -> Result<bool, Error> {
        let own = self.used(by, Use::Verify, false, own)?;
        match tag.len() == own.len() {
            true => Ok(ct::eq_mask(&own, tag) == u64::MAX),
            false => Err(Error::Malformed(by.key.algorithm.name())),
        }
    }
}
