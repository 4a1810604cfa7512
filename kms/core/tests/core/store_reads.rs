//! The operations that read the store, and those that do not wait for changes.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::time::Duration;

use gabion_kms::model::Label;
use gabion_kms::operations::{Kms, Options};
use gabion_kms::seal::Sealer;
use gabion_kms::store::testing::StoreWrapper;
use gabion_kms::store::{MemoryStore, Outcome, Page, RecordPath, Store, StoreError, Transaction};

use crate::verbs::{create, label};

/// How long whatever is waited for may take.
const LONG: Duration = Duration::from_secs(60);

/// A store that counts records which are listed, and whose commits wait while they are told to.
#[derive(Default)]
struct CountingStore {
    store: MemoryStore,
    listed: AtomicUsize,
    lists: AtomicUsize,
    holds: AtomicBool,
    held: Mutex<bool>,
    changed: Condvar,
}

impl StoreWrapper for CountingStore {
    fn below(&self) -> &dyn Store {
        &self.store
    }

    fn list(&self, u: &RecordPath, a: Option<&RecordPath>, m: usize) -> Result<Page, StoreError> {
        let page = self.store.list(u, a, m)?;
        self.lists.fetch_add(1, Ordering::SeqCst);
        self.listed.fetch_add(page.records.len(), Ordering::SeqCst);
        Ok(page)
    }

    fn commit(&self, transaction: &Transaction) -> Result<Outcome, StoreError> {
        if self.holds.load(Ordering::SeqCst) {
            let mut held = self.held.lock().unwrap();
            *held = true;
            self.changed.notify_all();
            while *held {
                let (next, waited) = self.changed.wait_timeout(held, LONG).unwrap();
                assert!(!waited.timed_out());
                held = next;
            }
        }
        self.store.commit(transaction)
    }
}

fn watched() -> (Arc<CountingStore>, Kms) {
    let store = Arc::new(CountingStore::default());
    let sealer = Sealer::volatile(store.identity().id).unwrap();
    let kms = Kms::new(store.clone(), sealer, Options::default()).unwrap();
    (store, kms)
}

/// Behind a thousand others, those that begin so are found without a look at them.
#[test]
fn a_list_begins_at_its_prefix() {
    let (store, kms) = watched();
    for number in 0..1000 {
        create(&kms, &format!("a-{number:04}"), "hmac-sha-256");
    }
    for name in ["web", "web-1", "web-2", "web.x", "wec", "we"] {
        create(&kms, name, "hmac-sha-256");
    }
    let tenant = label("default");
    let list = |prefix: &str, after: Option<&str>, most: usize| -> Vec<String> {
        let after = after.map(|after| Label::new("key", after).unwrap());
        let found = kms.list_prefixed(&tenant, prefix, after.as_ref(), most).unwrap();
        found.iter().map(|(name, _)| name.to_string()).collect()
    };
    store.listed.store(0, Ordering::SeqCst);
    assert_eq!(list("web", None, 100), ["web", "web-1", "web-2", "web.x"]);
    assert_eq!(list("web-", None, 100), ["web-1", "web-2"]);
    assert_eq!(list("web", Some("web-1"), 100), ["web-2", "web.x"]);
    assert_eq!(list("web", Some("a-0001"), 2), ["web", "web-1"]);
    assert_eq!(list("web", None, 1), ["web"]);
    assert_eq!(list("web", Some("wez"), 9), Vec::<String>::new());
    for none in ["x", "web-3", "web/", "a b", "\u{e4}", &"w".repeat(65)] {
        assert_eq!(list(none, None, 9), Vec::<String>::new(), "{none}");
    }
    let listed = store.listed.load(Ordering::SeqCst);
    assert!(listed < 50, "{listed} records were read");
    assert_eq!(list("", None, 2000).len(), 1006);
    assert_eq!(list("a-09", None, 2000).len(), 100);
    // A name that is free again belongs to no key.
    let id = kms.find(&tenant, &label("web")).unwrap();
    kms.delete(&id).unwrap();
    kms.destroy(&id).unwrap();
    assert_eq!(list("web", None, 1), ["web-1"]);
}

/// In a list of one key, each name of a destroyed key took a separate query.
#[test]
fn a_list_reads_the_names_of_destroyed_keys_in_pages() {
    let (store, kms) = watched();
    for number in 0..600 {
        let id = create(&kms, &format!("a-{number:04}"), "hmac-sha-256").key;
        kms.delete(&id).unwrap();
        kms.destroy(&id).unwrap();
    }
    create(&kms, "b", "hmac-sha-256");
    for prefix in ["", "a", "a-0"] {
        store.lists.store(0, Ordering::SeqCst);
        let found = kms.list_prefixed(&label("default"), prefix, None, 1).unwrap();
        assert_eq!(found.len(), usize::from(prefix.is_empty()));
        let lists = store.lists.load(Ordering::SeqCst);
        assert!(lists <= 4, "{lists} queries for the prefix `{prefix}`");
    }
}

/// Describing a key does not wait for a change that waits for its disk.
#[test]
fn a_description_does_not_wait_for_a_change() {
    let (store, kms) = watched();
    let id = create(&kms, "k", "ed25519").key;
    kms.attest(&id, "").unwrap();
    store.holds.store(true, Ordering::SeqCst);
    let (told, attested) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| create(&kms, "other", "ed25519"));
        let mut held = store.held.lock().unwrap();
        while !*held {
            let (next, waited) = store.changed.wait_timeout(held, LONG).unwrap();
            assert!(!waited.timed_out());
            held = next;
        }
        drop(held);
        let (kms, id) = (&kms, &id);
        scope.spawn(move || told.send(Box::new(kms.attest(id, "now"))).is_ok());
        let came = attested.recv_timeout(LONG / 4);
        store.holds.store(false, Ordering::SeqCst);
        *store.held.lock().unwrap() = false;
        store.changed.notify_all();
        assert_eq!(came.expect("it waits for the change").unwrap().attest.head, 1);
    });
}
