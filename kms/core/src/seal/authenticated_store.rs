//! A store whose records are counted and hashed, so that somebody who can write its file, and has no share, removes none.
//!
//! ```text
//!   open    every record --> sums of families == manifest?       else refused, naming the family
//!   commit  writes --> + manifest of afterwards, in the same transaction
//!
//!   no manifest, no records                      a new store
//!   no manifest, all records of the first format an older program's: copy, mark, manifest       the upgrade
//!   no manifest, any record of a newer format    refused: the manifest was removed
//! ```
//!
//! That a store was upgraded is not taken from the mark in its file, which nobody authenticates: each record written beside a
//! manifest says so under the seal, and so does a seal that was dealt since. The audit log says so, too: a store that was put
//! back to before its upgrade as a whole is refused by the service.

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

/// Where the manifest is.
const PATH: &str = "integrity/manifest";

/// The only record that is not sealed: it says how the seal is opened.
const CONFIG: &str = "seal/config";

/// How often a transaction is sent if something that nobody waits for any more changed the manifest meanwhile.
const TRIES: usize = 16;

/// What an upgrade to this program's format did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upgrade {
    /// A random name, which tells it from others of the same store.
    pub id: String,
    /// Where the copy of the older store is. `None` if an earlier opening made it.
    pub copy: Option<PathBuf>,
    /// The store's revision before the upgrade, whose own commits are not the log's.
    pub began: u64,
}

/// A store with a manifest of its records, by a pointer to it.
pub struct AuthenticatedStore<P> {
    store: P,
    sealer: Arc<Sealer>,
    key: Key,
    path: RecordPath,
    /// The manifest and its generation. `None` after a transaction whose outcome is not known: it is read again.
    manifest: Mutex<Option<(Manifest, u64)>>,
    /// The manifest of a store that had no record when it was opened, until its first commit writes one.
    first: Option<Manifest>,
    copy: Option<PathBuf>,
}

impl<'a, P: Deref<Target = dyn Store + 'a> + Send + Sync> AuthenticatedStore<P> {
    /// Opens a store: compares all of its records with its manifest, or upgrades one of an older format.
    ///
    /// # Errors
    /// [`Error::Integrity`], naming the family; the store's.
    pub fn open(store: P, sealer: Arc<Sealer>) -> Result<Self, Error> {
        let mut opened = Self::unverified(store, sealer)?;
        match opened.read_manifest()? {
            Some(known) => opened.verified(known)?,
            None => opened.begun()?,
        }
        Ok(opened)
    }

    /// The same without comparing, for a change that is itself compared at the next opening.
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

    /// The upgrade that the audit log has yet to be told of.
    ///
    /// # Errors
    /// The store's.
    pub fn upgrade_untold(&self) -> Result<Option<Upgrade>, Error> {
        let Some((manifest, _)) = self.current()? else { return Ok(None) };
        let (copy, began) = (self.copy.clone(), manifest.began);
        Ok(manifest.untold.map(|id| Upgrade { id, copy, began }))
    }

    /// Notes that the audit log was told of the upgrade.
    ///
    /// # Errors
    /// The store's.
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

    /// Checks that a list of all records of a family, buried ones too, left out none.
    ///
    /// # Errors
    /// [`Error::Integrity`]; the store's.
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

    /// The manifest as the store has it now.
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

    /// Writes a manifest by itself. It and its generation.
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

    /// Makes the manifest of a store that has none: a new one, or one of an older program.
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
            // Its first commit writes the manifest, with what that changes.
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

    /// Runs a transaction with the manifest of afterwards. `None`: the manifest was another, and nothing happened.
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
        // Whatever ends it before it is answered: the manifest is read again.
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

/// Adds a record to a manifest, which is no part of itself.
fn added(manifest: &mut Manifest, elements: &Elements, record: &ScannedRecord<'_>) {
    let path = record.path.as_str();
    if path != PATH {
        manifest.add(path, &elements.of(path, record.generation, record.digest));
    }
}

impl<'a, P: Deref<Target = dyn Store + 'a> + Send + Sync> Store for AuthenticatedStore<P> {
    fn caps(&self) -> Caps {
        let caps = self.store.caps();
        // One of them is the manifest's.
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
        Err(StoreError::Unavailable("others change it again and again".to_owned()))
    }

    fn format(&self) -> u64 {
        self.store.format()
    }

    fn upgrade(&self) -> Result<Option<PathBuf>, StoreError> {
        self.store.upgrade()
    }
}
