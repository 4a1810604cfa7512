//! The store in a file: copies, other programs' files, damage, full disks.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use gabion_kms::store::{
    Options, Outcome, RecordPath, SqliteStore, Store, StoreError, Transaction,
};

fn path(text: &str) -> RecordPath {
    RecordPath::new(text).unwrap()
}

fn open(at: &Path) -> Result<SqliteStore, StoreError> {
    SqliteStore::open(at, Options::default())
}

/// A store with records `r/0` to `r/n-1`, each of some hundred bytes.
fn filled(at: &Path, n: usize) -> SqliteStore {
    SqliteStore::create(at).unwrap();
    let store = open(at).unwrap();
    let write = (0..n).fold(Transaction::new(), |transaction, n| {
        transaction.put(path(&format!("r/{n}")), 0, vec![n as u8; 700])
    });
    assert!(matches!(store.commit(&write), Ok(Outcome::Committed(_))));
    store
}

/// Returns whether each record has its content. `None` if the store reports damage.
fn holds(store: &SqliteStore, n: usize) -> Option<bool> {
    let paths: Vec<_> = (0..n).map(|n| path(&format!("r/{n}"))).collect();
    match store.read(&paths) {
        Ok(read) => Some(read.records.iter().enumerate().all(|(n, record)| {
            record.as_ref().is_some_and(|record| record.value == Some(vec![n as u8; 700]))
        })),
        Err(StoreError::Corrupt(_) | StoreError::Damaged(_) | StoreError::Unavailable(_)) => None,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn two_handles_exclude_each_other_and_files_are_their_owners() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("store");
    let store = filled(&at, 3);
    assert!(matches!(open(&at), Err(StoreError::Held(_))));
    assert!(matches!(SqliteStore::create(&at), Err(StoreError::Exists(_))));
    for entry in fs::read_dir(folder.path()).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{:?}", entry.file_name());
    }
    drop(store);
    assert_eq!(holds(&open(&at).unwrap(), 3), Some(true));
}

#[test]
fn foreign_files_are_refused_and_left_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("other");
    let missing = open(&at).map(drop).unwrap_err();
    assert!(
        matches!(&missing, StoreError::Inaccessible(why) if why.contains("other")),
        "{missing}"
    );
    assert!(matches!(open(folder.path()), Err(StoreError::NotAStore(_))));
    for text in [&b""[..], b"text", &[0x53; 9000]] {
        fs::write(&at, text).unwrap();
        let Err(error) = open(&at) else { panic!("{} bytes were opened", text.len()) };
        assert!(matches!(error, StoreError::NotAStore(_) | StoreError::Corrupt(_)), "{error}");
        assert_eq!(fs::read(&at).unwrap(), text);
    }
}

#[test]
fn store_of_a_newer_version_is_read_only_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("store");
    drop(filled(&at, 3));
    let set = |column: &str| {
        let connection = rusqlite::Connection::open(&at).unwrap();
        connection.execute(&format!("UPDATE store SET {column} = 3"), ()).unwrap();
    };
    set("min_writer");
    let store = open(&at).unwrap();
    assert_eq!(holds(&store, 3), Some(true));
    let write = Transaction::new().put(path("new"), 0, Vec::new());
    assert!(matches!(store.commit(&write), Err(StoreError::TooOld { what: "write", .. })));
    drop(store);
    // A restored store is a written one.
    let again = folder.path().join("again");
    let refused = SqliteStore::restore(&at, &again);
    assert!(matches!(refused, Err(StoreError::TooOld { what: "write", .. })), "{refused:?}");
    set("min_reader");
    assert!(matches!(open(&at), Err(StoreError::TooOld { what: "read", .. })));
    // One of which this program knows nothing but that.
    let connection = rusqlite::Connection::open(&at).unwrap();
    connection.execute_batch("ALTER TABLE store RENAME COLUMN incarnation TO other").unwrap();
    drop(connection);
    assert!(matches!(open(&at), Err(StoreError::TooOld { what: "read", .. })));
    let connection = rusqlite::Connection::open(&at).unwrap();
    connection.execute_batch("DROP TABLE store").unwrap();
    drop(connection);
    assert!(matches!(open(&at), Err(StoreError::NotAStore(_))));
}

#[test]
fn sql_can_not_delete_nor_revive() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("store");
    let store = filled(&at, 2);
    assert!(matches!(
        store.commit(&Transaction::new().bury(path("r/1"), 1)),
        Ok(Outcome::Committed(_))
    ));
    drop(store);
    let connection = rusqlite::Connection::open(&at).unwrap();
    for sql in [
        "DELETE FROM records",
        "UPDATE records SET generation = 1",
        "UPDATE records SET generation = 3, value = x'00' WHERE path = 'r/1'",
        "INSERT OR REPLACE INTO records VALUES ('r/1', 3, x'00', x'00')",
        "INSERT OR REPLACE INTO records VALUES ('r/0', 1, x'00', x'00')",
        "INSERT INTO records VALUES ('new', 2, x'00', x'00')",
    ] {
        assert!(connection.execute(sql, ()).is_err(), "{sql}");
    }
}

#[test]
fn a_backup_is_whole_and_a_restored_one_is_another_incarnation() {
    let folder = tempfile::tempdir().unwrap();
    let [at, copy, again] = ["store", "copy", "again"].map(|name| folder.path().join(name));
    let store = filled(&at, 9);
    store.backup(&copy).unwrap();
    assert!(matches!(store.backup(&copy), Err(StoreError::Exists(_))));
    // Later records are not included.
    assert!(matches!(
        store.commit(&Transaction::new().bury(path("r/0"), 1)),
        Ok(Outcome::Committed(_))
    ));
    SqliteStore::restore(&copy, &again).unwrap();
    let restored = open(&again).unwrap();
    assert_eq!(holds(&restored, 9), Some(true));
    assert_eq!(restored.identity().id, store.identity().id);
    assert_eq!((store.identity().incarnation, restored.identity().incarnation), (0, 1));
    assert!(restored.check().is_ok() && store.check().is_ok());
}

/// A leftover SQLite log belongs to an earlier file of that name: SQLite would write it into the
/// new file.
#[test]
fn no_file_is_made_beside_a_log_that_was_left() {
    let folder = tempfile::tempdir().unwrap();
    let [at, copy] = ["store", "copy"].map(|name| folder.path().join(name));
    let store = filled(&at, 9);
    store.backup(&copy).unwrap();
    for ending in ["-wal", "-journal"] {
        let name = format!("new{ending}");
        let new = folder.path().join("new");
        fs::write(folder.path().join(&name), b"left").unwrap();
        let made =
            [SqliteStore::create(&new), SqliteStore::restore(&copy, &new), store.backup(&new)];
        for made in made {
            assert!(
                matches!(&made, Err(StoreError::Exists(found)) if found.ends_with(&name)),
                "{made:?}"
            );
        }
        fs::remove_file(folder.path().join(&name)).unwrap();
    }
    // Nor is a part of a store taken for a backup.
    assert!(matches!(
        SqliteStore::restore(&at, &folder.path().join("new")),
        Err(StoreError::NotAStore(_))
    ));
}

/// Leftovers of a crash are removed, and a copy leaves only its lock file.
#[test]
fn copies_leave_nothing_behind_and_wait_for_no_one() {
    let folder = tempfile::tempdir().unwrap();
    let [at, copy, again] = ["store", "copy%3f", "again"].map(|name| folder.path().join(name));
    let store = filled(&at, 9);
    for ending in ["", "-wal", "-journal"] {
        fs::write(folder.path().join(format!("copy%3f.partial{ending}")), b"left").unwrap();
    }
    store.backup(&copy).unwrap();
    let before = fs::read(&copy).unwrap();
    SqliteStore::restore(&copy, &again).unwrap();
    assert_eq!(fs::read(&copy).unwrap(), before);
    let mut names: Vec<_> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let wanted =
        ["again", "again.lock", "copy%3f", "copy%3f.lock", "store", "store-wal", "store.lock"];
    assert_eq!(names, wanted);
    assert_eq!(holds(&open(&again).unwrap(), 9), Some(true));
    // Another process is making a copy of this name.
    let other = fs::File::create(folder.path().join("busy.lock")).unwrap();
    other.lock().unwrap();
    let busy = store.backup(&folder.path().join("busy"));
    assert!(matches!(busy, Err(StoreError::Held(_))), "{busy:?}");
}

#[test]
fn a_store_that_was_moved_away_takes_no_more_commits() {
    let folder = tempfile::tempdir().unwrap();
    let [at, away] = ["store", "away"].map(|name| folder.path().join(name));
    let store = filled(&at, 2);
    let write = |n| Transaction::new().put(path("w"), n, Vec::new());
    assert!(matches!(store.commit(&write(0)), Ok(Outcome::Committed(_))));
    fs::rename(&at, &away).unwrap();
    fs::copy(&away, &at).unwrap();
    assert_eq!(store.commit(&write(1)), Ok(Outcome::Unknown));
    assert!(matches!(store.commit(&write(2)), Err(StoreError::Unavailable(_))));
}

#[test]
fn a_buried_value_is_in_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("store");
    SqliteStore::create(&at).unwrap();
    let store = open(&at).unwrap();
    let secret = b"a value that is buried".repeat(40);
    let commit = |transaction: &Transaction| {
        assert!(matches!(store.commit(transaction), Ok(Outcome::Committed(_))));
    };
    let is_there = || {
        fs::read_dir(folder.path()).unwrap().any(|entry| {
            let bytes = fs::read(entry.unwrap().path()).unwrap();
            bytes.windows(22).any(|window| window == &secret[..22])
        })
    };
    commit(&Transaction::new().put(path("first"), 0, Vec::new()));
    commit(&Transaction::new().put(path("a"), 0, secret.clone()));
    assert!(is_there());
    commit(&Transaction::new().bury(path("a"), 1));
    assert!(!is_there());
}

/// One record that is damaged is refused by itself.
#[test]
fn a_damaged_record_leaves_the_others_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("store");
    drop(filled(&at, 3));
    let connection = rusqlite::Connection::open(&at).unwrap();
    let rule = "SELECT sql FROM sqlite_schema WHERE name = 'generations_count'";
    let rule: String = connection.query_row(rule, (), |row| row.get(0)).unwrap();
    for sql in [
        "DROP TRIGGER generations_count",
        "UPDATE records SET value = x'00' WHERE path = 'r/0'",
        "UPDATE records SET generation = -1 WHERE path = 'r/1'",
        &rule,
    ] {
        connection.execute(sql, ()).unwrap();
    }
    drop(connection);
    let store = open(&at).unwrap();
    for name in ["r/0", "r/1"] {
        let (why, write) = (StoreError::Damaged(name.to_owned()), Transaction::new());
        assert_eq!(store.read(&[path(name)]).unwrap_err(), why);
        assert_eq!(store.commit(&write.put(path(name), 1, Vec::new())).unwrap_err(), why);
    }
    assert!(store.read(&[path("r/2")]).unwrap().records[0].is_some());
    let write = Transaction::new().put(path("new"), 0, Vec::new());
    assert!(matches!(store.commit(&write), Ok(Outcome::Committed(_))));
    assert!(matches!(store.check(), Err(StoreError::Damaged(_))));
    let copy = folder.path().join("copy");
    assert!(matches!(store.backup(&copy), Err(StoreError::Damaged(_))));
    assert!(!copy.exists());
}

#[test]
fn a_full_store_refuses_and_keeps_what_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("store");
    drop(filled(&at, 9));
    let store = SqliteStore::open(&at, Options { size_max: Some(128 << 10) }).unwrap();
    let write = |n: u32| Transaction::new().put(path(&format!("w/{n}")), 0, vec![1; 9000]);
    let fit = (0..100).take_while(|n| match store.commit(&write(*n)) {
        Ok(Outcome::Committed(_)) => true,
        Err(StoreError::Full) => false,
        other => panic!("{other:?}"),
    });
    let fit = fit.count();
    assert!((3..14).contains(&fit), "{fit}");
    assert_eq!(holds(&store, 9), Some(true));
    let page = store.list(&path("w"), None, 1000).unwrap();
    assert_eq!(page.records.len(), fit);
    // With room again the same goes on.
    drop(store);
    assert!(matches!(open(&at).unwrap().commit(&write(fit as u32)), Ok(Outcome::Committed(_))));
}

#[test]
fn a_damaged_file_never_gives_another_value() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("store");
    drop(filled(&at, 40));
    let whole = fs::read(&at).unwrap();
    let (mut refused, mut noticed, mut untouched) = (0, 0, 0);
    for step in 0..150 {
        let mut bytes = whole.clone();
        let place = (step * 2_654_435_761_usize) % bytes.len();
        bytes[place] ^= 1 << (step % 8);
        let damaged = folder.path().join(format!("damaged{step}"));
        fs::write(&damaged, &bytes).unwrap();
        match open(&damaged) {
            Err(_) => refused += 1,
            Ok(store) => match holds(&store, 40) {
                None => noticed += 1,
                Some(is_whole) => {
                    assert!(is_whole, "byte {place} gives another value");
                    untouched += 1;
                }
            },
        }
    }
    assert!(
        noticed > 40 && refused + noticed + untouched == 150,
        "{refused} {noticed} {untouched}"
    );
    // A file that lost its end.
    fs::write(&at, &whole[..whole.len() / 2]).unwrap();
    assert!(open(&at).map_or(true, |store| holds(&store, 40) != Some(true)));
}
