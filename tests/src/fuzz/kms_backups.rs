//! Backups of the key management service and keys of their periods: files that come from elsewhere.
//!
//! The first byte selects the kind of the rest: a file; edits of a valid one; the sealed contents
//! of one, as made by a holder of the key; or the text of a period's key.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use gabion_disk::{Access, Disk, RealDisk, read_full, write_all};
use gabion_kms::Error;
use gabion_kms::audit::MemoryDisk;
use gabion_kms::backup::{self, Backup, PeriodKey, Periods};
use gabion_kms::store::{
    Options, Outcome, RecordPath, SqliteStore, Store, StoreError, Transaction,
};

use super::input::Input;

/// A folder that ends with its input.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let (process, count) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(format!("gabion-fuzz-backups-{process}-{count}"));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        Scratch(folder)
    }

    fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A period's key, its text, and a backup.
struct BackupFixture {
    key: PeriodKey,
    text: Vec<u8>,
    file: Vec<u8>,
}

/// Returns the contents of a file on a disk.
fn bytes_of(disk: &dyn Disk, path: &Path) -> Vec<u8> {
    let file = disk.open(path, Access::Read).unwrap();
    let mut bytes = vec![0; file.size().unwrap() as usize];
    let len = read_full(&*file, &mut bytes, 0).unwrap();
    assert_eq!(len, bytes.len());
    bytes
}

fn made() -> &'static BackupFixture {
    static MADE: OnceLock<BackupFixture> = OnceLock::new();
    MADE.get_or_init(|| {
        let folder = Scratch::new();
        let at = folder.join("store");
        SqliteStore::create(&at).unwrap();
        let store = SqliteStore::open(&at, Options::default()).unwrap();
        let path = |text: &str| RecordPath::new(text).unwrap();
        let write = Transaction::new().put(path("r/a"), 0, vec![7; 40]).put(path("b"), 0, vec![1]);
        for write in [write, Transaction::new().bury(path("b"), 1)] {
            assert!(matches!(store.commit(&write).unwrap(), Outcome::Committed { .. }));
        }
        let periods = Periods::new(&folder.join("keys"), store.identity().id);
        let key = periods.current(0, 1000, 2).unwrap();
        backup::write(&store, &folder.0, "one.backup", &key, 5).unwrap();
        let file = bytes_of(&RealDisk, &folder.join("one.backup"));
        let text = bytes_of(&RealDisk, &folder.join(&format!("keys/{}.key", key.period())));
        BackupFixture { key, text, file }
    })
}

/// Returns the plaintext of a backup of two records.
fn plain() -> Vec<u8> {
    let mut plain = 1_u64.to_le_bytes().to_vec();
    for (number, path, value) in [(1_u64, &b"r/a"[..], Some(&[7; 40][..])), (2, b"b", None)] {
        plain.extend_from_slice(&number.to_le_bytes());
        plain.extend_from_slice(&(path.len() as u32).to_le_bytes());
        plain.extend_from_slice(path);
        plain.extend_from_slice(&1_u64.to_le_bytes());
        plain.push(u8::from(value.is_some()));
        if let Some(value) = value {
            plain.extend_from_slice(&(value.len() as u32).to_le_bytes());
            plain.extend_from_slice(value);
        }
    }
    plain.extend_from_slice(&0_u64.to_le_bytes());
    plain
}

pub fn run(data: &[u8]) {
    let Some((which, bytes)) = data.split_first() else { return };
    let BackupFixture { key, text, file, .. } = made();
    let disk = MemoryDisk::default();
    let path = Path::new("/x.backup");
    match which % 5 {
        0 => looked_at(&disk, put(&disk, path, bytes)),
        1 => {
            let mut input = Input::new(bytes);
            looked_at(&disk, put(&disk, path, &input.edited(file)));
        }
        2 => {
            let (head, plain) = bytes.split_at(bytes.len().min(3));
            // Numbers that a store has, and some that none has.
            let number = |at: usize| match head.get(at).copied().unwrap_or_default() {
                255 => u64::MAX,
                254 => i64::MAX as u64,
                small => small.into(),
            };
            let numbers = [number(0), number(1), number(2)];
            backup::testing_only_sealed(&disk, path, key, numbers, plain).unwrap();
            looked_at(&disk, path);
        }
        3 => key_text(bytes),
        _ => key_text(&Input::new(bytes).edited(text)),
    }
}

fn put<'a>(disk: &MemoryDisk, path: &'a Path, bytes: &[u8]) -> &'a Path {
    write_all(&*disk.open(path, Access::New).unwrap(), bytes, 0).unwrap();
    path
}

/// Reading a backup agrees with reading and restoring it; a refusal names the file and leaves
/// nothing behind.
fn looked_at(disk: &MemoryDisk, path: &Path) {
    let (BackupFixture { key, file, .. }, folder) = (made(), Scratch::new());
    let bytes = bytes_of(disk, path);
    let checked = backup::check(disk, path, key);
    if let Err(error) = &checked {
        refused(error, path);
    }
    // A backup cannot be forged without the key.
    if bytes.get(..HEAD) == file.get(..HEAD) && checked.is_ok() {
        assert!(bytes == *file, "a backup that was changed is read");
    }
    let (at, to) = (folder.join("in.backup"), folder.join("out"));
    std::fs::write(&at, &bytes).unwrap();
    let said = Backup::read(&at);
    let restored = backup::restore(&at, key, &to);
    match (checked, &restored) {
        (Ok(records), Ok(())) => {
            let store = SqliteStore::open(&to, Options::default()).unwrap();
            store.check().unwrap();
            let said = said.unwrap().unwrap();
            assert_eq!(store.identity().incarnation, said.store.incarnation + 1);
            assert!(records <= said.records && store.records().unwrap() <= said.records);
            drop(store);
            std::fs::remove_file(&to).unwrap();
        }
        // Two records of one path: only who makes a store of it finds that.
        (Ok(_), Err(error)) => {
            refused(error, &at);
            assert!(error.to_string().contains("one path"), "{error}");
        }
        (Err(_), Err(error)) => refused(error, &at),
        (Err(error), Ok(())) => panic!("{error}, and a store was made"),
    }
    for left in ["out", "out-wal", "out.partial", "out.partial-journal", "out.partial-wal"] {
        assert!(!folder.join(left).exists(), "{left} is left");
    }
}

/// Bytes of a backup's head.
const HEAD: usize = 112;

/// A refusal names the file and says what is wrong with it.
fn refused(error: &Error, path: &Path) {
    match error {
        Error::Store(StoreError::Backup { at, reason }) => {
            assert!(at.contains(&path.display().to_string()) && reason.len() > 10, "{error}");
        }
        Error::Store(StoreError::TooOld { what: "read" | "write", wanted, has }) => {
            assert!(wanted > has, "{error}");
        }
        error => panic!("{error}"),
    }
}

/// A key is written in one way.
fn key_text(bytes: &[u8]) {
    let (BackupFixture { key, text, .. }, folder) = (made(), Scratch::new());
    let at = folder.join("in.key");
    std::fs::write(&at, bytes).unwrap();
    match PeriodKey::read(&at) {
        Ok(read) if read.period() == key.period() => {
            let [bytes, text] = [bytes, text].map(|text| std::str::from_utf8(text).unwrap());
            assert_eq!(bytes.trim_end(), text.trim_end());
        }
        Ok(_) => {}
        Err(error) => refused(&error, &at),
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    let BackupFixture { text, file, .. } = made();
    let of = |which: u8, bytes: &[u8]| [&[which], bytes].concat();
    let sealed = of(2, &[&[0, 3, 2], &plain()[..]].concat());
    let long = of(2, &[&[0, 3, 2], &plain()[..20], &[0xff; 60]].concat());
    let mut twice = plain();
    let end = twice.len() - 8;
    // The second record is the first one again, of another number.
    let again = twice[8..end].to_vec();
    twice.splice(end..end, again);
    vec![
        of(0, file),
        of(1, &[0; 9]),
        of(1, &[3, 1, 2, 3, 4, 5, 6, 7, 8]),
        sealed,
        long,
        of(2, &[&[255, 254, 2], &plain()[..]].concat()),
        of(2, &[&[0, 3, 9], &one_path()[..]].concat()),
        of(2, &[&[0, 3, 9], &twice[..]].concat()),
        of(3, text),
        of(3, &[0; 100]),
        of(4, &[1, 0, 0, 5]),
    ]
}

/// Two records of one path.
fn one_path() -> Vec<u8> {
    let plain = plain();
    let (first, end) = (&plain[8..8 + 8 + 4 + 3 + 8 + 1 + 4 + 40], 0_u64.to_le_bytes());
    let mut second = first.to_vec();
    second[0] = 2;
    [&plain[..8], first, &second, &end].concat()
}
