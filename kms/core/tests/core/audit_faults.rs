//! The audit log on a disk that fails, tears and loses its power, at every call and in every way.

use std::path::Path;
use std::sync::Arc;

use gabion_disk::Disk;
use gabion_disk::testing::faulty::{Fault, Sim, SimDisk, UnsyncedWrites};
use gabion_kms::AuditError;
use gabion_kms::audit::{self, Class, Log};

use crate::audit::{keys, record, small};

const AT: &str = "/keys/audit";

/// The records that a process was acknowledged.
#[derive(Debug, Default)]
struct AcknowledgedRecords {
    /// Records that were appended, of any class.
    written: u64,
    /// Records up to the last one that is durable.
    durable: u64,
    signed: u64,
}

fn open(disk: &SimDisk) -> Result<Log, AuditError> {
    Log::open(Arc::new(disk.clone()), Path::new(AT), keys(), small())
}

/// Appends until something fails, or it is enough.
fn run(disk: &SimDisk, told: &mut AcknowledgedRecords) -> Result<(), AuditError> {
    let log = open(disk)?;
    assert!(log.size() >= told.written);
    let start = log.size();
    for number in start..start + 90 {
        let class = if number % 4 == 1 { Class::Durable } else { Class::Written };
        match number % 10 {
            3 => log.append(&[record(number), record(number + 1)], class)?,
            4 => continue,
            _ => log.append(&[record(number)], class)?,
        };
        told.written = number + 1 + u64::from(number % 10 == 3);
        if class == Class::Durable {
            told.durable = told.written;
        }
        if number % 20 == 19 {
            told.signed = log.checkpoint()?.size;
        }
        if number == start + 30 {
            log.prepare()?;
        }
    }
    Ok(())
}

/// Checks the log after all faults, and that it can be continued.
fn look(sim: &Sim, told: &AcknowledgedRecords, is_cut: bool, what: &str) {
    let disk = sim.process();
    let log = open(&disk).unwrap_or_else(|error| panic!("{what}: {error} {told:?}"));
    let (size, least) =
        (log.size(), if is_cut { told.durable.max(told.signed) } else { told.written });
    assert!(size >= least, "{what}: {size} are there, and {told:?}");
    for (entry, number) in log.tail(0, usize::MAX).unwrap().iter().zip(0..) {
        assert_eq!((entry.index, &entry.record), (number, &record(number)), "{what}");
    }
    assert_eq!(log.append(&[record(size)], Class::Durable).unwrap(), size, "{what}");
    log.checkpoint().unwrap();
    drop(log);
    let verified = audit::verify(&disk, Path::new(AT), None, &keys().vkeys());
    assert_eq!(verified.map(|verified| verified.records), Ok(size + 1), "{what}");
}

#[test]
fn no_acknowledged_record_is_lost_by_any_fault() {
    let sim = Sim::new(Vec::new(), 0);
    run(&sim.process(), &mut AcknowledgedRecords::default()).unwrap();
    let calls = sim.calls();
    assert!(calls > 200, "{calls}");
    let mut injected = 0;
    for (which, kind) in Fault::all().into_iter().enumerate() {
        // The log does not read the boot id, no other process opens it, and the rest of a hiccup
        // would affect the checks.
        if matches!(kind, Fault::Booted | Fault::Raced | Fault::Hiccup) {
            continue;
        }
        let is_cut = matches!(kind, Fault::CutBefore(_) | Fault::CutAfter(_));
        for call in (which % 5..calls).step_by(5) {
            let sim = Sim::new(vec![(call, kind)], call as u64);
            let mut told = AcknowledgedRecords::default();
            let disk = sim.process();
            let ran = run(&disk, &mut told);
            let hit = !sim.state().injected.is_empty();
            injected += usize::from(hit);
            let what = format!("{kind:?} at call {call}: {ran:?}");
            assert!(hit || ran.is_ok(), "{what}");
            sim.kill(disk.process);
            look(&sim, &told, is_cut, &what);
        }
    }
    assert!(injected > 300, "{injected}");
}

/// A second power cut, right after the first, while the log is opened.
#[test]
fn opening_may_be_interrupted_too() {
    for kind in Fault::all() {
        if !matches!(kind, Fault::CutBefore(_) | Fault::CutAfter(_) | Fault::KilledBefore) {
            continue;
        }
        for call in (0..60).step_by(7) {
            // A process without power makes no calls, so that the next one's begin right behind.
            let cut = (150, Fault::CutBefore(UnsyncedWrites::Torn));
            let sim = Sim::new(vec![cut, (151 + call, kind)], call as u64);
            let mut told = AcknowledgedRecords::default();
            assert!(run(&sim.process(), &mut told).is_err());
            drop(open(&sim.process()));
            // If a run took fewer calls, the fault hits this idle process.
            let idle = sim.process();
            while sim.calls() <= 151 + call {
                drop(idle.canonical(Path::new("/keys")));
            }
            look(&sim, &told, true, &format!("{kind:?} at call {call} of opening"));
        }
    }
}

/// A failed sync may have lost written pages that can still be read. So the records are written
/// again when the log is opened.
#[test]
fn records_after_a_failed_sync_are_rewritten() {
    let mut injected = 0;
    for call in (0..200).step_by(2) {
        // Far behind everything that happens before it.
        let cut = 3000;
        let plan = vec![(call, Fault::Fails), (cut, Fault::CutBefore(UnsyncedWrites::None))];
        let sim = Sim::new(plan, call as u64);
        let disk = sim.process();
        injected += usize::from(run(&disk, &mut AcknowledgedRecords::default()).is_err());
        sim.kill(disk.process);
        let log = open(&sim.process()).unwrap();
        let size = log.append(&[record(log.size())], Class::Durable).unwrap() + 1;
        drop(log);
        assert!(sim.calls() < cut);
        let idle = sim.process();
        while sim.calls() <= cut && !sim.is_dead(idle.process) {
            drop(idle.canonical(Path::new("/keys")));
        }
        let log = open(&sim.process()).unwrap_or_else(|error| panic!("call {call}: {error}"));
        assert_eq!(log.size(), size, "call {call}");
    }
    assert!(injected > 90, "{injected}");
}
