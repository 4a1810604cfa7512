//! Making keys.

use gabion_engine::keys::PrivateKey;
use gabion_engine::{Entropy, OsEntropy};

use super::kms::{Kms, now_ms};
use super::metrics::Verb;
use super::records::{key_path, name_path, opened, sealed, version_path, write_pair};
use crate::error::Error;
use crate::model::{Key, KeyAlgorithm, KeyId, Label, State, Uuid, Version, VersionId};
use crate::store::Transaction;

/// What a new key is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewKey {
    /// Whose.
    pub tenant: Label,
    /// What for.
    pub purpose: Label,
    /// What its tenant calls it.
    pub name: Label,
    /// What it does.
    pub algorithm: KeyAlgorithm,
}

impl Kms {
    /// Makes a key with its first version. Both halves were used once before it is there.
    ///
    /// # Errors
    /// [`Error::Exists`]; the engine's, the store's.
    pub fn create(&self, new: &NewKey) -> Result<VersionId, Error> {
        self.counted(Verb::Create, new.algorithm, || {
            let mut uuid = [0; 16];
            OsEntropy.fill(&mut uuid).map_err(|error| Error::Engine(error.into()))?;
            let id = KeyId {
                tenant: new.tenant.clone(),
                purpose: new.purpose.clone(),
                algorithm: new.algorithm,
                uuid: Uuid::of_random(uuid),
            };
            let pair = self.pair(new.algorithm)?;
            let _changing = self.changing();
            let name = name_path(&new.tenant, &new.name)?;
            let before = match opened::<Option<KeyId>>(&self.kept, &name)? {
                None => 0,
                Some((None, generation)) => generation,
                Some((Some(_), _)) => return Err(Error::Exists(new.name.to_string())),
            };
            let now = now_ms();
            let key = Key::new(id.clone(), new.name.clone(), now);
            let (of_key, first) = (key_path(&id)?, version_path(&id, 1)?);
            let version = Version { version: 1, created_ms: now, state: State::Enabled };
            let bytes = write_pair(&version, &pair)?;
            let transaction = Transaction::new()
                .put(of_key.clone(), 0, sealed(&self.kept, &of_key, 1, &key)?)
                .put(first.clone(), 0, self.kept.sealer.seal(&first, 1, &bytes)?)
                .put(name.clone(), before, sealed(&self.kept, &name, before + 1, &Some(&id))?);
            self.commit(&id, &transaction)?;
            Ok(VersionId { key: id, version: 1 })
        })
    }

    /// The key of a name.
    ///
    /// # Errors
    /// [`Error::NoKey`]; the store's.
    pub fn find(&self, tenant: &Label, name: &Label) -> Result<KeyId, Error> {
        match opened::<Option<KeyId>>(&self.kept, &name_path(tenant, name)?)? {
            Some((Some(id), _)) => Ok(id),
            Some((None, _)) | None => Err(Error::NoKey(name.to_string())),
        }
    }

    /// A key pair of which both halves were used once.
    pub(super) fn pair(&self, algorithm: KeyAlgorithm) -> Result<PrivateKey, Error> {
        let pair = PrivateKey::generate(&self.kept.engine, algorithm.algorithm(), &OsEntropy)?;
        pair.pairwise_test(&self.kept.engine, &OsEntropy)?;
        Ok(pair)
    }
}
