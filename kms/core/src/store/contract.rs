//! The contract of stores.

use std::path::PathBuf;

use super::records::{Page, ReadResult, RecordPath, Transaction};
use super::terms::{Caps, FORMAT, Identity, Revision, StoreError};

/// The outcome of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a transaction is committed only if this says so"]
pub enum Outcome {
    /// All of the transaction was applied, and is as durable as [`Caps::durability`] says.
    Committed(Revision),
    /// Nothing of the transaction was applied.
    Conflict(Conflict),
    /// The outcome is unknown, and the transaction may still be applied later. Call
    /// [`super::settle()`] to find out: it commits the same transaction again, which cannot apply
    /// it twice.
    Unknown,
}

/// A record whose generation differs from the one that a guard or write of a transaction expected.
/// If several differ, this is any one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The record's path.
    pub path: RecordPath,
    /// The generation that it has: the number of its writes, of which a tombstone is one; 0 if it
    /// was never written.
    pub found: u64,
}

/// A record visited by [`Store::scan`].
#[derive(Clone, Copy, Debug)]
pub struct ScannedRecord<'a> {
    /// The path.
    pub path: &'a RecordPath,
    /// The generation: the number of writes, of which a tombstone is one.
    pub generation: u64,
    /// The value, if values were requested. Always `None` for a tombstone.
    pub value: Option<&'a [u8]>,
    /// [`Record::digest`](super::Record::digest), as it is stored. `scan` does not compare it with
    /// the value; [`Store::read`] and [`Store::list`] do.
    pub digest: [u8; 16],
}

/// The callback of [`Store::scan`], called once for each record.
pub type Visit<'a> = dyn FnMut(&ScannedRecord<'_>) -> Result<(), StoreError> + 'a;

/// A store of records.
///
/// # Examples
/// ```
/// use gabion_kms::store::{MemoryStore, Outcome, RecordPath, Store, Transaction};
///
/// let store = MemoryStore::new();
/// let path = RecordPath::new("keys/a")?;
/// let write = Transaction::new().put(path.clone(), 0, b"value".to_vec());
/// assert!(matches!(store.commit(&write)?, Outcome::Committed(_)));
/// // A repeated transaction conflicts, because the generation that it replaces is gone.
/// assert!(matches!(store.commit(&write)?, Outcome::Conflict(_)));
/// # Ok::<(), gabion_kms::store::StoreError>(())
/// ```
pub trait Store: Send + Sync {
    /// Returns the store's capabilities.
    fn caps(&self) -> Caps;

    /// Returns the store's identity.
    fn identity(&self) -> Identity;

    /// Reads records, all of one revision, in the order of `paths`. The revision includes every
    /// commit that returned [`Outcome::Committed`] before the call.
    ///
    /// # Errors
    /// The store is unavailable or damaged.
    fn read(&self, paths: &[RecordPath]) -> Result<ReadResult, StoreError>;

    /// Reads at most `most` records whose paths are strictly under `under`, in byte order of their
    /// paths, tombstones included. If `after` is given, only records with a greater path are read;
    /// to read the next page, pass the last path of the previous one.
    ///
    /// # Errors
    /// Those of [`Self::read`].
    fn list(
        &self,
        under: &RecordPath,
        after: Option<&RecordPath>,
        most: usize,
    ) -> Result<Page, StoreError>;

    /// Visits every record, tombstones included, in any order and all of one revision. Values are
    /// read only if requested. The store may be locked meanwhile: `visit` must not call it.
    ///
    /// # Errors
    /// Those of [`Self::read`]; the first error of `visit`.
    fn scan(&self, with_values: bool, visit: &mut Visit<'_>) -> Result<Revision, StoreError>;

    /// Commits a transaction atomically. Blocks until the changes are as durable as
    /// [`Caps::durability`] says.
    ///
    /// # Errors
    /// After any error nothing of the transaction was applied, and never will be. If the store
    /// cannot rule out that the transaction was or will be applied, it must return
    /// `Ok(Outcome::Unknown)` instead.
    fn commit(&self, transaction: &Transaction) -> Result<Outcome, StoreError>;

    /// Returns the format that the store claims to have. It is not authenticated.
    fn format(&self) -> u64 {
        FORMAT
    }

    /// Keeps a copy of a store of an older format, then marks the store with [`FORMAT`], so that
    /// older programs reject it. Returns the path of the copy, or `None` if the store already has
    /// the format.
    ///
    /// # Errors
    /// The copy or the mark could not be written. Calling it again continues.
    fn upgrade(&self) -> Result<Option<PathBuf>, StoreError> {
        Ok(None)
    }
}

impl<S: Store + ?Sized> Store for std::sync::Arc<S> {
    fn caps(&self) -> Caps {
        (**self).caps()
    }

    fn identity(&self) -> Identity {
        (**self).identity()
    }

    fn read(&self, paths: &[RecordPath]) -> Result<ReadResult, StoreError> {
        (**self).read(paths)
    }

    fn list(
        &self,
        under: &RecordPath,
        after: Option<&RecordPath>,
        most: usize,
    ) -> Result<Page, StoreError> {
        (**self).list(under, after, most)
    }

    fn scan(&self, with_values: bool, visit: &mut Visit<'_>) -> Result<Revision, StoreError> {
        (**self).scan(with_values, visit)
    }

    fn commit(&self, transaction: &Transaction) -> Result<Outcome, StoreError> {
        (**self).commit(transaction)
    }

    fn format(&self) -> u64 {
        (**self).format()
    }

    fn upgrade(&self) -> Result<Option<PathBuf>, StoreError> {
        (**self).upgrade()
    }
}
