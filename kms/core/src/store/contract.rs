//! What a store promises.

use std::path::PathBuf;

use super::records::{Page, ReadResult, RecordPath, Transaction};
use super::terms::{Caps, FORMAT, Identity, Revision, StoreError};

/// What became of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a transaction is committed only if this says so"]
pub enum Outcome {
    /// All of it is there.
    Committed(Revision),
    /// Nothing of it is there.
    Conflict(Conflict),
    /// Nobody knows, and it may still happen later. [`super::settle()`] finds out.
    Unknown,
}

/// A record that had another generation than a transaction expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The record.
    pub path: RecordPath,
    /// The generation that it has.
    pub found: u64,
}

/// A record visited by [`Store::scan`].
#[derive(Clone, Copy, Debug)]
pub struct ScannedRecord<'a> {
    /// The path.
    pub path: &'a RecordPath,
    /// How often it was written.
    pub generation: u64,
    /// The value, if values were asked for. `None` also for a buried record.
    pub value: Option<&'a [u8]>,
    /// [`Record::digest`](super::Record::digest), as the store has it. Reading the record checks it against the value.
    pub digest: [u8; 16],
}

/// Takes the records of a [`Store::scan`], one a call.
pub type Visit<'a> = dyn FnMut(&ScannedRecord<'_>) -> Result<(), StoreError> + 'a;

/// Where records are kept.
///
/// # Examples
/// ```
/// use gabion_kms::store::{MemoryStore, Outcome, RecordPath, Store, Transaction};
///
/// let store = MemoryStore::new();
/// let path = RecordPath::new("keys/a")?;
/// let write = Transaction::new().put(path.clone(), 0, b"value".to_vec());
/// assert!(matches!(store.commit(&write)?, Outcome::Committed(_)));
/// // The same again replaces a generation that is no longer there.
/// assert!(matches!(store.commit(&write)?, Outcome::Conflict(_)));
/// # Ok::<(), gabion_kms::store::StoreError>(())
/// ```
pub trait Store: Send + Sync {
    /// What it can do.
    fn caps(&self) -> Caps;

    /// Which one it is.
    fn identity(&self) -> Identity;

    /// Reads records, all of the same moment, which is not before the last commit that was answered.
    ///
    /// # Errors
    /// It does not answer; what is kept was damaged.
    fn read(&self, paths: &[RecordPath]) -> Result<ReadResult, StoreError>;

    /// Reads at most `most` of the records beneath a path that come after another one.
    ///
    /// # Errors
    /// As [`Self::read`].
    fn list(
        &self,
        under: &RecordPath,
        after: Option<&RecordPath>,
        most: usize,
    ) -> Result<Page, StoreError>;

    /// Visits every record, buried ones too, in any order and all of one moment. Values are read only if asked for.
    ///
    /// # Errors
    /// As [`Self::read`]; the first error of `visit`.
    fn scan(&self, with_values: bool, visit: &mut Visit<'_>) -> Result<Revision, StoreError>;

    /// Runs a transaction, all of it or nothing.
    ///
    /// # Errors
    /// Whatever they are, nothing of the transaction is there, and never will be.
    fn commit(&self, transaction: &Transaction) -> Result<Outcome, StoreError>;

    /// Returns the format that the store claims to have. Nothing authenticates it.
    fn format(&self) -> u64 {
        FORMAT
    }

    /// Keeps a copy of a store of an older format, then marks the store with [`FORMAT`], so that older programs refuse it.
    /// Returns where the copy is, or `None` if the store has the format already.
    ///
    /// # Errors
    /// The copy or the mark could not be written. Calling it again goes on.
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
