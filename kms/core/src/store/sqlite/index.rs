//! Compares the index by which records are found with the rows of the table.
//!
//! A scan reads the table, whereas reads and lists find their rows through the index. An attacker
//! who can write the file, but has no unseal share, could remove the entry of a revocation from the
//! index. Then a scan would see the record, but no read would.

use std::hash::{BuildHasher, RandomState};

use rusqlite::Connection;

use super::error_of;
use crate::store::terms::StoreError;

/// Reads the index that SQLite keeps for the primary key, without the table.
const INDEX: &str =
    "SELECT path, rowid FROM records INDEXED BY sqlite_autoindex_records_1 ORDER BY path";

/// The count and an order-independent sum of the paths and numbers of rows. The key of the hash is
/// random.
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

    /// Checks that the index contains each of these rows once, and in order.
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
