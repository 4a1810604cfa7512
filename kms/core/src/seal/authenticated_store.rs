//! A store whose records are counted and hashed, so that an attacker who can write the store's
//! file, but has no unseal share, cannot remove records unnoticed.
//!
//! ```text
//!   open    every record --> sums of families == manifest?       else refused, naming the family
//!   commit  writes --> + the new manifest, in the same transaction
//!
//!   no manifest, no records                      a new store
//!   no manifest, all records of the first format an older program's: copy, mark, manifest       the upgrade
//!   no manifest, any record of a newer format    refused: the manifest was removed
//! ```
//!
//! The format mark in the store's file is not authenticated, so it does not prove that a store was
//! upgraded. Instead, each record that is written next to a manifest says so under the seal, and so
//! does each seal dealt since. The audit log records the upgrade too: the service refuses a store
//! that was rolled back as a whole to before its upgrade.

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use gabion_engine::{Entropy, Error as EngineError, OsEntropy};

use super::manifest::{Elements, Manifest};
use super::record::Sealer;
use super::slot::Key;
use crate::error::Error;
use crate::store::{
    Caps, Conflict, FORMAT, Identity, Outcome, Page, ReadResult, Record, RecordPath, Revision,
    ScannedRecord, SettleOutcome, Store, StoreError, Transaction, Visit, settle,
};
use crate::text::hex;

/// The path of the manifest.
const PATH: &str = "integrity/manifest";

/// The path of the seal's configuration, the only record that is not sealed: it says how the seal
/// is opened.
const CONFIG: &str = "seal/config";

/// How often a transaction is retried if an earlier transaction with an unknown outcome changed the
/// manifest.
const TRIES: usize = 16;

/// The result of upgrading a store to this program's format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upgrade {
    /// A random id that distinguishes this upgrade from others of the same store.
    pub id: String,
    /// The path of the copy of the older store. `None` if an earlier opening made the copy.
    pub copy: Option<PathBuf>,
    /// The store's revision before the upgrade. The audit log has no records of the upgrade's own
    /// commits.
    pub began: u64,
}

/// A store that authenticates its records with a manifest. `P` is a pointer to the store.
pub struct AuthenticatedStore<P> {
    store: P,
    sealer: Arc<Sealer>,
    key: Key,
    path: RecordPath,
    /// The manifest and its generation. `None` after a transaction with an unknown outcome: it is
    /// read again.
    manifest: Mutex<Option<(Manifest, u64)>>,
    /// The manifest of a store that was empty when it was opened, until its first commit writes the
    /// manifest.
    first: Option<Manifest>,
    copy: Option<PathBuf>,
}

impl<'a, P: Deref<Target = dyn Store + 'a> + Send + Sync> AuthenticatedStore<P> {
    /// Opens a store: compares all records with the manifest, or upgrades a store of an older
    /// format.
    ///
    /// # Errors
    /// [`Error::Integrity`], naming the family that differs; errors of the store.
    pub fn open(store: P, sealer: Arc<Sealer>) -> Result<Self, Error> {
        let mut opened = Self::unverified(store, sealer)?;
        match opened.read_manifest()? {
            Some(known) => opened.verified(known)?,
            None => opened.begun()?,
        }
        Ok(opened)
    }

    /// Opens a store without comparing its records, to complete an upgrade. The next opening
    /// compares them.
    pub(super) fn resumed(store: P, sealer: Arc<Sealer>) -> Result<Self, Error> {
        let mut resumed = Self::unverified(store, sealer)?;
        match resumed.read_manifest()? {
            Some(known) => resumed.manifest = Mutex::new(Some(known)),
            None => resumed.begun()?,
        }
        Ok(resumed)
    }

    fn unverified(store: P, sealer: Arc<Sealer>) -> Result<Self, Error> {
        let (key, path) = (sealer.manifest_key()?, RecordPath::new(PATH)?);
        let (manifest, first, copy) = (Mutex::default(), None, None);
        Ok(AuthenticatedStore { store, sealer, key, path, manifest, first, copy })
    }

    /// Returns the upgrade that is not yet in the audit log.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn upgrade_untold(&self) -> Result<Option<Upgrade>, Error> {
        let Some((manifest, _)) = self.current()? else { return Ok(None) };
        let (copy, began) = (self.copy.clone(), manifest.began);
        Ok(manifest.untold.map(|id| Upgrade { id, copy, began }))
    }

    /// Notes in the store that the audit log has a record of the upgrade.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn upgrade_told(&self) -> Result<(), Error> {
        let mut known = self.manifest.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((mut manifest, generation)) = self.read_manifest()? else {
            return Err(self.missing());
        };
        manifest.untold = None;
        *known = None;
        *known = Some(self.write_manifest(manifest, generation)?);
        Ok(())
    }

    /// Checks that a list of all records of a family, tombstones included, is complete.
    ///
    /// # Errors
    /// [`Error::Integrity`] if records are missing; errors of the store.
    pub fn check_listed(&self, family: &str, found: u64) -> Result<(), Error> {
        let wanted = self.current()?.map_or(0, |(manifest, _)| manifest.count(family));
        match found == wanted {
            true => Ok(()),
            false => Err(Error::Integrity {
                path: family.to_owned(),
                reason: format!(
                    "{found} records are there, {wanted} were written; restore a backup"
                ),
            }),
        }
    }

    /// Returns the store's current manifest and its generation.
    fn current(&self) -> Result<Option<(Manifest, u64)>, Error> {
        let _one = self.manifest.lock().unwrap_or_else(PoisonError::into_inner);
        self.read_manifest()
    }

    fn read_manifest(&self) -> Result<Option<(Manifest, u64)>, Error> {
        let read = self.store.read(std::slice::from_ref(&self.path))?;
        let Some(record) = read.records.into_iter().next().flatten() else { return Ok(None) };
        let value = record.value.ok_or_else(|| self.missing())?;
        let text = self.sealer.open(&self.path, record.generation, &value)?;
        let manifest: Manifest =
            serde_json::from_slice(&text).map_err(|error| self.damaged(&error.to_string()))?;
        match manifest.is_known() {
            true => Ok(Some((manifest, record.generation))),
            false => Err(self.damaged("a newer program wrote it")),
        }
    }

    /// Writes a manifest without other records. Returns the manifest and its generation.
    fn write_manifest(&self, manifest: Manifest, before: u64) -> Result<(Manifest, u64), Error> {
        let put =
            Transaction::new().put(self.path.clone(), before, self.sealed(&manifest, before)?);
        match settle(&*self.store, &put)? {
            SettleOutcome::Committed => Ok((manifest, before + 1)),
            SettleOutcome::Conflict(_) => Err(Error::Conflict),
            SettleOutcome::Unknown => Err(Error::OutcomeUnknown),
        }
    }

    fn sealed(&self, manifest: &Manifest, before: u64) -> Result<Vec<u8>, Error> {
        let text =
            serde_json::to_vec(manifest).map_err(|error| self.damaged(&error.to_string()))?;
        self.sealer.seal(&self.path, before + 1, &text)
    }

    /// Compares every record with the manifest.
    fn verified(&mut self, (manifest, generation): (Manifest, u64)) -> Result<(), Error> {
        let elements = Elements::new(&self.key)?;
        let mut found = Manifest::new(manifest.began);
        let revision = self.store.scan(false, &mut |record| {
            added(&mut found, &elements, record);
            Ok(())
        })?;
        manifest.check(&found)?;
        if self.store.format() < FORMAT {
            let reason = "its format was put back to an older one; restore a backup".to_owned();
            return Err(Error::Integrity { path: "the store's file".to_owned(), reason });
        }
        let wanted = manifest.began.saturating_add(generation);
        if revision.0 != wanted {
            let reason = format!(
                "the revision is {}, and {wanted} was written; restore a backup",
                revision.0
            );
            return Err(Error::Integrity { path: "the store's file".to_owned(), reason });
        }
        self.manifest = Mutex::new(Some((manifest, generation)));
        Ok(())
    }

    /// Creates the manifest of a store that lacks one: a new store, or a store of an older program.
    fn begun(&mut self) -> Result<(), Error> {
        let elements = Elements::new(&self.key)?;
        let (mut manifest, mut records, mut refused) = (Manifest::new(0), 0_u64, None);
        let revision = self.store.scan(true, &mut |record| {
            added(&mut manifest, &elements, record);
            if record.path.as_str() == CONFIG {
                return Ok(());
            }
            records += 1;
            let Some(value) = record.value.filter(|_| refused.is_none()) else { return Ok(()) };
            let opened = self.sealer.open_without_manifest(record.path, record.generation, value);
            refused = opened.err();
            Ok(())
        })?;
        if let Some(error) = refused {
            return Err(error);
        }
        manifest.began = revision.0;
        match (self.sealer.needs_manifest(), records) {
            (true, _) => Err(self.missing()),
            // The store's first commit writes the manifest, together with the commit's changes to
            // it.
            (false, 0) => {
                self.first = Some(manifest);
                Ok(())
            }
            (false, _) => {
                let mut id = [0; 8];
                OsEntropy.fill(&mut id).map_err(EngineError::from)?;
                manifest.untold = Some(hex(&id));
                self.copy = self.store.upgrade()?;
                let written = self.write_manifest(manifest, 0)?;
                self.manifest = Mutex::new(Some(written));
                Ok(())
            }
        }
    }

    fn missing(&self) -> Error {
        self.damaged("it was removed; restore a backup")
    }

    fn damaged(&self, reason: &str) -> Error {
        Error::Integrity { path: PATH.to_owned(), reason: reason.to_owned() }
    }

    /// Commits a transaction together with the new manifest. Returns `None` if the stored manifest
    /// has changed: then nothing was written.
    fn commit_once(
        &self,
        known: &mut Option<(Manifest, u64)>,
        transaction: &Transaction,
    ) -> Result<Option<Outcome>, Error> {
        let (mut manifest, before) = match known.take() {
            Some(known) => known,
            None => match (self.read_manifest()?, &self.first) {
                (Some(known), _) => known,
                (None, Some(first)) => (first.clone(), 0),
                (None, None) => return Err(self.missing()),
            },
        };
        *known = Some((manifest.clone(), before));
        let paths: Vec<_> = transaction.writes().iter().map(|write| write.path.clone()).collect();
        let elements = Elements::new(&self.key)?;
        let found = self.store.read(&paths)?.records;
        for (write, found) in transaction.writes().iter().zip(found) {
            let path = write.path.as_str();
            let generation = found.as_ref().map_or(0, |record| record.generation);
            if generation != write.before {
                let conflict = Conflict { path: write.path.clone(), found: generation };
                return Ok(Some(Outcome::Conflict(conflict)));
            }
            if let Some(old) = found {
                manifest.remove(path, &elements.of(path, generation, old.digest(path)));
            }
            let new = Record { generation: generation + 1, value: write.value.clone() };
            manifest.add(path, &elements.of(path, new.generation, new.digest(path)));
        }
        let sealed = self.sealed(&manifest, before)?;
        let both = transaction.clone().put(self.path.clone(), before, sealed);
        // Forget the manifest first: if the commit does not return, the manifest has to be read
        // again.
        *known = None;
        match self.store.commit(&both)? {
            Outcome::Conflict(conflict) if conflict.path == self.path => Ok(None),
            outcome => {
                if matches!(outcome, Outcome::Committed(_)) {
                    *known = Some((manifest, before + 1));
                }
                Ok(Some(outcome))
            }
        }
    }
}

/// Adds a record to a manifest. The manifest's own record does not count.
fn added(manifest: &mut Manifest, elements: &Elements, record: &ScannedRecord<'_>) {
    let path = record.path.as_str();
    if path != PATH {
        manifest.add(path, &elements.of(path, record.generation, record.digest));
    }
}

impl<'a, P: Deref<Target = dyn Store + 'a> + Send + Sync> Store for AuthenticatedStore<P> {
    fn caps(&self) -> Caps {
        let caps = self.store.caps();
        // One step of each transaction is reserved for the manifest.
        Caps { steps_max: caps.steps_max.saturating_sub(1), ..caps }
    }

    fn identity(&self) -> Identity {
        self.store.identity()
    }

    fn read(&self, paths: &[RecordPath]) -> Result<ReadResult, StoreError> {
        self.store.read(paths)
    }

    fn list(
        &self,
        under: &RecordPath,
        after: Option<&RecordPath>,
        most: usize,
    ) -> Result<Page, StoreError> {
        self.store.list(under, after, most)
    }

    fn scan(&self, with_values: bool, visit: &mut Visit<'_>) -> Result<Revision, StoreError> {
        self.store.scan(with_values, visit)
    }

    fn commit(&self, transaction: &Transaction) -> Result<Outcome, StoreError> {
        transaction.check(&self.caps())?;
        let mut known = self.manifest.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..TRIES {
            match self.commit_once(&mut known, transaction) {
                Ok(Some(outcome)) => return Ok(outcome),
                Ok(None) => {}
                Err(Error::Store(error)) => return Err(error),
                Err(error) => return Err(StoreError::Corrupt(error.to_string())),
            }
        }
        Err(StoreError::Unavailable("concurrent changes keep interfering; try again".to_owned()))
    }

    fn format(&self) -> u64 {
        self.store.format()
    }

    fn upgrade(&self) -> Result<Option<PathBuf>, StoreError> {
        self.store.upgrade()
    }
}
