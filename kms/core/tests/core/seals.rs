//! Seals over a store: who opens them, and what changes them.

use gabion_kms::seal::{Cost, Share, Shares, Slots, change_slots, init, is_initialised, unseal};
use gabion_kms::store::{MemoryStore, Options, RecordPath, SqliteStore, Store, Transaction};
use gabion_kms::{Code, Error, SealError, ShareError};

const CHEAP: Cost = Cost { memory_kib: 64, passes: 1 };
const TWO_OF_THREE: Shares = Shares { shares: 3, threshold: 2 };

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
    let (sealer, shares) = init(&store, &slots).unwrap();
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
fn the_recovery_set_alone_changes_what_opens_the_seal() {
    let store = MemoryStore::new();
    let slots = Slots { recovery: TWO_OF_THREE, passphrase: Some(("old", CHEAP)) };
    let (sealer, old) = init(&store, &slots).unwrap();
    let path = RecordPath::new("a").unwrap();
    let sealed = sealer.seal(&path, 1, b"secret").unwrap();
    let five =
        Slots { recovery: Shares { shares: 5, threshold: 3 }, passphrase: Some(("new", CHEAP)) };
    let new = change_slots(&store, &old[..2], &five).unwrap();
    // No record was touched.
    for sealer in [unseal(&store, "new").unwrap(), unseal(&store, &new[2..]).unwrap()] {
        assert_eq!(&**sealer.open(&path, 1, &sealed).unwrap(), b"secret");
    }
    assert_eq!(failed(unseal(&store, "old")), SealError::Passphrase);
    let other = failed(unseal(&store, &old));
    assert!(matches!(other, SealError::Share(ShareError::OtherSet { index: 1, .. })), "{other}");
    assert!(matches!(failed(change_slots(&store, &old, &five)), SealError::Share(_)));
    let without = Slots { passphrase: None, ..five };
    change_slots(&store, &new, &without).unwrap();
    assert_eq!(failed(unseal(&store, "new")), SealError::NoPassphrase);
}

#[test]
fn numbers_of_shares_have_to_make_sense() {
    for (shares, threshold) in [(0, 0), (3, 0), (2, 3), (3, 1)] {
        let slots = Slots { recovery: Shares { shares, threshold }, passphrase: None };
        let store = MemoryStore::new();
        assert!(matches!(failed(init(&store, &slots)), SealError::Parameter(_)));
        assert!(!is_initialised(&store).unwrap());
    }
    for (shares, threshold) in [(1, 1), (255, 255)] {
        let slots = Slots { recovery: Shares { shares, threshold }, passphrase: None };
        let store = MemoryStore::new();
        let (_, made) = init(&store, &slots).unwrap();
        assert!(unseal(&store, &made).is_ok());
    }
}

#[test]
fn a_seal_is_bound_to_its_store_and_to_what_the_store_says_of_it() {
    let store = MemoryStore::with_id([1; 16]);
    let slots = Slots { recovery: TWO_OF_THREE, passphrase: Some(("word", CHEAP)) };
    let (_, shares) = init(&store, &slots).unwrap();
    let path = RecordPath::new("seal/config").unwrap();
    let text = |store: &MemoryStore| {
        let record =
            store.read(&[RecordPath::new("seal/config").unwrap()]).unwrap().records.remove(0);
        String::from_utf8(record.unwrap().value.unwrap()).unwrap()
    };
    let config = text(&store);
    // The same words in another store open nothing.
    let other = MemoryStore::with_id([2; 16]);
    let copy = Transaction::new().put(path.clone(), 0, config.clone().into_bytes());
    let _ = other.commit(&copy).unwrap();
    assert_eq!(failed(unseal(&other, "word")), SealError::Passphrase);
    assert_eq!(failed(unseal(&other, &shares)), SealError::Shares);
    // Nor do others in this one.
    for (generation, (from, to)) in [
        ("\"memory_kib\":64", "\"memory_kib\":65"),
        ("\"shares\":3", "\"shares\":4"),
        ("\"format\":1", "\"format\":2"),
        ("\"slots\"", "\"slot\""),
        ("\"memory_kib\":64", "\"memory_kib\":4294967295"),
    ]
    .into_iter()
    .enumerate()
    {
        let changed = config.replace(from, to).into_bytes();
        let write = Transaction::new().put(path.clone(), generation as u64 + 1, changed);
        let _ = store.commit(&write).unwrap();
        let by_word = from.contains("shares") || unseal(&store, "word").is_err();
        let by_shares = from.contains("memory") || unseal(&store, &shares).is_err();
        assert!(by_word && by_shares, "{to}");
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
    let (sealer, shares) = init(&store, &slots).unwrap();
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
