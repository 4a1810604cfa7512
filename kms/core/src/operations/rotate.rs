//! Rotation: new versions of keys.

use super::kms::Kms;
use super::material::New;
use super::metrics::Verb;
use super::records::{key_path, sealed};
use crate::error::Error;
use crate::model::{Key, KeyId, Version, VersionId};
use crate::store::Transaction;

impl Kms {
    /// Adds a version to a key, which signs or encrypts from now on.
    ///
    /// # Errors
    /// A missing or deleted key; a public key without its private key; errors of the engine and of
    /// the store.
    pub fn rotate(&self, id: &KeyId) -> Result<VersionId, Error> {
        self.counted(Verb::Rotate, id.algorithm, || self.rotate_to(id, &self.next_version(id)?))
    }

    /// Generates the next version of a key, if its versions are generated here.
    pub(super) fn next_version(&self, id: &KeyId) -> Result<New, Error> {
        // Check this first: generating a key pair takes long.
        let key = self.key(id)?.key;
        key.rotated(self.now_ms())?;
        key.check_made_here()?;
        self.check_has_private(id, key.latest)?;
        New::drawn(&self.context.engine, id.algorithm)
    }

    /// Rejects a key whose private key belongs to another party: a version generated here would
    /// sign in that party's name. Returns the newest version, unless it was destroyed.
    pub(super) fn check_has_private(
        &self,
        id: &KeyId,
        newest: u32,
    ) -> Result<Option<Version>, Error> {
        let version = match self.version(id, newest) {
            Err(Error::VersionDestroyed(_)) => return Ok(None),
            version => version?,
        };
        match version.material.is_public() {
            true => Err(Error::Unsupported(
                "the key is an imported public key: rotate it where its private key is, and import the next version"
                    .to_owned(),
            )),
            false => Ok(Some(version.version.clone())),
        }
    }

    /// Adds a version with existing material to a key.
    pub(super) fn rotate_to(&self, id: &KeyId, new: &New) -> Result<VersionId, Error> {
        self.rotate_to_if(id, new, |_| Ok(()))
    }

    /// Adds a version to a key that still passes a check.
    pub(super) fn rotate_to_if(
        &self,
        id: &KeyId,
        new: &New,
        check: impl FnOnce(&Key) -> Result<(), Error>,
    ) -> Result<VersionId, Error> {
        let _changing = self.changing();
        let view = self.key(id)?;
        check(&view.key)?;
        let (now_ms, is_public) =
            (self.now_ms(), matches!(new, New::Public(_) | New::RsaPublic(_)));
        if is_public && view.key.rotate_period_s.is_some() {
            let why = "the clock has the key rotated, which it could not after a public key; end that first";
            return Err(Error::Unsupported(why.to_owned()));
        }
        let key = view.key.rotated(now_ms)?;
        let of_key = key_path(id)?;
        let (before, next) = (view.generation, view.generation + 1);
        let transaction = Transaction::new().put(
            of_key.clone(),
            before,
            sealed(&self.context, &of_key, next, &key)?,
        );
        let id = VersionId { key: id.clone(), version: key.latest };
        let transaction = self.with_version(transaction, &id, new, now_ms)?;
        self.commit_key((Some(&view.key), Some(&key)), transaction, &id)?;
        Ok(id)
    }
}
