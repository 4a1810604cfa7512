//! Wrappers for stores in tests, which override single methods.

use std::path::PathBuf;

use super::contract::{Outcome, Store, Visit};
use super::records::{Page, ReadResult, RecordPath, Transaction};
use super::terms::{Caps, Identity, Revision, StoreError};

/// A store that wraps another one and delegates all methods that are not overridden.
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
    /// Returns the wrapped store.
    fn below(&self) -> &dyn Store;

    /// Delegates [`Store::read`].
    ///
    /// # Errors
    /// Those of [`Store::read`].
    fn read(&self, paths: &[RecordPath]) -> Result<ReadResult, StoreError> {
        self.below().read(paths)
    }

    /// Delegates [`Store::list`].
    ///
    /// # Errors
    /// Those of [`Store::list`].
    fn list(
        &self,
        under: &RecordPath,
        after: Option<&RecordPath>,
        most: usize,
    ) -> Result<Page, StoreError> {
        self.below().list(under, after, most)
    }

    /// Delegates [`Store::commit`].
    ///
    /// # Errors
    /// Those of [`Store::commit`].
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
