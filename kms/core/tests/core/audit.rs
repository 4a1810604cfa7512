//! The audit log on a real disk.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gabion_disk::RealDisk;
use gabion_disk::testing::{DiskCall, HookedDisk};
use gabion_kms::AuditError;
use gabion_kms::audit::{self, Class, Digest, Keys, Log, Options, Outcome, Record};
use gabion_kms::gate::{Action, Principal};

const ORIGIN: &str = "example.com/audit";

/// A name of a log's folder for a child.
const LOG: &str = "GABION_TEST_KMS_LOG";

pub fn keys() -> Keys {
    Keys::of_seed(ORIGIN, &[7; 64]).unwrap()
}

pub fn small() -> Options {
    Options { segment_bytes: 32 << 10, reserve_bytes: 2 << 10 }
}

/// The record of a number.
pub fn record(number: u64) -> Record {
    Record {
        time_ms: 1_790_000_000_000 + number,
        request_id: format!("request-{number}"),
        trace: None,
        principal: Principal::new("ci@example.com").unwrap(),
        method: "local".to_owned(),
        action: Action::Sign,
        tenant: None,
        key: Some("firmware".to_owned()),
        input: Some(Digest::of(&number.to_le_bytes())),
        output: None,
        change: None,
        outcome: Outcome::Done,
        count: None,
        revision: Some(number),
    }
}

fn open(at: &Path) -> Result<Log, AuditError> {
    Log::open(Arc::new(RealDisk), at, keys(), small())
}

fn verify(at: &Path) -> Result<audit::VerifiedLog, AuditError> {
    audit::verify(&RealDisk, at, None, &keys().vkeys())
}

/// Appends the records of some numbers, each by itself.
fn fill(log: &Log, numbers: std::ops::Range<u64>) {
    for number in numbers {
        let class = if number % 3 == 0 { Class::Durable } else { Class::Written };
        assert_eq!(log.append(&[record(number)], class).unwrap(), number);
    }
}

#[test]
fn a_log_is_written_proved_read_and_verified_over_segments_and_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("audit");
    let mut size = 0;
    for more in [0, 1, 255, 256, 200] {
        let log = open(&at).unwrap();
        assert_eq!(log.size(), size);
        fill(&log, size..size + more);
        size += more;
        let signed = log.checkpoint().unwrap();
        assert_eq!(signed.size, size);
        assert_eq!(log.checkpoint().unwrap(), signed, "nothing new");
        let verified = verify(&at).unwrap();
        assert_eq!((verified.records, verified.checkpoint), (size, signed));
        for index in (0..size).step_by(97) {
            let proof = log.prove(index).unwrap();
            assert!(proof.check(&log.vkeys()).unwrap(), "{index} of {size}");
        }
        assert_eq!(log.prove(size).err(), Some(AuditError::NoRecord(size)));
    }
    let log = open(&at).unwrap();
    let entries = log.tail(250, 400).unwrap();
    assert_eq!(entries.len(), 400);
    for (entry, number) in entries.iter().zip(250..) {
        assert_eq!((entry.index, &entry.record), (number, &record(number)));
    }
    assert!(verify(&at).unwrap().segments > 5);
    assert!(log.tail(size, 10).unwrap().is_empty());
    // Many together, and then without a checkpoint.
    let many: Vec<Record> = (size..size + 40).map(record).collect();
    assert_eq!(log.append(&many, Class::Durable).unwrap(), size);
    drop(log);
    assert_eq!(verify(&at).unwrap().records, size + 40);
    assert_eq!(open(&at).unwrap().size(), size + 40);
}

#[test]
fn a_proof_of_something_else_is_none() {
    let log = Log::in_memory(keys()).unwrap();
    fill(&log, 0..300);
    log.checkpoint().unwrap();
    let (vkeys, proof) = (log.vkeys(), log.prove(257).unwrap());
    let text = serde_json::to_string(&proof).unwrap();
    assert_eq!(serde_json::from_str::<audit::Proof>(&text).unwrap(), proof);
    assert!(proof.check(&vkeys).unwrap());
    let mut others = vec![proof.clone(); 6];
    others[0].index = 258;
    others[1].record = others[1].record.replace("request-257", "request-258");
    others[2].salt = log.prove(256).unwrap().salt;
    others[3].path.swap(0, 1);
    others[4].path.pop();
    others[5].checkpoint = others[5].checkpoint.replace("\n300\n", "\n301\n");
    for (place, other) in others.iter().enumerate() {
        assert!(!other.check(&vkeys).unwrap(), "{place}");
    }
    let strangers = Keys::of_seed(ORIGIN, &[8; 64]).unwrap().vkeys();
    assert!(!proof.check(&strangers).unwrap());
    assert!(!proof.check(&[vkeys[0].as_str(), strangers[1].as_str()]).unwrap(), "both count");
}

#[test]
fn a_file_that_was_deleted_or_replaced_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    for (name, replaced) in [("deleted", false), ("replaced", true)] {
        let at = folder.path().join(name);
        let log = open(&at).unwrap();
        fill(&log, 0..3);
        log.health().unwrap();
        let (file, copy) = (at.join("segment-00000000"), at.join("copy"));
        fs::copy(&file, &copy).unwrap();
        match replaced {
            true => fs::rename(&copy, &file).unwrap(),
            false => fs::remove_file(&file).unwrap(),
        }
        assert!(matches!(log.health(), Err(AuditError::Replaced(_))));
        let refused = log.append(&[record(3)], Class::Written);
        assert!(matches!(refused, Err(AuditError::Replaced(_))), "{refused:?}");
        // Once is for ever, also where the old file comes back.
        fs::rename(&copy, &file).ok();
        assert!(matches!(log.append(&[record(3)], Class::Written), Err(AuditError::Replaced(_))));
        assert!(matches!(log.checkpoint(), Err(AuditError::Replaced(_))));
    }
}

#[test]
fn second_audit_log_handle_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let log = open(folder.path()).unwrap();
    assert!(matches!(open(folder.path()), Err(AuditError::Held(_))));
    drop(log);
    assert!(open(folder.path()).is_ok());
}

#[test]
fn a_reserve_is_left_where_there_is_no_room_for_another_segment() {
    let folder = tempfile::tempdir().unwrap();
    let log = open(folder.path()).unwrap();
    // Something has the name, so that no file can be made.
    let spare = folder.path().join("segment-spare");
    fs::create_dir(&spare).unwrap();
    assert!(log.prepare().is_err());
    let mut number = 0;
    let refused = loop {
        match log.append(&[record(number)], Class::Written) {
            Ok(_) => number += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, AuditError::Unwritable(_) | AuditError::Full), "{refused}");
    assert_eq!(log.health(), Err(refused));
    // Records of completed operations are still accepted.
    let (before, mut at_last) = (number, 0);
    while log.append_at_last(&[record(number)], Class::Durable).is_ok() {
        (number, at_last) = (number + 1, at_last + 1);
    }
    assert!(before > 20 && at_last > 2, "{before} {at_last}");
    fs::remove_dir(&spare).unwrap();
    fill(&log, number..number + 20);
    log.health().unwrap();
    log.checkpoint().unwrap();
    assert_eq!(verify(folder.path()).unwrap().records, number + 20);
}

/// Connections take file descriptors, too: many connections must not stop the log permanently.
#[test]
fn too_many_files_stop_the_log_for_as_long_as_they_are_too_many() {
    let folder = tempfile::tempdir().unwrap();
    let are_too_many = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&are_too_many);
    let disk = HookedDisk::new(move |at, _| match at {
        DiskCall::Open(_) if told.load(Ordering::Relaxed) => Err(io::Error::from_raw_os_error(24)),
        _ => Ok(()),
    });
    let log = Log::open(Arc::new(disk), folder.path(), keys(), small()).unwrap();
    let mut number = 0;
    for is_ahead in [true, false, true] {
        if is_ahead {
            log.prepare().unwrap();
        }
        are_too_many.store(true, Ordering::Relaxed);
        while log.append(&[record(number)], Class::Written).is_ok() {
            number += 1;
            assert!(number < 10_000, "a segment without an end");
        }
        let again = log.append(&[record(number)], Class::Durable);
        assert!(matches!(again, Err(AuditError::Unwritable(_))), "{again:?}");
        are_too_many.store(false, Ordering::Relaxed);
        fill(&log, number..number + 10);
        number += 10;
    }
    log.health().unwrap();
    log.checkpoint().unwrap();
    assert_eq!(verify(folder.path()).unwrap().records, number);
}

#[test]
fn audit_log_tampering_is_detected() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("audit");
    let log = open(&at).unwrap();
    fill(&log, 0..300);
    log.checkpoint().unwrap();
    drop(log);
    verify(&at).unwrap();
    let files = [
        "segment-00000000",
        "segment-00000002",
        "tile/0/000",
        "tile/0/001.p/44",
        "tile/1/000.p/1",
        "tile/entries/000",
        "tile/entries/001.p/44",
        "checkpoint",
    ];
    for name in files {
        let (path, whole) = (at.join(name), fs::read(at.join(name)).unwrap());
        let used = if name.starts_with("segment") { 4096 + 400 } else { whole.len() };
        for place in (0..used)
            .step_by(used / 7)
            .filter(|&place| !(56..4096).contains(&place) || used == whole.len())
        {
            let mut other = whole.clone();
            other[place] ^= 4;
            fs::write(&path, &other).unwrap();
            assert!(verify(&at).is_err(), "{name} {place}");
        }
        fs::remove_file(&path).unwrap();
        assert!(verify(&at).is_err(), "{name} is gone");
        fs::write(&path, &whole).unwrap();
        verify(&at).unwrap();
    }
    // An older checkpoint of this log is valid, and one of another log is not.
    let strangers = Keys::of_seed(ORIGIN, &[8; 64]).unwrap().vkeys();
    assert!(audit::verify(&RealDisk, &at, None, &strangers).is_err());
}

#[test]
fn tiles_and_a_torn_checkpoint_are_made_again_and_a_forged_one_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("audit");
    let log = open(&at).unwrap();
    fill(&log, 0..600);
    let signed = log.checkpoint().unwrap();
    drop(log);
    fs::remove_dir_all(at.join("tile")).unwrap();
    fs::write(at.join("checkpoint"), &signed.note[..50]).unwrap();
    assert!(verify(&at).is_err());
    let log = open(&at).unwrap();
    assert_eq!((log.size(), log.checkpoint().unwrap().root), (600, signed.root));
    drop(log);
    verify(&at).unwrap();
    fs::write(at.join("checkpoint"), signed.note.replace("\n600\n", "\n599\n")).unwrap();
    assert!(matches!(open(&at), Err(AuditError::Damaged { .. })));
}

#[test]
fn a_record_that_was_synced_and_is_broken_is_no_torn_end() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("audit");
    let log = open(&at).unwrap();
    for number in 0..10 {
        log.append(&[record(number)], Class::Durable).unwrap();
    }
    drop(log);
    let file = at.join("segment-00000000");
    let whole = fs::read(&file).unwrap();
    let frame = (whole.windows(4).filter(|four| *four == b"GAF1").count(), 4096 + 8);
    assert_eq!(frame.0, 10);
    let starts: Vec<usize> =
        (0..whole.len() - 4).filter(|&at| &whole[at..at + 4] == b"GAF1").collect();
    // The fifth: five came after it. The last but one: the last says that it was synced.
    for broken in [4, 8] {
        let mut other = whole.clone();
        other[starts[broken] + 100] ^= 1;
        fs::write(&file, &other).unwrap();
        let refused = open(&at).err();
        assert!(matches!(refused, Some(AuditError::Damaged { .. })), "{refused:?}");
    }
    // Nothing says of the last one that it was told of.
    let mut other = whole.clone();
    other[starts[9] + 100] ^= 1;
    fs::write(&file, &other).unwrap();
    assert_eq!(open(&at).unwrap().size(), 9);
}

#[test]
fn many_append_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let log = open(folder.path()).unwrap();
    let told = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8u64)
            .map(|thread| {
                let log = &log;
                scope.spawn(move || {
                    (0..40)
                        .map(|n| {
                            let number = 1000 * thread + n;
                            let durable = n % 2 == 0;
                            let class = if durable { Class::Durable } else { Class::Written };
                            (log.append(&[record(number)], class).unwrap(), number)
                        })
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        log.checkpoint().unwrap();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    log.checkpoint().unwrap();
    let entries = log.tail(0, 1000).unwrap();
    assert_eq!(entries.len(), 320);
    for (index, number) in told {
        assert_eq!(entries[index as usize].record, record(number));
    }
    assert_eq!(verify(folder.path()).unwrap().records, 320);
}

#[test]
fn child_that_appends() {
    let Some(at) = std::env::var_os(LOG) else { return };
    let log = open(Path::new(&at)).unwrap();
    for number in log.size().. {
        let class = if number % 4 == 0 { Class::Durable } else { Class::Written };
        log.append(&[record(number)], class).unwrap();
        println!("told {number}");
        if number % 50 == 0 {
            log.checkpoint().unwrap();
        }
    }
}

#[test]
fn acknowledged_records_survive_kill_9() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("audit");
    let mut before = 0;
    for round in 0..5 {
        let me = std::env::current_exe().unwrap();
        let mut child = Command::new(me)
            .args(["--exact", "audit::child_that_appends", "--nocapture"])
            .env(LOG, &at)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (mut told, mut came) = (0, 0);
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            if let Some(number) = line.unwrap().split("told ").nth(1) {
                told = number.parse().unwrap();
                came += 1;
            }
            if came == 20 + 77 * round {
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        let log = open(&at).unwrap();
        let size = log.size();
        assert!(size == told + 1 || size == told + 2, "{told} was told and {size} are there");
        assert!(size > before);
        for (entry, number) in log.tail(before, usize::MAX).unwrap().iter().zip(before..) {
            assert_eq!(entry.record, record(number));
        }
        log.checkpoint().unwrap();
        assert_eq!(verify(&at).unwrap().records, size);
        before = size;
    }
}
