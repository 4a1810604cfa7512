//! Stores made from the records of another store, and the numbers of records.

use std::path::Path;

use rusqlite::{ErrorCode, params};

use super::{FORMAT, RULES, SCHEMA, SqliteStore, error_of, in_place, is_whole, marks, number};
use crate::store::records::{Record, RecordPath};
use crate::store::terms::{Identity, Revision, StoreError};

/// The properties of a store, which precede its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// The store's identity.
    pub identity: Identity,
    /// The oldest format of a program that may write the store.
    pub min_writer: u64,
    pub revision: Revision,
    /// The number of records ever created. Records are never deleted, so a record's number stays
    /// unique.
    pub records: u64,
}

/// A record and its number in its store, from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NumberedRecord {
    pub number: u64,
    pub path: RecordPath,
    pub record: Record,
}

impl SqliteStore {
    /// Creates a store from the records of another one, as its next incarnation. On failure no
    /// store is left. Returns [`StoreError::Malformed`] for impossible records.
    pub(crate) fn read_in(
        to: &Path,
        head: &Head,
        next: &mut dyn FnMut() -> Result<Option<NumberedRecord>, StoreError>,
    ) -> Result<(), StoreError> {
        if head.min_writer > FORMAT {
            return Err(StoreError::TooOld { what: "write", wanted: head.min_writer, has: FORMAT });
        }
        in_place(to, &mut |connection| {
            let transaction = connection.transaction().map_err(error_of)?;
            transaction.execute_batch(SCHEMA).map_err(error_of)?;
            let Head { identity, min_writer, revision, .. } = head;
            transaction
                .execute(
                    "INSERT INTO store VALUES (1, ?1, ?1, ?2, ?3, ?4)",
                    params![
                        *min_writer as i64,
                        &identity.id[..],
                        (identity.incarnation as i64).saturating_add(1),
                        revision.0 as i64
                    ],
                )
                .map_err(error_of)?;
            let insert = "INSERT INTO records (rowid, path, generation, value, digest) VALUES (?1, ?2, ?3, ?4, ?5)";
            let mut statement = transaction.prepare(insert).map_err(error_of)?;
            while let Some(NumberedRecord { number, path, record }) = next()? {
                let digest = record.digest(path.as_str());
                let row = params![
                    number as i64,
                    path.as_str(),
                    record.generation as i64,
                    record.value,
                    &digest[..]
                ];
                statement.execute(row).map_err(|error| match error.sqlite_error_code() {
                    Some(ErrorCode::ConstraintViolation) => {
                        StoreError::Malformed("two of its records have one path")
                    }
                    _ => error_of(error),
                })?;
            }
            drop(statement);
            transaction.execute_batch(RULES).map_err(error_of)?;
            transaction.commit().map_err(error_of)?;
            marks(connection)?;
            is_whole(connection)
        })
    }

    /// Returns the number of records ever created.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn records(&self) -> Result<u64, StoreError> {
        self.with(|connection| born(connection))
    }

    /// Returns a record's number in the store, from 1; also for a tombstone.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn number_of(&self, path: &RecordPath) -> Result<Option<u64>, StoreError> {
        self.with(|connection| super::number_of(connection, path))
    }

    /// Returns the number of records under a path that are not tombstones and were created after
    /// the first `records` records.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn count_after(&self, under: &RecordPath, records: u64) -> Result<u64, StoreError> {
        let (start, end) = (format!("{under}/"), format!("{under}0")); // The byte after `/` is `0`.
        self.with(|connection| {
            let text = "SELECT count(*) FROM records WHERE path > ?1 AND path < ?2 AND rowid > ?3 AND value IS NOT NULL";
            let after = i64::try_from(records).unwrap_or(i64::MAX);
            number(connection.query_row(text, params![start, end, after], |row| row.get(0)).map_err(error_of)?)
        })
    }
}

/// Returns the number of records ever created: rows are numbered from 1 and never deleted.
pub(super) fn born(connection: &rusqlite::Connection) -> Result<u64, StoreError> {
    let last = "SELECT coalesce(max(rowid), 0) FROM records";
    number(connection.query_row(last, (), |row| row.get(0)).map_err(error_of)?)
}
