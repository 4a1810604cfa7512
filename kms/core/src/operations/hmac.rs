//! HMAC tags.

use gabion_engine::{Prehash, ct};

use super::cache::VersionView;
use super::kms::Kms;
use super::material::no_private_half;
use super::metrics::Verb;
use crate::error::Error;
use crate::model::{Capability, Key, KeyId, Use, VersionId};
use crate::symmetric::Mac;

/// A tag, and the version that made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HmacOutput {
    /// The version.
    pub by: VersionId,
    /// The tag.
    pub tag: Vec<u8>,
}

impl Kms {
    /// Makes the tag of a message with a version, or with the newest one.
    ///
    /// # Errors
    /// A missing key or version; one that may not make tags.
    pub fn hmac(
        &self,
        id: &KeyId,
        version: Option<u32>,
        message: &[u8],
    ) -> Result<HmacOutput, Error> {
        self.hmac_with(id, version, |_, view| Ok(view.material.mac()?.tag(message)))
    }

    /// Makes the tag of a message with a given hash, with a version of any key, or with the newest
    /// one. An HMAC key has one hash. Tags of other keys are made with a key that is derived from
    /// the version's secret (ADR 0099).
    ///
    /// # Errors
    /// Those of [`Self::hmac`]; [`Error::Unsupported`] for another hash than that of an HMAC key,
    /// for a version without a private key, and for a key whose conformance labels require standard
    /// uses; [`Error::MuRequired`].
    pub fn hmac_by(
        &self,
        id: &KeyId,
        version: Option<u32>,
        hash: Prehash,
        message: &[u8],
    ) -> Result<HmacOutput, Error> {
        self.hmac_with(id, version, |by, view| {
            let key = self.key(id)?.key;
            tag_by(&key, by, view, hash, message)
        })
    }

    fn hmac_with(
        &self,
        id: &KeyId,
        version: Option<u32>,
        make: impl FnOnce(&VersionId, &VersionView) -> Result<Vec<u8>, Error>,
    ) -> Result<HmacOutput, Error> {
        self.counted(Verb::Hmac, id.algorithm, || {
            let by = self.resolve_version(id, Use::Sign, version)?;
            let tag = self.used(&by, Use::Sign, version.is_none(), |view| make(&by, view))?;
            Ok(HmacOutput { by, tag })
        })
    }

    /// Verifies a tag of a version. Returns `false` for a wrong tag.
    ///
    /// # Errors
    /// [`Error::Malformed`] for a tag of another length; a missing key or version; one that may not
    /// verify.
    pub fn verify_hmac(&self, id: &VersionId, message: &[u8], tag: &[u8]) -> Result<bool, Error> {
        let verify = || self.is_tag(id, tag, |view| Ok(view.material.mac()?.tag(message)));
        self.counted(Verb::VerifyHmac, id.key.algorithm, verify)
    }

    /// Verifies a tag with a given hash, of a version of any key.
    ///
    /// # Errors
    /// Those of [`Self::verify_hmac`] and [`Self::hmac_by`].
    pub fn verify_hmac_by(
        &self,
        id: &VersionId,
        hash: Prehash,
        message: &[u8],
        tag: &[u8],
    ) -> Result<bool, Error> {
        self.counted(Verb::VerifyHmac, id.key.algorithm, || {
            let key = self.key(&id.key)?.key;
            self.is_tag(id, tag, |view| tag_by(&key, id, view, hash, message))
        })
    }

    /// Verifies a tag of an HMAC key, as part of an operation.
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

/// Makes the tag of a message with a version of any key.
fn tag_by(
    key: &Key,
    by: &VersionId,
    view: &VersionView,
    hash: Prehash,
    message: &[u8],
) -> Result<Vec<u8>, Error> {
    if key.id.algorithm.does() == Capability::Authenticate {
        let own = view.material.mac()?;
        return match own.hash() == hash {
            true => Ok(own.tag(message)),
            false => Err(other_hash(key, own, hash)),
        };
    }
    key.check_derives_tags()?;
    let root = view.tag_root.as_ref().ok_or_else(no_private_half)?;
    let mac = root
        .mac(by, hash)
        .ok_or_else(|| Error::Unsupported(format!("there is no HMAC with {}", hash.name())))?;
    Ok(mac.tag(message))
}

fn other_hash(key: &Key, own: &Mac, hash: Prehash) -> Error {
    let (algorithm, own) = (key.id.algorithm, own.hash().name());
    Error::Unsupported(format!(
        "{algorithm} makes tags by {own} and not by {}; say {}",
        hash.name(),
        own.to_ascii_lowercase()
    ))
}
