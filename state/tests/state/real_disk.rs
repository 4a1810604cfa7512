//! The state on a real disk: what every ledger has to do, copies, old files, kills, races.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gabion_disk::Access;
use gabion_disk::testing::DiskCall;
use gabion_engine::keys::stateful::conformance::{Bench, check};
use gabion_engine::keys::stateful::{Ledger, LedgerError, Request, sign_requests};
use gabion_state::testing::{with_hook, with_hook_once};
use gabion_state::{
    Environment, FilesLedger, Line, NewKey, Options, audit, backup, check_place, create, log,
    recover, restore, status,
};
use serde_json::json;

use crate::faults::record;
use crate::simulation::{FakeSigner, PUBLIC, SECRET, SignBy, identity, stand_in};
use crate::test_home::{TestHome, environment};

/// Returns how many times the counts of script/test run; `make hbs-faults` sets 50.
fn times() -> usize {
    std::env::var("GABION_HBS_TIMES").map_or(1, |times| times.parse().expect("a number"))
}

pub fn new_key<'a>(key: &'a Path, end: u64, anchors: &'a [PathBuf]) -> NewKey<'a> {
    NewKey {
        key,
        secret: SECRET,
        public: PUBLIC,
        first: 0,
        next: 0,
        end,
        warn_at: 1,
        anchors,
        allow_network: false,
        note: "made",
    }
}

impl TestHome {
    pub fn new(end: u64) -> Self {
        let place = TestHome::empty();
        place.make(&place.key(), end).unwrap();
        place
    }

    fn make(&self, key: &Path, end: u64) -> Result<(), LedgerError> {
        create(&self.environment, &new_key(key, end, &[]))
    }

    pub fn open(&self, key: &Path) -> Result<FilesLedger, LedgerError> {
        open(&self.environment, key, Duration::ZERO)
    }
}

pub fn open(
    environment: &Environment,
    key: &Path,
    wait: Duration,
) -> Result<FilesLedger, LedgerError> {
    FilesLedger::open(environment, key, PUBLIC, Options { wait, ..Options::default() })
}

/// Signs one message and closes; the index.
pub fn sign(ledger: FilesLedger, message: &[u8]) -> u64 {
    let signed = sign_with(&ledger, message);
    ledger.close().unwrap();
    signed
}

fn sign_with(ledger: &FilesLedger, message: &[u8]) -> u64 {
    let signer: SignBy = stand_in();
    let request = Request { message, id: None };
    sign_requests(ledger, &mut FakeSigner(&signer), &[request]).unwrap()[0].index
}

pub fn is_unsafe<T>(result: Result<T, LedgerError>) -> bool {
    matches!(result, Err(LedgerError::Unsafe(_)))
}

struct FilesBench(TestHome);

impl Bench for FilesBench {
    fn open(&self) -> Result<Box<dyn Ledger>, LedgerError> {
        self.0.open(&self.0.key()).map(|ledger| Box::new(ledger) as Box<dyn Ledger>)
    }
}

#[test]
fn the_ledger_in_files_conforms() {
    check(&mut |end| Ok(Box::new(FilesBench(TestHome::new(end))) as Box<dyn Bench>)).unwrap();
}

#[test]
fn a_key_is_its_owners_and_never_replaced() {
    let place = TestHome::new(8);
    for file in fs::read_dir(place.path("keys")).unwrap() {
        let file = file.unwrap();
        let mode = file.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{:?}", file.path());
    }
    let before = fs::read(place.path("keys/k.state")).unwrap();
    assert!(matches!(place.make(&place.key(), 8), Err(LedgerError::Unavailable(_))));
    assert_eq!(fs::read(place.path("keys/k.state")).unwrap(), before);
    assert_eq!(fs::read(place.key()).unwrap(), SECRET);
}

/// Defect 11 of others: two handles of one key in a process.
#[test]
fn handles_of_a_process_share_one_state() {
    let place = TestHome::new(8);
    let (one, two) = (place.open(&place.key()).unwrap(), place.open(&place.key()).unwrap());
    std::os::unix::fs::symlink(place.key(), place.path("link")).unwrap();
    let three = place.open(&place.path("link")).unwrap();
    let indexes = [&one, &two, &three, &one].map(|ledger| sign_with(ledger, b"one"));
    assert_eq!(indexes, [0, 1, 2, 3]);
    one.close().unwrap();
    assert_eq!(sign(two, b"two"), 4);
    assert_eq!(sign(three, b"three"), 5);
    assert_eq!(sign(place.open(&place.key()).unwrap(), b"four"), 6);
}

/// Whichever of a key and its copy signs first goes on; the other refuses, and changes nothing.
#[test]
fn copied_key_signs_in_one_place_only() {
    for first in ["keys", "copy"] {
        let place = TestHome::new(8);
        assert_eq!(sign(place.open(&place.key()).unwrap(), b"one"), 0);
        place.copy("keys", "copy");
        let second = if first == "keys" { "copy" } else { "keys" };
        let keys = [first, second].map(|name| place.path(name).join("k"));
        assert_eq!(sign(place.open(&keys[0]).unwrap(), b"two"), 1);
        let files = |name: &str| {
            let read = |file: fs::DirEntry| (file.path(), fs::read(file.path()).unwrap());
            let mut all: Vec<_> =
                fs::read_dir(place.path(name)).unwrap().map(|file| read(file.unwrap())).collect();
            all.sort();
            all
        };
        let before = (files(second), files("home/anchors"));
        assert!(is_unsafe(place.open(&keys[1])), "{second}");
        assert!(before == (files(second), files("home/anchors")), "a refusal changed something");
        assert_eq!(sign(place.open(&keys[0]).unwrap(), b"three"), 2);
        // In another home there is no anchor, nor on another machine.
        let elsewhere = environment(&place.path("elsewhere"), None);
        assert!(is_unsafe(open(&elsewhere, &keys[0], Duration::ZERO)));
        let other = environment(&place.path("home/anchors"), Some(9));
        assert!(is_unsafe(open(&other, &keys[0], Duration::ZERO)));
        assert_eq!(sign(place.open(&keys[0]).unwrap(), b"four"), 3);
    }
}

/// Old copies of every file of a key, in every combination, over new ones: an index comes again from none of them.
#[test]
fn old_files_in_every_combination_bring_no_index_back() {
    let names = ["keys/k", "keys/k.state", "keys/k.log", "keys/k.trees", "keys/k.lock", "anchor"];
    let place = TestHome::new(64);
    let anchor = fs::read_dir(place.path("home/anchors")).unwrap().next().unwrap().unwrap().path();
    let path = |name: &str| if name == "anchor" { anchor.clone() } else { place.path(name) };
    fs::write(place.path("keys/k.trees"), b"old trees").unwrap();
    let snapshot = || names.map(|name| fs::read(path(name)).unwrap());
    let put = |files: &[Vec<u8>; 6], which: usize| {
        for (at, name) in names.iter().enumerate().filter(|(at, _)| which >> at & 1 == 1) {
            fs::write(path(name), &files[at]).unwrap();
        }
    };
    sign(place.open(&place.key()).unwrap(), b"one");
    let old = snapshot();
    let last = sign(place.open(&place.key()).unwrap(), b"two");
    sign(place.open(&place.key()).unwrap(), b"three");
    let new = snapshot();
    let mut refused = 0;
    // If everything is old at once, anchor and log and state, it cannot be detected
    // (docs/operate/state.md).
    let witnesses = 0b10_0110;
    for which in 0..64 {
        put(&new, 63);
        put(&old, which);
        match place.open(&place.key()) {
            Err(LedgerError::Unsafe(_)) => refused += 1,
            Err(error) => panic!("{which:06b}: {error}"),
            Ok(ledger) => {
                let index = sign(ledger, b"four");
                let is_hopeless = which & witnesses == witnesses;
                assert!(is_hopeless || index > last + 1, "{which:06b}: index {index}");
            }
        }
    }
    assert!(refused >= 32, "{refused} of 64 were refused");
}

/// Defects 6 and 13 of others: a stored key that was altered, and one that loads with its state elsewhere.
#[test]
fn a_missing_or_damaged_file_is_refused() {
    for name in ["keys/k.state", "keys/k.log", "keys/k.lock", "home/anchors"] {
        let place = TestHome::new(8);
        sign(place.open(&place.key()).unwrap(), b"one");
        let path = place.path(name);
        let path = match path.is_dir() {
            true => fs::read_dir(path).unwrap().next().unwrap().unwrap().path(),
            false => path,
        };
        let bytes = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert!(place.open(&place.key()).is_err(), "{name} is missing");
        fs::write(&path, vec![0; bytes.len()]).unwrap();
        let is_open = place.open(&place.key()).is_ok();
        assert_eq!(is_open, name == "keys/k.lock", "{name} is zeros");
        fs::write(&path, &bytes).unwrap();
        assert_eq!(sign(place.open(&place.key()).unwrap(), b"two"), 1, "{name}");
    }
}

/// Files of every length and with every block altered: refused, or gone on with behind what was signed.
#[test]
fn truncated_and_garbled_files_bring_no_index_back() {
    let place = TestHome::new(1 << 40);
    for message in [b"one", b"two"] {
        sign(place.open(&place.key()).unwrap(), message);
    }
    let anchor = fs::read_dir(place.path("home/anchors")).unwrap().next().unwrap().unwrap().path();
    let paths = [place.path("keys/k.state"), place.path("keys/k.log"), anchor];
    let mut last = sign(place.open(&place.key()).unwrap(), b"three");
    let mut refused = 0;
    for path in &paths {
        let whole = || paths.each_ref().map(|path| fs::read(path).unwrap());
        let bytes = fs::read(path).unwrap();
        let starts = (0..bytes.len()).step_by(4096);
        let near = starts.flat_map(|block| (0..300).step_by(7).map(move |at| block + at));
        let places: Vec<usize> = near.filter(|at| *at < bytes.len()).collect();
        for at in places {
            for is_cut in [true, false] {
                let before = whole();
                let mut bad = fs::read(path).unwrap();
                // It may be shorter by now.
                let Some(byte) = bad.get_mut(at) else { break };
                *byte ^= 1;
                bad.truncate(if is_cut { at } else { bad.len() });
                fs::write(path, &bad).unwrap();
                match place.open(&place.key()) {
                    Err(_) => refused += 1,
                    Ok(ledger) => {
                        let index = sign(ledger, b"four");
                        assert!(index > last, "{}, {at}: index {index}", path.display());
                        last = index;
                        continue;
                    }
                }
                for (path, bytes) in paths.iter().zip(&before) {
                    fs::write(path, bytes).unwrap();
                }
            }
        }
    }
    assert!(refused > 100, "{refused} were refused");
}

/// Defect 14 of others: the state can't be written while a signature is made. Nothing is released, and the key is of
/// no use until it is opened again.
#[test]
fn a_state_that_cannot_be_written_releases_nothing() {
    let place = TestHome::new(64);
    let ledger = place.open(&place.key()).unwrap();
    assert_eq!(sign_with(&ledger, b"one"), 0);
    let state = place.path("keys/k.state");
    fs::remove_file(&state).unwrap();
    let refused = ledger.reserve(1).err();
    assert!(matches!(refused, Some(LedgerError::Unavailable(_))), "{refused:?}");
    drop(ledger);
    // Nothing says which indexes are used.
    assert!(matches!(place.open(&place.key()), Err(LedgerError::Unsafe(_))));
}

/// Defects 9 and 11 of others: more than is left, and signing after the end, again and again.
#[test]
fn a_key_that_is_used_up_says_so_each_time() {
    let place = TestHome::new(4);
    let ledger = place.open(&place.key()).unwrap();
    let before = fs::read(place.path("keys/k.state")).unwrap();
    let refused = ledger.reserve(5).err();
    assert_eq!(refused, Some(LedgerError::Exhausted { wanted: 5, left: 4 }));
    assert_eq!(fs::read(place.path("keys/k.state")).unwrap(), before);
    for index in 0..4 {
        assert_eq!(ledger.remaining().unwrap().is_low, index >= 3);
        assert_eq!(sign_with(&ledger, b"x"), index);
    }
    for _ in 0..3 {
        let refused = ledger.reserve(1).err();
        assert_eq!(refused, Some(LedgerError::Exhausted { wanted: 1, left: 0 }));
    }
    ledger.close().unwrap();
    let status = status(&place.environment, &place.key()).unwrap();
    assert_eq!((status.index, status.remaining.left, status.remaining.burnt), (4, 0, 0));
}

#[test]
fn a_backup_goes_on_where_nothing_was_signed_since_and_else_by_recovery() {
    let place = TestHome::new(16);
    sign(place.open(&place.key()).unwrap(), b"one");
    backup(&place.environment, &place.key(), &place.path("backup")).unwrap();
    assert!(backup(&place.environment, &place.key(), &place.path("backup")).is_err());
    let again = place.path("keys/again");
    restore(&place.environment, &place.path("backup"), &again).unwrap();
    assert_eq!(fs::read(&again).unwrap(), SECRET);
    assert_eq!(sign(place.open(&again).unwrap(), b"two"), 1);
    assert!(is_unsafe(place.open(&place.key())));
    // The anchor saw index 1, so it must be burnt at least.
    let refused = recover(&place.environment, &place.key(), &identity(16), 15).unwrap_err();
    assert_eq!(refused, LedgerError::Exhausted { wanted: 15, left: 14 });
    let recovered = recover(&place.environment, &place.key(), &identity(16), 3).unwrap();
    assert_eq!((recovered.index, recovered.remaining.burnt), (5, 4));
    assert_eq!(sign(place.open(&place.key()).unwrap(), b"three"), 5);
    assert!(is_unsafe(place.open(&again)));
    let mut bytes = fs::read(place.path("backup")).unwrap();
    bytes[20] ^= 1;
    fs::write(place.path("backup"), bytes).unwrap();
    let third = place.path("keys/third");
    let refused = restore(&place.environment, &place.path("backup"), &third);
    assert!(matches!(refused, Err(LedgerError::Place(_))), "{refused:?}");
    assert!(!third.exists() && !place.path("keys/third.state").exists());
}

#[test]
fn a_lost_home_is_recovered_from() {
    let place = TestHome::new(16);
    sign(place.open(&place.key()).unwrap(), b"one");
    let new_home = environment(&place.path("new/home"), Some(9));
    assert!(is_unsafe(open(&new_home, &place.key(), Duration::ZERO)));
    recover(&new_home, &place.key(), &identity(16), 2).unwrap();
    let ledger = open(&new_home, &place.key(), Duration::ZERO).unwrap();
    assert_eq!(sign(ledger, b"two"), 3);
    assert!(is_unsafe(place.open(&place.key())));
}

#[test]
fn log_records_signatures_and_audit_finds_reuse() {
    let place = TestHome::new(16);
    let ledger = place.open(&place.key()).unwrap();
    let signer = stand_in();
    let requests =
        [Request { message: b"one", id: None }, Request { message: b"two", id: Some("build 7") }];
    sign_requests(&ledger, &mut FakeSigner(&signer), &requests).unwrap();
    ledger.forget("build 7").unwrap();
    assert!(ledger.forget("build 7").is_err());
    ledger.close().unwrap();
    let lines = log(&place.environment, &place.key()).unwrap().lines;
    let signed: Vec<(u64, [u8; 32])> = lines
        .iter()
        .filter_map(|line| match line {
            Line::Signed { index, digest, .. } => Some((*index, *digest)),
            Line::Forgotten { .. } | Line::Note { .. } => None,
        })
        .collect();
    assert_eq!((lines.len(), signed.len()), (4, 2));
    let here = || signed.iter().map(|(index, digest)| ("here".to_owned(), *index, *digest));
    assert!(audit(here().chain(here())).is_empty());
    let reused = audit(here().chain([("there".to_owned(), 1, [0; 32])]));
    assert_eq!((reused.len(), reused[0].index), (1, 1));
}

#[test]
fn an_anchor_in_its_keys_folder_or_below_is_refused() {
    let place = TestHome::new(8);
    let key = place.path("keys/two");
    fs::create_dir(place.path("keys/there")).unwrap();
    std::os::unix::fs::symlink(place.path("keys/there"), place.path("link")).unwrap();
    let below = [
        "keys/anchor",
        "keys/deep/er/anchor",
        "keys/there/anchor",
        "other/../keys/there/anchor",
        "link/anchor",
        "link/deep/er/anchor",
    ];
    fs::create_dir(place.path("other")).unwrap();
    for anchor in below {
        let anchors = [place.path("usb/one"), place.path(anchor)];
        assert!(is_unsafe(create(&place.environment, &new_key(&key, 8, &anchors))), "{anchor}");
        let refused = check_place(&place.environment, &key, &anchors, false, true);
        assert!(matches!(refused, Err(LedgerError::Place(_))), "{anchor}: {refused:?}");
        assert!(!key.exists() && !place.path(anchor).exists(), "{anchor}");
    }
    // The target of `..` after a missing folder is unknown.
    let anchors = [place.path("none/../keys/anchor")];
    assert!(create(&place.environment, &new_key(&key, 8, &anchors)).is_err());
    // The default one of a home that the key's folder has in it.
    let environment = environment(&place.path("keys/home/anchors"), None);
    assert!(is_unsafe(create(&environment, &new_key(&key, 8, &[]))));
    check_place(&place.environment, &key, &[place.path("usb/one")], false, true).unwrap();
    assert!(!place.path("keys/two.lock").exists() && !place.path("usb/one").exists());
}

#[test]
fn keygen_conflicts_are_reported_before_generation() {
    let place = TestHome::new(8);
    let says = |key: &str, anchors: &[PathBuf], says: &str| {
        let refused =
            check_place(&place.environment, &place.path(key), anchors, false, true).unwrap_err();
        let is_place = matches!(refused, LedgerError::Place(_));
        assert!(is_place && refused.to_string().contains(says), "{key}: {refused:?}");
    };
    says("none/k", &[], "No such file");
    says("keys/k", &[], "exists");
    fs::write(place.path("keys/two.log"), "").unwrap();
    says("keys/two", &[], "two.log");
    fs::write(place.path("taken"), "").unwrap();
    says("keys/three", &[place.path("taken")], "the anchor already exists");
    says("keys/three", &[place.path("taken/anchor")], "taken");
    // A key that is made once more has its anchor where the first one has it.
    let again = create(&place.environment, &new_key(&place.path("keys/four"), 8, &[])).unwrap_err();
    assert!(again.to_string().contains("imported before"), "{again}");
}

#[test]
fn several_anchors_have_to_agree() {
    let place = TestHome::new(8);
    let key = place.path("keys/two");
    let make = |anchors: &[PathBuf]| create(&place.environment, &new_key(&key, 8, anchors));
    let anchors = [place.path("usb/one"), place.path("other/two")];
    make(&anchors).unwrap();
    let old = fs::read(&anchors[1]).unwrap();
    sign(place.open(&key).unwrap(), b"one");
    sign(place.open(&key).unwrap(), b"two");
    let new = fs::read(&anchors[1]).unwrap();
    fs::write(&anchors[1], old).unwrap();
    assert!(is_unsafe(place.open(&key)));
    fs::remove_file(&anchors[1]).unwrap();
    assert!(is_unsafe(place.open(&key)));
    fs::write(&anchors[1], new).unwrap();
    assert_eq!(sign(place.open(&key).unwrap(), b"three"), 2);
}

#[test]
fn files_that_are_replaced_under_an_open_key_stop_it() {
    let place = TestHome::new(8);
    for (index, name) in (1..).zip(["keys/k.state", "keys/k.log", "keys/k.lock"]) {
        let ledger = place.open(&place.key()).unwrap();
        sign_with(&ledger, b"one");
        fs::copy(place.path(name), place.path("keys/new")).unwrap();
        fs::rename(place.path("keys/new"), place.path(name)).unwrap();
        assert!(is_unsafe(ledger.reserve(1)), "{name}");
        drop(ledger);
        assert_eq!(sign(place.open(&place.key()).unwrap(), b"two"), 2 * index - 1, "{name}");
    }
}

/// An id in lines that an older log lacks could name another message.
#[test]
fn an_older_log_is_refused_after_a_clean_end() {
    let place = TestHome::new(8);
    sign(place.open(&place.key()).unwrap(), b"one");
    let log = place.path("keys/k.log");
    let old = fs::read(&log).unwrap();
    let ledger = place.open(&place.key()).unwrap();
    let request = Request { message: b"two", id: Some("build 7") };
    sign_requests(&ledger, &mut FakeSigner(&stand_in()), &[request]).unwrap();
    ledger.close().unwrap();
    let new = fs::read(&log).unwrap();
    fs::write(&log, old).unwrap();
    assert!(is_unsafe(place.open(&place.key())));
    let refusal = status(&place.environment, &place.key()).unwrap().refusal.unwrap();
    assert!(refusal.contains("older than the state"), "{refusal}");
    fs::write(&log, new).unwrap();
    // A process that does not sign does not write.
    let before = fs::read(place.path("keys/k.state")).unwrap();
    place.open(&place.key()).unwrap().close().unwrap();
    assert_eq!(fs::read(place.path("keys/k.state")).unwrap(), before);
}

#[test]
fn recover_reports_a_damaged_log_and_keeps_a_copy() {
    let place = TestHome::new(64);
    for message in [b"one", b"two"] {
        sign(place.open(&place.key()).unwrap(), message);
    }
    let path = place.path("keys/k.log");
    let mut bytes = fs::read(&path).unwrap();
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    bytes[end - 40] ^= 1;
    fs::write(&path, &bytes).unwrap();
    assert!(is_unsafe(place.open(&place.key())));
    assert!(status(&place.environment, &place.key()).unwrap().refusal.is_some());
    let recovered = recover(&place.environment, &place.key(), &identity(64), 3).unwrap();
    assert!(recovered.warnings[0].contains("k.log.1"), "{recovered:?}");
    assert_eq!((recovered.index, recovered.refusal), (5, None));
    assert_eq!(fs::read(place.path("keys/k.log.1")).unwrap(), bytes);
    assert_eq!(sign(place.open(&place.key()).unwrap(), b"three"), 5);
    let whole = recover(&place.environment, &place.key(), &identity(64), 0).unwrap();
    assert!(
        !whole.warnings.iter().any(|warning| warning.contains("k.log"))
            && !place.path("keys/k.log.2").exists()
    );
}

/// A log that is gone: refused, and gone on with behind what state and anchor saw.
#[test]
fn recover_begins_a_new_log_if_it_is_lost() {
    let place = TestHome::new(64);
    sign(place.open(&place.key()).unwrap(), b"one");
    assert_eq!(sign(place.open(&place.key()).unwrap(), b"two"), 1);
    fs::remove_file(place.path("keys/k.log")).unwrap();
    assert!(place.open(&place.key()).is_err());
    // Killed while it makes the new one: recovered once more.
    let failed = || Err(std::io::Error::other("the device failed"));
    let frail = with_hook_once(&place.environment, (DiskCall::Sync, "k.log"), failed);
    assert!(recover(&frail, &place.key(), &identity(64), 3).is_err());
    assert!(place.path("keys/k.log").exists() && is_unsafe(place.open(&place.key())));
    let recovered = recover(&place.environment, &place.key(), &identity(64), 0).unwrap();
    assert!(recovered.warnings[0].contains("k.log.1"), "{recovered:?}");
    fs::remove_file(place.path("keys/k.log")).unwrap();
    let recovered = recover(&place.environment, &place.key(), &identity(64), 3).unwrap();
    assert!(recovered.warnings[0].contains("the log is lost"), "{recovered:?}");
    assert_eq!((recovered.index, recovered.refusal), (5, None));
    assert_eq!(sign(place.open(&place.key()).unwrap(), b"three"), 5);
    let lines = log(&place.environment, &place.key()).unwrap().lines;
    let [Line::Note { text, .. }, Line::Signed { index: 5, .. }] = &lines[..] else {
        panic!("{lines:?}");
    };
    assert!(text.contains("the log is lost"), "{text}");
}

/// Another process finds the lock of a key that is being made before its maker holds it, mistakes
/// it for the leftover of an ended process, and makes its own key.
#[test]
fn a_failed_creation_removes_no_file_of_a_concurrent_one() {
    let place = TestHome::new(8);
    let key = place.path("keys/two");
    let theirs = || {
        let (environment, key) = (place.environment.clone(), key.clone());
        let anchors = [place.path("theirs/anchor")];
        move || {
            create(&environment, &new_key(&key, 8, &anchors)).unwrap();
            Ok(())
        }
    };
    let ours = [place.path("ours/anchor")];
    let made = (DiskCall::AfterOpen(Access::New), ".lock");
    let environment = with_hook_once(&place.environment, made, theirs());
    assert!(create(&environment, &new_key(&key, 8, &ours)).is_err());
    assert_eq!(sign(place.open(&key).unwrap(), b"one"), 0);
    for name in ["keys/two", "keys/two.state", "keys/two.log", "keys/two.lock", "theirs/anchor"] {
        fs::remove_file(place.path(name)).unwrap();
    }
    // The race between the cleanup and the lock that it found.
    fs::write(place.path("keys/two.lock"), "a key is being made").unwrap();
    let found = (DiskCall::AfterOpen(Access::Write), ".lock");
    let environment = with_hook_once(&place.environment, found, theirs());
    assert!(create(&environment, &new_key(&key, 8, &ours)).is_err());
    assert_eq!(sign(place.open(&key).unwrap(), b"one"), 0);
}

#[test]
fn a_log_that_cannot_grow_ends_the_ledger() {
    let place = TestHome::new(1 << 20);
    let failed = || Err(std::io::Error::other("the device failed"));
    let environment = with_hook_once(&place.environment, (DiskCall::Sync, "k.log"), failed);
    let ledger = open(&environment, &place.key(), Duration::ZERO).unwrap();
    // Enough indexes to need a new segment.
    assert!(matches!(ledger.reserve(1000), Err(LedgerError::Unavailable(_))));
    // It is unknown which other writes that sync included.
    assert!(is_unsafe(ledger.reserve(1)));
    drop(ledger);
    assert_eq!(sign(place.open(&place.key()).unwrap(), b"one"), 0);
}

#[test]
fn a_refusal_gives_locks_back_also_to_a_child_that_was_forked() {
    let place = TestHome::new(8);
    sign(place.open(&place.key()).unwrap(), b"one");
    place.copy("keys", "copy");
    sign(place.open(&place.key()).unwrap(), b"two");
    let seen: Arc<Mutex<Vec<PathBuf>>> = Arc::default();
    let hook = Arc::clone(&seen);
    let environment = with_hook(&place.environment, move |at, path| {
        if at == DiskCall::Unlock {
            hook.lock().unwrap().push(path.to_owned());
        }
        Ok(())
    });
    assert!(is_unsafe(open(&environment, &place.path("copy/k"), Duration::ZERO)));
    let seen = seen.lock().unwrap();
    let is_anchor = |path: &&PathBuf| path.starts_with(place.path("home"));
    assert_eq!((seen.len(), seen.iter().filter(is_anchor).count()), (2, 1), "{seen:?}");
}

/// Another process signs between the reads of state, log and anchors, which must not cause a
/// warning.
#[test]
fn status_during_signing_refuses_nothing() {
    let place = TestHome::new(64);
    sign(place.open(&place.key()).unwrap(), b"one");
    for ending in ["k.state", "k.log", "k.lock"] {
        let (environment, key) = (place.environment.clone(), place.key());
        let signs = move || {
            sign(open(&environment, &key, Duration::ZERO).unwrap(), b"meanwhile");
            Ok(())
        };
        let looked = (DiskCall::AfterOpen(Access::Read), ending);
        let seen =
            status(&with_hook_once(&place.environment, looked, signs), &place.key()).unwrap();
        let is_refused = |(_, refusal): &(String, Option<String>)| refusal.is_some();
        assert!(seen.refusal.is_none() && !seen.anchors.iter().any(is_refused), "{seen:?}");
        let now = status(&place.environment, &place.key()).unwrap();
        assert_eq!((seen.index, seen.generation), (now.index, now.generation), "{ending}");
    }
}

/// Run by the tests below in a separate process; does nothing otherwise. Signs until it is told to
/// stop or killed, and prints released signatures.
#[test]
fn child_process_with_a_ledger() {
    let Ok(folder) = std::env::var("GABION_HBS_CHILD") else { return };
    let folder = Path::new(&folder);
    let environment = environment(&folder.join("home/anchors"), None);
    let count: u64 = std::env::var("GABION_HBS_COUNT").unwrap().parse().unwrap();
    for round in 0..count {
        let wait = Duration::from_secs(20);
        let Ok(ledger) = open(&environment, &folder.join("keys/k"), wait) else { return };
        for message in 0..3 {
            let message = format!("{} {round} {message}", std::process::id());
            let index = sign_with(&ledger, message.as_bytes());
            println!("released {index} {message}");
        }
        ledger.close().unwrap();
        println!("closed");
    }
}

fn child(place: &TestHome, count: u64) -> Child {
    spawned(Command::new(std::env::current_exe().unwrap()), place, count)
}

/// A process that signs in `count` rounds.
fn spawned(mut command: Command, place: &TestHome, count: u64) -> Child {
    command
        .args([
            "--exact",
            "real_disk::child_process_with_a_ledger",
            "--nocapture",
            "--test-threads=1",
        ])
        .env("GABION_HBS_CHILD", place.folder.path())
        .env("GABION_HBS_COUNT", count.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Collects a child's output, until it ends or has printed `most` lines; then it is killed.
fn released(child: &mut Child, most: usize, seen: &mut HashMap<u64, String>) -> usize {
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut count = 0;
    let mut take = |line: String| {
        let Some((_, said)) = line.split_once("released ") else { return };
        let (index, message) = said.split_once(' ').unwrap();
        let before = seen.insert(index.parse().unwrap(), message.to_owned());
        assert_eq!(before, None, "index {index} signed two messages");
        count += 1;
    };
    for _ in 0..most {
        let Some(Ok(line)) = lines.next() else { break };
        take(line);
    }
    child.kill().unwrap();
    // Output already in the pipe counts, too.
    lines.map_while(Result::ok).for_each(take);
    child.wait().unwrap();
    count
}

#[test]
fn a_process_that_is_killed_leaves_no_index_for_two_messages() {
    let place = TestHome::new(1 << 20);
    let mut seen = HashMap::new();
    let kills = 20 * times();
    for kill in 0..kills {
        let mut child = child(&place, u64::MAX);
        released(&mut child, kill % 23 + 3, &mut seen);
    }
    let burnt = status(&place.environment, &place.key()).unwrap().remaining.burnt;
    println!("{kills} kills: {} signatures released, {burnt} indexes burnt", seen.len());
    record(json!({
        "kind": "hbs-kills",
        "kills": kills,
        "signatures_released": seen.len(),
        "indexes_burnt": burnt,
        "duplicates": 0,
    }));
    assert!(seen.len() >= kills);
}

#[test]
fn processes_that_race_take_different_indexes() {
    let place = TestHome::new(1 << 20);
    let mut seen = HashMap::new();
    let pairs = 4 * times();
    for _ in 0..pairs {
        let mut children = [child(&place, 3), child(&place, 3)];
        for child in &mut children {
            assert_eq!(released(child, usize::MAX, &mut seen), 9);
        }
    }
    println!("{pairs} racing pairs: {} signatures released", seen.len());
    record(json!({
        "kind": "hbs-races",
        "pairs": pairs,
        "signatures_released": seen.len(),
        "duplicates": 0,
    }));
    let status = status(&place.environment, &place.key()).unwrap();
    assert_eq!((status.index, status.remaining.burnt), (18 * pairs as u64, 0));
}

/// Returns strace; `None` if it cannot run and is not required.
pub fn strace() -> Option<Command> {
    // Where tracing is forbidden, strace exists but starts nothing.
    let mut strace = Command::new("strace");
    let strace = strace.args(["-o", "/dev/null", "true"]).stderr(Stdio::null()).status();
    if !strace.is_ok_and(|status| status.success()) {
        let is_needed = std::env::var_os("GABION_HBS_TIMES").is_some();
        assert!(!is_needed, "this needs strace: apt-get install strace");
        println!("not traced: strace is not there, or may not trace");
        return None;
    }
    Some(Command::new("strace"))
}

/// The child as strace runs it.
fn traced(place: &TestHome, count: u64, options: &[&str]) -> Option<Child> {
    let mut command = strace()?;
    command.args(["-f", "-y", "-o"]).arg(place.path("trace")).args(options);
    command.arg(std::env::current_exe().unwrap());
    Some(spawned(command, place, count))
}

/// The trace of system calls: before the first byte of each signature, the state and then the
/// anchor were written and synced.
#[test]
fn syncs_come_before_the_first_byte_out() {
    let place = TestHome::new(64);
    let Some(mut child) = traced(&place, 2, &["-e", "trace=pwrite64,fdatasync,write"]) else {
        return;
    };
    assert_eq!(released(&mut child, usize::MAX, &mut HashMap::new()), 6);
    let trace = fs::read_to_string(place.path("trace")).unwrap();
    let anchors = place.path("home/anchors").display().to_string();
    let order = [("pwrite64", "/k.state>"), ("fdatasync", "/k.state>"), ("pwrite64", &*anchors)]
        .into_iter()
        .chain([("fdatasync", &*anchors)]);
    let order: Vec<_> = order.collect();
    let (mut done, mut outs) = (0, 0);
    for line in trace.lines() {
        if line.contains("write(1<") && line.contains("closed") {
            // Writes and syncs at the end of a round do not belong to the next round's reservation.
            done = 0;
        }
        let (call, file) = order.get(done).copied().unwrap_or(("none", "none"));
        if line.contains("write(1<") && line.contains("released ") {
            assert_eq!(done, order.len(), "released before {call} of {file}:\n{trace}");
            (done, outs) = (0, outs + 1);
        } else if line.contains(call) && line.contains(file) {
            assert!(!line.ends_with("= -1"), "{line}");
            done += 1;
        }
    }
    assert_eq!(outs, 6, "{trace}");
}

/// A real kernel kills the process at a call, or lets the call fail: each of a run's calls, one after the other.
#[test]
fn calls_that_kill_or_fail_leave_no_index_for_two_messages() {
    let place = TestHome::new(1 << 20);
    let mut seen = HashMap::new();
    let strikes = [
        "pwrite64:signal=SIGKILL",
        "fdatasync:signal=SIGKILL",
        "pread64:signal=SIGKILL",
        "flock:signal=SIGKILL",
        "fdatasync:error=EIO",
        "pwrite64:error=ENOSPC",
        "pwrite64:error=EROFS",
        "fdatasync:error=EINTR",
    ];
    let most = if times() == 1 { 4 } else { 40 };
    let (mut runs, mut struck) = (0, 0);
    for call in 1..=most {
        for strike in strikes {
            let inject = format!("inject={strike}:when={call}");
            let trace = format!("trace={}", strike.split(':').next().unwrap());
            let Some(mut child) = traced(&place, 2, &["-e", &trace, "-e", &inject]) else {
                return;
            };
            struck += usize::from(released(&mut child, usize::MAX, &mut seen) < 6);
            runs += 1;
        }
    }
    // Nothing of it made the key useless.
    sign(place.open(&place.key()).unwrap(), b"after all");
    println!("{runs} runs, of which {struck} ended by it: {} signatures released", seen.len());
    record(json!({
        "kind": "hbs-calls",
        "runs": runs,
        "ended_by_it": struck,
        "signatures_released": seen.len(),
        "duplicates": 0,
    }));
    assert!(struck * 3 > runs, "{struck} of {runs} runs ended by what struck them");
}
