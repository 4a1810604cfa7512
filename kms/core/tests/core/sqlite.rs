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

/// Whether each of the records is as it was written. None where the store says that it is damaged.
fn holds(store: &SqliteStore, n: usize) -> Option<bool> {
    let paths: Vec<_> = (0..n).map(|n| path(&format!("r/{n}"))).collect();
    match store.read(&paths) {
        Ok(read) => Some(read.records.iter().enumerate().all(|(n, record)| {
            record.as_ref().is_some_and(|record| record.value == Some(vec![n as u8; 700]))
        })),
        Err(StoreError::Corrupt(_) | StoreError::Unavailable(_)) => None,
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
fn what_is_no_store_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("other");
    assert!(matches!(open(&at), Err(StoreError::NotAStore(_))));
    for text in [&b""[..], b"text", &[0x53; 9000]] {
        fs::write(&at, text).unwrap();
        let Err(error) = open(&at) else { panic!("{} bytes were opened", text.len()) };
        assert!(matches!(error, StoreError::NotAStore(_) | StoreError::Corrupt(_)), "{error}");
        assert_eq!(fs::read(&at).unwrap(), text);
    }
}

#[test]
fn a_newer_programs_store_is_read_or_refused_as_it_says() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("store");
    drop(filled(&at, 3));
    let set = |column: &str| {
        let connection = rusqlite::Connection::open(&at).unwrap();
        connection.execute(&format!("UPDATE store SET {column} = 2"), ()).unwrap();
    };
    set("min_writer");
    let store = open(&at).unwrap();
    assert_eq!(holds(&store, 3), Some(true));
    let write = Transaction::new().put(path("new"), 0, Vec::new());
    assert!(matches!(store.commit(&write), Err(StoreError::TooOld { what: "write", .. })));
    drop(store);
    set("min_reader");
    assert!(matches!(open(&at), Err(StoreError::TooOld { what: "read", .. })));
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
    // What comes later is not in it.
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
