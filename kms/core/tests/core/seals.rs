//! Seals over a store: who opens them, and what changes them.

use std::sync::{Arc, Mutex};

use gabion_kms::operations::{Kms, Options as KmsOptions};
use gabion_kms::seal::{
    Cost, PendingSeal, Sealer, Share, Shares, Slots, UnsealMethod, change_slots, init,
    is_initialised,
};
use gabion_kms::store::testing::StoreWrapper;
use gabion_kms::store::{
    MemoryStore, Options, Outcome, ReadResult, RecordPath, Revision, SqliteStore, Store,
    StoreError, Transaction,
};
use gabion_kms::{Code, Error, SealError, ShareError, seal};

const CHEAP: Cost = Cost { memory_kib: 64, passes: 1 };
const TWO_OF_THREE: Shares = Shares { shares: 3, threshold: 2 };

/// Adopts a dealt seal with all of its shares.
pub fn adopted(store: &dyn Store, dealt: Result<PendingSeal, Error>) -> (Sealer, Vec<Share>) {
    let dealt = dealt.unwrap();
    let shares = dealt.shares().to_vec();
    (dealt.adopt(store, &shares).unwrap(), shares)
}

/// By a passphrase, or by shares.
trait Unseal {
    fn by(&self) -> UnsealMethod<'_>;
}

impl Unseal for str {
    fn by(&self) -> UnsealMethod<'_> {
        UnsealMethod::Passphrase(self)
    }
}

impl Unseal for [Share] {
    fn by(&self) -> UnsealMethod<'_> {
        UnsealMethod::Shares(self)
    }
}

impl Unseal for Vec<Share> {
    fn by(&self) -> UnsealMethod<'_> {
        UnsealMethod::Shares(self)
    }
}

fn unseal<P: Unseal + ?Sized>(store: &dyn Store, by: &P) -> Result<Sealer, Error> {
    seal::unseal(store, by.by())
}

fn failed<T>(result: Result<T, Error>) -> SealError {
    match result {
        Err(Error::Seal(error)) => error,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it opened"),
    }
}

#[test]
fn shares_and_a_passphrase_open_the_same_seal() {
    let store = MemoryStore::new();
    assert!(!is_initialised(&store).unwrap());
    assert_eq!(failed(unseal(&store, "x")), SealError::None);
    let slots = Slots { recovery: TWO_OF_THREE, passphrase: Some(("correct horse", CHEAP)) };
    let (sealer, shares) = adopted(&store, init(&store, &slots));
    assert!(is_initialised(&store).unwrap());
    assert_eq!(failed(init(&store, &slots)), SealError::Exists);
    let path = RecordPath::new("a").unwrap();
    let sealed = sealer.seal(&path, 1, b"secret").unwrap();
    let written: Vec<Share> =
        shares.iter().map(|share| share.to_string().parse().unwrap()).collect();
    for sealer in [unseal(&store, "correct horse").unwrap(), unseal(&store, &written[1..]).unwrap()]
    {
        assert_eq!(&**sealer.open(&path, 1, &sealed).unwrap(), b"secret");
    }
    assert_eq!(failed(unseal(&store, "correct horsf")), SealError::Passphrase);
    let too_few = ShareError::TooFew { got: 1, needed: 2 };
    assert_eq!(failed(unseal(&store, &shares[..1])), SealError::Share(too_few));
}

#[test]
fn seal_slots_are_changed_by_recovery_shares_only() {
    let store = MemoryStore::new();
    let slots = Slots { recovery: TWO_OF_THREE, passphrase: Some(("old", CHEAP)) };
    let (sealer, old) = adopted(&store, init(&store, &slots));
    let path = RecordPath::new("a").unwrap();
    let sealed = sealer.seal(&path, 1, b"secret").unwrap();
    let five =
        Slots { recovery: Shares { shares: 5, threshold: 3 }, passphrase: Some(("new", CHEAP)) };
    let (_, new) = adopted(&store, change_slots(&store, &old[..2], &five));
    // No record was touched.
    for sealer in [unseal(&store, "new").unwrap(), unseal(&store, &new[2..]).unwrap()] {
        assert_eq!(&**sealer.open(&path, 1, &sealed).unwrap(), b"secret");
    }
    assert_eq!(failed(unseal(&store, "old")), SealError::Passphrase);
    let other = failed(unseal(&store, &old));
    assert!(matches!(other, SealError::Share(ShareError::OtherSet { index: 1, .. })), "{other}");
    assert!(matches!(failed(change_slots(&store, &old, &five)), SealError::Share(_)));
    let without = Slots { passphrase: None, ..five };
    adopted(&store, change_slots(&store, &new, &without));
    assert_eq!(failed(unseal(&store, "new")), SealError::NoPassphrase);
}

/// A seal is adopted only after its shares were given back, and a seal that was replaced meanwhile
/// is not replaced again.
#[test]
fn dealt_seal_is_adopted_only_by_its_own_shares() {
    let store = MemoryStore::new();
    let slots = Slots { recovery: TWO_OF_THREE, passphrase: Some(("word", CHEAP)) };
    let (first, second) = (init(&store, &slots).unwrap(), init(&store, &slots).unwrap());
    let too_few = ShareError::TooFew { got: 1, needed: 2 };
    assert_eq!(failed(first.adopt(&store, &first.shares()[..1])), SealError::Share(too_few));
    assert!(matches!(failed(first.adopt(&store, second.shares())), SealError::Share(_)));
    assert!(!is_initialised(&store).unwrap());
    first.adopt(&store, first.shares()).unwrap();
    // Once more is no mistake, and another one is.
    first.adopt(&store, &first.shares()[1..]).unwrap();
    assert_eq!(failed(second.adopt(&store, second.shares())), SealError::Exists);
    let change = || change_slots(&store, first.shares(), &slots).unwrap();
    let (third, fourth) = (change(), change());
    assert!(unseal(&store, first.shares()).is_ok() && unseal(&store, third.shares()).is_err());
    third.adopt(&store, third.shares()).unwrap();
    assert_eq!(fourth.adopt(&store, fourth.shares()).err(), Some(Error::Conflict));
    assert!(unseal(&store, third.shares()).is_ok() && unseal(&store, first.shares()).is_err());
}

/// A store whose answers get lost as long as it is told so, from the first commit on; what was
/// asked happens.
struct LossyStore(MemoryStore, Mutex<bool>);

impl StoreWrapper for LossyStore {
    fn below(&self) -> &dyn Store {
        &self.0
    }

    fn read(&self, paths: &[RecordPath]) -> Result<ReadResult, StoreError> {
        let read = self.0.read(paths)?;
        match *self.1.lock().unwrap() && read.revision > Revision(0) {
            true => Err(StoreError::Unavailable("its answer was lost".to_owned())),
            false => Ok(read),
        }
    }

    fn commit(&self, transaction: &Transaction) -> Result<Outcome, StoreError> {
        let outcome = self.0.commit(transaction)?;
        Ok(if *self.1.lock().unwrap() { Outcome::Unknown } else { outcome })
    }
}

#[test]
fn a_lost_answer_to_an_adoption_loses_no_seal() {
    let store = LossyStore(MemoryStore::new(), Mutex::new(true));
    let dealt = init(&store, &Slots { recovery: TWO_OF_THREE, passphrase: None }).unwrap();
    let lost = dealt.adopt(&store, dealt.shares()).err();
    assert_eq!(lost, Some(Error::OutcomeUnknown));
    *store.1.lock().unwrap() = false;
    assert!(dealt.adopt(&store, dealt.shares()).is_ok());
    assert!(unseal(&store, dealt.shares()).is_ok());
}

#[test]
fn a_service_takes_the_seal_of_its_own_store_only() {
    let (one, other) = (MemoryStore::with_id([1; 16]), MemoryStore::with_id([2; 16]));
    let slots = Slots { recovery: TWO_OF_THREE, passphrase: None };
    let (sealer, _) = adopted(&one, init(&one, &slots));
    let kms = Kms::new(Arc::new(other), sealer, KmsOptions::default());
    assert!(matches!(failed(kms), SealError::Parameter(_)));
    // A root key that is written nowhere, over a file that outlives it.
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("store");
    SqliteStore::create(&at).unwrap();
    let store = SqliteStore::open(&at, Options::default()).unwrap();
    let sealer = Sealer::volatile(store.identity().id).unwrap();
    let kms = Kms::new(Arc::new(store), sealer, KmsOptions::default());
    assert!(matches!(failed(kms), SealError::Parameter(_)));
}

#[test]
fn numbers_of_shares_have_to_make_sense() {
    for (shares, threshold) in [(0, 0), (3, 0), (2, 3), (3, 1)] {
        let slots = Slots { recovery: Shares { shares, threshold }, passphrase: None };
        let store = MemoryStore::new();
        assert!(matches!(failed(init(&store, &slots)), SealError::Parameter(_)));
        assert!(!is_initialised(&store).unwrap());
    }
    let empty = Slots { recovery: TWO_OF_THREE, passphrase: Some(("", CHEAP)) };
    assert!(matches!(failed(init(&MemoryStore::new(), &empty)), SealError::Parameter(_)));
    for (shares, threshold) in [(1, 1), (255, 255)] {
        let slots = Slots { recovery: Shares { shares, threshold }, passphrase: None };
        let store = MemoryStore::new();
        let (_, made) = adopted(&store, init(&store, &slots));
        assert!(unseal(&store, &made).is_ok());
    }
}

#[test]
fn a_seal_is_bound_to_its_store_and_to_what_the_store_says_of_it() {
    let store = MemoryStore::with_id([1; 16]);
    let slots = Slots { recovery: TWO_OF_THREE, passphrase: Some(("word", CHEAP)) };
    let (_, shares) = adopted(&store, init(&store, &slots));
    let path = RecordPath::new("seal/config").unwrap();
    let text = |store: &MemoryStore| {
        let record =
            store.read(&[RecordPath::new("seal/config").unwrap()]).unwrap().records.remove(0);
        String::from_utf8(record.unwrap().value.unwrap()).unwrap()
    };
    let config = text(&store);
    // The same bytes in another store do not unseal it.
    let other = MemoryStore::with_id([2; 16]);
    let copy = Transaction::new().put(path.clone(), 0, config.clone().into_bytes());
    let _ = other.commit(&copy).unwrap();
    assert_eq!(failed(unseal(&other, "word")), SealError::Passphrase);
    assert_eq!(failed(unseal(&other, &shares)), SealError::Shares);
    // Changed bytes in this store do not unseal it either. Impossible values are refused before a
    // key is derived.
    let slot = config.split_once("\"slots\":[").unwrap().1.trim_end_matches("]}");
    let many = format!("\"slots\":[{}]}}", [slot; 5].join(","));
    let salt = config.rsplit_once("\"id\":\"").unwrap().1[..32].to_owned();
    for (generation, (from, to, by_word, by_shares)) in [
        ("\"memory_kib\":64", "\"memory_kib\":65", Some(SealError::Passphrase), None),
        ("\"shares\":3", "\"shares\":4", None, Some(SealError::Shares)),
        ("\"format\":2", "\"format\":0", damaged(), damaged()),
        // An older format requires no manifest: it cannot be substituted for this one.
        ("\"format\":2", "\"format\":1", Some(SealError::Passphrase), Some(SealError::Shares)),
        ("\"format\":2", "\"format\":3,\"new\":0", newer(), newer()),
        ("\"slots\"", "\"slot\"", damaged(), damaged()),
        ("\"memory_kib\":64", "\"memory_kib\":4294967295", damaged(), damaged()),
        ("\"passes\":1", "\"passes\":65", damaged(), damaged()),
        ("\"threshold\":2", "\"threshold\":0", damaged(), damaged()),
        (&salt[..], &salt[2..], damaged(), damaged()),
        (&config[config.find("\"slots\"").unwrap()..], &many[..], damaged(), damaged()),
    ]
    .into_iter()
    .enumerate()
    {
        let changed = config.replace(from, to).into_bytes();
        let write = Transaction::new().put(path.clone(), generation as u64 + 1, changed);
        let _ = store.commit(&write).unwrap();
        assert_eq!(kind(unseal(&store, "word")), by_word, "{to}");
        assert_eq!(kind(unseal(&store, &shares)), by_shares, "{to}");
    }
}

fn damaged() -> Option<SealError> {
    Some(SealError::Damaged(String::new()))
}

fn newer() -> Option<SealError> {
    Some(SealError::TooOld { wanted: 3, has: 2 })
}

/// Returns the reason why unsealing failed, without the detail of [`SealError::Damaged`].
fn kind(result: Result<Sealer, Error>) -> Option<SealError> {
    match result {
        Ok(_) => None,
        Err(Error::Seal(SealError::Damaged(_))) => damaged(),
        Err(Error::Seal(error)) => Some(error),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_file_outlives_the_process_and_holds_no_secret_in_the_clear() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("store");
    SqliteStore::create(&at).unwrap();
    let open = || SqliteStore::open(&at, Options::default()).unwrap();
    let store = open();
    let slots = Slots { recovery: TWO_OF_THREE, passphrase: Some(("correct horse", CHEAP)) };
    let (sealer, shares) = adopted(&store, init(&store, &slots));
    let path = RecordPath::new("a").unwrap();
    let secret = b"not to be found in any file";
    let write = Transaction::new().put(path.clone(), 0, sealer.seal(&path, 1, secret).unwrap());
    let _ = store.commit(&write).unwrap();
    drop((sealer, store));
    let store = open();
    let sealer = unseal(&store, &shares[..2]).unwrap();
    let record = store.read(std::slice::from_ref(&path)).unwrap().records.remove(0).unwrap();
    assert_eq!(&**sealer.open(&path, 1, &record.value.unwrap()).unwrap(), secret);
    drop(store);
    let share = shares[0].to_string();
    let bytes = share.rsplit('-').nth(1).unwrap().to_owned();
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let found = std::fs::read(entry.unwrap().path()).unwrap();
        for words in [&secret[..], b"correct horse", bytes.as_bytes()] {
            assert!(!found.windows(words.len()).any(|window| window == words));
        }
    }
    assert_eq!(Error::from(SealError::Passphrase).code(), Code::UnsealFailed);
}
