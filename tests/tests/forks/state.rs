//! A forked child never signs with indexes that its parent reserved: both have the same ones in memory.

use std::collections::HashMap;
use std::fs::{DirEntry, File, TryLockError};
use std::io::Write;
use std::num::NonZero;
use std::ops::ControlFlow;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use gabion_disk::RealDisk;
use gabion_engine::keys::stateful::hss::{HssSecret, Levels, Progress, StatefulKey};
use gabion_engine::keys::stateful::{Entry, IndexedSigner, Ledger, LedgerError, Request};
use gabion_engine::lms::{LM_OTS, LMS};
use gabion_engine::{Engine, Error, OsEntropy};
use gabion_state::testing::TestMachine;
use gabion_state::{
    Encoding, Environment, FilesLedger, GeneratedKey, KeyFileOptions, NewKey, Options, Sets,
    Signer, SignerOptions, create,
};

use super::{BETWEEN_MAX, End, forked};

const PUBLIC: &[u8] = b"a public key";

/// An environment with a key; broken, they take a child for its parent.
fn made(folder: &Path, is_broken: bool) -> Environment {
    std::fs::create_dir(folder.join("keys")).expect("a folder of the key's own");
    let process = is_broken.then_some((1, 1));
    let around = Environment {
        disk: Arc::new(RealDisk),
        machine: Arc::new(TestMachine { home: folder.join("home"), id: None, process }),
        entropy: Arc::new(OsEntropy),
    };
    let new = NewKey {
        key: &folder.join("keys/k"),
        secret: b"a private key",
        public: PUBLIC,
        first: 0,
        next: 0,
        end: 1 << 20,
        warn_at: 0,
        anchors: &[],
        allow_network: false,
        note: "made",
    };
    create(&around, &new).expect("a key");
    around
}

fn open(around: &Environment, folder: &Path) -> Result<FilesLedger, LedgerError> {
    let options = Options { ahead: 8, wait: Duration::ZERO, ..Options::default() };
    FilesLedger::open(around, &folder.join("keys/k"), PUBLIC, options)
}

/// Forks in the middle of a reservation, from which parent and child take; the indexes that each got, in files.
fn indexes_of_both(folder: &Path, around: &Environment) -> (Vec<u64>, Vec<u64>) {
    let ledger = open(around, folder).expect("the key");
    let mut reservation = ledger.reserve(4).expect("four indexes");
    let mut parent = vec![reservation.take(1).expect("one").first()];
    let said = folder.join("child");
    std::fs::write(&said, "").expect("a file");
    let end = forked(BETWEEN_MAX, || {
        let mut child = Vec::new();
        child.extend(reservation.take(1).map(|indexes| indexes.first()));
        child.extend(ledger.reserve(1).and_then(|mut one| one.take(1)).map(|one| one.first()));
        // A key that the child opens itself is its parent's still.
        child.extend(
            open(around, folder)
                .and_then(|ledger| ledger.reserve(1)?.take(1))
                .map(|one| one.first()),
        );
        let text: String = child.iter().map(|index| format!("{index}\n")).collect();
        if std::fs::write(&said, text).is_ok() { End::Success } else { End::Failure }
    });
    assert_eq!(end, End::Success);
    parent.push(reservation.take(1).expect("one").first());
    reservation.close();
    parent.push(ledger.reserve(1).and_then(|mut one| one.take(1)).expect("one").first());
    ledger.close().expect("the parent's key");
    let said = std::fs::read_to_string(&said).expect("what the child said");
    (parent, said.lines().map(|index| index.parse().expect("an index")).collect())
}

#[test]
fn a_child_takes_no_index_of_its_parents() {
    let folder = tempfile::tempdir().expect("a folder");
    let around = made(folder.path(), false);
    let times =
        std::env::var("GABION_HBS_TIMES").map_or(1, |times| times.parse().expect("a number"));
    let mut seen = HashMap::new();
    let forks = 4 * times;
    for fork in 0..forks {
        let (parent, child) = indexes_of_both(folder.path(), &around);
        assert_eq!(child, Vec::<u64>::new());
        for index in parent {
            assert_eq!(seen.insert(index, fork), None, "index {index} came twice");
        }
    }
    println!("{forks} forks: {} indexes taken", seen.len());
    if let Ok(rows) = std::env::var("GABION_HBS_FAULTS_ROWS") {
        let commit = std::env::var("GABION_COMMIT").unwrap_or_default();
        let taken = seen.len();
        let file = std::fs::OpenOptions::new().append(true).open(rows);
        writeln!(
            file.expect("the file that the state's tests began"),
            r#"{{"kind":"hbs-forks","forks":{forks},"indexes_taken":{taken},"duplicates":0,"commit":"{commit}"}}"#
        )
        .expect("room for a row");
    }
}

/// Indexes that the parent took and has not signed with, the last moment at which both have them.
#[test]
fn a_child_does_not_sign_by_indexes_that_its_parent_took() {
    let folder = tempfile::tempdir().expect("a folder");
    let around = made(folder.path(), false);
    let ledger = open(&around, folder.path()).expect("the key");
    let engine = Engine::global().expect("an engine");
    let sets: Levels = Levels::new(&[(&LMS[0], &LM_OTS[3])]).expect("sets");
    let secret = HssSecret::draw(sets, &OsEntropy).expect("a secret");
    let mut go_on = |_: Progress<'_>| ControlFlow::Continue(());
    let key = StatefulKey::generate(engine, &secret, &[], NonZero::<usize>::MIN, &mut go_on);
    let mut key = key.expect("a key").expect("a whole one");
    let mut reservation = ledger.reserve(1).expect("an index");
    let mut indexes = Some(reservation.take(1).expect("one"));
    let end = forked(BETWEEN_MAX, || {
        let signed = key.sign_indexed(indexes.take().expect("one"), &[b"the child's"]);
        let refused = matches!(signed, Err(Error::Ledger(LedgerError::Unsafe(_))));
        if refused { End::Success } else { End::Failure }
    });
    assert_eq!(end, End::Success);
    let signed = key.sign_indexed(indexes.expect("the parent's"), &[b"the parent's"]);
    assert_eq!(signed.expect("a signature").len(), 1);
    reservation.close();
    ledger.close().expect("the parent's key");
}

/// A child's copies of its parent's handles hold no lock once the parent has closed the key, and a
/// child that ends releases no lock that its parent holds.
#[test]
fn a_child_that_lives_on_keeps_no_lock() {
    let folder = tempfile::tempdir().expect("a folder");
    let around = made(folder.path(), false);
    let ledger = open(&around, folder.path()).expect("the key");
    let (mut theirs, ours) = std::io::pipe().expect("a pipe");
    // SAFETY: the child waits for the pipe's end and ends by _exit; the parent waits for it by its number.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: no pointer is passed.
        unsafe { libc::alarm(60) };
        drop(ours);
        let _ = std::io::Read::read(&mut theirs, &mut [0]);
        // SAFETY: as above.
        unsafe { libc::_exit(0) };
    }
    // Another child drops its handle, which is its parent's still.
    let mut ledger = Some(ledger);
    let end = forked(BETWEEN_MAX, || {
        drop(ledger.take());
        let elsewhere = Options { wait: Duration::ZERO, ..Options::default() };
        let opened = FilesLedger::open(&around, &folder.path().join("keys/k"), PUBLIC, elsewhere);
        if matches!(opened, Err(LedgerError::Held(_))) { End::Success } else { End::Failure }
    });
    assert_eq!(end, End::Success);
    ledger.take().expect("the parent's").close().expect("the key closed");
    let end = forked(BETWEEN_MAX, || {
        let opened = open(&around, folder.path());
        if opened.and_then(|key| key.reserve(1)).is_ok() { End::Success } else { End::Failure }
    });
    drop(ours);
    let mut status = -1;
    // SAFETY: a child of this process.
    unsafe { libc::waitpid(child, &mut status, 0) };
    assert_eq!((end, status), (End::Success, 0));
}

/// The seventh broken ledger: one that takes a child for its parent.
#[test]
fn a_reservation_that_a_child_uses_is_caught() {
    let folder = tempfile::tempdir().expect("a folder");
    let around = made(folder.path(), true);
    let (parent, child) = indexes_of_both(folder.path(), &around);
    assert!(child.iter().any(|index| parent.contains(index)), "{parent:?} and {child:?}");
}

/// Defect 12 of others: a child that signs with its parent's open key, while another thread of the
/// parent signs.
#[test]
fn a_child_does_not_sign_by_its_parents_signer() {
    let folder = tempfile::tempdir().expect("a folder");
    let (key, engine) = (folder.path().join("keys/h"), Engine::global().expect("an engine"));
    let around = made(folder.path(), false);
    let sets: Sets = "LMS_SHA256_M32_H10_W2".parse().expect("a set");
    let mut go_on = |_: Progress<'_>| ControlFlow::Continue(());
    let made = GeneratedKey::generate(&around, engine, sets, NonZero::<usize>::MIN, &mut go_on);
    let making = KeyFileOptions {
        key: &key,
        passphrase: None,
        encoding: Encoding::Hss,
        next: 0,
        warn_at: None,
        anchors: &[],
        allow_network: false,
        note: "made",
    };
    made.expect("a key").expect("a whole one").write(&around, &making).expect("its files");
    let opening = SignerOptions { wait: Duration::ZERO, ..SignerOptions::default() };
    let open = || Signer::open(&around, engine, &key, None, &opening);
    let signer = open().expect("the key");
    let request = [Request { message: b"one", id: None }];
    let sign = || signer.sign(&request).map(|signed| signed[0].index);
    assert_eq!(sign(), Ok(0));
    std::thread::scope(|scope| {
        let other = scope.spawn(|| (0..50).all(|_| sign().is_ok()));
        for _ in 0..4 {
            let end = forked(BETWEEN_MAX, || {
                let refused = matches!(sign(), Err(Error::Ledger(LedgerError::Unsafe(_))));
                let held = matches!(open().err(), Some(Error::Ledger(LedgerError::Held(_))));
                if refused && held { End::Success } else { End::Failure }
            });
            assert_eq!(end, End::Success);
        }
        assert!(other.join().expect("a thread"));
    });
    assert_eq!(sign(), Ok(51));
    signer.close().expect("the parent's key");
}

/// A daemon that closed its standard streams goes on to write there, and the lowest free number is what the next file gets.
#[test]
fn no_file_of_a_key_is_under_a_number_of_a_standard_stream() {
    let folder = tempfile::tempdir().expect("a folder");
    let around = made(folder.path(), false);
    let takes = |ledger: &FilesLedger| ledger.reserve(1).and_then(|mut one| one.take(1)).is_ok();
    let end = forked(BETWEEN_MAX, || {
        for stream in 0..3 {
            // SAFETY: a number; this process ends before other code uses it.
            unsafe { libc::close(stream) };
        }
        let Ok(ledger) = open(&around, folder.path()) else { return End::Failure };
        let is_first_right = takes(&ledger);
        let words = [b'x'; 8192];
        for stream in 0..3 {
            // SAFETY: bytes of this function. Whether the write succeeds does not matter.
            let _ = unsafe { libc::write(stream, words.as_ptr().cast(), words.len()) };
        }
        let is_right = is_first_right && takes(&ledger) && ledger.close().is_ok();
        if is_right { End::Success } else { End::Failure }
    });
    assert_eq!(end, End::Success);
    assert!(takes(&open(&around, folder.path()).expect("the key")));
}

/// A daemon that closes every unknown descriptor, and then opens files under these numbers, keeps
/// those files and their locks unchanged: after signing, and when the key is closed or dropped.
#[test]
fn a_key_does_not_touch_descriptors_reused_by_others() {
    for is_closed in [false, true] {
        let folder = tempfile::tempdir().expect("a folder");
        let around = made(folder.path(), false);
        let theirs = folder.path().join("theirs");
        std::fs::write(&theirs, "").expect("a file");
        let end = forked(BETWEEN_MAX, || {
            let Ok(ledger) = open(&around, folder.path()) else { return End::Failure };
            let _ = ledger.reserve(1).map(|one| one.close());
            let numbers = numbers_of(folder.path());
            let file = File::options().read(true).write(true).open(&theirs).expect("their file");
            file.lock().expect("their lock");
            for number in &numbers {
                // SAFETY: numbers; this process ends before other code uses them.
                unsafe { libc::dup2(file.as_raw_fd(), *number) };
            }
            let entry = Entry { index: 0, digest: [1; 32], request: None, signature: b"" };
            let is_written = ledger.record(&[entry]).is_ok();
            match is_closed {
                // It may say that its files were replaced.
                true => drop(ledger.close()),
                false => drop(ledger),
            }
            let mut expected = [&numbers[..], &[file.as_raw_fd()]].concat();
            expected.sort_unstable();
            let is_kept = numbers.len() >= 3 && numbers_of(&theirs) == expected;
            let again = File::open(&theirs).expect("their file");
            let is_locked = matches!(again.try_lock(), Err(TryLockError::WouldBlock));
            let is_same = std::fs::read(&theirs).is_ok_and(|bytes| bytes.is_empty());
            if is_kept && is_locked && is_same && !is_written { End::Success } else { End::Failure }
        });
        assert_eq!(end, End::Success, "closed: {is_closed}");
        let ledger = open(&around, folder.path()).expect("the key");
        ledger.reserve(1).expect("an index").close();
    }
}

/// Under which numbers this process has files that are there, or beneath it, in their order.
fn numbers_of(path: &Path) -> Vec<i32> {
    let path = path.canonicalize().expect("a name");
    let entries = std::fs::read_dir("/proc/self/fd").expect("proc(5)");
    let is_there = |entry: &DirEntry| {
        std::fs::read_link(entry.path()).is_ok_and(|file| file.starts_with(&path))
    };
    let found = entries.filter_map(Result::ok).filter(is_there);
    let mut numbers: Vec<i32> =
        found.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}
