//! New versions of keys.

use super::kms::Kms;
use super::material::New;
use super::metrics::Verb;
use super::records::{key_path, sealed};
use crate::error::Error;
use crate::model::{KeyId, Origin, VersionId};
use crate::store::Transaction;

impl Kms {
    /// Gives a key one version more, which signs or encrypts from now on.
    ///
    /// # Errors
    /// No such key; one that is deleted; one that is a public key alone; the engine's, the store's.
    pub fn rotate(&self, id: &KeyId) -> Result<VersionId, Error> {
        self.counted(Verb::Rotate, id.algorithm, || {
            // First of all: making a key pair takes long, and what can't be rotated needs none.
            let key = self.key(id)?.key;
            let newest = key.rotated()?.latest - 1;
            if key.origin == Origin::Fixed {
                let why = "the key's versions are imported, all of them; `import` the next one";
                return Err(Error::Unsupported(why.to_owned()));
            }
            self.check_has_private(id, newest)?;
            self.rotate_to(id, &New::drawn(&self.kept.engine, id.algorithm)?)
        })
    }

    /// Refuses a key whose private half is somebody else's: a version that is made here would sign in their name.
    fn check_has_private(&self, id: &KeyId, newest: u32) -> Result<(), Error> {
        let version = match self.version(id, newest) {
            Err(Error::VersionDestroyed(_)) => return Ok(()),
            version => version?,
        };
        match version.material.is_public() {
            true => Err(Error::Unsupported(
                "the key is a public one that somebody brought: whoever has its private half rotates it, and brings the next version"
                    .to_owned(),
            )),
            false => Ok(()),
        }
    }

    /// Gives a key a version of what there is.
    pub(super) fn rotate_to(&self, id: &KeyId, new: &New) -> Result<VersionId, Error> {
        let _changing = self.changing();
        let view = self.key(id)?;
        let key = view.key.rotated()?;
        let of_key = key_path(id)?;
        let (before, next) = (view.generation, view.generation + 1);
        let transaction = Transaction::new().put(
            of_key.clone(),
            before,
            sealed(&self.kept, &of_key, next, &key)?,
        );
        let id = VersionId { key: id.clone(), version: key.latest };
        let transaction = self.with_version(transaction, &id, new, self.now_ms())?;
        self.commit_made(&id.key, &transaction, &id)?;
        Ok(id)
    }
}
