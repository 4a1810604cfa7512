//! Stores over others, of which only what differs has to be written down.

use std::path::PathBuf;

use super::contract::{Outcome, Store, Visit};
use super::records::{Page, ReadResult, RecordPath, Transaction};
use super::terms::{Caps, Identity, Revision, StoreError};

/// A store that wraps another one and passes on what it does not override.
///
/// # Examples
/// ```
/// use gabion_kms::store::testing::StoreWrapper;
/// use gabion_kms::store::{MemoryStore, Outcome, Store, StoreError, Transaction};
///
/// struct Full(MemoryStore);
///
/// impl StoreWrapper for Full {
///     fn below(&self) -> &dyn Store {
///         &self.0
///     }
///
///     fn commit(&self, _: &Transaction) -> Result<Outcome, StoreError> {
///         Err(StoreError::Full)
///     }
/// }
///
/// let store: &dyn Store = &Full(MemoryStore::new());
/// assert_eq!(store.commit(&Transaction::new()), Err(StoreError::Full));
/// ```
pub trait StoreWrapper: Send + Sync {
    /// The other one.
    fn below(&self) -> &dyn Store;

    /// As [`Store::read`].
    ///
    /// # Errors
    /// As there.
    fn read(&self, paths: &[RecordPath]) -> Result<ReadResult, StoreError> {
        self.below().read(paths)
    }

    /// As [`Store::list`].
    ///
    /// # Errors
    /// As there.
    fn list(
        &self,
        under: &RecordPath,
        after: Option<&RecordPath>,
        most: usize,
    ) -> Result<Page, StoreError> {
        self.below().list(under, after, most)
    }

    /// As [`Store::commit`].
    ///
    /// # Errors
    /// As there.
    fn commit(&self, transaction: &Transaction) -> Result<Outcome, StoreError> {
        self.below().commit(transaction)
    }
}

impl<S: StoreWrapper> Store for S {
    fn caps(&self) -> Caps {
        self.below().caps()
    }

    fn identity(&self) -> Identity {
        self.below().identity()
    }

    fn read(&self, paths: &[RecordPath]) -> Result<ReadResult, StoreError> {
        StoreWrapper::read(self, paths)
    }

    fn list(
        &self,
        under: &RecordPath,
        after: Option<&RecordPath>,
        most: usize,
    ) -> Result<Page, StoreError> {
        StoreWrapper::list(self, under, after, most)
    }

    fn scan(&self, with_values: bool, visit: &mut Visit<'_>) -> Result<Revision, StoreError> {
        self.below().scan(with_values, visit)
    }

    fn commit(&self, transaction: &Transaction) -> Result<Outcome, StoreError> {
        StoreWrapper::commit(self, transaction)
    }

    fn format(&self) -> u64 {
        self.below().format()
    }

    fn upgrade(&self) -> Result<Option<PathBuf>, StoreError> {
        self.below().upgrade()
    }
}
