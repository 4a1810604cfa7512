//! Disks that get full, and have room again: real ones, which only root can make (mount(8), a
//! tmpfs).

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gabion_kms::audit;
use gabion_kms::operations::NewKey;
use gabion_kms::service::{AuditAt, Call, KeyRef, Service};
use gabion_kms::store::{
    Options, Outcome, RecordPath, SqliteStore, Store, StoreError, Transaction,
};
use gabion_kms::{AuditError, Code};

use crate::fixture::{self, lax};
use crate::verbs::{label, pure};

/// A small disk, with a size in KiB.
pub struct Small(tempfile::TempDir);

impl Small {
    /// `None` if this process may not mount one.
    pub fn new(kib: u32) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let options = format!("size={kib}k,mode=0700");
        let made = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "none"])
            .arg(folder.path())
            .output();
        match made {
            Ok(made) if made.status.success() => Some(Small(folder)),
            _ => {
                eprintln!("not tested: nobody may mount a disk here");
                None
            }
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Fills the disk, except for so many KiB.
    pub fn fill(&self, but_kib: usize) {
        let mut filler = fs::File::create(self.path("filler")).unwrap();
        let mut len = 0;
        while let Ok(written @ 1..) = filler.write(&[1; 4096]) {
            len += written;
        }
        filler.set_len(len.saturating_sub(but_kib << 10) as u64).unwrap();
    }

    pub fn empty(&self) {
        fs::remove_file(self.path("filler")).unwrap();
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

fn record(name: &str) -> RecordPath {
    RecordPath::new(format!("r/{name}")).unwrap()
}

fn write(name: &str, before: u64, byte: u8) -> Transaction {
    // Two records, so that half a transaction would show.
    let value = vec![byte; 9000];
    let other = record(&format!("{name}-too"));
    Transaction::new().put(record(name), before, value.clone()).put(other, before, value)
}

/// Returns which transactions of a file are there, whole.
fn found(at: &Path) -> Vec<(String, u64)> {
    let store = SqliteStore::open(at, Options::default()).unwrap();
    store.check().unwrap();
    let page = store.list(&RecordPath::new("r").unwrap(), None, 1000).unwrap();
    let names: Vec<_> = page
        .records
        .iter()
        .map(|(path, record)| (path.as_str().to_owned(), record.generation))
        .collect();
    for pair in names.chunks(2) {
        assert_eq!((format!("{}-too", pair[0].0), pair[0].1), pair[1], "half a transaction");
    }
    names.into_iter().step_by(2).collect()
}

/// Returns the contents of the store after a crash at this moment, from a copy of its files.
fn crashed(at: &Path) -> Vec<(String, u64)> {
    let elsewhere = tempfile::tempdir().unwrap();
    let copy = elsewhere.path().join("store");
    fs::copy(at, &copy).unwrap();
    let log = at.with_file_name(format!("{}-wal", at.file_name().unwrap().to_str().unwrap()));
    fs::copy(log, elsewhere.path().join("store-wal")).unwrap();
    found(&copy)
}

#[test]
fn a_store_recovers_from_a_full_disk() {
    let Some(disk) = Small::new(2048) else { return };
    let at = disk.path("store");
    SqliteStore::create(&at).unwrap();
    let store = SqliteStore::open(&at, Options::default()).unwrap();
    let mut told = Vec::new();
    let commit = |name: &str, before, byte| match store.commit(&write(name, before, byte)) {
        Ok(Outcome::Committed(_)) => true,
        Err(StoreError::Full) => false,
        other => panic!("{name}: {other:?}"),
    };
    assert!(commit("a", 0, 1));
    told.push(("r/a".to_owned(), 1));
    // However little room there is, down to none.
    for (round, but_kib) in [40, 20, 12, 8, 4, 0].into_iter().enumerate() {
        disk.fill(but_kib);
        let mut refused = 0;
        for step in 0..8 {
            let name = format!("f{round}{step}");
            match commit(&name, 0, 2) {
                true => told.push((format!("r/{name}"), 1)),
                false => refused += 1,
            }
            // A rejected record does not exist, neither for readers nor after a crash.
            let here = store.read(&[record(&name)]).unwrap().records[0].is_some();
            assert_eq!(here, told.last().is_some_and(|(last, _)| *last == format!("r/{name}")));
        }
        assert!(refused > 0, "a disk with {but_kib} KiB took all of it");
        assert!(store.is_full() && store.health().is_ok());
        told.sort_unstable();
        assert_eq!(crashed(&at), told, "{but_kib} KiB");
        disk.empty();
        let name = format!("g{round}");
        assert!(commit(&name, 0, 3), "there is room again");
        assert!(!store.is_full());
        told.push((format!("r/{name}"), 1));
        told.sort_unstable();
        assert_eq!(crashed(&at), told);
    }
    assert!(commit("a", 1, 4));
    drop(store);
    told[0].1 = 2;
    assert_eq!(found(&at), told);
}

fn service(store: Arc<SqliteStore>, at: &Path) -> Service {
    let kms = fixture::kms(store);
    let log = audit::Options { segment_bytes: 128 << 10, reserve_bytes: 32 << 10 };
    let options = gabion_kms::service::Options { gate: lax(), log, ..Default::default() };
    Service::open(kms, &AuditAt::Folder(at), options).unwrap()
}

/// Tries until it goes again: the log looks for room once a second.
#[track_caller]
fn soon<T>(what: impl Fn() -> Result<T, gabion_kms::Error>) -> T {
    let start = Instant::now();
    loop {
        match what() {
            Ok(done) => return done,
            Err(error) => assert!(start.elapsed() < Duration::from_secs(5), "{error}"),
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// The log refuses work while there is a reserve for what has happened, says why, and goes on: so
/// do changes.
#[test]
fn a_service_recovers_from_a_full_disk() {
    let Some(disk) = Small::new(4096) else { return };
    let (at, log) = (disk.path("store"), disk.path("audit"));
    SqliteStore::create(&at).unwrap();
    let store = Arc::new(SqliteStore::open(&at, Options::default()).unwrap());
    let kms = service(store.clone(), &log);
    let who = fixture::who(&kms);
    let call = Call::new(&who, "r");
    let [tenant, purpose, name] = ["default", "transit", "k"].map(label);
    let key = KeyRef { tenant: &tenant, name: &name };
    let of = |name: &str| NewKey {
        tenant: tenant.clone(),
        purpose: purpose.clone(),
        name: label(name),
        algorithm: "ed25519".parse().unwrap(),
    };
    kms.create(&call, &of("k")).unwrap();
    let mut done = 0;
    for round in 0..3 {
        disk.fill(0);
        // A change is refused, and has not happened; uses go on, since the log's segment is there
        // already.
        let refused = kms.create(&call, &of(&format!("new{round}"))).unwrap_err();
        assert_eq!(refused.code(), Code::StoreUnavailable, "{refused}");
        let refused = loop {
            match kms.sign(&call, &key, None, pure(b"m")) {
                Ok(_) => done += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(refused, gabion_kms::Error::Audit(AuditError::Full));
        assert_eq!(refused.code(), Code::AuditUnwritable);
        assert_eq!(kms.log().health(), Err(AuditError::Full));
        assert!(kms.sign(&call, &key, None, pure(b"m")).is_err());
        disk.empty();
        // No request is needed: the periodic check finds that there is room.
        soon(|| Ok(kms.log().prepare()?));
        kms.log().health().unwrap();
        kms.sign(&call, &key, None, pure(b"m")).unwrap();
        done += 1;
        kms.create(&call, &of(&format!("new{round}"))).unwrap();
        kms.checkpoint().unwrap();
    }
    assert!(done > 100, "{done}");
    let keys = kms.kms().list(&tenant, None, 100).unwrap();
    assert_eq!(keys.len(), 4);
    let (size, vkeys) = (kms.log().size(), kms.log().vkeys());
    drop(kms);
    drop(store);
    let verified = audit::verify(&gabion_disk::RealDisk, &log, None, &vkeys).unwrap();
    assert_eq!(verified.records, size);
    let store = Arc::new(SqliteStore::open(&at, Options::default()).unwrap());
    let kms = service(store, &log);
    assert_eq!(kms.kms().list(&tenant, None, 100).unwrap(), keys);
}
