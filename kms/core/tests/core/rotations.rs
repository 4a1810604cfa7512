//! Rotation by the clock: once when it is due, whatever clocks, stores, kills and other callers do.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use gabion_kms::audit::Outcome;
use gabion_kms::clock::Clock;
use gabion_kms::gate::{Action, Principal};
use gabion_kms::model::{
    KeyId, Label, ROTATE_PERIOD_MAX_S, ROTATE_PERIOD_MIN_S, RotationTime, State, Uuid,
};
use gabion_kms::operations::{Import, KeyChange, NewKey, Terms};
use gabion_kms::service::{AUTO_ROTATE, AuditAt, Call, KeyRef, RotationReport, Service};
use gabion_kms::store::testing::StoreWrapper;
use gabion_kms::store::{
    Faults, MemoryStore, Outcome as Came, ReadResult, RecordPath, Sim, Store, StoreError,
    Transaction,
};
use gabion_kms::{Code, Error};

use crate::clocks::{House, NOW};
use crate::fixture::{sealer, service as open};
use crate::idempotency::{KillPoint, KillableStore};
use crate::verbs::{label, pure};

pub const HOUR: u64 = 60 * 60 * 1000;
pub const DAY: u64 = 24 * HOUR;
pub const DAY_S: u64 = 24 * 60 * 60;

impl House {
    /// Returns the number of due keys, and checks that the store's index agrees with its keys.
    pub fn agrees(&self) -> usize {
        let sealer = sealer(&*self.store);
        let read = |under: &str| -> BTreeMap<String, Vec<u8>> {
            let under = RecordPath::new(under).unwrap();
            let page = self.store.list(&under, None, 10_000).unwrap();
            let open = |(path, record): (RecordPath, gabion_kms::store::Record)| {
                let plain = sealer.open(&path, record.generation, &record.value?).unwrap();
                let (_, name) = path.as_str().split_once('/').unwrap();
                Some((name.to_owned(), plain.to_vec()))
            };
            page.records.into_iter().filter_map(open).collect()
        };
        let due_of_key = |plain: &Vec<u8>| {
            serde_json::from_slice::<gabion_kms::model::Key>(plain).unwrap().due()
        };
        let index: BTreeMap<String, RotationTime> = read("rotations")
            .into_iter()
            .filter_map(|(name, plain)| {
                Some((name, serde_json::from_slice::<Option<RotationTime>>(&plain).unwrap()?))
            })
            .collect();
        let keys: BTreeMap<String, RotationTime> = read("keys")
            .iter()
            .filter_map(|(name, plain)| Some((name.clone(), due_of_key(plain)?)))
            .collect();
        assert_eq!(index, keys);
        index.len()
    }
}

pub fn new(name: &str) -> NewKey {
    let [tenant, purpose, name] = ["default", "transit", name].map(label);
    NewKey { tenant, purpose, name, algorithm: "ed25519".parse().unwrap() }
}

fn terms(period_s: u64) -> Terms {
    Terms { rotate_period_s: Some(period_s), ..Terms::default() }
}

/// A key that rotates each day.
pub fn daily(service: &Service, name: &str) -> KeyId {
    service.kms().create_on(&new(name), &terms(DAY_S)).unwrap().key
}

pub fn latest(service: &Service, id: &KeyId) -> u32 {
    service.kms().describe(id).unwrap().latest
}

fn due_ms(service: &Service, id: &KeyId) -> Option<u64> {
    service.kms().describe(id).unwrap().rotates_ms
}

/// The versions that were made of keys that are due, at most 100.
#[track_caller]
pub fn made(service: &Service) -> usize {
    let done = service.rotate_due(100).unwrap();
    assert_eq!((done.failed, done.anew), (0, 0));
    done.made.len()
}

pub fn counted(service: &Service, name: &str) -> u64 {
    let text = service.load_text();
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
    line.unwrap().parse().unwrap()
}

fn code<T: std::fmt::Debug>(result: Result<T, Error>) -> Code {
    result.unwrap_err().code()
}

#[test]
fn a_key_is_rotated_once_when_it_is_due_and_the_log_says_by_whom() {
    let house = House::new();
    let mut service = house.open();
    let id = daily(&service, "k");
    let never = service.kms().create(&new("never")).unwrap().key;
    assert_eq!(due_ms(&service, &id), Some(NOW + DAY));
    assert_eq!(house.agrees(), 1);
    let first = service.kms().sign(&id, None, pure(b"m")).unwrap();
    house.clock.goes_on(DAY - 1);
    assert_eq!(service.rotate_due(10), Ok(RotationReport::default()));
    house.clock.goes_on(1);
    let size = service.log().size();
    let done = service.rotate_due(10).unwrap();
    assert_eq!(done.made, ["k"].map(|_| format!("{id}#v2").parse().unwrap()));
    assert_eq!((done.failed, done.anew, done.is_more), (0, 0, false));
    assert_eq!((made(&service), latest(&service, &id), latest(&service, &never)), (0, 2, 1));
    assert_eq!(due_ms(&service, &id), Some(NOW + 2 * DAY));
    assert_eq!(house.agrees(), 1);
    let told: Vec<_> =
        service.log().tail(size, 10).unwrap().into_iter().map(|of| of.record).collect();
    let outcomes: Vec<Outcome> = told.iter().map(|record| record.outcome).collect();
    assert_eq!(outcomes, [Outcome::Begun, Outcome::Done]);
    for record in &told {
        assert_eq!(record.principal, Principal::new(AUTO_ROTATE).unwrap());
        assert_eq!((&*record.method, record.action), ("local", Action::Rotate));
        assert_eq!(record.tenant, Some(label("default")));
    }
    assert_eq!(told[1].key.as_deref(), Some(&*format!("{id}#v2")));
    assert_eq!(counted(&service, "kms_auto_rotations_total"), 1);
    assert_eq!(counted(&service, "kms_quota_refused_total"), 0);
    // Ten periods later it is rotated once; earlier signatures verify.
    house.clock.goes_on(10 * DAY);
    assert_eq!((made(&service), made(&service), latest(&service, &id)), (1, 0, 3));
    assert_eq!(due_ms(&service, &id), Some(NOW + 12 * DAY));
    assert!(service.kms().verify(&first.by, pure(b"m"), &first.signature).unwrap());
    // Overdue while no process ran: rotated once after the start.
    drop(service);
    house.clock.goes_on(3 * DAY);
    service = house.open();
    assert_eq!((made(&service), made(&service), latest(&service, &id)), (1, 0, 4));
    assert!(!service.is_rotation_failing());
}

#[test]
fn a_period_is_set_and_ended_and_set_again_without_moving_what_is_due() {
    let house = House::new();
    let service = house.open();
    let kms = service.kms();
    let id = kms.create(&new("k")).unwrap().key;
    kms.set_rotation(&id, Some(2 * DAY_S)).unwrap();
    assert_eq!(due_ms(&service, &id), Some(NOW + 2 * DAY));
    // Setting the period repeatedly does not delay the rotation, nor does disabling it in between.
    house.clock.goes_on(DAY);
    kms.set_rotation(&id, Some(2 * DAY_S)).unwrap();
    assert_eq!(due_ms(&service, &id), Some(NOW + 2 * DAY));
    kms.set_rotation(&id, None).unwrap();
    assert_eq!((due_ms(&service, &id), house.agrees()), (None, 0));
    kms.set_rotation(&id, Some(2 * DAY_S)).unwrap();
    assert_eq!((due_ms(&service, &id), house.agrees()), (Some(NOW + 2 * DAY), 1));
    assert_eq!(made(&service), 0);
    // A version that is older than that is rotated at once.
    kms.set_rotation(&id, Some(DAY_S / 2)).unwrap();
    assert_eq!((made(&service), latest(&service, &id)), (1, 2));
    assert_eq!(due_ms(&service, &id), Some(NOW + DAY + DAY / 2));
    // A manual rotation moves the time.
    house.clock.goes_on(HOUR);
    kms.rotate(&id).unwrap();
    assert_eq!(due_ms(&service, &id), Some(NOW + DAY + HOUR + DAY / 2));
    house.clock.goes_on(DAY / 2 - 1);
    assert_eq!(made(&service), 0);
    house.clock.goes_on(1);
    assert_eq!((made(&service), latest(&service, &id), house.agrees()), (1, 4, 1));
    kms.set_rotation(&id, None).unwrap();
    house.clock.goes_on(100 * DAY);
    assert_eq!((made(&service), latest(&service, &id)), (0, 4));
    // With others, or none of them.
    let both = [KeyChange::Rotation(Some(DAY_S)), KeyChange::Rotation(Some(1))];
    assert_eq!(code(kms.configure(&id, &both)), Code::BadRequest);
    assert_eq!((due_ms(&service, &id), house.agrees()), (None, 0));
}

#[test]
fn scheduled_rotation_skips_keys_without_private_half() {
    let house = House::new();
    let service = house.open();
    let kms = service.kms();
    let raw = [7; 32];
    // The public key of a destroyed key, which no key of the tenant has.
    let public_of = |name: &str| {
        let id = kms.create(&new(name)).unwrap().key;
        let bytes = kms.publics(&id, 0, 1).unwrap().remove(0).bytes;
        kms.delete(&id).unwrap();
        kms.destroy(&id).unwrap();
        bytes
    };
    let (public, other) = (public_of("pair"), public_of("another"));
    for seconds in [0, 1, ROTATE_PERIOD_MIN_S - 1, ROTATE_PERIOD_MAX_S + 1, u64::MAX] {
        let refused = kms.create_on(&new("x"), &terms(seconds)).unwrap_err();
        assert!(
            refused.to_string().contains("3600 (an hour) to 315360000 (ten years)"),
            "{refused}"
        );
        assert_eq!(refused.code(), Code::BadRequest);
    }
    let refused = kms.import_on(&new("x"), Import::Raw(&raw), false, &terms(DAY_S)).unwrap_err();
    assert!(refused.to_string().contains("all imported"), "{refused}");
    assert_eq!(
        code(kms.import_on(&new("x"), Import::Public(&public), true, &terms(DAY_S))),
        Code::Unsupported
    );
    assert_eq!(code(kms.find(&label("default"), &label("x"))), Code::NotFound);
    let fixed = kms.import_as(&new("fixed"), Import::Raw(&raw), false).unwrap().key;
    let theirs = kms.import(&new("theirs"), Import::Public(&public)).unwrap().key;
    for id in [&fixed, &theirs] {
        assert_eq!(code(kms.set_rotation(id, Some(DAY_S))), Code::Unsupported);
        kms.set_rotation(id, None).unwrap();
    }
    assert_eq!(house.agrees(), 0);
    // One that was imported and may be rotated is; a public key after that would end it.
    let ours = kms.import_on(&new("ours"), Import::Raw(&[8; 32]), true, &terms(DAY_S)).unwrap().key;
    house.clock.goes_on(HOUR);
    kms.import_version(&ours, Import::Raw(&[9; 32])).unwrap();
    assert_eq!(due_ms(&service, &ours), Some(NOW + HOUR + DAY));
    house.clock.goes_on(DAY);
    assert_eq!((made(&service), latest(&service, &ours)), (1, 3));
    let refused = kms.import_version(&ours, Import::Public(&other)).unwrap_err();
    assert_eq!((refused.code(), latest(&service, &ours)), (Code::Unsupported, 3), "{refused}");
    kms.set_rotation(&ours, None).unwrap();
    kms.import_version(&ours, Import::Public(&other)).unwrap();
    kms.delete(&ours).unwrap();
    assert_eq!(code(kms.set_rotation(&ours, Some(DAY_S))), Code::KeyDeleted);
}

#[test]
fn deleted_and_expired_keys_wait_and_destroyed_ones_leave_nothing() {
    let house = House::new();
    let mut service = house.open();
    let [deleted, expired, destroyed] = ["a", "b", "c"].map(|name| daily(&service, name));
    let kms = service.kms();
    kms.delete(&deleted).unwrap();
    kms.delete(&destroyed).unwrap();
    kms.set_expiry(&expired, Some(NOW + DAY)).unwrap();
    kms.destroy(&destroyed).unwrap();
    assert_eq!(house.agrees(), 1);
    house.clock.goes_on(2 * DAY);
    assert_eq!(made(&service), 0);
    // Also where it is read anew.
    service = house.open_again(service);
    assert_eq!(made(&service), 0);
    let path = RecordPath::new(format!("rotations/default/{}", destroyed.uuid)).unwrap();
    let left = house.store.read(&[path]).unwrap().records[0].clone().unwrap();
    assert_eq!(left.value, None);
    // Restored it is overdue, and so is one that has more time.
    service.kms().restore(&deleted).unwrap();
    assert_eq!((house.agrees(), made(&service), latest(&service, &deleted)), (2, 1, 2));
    service.kms().set_expiry(&expired, None).unwrap();
    assert_eq!((made(&service), latest(&service, &expired)), (1, 2));
    // Versions that are trimmed or disabled change nothing of that.
    let kms = service.kms();
    kms.set_state(&expired, 2, State::Disabled).unwrap();
    for of in [gabion_kms::model::Minimum::Verify, gabion_kms::model::Minimum::Decrypt] {
        kms.set_minimum(&expired, of, 2).unwrap();
    }
    kms.trim(&expired, 2).unwrap();
    house.clock.goes_on(DAY);
    assert_eq!((made(&service), latest(&service, &expired), house.agrees()), (2, 3, 2));
}

impl House {
    fn open_again(&self, service: Service) -> Service {
        drop(service);
        self.open()
    }
}

#[test]
fn a_clock_that_goes_back_rotates_nothing_twice_and_stops_nothing_for_long() {
    let house = House::new();
    let mut service = house.open();
    let (clock, id) = (&house.clock, daily(&service, "k"));
    // A clock that is years ahead for a while: rotated once there.
    clock.jumps_to(NOW + 3650 * DAY);
    assert_eq!((made(&service), latest(&service, &id)), (1, 2));
    clock.jumps_to(NOW + HOUR);
    assert_eq!(made(&service), 0);
    // Not for ten years: after an hour its time is brought to a period from then.
    clock.goes_on(HOUR - 1);
    assert_eq!(made(&service), 0);
    clock.goes_on(1);
    let size = service.log().size();
    let done = service.rotate_due(10).unwrap();
    assert_eq!((done.anew, done.made.len(), done.failed), (1, 0, 0));
    assert_eq!(due_ms(&service, &id), Some(NOW + 2 * HOUR + DAY));
    let told = service.log().tail(size, 10).unwrap();
    assert_eq!(told.iter().map(|of| of.record.action).collect::<Vec<_>>(), [Action::Config; 2]);
    assert_eq!(house.agrees(), 1);
    clock.goes_on(DAY);
    assert_eq!((made(&service), made(&service), latest(&service, &id)), (1, 0, 3));
    // The same if the clock went back while no process ran.
    clock.jumps_to(NOW + 3650 * DAY);
    assert_eq!((made(&service), latest(&service, &id)), (1, 4));
    clock.jumps_to(NOW);
    service = house.open_again(service);
    assert_eq!(made(&service), 0);
    clock.goes_on(HOUR);
    assert_eq!(service.rotate_due(10).unwrap().anew, 1);
    clock.goes_on(DAY);
    assert_eq!((made(&service), latest(&service, &id)), (1, 5));
    // A machine whose clock starts at 1970, until it is set: nothing moves.
    let due = due_ms(&service, &id);
    clock.jumps_to(5_000);
    service = house.open_again(service);
    assert_eq!(made(&service), 0);
    clock.jumps_to(NOW + DAY + 2 * HOUR);
    assert_eq!((made(&service), due_ms(&service, &id)), (0, due));
    // Back by less than a period: it comes when its time comes.
    clock.jumps_to(NOW + DAY);
    assert_eq!(made(&service), 0);
    clock.jumps_to(due.unwrap());
    assert_eq!((made(&service), latest(&service, &id)), (1, 6));
}

/// The number of key record reads to let pass before the read that runs the hook, and the hook.
type Hook = (usize, Box<dyn FnOnce() + Send>);

/// A store that does something in its calls.
struct HookedStore {
    store: Arc<MemoryStore>,
    hook: Mutex<Option<Hook>>,
    reads: AtomicUsize,
    is_full: AtomicBool,
    /// Whether the outcome of commits is lost, and the last lost transaction.
    loses: AtomicBool,
    lost: Mutex<Option<Transaction>>,
    commits: AtomicUsize,
}

impl HookedStore {
    fn over(store: &Arc<MemoryStore>) -> Arc<Self> {
        Arc::new(HookedStore {
            store: store.clone(),
            hook: Mutex::default(),
            reads: AtomicUsize::new(0),
            is_full: AtomicBool::new(false),
            loses: AtomicBool::new(false),
            lost: Mutex::default(),
            commits: AtomicUsize::new(0),
        })
    }
}

impl StoreWrapper for HookedStore {
    fn below(&self) -> &dyn Store {
        &self.store
    }

    fn read(&self, paths: &[RecordPath]) -> Result<ReadResult, StoreError> {
        let read = self.store.read(paths);
        if paths.iter().any(|path| path.as_str().starts_with("keys/")) {
            self.reads.fetch_add(1, Ordering::SeqCst);
            let mut hook = self.hook.lock().unwrap();
            let run = match hook.as_mut() {
                Some((0, _)) => hook.take().map(|(_, run)| run),
                Some((left, _)) => {
                    *left -= 1;
                    None
                }
                None => None,
            };
            drop(hook);
            if let Some(run) = run {
                run();
            }
        }
        read
    }

    fn commit(&self, transaction: &Transaction) -> Result<Came, StoreError> {
        self.commits.fetch_add(1, Ordering::SeqCst);
        if self.loses.load(Ordering::SeqCst) {
            *self.lost.lock().unwrap() = Some(transaction.clone());
            return Ok(Came::Unknown);
        }
        match self.is_full.load(Ordering::SeqCst) {
            true => Err(StoreError::Full),
            false => self.store.commit(transaction),
        }
    }
}

#[test]
fn a_manual_and_an_automatic_rotation_make_one_version() {
    let house = House::new();
    let store = HookedStore::over(&house.store);
    let service = Arc::new(house.open_over(store.clone()));
    let id = daily(&service, "k");
    house.clock.goes_on(DAY);
    // The first read finds that the key is due, and the second one is that of the rotation itself:
    // then another caller is faster.
    let (other, of) = (Arc::new(OnceLock::<Arc<Service>>::new()), id.clone());
    other.set(service.clone()).ok().unwrap();
    let hook = move || {
        let service = other.get().unwrap();
        assert_eq!(service.kms().rotate(&of).unwrap().version, 2);
    };
    *store.hook.lock().unwrap() = Some((1, Box::new(hook)));
    let done = service.rotate_due(10).unwrap();
    assert!(store.hook.lock().unwrap().is_none(), "nobody was faster");
    assert_eq!((done.made.len(), done.failed), (0, 0));
    assert_eq!((latest(&service, &id), due_ms(&service, &id)), (2, Some(NOW + 2 * DAY)));
    assert!(!service.is_rotation_failing());
    assert_eq!((made(&service), house.agrees()), (0, 1));
    // And from many threads: each time that it is due it gets one version of them.
    for round in 0..20 {
        house.clock.goes_on(DAY);
        let all: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..3).map(|_| scope.spawn(|| made(&service))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!((all, latest(&service, &id)), (1, 3 + round));
    }
}

#[test]
fn a_key_that_can_not_be_rotated_stops_no_other_and_is_tried_again() {
    let house = House::new();
    let service = house.open();
    let [bad, good] = ["bad", "good"].map(|name| daily(&service, name));
    // Its newest version is exchanged for nothing that was sealed.
    let path = RecordPath::new(format!("versions/default/{}/0000000001", bad.uuid)).unwrap();
    let break_it = Transaction::new().put(path.clone(), 1, b"nothing that was sealed".to_vec());
    let before = house.store.read(std::slice::from_ref(&path)).unwrap().records[0].clone().unwrap();
    assert!(matches!(house.store.commit(&break_it).unwrap(), Came::Committed(_)));
    house.clock.goes_on(DAY);
    let size = service.log().size();
    let done = service.rotate_due(10).unwrap();
    assert_eq!((done.made.len(), done.failed), (1, 1));
    assert_eq!(latest(&service, &good), 2);
    assert!(service.is_rotation_failing());
    let told = service.log().tail(size, 10).unwrap();
    let failed = |of: &gabion_kms::audit::Entry| {
        of.record.outcome == Outcome::Failed(Code::IntegrityFailed)
            && of.record.key.as_deref() == Some("bad")
    };
    assert!(told.iter().any(failed), "{told:?}");
    // A minute later, then two, and the others go on in between.
    let mut tries = 1;
    for (minutes, more) in [
        (0, 0),
        (1, 1),
        (1, 0),
        (1, 1),
        (3, 0),
        (1, 1),
        (8, 1),
        (16, 1),
        (32, 1),
        (60, 1),
        (59, 0),
        (1, 1),
    ] {
        house.clock.goes_on(minutes * 60_000);
        service.rotate_due(10).unwrap();
        tries += more;
        assert_eq!(counted(&service, "kms_auto_rotations_failed_total"), tries, "{minutes}");
    }
    assert_eq!(counted(&service, "kms_auto_rotation_keys_failing"), 1);
    // Whole again it is rotated, and nothing is wrong any more.
    let sealer = sealer(&*house.store);
    let plain = sealer.open(&path, 1, before.value.as_ref().unwrap()).unwrap();
    let mended = sealer.seal(&path, 3, &plain).unwrap();
    assert!(matches!(
        house.store.commit(&Transaction::new().put(path, 2, mended)).unwrap(),
        Came::Committed(_)
    ));
    house.clock.goes_on(HOUR);
    assert_eq!((made(&service), latest(&service, &bad)), (1, 2));
    assert!(!service.is_rotation_failing());
}

#[test]
fn rotation_backs_off_on_a_full_store_and_resumes() {
    let house = House::new();
    let store = HookedStore::over(&house.store);
    let service = house.open_over(store.clone());
    let ids = ["a", "b", "c"].map(|name| daily(&service, name));
    house.clock.goes_on(DAY);
    store.is_full.store(true, Ordering::SeqCst);
    let mut rest = 1000;
    for _ in 0..8 {
        let before = store.commits.load(Ordering::SeqCst);
        assert!(service.rotate_due(10).is_err());
        assert!(service.is_rotation_failing());
        assert_eq!(store.commits.load(Ordering::SeqCst), before + 1);
        // Nothing is tried for a while, of other keys neither.
        house.clock.goes_on(rest - 1);
        assert_eq!(service.rotate_due(10), Ok(RotationReport::default()));
        assert_eq!(store.commits.load(Ordering::SeqCst), before + 1);
        house.clock.goes_on(1);
        rest = (2 * rest).min(60_000);
    }
    store.is_full.store(false, Ordering::SeqCst);
    assert_eq!(made(&service), 3);
    assert!(!service.is_rotation_failing());
    assert!(ids.iter().all(|id| latest(&service, id) == 2));
    assert_eq!(house.agrees(), 3);
}

/// A period whose setting had an unknown outcome takes effect when it is applied, without a
/// restart.
#[test]
fn a_change_that_happens_late_is_found() {
    let house = House::new();
    let store = HookedStore::over(&house.store);
    let service = house.open_over(store.clone());
    let id = service.kms().create(&new("k")).unwrap().key;
    assert_eq!(made(&service), 0);
    store.loses.store(true, Ordering::SeqCst);
    let lost = service.kms().set_rotation(&id, Some(ROTATE_PERIOD_MIN_S));
    assert_eq!(code(lost), Code::OutcomeUnknown);
    store.loses.store(false, Ordering::SeqCst);
    house.clock.goes_on(60_000);
    assert_eq!((made(&service), due_ms(&service, &id)), (0, None));
    let late = store.lost.lock().unwrap().take().unwrap();
    assert!(matches!(house.store.commit(&late).unwrap(), Came::Committed(_)));
    house.clock.goes_on(60_000);
    assert_eq!((made(&service), due_ms(&service, &id)), (0, Some(NOW + HOUR)));
    house.clock.goes_on(HOUR);
    assert_eq!((made(&service), latest(&service, &id), house.agrees()), (1, 2, 1));
}

/// At each commit of a rotation, before and after it.
#[test]
fn a_rotation_that_a_kill_cuts_off_is_done_once_by_the_next_start() {
    for at in 0..3 {
        for killed in [KillPoint::BeforeCommit(at), KillPoint::AfterCommit(at)] {
            let house = House::new();
            let service = house.open();
            let ids = ["a", "b"].map(|name| daily(&service, name));
            service.checkpoint().unwrap();
            drop(service);
            house.clock.goes_on(DAY);
            let dying = KillableStore::new(&house.store, KillPoint::None);
            let service = house.open_over(dying.clone());
            // Commits of the opening are not tested.
            let begun = dying.count();
            drop(service);
            let dying = KillableStore::new(&house.store, killed.later(begun));
            let service = house.open_over(dying.clone());
            let came = service.rotate_due(10);
            assert_eq!(came.is_err(), dying.is_dead(), "{killed:?}");
            drop(service);
            let service = house.open();
            house.agrees();
            service.rotate_due(10).unwrap();
            assert_eq!(ids.each_ref().map(|id| latest(&service, id)), [2, 2], "{killed:?}");
            assert_eq!((made(&service), house.agrees()), (0, 2));
        }
    }
}

/// Draws numbers.
struct Dice(u64);

impl Dice {
    fn next(&mut self, n: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// Any history leaves keys and index of one mind; and whatever went wrong, what is due is rotated
/// once it goes.
#[test]
fn keys_and_index_agree_after_any_history() {
    let faults = Faults { unavailable: 40, request_lost: 30, answer_lost: 30, late: 30, full: 20 };
    let mut rotated = 0;
    for seed in 0..24 {
        let house = House::new();
        let faults = if seed % 2 == 0 { Faults::default() } else { faults };
        let sim = Arc::new(Sim::new(house.store.clone(), seed, faults));
        let at = house.folder.path().join("audit");
        let reopened = || loop {
            if let Ok(service) = open(sim.clone(), house.clock.clone(), &AuditAt::Folder(&at)) {
                return service;
            }
        };
        let (mut draw, mut service, mut ids) = (Dice(seed), Some(reopened()), Vec::new());
        for step in 0..120 {
            let kms = service.as_ref().unwrap().kms();
            let id: Option<&KeyId> = match ids.len() {
                0 => None,
                n => ids.get(draw.next(n as u64) as usize),
            };
            let period = [None, Some(DAY_S), Some(3 * DAY_S), Some(3600)][draw.next(4) as usize];
            let mut made_one = None;
            // Rejections and failures are not the subject of this test.
            match (draw.next(12), id) {
                (0, _) | (_, None) => {
                    let terms = Terms { rotate_period_s: period, ..Terms::default() };
                    made_one = kms.create_on(&new(&format!("k{step}")), &terms).ok();
                }
                (1 | 2, Some(id)) => drop(kms.set_rotation(id, period)),
                (3, Some(id)) => drop(kms.rotate(id)),
                (4, Some(id)) => drop(kms.delete(id)),
                (5, Some(id)) => drop(kms.restore(id)),
                (6, Some(id)) => drop(kms.destroy(id)),
                (7, Some(id)) => drop(kms.set_state(id, 1, State::Disabled)),
                (8, Some(id)) => drop(
                    kms.set_expiry(id, Some(NOW + draw.next(40) * DAY).filter(|_| step % 2 == 0)),
                ),
                (9, _) => house.clock.goes_on(draw.next(3 * DAY)),
                (10, _) => {
                    let done = service.as_ref().unwrap().rotate_due(5);
                    rotated += done.map_or(0, |done| done.made.len());
                }
                (_, _) => {
                    drop(service.take());
                    service = Some(reopened());
                }
            }
            ids.extend(made_one.map(|made| made.key));
            house.agrees();
        }
        // Without faults, all due keys are rotated within an hour of pauses.
        drop(service.take());
        let service =
            open(house.store.clone(), house.clock.clone(), &AuditAt::Folder(&at)).unwrap();
        while service.rotate_due(100).unwrap().made.len() == 100 {}
        let now = house.clock.now_ms();
        for id in &ids {
            let Ok(key) = service.kms().describe(id) else { continue };
            if key.check_not_expired(now).is_ok() {
                assert!(key.due().is_none_or(|due| due.at_ms > now), "{key:?}");
            }
        }
        house.agrees();
    }
    assert!(rotated > 20, "{rotated}");
}

/// Under a store that loses answers no key is rotated twice in a period, and each is again once its
/// answers come.
#[test]
fn lost_answers_rotate_nothing_twice() {
    let faults = Faults { request_lost: 150, answer_lost: 150, late: 150, ..Faults::default() };
    for seed in 0..12 {
        let house = House::new();
        let service = house.open();
        let ids: Vec<KeyId> = (0..5).map(|n| daily(&service, &format!("k{n}"))).collect();
        drop(service);
        let sim = Arc::new(Sim::new(house.store.clone(), seed, faults));
        let at = house.folder.path().join("audit");
        let service = loop {
            if let Ok(service) = open(sim.clone(), house.clock.clone(), &AuditAt::Folder(&at)) {
                break service;
            }
        };
        // A step is less than a pause, so that what failed is tried again soon.
        for _ in 0..4 * 24 * 12 {
            house.clock.goes_on(5 * 60_000);
            let _ = service.rotate_due(100);
        }
        drop(service);
        let service = house.open();
        while !service.rotate_due(100).unwrap().made.is_empty() {}
        for id in &ids {
            let versions = service.kms().versions(id).unwrap();
            let times: Vec<u64> = versions.iter().map(|version| version.created_ms).collect();
            assert!(times.windows(2).all(|pair| pair[1] >= pair[0] + DAY), "{seed}: {times:?}");
            assert!(times.len() >= 4, "{seed}: {times:?}");
        }
        house.agrees();
    }
}

/// Due keys are found without reading every key.
#[test]
fn keys_that_do_not_rotate_are_not_read() {
    let house = House::new();
    let store = HookedStore::over(&house.store);
    let service = house.open_over(store.clone());
    for n in 0..1200 {
        service.kms().create(&new(&format!("other-{n}"))).unwrap();
    }
    let ids: Vec<KeyId> = (0..3).map(|n| daily(&service, &format!("k{n}"))).collect();
    drop(service);
    house.clock.goes_on(DAY / 2);
    let service = house.open_over(store.clone());
    let before = store.reads.load(Ordering::SeqCst);
    assert_eq!(made(&service), 0);
    assert_eq!(store.reads.load(Ordering::SeqCst), before);
    house.clock.goes_on(DAY / 2);
    assert_eq!(made(&service), 3);
    assert!(store.reads.load(Ordering::SeqCst) <= before + 6 * ids.len());
}

/// More keys than are read together, a few at a time.
#[test]
fn many_that_are_due_are_rotated_in_the_order_of_their_times() {
    let house = House::new();
    let service = house.open();
    let ids: Vec<KeyId> = (0..520)
        .map(|n| {
            house.clock.goes_on(1);
            daily(&service, &format!("k{n}"))
        })
        .collect();
    let service = house.open_again(service);
    house.clock.goes_on(DAY);
    let uuids =
        |done: RotationReport| -> Vec<Uuid> { done.made.iter().map(|of| of.key.uuid).collect() };
    let first = uuids(service.rotate_due(7).unwrap());
    assert_eq!(first, ids[..7].iter().map(|id| id.uuid).collect::<Vec<_>>());
    let mut all = 7;
    loop {
        let done = service.rotate_due(100).unwrap();
        all += done.made.len();
        if !done.is_more {
            break;
        }
    }
    assert_eq!((all, made(&service), house.agrees()), (520, 0, 520));
}

/// A store whose index can't be read in one place: that key's own record says when it is due.
#[test]
fn an_index_that_is_damaged_loses_no_key() {
    let house = House::new();
    let service = house.open();
    let ids = ["a", "b", "c"].map(|name| daily(&service, name));
    drop(service);
    let service = house.open();
    // While it is open: at its opening what another program wrote is refused.
    let path = RecordPath::new(format!("rotations/default/{}", ids[1].uuid)).unwrap();
    let damage = Transaction::new().put(path, 1, b"nothing that was sealed".to_vec());
    assert!(matches!(house.store.commit(&damage).unwrap(), Came::Committed(_)));
    assert_eq!(made(&service), 0);
    house.clock.goes_on(DAY);
    assert_eq!(made(&service), 3);
    assert!(ids.iter().all(|id| latest(&service, id) == 2));
    // The record that is written with the rotation is complete.
    assert_eq!(house.agrees(), 3);
}

/// Callers are told of it as of others: config needs what config needs.
#[test]
fn a_period_by_a_service_is_config() {
    let house = House::new();
    let service = house.open();
    let who = service.gate().local(Principal::new("me").unwrap());
    let call = Call::new(&who, "r");
    service.create_on(&call, &new("k"), &terms(DAY_S)).unwrap();
    let (tenant, name): (Label, Label) = (label("default"), label("k"));
    let key = KeyRef { tenant: &tenant, name: &name };
    let size = service.log().size();
    service.configure(&call, &key, &[KeyChange::Rotation(None)]).unwrap();
    let told = service.log().tail(size, 10).unwrap();
    assert!(told.iter().all(|of| of.record.action == Action::Config));
    assert_eq!((told.len(), service.show(&call, &key).unwrap().key.rotate_period_s), (2, None));
}
