//! Processes that are killed while they write, and disks that fail under them.
//!
//! The child is this binary again, told by its environment to write until it ends. It prints the
//! number of each transaction after it was committed; all of those have to be there afterwards.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use gabion_kms::store::{
    Options, Outcome, RecordPath, SqliteStore, Store, StoreError, Transaction,
};

const STORE: &str = "GABION_TEST_KMS_STORE";

fn pair() -> [RecordPath; 2] {
    ["pair/a", "pair/b"].map(|path| RecordPath::new(path).unwrap())
}

/// The generation that both records have, whose values say it too.
fn generation(store: &dyn Store) -> u64 {
    let records = store.read(&pair()).unwrap().records;
    assert_eq!(records[0], records[1], "half a transaction");
    let Some(record) = &records[0] else { return 0 };
    assert_eq!(record.value, Some(value(record.generation)));
    record.generation
}

fn value(generation: u64) -> Vec<u8> {
    generation.to_string().repeat(200).into_bytes()
}

#[test]
fn child_that_writes() {
    let Some(at) = std::env::var_os(STORE) else { return };
    let store = SqliteStore::open(Path::new(&at), Options::default()).unwrap();
    let mut before = generation(&store);
    loop {
        let write = pair().into_iter().fold(Transaction::new(), |transaction, path| {
            transaction.put(path, before, value(before + 1))
        });
        match store.commit(&write) {
            Ok(Outcome::Committed(_)) => before += 1,
            Ok(Outcome::Conflict(conflict)) => panic!("{conflict:?}"),
            // From here on it does nothing more, whatever the disk does.
            Ok(Outcome::Unknown) => {
                assert!(matches!(store.read(&pair()), Err(StoreError::Unavailable(_))));
                assert!(matches!(store.commit(&write), Err(StoreError::Unavailable(_))));
                println!("unknown");
                return;
            }
            Err(error) => {
                println!("error {error}");
                return;
            }
        }
        println!("committed {before}");
    }
}

/// Starts the child, under a shell's limits, kills it after so many commits, and gives the last one
/// that it told of and its other words.
fn run(at: &Path, limits: &str, commits: u64) -> (u64, Vec<String>) {
    let me = std::env::current_exe().unwrap();
    let mut child = Command::new("sh")
        .args(["-c", &format!("{limits} exec \"$0\" --exact kill::child_that_writes --nocapture")])
        .arg(me)
        .env(STORE, at)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let (mut last, mut words) = (0, Vec::new());
    let mut came = 0;
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        if let Some(number) = line.split("committed ").nth(1) {
            last = number.parse().unwrap();
            came += 1;
        } else if line.contains("unknown") || line.contains("error") {
            words.push(line);
        }
        if came == commits {
            // SIGKILL. Lines written before it arrives are read, too.
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    (last, words)
}

#[test]
fn commits_survive_sigkill() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("store");
    SqliteStore::create(&at).unwrap();
    let mut before = 0;
    for round in 0..6 {
        let (told, words) = run(&at, "", 3 + round * 7);
        assert!(words.is_empty(), "{words:?}");
        let store = SqliteStore::open(&at, Options::default()).unwrap();
        let found = generation(&store);
        assert!(found == told || found == told + 1, "{told} was told and {found} found");
        assert!(found > before);
        assert!(store.check().is_ok());
        before = found;
    }
}

#[test]
fn failing_disk_acknowledges_no_lost_commit() {
    let folder = tempfile::tempdir().unwrap();
    for blocks in [50, 120, 300] {
        let at = folder.path().join(format!("store{blocks}"));
        SqliteStore::create(&at).unwrap();
        // A file that may not grow: writes beyond it fail (setrlimit(2), RLIMIT_FSIZE, in 512
        // bytes).
        let (told, words) = run(&at, &format!("trap '' XFSZ; ulimit -f {blocks};"), u64::MAX);
        assert_eq!(words.len(), 1, "{words:?}");
        let store = SqliteStore::open(&at, Options::default()).unwrap();
        let found = generation(&store);
        assert!(found == told || found == told + 1, "{told} was told and {found} found");
        assert!(store.check().is_ok());
    }
}
