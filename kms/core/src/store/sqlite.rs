//! A store in one SQLite file.
//!
//! ```text
//!   STORE        the database          STORE.lock   the kernel's lock; never renamed, never removed
//!   STORE-wal    SQLite's log: part of the store. A copy of STORE alone is an older store
//! ```
//!
//! - A transaction is acknowledged after its log was synced (WAL, `synchronous=FULL`). It is
//!   `IMMEDIATE` and runs on the only connection. Other processes are kept out by the lock and by
//!   SQLite's exclusive mode.
//! - A commit that fails because the disk is full was not applied, and never will be: its commit
//!   mark is written last. The store returns [`StoreError::Full`], and recovers without a restart
//!   once there is room.
//! - Any other failed commit is [`Outcome::Unknown`], and the store refuses all further calls until
//!   it is opened again: after a failed sync the content of the disk is unknown, and a later
//!   successful sync does not change that.
//! - Each record has a digest, so that a damaged record is not mistaken for a valid one. Only the
//!   damaged record is refused.
//! - After a commit the path has to name the same file still. Commits to a file that was moved or
//!   replaced would be lost.
//! - Since its first format the file says which programs may read and write it. It has only the
//!   tables, triggers, views and indexes that this program makes.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use gabion_disk::{Access, Disk, DiskFile, Identity as FileIdentity, RealDisk};
use gabion_engine::{Entropy, OsEntropy, forks};
use rusqlite::config::DbConfig;
use rusqlite::{
    Connection, ErrorCode, OpenFlags, OptionalExtension, Row, TransactionBehavior, params,
};

mod copies;
mod format;
mod index;
mod online;
mod schema;

pub(crate) use copies::{Head, NumberedRecord};
use index::Places;
pub(crate) use online::BackupCopy;
use online::Snapshot;
use schema::{RULES, SCHEMA, marks};

use super::contract::{Conflict, Outcome, ScannedRecord, Store, Visit};
use super::records::{Page, ReadResult, Record, RecordPath, Transaction};
use super::terms::{Caps, Durability, FORMAT, Identity, Revision, StoreError};

/// "GBKM", in the header of the file (https://www.sqlite.org/fileformat.html, section 1.3.13).
const APPLICATION: i64 = 0x4742_4b4d;

/// The page size in bytes: SQLite's default.
const PAGE: u64 = 4096;

/// The options of an open store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The maximum size of the database in bytes, without its log. `None`: unlimited.
    pub size_max: Option<u64>,
}

/// A store in one SQLite file.
pub struct SqliteStore {
    path: PathBuf,
    /// The identity of the file.
    file: FileIdentity,
    marks: Marks,
    /// The format that the file is marked with.
    format: AtomicU64,
    /// SQLite's schema version when the schema was checked.
    schema: i64,
    /// The token of the process that opened the store.
    process: Option<u64>,
    open: Mutex<Open>,
    /// Serializes copies. Lock order: before `open`.
    copying: Mutex<()>,
}

struct Open {
    /// `None` only in a forked process, which must not even close the connection.
    connection: Option<Connection>,
    /// The error after which the store refuses all calls.
    broken: Option<StoreError>,
    /// Whether the log may contain values that were replaced by tombstones since.
    has_buried: bool,
    /// Whether the last transaction failed because the disk was full.
    is_full: bool,
    /// The state of a copy in progress, which has to know about replaced records.
    snapshot: Option<Snapshot>,
    lock: Box<dyn DiskFile>,
}

/// The properties that the file states.
#[derive(Clone, Copy)]
struct Marks {
    identity: Identity,
    /// The oldest format of a program that may write the file.
    min_writer: u64,
}

/// The result of running a transaction.
enum TransactionResult {
    Committed(Revision),
    Conflict(Conflict),
    /// The commit itself failed: it may have been applied.
    Failed(String),
    /// The disk did not accept the commit mark, so nothing was applied. Has the previous revision.
    Unwritten(Revision, StoreError),
}

impl SqliteStore {
    /// Creates an empty store.
    ///
    /// # Errors
    /// [`StoreError::Exists`] if the file exists; a folder that is missing or on a network file
    /// system.
    pub fn create(path: &Path) -> Result<(), StoreError> {
        let mut id = [0; 16];
        OsEntropy.fill(&mut id).map_err(|error| StoreError::Unavailable(error.to_string()))?;
        in_place(path, &mut |connection| {
            let transaction = connection.transaction().map_err(error_of)?;
            transaction.execute_batch(SCHEMA).map_err(error_of)?;
            transaction.execute_batch(RULES).map_err(error_of)?;
            transaction
                .execute(
                    "INSERT INTO store VALUES (1, ?1, ?1, ?2, 0, 0)",
                    params![FORMAT as i64, &id[..]],
                )
                .map_err(error_of)?;
            transaction.commit().map_err(error_of)
        })
    }

    /// Opens a store.
    ///
    /// # Errors
    /// [`StoreError::Held`], [`StoreError::NotAStore`], [`StoreError::TooOld`],
    /// [`StoreError::Corrupt`].
    pub fn open(path: &Path, options: Options) -> Result<Self, StoreError> {
        let path = in_its_folder(path)?;
        check_file(&path)?;
        let lock = locked(&path)?;
        let opened = (|| {
            let file = RealDisk.identity(&path).map_err(of_file(&path))?;
            let connection = connected(&path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
            let marks = prepared(&connection, options)?;
            let schema = schema::version(&connection)?;
            Ok((file, connection, marks, schema))
        })()
        .map_err(|error| match error {
            StoreError::Unavailable(why) => {
                StoreError::Inaccessible(format!("`{}`: {why}", path.display()))
            }
            error => error,
        });
        match opened {
            Ok((file, connection, marks, schema)) => {
                let connection = Some(connection);
                let (broken, snapshot) = (None, None);
                let open =
                    Open { connection, broken, has_buried: true, is_full: false, snapshot, lock };
                let (process, open) = (forks::token(), Mutex::new(open));
                let (format, copying) = (AtomicU64::new(marks.min_writer), Mutex::default());
                Ok(SqliteStore { path, file, marks, format, schema, process, open, copying })
            }
            Err(error) => {
                // Release the lock before reporting the error, so that another opener does not
                // fail.
                let _ = lock.unlock();
                Err(error)
            }
        }
    }

    /// Makes a verified copy while the store is in use. Reads and commits wait while it is copied,
    /// but not while the copy is checked.
    ///
    /// # Errors
    /// [`StoreError::Exists`] if the file exists; errors of writing or reading the copy.
    pub fn backup(&self, to: &Path) -> Result<(), StoreError> {
        in_place(to, &mut |copy| {
            {
                let open = self.opened()?;
                copied(open.connection.as_ref().ok_or(StoreError::Forked)?, copy)?;
            }
            is_whole(copy)
        })
    }

    /// Restores a store from a backup. The result is the next incarnation of the same store.
    ///
    /// # Errors
    /// [`StoreError::Exists`] if the file exists; [`StoreError::NotAStore`] if the backup is a
    /// store that is open or was not closed cleanly; [`StoreError::TooOld`]; a damaged backup.
    pub fn restore(backup: &Path, to: &Path) -> Result<(), StoreError> {
        let backup = in_its_folder(backup)?;
        check_file(&backup)?;
        let logs = ["-wal", "-journal"].map(|ending| beside(&backup, ending));
        if let Some(log) = logs.iter().find(|log| log.symlink_metadata().is_ok()) {
            let why =
                format!("`{}` has a part of it; open the store, or take a backup", log.display());
            return Err(StoreError::NotAStore(why));
        }
        // Open it so that no file is written next to it.
        let uri = uri_of(&backup)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
        let from = connected(Path::new(&uri), flags)?;
        Self::check_writable(&marks(&from)?)?;
        in_place(to, &mut |copy| {
            copied(&from, copy)?;
            is_whole(copy)?;
            let next = "UPDATE store SET incarnation = incarnation + 1";
            copy.execute(next, ()).map(drop).map_err(error_of)
        })
    }

    /// Reads the whole store and reports damage. Takes minutes for millions of records.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`]; [`StoreError::Damaged`] for the first damaged record.
    pub fn check(&self) -> Result<(), StoreError> {
        is_whole(self.opened()?.connection.as_ref().ok_or(StoreError::Forked)?)
    }

    fn check_writable(marks: &Marks) -> Result<(), StoreError> {
        match marks.min_writer > FORMAT {
            true => {
                Err(StoreError::TooOld { what: "write", wanted: marks.min_writer, has: FORMAT })
            }
            false => Ok(()),
        }
    }

    /// Returns the path of the file, without links in its folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether the store works, as far as that can be determined without waiting for
    /// running calls.
    ///
    /// # Errors
    /// The reason why not.
    pub fn health(&self) -> Result<(), StoreError> {
        let open = match self.open.try_lock() {
            Ok(open) => open,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(()),
        };
        match &open.broken {
            Some(why) => Err(why.clone()),
            None if self.is_replaced() => {
                let why = format!("`{}` is another file, or none", self.path.display());
                Err(StoreError::Unavailable(why))
            }
            None => Ok(()),
        }
    }

    /// Returns whether the last transaction failed because the disk was full, as far as that can be
    /// determined without waiting for running calls.
    pub fn is_full(&self) -> bool {
        match self.open.try_lock() {
            Ok(open) => open.is_full,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().is_full,
            Err(TryLockError::WouldBlock) => false,
        }
    }

    /// Returns whether the path now names another file or no file.
    fn is_replaced(&self) -> bool {
        RealDisk.identity(&self.path).ok() != Some(self.file)
    }

    fn opened(&self) -> Result<MutexGuard<'_, Open>, StoreError> {
        if forks::token() != self.process {
            return Err(StoreError::Forked);
        }
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        match &open.broken {
            Some(why) => Err(why.clone()),
            None => Ok(open),
        }
    }

    /// Runs a function on the connection, and remembers errors after which the connection must not
    /// be used.
    fn with<T>(
        &self,
        run: impl FnOnce(&mut Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut open = self.opened()?;
        let Some(connection) = &mut open.connection else { return Err(StoreError::Forked) };
        let ran = run(connection);
        if let Err(why @ (StoreError::Corrupt(_) | StoreError::Unavailable(_))) = &ran {
            open.broken = Some(why.clone());
        }
        ran
    }
}

impl Store for SqliteStore {
    fn caps(&self) -> Caps {
        Caps { durability: Durability::SyncedSingle, value_max: 1 << 20, steps_max: 128 }
    }

    fn identity(&self) -> Identity {
        self.marks.identity
    }

    fn read(&self, paths: &[RecordPath]) -> Result<ReadResult, StoreError> {
        // One lock for all reads, and only one connection: no commit comes in between.
        self.with(|connection| {
            let records =
                paths.iter().map(|path| one(connection, path)).collect::<Result<_, _>>()?;
            Ok(ReadResult { revision: revision(connection)?, records })
        })
    }

    fn list(
        &self,
        under: &RecordPath,
        after: Option<&RecordPath>,
        most: usize,
    ) -> Result<Page, StoreError> {
        let (start, end) = (format!("{under}/"), format!("{under}0")); // The byte after `/` is `0`.
        let start = after.map_or(start.as_str(), |after| after.as_str().max(&start));
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        self.with(|connection| {
            let text = "SELECT path, generation, value, digest FROM records \
                        WHERE path > ?1 AND path < ?2 ORDER BY path LIMIT ?3";
            let mut statement = connection.prepare(text).map_err(error_of)?;
            let mut rows = statement.query(params![start, end, most]).map_err(error_of)?;
            let mut records = Vec::new();
            while let Some(row) = rows.next().map_err(error_of)? {
                records.push(record_of(row)?);
            }
            Ok(Page { revision: revision(connection)?, records })
        })
    }

    fn scan(&self, with_values: bool, visit: &mut Visit<'_>) -> Result<Revision, StoreError> {
        self.with(|connection| {
            // In the order of the rows, which is that of the file. The order of the index is
            // different.
            let value = if with_values { "value" } else { "NULL" };
            let text =
                format!("SELECT path, generation, {value}, digest, rowid FROM records NOT INDEXED");
            let mut statement = connection.prepare(&text).map_err(error_of)?;
            let mut rows = statement.query(()).map_err(error_of)?;
            let mut places = Places::default();
            while let Some(row) = rows.next().map_err(error_of)? {
                let path: String = row.get(0).map_err(error_of)?;
                places.add(&path, row.get(4).map_err(error_of)?);
                let damaged = || StoreError::Damaged(path.clone());
                let value = row.get_ref(2).map_err(error_of)?.as_blob_or_null();
                let digest = row.get_ref(3).map_err(error_of)?.as_blob().ok();
                let scanned = ScannedRecord {
                    path: &RecordPath::new(path.clone()).map_err(|_| damaged())?,
                    generation: number(row.get(1).map_err(|_| damaged())?)?,
                    value: value.map_err(|_| damaged())?,
                    digest: digest.and_then(|digest| digest.try_into().ok()).ok_or_else(damaged)?,
                };
                visit(&scanned)?;
            }
            places.check_index(connection)?;
            revision(connection)
        })
    }

    fn format(&self) -> u64 {
        self.format.load(Ordering::Acquire)
    }

    fn upgrade(&self) -> Result<Option<PathBuf>, StoreError> {
        self.upgraded()
    }

    fn commit(&self, transaction: &Transaction) -> Result<Outcome, StoreError> {
        transaction.check(&self.caps())?;
        Self::check_writable(&self.marks)?;
        let mut open = self.opened()?;
        let Open { connection: Some(connection), broken, has_buried, is_full, snapshot, .. } =
            &mut *open
        else {
            return Err(StoreError::Forked);
        };
        let ran = run(connection, self.schema, transaction, snapshot.as_mut());
        *is_full = matches!(
            ran,
            Err(StoreError::Full) | Ok(TransactionResult::Unwritten(_, StoreError::Full))
        );
        let revision = match ran {
            Ok(TransactionResult::Committed(revision)) => revision,
            // SQLite has rolled the transaction back.
            Ok(TransactionResult::Unwritten(before, why))
                if connection.is_autocommit() && self::revision(connection) == Ok(before) =>
            {
                return Err(why);
            }
            Ok(TransactionResult::Unwritten(_, why)) => {
                let why = format!("a commit failed ({why}); open it again");
                *broken = Some(StoreError::Unavailable(why));
                return Ok(Outcome::Unknown);
            }
            Ok(TransactionResult::Conflict(conflict)) => return Ok(Outcome::Conflict(conflict)),
            Ok(TransactionResult::Failed(why)) => {
                let why = format!("a commit failed ({why}); open it again");
                *broken = Some(StoreError::Unavailable(why));
                return Ok(Outcome::Unknown);
            }
            Err(why) => {
                if let StoreError::Corrupt(_)
                | StoreError::Foreign(_)
                | StoreError::Unavailable(_) = &why
                {
                    *broken = Some(why.clone());
                }
                return Err(why);
            }
        };
        if self.is_replaced() {
            let why = format!("`{}` is another file, or none", self.path.display());
            *broken = Some(StoreError::Unavailable(why));
            return Ok(Outcome::Unknown);
        }
        *has_buried |= transaction.writes().iter().any(|write| write.value.is_none());
        // If this fails, it is tried again after the next commit.
        *has_buried = *has_buried && !is_log_emptied(connection);
        Ok(Outcome::Committed(revision))
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        let open = self.open.get_mut().unwrap_or_else(PoisonError::into_inner);
        if forks::token() == self.process {
            drop(open.connection.take());
            // Unlock explicitly: a forked child with the same handle would otherwise keep the lock
            // until it ends.
            let _ = open.lock.unlock();
        } else {
            // A rule of SQLite: a forked child must neither use nor close its parent's connection.
            std::mem::forget(open.connection.take());
        }
    }
}

/// Runs a transaction. A failure before its commit means that it was not applied. A copy in
/// progress keeps the replaced records.
fn run(
    connection: &mut Connection,
    schema: i64,
    wanted: &Transaction,
    mut snapshot: Option<&mut Snapshot>,
) -> Result<TransactionResult, StoreError> {
    let started = connection.transaction_with_behavior(TransactionBehavior::Immediate);
    let transaction = started.map_err(error_of)?;
    if schema::version(&transaction)? != schema {
        return Err(StoreError::Foreign("its schema changed while it was in use".to_owned()));
    }
    let expected = wanted.guards().iter().map(|guard| (&guard.path, guard.generation));
    let replaced = wanted.writes().iter().map(|write| (&write.path, write.before));
    for (path, generation) in expected.chain(replaced) {
        let found = one(&transaction, path)?.map_or(0, |record| record.generation);
        if found != generation {
            return Ok(TransactionResult::Conflict(Conflict { path: path.clone(), found }));
        }
    }
    for write in wanted.writes() {
        let found = one(&transaction, &write.path)?;
        if found.as_ref().is_some_and(|record| record.value.is_none()) {
            return Err(StoreError::Buried(write.path.to_string()));
        }
        if let (Some(snapshot), Some(found)) = (&mut snapshot, found) {
            // Correct even if the commit fails: this is the record's content at that time.
            snapshot.keep(number_of(&transaction, &write.path)?, &write.path, found);
        }
        let record = Record { generation: write.before + 1, value: write.value.clone() };
        let upsert = "INSERT INTO records VALUES (?1, ?2, ?3, ?4) ON CONFLICT (path) DO UPDATE \
                      SET generation = excluded.generation, value = excluded.value, digest = excluded.digest";
        let digest = record.digest(write.path.as_str());
        let row = params![write.path.as_str(), record.generation as i64, record.value, &digest[..]];
        transaction.execute(upsert, row).map_err(error_of)?;
    }
    let before = revision(&transaction)?;
    transaction.execute("UPDATE store SET revision = revision + 1", ()).map_err(error_of)?;
    let revision = revision(&transaction)?;
    match transaction.commit() {
        Ok(()) => Ok(TransactionResult::Committed(revision)),
        Err(error) => Ok(match unwritten(&error) {
            Some(why) => TransactionResult::Unwritten(before, why),
            None => TransactionResult::Failed(error.to_string()),
        }),
    }
}

/// Returns the error if a commit failed because a write was refused, not because of a sync. SQLite
/// writes the log's frames in order and the commit mark with the last one, so that the frames
/// written before the failure never count, not even after a crash
/// (https://www.sqlite.org/fileformat2.html, section 4.3).
fn unwritten(error: &rusqlite::Error) -> Option<StoreError> {
    let code = error.sqlite_error().map(|error| (error.code, error.extended_code));
    match code {
        Some((ErrorCode::DiskFull, _)) => Some(StoreError::Full),
        // A disk quota, a file size limit, and other refusals.
        Some((_, rusqlite::ffi::SQLITE_IOERR_WRITE)) => {
            Some(StoreError::Unavailable(error.to_string()))
        }
        Some(_) | None => None,
    }
}

/// Copies the log into the database and truncates the log. Returns whether that succeeded.
fn is_log_emptied(connection: &Connection) -> bool {
    let is_busy =
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |row| row.get::<_, bool>(0));
    is_busy.is_ok_and(|is_busy| !is_busy)
}

/// Configures the connection of a store, after checking its marks.
fn prepared(connection: &Connection, options: Options) -> Result<Marks, StoreError> {
    let marks = marks(connection)?;
    let mode: String = connection
        .query_row("PRAGMA journal_mode = WAL", (), |row| row.get(0))
        .map_err(error_of)?;
    if mode != "wal" {
        return Err(StoreError::Unavailable(format!("its log is of mode `{mode}`, not `wal`")));
    }
    connection
        .execute_batch("PRAGMA synchronous = FULL; PRAGMA secure_delete = ON;")
        .map_err(error_of)?;
    if let Some(most) = options.size_max {
        let pages = (most / PAGE).max(1);
        connection
            .query_row(&format!("PRAGMA max_page_count = {pages}"), (), |_| Ok(()))
            .map_err(error_of)?;
    }
    Ok(marks)
}

/// Converts a stored number.
fn number(found: i64) -> Result<u64, StoreError> {
    u64::try_from(found).map_err(|_| StoreError::Corrupt(format!("{found} of something")))
}

fn revision(connection: &Connection) -> Result<Revision, StoreError> {
    let revision: i64 = connection
        .query_row("SELECT revision FROM store", (), |row| row.get(0))
        .map_err(error_of)?;
    Ok(Revision(number(revision)?))
}

/// Returns the record's number in the store, from 1.
fn number_of(connection: &Connection, path: &RecordPath) -> Result<Option<u64>, StoreError> {
    let text = "SELECT rowid FROM records WHERE path = ?1";
    let found = connection.query_row(text, [path.as_str()], |row| row.get(0)).optional();
    found.map_err(error_of)?.map(number).transpose()
}

fn one(connection: &Connection, path: &RecordPath) -> Result<Option<Record>, StoreError> {
    let text = "SELECT path, generation, value, digest FROM records WHERE path = ?1";
    let found = connection.query_row(text, [path.as_str()], |row| Ok(record_of(row))).optional();
    match found.map_err(error_of)? {
        None => Ok(None),
        Some(Ok((found, record))) if found == *path => Ok(Some(record)),
        Some(Ok(_)) => Err(StoreError::Damaged(path.to_string())),
        Some(Err(error)) => Err(error),
    }
}

/// Converts a row to a record, and checks the record's digest.
fn record_of(row: &Row<'_>) -> Result<(RecordPath, Record), StoreError> {
    let path = row.get(0).unwrap_or_else(|_| "?".to_owned());
    let read = || {
        let generation = u64::try_from(row.get::<_, i64>(1).ok()?).ok()?;
        let record = Record { generation, value: row.get(2).ok()? };
        let found: Vec<u8> = row.get(3).ok()?;
        let is_whole = record.digest(&path)[..] == found[..];
        Some((RecordPath::new(path.clone()).ok()?, record)).filter(|_| is_whole)
    };
    read().ok_or_else(|| StoreError::Damaged(path.clone()))
}

/// Fails if SQLite detects damage, or if a record is damaged.
fn is_whole(connection: &Connection) -> Result<(), StoreError> {
    let said: String = connection
        .query_row("PRAGMA integrity_check(1)", (), |row| row.get(0))
        .map_err(error_of)?;
    if said != "ok" {
        return Err(StoreError::Corrupt(said));
    }
    let all = "SELECT path, generation, value, digest FROM records";
    let mut statement = connection.prepare(all).map_err(error_of)?;
    let mut rows = statement.query(()).map_err(error_of)?;
    while let Some(row) = rows.next().map_err(error_of)? {
        record_of(row)?;
    }
    Ok(())
}

/// Copies a database into an empty one, page by page.
fn copied(from: &Connection, to: &mut Connection) -> Result<(), StoreError> {
    let backup = rusqlite::backup::Backup::new(from, to).map_err(error_of)?;
    match backup.step(-1).map_err(error_of)? {
        rusqlite::backup::StepResult::Done => Ok(()),
        _ => Err(StoreError::Unavailable("the copy did not come to its end".to_owned())),
    }
}

/// Creates a database under a temporary name, and renames it when it is complete and durable. A
/// crash leaves nothing under the final name. The lock of the final name is held meanwhile, and its
/// file stays.
fn in_place(
    path: &Path,
    make: &mut dyn FnMut(&mut Connection) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let path = in_its_folder(path)?;
    check_free(&path)?;
    let lock = locked(&path)?;
    let made = made_in_place(&path, make);
    let _ = lock.unlock();
    made
}

fn made_in_place(
    path: &Path,
    make: &mut dyn FnMut(&mut Connection) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    // The previous holder of the lock may have created the file.
    check_free(path)?;
    let partial = beside(path, ".partial");
    let clear = || {
        for ending in ["", "-wal", "-journal"] {
            let _ = std::fs::remove_file(beside(&partial, ending));
        }
    };
    // Files that a crash left.
    clear();
    let made = (|| {
        drop(RealDisk.open(&partial, Access::New).map_err(of_file(&partial))?);
        let mut connection = connected(&partial, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let marks = format!("PRAGMA application_id = {APPLICATION}; PRAGMA synchronous = FULL;");
        connection.execute_batch(&marks).map_err(error_of)?;
        make(&mut connection)?;
        // Moves everything into this one file. Closing alone would not report a failure.
        let mode: String = connection
            .query_row("PRAGMA journal_mode = DELETE", (), |row| row.get(0))
            .map_err(error_of)?;
        if mode != "delete" {
            return Err(StoreError::Unavailable(format!("its log stays one of mode `{mode}`")));
        }
        connection.close().map_err(|(_, error)| error_of(error))?;
        let synced = RealDisk.open(&partial, Access::Write).and_then(|file| file.sync());
        synced.map_err(of_file(&partial))?;
        // Unlike a rename, a hard link replaces nothing.
        std::fs::hard_link(&partial, path).map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => StoreError::Exists(path.display().to_string()),
            _ => of_file(path)(error),
        })
    })();
    clear();
    made?;
    let folder = path.parent().unwrap_or(Path::new("/"));
    RealDisk.sync_folder(folder).map_err(of_file(folder))
}

/// Rejects a path that has a file or a log: SQLite would use that log for the new file.
fn check_free(path: &Path) -> Result<(), StoreError> {
    let found = ["", "-wal", "-journal"].map(|ending| beside(path, ending));
    match found.iter().find(|path| path.symlink_metadata().is_ok()) {
        Some(found) => Err(StoreError::Exists(found.display().to_string())),
        None => Ok(()),
    }
}

/// Returns SQLite's URI for a file that no process writes to (https://www.sqlite.org/uri.html).
fn uri_of(path: &Path) -> Result<String, StoreError> {
    let not_text = || StoreError::NotAStore(format!("the path `{}` is not UTF-8", path.display()));
    let mut uri = "file:".to_owned();
    for part in path.to_str().ok_or_else(not_text)?.chars() {
        match part {
            '%' => uri.push_str("%25"),
            '?' => uri.push_str("%3f"),
            '#' => uri.push_str("%23"),
            part => uri.push(part),
        }
    }
    uri.push_str("?immutable=1");
    Ok(uri)
}

fn connected(path: &Path, flags: OpenFlags) -> Result<Connection, StoreError> {
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_EXRESCODE;
    let connection = Connection::open_with_flags(path, flags).map_err(error_of)?;
    for (config, is_on) in [
        (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
        (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
    ] {
        connection.set_db_config(config, is_on).map_err(error_of)?;
    }
    // Set before the first read: then no other process shares the log.
    let exclusive = "PRAGMA locking_mode = EXCLUSIVE";
    connection.query_row(exclusive, (), |_| Ok(())).map_err(error_of)?;
    connection.execute_batch("PRAGMA cell_size_check = ON").map_err(error_of)?;
    Ok(connection)
}

/// Takes the kernel's lock of a store. The lock file stays.
fn locked(path: &Path) -> Result<Box<dyn DiskFile>, StoreError> {
    let path = beside(path, ".lock");
    let open = |access| RealDisk.open(&path, access);
    let file = open(Access::Write).or_else(|_| open(Access::New)).or_else(|_| open(Access::Write));
    let file = file.map_err(of_file(&path))?;
    // The path may have been replaced while the file was opened.
    let is_in_place = |file: &dyn DiskFile| -> std::io::Result<bool> {
        Ok(file.try_lock()? && file.identity()? == RealDisk.identity(&path)?)
    };
    match is_in_place(&*file).map_err(of_file(&path))? {
        true => Ok(file),
        false => Err(StoreError::Held(path.display().to_string())),
    }
}

/// Returns the path without links in its folder. Rejects file systems on which locks and syncs are
/// unreliable.
fn in_its_folder(path: &Path) -> Result<PathBuf, StoreError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let folder = RealDisk.canonical(folder).map_err(of_file(folder))?;
    let Some(name) = path.file_name() else {
        return Err(StoreError::NotAStore(format!("`{}` names no file", path.display())));
    };
    if RealDisk.is_network(&folder).map_err(of_file(&folder))? {
        let why = format!("`{}` is on a network's file system", folder.display());
        return Err(StoreError::NotAStore(why));
    }
    Ok(folder.join(name))
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// Rejects a path that is missing, inaccessible or not a regular file.
fn check_file(path: &Path) -> Result<(), StoreError> {
    match std::fs::metadata(path).map_err(of_file(path))?.is_file() {
        true => Ok(()),
        false => Err(StoreError::NotAStore(format!("`{}` is not a file", path.display()))),
    }
}

/// Converts an I/O error about a file.
fn of_file(path: &Path) -> impl Fn(std::io::Error) -> StoreError {
    move |error| StoreError::Inaccessible(format!("`{}`: {error}", path.display()))
}

fn error_of(error: rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full,
        Some(ErrorCode::DatabaseCorrupt) => StoreError::Corrupt(error.to_string()),
        Some(ErrorCode::NotADatabase) => StoreError::NotAStore(error.to_string()),
        Some(_) => StoreError::Unavailable(error.to_string()),
        // A column whose type differs from the schema, or a missing mandatory row.
        None => StoreError::Corrupt(error.to_string()),
    }
}
