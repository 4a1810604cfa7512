//! New versions of keys.

use super::kms::{Kms, now_ms};
use super::metrics::Verb;
use super::records::{key_path, sealed, version_path, write_pair};
use crate::error::Error;
use crate::model::{KeyId, State, Version, VersionId};
use crate::store::Transaction;

impl Kms {
    /// Gives a key one version more, which signs from now on.
    ///
    /// # Errors
    /// No such key; one that is deleted; the engine's, the store's.
    pub fn rotate(&self, id: &KeyId) -> Result<VersionId, Error> {
        self.counted(Verb::Rotate, id.algorithm, || {
            // First of all: making a key pair takes long, and what can't be rotated needs none.
            self.key(id)?.key.rotated()?;
            let pair = self.pair(id.algorithm)?;
            let _changing = self.changing();
            let view = self.key(id)?;
            let key = view.key.rotated()?;
            let version =
                Version { version: key.latest, created_ms: now_ms(), state: State::Enabled };
            let bytes = write_pair(&version, &pair)?;
            let (of_key, newest) = (key_path(id)?, version_path(id, key.latest)?);
            let (before, next) = (view.generation, view.generation + 1);
            let transaction = Transaction::new()
                .put(of_key.clone(), before, sealed(&self.kept, &of_key, next, &key)?)
                .put(newest.clone(), 0, self.kept.sealer.seal(&newest, 1, &bytes)?);
            self.commit(id, &transaction)?;
            Ok(VersionId { key: id.clone(), version: key.latest })
        })
    }
}
