//! Panics that are planted into the store: nothing is believed afterwards that may not be so, and
//! the clock's other keys go on.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use gabion_kms::Error;
use gabion_kms::model::{KeyId, State};
use gabion_kms::service::{RotationReport, Service};
use gabion_kms::store::testing::StoreWrapper;
use gabion_kms::store::{
    MemoryStore, Outcome, Page, ReadResult, RecordPath, Store, StoreError, Transaction,
};

use crate::clocks::House;
use crate::rotations::{DAY, DAY_S, counted, daily, latest, made, new};
use crate::verbs::pure;

/// Where a panic is.
#[derive(Clone, Debug)]
enum PanicPoint {
    /// A read of a record whose path has that in it.
    Read(String),
    /// A list beneath a path that has it.
    List(String),
    /// A commit of such a record: nothing of it is there.
    BeforeCommit(String),
    /// After the commit, which was applied.
    AfterCommit(String),
}

/// A store that panics until it is told not to.
struct PanickingStore {
    store: Arc<MemoryStore>,
    at: Mutex<Option<PanicPoint>>,
}

impl PanickingStore {
    fn over(store: &Arc<MemoryStore>) -> Arc<Self> {
        Arc::new(PanickingStore { store: store.clone(), at: Mutex::default() })
    }

    fn set(&self, at: Option<PanicPoint>) {
        *self.at.lock().unwrap() = at;
    }

    fn panics_if(&self, is_there: impl FnOnce(&PanicPoint) -> bool) {
        // Nothing is locked when it panics.
        let panics = self.at.lock().unwrap().as_ref().is_some_and(is_there);
        assert!(!panics, "planted");
    }
}

fn has(transaction: &Transaction, text: &str) -> bool {
    transaction.writes().iter().any(|write| write.path.as_str().contains(text))
}

impl StoreWrapper for PanickingStore {
    fn below(&self) -> &dyn Store {
        &*self.store
    }

    fn read(&self, paths: &[RecordPath]) -> Result<ReadResult, StoreError> {
        self.panics_if(|at| {
            matches!(at, PanicPoint::Read(text) if paths.iter().any(|path| path.as_str().contains(text)))
        });
        self.store.read(paths)
    }

    fn list(
        &self,
        under: &RecordPath,
        after: Option<&RecordPath>,
        most: usize,
    ) -> Result<Page, StoreError> {
        self.panics_if(|at| matches!(at, PanicPoint::List(text) if under.as_str().contains(text)));
        self.store.list(under, after, most)
    }

    fn commit(&self, transaction: &Transaction) -> Result<Outcome, StoreError> {
        self.panics_if(|at| matches!(at, PanicPoint::BeforeCommit(text) if has(transaction, text)));
        let came = self.store.commit(transaction);
        self.panics_if(|at| matches!(at, PanicPoint::AfterCommit(text) if has(transaction, text)));
        came
    }
}

/// Returns the result of rotating due keys; `None` after a panic.
fn due(service: &Service) -> Option<Result<RotationReport, Error>> {
    catch_unwind(AssertUnwindSafe(|| service.rotate_due(10))).ok()
}

fn house() -> (House, Arc<PanickingStore>, Service) {
    let house = House::new();
    let store = PanickingStore::over(&house.store);
    let service = house.open_over(store.clone());
    (house, store, service)
}

#[test]
fn a_panic_in_one_rotation_does_not_stop_others_and_is_retried() {
    let places: [fn(&KeyId) -> PanicPoint; 4] = [
        |id| PanicPoint::Read(format!("keys/default/{}", id.uuid)),
        |id| PanicPoint::Read(format!("versions/default/{}", id.uuid)),
        |id| PanicPoint::BeforeCommit(format!("keys/default/{}", id.uuid)),
        |id| PanicPoint::AfterCommit(format!("keys/default/{}", id.uuid)),
    ];
    for place in places {
        let (house, store, service) = house();
        let bad = daily(&service, "bad");
        house.clock.goes_on(1000);
        let good = daily(&service, "good");
        drop(service);
        house.clock.goes_on(DAY);
        // Nothing is known of keys but what is read.
        let service = house.open_over(store.clone());
        let at = place(&bad);
        store.set(Some(at.clone()));
        assert_eq!(due(&service), None, "{at:?}: the key that is due for longest is the first");
        assert!(service.is_rotation_failing(), "{at:?}");
        assert_eq!(counted(&service, "kms_auto_rotations_failed_total"), 1, "{at:?}");
        // The other one has its turn at once; the first a minute later.
        assert_eq!((made(&service), latest(&service, &good)), (1, 2), "{at:?}");
        house.clock.goes_on(59_999);
        assert_eq!((made(&service), service.is_rotation_failing()), (0, true), "{at:?}");
        store.set(None);
        house.clock.goes_on(1);
        let left = match at {
            PanicPoint::AfterCommit(_) => 0,
            PanicPoint::Read(_) | PanicPoint::List(_) | PanicPoint::BeforeCommit(_) => 1,
        };
        assert_eq!((made(&service), latest(&service, &bad)), (left, 2), "{at:?}");
        assert!(!service.is_rotation_failing(), "{at:?}");
        assert_eq!(house.agrees(), 2, "{at:?}");
    }
}

#[test]
fn a_panic_before_any_key_is_looked_at_is_tried_again_later() {
    let (house, store, service) = house();
    let id = daily(&service, "k");
    drop(service);
    house.clock.goes_on(DAY);
    let service = house.open_over(store.clone());
    store.set(Some(PanicPoint::List("rotations".to_owned())));
    let mut rest = 1000;
    for _ in 0..8 {
        assert_eq!(due(&service), None);
        assert!(service.is_rotation_failing());
        house.clock.goes_on(rest - 1);
        assert_eq!(due(&service), Some(Ok(RotationReport::default())), "it rests");
        house.clock.goes_on(1);
        rest = (2 * rest).min(60_000);
    }
    store.set(None);
    assert_eq!((made(&service), latest(&service, &id)), (1, 2));
    assert!(!service.is_rotation_failing());
}

#[test]
fn a_change_interrupted_by_a_panic_is_never_reported_as_done() {
    for at in [PanicPoint::BeforeCommit as fn(String) -> PanicPoint, PanicPoint::AfterCommit] {
        let (house, store, service) = house();
        let kms = service.kms();
        let id = kms.create(&new("k")).unwrap().key;
        kms.sign(&id, Some(1), pure(b"m")).unwrap();
        let cut_off = |path: String, change: &dyn Fn()| {
            store.set(Some(at(path)));
            assert!(catch_unwind(AssertUnwindSafe(change)).is_err());
            store.set(None);
        };
        cut_off(format!("versions/default/{}", id.uuid), &|| {
            kms.set_state(&id, 1, State::Disabled).unwrap();
        });
        // Whether it signs depends on the store, not on cached state.
        let disabled = Err(Error::Disabled(1));
        let is_there = matches!(at(String::new()), PanicPoint::AfterCommit(_));
        assert_eq!(
            kms.sign(&id, Some(1), pure(b"m")).map(drop),
            if is_there { disabled } else { Ok(()) }
        );
        // And when it is due, which is looked at within a minute.
        kms.set_state(&id, 1, State::Enabled).unwrap();
        house.clock.goes_on(DAY);
        cut_off(format!("keys/default/{}", id.uuid), &|| {
            kms.set_rotation(&id, Some(DAY_S)).unwrap();
        });
        house.clock.goes_on(60_000);
        let made = service.rotate_due(10).unwrap().made.len();
        assert_eq!((made, latest(&service, &id)), if is_there { (1, 2) } else { (0, 1) });
        assert_eq!(house.agrees(), usize::from(is_there));
    }
}
