//! What a store has, one record after the other, and a store that is made of that.

use std::path::Path;

use rusqlite::{OptionalExtension, params};

use super::{
    FORMAT, RULES, SCHEMA, SqliteStore, digest, error_of, in_place, is_whole, marks, number,
    record_of, revision,
};
use crate::store::records::{Record, RecordPath};
use crate::store::terms::{Identity, Revision, StoreError};

/// What is said of a store before its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// Which store, and how often it was restored.
    pub identity: Identity,
    /// The oldest format of a program that may write it.
    pub min_writer: u64,
    pub revision: Revision,
    /// How many records there ever were: none is deleted, so that a record's number never is another one's.
    pub records: u64,
}

/// A record, and the how-manieth of its store it is, from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Numbered {
    pub number: u64,
    pub path: RecordPath,
    pub record: Record,
}

impl SqliteStore {
    /// Gives the store's head and then its records in the order in which they came about, all of one revision. Reads and
    /// commits wait meanwhile.
    pub(crate) fn read_out(
        &self,
        begin: &mut dyn FnMut(&Head) -> Result<(), StoreError>,
        take: &mut dyn FnMut(&Numbered) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let open = self.opened()?;
        let connection = open.connection.as_ref().ok_or(StoreError::Forked)?;
        let records = born(connection)?;
        let (identity, min_writer) = (self.marks.identity, self.marks.min_writer);
        begin(&Head { identity, min_writer, revision: revision(connection)?, records })?;
        let all =
            "SELECT path, generation, value, digest, rowid FROM records NOT INDEXED ORDER BY rowid";
        let mut statement = connection.prepare(all).map_err(error_of)?;
        let mut rows = statement.query(()).map_err(error_of)?;
        let mut count = 0;
        while let Some(row) = rows.next().map_err(error_of)? {
            let (path, record) = record_of(row)?;
            take(&Numbered { number: number(row.get(4).map_err(error_of)?)?, path, record })?;
            count += 1;
        }
        // The index is another tree than the rows: one that lost some says so here.
        let indexed: i64 = connection
            .query_row(
                "SELECT count(path) FROM records INDEXED BY sqlite_autoindex_records_1",
                (),
                |row| row.get(0),
            )
            .map_err(error_of)?;
        match number(indexed)? == count {
            true => Ok(()),
            false => {
                Err(StoreError::Corrupt(format!("{count} records, and {indexed} by their paths")))
            }
        }
    }

    /// Makes a store of what another one gave: its next incarnation. Where something fails there is none.
    pub(crate) fn read_in(
        to: &Path,
        head: &Head,
        next: &mut dyn FnMut() -> Result<Option<Numbered>, StoreError>,
    ) -> Result<(), StoreError> {
        if head.min_writer > FORMAT {
            return Err(StoreError::TooOld { what: "write", wanted: head.min_writer, has: FORMAT });
        }
        in_place(to, &mut |connection| {
            let transaction = connection.transaction().map_err(error_of)?;
            transaction.execute_batch(SCHEMA).map_err(error_of)?;
            let Head { identity, revision, .. } = head;
            transaction
                .execute(
                    "INSERT INTO store VALUES (1, ?1, ?1, ?2, ?3, ?4)",
                    params![
                        FORMAT as i64,
                        &identity.id[..],
                        (identity.incarnation as i64).saturating_add(1),
                        revision.0 as i64
                    ],
                )
                .map_err(error_of)?;
            let insert = "INSERT INTO records (rowid, path, generation, value, digest) VALUES (?1, ?2, ?3, ?4, ?5)";
            let mut statement = transaction.prepare(insert).map_err(error_of)?;
            while let Some(Numbered { number, path, record }) = next()? {
                let digest = digest(path.as_str(), &record);
                let row = params![
                    number as i64,
                    path.as_str(),
                    record.generation as i64,
                    record.value,
                    &digest[..]
                ];
                statement.execute(row).map_err(error_of)?;
            }
            drop(statement);
            transaction.execute_batch(RULES).map_err(error_of)?;
            transaction.commit().map_err(error_of)?;
            marks(connection)?;
            is_whole(connection)
        })
    }

    /// How many records there ever were.
    ///
    /// # Errors
    /// The store's.
    pub fn records(&self) -> Result<u64, StoreError> {
        self.with(|connection| born(connection))
    }

    /// The how-manieth record of the store this one is, from 1; also where it is buried.
    ///
    /// # Errors
    /// The store's.
    pub fn number_of(&self, path: &RecordPath) -> Result<Option<u64>, StoreError> {
        self.with(|connection| {
            let text = "SELECT rowid FROM records WHERE path = ?1";
            let found = connection.query_row(text, [path.as_str()], |row| row.get(0)).optional();
            found.map_err(error_of)?.map(number).transpose()
        })
    }

    /// How many records beneath a path are not buried, and came about after so many others.
    ///
    /// # Errors
    /// The store's.
    pub fn count_after(&self, under: &RecordPath, records: u64) -> Result<u64, StoreError> {
        let (start, end) = (format!("{under}/"), format!("{under}0")); // The byte after `/` is `0`.
        self.with(|connection| {
            let text = "SELECT count(*) FROM records WHERE path > ?1 AND path < ?2 AND rowid > ?3 AND value IS NOT NULL";
            let after = i64::try_from(records).unwrap_or(i64::MAX);
            number(connection.query_row(text, params![start, end, after], |row| row.get(0)).map_err(error_of)?)
        })
    }
}

/// How many records there ever were: rows are numbered from 1, and none is deleted.
fn born(connection: &rusqlite::Connection) -> Result<u64, StoreError> {
    let last = "SELECT coalesce(max(rowid), 0) FROM records";
    number(connection.query_row(last, (), |row| row.get(0)).map_err(error_of)?)
}
