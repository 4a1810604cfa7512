//! Upgrades of stores of an older format: a copy, and the mark that keeps older programs out.
//!
//! ```text
//!   STORE of format 1 --copy--> STORE.format-1   whole, synced, mode 0600; an existing file is left alone
//!        '--mark--> format 2: older programs refuse it from here on
//! ```
//!
//! If the process is killed between the two steps, the next call reuses the copy if it is of the
//! same store and revision.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use rusqlite::{OpenFlags, params};

use super::{Options, SqliteStore, beside, connected, error_of, marks, revision, uri_of};
use crate::store::terms::{FORMAT, Identity, Revision, StoreError};

/// The maximum number of copies of one format.
const COPIES_MAX: u32 = 100;

impl SqliteStore {
    /// Opens a store whose commits do not wait for the disk, so that a crash may lose them. For
    /// benchmarks and tests that create many records.
    ///
    /// # Errors
    /// Those of [`Self::open`].
    #[doc(hidden)]
    pub fn testing_only_open_unsynced(path: &Path) -> Result<Self, StoreError> {
        let store = Self::open(path, Options::default())?;
        store.with(|connection| {
            connection.execute_batch("PRAGMA synchronous = OFF").map_err(error_of)
        })?;
        Ok(store)
    }

    /// Keeps a copy and marks the store, if it is of an older format.
    pub(super) fn upgraded(&self) -> Result<Option<PathBuf>, StoreError> {
        let format = self.format.load(Ordering::Acquire);
        if format >= FORMAT {
            return Ok(None);
        }
        let copy = self.kept_copy(format)?;
        self.with(|connection| {
            let mark = "UPDATE store SET min_reader = ?1, min_writer = ?1";
            connection.execute(mark, params![FORMAT as i64]).map(drop).map_err(error_of)
        })?;
        self.format.store(FORMAT, Ordering::Release);
        Ok(Some(copy))
    }

    /// Returns a copy of the current store, which an interrupted upgrade may have made.
    fn kept_copy(&self, format: u64) -> Result<PathBuf, StoreError> {
        let now = (self.marks.identity, self.with(|connection| revision(connection))?);
        for number in 1..=COPIES_MAX {
            let ending = match number {
                1 => format!(".format-{format}"),
                number => format!(".format-{format}.{number}"),
            };
            let copy = beside(&self.path, &ending);
            match self.backup(&copy) {
                Ok(()) => return Ok(copy),
                Err(StoreError::Exists(_)) if of(&copy).ok() == Some(now) => return Ok(copy),
                Err(StoreError::Exists(_)) => {}
                Err(error) => return Err(error),
            }
        }
        let why = format!(
            "the store's folder has {COPIES_MAX} copies of format {format}; move them away"
        );
        Err(StoreError::Unavailable(why))
    }
}

/// Returns the identity and the revision of a copy.
fn of(copy: &Path) -> Result<(Identity, Revision), StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let connection = connected(Path::new(&uri_of(copy)?), flags)?;
    Ok((marks(&connection)?.identity, revision(&connection)?))
}
