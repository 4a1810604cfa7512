//! Creating keys.

use gabion_engine::{Entropy, Error as EngineError, OsEntropy};

use super::kms::Kms;
use super::material::New;
use super::metrics::Verb;
use super::records::{key_path, name_path, opened, sealed, version_path, write_version};
use crate::error::Error;
use crate::model::{
    Conformances, Key, KeyAlgorithm, KeyId, Label, Origin, State, Uuid, Version, VersionId,
    check_jwt_limit, check_rotate_period, check_takes_mu,
};
use crate::store::{RecordPath, Transaction};

/// The properties of a new key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewKey {
    /// The tenant.
    pub tenant: Label,
    /// The purpose.
    pub purpose: Label,
    /// The name.
    pub name: Label,
    /// The algorithm.
    pub algorithm: KeyAlgorithm,
}

/// The restrictions of a new key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// The standards that it conforms to. Cannot be changed.
    pub conformance: Conformances,
    /// The rotation period in seconds; `None` to disable automatic rotation.
    pub rotate_period_s: Option<u64>,
    /// Whether it signs and verifies only by `mu`. Cannot be changed.
    pub requires_mu: bool,
    /// The maximum lifetime in seconds of the JSON Web Tokens that it signs. If set, the key signs
    /// nothing else. Cannot be removed.
    pub jwt_max_lifetime_s: Option<u64>,
}

impl Terms {
    /// Rejects restrictions that keys of the algorithm cannot have. Called first, because
    /// generating a key pair takes long.
    ///
    /// # Errors
    /// An algorithm that does not conform; a period or a lifetime that is out of range; an
    /// algorithm that cannot sign JSON Web Tokens, or `mu` together with a token lifetime.
    pub fn check(&self, algorithm: KeyAlgorithm) -> Result<(), Error> {
        self.conformance.iter().try_for_each(|label| label.check(algorithm))?;
        if self.requires_mu {
            check_takes_mu(algorithm)?;
        }
        if let Some(lifetime_s) = self.jwt_max_lifetime_s {
            check_jwt_limit(algorithm, self.requires_mu, lifetime_s)?;
        }
        self.rotate_period_s.map_or(Ok(()), check_rotate_period)
    }
}

impl Kms {
    /// Creates a key with its first version. A new key pair is tested before it is stored.
    ///
    /// # Errors
    /// [`Error::Exists`]; errors of the engine and of the store.
    pub fn create(&self, new: &NewKey) -> Result<VersionId, Error> {
        self.create_on(new, &Terms::default())
    }

    /// Creates a key that conforms to standards, in its algorithm and in all its uses.
    ///
    /// # Errors
    /// Those of [`Self::create`]; an algorithm that does not conform.
    pub fn create_conforming(&self, new: &NewKey, to: &Conformances) -> Result<VersionId, Error> {
        self.create_on(new, &Terms { conformance: to.clone(), ..Terms::default() })
    }

    /// Creates a key with restrictions.
    ///
    /// # Errors
    /// Those of [`Self::create`] and [`Terms::check`].
    pub fn create_on(&self, new: &NewKey, terms: &Terms) -> Result<VersionId, Error> {
        self.counted(Verb::Create, new.algorithm, || {
            terms.check(new.algorithm)?;
            self.name_generation(new)?;
            let first = New::drawn(&self.context.engine, new.algorithm)?;
            self.create_with(new, &first, terms, Origin::Made)
        })
    }

    /// Returns the record of a new key's name and its generation. It is checked before a key pair
    /// is generated, which can take seconds.
    ///
    /// # Errors
    /// [`Error::Exists`]; errors of the store.
    pub(super) fn name_generation(&self, new: &NewKey) -> Result<(RecordPath, u64), Error> {
        let path = name_path(&new.tenant, &new.name)?;
        match opened::<Option<KeyId>>(&self.context, &path)? {
            None => Ok((path, 0)),
            Some((None, generation)) => Ok((path, generation)),
            Some((Some(_), _)) => Err(Error::Exists(new.name.to_string())),
        }
    }

    /// Creates a key from existing material, with restrictions.
    pub(super) fn create_with(
        &self,
        new: &NewKey,
        first: &New,
        terms: &Terms,
        origin: Origin,
    ) -> Result<VersionId, Error> {
        let mut uuid = [0; 16];
        OsEntropy.fill(&mut uuid).map_err(EngineError::from)?;
        let id = KeyId {
            tenant: new.tenant.clone(),
            purpose: new.purpose.clone(),
            algorithm: new.algorithm,
            uuid: Uuid::of_random(uuid),
        };
        let _changing = self.changing();
        // The name may have been taken while the key pair was generated.
        let (name, before) = self.name_generation(new)?;
        let now = self.now_ms();
        let (conformance, requires_mu) = (terms.conformance.clone(), terms.requires_mu);
        let key = Key::new(id.clone(), new.name.clone(), now);
        let jwt_max_lifetime_s = terms.jwt_max_lifetime_s;
        let key = Key { conformance, requires_mu, jwt_max_lifetime_s, origin, ..key };
        let key = key.rotating(terms.rotate_period_s, now, now)?;
        let of_key = key_path(&id)?;
        let transaction = Transaction::new()
            .put(of_key.clone(), 0, sealed(&self.context, &of_key, 1, &key)?)
            .put(name.clone(), before, sealed(&self.context, &name, before + 1, &Some(&id))?);
        let id = VersionId { key: id, version: 1 };
        let transaction = self.with_version(transaction, &id, first, now)?;
        self.commit_key((None, Some(&key)), transaction, &id)?;
        Ok(id)
    }

    /// Returns a transaction that also writes a new version.
    pub(super) fn with_version(
        &self,
        transaction: Transaction,
        id: &VersionId,
        new: &New,
        now_ms: u64,
    ) -> Result<Transaction, Error> {
        let version = Version { version: id.version, created_ms: now_ms, state: State::Enabled };
        let path = version_path(&id.key, id.version)?;
        let symmetric = id.key.algorithm.symmetric();
        let bytes = write_version(&version, new, symmetric.is_some_and(|of| of.is_counted()))?;
        let sealed = self.context.sealer.seal(&path, 1, &bytes)?;
        self.with_material(transaction.put(path, 0, sealed), id, new)
    }

    /// Returns the key with a name, if it is known without reading the store.
    pub fn known(&self, tenant: &Label, name: &Label) -> Option<KeyId> {
        // Noted names are valid while their key's view is cached.
        let is_kept =
            |id: &KeyId| self.state.cache.key(&id.uuid).is_some_and(|view| view.key.id == *id);
        self.state.names.get(tenant, name).filter(is_kept)
    }

    /// Finds a key by its name.
    ///
    /// # Errors
    /// [`Error::NoKey`]; errors of the store.
    pub fn find(&self, tenant: &Label, name: &Label) -> Result<KeyId, Error> {
        if let Some(id) = self.known(tenant, name) {
            return Ok(id);
        }
        match opened::<Option<KeyId>>(&self.context, &name_path(tenant, name)?)? {
            Some((Some(id), _)) => {
                self.state.names.note(tenant, name, &id);
                Ok(id)
            }
            Some((None, _)) | None => Err(Error::NoKey(name.to_string())),
        }
    }
}
