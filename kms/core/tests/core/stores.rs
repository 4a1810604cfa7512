//! One suite for every store, and one script of faults.

use std::path::PathBuf;
use std::sync::Arc;

use gabion_kms::store::conformance::{self, Bench, Told};
use gabion_kms::store::{Faults, MemoryStore, Options, Sim, SqliteStore, Store, StoreError};
use tempfile::TempDir;

/// What goes wrong often enough that all of it meets in a few hundred rounds.
const FAULTS: Faults = Faults { unavailable: 50, request_lost: 100, answer_lost: 100, late: 100 };

struct InMemory(Arc<MemoryStore>);

impl Bench for InMemory {
    fn open(&self) -> Result<Arc<dyn Store>, StoreError> {
        Ok(Arc::clone(&self.0) as _)
    }
}

struct InFile {
    _folder: TempDir,
    path: PathBuf,
}

impl InFile {
    fn new() -> Result<Self, StoreError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        SqliteStore::create(&path)?;
        Ok(InFile { _folder: folder, path })
    }
}

impl Bench for InFile {
    fn open(&self) -> Result<Arc<dyn Store>, StoreError> {
        Ok(Arc::new(SqliteStore::open(&self.path, Options::default())?))
    }
}

#[test]
fn the_store_in_memory_keeps_to_the_contract() {
    conformance::check(&mut || Ok(Box::new(InMemory(Arc::default())))).unwrap();
}

#[test]
fn sqlite_keeps_to_the_contract() {
    conformance::check(&mut || Ok(Box::new(InFile::new()?))).unwrap();
}

#[test]
fn the_store_in_memory_says_nothing_false_under_faults() {
    let mut all = Told::default();
    for seed in 0..200 {
        let told = conformance::faults(&Sim::new(MemoryStore::new(), seed, FAULTS), seed, 200);
        let told = told.unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        all =
            Told { read: all.read + told.read, committed: all.committed + told.committed, ..told };
    }
    assert!(all.read > 20_000 && all.committed > 10_000, "{all:?}");
}

#[test]
fn sqlite_says_nothing_false_under_faults() {
    for seed in 0..3 {
        let file = InFile::new().unwrap();
        let store = Sim::new(file.open().unwrap(), seed, FAULTS);
        let told = conformance::faults(&store, seed, 100);
        let told = told.unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        assert!(told.committed > 20 && told.refused > 20, "{told:?}");
    }
}

#[test]
fn a_seed_gives_the_same_faults_again() {
    let run = |seed| conformance::faults(&Sim::new(MemoryStore::new(), seed, FAULTS), 0, 300);
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}
