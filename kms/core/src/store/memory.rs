//! A store in memory. It ends with the process and writes nothing to disk.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::contract::{Conflict, Outcome, ScannedRecord, Store, Visit};
use super::records::{Page, ReadResult, Record, RecordPath, Transaction};
use super::terms::{Caps, Durability, Identity, Revision, StoreError};

/// A store in memory.
#[derive(Debug)]
pub struct MemoryStore {
    identity: Identity,
    kept: Mutex<MemoryState>,
}

#[derive(Debug, Default)]
struct MemoryState {
    revision: u64,
    records: BTreeMap<RecordPath, Record>,
}

impl MemoryStore {
    /// Creates an empty store. Its id is all zeros, which is safe because nothing outlives the
    /// process.
    pub fn new() -> Self {
        Self::with_id([0; 16])
    }

    /// Creates an empty store with an id.
    pub fn with_id(id: [u8; 16]) -> Self {
        MemoryStore { identity: Identity { id, incarnation: 0 }, kept: Mutex::default() }
    }

    /// Locks the state. A panic while it is locked does not corrupt it: each change is made after
    /// all checks.
    fn kept(&self) -> MutexGuard<'_, MemoryState> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl Store for MemoryStore {
    fn caps(&self) -> Caps {
        Caps { durability: Durability::Volatile, value_max: 1 << 20, steps_max: 128 }
    }

    fn identity(&self) -> Identity {
        self.identity
    }

    fn read(&self, paths: &[RecordPath]) -> Result<ReadResult, StoreError> {
        let kept = self.kept();
        let records = paths.iter().map(|path| kept.records.get(path).cloned()).collect();
        Ok(ReadResult { revision: Revision(kept.revision), records })
    }

    fn list(
        &self,
        under: &RecordPath,
        after: Option<&RecordPath>,
        most: usize,
    ) -> Result<Page, StoreError> {
        let kept = self.kept();
        let start = after.filter(|after| *after > under).unwrap_or(under);
        // Other paths may be between a path and the paths under it: `a+b` sorts before `a/b`.
        let behind = kept.records.range((Bound::Excluded(start.clone()), Bound::Unbounded));
        let end = format!("{under}0"); // The byte after `/` is `0`.
        let records = behind
            .take_while(|(path, _)| path.as_str() < end.as_str())
            .filter(|(path, _)| path.is_under(under))
            .take(most)
            .map(|(path, record)| (path.clone(), record.clone()))
            .collect();
        Ok(Page { revision: Revision(kept.revision), records })
    }

    fn scan(&self, with_values: bool, visit: &mut Visit<'_>) -> Result<Revision, StoreError> {
        let kept = self.kept();
        for (path, record) in &kept.records {
            let value = record.value.as_deref().filter(|_| with_values);
            let (generation, digest) = (record.generation, record.digest(path.as_str()));
            visit(&ScannedRecord { path, generation, value, digest })?;
        }
        Ok(Revision(kept.revision))
    }

    fn commit(&self, transaction: &Transaction) -> Result<Outcome, StoreError> {
        transaction.check(&self.caps())?;
        let mut kept = self.kept();
        let expected = transaction.guards().iter().map(|guard| (&guard.path, guard.generation));
        let replaced = transaction.writes().iter().map(|write| (&write.path, write.before));
        for (path, generation) in expected.chain(replaced) {
            let found = kept.records.get(path).map_or(0, |record| record.generation);
            if found != generation {
                return Ok(Outcome::Conflict(Conflict { path: path.clone(), found }));
            }
        }
        for write in transaction.writes() {
            if kept.records.get(&write.path).is_some_and(|record| record.value.is_none()) {
                return Err(StoreError::Buried(write.path.to_string()));
            }
        }
        for write in transaction.writes() {
            let record = Record { generation: write.before + 1, value: write.value.clone() };
            kept.records.insert(write.path.clone(), record);
        }
        kept.revision += 1;
        Ok(Outcome::Committed(Revision(kept.revision)))
    }
}
