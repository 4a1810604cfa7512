//! Clocks that jump, back and forth: they move when tokens and keys expire, and nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use gabion_disk::RealDisk;
use gabion_kms::audit;
use gabion_kms::clock::Clock;
use gabion_kms::gate::{Action, Peer, Principal};
use gabion_kms::model::Label;
use gabion_kms::operations::NewKey;
use gabion_kms::service::{
    AuditAt, Call, IdempotentRequest, KEPT_MS, KeyRef, NewToken, OpResult, OpStart, Service,
};
use gabion_kms::store::{MemoryStore, Store};
use gabion_kms::{AuthenticationError, Code, Error};

use crate::fixture::{local, sealed, service};
use crate::verbs::{label, pure};

const DAY: u64 = 24 * 60 * 60 * 1000;

/// Some day of 2026.
pub const NOW: u64 = 1_790_000_000_000;

/// A clock that a test moves.
#[derive(Default)]
pub struct TestClock {
    now_ms: AtomicU64,
    steady_ms: AtomicU64,
}

impl TestClock {
    /// The time goes on.
    pub fn goes_on(&self, ms: u64) {
        self.now_ms.fetch_add(ms, Ordering::SeqCst);
        self.steady_ms.fetch_add(ms, Ordering::SeqCst);
    }

    /// The time of day is set to another one.
    pub fn jumps_to(&self, now_ms: u64) {
        self.now_ms.store(now_ms, Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now_ms(&self) -> u64 {
        self.now_ms.load(Ordering::SeqCst)
    }

    fn steady_ms(&self) -> u64 {
        self.steady_ms.load(Ordering::SeqCst)
    }
}

/// A store under a service, and its clock.
pub struct House {
    pub store: Arc<MemoryStore>,
    pub clock: Arc<TestClock>,
    pub folder: tempfile::TempDir,
    tenant: Label,
}

impl House {
    pub fn new() -> Self {
        let clock = Arc::new(TestClock::default());
        clock.jumps_to(NOW);
        let folder = tempfile::tempdir().unwrap();
        House { store: sealed(), clock, folder, tenant: label("default") }
    }

    fn log(&self) -> std::path::PathBuf {
        self.folder.path().join("audit")
    }

    pub fn open(&self) -> Service {
        self.open_over(self.store.clone())
    }

    pub fn open_over(&self, store: Arc<dyn Store>) -> Service {
        service(store, self.clock.clone(), &AuditAt::Folder(&self.log())).unwrap()
    }

    fn new_key(&self, name: &Label) -> NewKey {
        NewKey {
            tenant: self.tenant.clone(),
            purpose: label("transit"),
            name: name.clone(),
            algorithm: "ed25519".parse().unwrap(),
        }
    }
}

/// A token of a day.
fn token(service: &Service) -> String {
    let new = NewToken {
        principal: Principal::new("me").unwrap(),
        caveats: Vec::new(),
        lifetime_ms: None,
    };
    service.token_create(&Call::new(&local(service), "r"), &new).unwrap().to_string()
}

#[test]
fn a_clock_that_jumps_moves_expiry_and_nothing_else() {
    let house = House::new();
    let service = house.open();
    let (clock, name) = (&house.clock, label("k"));
    let key = KeyRef { tenant: &house.tenant, name: &name };
    let text = token(&service);
    let auth = |text: &str| service.authenticate(text, &Peer::default());
    let me = auth(&text).unwrap();
    let call = Call::new(&me, "r");
    service.create(&call, &house.new_key(&name)).unwrap();
    service.set_expiry(&call, &key, Some(NOW + DAY / 2)).unwrap();
    let first = service.sign(&call, &key, None, pure(b"m")).unwrap();
    // Over the key's end, over the token's, far beyond all, before 1970's second day, and back.
    for (at, key_lives, token_lives) in [
        (NOW + DAY / 2 + 1, false, true),
        (NOW + DAY + 1, false, false),
        (NOW + 3650 * DAY, false, false),
        (253_402_300_800_000 + DAY, false, false), // The year 10000.
        (NOW - 3650 * DAY, true, true),
        (0, true, true),
        (NOW, true, true),
    ] {
        clock.jumps_to(at);
        match auth(&text) {
            Ok(_) => assert!(token_lives, "{at}"),
            Err(error) => {
                assert!(!token_lives, "{at}: {error}");
                assert!(
                    matches!(error, Error::Unauthenticated(AuthenticationError::Expired)),
                    "{error:?}"
                );
            }
        }
        let who = match token_lives {
            true => auth(&text).unwrap(),
            // One that is made now is good from now on.
            false => auth(&token(&service)).unwrap(),
        };
        let call = Call::new(&who, "r");
        match service.sign(&call, &key, None, pure(b"m")) {
            Ok(signed) => {
                assert!(key_lives, "{at}");
                assert_eq!(signed.by, first.by);
            }
            Err(error) => {
                assert!(!key_lives, "{at}: {error}");
                assert_eq!(error.code(), Code::KeyExpired);
            }
        }
        // Signatures verify at any time, and the key is unchanged.
        assert!(service.verify(&call, &key, 1, pure(b"m"), &first.signature).unwrap());
        service.checkpoint().unwrap();
    }
    let shown = service.show(&call, &key).unwrap();
    assert_eq!((shown.key.latest, shown.versions.len()), (1, 1));
}

#[test]
fn root_keys_and_the_log_go_on_by_a_clock_that_went_back() {
    let house = House::new();
    let service = house.open();
    let clock = &house.clock;
    let auth = |text: &str| service.authenticate(text, &Peer::default());
    let me = auth(&token(&service)).unwrap();
    // Root keys stay in the order in which they were made, also by a clock that went back.
    let old = token(&service);
    clock.jumps_to(NOW - 100 * DAY);
    service.root_rotate(&Call::new(&me, "r")).unwrap();
    let new = token(&service);
    assert_eq!(service.gate().roots().len(), 2);
    assert!(auth(&new).is_ok() && auth(&old).is_ok());
    let (size, vkeys) = (service.log().size(), service.log().vkeys());
    service.checkpoint().unwrap();
    drop(service);
    let verified = audit::verify(&RealDisk, &house.log(), None, &vkeys).unwrap();
    assert_eq!(verified.records, size);
    // The same after a restart, at another time again.
    clock.jumps_to(NOW - 100 * DAY + 5);
    let service = house.open();
    assert!(service.authenticate(&new, &Peer::default()).is_ok());
    assert!(service.authenticate(&old, &Peer::default()).is_ok());
    assert_eq!(service.log().size(), size);
}

/// Clock jumps do not make a repeated change run again; only a real day does.
#[test]
fn a_change_that_is_asked_for_again_is_not_done_twice_by_a_clock_that_jumps() {
    let house = House::new();
    let mut service = house.open();
    let (clock, name) = (&house.clock, label("k"));
    let key = KeyRef { tenant: &house.tenant, name: &name };
    let rotated = |service: &Service| -> u32 {
        // A token would end; the process itself has one credential at all times.
        let me = local(service);
        let call = Call::new(&me, "r");
        let asked = IdempotentRequest {
            op_id: "nightly",
            request: [1; 32],
            action: Action::Rotate,
            tenant: &house.tenant,
            key: Some(&name),
            is_secret: false,
        };
        if let OpStart::New(op) = service.op_begin(&call, &asked).unwrap() {
            service.rotate(&Call { op: Some(&op), ..call }, &key).unwrap();
            service.op_end(op, OpResult::Done(b"done")).unwrap();
        }
        service.show(&call, &key).unwrap().key.latest
    };
    let text = token(&service);
    let me = service.authenticate(&text, &Peer::default()).unwrap();
    service.create(&Call::new(&me, "r"), &house.new_key(&name)).unwrap();
    assert_eq!(rotated(&service), 2);
    for at in [NOW + 2 * DAY, NOW - 2 * DAY, 0, NOW + 400 * DAY, NOW] {
        clock.jumps_to(at);
        assert_eq!(rotated(&service), 2, "{at}");
    }
    // A clock that went back over a restart.
    clock.jumps_to(NOW - 30 * DAY);
    drop(service);
    service = house.open();
    assert_eq!(rotated(&service), 2);
    clock.jumps_to(NOW + 1000);
    assert_eq!(rotated(&service), 2);
    clock.goes_on(KEPT_MS - 2000);
    assert_eq!(rotated(&service), 2);
    clock.goes_on(2001);
    assert_eq!(rotated(&service), 3, "a day has passed");
    assert_eq!(rotated(&service), 3);
}
