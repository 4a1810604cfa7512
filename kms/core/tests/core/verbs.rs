//! The operations over every algorithm: changes, faults, and refusals.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use gabion_kms::model::{Capability, KeyAlgorithm, KeyId, Label, Minimum, State, VersionId};
use gabion_kms::operations::{Kms, NewKey, Options};
use gabion_kms::seal::{Sealer, Shares, Slots, UnsealMethod, init, unseal};
use gabion_kms::store::testing::StoreWrapper;
use gabion_kms::store::{MemoryStore, Outcome, RecordPath, Store, StoreError, Transaction};
use gabion_kms::{Code, Error, Message};

use crate::seals::adopted;

pub fn label(text: &str) -> Label {
    Label::new("key", text).unwrap()
}

pub fn create(kms: &Kms, name: &str, algorithm: &str) -> VersionId {
    let algorithm = algorithm.parse().unwrap();
    let [tenant, purpose, name] = ["default", "transit", name].map(label);
    kms.create(&NewKey { tenant, purpose, name, algorithm }).unwrap()
}

pub fn pure(message: &[u8]) -> Message<'_> {
    Message::Pure { context: &[], message }
}

fn code<T: std::fmt::Debug>(result: Result<T, Error>) -> Code {
    result.unwrap_err().code()
}

/// The slowest algorithms are left to the engine's tests: here they would add seconds, but no code
/// paths.
fn is_quick(algorithm: &KeyAlgorithm) -> bool {
    let name = algorithm.to_string();
    algorithm.does() == Capability::Sign
        && !(name.contains("rsa") || name.starts_with("slh-dsa") && name.ends_with('s'))
}

#[test]
fn every_algorithm_signs_and_verifies_and_rotates() {
    let kms = Kms::in_memory().unwrap();
    let mut tried = 0;
    for algorithm in KeyAlgorithm::all().filter(is_quick) {
        let first = create(&kms, &format!("key-{tried}"), &algorithm.to_string());
        let old = kms.sign(&first.key, None, pure(b"old")).unwrap();
        assert_eq!(old.by, first);
        let second = kms.rotate(&first.key).unwrap();
        let new = kms.sign(&first.key, None, pure(b"new")).unwrap();
        assert_eq!((new.by.version, &new.by), (2, &second));
        for (by, text, signature, verdict) in [
            (&first, &b"old"[..], &old.signature, true),
            (&second, b"new", &new.signature, true),
            (&second, b"neu", &new.signature, false),
        ] {
            assert_eq!(kms.verify(by, pure(text), signature), Ok(verdict), "{algorithm}");
        }
        // Of another version: either of another length, or wrong.
        assert_ne!(kms.verify(&first, pure(b"new"), &new.signature), Ok(true), "{algorithm}");
        assert_eq!(code(kms.verify(&first, pure(b"old"), b"")), Code::Malformed);
        let long = vec![0; 70_000];
        assert_eq!(code(kms.verify(&first, pure(b"old"), &long)), Code::Malformed);
        tried += 1;
    }
    assert!(tried > 20, "{tried}");
}

#[test]
fn a_context_and_a_digest_are_signed_as_the_standard_says() {
    let kms = Kms::in_memory().unwrap();
    let id = create(&kms, "firmware", "ml-dsa-44");
    let message = Message::Pure { context: b"a", message: b"text" };
    let signed = kms.sign(&id.key, Some(1), message).unwrap();
    assert_eq!(kms.verify(&id, message, &signed.signature), Ok(true));
    assert_eq!(kms.verify(&id, pure(b"text"), &signed.signature), Ok(false));
    let long = [0; 256];
    let too_long = Message::Pure { context: &long, message: b"text" };
    assert_eq!(code(kms.sign(&id.key, None, too_long)), Code::BadRequest);
    let key = create(&kms, "ed", "ed25519").key;
    assert_eq!(code(kms.sign(&key, None, message)), Code::BadRequest);
}

#[test]
fn names_belong_to_one_key_until_it_is_destroyed() {
    let kms = Kms::in_memory().unwrap();
    let first = create(&kms, "name", "ed25519");
    let [tenant, purpose, name] = ["default", "transit", "name"].map(label);
    let again = NewKey { tenant, purpose, name, algorithm: first.key.algorithm };
    assert_eq!(code(kms.create(&again)), Code::Exists);
    assert_eq!(kms.find(&again.tenant, &again.name).unwrap(), first.key);
    // Another tenant's is another name.
    let other = kms.create(&NewKey { tenant: label("other"), ..again.clone() }).unwrap();
    assert_eq!(code(kms.destroy(&first.key)), Code::BadRequest);
    kms.delete(&first.key).unwrap();
    assert_eq!(code(kms.create(&again)), Code::Exists);
    kms.destroy(&first.key).unwrap();
    kms.destroy(&first.key).unwrap();
    assert_eq!(code(kms.find(&again.tenant, &again.name)), Code::NotFound);
    for refused in [code(kms.sign(&first.key, None, pure(b""))), code(kms.restore(&first.key))] {
        assert_eq!(refused, Code::KeyDestroyed);
    }
    let second = kms.create(&again).unwrap();
    assert_ne!(second.key.uuid, first.key.uuid);
    assert_eq!(kms.list(&again.tenant, None, 9).unwrap(), [(again.name.clone(), second.key)]);
    assert_eq!(kms.list(&label("other"), None, 9).unwrap(), [(again.name, other.key)]);
}

/// A name that was looked up, and whose key was used, is the next key's as soon as that one has it.
#[test]
fn a_name_that_was_noted_goes_with_its_key() {
    let kms = Kms::in_memory().unwrap();
    let find = || kms.find(&label("default"), &label("web"));
    for _ in 0..3 {
        let id = create(&kms, "web", "ed25519");
        for _ in 0..2 {
            assert_eq!(find().unwrap(), id.key);
            kms.sign(&id.key, None, pure(b"m")).unwrap();
        }
        kms.delete(&id.key).unwrap();
        assert_eq!(find().unwrap(), id.key);
        kms.destroy(&id.key).unwrap();
        assert_eq!(code(find()), Code::NotFound);
    }
}

#[test]
fn an_id_with_another_tenant_or_algorithm_is_no_key() {
    let kms = Kms::in_memory().unwrap();
    let id = create(&kms, "name", "ed25519").key;
    for other in [
        KeyId { tenant: label("other"), ..id.clone() },
        KeyId { purpose: label("other"), ..id.clone() },
        KeyId { algorithm: "ml-dsa-65".parse().unwrap(), ..id.clone() },
    ] {
        assert_eq!(code(kms.sign(&other, None, pure(b"x"))), Code::NotFound);
        assert_eq!(code(kms.rotate(&other)), Code::NotFound);
        assert_eq!(code(kms.destroy(&other)), Code::NotFound);
    }
    // Also where the key is known already.
    assert!(kms.sign(&id, None, pure(b"x")).is_ok());
    let other = KeyId { purpose: label("other"), ..id };
    assert_eq!(code(kms.sign(&other, None, pure(b"x"))), Code::NotFound);
}

#[test]
fn records_are_sealed_and_bound_to_their_place_and_time() {
    let store = Arc::new(MemoryStore::with_id([3; 16]));
    let sealer = Sealer::volatile([3; 16]).unwrap();
    let ours = Kms::new(Arc::clone(&store) as Arc<dyn Store>, sealer, Options::default()).unwrap();
    let (a, b) = (create(&ours, "a", "ed25519"), create(&ours, "b", "ed25519"));
    let place =
        |id: &KeyId| RecordPath::new(format!("versions/default/{}/0000000001", id.uuid)).unwrap();
    let value = |id| store.read(&[place(id)]).unwrap().records[0].clone().unwrap().value.unwrap();
    let (of_a, of_b) = (value(&a.key), value(&b.key));
    assert!(!of_a.windows(7).any(|bytes| bytes == b"enabled"));
    // An attacker swaps two records, and restores an old one: neither opens.
    let put = |value, before| Transaction::new().put(place(&a.key), before, value);
    for (before, value) in [(1, of_b), (2, of_a)] {
        let _ = store.commit(&put(value, before)).unwrap();
        assert_eq!(code(ours.sign(&a.key, None, pure(b"x"))), Code::IntegrityFailed);
    }
    // Another root key opens nothing.
    let sealer = Sealer::volatile([3; 16]).unwrap();
    let other = Kms::new(store.clone() as Arc<dyn Store>, sealer, Options::default());
    assert_eq!(code(other.map(drop)), Code::IntegrityFailed);
}

#[test]
fn versions_are_one_record_each_and_old_ones_go() {
    let kms = Kms::in_memory().unwrap();
    let id = create(&kms, "many", "ed25519").key;
    let first = kms.sign(&id, None, pure(b"first")).unwrap();
    for version in 2..=300 {
        assert_eq!(kms.rotate(&id).unwrap().version, version);
    }
    assert_eq!(kms.verify(&first.by, pure(b"first"), &first.signature), Ok(true));
    kms.set_minimum(&id, Minimum::Verify, 250).unwrap();
    assert_eq!(code(kms.trim(&id, 250)), Code::BadRequest);
    kms.set_minimum(&id, Minimum::Decrypt, 250).unwrap();
    kms.trim(&id, 250).unwrap();
    kms.trim(&id, 250).unwrap();
    assert_eq!(
        code(kms.verify(&first.by, pure(b"first"), &first.signature)),
        Code::VersionDestroyed
    );
    let left: Vec<u32> = kms.versions(&id).unwrap().iter().map(|version| version.version).collect();
    assert_eq!(left, (250..=300).collect::<Vec<u32>>());
}

#[test]
fn disabled_version_is_refused_until_enabled() {
    let kms = Kms::in_memory().unwrap();
    let id = create(&kms, "a", "ml-dsa-44");
    let signed = kms.sign(&id.key, None, pure(b"x")).unwrap();
    kms.set_state(&id.key, 1, State::Disabled).unwrap();
    assert_eq!(code(kms.sign(&id.key, None, pure(b"x"))), Code::VersionDisabled);
    assert_eq!(code(kms.verify(&id, pure(b"x"), &signed.signature)), Code::VersionDisabled);
    kms.set_state(&id.key, 1, State::Enabled).unwrap();
    assert_eq!(kms.verify(&id, pure(b"x"), &signed.signature), Ok(true));
    kms.delete(&id.key).unwrap();
    assert_eq!(code(kms.verify(&id, pure(b"x"), &signed.signature)), Code::KeyDeleted);
    assert_eq!(code(kms.rotate(&id.key)), Code::KeyDeleted);
    kms.restore(&id.key).unwrap();
    assert_eq!(kms.verify(&id, pure(b"x"), &signed.signature), Ok(true));
    assert_eq!(code(kms.sign(&id.key, Some(2), pure(b"x"))), Code::NotFound);
    assert_eq!(code(kms.sign(&id.key, Some(0), pure(b"x"))), Code::NotFound);
}

/// A damaged version can be taken out of use: that needs its state, not its key.
#[test]
fn a_version_that_no_backend_takes_can_be_disabled() {
    let store = Arc::new(MemoryStore::new());
    let slots = Slots { recovery: Shares { shares: 1, threshold: 1 }, passphrase: None };
    let (sealer, shares) = adopted(&*store, init(&*store, &slots));
    let kms = Kms::new(Arc::clone(&store) as Arc<dyn Store>, sealer, Options::default()).unwrap();
    let id = create(&kms, "a", "ed25519").key;
    let path = RecordPath::new(format!("versions/default/{}/0000000001", id.uuid)).unwrap();
    let record = store.read(std::slice::from_ref(&path)).unwrap().records.remove(0).unwrap();
    let sealer = unseal(&*store, UnsealMethod::Shares(&shares)).unwrap();
    let mut plain = sealer.open(&path, 1, &record.value.unwrap()).unwrap();
    // The last byte says which form the key has.
    *plain.last_mut().unwrap() = 9;
    let other = Transaction::new().put(path.clone(), 1, sealer.seal(&path, 2, &plain).unwrap());
    let _ = store.commit(&other).unwrap();
    assert_eq!(code(kms.sign(&id, None, pure(b"x"))), Code::IntegrityFailed);
    kms.set_state(&id, 1, State::Disabled).unwrap();
    assert_eq!(kms.versions(&id).unwrap()[0].state, State::Disabled);
}

#[test]
fn expanded_keys_take_as_much_memory_as_they_may() {
    let store = Arc::new(MemoryStore::new());
    let sealer = Sealer::volatile(store.identity().id).unwrap();
    let options = Options { cache_bytes_max: 400_000, ..Options::default() };
    let kms = Kms::new(store, sealer, options).unwrap();
    let ids: Vec<_> = (0..40).map(|n| create(&kms, &format!("k{n}"), "ml-dsa-44")).collect();
    for round in 0..2 {
        for id in &ids {
            let signed = kms.sign(&id.key, None, pure(b"x")).unwrap();
            assert_eq!(kms.verify(id, pure(b"x"), &signed.signature), Ok(true), "{round}");
            assert!(kms.cached_bytes() <= options.cache_bytes_max, "{}", kms.cached_bytes());
        }
    }
    assert!(kms.cached_bytes() > 200_000);
    // The versions of one key are no more than those of many.
    let id = &ids[0].key;
    kms.set_minimum(id, Minimum::Sign, 1).unwrap();
    for _ in 0..12 {
        kms.rotate(id).unwrap();
    }
    for version in 1..=13 {
        kms.sign(id, Some(version), pure(b"x")).unwrap();
        assert!(kms.cached_bytes() <= options.cache_bytes_max, "{}", kms.cached_bytes());
    }
}

#[test]
fn metrics_count_every_verb_and_failure() {
    let kms = Kms::in_memory().unwrap();
    let id = create(&kms, "a", "ed25519");
    let signed = kms.sign(&id.key, None, pure(b"x")).unwrap();
    assert_eq!(kms.verify(&id, pure(b"x"), &signed.signature), Ok(true));
    assert_eq!(code(kms.verify(&id, pure(b"x"), b"short")), Code::Malformed);
    let text = kms.metrics().text();
    for line in [
        r#"kms_ops_total{op="create",alg="ed25519"} 1"#,
        r#"kms_ops_total{op="verify",alg="ed25519"} 2"#,
        r#"kms_failures_total{op="verify",kind="malformed"} 1"#,
        r#"kms_op_latency_seconds_count{op="verify"} 2"#,
        r#"kms_op_latency_seconds_bucket{op="sign",le="+Inf"} 1"#,
        "kms_batch_len_count 0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
    assert!(
        text.contains(r#"op="sign",le="0.00001"}"#) || text.contains(r#"op="sign",le="1e-5"}"#),
        "{text}"
    );
}

/// A store that, when enabled, applies writes only later, and reports unknown outcomes.
struct DelayedStore {
    store: MemoryStore,
    is_late: AtomicBool,
    held: Mutex<Vec<Transaction>>,
}

impl DelayedStore {
    fn run_held(&self) {
        for transaction in self.held.lock().unwrap().drain(..) {
            let _ = self.store.commit(&transaction).unwrap();
        }
    }
}

impl StoreWrapper for DelayedStore {
    fn below(&self) -> &dyn Store {
        &self.store
    }

    fn commit(&self, transaction: &Transaction) -> Result<Outcome, StoreError> {
        if !self.is_late.load(Ordering::Acquire) {
            return self.store.commit(transaction);
        }
        self.held.lock().unwrap().push(transaction.clone());
        Ok(Outcome::Unknown)
    }
}

/// A change with an unknown outcome may be applied at any time: until a change of the same record
/// settles it, no view is cached.
#[test]
fn a_change_that_happens_later_is_seen() {
    let (store, is_late) = (MemoryStore::new(), AtomicBool::new(false));
    let store = Arc::new(DelayedStore { store, is_late, held: Mutex::default() });
    let sealer = Sealer::volatile(store.identity().id).unwrap();
    let kms = Kms::new(Arc::clone(&store) as Arc<dyn Store>, sealer, Options::default()).unwrap();
    let id = create(&kms, "a", "ed25519").key;
    let sign = || kms.sign(&id, None, pure(b"x")).map(drop).map_err(|error| error.code());
    for is_another_changed in [false, true] {
        sign().unwrap();
        store.is_late.store(true, Ordering::Release);
        assert_eq!(code(kms.set_state(&id, 1, State::Disabled)), Code::OutcomeUnknown);
        store.is_late.store(false, Ordering::Release);
        sign().unwrap();
        if is_another_changed {
            // Of another record: both were to change the same manifest, so that the one before
            // can't happen any more.
            kms.set_labels(&id, &BTreeMap::new()).unwrap();
            sign().unwrap();
        }
        assert_eq!(kms.cached_bytes(), 0);
        store.run_held();
        assert_eq!(sign().is_ok(), is_another_changed);
        kms.set_state(&id, 1, State::Enabled).unwrap();
        sign().unwrap();
        assert!(kms.cached_bytes() > 0);
    }
}

/// The key pair was made first, and then the name was looked at: seconds for each RSA key that was
/// there already.
#[test]
fn a_name_that_is_taken_is_found_before_a_key_pair_is_made() {
    let kms = Kms::in_memory().unwrap();
    let made = create(&kms, "k", "ed25519");
    let algorithm = "rsa-4096".parse().unwrap();
    let new = NewKey {
        tenant: made.key.tenant.clone(),
        purpose: label("transit"),
        name: label("k"),
        algorithm,
    };
    // With a key pair each this would take an hour.
    for _ in 0..1000 {
        assert_eq!(kms.create(&new).err(), Some(Error::Exists("k".to_owned())));
    }
}
