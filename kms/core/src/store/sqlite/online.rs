//! Online copies: reads all records of one revision while the store is in use.
//!
//! ```text
//!   records   1 ......... read ............................ last | later ones, which are not in the copy
//!                          |  a record replaced here: its old content is kept until the copy reaches it
//!                          '--> a page at a time, between which other calls read and commit
//! ```
//!
//! The store has only one connection, and no other process may open the file. So a long SQLite
//! transaction would block all commits. Instead, records are numbered and never deleted: the
//! content at a revision is the records up to a number, except those that were replaced since. A
//! page is read under the store's lock, and written without it.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

use rusqlite::{Connection, params};

use super::copies::{Head, NumberedRecord, born};
use super::{Open, SqliteStore, error_of, number, record_of, revision};
use crate::store::records::{Record, RecordPath};
use crate::store::terms::StoreError;

/// The number of bytes of values that are read under the lock at once. One more value may follow.
const PAGE_BYTES: usize = 256 << 10;

/// The number of records that are read under the lock at once.
const PAGE_RECORDS: i64 = 512;

/// The number of paths that are counted under the lock at once.
const PATHS_TOGETHER: i64 = 4096;

/// The maximum number of bytes of replaced records that the copy has not reached yet.
const KEPT_MAX: usize = 64 << 20;

/// The approximate memory that a kept record takes in addition to its value and path, in bytes.
const KEPT_BESIDES: usize = 200;

/// The revision that is being copied.
pub struct Snapshot {
    /// The number of the last record that was read.
    read: u64,
    /// The number of the last record of the revision.
    last: u64,
    /// The old content of records after `read` that were replaced, by number.
    kept: BTreeMap<u64, (RecordPath, Record)>,
    bytes: usize,
    /// Whether more was replaced than can be kept: then the copy fails.
    is_outrun: bool,
}

impl Snapshot {
    /// Keeps a record before it is replaced.
    pub fn keep(&mut self, number: Option<u64>, path: &RecordPath, record: Record) {
        let is_wanted = |number: &u64| {
            *number > self.read && *number <= self.last && !self.kept.contains_key(number)
        };
        let Some(number) = number.filter(is_wanted) else { return };
        self.bytes += kept_bytes(path, &record);
        self.is_outrun |= self.bytes > KEPT_MAX;
        if self.is_outrun {
            self.kept.clear();
        } else {
            self.kept.insert(number, (path.clone(), record));
        }
    }

    /// Returns the old content of a record, if it was replaced since.
    fn take(&mut self, number: u64) -> Option<(RecordPath, Record)> {
        let kept = self.kept.remove(&number)?;
        self.bytes = self.bytes.saturating_sub(kept_bytes(&kept.0, &kept.1));
        Some(kept)
    }

    /// Reads the next page; empty after the last record.
    fn page(&mut self, connection: &Connection) -> Result<Vec<NumberedRecord>, StoreError> {
        if self.is_outrun {
            return Err(StoreError::Outrun { most: KEPT_MAX });
        }
        let text = "SELECT path, generation, value, digest, rowid FROM records NOT INDEXED \
                    WHERE rowid > ?1 AND rowid <= ?2 ORDER BY rowid LIMIT ?3";
        let mut statement = connection.prepare(text).map_err(error_of)?;
        let of = params![self.read as i64, self.last as i64, PAGE_RECORDS];
        let mut rows = statement.query(of).map_err(error_of)?;
        let (mut page, mut bytes) = (Vec::new(), 0);
        while let Some(row) = rows.next().map_err(error_of)? {
            let number = number(row.get(4).map_err(error_of)?)?;
            let (path, record) = match self.take(number) {
                Some(kept) => kept,
                None => record_of(row)?,
            };
            bytes += record.value.as_ref().map_or(0, Vec::len);
            page.push(NumberedRecord { number, path, record });
            self.read = number;
            if bytes >= PAGE_BYTES {
                break;
            }
        }
        Ok(page)
    }
}

fn kept_bytes(path: &RecordPath, record: &Record) -> usize {
    KEPT_BESIDES + path.as_str().len() + record.value.as_ref().map_or(0, Vec::len)
}

/// A copy in progress. A store has at most one.
pub(crate) struct BackupCopy<'a> {
    store: &'a SqliteStore,
    _one: MutexGuard<'a, ()>,
}

impl SqliteStore {
    /// Begins a copy, after any other copy has ended. Other calls do not wait.
    pub(crate) fn copying(&self) -> BackupCopy<'_> {
        let one = self.copying.lock().unwrap_or_else(PoisonError::into_inner);
        BackupCopy { store: self, _one: one }
    }
}

impl BackupCopy<'_> {
    /// Passes the store's head and then its records, in the order of their creation, all of the
    /// current revision. Other calls read and commit meanwhile.
    pub(crate) fn read_out(
        &self,
        begin: &mut dyn FnMut(&Head) -> Result<(), StoreError>,
        take: &mut dyn FnMut(&NumberedRecord) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let store = self.store;
        let head = store.at_a_page(|connection, snapshot| {
            let records = born(connection)?;
            let (read, last, bytes) = (0, records, 0);
            let kept = BTreeMap::new();
            *snapshot = Some(Snapshot { read, last, kept, bytes, is_outrun: false });
            let identity = store.marks.identity;
            let min_writer = store.format.load(Ordering::Acquire);
            Ok(Head { identity, min_writer, revision: revision(connection)?, records })
        })?;
        begin(&head)?;
        let mut count = 0;
        loop {
            let page = store.at_a_page(|connection, snapshot| match snapshot {
                Some(snapshot) => snapshot.page(connection),
                None => Err(StoreError::Unavailable("its copy was given up".to_owned())),
            })?;
            if page.is_empty() {
                break;
            }
            count += page.len() as u64;
            page.iter().try_for_each(&mut *take)?;
        }
        // The index is a separate tree: a table that lost rows is detected here.
        let indexed = store.count_paths(head.records)?;
        match indexed == count {
            true => Ok(()),
            false => {
                Err(StoreError::Corrupt(format!("{count} records, and {indexed} by their paths")))
            }
        }
    }
}

/// Stops keeping replaced records when the copy has ended.
impl Drop for BackupCopy<'_> {
    fn drop(&mut self) {
        let mut open = self.store.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.snapshot = None;
    }
}

impl SqliteStore {
    /// Runs a step of a copy on the connection.
    fn at_a_page<T>(
        &self,
        run: impl FnOnce(&Connection, &mut Option<Snapshot>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut open = self.opened()?;
        let Open { connection: Some(connection), snapshot, .. } = &mut *open else {
            return Err(StoreError::Forked);
        };
        run(connection, snapshot)
    }

    /// Returns how many of the first `records` records the index of paths contains.
    fn count_paths(&self, records: u64) -> Result<u64, StoreError> {
        let (mut after, mut count) = (String::new(), 0);
        loop {
            let page = self.at_a_page(|connection, _| paths_after(connection, &after))?;
            let Some((last, _)) = page.last() else { return Ok(count) };
            after.clone_from(last);
            for (_, found) in &page {
                count += u64::from(number(*found)? <= records);
            }
        }
    }
}

/// Returns the next paths and their numbers from the index.
fn paths_after(connection: &Connection, after: &str) -> Result<Vec<(String, i64)>, StoreError> {
    let text = "SELECT path, rowid FROM records INDEXED BY sqlite_autoindex_records_1 \
                WHERE path > ?1 ORDER BY path LIMIT ?2";
    let mut statement = connection.prepare(text).map_err(error_of)?;
    let rows =
        statement.query_map(params![after, PATHS_TOGETHER], |row| Ok((row.get(0)?, row.get(1)?)));
    rows.map_err(error_of)?.map(|row| row.map_err(error_of)).collect()
}
