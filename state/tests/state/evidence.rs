//! Logs as evidence: whatever happens to a log, unreadable lines never count as missing ones.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use gabion_disk::Access;
use gabion_disk::testing::DiskCall;
use gabion_engine::keys::stateful::{Ledger, LedgerError, Request, sign_requests};
use gabion_state::testing::with_hook_once;
use gabion_state::{Line, NewKey, create, log, recover, status};

use crate::real_disk::{is_unsafe, new_key, open, sign};
use crate::simulation::{FakeSigner, identity, stand_in};
use crate::test_home::TestHome;

/// A key with three signatures, one of them with a request id, that was closed.
fn signed() -> (TestHome, PathBuf, Vec<u8>) {
    let place = TestHome::new(64);
    sign(place.open(&place.key()).unwrap(), b"one");
    let ledger = place.open(&place.key()).unwrap();
    let request = Request { message: b"two", id: Some("build 7") };
    sign_requests(&ledger, &mut FakeSigner(&stand_in()), &[request]).unwrap();
    ledger.close().unwrap();
    sign(place.open(&place.key()).unwrap(), b"three");
    let path = place.path("keys/k.log");
    let bytes = fs::read(&path).unwrap();
    assert_eq!(indexes(&place), [0, 1, 2]);
    (place, path, bytes)
}

/// The indexes of the log, which is whole.
fn indexes(place: &TestHome) -> Vec<u64> {
    let history = log(&place.environment, &place.key()).unwrap();
    assert_eq!(history.damage, None);
    let index = |line: &Line| match line {
        Line::Signed { index, .. } => Some(*index),
        _ => None,
    };
    history.lines.iter().filter_map(index).collect()
}

/// Where the lines of a log end.
fn end(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1
}

/// Checks that `log` and `status` report the damage, and that the key is refused.
fn is_damaged(place: &TestHome, what: &str) {
    let history = log(&place.environment, &place.key());
    assert!(history.is_err() || history.unwrap().damage.is_some(), "{what}: log");
    let seen = status(&place.environment, &place.key());
    assert!(seen.is_err() || seen.unwrap().refusal.is_some(), "{what}: status");
    assert!(place.open(&place.key()).is_err(), "{what}: open");
}

#[test]
fn every_flipped_bit_and_every_cut_is_found() {
    let (place, path, bytes) = signed();
    for at in 0..end(&bytes) {
        for bit in [0, 7] {
            let mut bad = bytes.clone();
            bad[at] ^= 1 << bit;
            fs::write(&path, bad).unwrap();
            is_damaged(&place, &format!("bit {bit} of byte {at}"));
        }
        fs::write(&path, &bytes[..at]).unwrap();
        is_damaged(&place, &format!("{at} bytes"));
        let zeros = [&bytes[..at], &vec![0; bytes.len() - at]].concat();
        fs::write(&path, zeros).unwrap();
        is_damaged(&place, &format!("zeros from {at} on"));
    }
    // Of what was written ahead nothing is missed.
    fs::write(&path, &bytes[..end(&bytes)]).unwrap();
    assert_eq!(indexes(&place), [0, 1, 2]);
}

#[test]
fn bytes_behind_the_last_line_are_found() {
    let (place, path, bytes) = signed();
    let (end, len) = (end(&bytes), bytes.len());
    let put = |at: usize, what: &[u8]| {
        let mut bad = bytes.clone();
        bad.resize(len.max(at + what.len()), 0);
        bad[at..at + what.len()].copy_from_slice(what);
        fs::write(&path, bad).unwrap();
    };
    let first = u32::from_be_bytes(bytes[..4].try_into().unwrap()) as usize;
    let last = bytes[first..end].repeat(3);
    let junk: [(&str, usize, &[u8]); 7] = [
        ("text at the end of the file", len, b"more"),
        ("a bit at the end of the file", len - 1, &[1]),
        ("text behind the last line", end, b"more"),
        ("a byte behind the last line", end, &[7]),
        ("lines once more", end, &last),
        ("the whole log once more", len, &bytes),
        ("a bit further on", end + 5000, &[1]),
    ];
    for (what, at, bytes) in junk {
        put(at, bytes);
        is_damaged(&place, what);
    }
    put(len, &[0; 4096]);
    assert_eq!(indexes(&place), [0, 1, 2], "zeros are nothing");
    // A copy stays, and the key goes on.
    put(end, b"more");
    let recovered = recover(&place.environment, &place.key(), &identity(64), 0).unwrap();
    assert!(recovered.warnings[0].contains("k.log.1"), "{recovered:?}");
    assert_eq!(indexes(&place), [0, 1, 2]);
    assert_eq!(sign(place.open(&place.key()).unwrap(), b"four"), 3);
    let whole = recover(&place.environment, &place.key(), &identity(64), 0).unwrap();
    assert!(!whole.warnings.iter().any(|warning| warning.contains("k.log")), "{whole:?}");
}

/// An interrupted write is no reason to refuse the key, and none to believe that the log is whole.
#[test]
fn a_torn_line_is_said_until_it_is_removed() {
    for part in [1, 4, 5, 40, 60] {
        let (place, path, bytes) = signed();
        let first = u32::from_be_bytes(bytes[..4].try_into().unwrap()) as usize;
        let torn = &bytes[first..first + part];
        let before = end(&bytes);
        // Killed while it wrote the line of an index that it had reserved.
        let ledger = place.open(&place.key()).unwrap();
        let _ = ledger.reserve(1).unwrap().take(1).unwrap();
        drop(ledger);
        let mut bad = fs::read(&path).unwrap();
        bad[before..before + part].copy_from_slice(torn);
        let is_torn = torn.iter().any(|byte| *byte != 0);
        fs::write(&path, &bad).unwrap();
        let history = log(&place.environment, &place.key()).unwrap();
        assert_eq!((history.damage.is_some(), history.lines.len()), (is_torn, 4), "{part}");
        let seen = status(&place.environment, &place.key()).unwrap();
        let of_log = seen.warnings.iter().filter(|warning| warning.contains("k.log")).count();
        assert_eq!((seen.refusal, of_log), (None, usize::from(is_torn)), "{part}");
        assert_eq!(sign(place.open(&place.key()).unwrap(), b"four"), 4, "{part}");
        assert_eq!(indexes(&place), [0, 1, 2, 4], "{part}");
        let is_noted =
            |line: &Line| matches!(line, Line::Note { text, .. } if text.contains("were removed"));
        let lines = log(&place.environment, &place.key()).unwrap().lines;
        assert_eq!(lines.iter().any(is_noted), is_torn, "{part}");
    }
}

#[test]
fn a_log_that_is_not_the_keys_newest_is_found() {
    let (place, path, bytes) = signed();
    let other = TestHome::new(64);
    for message in [b"1", b"2", b"3"] {
        sign(other.open(&other.key()).unwrap(), message);
    }
    fs::copy(other.path("keys/k.log"), &path).unwrap();
    is_damaged(&place, "the log of another state of the key");
    fs::write(&path, b"").unwrap();
    is_damaged(&place, "an empty log");
    fs::remove_file(&path).unwrap();
    is_damaged(&place, "no log");
    assert!(is_unsafe(log(&place.environment, &place.key())));
    fs::create_dir(&path).unwrap();
    is_damaged(&place, "a folder");
    assert!(is_unsafe(log(&place.environment, &place.key())));
    assert!(is_unsafe(status(&place.environment, &place.key())));
    fs::remove_dir(&path).unwrap();
    fs::write(&path, &bytes).unwrap();
    sign(place.open(&place.key()).unwrap(), b"four");
    let state = fs::read(place.path("keys/k.state")).unwrap();
    fs::write(&path, &bytes).unwrap();
    is_damaged(&place, "an old log");
    recover(&place.environment, &place.key(), &identity(64), 0).unwrap();
    sign(place.open(&place.key()).unwrap(), b"five");
    fs::write(place.path("keys/k.state"), state).unwrap();
    is_damaged(&place, "an old state");
    for ending in ["k.log", "k.state"] {
        let failed = || Err(std::io::Error::other("the device failed"));
        let frail =
            with_hook_once(&place.environment, (DiskCall::Open(Access::Read), ending), failed);
        assert!(log(&frail, &place.key()).is_err(), "{ending}");
        let frail =
            with_hook_once(&place.environment, (DiskCall::Open(Access::Read), ending), failed);
        assert!(status(&frail, &place.key()).is_err(), "{ending}");
    }
}

/// Two sectors have one public key, so their logs begin alike.
#[test]
fn the_log_of_another_sector_is_found() {
    let (place, path, bytes) = signed();
    let sector = TestHome::empty();
    let key = sector.key();
    let new = NewKey { first: 32, next: 32, ..new_key(&key, 64, &[]) };
    create(&sector.environment, &new).unwrap();
    let own = sector.path("keys/k.log");
    let before = fs::read(&own).unwrap();
    // Of logs that were made in one second the first lines are the same, and that is all that the state knows of.
    if before[..end(&before)] == bytes[..end(&before)] {
        fs::write(&own, &bytes).unwrap();
        is_damaged(&sector, "another sector's log");
        fs::write(&own, &before).unwrap();
    }
    sign(sector.open(&sector.key()).unwrap(), b"one");
    fs::copy(&own, &path).unwrap();
    is_damaged(&place, "another sector's log");
}

/// Another process signs between the reads of state and log.
#[test]
fn a_log_read_during_signing_is_whole() {
    let (place, _, _) = signed();
    for ending in ["k.state", "k.log"] {
        let (other, key) = (place.environment.clone(), place.key());
        let signs = move || {
            for _ in 0..2 {
                sign(open(&other, &key, Duration::ZERO).unwrap(), b"meanwhile");
            }
            Ok(())
        };
        let looked = (DiskCall::AfterOpen(Access::Read), ending);
        let history =
            log(&with_hook_once(&place.environment, looked, signs), &place.key()).unwrap();
        assert_eq!(history.damage, None, "{ending}");
    }
    let mut file = fs::OpenOptions::new().append(true).open(place.path("keys/k.log")).unwrap();
    file.write_all(b"more").unwrap();
    assert!(matches!(place.open(&place.key()).map(drop), Err(LedgerError::Unsafe(_))));
}
