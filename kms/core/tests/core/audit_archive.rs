//! Archiving segments, which leaves the tree unchanged.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use gabion_disk::testing::faulty::{Fault, Sim, SimDisk};
use gabion_disk::{Disk, RealDisk};
use gabion_kms::AuditError;
use gabion_kms::audit::{self, Checkpoint, Class, Keep, Log, Recount};

use crate::audit::{keys, record, small};

fn open(disk: Arc<dyn Disk>, at: &Path) -> Result<Log, AuditError> {
    Log::open(disk, at, keys(), small())
}

fn fill(log: &Log, more: u64) -> Result<(), AuditError> {
    let size = log.size();
    let all: Vec<_> = (size..size + more).map(record).collect();
    all.chunks(20).try_for_each(|some| log.append(some, Class::Written).map(drop))
}

/// A log of 700 records whose archive has those that it can.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn log(&self) -> Log {
        open(Arc::new(RealDisk), &self.folder.path().join("audit")).unwrap()
    }

    fn verify(&self, has_archive: bool) -> Result<audit::VerifiedLog, AuditError> {
        let archive = self.folder.path().join("archive");
        let archive = has_archive.then_some(archive);
        let at = self.folder.path().join("audit");
        audit::verify(&RealDisk, &at, archive.as_deref(), &keys().vkeys())
    }

    fn new() -> (Place, Log) {
        let place = Place { folder: tempfile::tempdir().unwrap() };
        let log = place.log();
        fill(&log, 700).unwrap();
        log.checkpoint().unwrap();
        (place, log)
    }

    fn archive(&self) -> std::path::PathBuf {
        self.folder.path().join("archive")
    }
}

#[test]
fn a_log_is_whole_with_its_archive_and_its_tree_without() {
    let (place, log) = Place::new();
    let before = log.checkpoint().unwrap();
    assert_eq!(log.first().unwrap(), 0);
    let done = log.archive(&place.archive(), &Keep::default()).unwrap();
    // Records outside a full bundle stay: 700 records are two bundles and a part.
    assert!(done.first > 256 && done.first <= 512, "{done:?}");
    assert_eq!((done.records, log.first().unwrap()), (done.first, done.first));
    assert!(done.files.len() > 3, "{done:?}");
    let again = log.archive(&place.archive(), &Keep::default()).unwrap();
    assert_eq!((again.records, again.first, again.files.len()), (0, done.first, 0));
    for file in &done.files {
        let left = place.folder.path().join("audit").join(file);
        assert_eq!(fs::metadata(left).unwrap().len(), 56, "{file}");
        assert_eq!(fs::metadata(place.archive().join(file)).unwrap().len(), small().segment_bytes);
    }
    // Records in the log can be read and proved; archived ones fail with [`AuditError::Archived`].
    assert_eq!(log.tail(0, 1).unwrap()[0].index, done.first);
    assert!(log.prove(done.first).unwrap().check(&log.vkeys()).unwrap());
    assert_eq!(log.prove(0).err(), Some(AuditError::Archived(0)));
    let mut recount = Recount::default();
    log.entries(0, done.first as usize).unwrap().iter().for_each(|entry| recount.entry(entry));
    log.tail(done.first, 1000).unwrap().iter().for_each(|entry| recount.record(entry));
    let signed = Checkpoint::read(&log.vkeys(), &before.note).unwrap().unwrap();
    assert!(recount.is(&signed));
    recount.entry(&[0; 32]);
    assert!(!recount.is(&signed));
    assert_eq!(log.entries(690, 1000).unwrap().len(), 10);
    drop(log);
    let without = place.verify(false).unwrap();
    assert_eq!((without.records, without.archived), (700, done.first));
    let with = place.verify(true).unwrap();
    assert_eq!((with.records, with.archived, with.segments), (700, 0, without.segments));
    // It goes on.
    let log = place.log();
    fill(&log, 100).unwrap();
    log.checkpoint().unwrap();
    drop(log);
    assert_eq!(place.verify(true).unwrap().records, 800);
}

#[test]
fn archive_limits_keep_recent_segments() {
    let (place, log) = Place::new();
    let (archive, bytes) = (place.archive(), small().segment_bytes);
    let keep = |since_ms, bytes| Keep { since_ms, bytes };
    let moved = |keep| log.archive(&archive, &keep).unwrap().files.len();
    let start = record(0).time_ms;
    assert_eq!(moved(keep(Some(start), None)), 0);
    assert_eq!(moved(keep(None, Some(100 * bytes))), 0);
    let segments = place.verify(false).unwrap().segments;
    assert_eq!(moved(keep(None, Some((segments - 1) * bytes))), 1);
    let first = log.first().unwrap();
    // The next one has records of this time, and the one behind it none that are older.
    assert_eq!(moved(keep(Some(start + first + 1), None)), 0);
    let next = fs::read(place.folder.path().join("audit/segment-00000002")).unwrap();
    let second = u64::from_le_bytes(next[40..48].try_into().unwrap());
    assert_eq!(moved(keep(Some(start + second), None)), 1);
    assert_eq!(log.first().unwrap(), second);
}

#[test]
fn archive_tampering_is_detected() {
    let (place, log) = Place::new();
    let own = place.folder.path().join("audit");
    assert!(matches!(log.archive(&own, &Keep::default()), Err(AuditError::Parameter(_))));
    // A directory has the name.
    fs::create_dir(place.archive()).unwrap();
    let file = place.archive().join("segment-00000000");
    fs::write(&file, "mine").unwrap();
    assert!(matches!(
        log.archive(&place.archive(), &Keep::default()),
        Err(AuditError::Damaged { .. })
    ));
    assert_eq!((fs::read(&file).unwrap(), log.first().unwrap()), (b"mine".to_vec(), 0));
    fs::remove_file(&file).unwrap();
    // A record that is another than its bundle has stays where it is.
    let bundle = own.join("tile/entries/000");
    let whole = fs::read(&bundle).unwrap();
    let mut other = whole.clone();
    other[100] ^= 1;
    fs::write(&bundle, &other).unwrap();
    assert!(log.archive(&place.archive(), &Keep::default()).is_err());
    assert_eq!(log.first().unwrap(), 0);
    fs::write(&bundle, &whole).unwrap();
    log.archive(&place.archive(), &Keep::default()).unwrap();
    place.verify(true).unwrap();
    let whole = fs::read(&file).unwrap();
    for at in [20, 4096 + 5, 4096 + 100] {
        let mut other = whole.clone();
        other[at] ^= 1;
        fs::write(&file, &other).unwrap();
        assert!(place.verify(true).is_err(), "{at}");
    }
    fs::remove_file(&file).unwrap();
    assert!(place.verify(true).is_err());
    assert!(place.verify(false).is_ok());
    fs::write(&file, &whole).unwrap();
    place.verify(true).unwrap();
}

/// Bundles of entries are what is left of records that were moved; all else is made of them.
#[test]
fn tiles_are_made_again_of_bundles_where_records_are_in_an_archive() {
    let (place, log) = Place::new();
    let signed = log.checkpoint().unwrap();
    log.archive(&place.archive(), &Keep::default()).unwrap();
    drop(log);
    let own = place.folder.path().join("audit");
    for level in ["tile/0", "tile/1"] {
        fs::remove_dir_all(own.join(level)).unwrap();
    }
    let log = place.log();
    assert_eq!((log.size(), log.checkpoint().unwrap().root), (700, signed.root));
    drop(log);
    place.verify(true).unwrap();
    // One that is full, which the edge does not tell of.
    fs::remove_file(own.join("tile/0/000")).unwrap();
    drop(place.log().checkpoint().unwrap());
    place.verify(true).unwrap();
    fs::remove_file(own.join("checkpoint")).unwrap();
    let log = place.log();
    assert_eq!(log.checkpoint().unwrap().root, signed.root);
    drop(log);
    place.verify(true).unwrap();
    fs::remove_file(own.join("tile/entries/000")).unwrap();
    fs::remove_file(own.join("checkpoint")).unwrap();
    let refused = open(Arc::new(RealDisk), &own).err();
    assert!(matches!(refused, Some(AuditError::Damaged { .. })), "{refused:?}");
}

const AT: &str = "/keys/audit";
const TO: &str = "/keys/archive";

fn archive(disk: &SimDisk) -> Result<(), AuditError> {
    let log = open(Arc::new(disk.clone()), Path::new(AT))?;
    if log.size() == 0 {
        fill(&log, 300)?;
    }
    log.checkpoint()?;
    log.archive(Path::new(TO), &Keep::default()).map(drop)
}

/// Whatever strikes while segments move: each record is in the log or in the archive, and doing it
/// again ends it.
#[test]
fn archiving_loses_no_record_under_faults() {
    let sim = Sim::new(Vec::new(), 0);
    archive(&sim.process()).unwrap();
    let calls = sim.calls();
    let mut injected = 0;
    for (which, kind) in Fault::all().into_iter().enumerate() {
        if matches!(kind, Fault::Booted | Fault::Raced | Fault::Hiccup) {
            continue;
        }
        for call in (which % 11..calls).step_by(11) {
            let sim = Sim::new(vec![(call, kind)], call as u64);
            let disk = sim.process();
            let what = format!("{kind:?} at call {call}: {:?}", archive(&disk));
            injected += usize::from(!sim.state().injected.is_empty());
            sim.kill(disk.process);
            let disk = sim.process();
            let size = {
                let log = open(Arc::new(disk.clone()), Path::new(AT))
                    .unwrap_or_else(|error| panic!("{what}: {error}"));
                if log.size() < 300 {
                    fill(&log, 300 - log.size()).unwrap();
                }
                log.checkpoint().unwrap();
                let done = log
                    .archive(Path::new(TO), &Keep::default())
                    .unwrap_or_else(|error| panic!("{what}: {error}"));
                assert!(done.first > 100 && done.first <= 256, "{what}: {done:?}");
                log.size()
            };
            let verified =
                audit::verify(&disk, Path::new(AT), Some(Path::new(TO)), &keys().vkeys())
                    .unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!((verified.records, verified.archived), (size, 0), "{what}");
        }
    }
    assert!(injected > 50, "{injected}");
}
