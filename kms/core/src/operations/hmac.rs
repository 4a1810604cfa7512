//! Tags.

use gabion_engine::ct;

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
            let number = self.begun(id, Use::Sign, version)?;
            let may = || self.permitted(id, number, Use::Sign, version.is_none());
            let tag = self.used(may, |view| Ok(view.material.mac()?.tag(message)))?;
            Ok(Tagged { by: VersionId { key: id.clone(), version: number }, tag })
        })
    }

    /// Whether a tag is that version's. One of another length is an error, one that is wrong is false.
    ///
    /// # Errors
    /// [`Error::Malformed`]; no such key or version; one that may not verify.
    pub fn verify_hmac(&self, id: &VersionId, message: &[u8], tag: &[u8]) -> Result<bool, Error> {
        self.counted(Verb::VerifyHmac, id.key.algorithm, || {
            let may = || self.permitted(&id.key, id.version, Use::Verify, false);
            self.used(may, |view| {
                let mac = view.material.mac()?;
                if tag.len() != mac.tag_len() {
                    return Err(Error::Malformed(id.key.algorithm.name()));
                }
                Ok(ct::eq_mask(&mac.tag(message), tag) == u64::MAX)
            })
        })
    }
}
