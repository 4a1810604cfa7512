//! Keys say when their uses are answered: once the disk has the record, or once the system has it.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use gabion_disk::Disk;
use gabion_disk::testing::{DiskCall, HookedDisk};
use gabion_kms::audit::{Class, Outcome};
use gabion_kms::model::{Label, State};
use gabion_kms::operations::{Kms, NewKey};
use gabion_kms::service::{AuditAt, Call, KeyRef, Options, Service, SignItem};

use crate::fixture::who;
use crate::verbs::{label, pure};

/// A disk that says each time that a file is synced.
pub fn telling(told: impl Fn() + Send + Sync + 'static) -> Arc<dyn Disk> {
    Arc::new(HookedDisk::new(move |at, _| {
        if at == DiskCall::Sync {
            told();
        }
        Ok(())
    }))
}

#[test]
fn a_key_says_when_its_uses_are_answered() {
    for class in [Class::Written, Class::Durable] {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("audit");
        let synced = Arc::new(AtomicUsize::new(0));
        let count = synced.clone();
        let disk = telling(move || {
            count.fetch_add(1, Ordering::Relaxed);
        });
        let options = Options { class, ..Options::default() };
        let at = AuditAt::Disk(disk, &at);
        let service = Service::open(Kms::in_memory().unwrap(), &at, options).unwrap();
        let who = who(&service);
        let call = Call::new(&who, "r");
        let tenant = label("default");
        let names: [Label; 2] = ["a", "b"].map(label);
        let keys = names.each_ref().map(|name| KeyRef { tenant: &tenant, name });
        for name in &names {
            let (algorithm, purpose) = ("ed25519".parse().unwrap(), label("transit"));
            let new = NewKey { tenant: tenant.clone(), purpose, name: name.clone(), algorithm };
            service.create(&call, &new).unwrap();
        }
        let syncs = |run: &dyn Fn()| {
            let before = synced.load(Ordering::Relaxed);
            run();
            synced.load(Ordering::Relaxed) - before
        };
        let sign = |key: &KeyRef<'_>| {
            syncs(&|| drop(service.sign(&call, key, None, pure(b"m")).unwrap())) > 0
        };
        let batch = || {
            let items =
                keys.map(|key| SignItem { key, version: None, signable: pure(b"m").into() });
            syncs(&|| {
                let signed = service.sign_batch(&call, &items);
                assert!(signed.iter().all(Result::is_ok));
            }) > 0
        };
        let is_durable = class == Class::Durable;
        assert_eq!([sign(&keys[0]), sign(&keys[1]), batch()], [is_durable; 3]);
        service.set_class(&call, &keys[0], Some(Class::Durable)).unwrap();
        service.set_class(&call, &keys[1], Some(Class::Written)).unwrap();
        assert_eq!([sign(&keys[0]), sign(&keys[1]), batch()], [true, false, true]);
        for key in &keys {
            service.set_class(&call, key, None).unwrap();
        }
        assert_eq!([sign(&keys[0]), sign(&keys[1]), batch()], [is_durable; 3]);
    }
}

thread_local! {
    /// Whether this thread has handed its other work over.
    static IS_ASIDE: Cell<bool> = const { Cell::new(false) };
}

fn run_blocking(act: &mut dyn FnMut()) {
    let before = IS_ASIDE.replace(true);
    act();
    IS_ASIDE.set(before);
}

/// A thread that serves other requests, too, does not wait for the disk, not even for the record of
/// a withheld result.
#[test]
fn the_record_of_a_withheld_result_is_synced_off_the_callers_thread() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("audit");
    let alone = Arc::new(AtomicUsize::new(0));
    let service: Arc<OnceLock<Weak<Service>>> = Arc::default();
    let tenant = label("default");
    let (of_told, count, whose) = (service.clone(), alone.clone(), tenant.clone());
    // While the first record is synced the version is disabled.
    let disk = telling(move || {
        if !IS_ASIDE.get() {
            count.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(service) = of_told.get().and_then(Weak::upgrade) {
            let id = service.kms().find(&whose, &label("k")).unwrap();
            let _ = service.kms().set_state(&id, 1, State::Disabled);
        }
    });
    let options = Options { class: Class::Durable, ..Options::default() };
    let kms = Kms::in_memory().unwrap();
    let opened = Service::open(kms, &AuditAt::Disk(disk, &at), options).unwrap();
    let opened = Arc::new(opened);
    let who = who(&opened);
    let call = Call { run_blocking, ..Call::new(&who, "r") };
    let name = label("k");
    let key = KeyRef { tenant: &tenant, name: &name };
    let (algorithm, purpose) = ("ed25519".parse().unwrap(), label("transit"));
    let new = NewKey { tenant: tenant.clone(), purpose, name: name.clone(), algorithm };
    opened.create(&call, &new).unwrap();
    let last = || opened.log().tail(opened.log().size() - 1, 1).unwrap()[0].record.outcome;
    for is_batch in [false, true] {
        opened
            .kms()
            .set_state(&opened.kms().find(&tenant, &name).unwrap(), 1, State::Enabled)
            .unwrap();
        let _ = service.set(Arc::downgrade(&opened));
        alone.store(0, Ordering::Relaxed);
        let refused = match is_batch {
            false => opened.sign(&call, &key, None, pure(b"m")).map(drop),
            true => {
                let items = [SignItem { key, version: None, signable: pure(b"m").into() }];
                opened.sign_batch(&call, &items).remove(0).map(drop)
            }
        };
        assert!(refused.is_err(), "{is_batch}");
        assert_eq!(last(), Outcome::Withheld, "{is_batch}");
        assert_eq!(alone.load(Ordering::Relaxed), 0, "{is_batch}");
    }
}
