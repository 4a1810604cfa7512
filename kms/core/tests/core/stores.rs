//! One suite for every store, and one script of faults.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use gabion_kms::store::conformance::{self, Bench, FaultReport};
use gabion_kms::store::testing::StoreWrapper;
use gabion_kms::store::{
    Faults, MemoryStore, Options, Outcome, RecordPath, SettleOutcome, Sim, SqliteStore, Store,
    StoreError, Transaction, settle,
};
use tempfile::TempDir;

/// Fault rates at which all faults occur together within a few hundred rounds.
const FAULTS: Faults =
    Faults { unavailable: 50, request_lost: 100, answer_lost: 100, late: 100, full: 100 };

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
    let mut all = FaultReport::default();
    for seed in 0..200 {
        let told = conformance::faults(&Sim::new(MemoryStore::new(), seed, FAULTS), seed, 200);
        let told = told.unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        all = FaultReport {
            read: all.read + told.read,
            committed: all.committed + told.committed,
            ..told
        };
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

/// A store that loses the first transaction it is asked for, while another one happens.
struct LosingStore {
    store: MemoryStore,
    meanwhile: Mutex<Option<Transaction>>,
}

impl StoreWrapper for LosingStore {
    fn below(&self) -> &dyn Store {
        &self.store
    }

    fn commit(&self, transaction: &Transaction) -> Result<Outcome, StoreError> {
        match self.meanwhile.lock().unwrap().take() {
            Some(other) => self.store.commit(&other).map(|_| Outcome::Unknown),
            None => self.store.commit(transaction),
        }
    }
}

/// After a lost answer, the content may be another writer's: only a unique value identifies this
/// one's.
#[test]
fn burial_by_another_writer_is_not_a_commit() {
    let [a, b] = ["a", "b"].map(|path| RecordPath::new(path).unwrap());
    let both = || Transaction::new().put(a.clone(), 0, vec![1]).put(b.clone(), 0, vec![1]);
    let bury_a = || Transaction::new().bury(a.clone(), 1);
    let settled = |meanwhile, ours| {
        let store = MemoryStore::new();
        let _ = store.commit(&both()).unwrap();
        settle(&LosingStore { store, meanwhile: Mutex::new(Some(meanwhile)) }, &ours)
    };
    let ours = || bury_a().put(b.clone(), 1, b"ours".to_vec());
    assert_eq!(settled(ours(), ours()), Ok(SettleOutcome::Committed));
    // The same tombstone, without a unique value.
    assert!(matches!(settled(bury_a(), ours()), Ok(SettleOutcome::Conflict(_))));
    let theirs = bury_a().put(b.clone(), 1, b"theirs".to_vec());
    assert!(matches!(settled(theirs, ours()), Ok(SettleOutcome::Conflict(_))));
    // Its writer cannot be determined.
    assert_eq!(settled(bury_a(), bury_a()), Ok(SettleOutcome::Unknown));
    // An earlier tombstone is final.
    let store = MemoryStore::new();
    let _ = store.commit(&both()).unwrap();
    let _ = store.commit(&bury_a()).unwrap();
    let other = Transaction::new().put(b.clone(), 1, vec![2]);
    let store = LosingStore { store, meanwhile: Mutex::new(Some(other)) };
    let late = Transaction::new().put(a.clone(), 2, vec![3]);
    assert_eq!(settle(&store, &late), Err(StoreError::Buried("a".to_owned())));
}
