//! The index by which records are found, compared with the rows of their table.
//!
//! A scan reads the table; reads and lists find their rows through the index. Somebody who can write the file, and has no share
//! of the seal, could take the entry of a revocation out of the index: then a scan would see the record, and no read would.

use std::hash::{BuildHasher, RandomState};

use rusqlite::Connection;

use super::error_of;
use crate::store::terms::StoreError;

/// Reads the index that SQLite keeps for the primary key, and nothing of the table.
const INDEX: &str =
    "SELECT path, rowid FROM records INDEXED BY sqlite_autoindex_records_1 ORDER BY path";

/// A count and a sum of the paths of rows and their numbers, in whatever order they come. The key of the hash is drawn for each.
#[derive(Default)]
pub(super) struct Places {
    key: RandomState,
    count: u64,
    sum: u64,
}

impl Places {
    /// Adds a row.
    pub fn add(&mut self, path: &str, row: i64) {
        self.count += 1;
        self.sum = self.sum.wrapping_add(self.key.hash_one((path, row)));
    }

    /// Checks that the index has each of these rows once, in the order by which they are found.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`].
    pub fn check_index(&self, connection: &Connection) -> Result<(), StoreError> {
        let differs = || StoreError::Corrupt("its index differs from its records".to_owned());
        let mut found = Places { key: self.key.clone(), count: 0, sum: 0 };
        let mut before = String::new();
        let mut statement = connection.prepare(INDEX).map_err(error_of)?;
        let mut rows = statement.query(()).map_err(error_of)?;
        while let Some(row) = rows.next().map_err(error_of)? {
            let path: String = row.get(0).map_err(|_| differs())?;
            if path <= before {
                return Err(differs());
            }
            found.add(&path, row.get(1).map_err(|_| differs())?);
            before = path;
        }
        match (found.count, found.sum) == (self.count, self.sum) {
            true => Ok(()),
            false => Err(differs()),
        }
    }
}
