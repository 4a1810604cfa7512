//! Stores that were rolled back while their audit log was not: restrictions are reapplied.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gabion_kms::audit::{self, Change, Class, Outcome, Record, Setting};
use gabion_kms::gate::{self, Action, Caller, Peer, Principal, Token};
use gabion_kms::model::{Label, Minimum, State};
use gabion_kms::operations::{self, KeyChange, Kms, NewKey, OwnKey};
use gabion_kms::seal::{self, Cost, Shares, Slots, UnsealMethod};
use gabion_kms::service::{AFTER_RESTORE, AuditAt, Call, KeyRef, NewToken, Options, Service};
use gabion_kms::store::testing::StoreWrapper;
use gabion_kms::store::{self, Outcome as Committed, SqliteStore, Store, StoreError, Transaction};
use gabion_kms::{Error, Message};

fn label(text: &str) -> Label {
    Label::new("name", text).unwrap()
}

/// A store of which nothing more is committed after so many commits.
struct LimitedStore {
    store: SqliteStore,
    left: AtomicUsize,
}

impl StoreWrapper for LimitedStore {
    fn below(&self) -> &dyn Store {
        &self.store
    }

    fn commit(&self, transaction: &Transaction) -> Result<Committed, StoreError> {
        let less = |left: usize| left.checked_sub(1);
        match self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less) {
            Ok(_) => self.store.commit(transaction),
            Err(_) => Err(StoreError::Unavailable("the process was killed".to_owned())),
        }
    }
}

/// A store with its log, and a copy of it.
struct Place {
    folder: tempfile::TempDir,
    tenant: Label,
}

impl Place {
    fn new() -> Self {
        let place = Place { folder: tempfile::tempdir().unwrap(), tenant: label("a") };
        let at = place.at("store");
        SqliteStore::create(&at).unwrap();
        let store = SqliteStore::open(&at, store::Options::default()).unwrap();
        let recovery = Shares { shares: 1, threshold: 1 };
        let cost = Cost { memory_kib: 8, passes: 1 };
        let slots = Slots { recovery, passphrase: Some(("secret", cost)) };
        let dealt = seal::init(&store, &slots).unwrap();
        dealt.adopt(&store, dealt.shares()).unwrap();
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn open_to(&self, commits: usize) -> Result<Service, Error> {
        let store = SqliteStore::open(&self.at("store"), store::Options::default()).unwrap();
        let store = Arc::new(LimitedStore { store, left: AtomicUsize::new(commits) });
        let sealer = seal::unseal(&*store, UnsealMethod::Passphrase("secret")).unwrap();
        let kms = Kms::new(store, sealer, operations::Options::default())?;
        let gate =
            gate::Options { needs_certificate_for_administration: false, ..Default::default() };
        let log = audit::Options { segment_bytes: 64 << 10, reserve_bytes: 4 << 10 };
        let options = Options { gate, log, ..Options::default() };
        Service::open(kms, &AuditAt::Folder(&self.at("audit")), options)
    }

    fn open(&self) -> Service {
        self.open_to(usize::MAX).unwrap()
    }

    /// Does something with an open service.
    fn with<T>(&self, run: impl FnOnce(&Service, &Call<'_>) -> T) -> T {
        let service = self.open();
        let who = service.gate().local(Principal::new("me").unwrap());
        let ran = run(&service, &Call::new(&who, "r-1"));
        service.checkpoint().unwrap();
        ran
    }

    fn keep(&self) {
        fs::copy(self.at("store"), self.at("kept")).unwrap();
    }

    fn put_back(&self) {
        for name in ["store", "store-wal"] {
            let _ = fs::remove_file(self.at(name));
        }
        fs::copy(self.at("kept"), self.at("store")).unwrap();
    }

    /// Enables a key as a process does that is killed before it records that.
    fn enable_untold(&self, name: &str) {
        let store = SqliteStore::open(&self.at("store"), store::Options::default()).unwrap();
        let store = Arc::new(store);
        let sealer = seal::unseal(&*store, UnsealMethod::Passphrase("secret")).unwrap();
        let kms = Kms::new(store, sealer, operations::Options::default()).unwrap();
        let id = kms.find(&self.tenant, &label(name)).unwrap();
        kms.set_state(&id, 1, State::Enabled).unwrap();
    }

    fn create(
        &self,
        service: &Service,
        call: &Call<'_>,
        name: &str,
        algorithm: &str,
        versions: u32,
    ) {
        let new = NewKey {
            tenant: self.tenant.clone(),
            purpose: label("transit"),
            name: label(name),
            algorithm: algorithm.parse().unwrap(),
        };
        service.create(call, &new).unwrap();
        for _ in 1..versions {
            self.on(name, |key| service.rotate(call, key)).unwrap();
        }
    }

    fn on<T>(&self, name: &str, run: impl FnOnce(&KeyRef<'_>) -> T) -> T {
        run(&KeyRef { tenant: &self.tenant, name: &label(name) })
    }

    /// A key and which versions are disabled.
    fn key(&self, service: &Service, name: &str) -> (gabion_kms::model::Key, Vec<u32>) {
        let who = service.gate().local(Principal::new("me").unwrap());
        let shown = self.on(name, |key| service.show(&Call::new(&who, "r-2"), key)).unwrap();
        let disabled = shown.versions.iter().filter(|version| version.state == State::Disabled);
        (shown.key, disabled.map(|version| version.version).collect())
    }
}

fn token(service: &Service, call: &Call<'_>) -> Token {
    let principal = Principal::new("ci").unwrap();
    let new = NewToken { principal, caveats: Vec::new(), lifetime_ms: None };
    service.token_create(call, &new).unwrap()
}

fn is_good(service: &Service, token: &Token) -> bool {
    service.authenticate(&token.to_string(), &Peer::default()).is_ok()
}

fn holder(service: &Service, token: &Token) -> Caller {
    service.authenticate(&token.to_string(), &Peer::default()).unwrap()
}

/// Records of what was taken away again.
fn told(service: &Service) -> Vec<Record> {
    let all = service.log().tail(0, usize::MAX).unwrap().into_iter().map(|entry| entry.record);
    all.filter(|record| record.request_id == AFTER_RESTORE).collect()
}

fn limit_jwt(
    service: &Service,
    call: &Call<'_>,
    key: &KeyRef<'_>,
    lifetime_s: u64,
) -> Result<(), Error> {
    service.configure(call, key, &[KeyChange::LimitJwt(lifetime_s)]).map(drop)
}

/// A store after revocations and other restrictions since a backup.
struct World {
    place: Place,
    revoked: Token,
    whole: Token,
    cut: Token,
    stays: Token,
}

fn world() -> World {
    let place = Place::new();
    let (revoked, whole, stays) = place.with(|service, call| {
        for (name, versions) in [
            ("disabled", 2),
            ("enabled", 2),
            ("trimmed", 4),
            ("limited", 3),
            ("widened", 3),
            ("deleted", 1),
            ("undeleted", 1),
            ("destroyed", 1),
            ("vaults", 1),
        ] {
            place.create(service, call, name, "xaes-256-gcm", versions);
        }
        place.create(service, call, "private", "ml-dsa-44", 1);
        place.create(service, call, "tokens", "ed25519", 1);
        place.create(service, call, "long-tokens", "ed25519", 1);
        place.on("long-tokens", |key| limit_jwt(service, call, key, 60)).unwrap();
        place.on("widened", |key| service.set_minimum(call, key, Minimum::Decrypt, 2)).unwrap();
        place.on("vaults", |key| service.set_deletable(call, key, true)).unwrap();
        (token(service, call), token(service, call), token(service, call))
    });
    place.keep();
    let cut = whole.attenuate("batch_max=3".parse().unwrap()).unwrap();
    place.with(|service, call| {
        assert!(service.reconcile_report().is_empty());
        service.token_revoke(call, revoked.id()).unwrap();
        let own = holder(service, &cut);
        service.token_revoke_self(&Call::new(&own, "r-3")).unwrap();
        let on = |name: &str, run: &dyn Fn(&KeyRef<'_>) -> Result<(), Error>| {
            place.on(name, |key| run(key)).unwrap();
        };
        on("disabled", &|key| service.set_state(call, key, 1, State::Disabled));
        on("enabled", &|key| service.set_state(call, key, 1, State::Disabled));
        on("enabled", &|key| service.set_state(call, key, 1, State::Enabled));
        on("trimmed", &|key| service.set_minimum(call, key, Minimum::Verify, 3));
        on("trimmed", &|key| service.set_minimum(call, key, Minimum::Decrypt, 3));
        on("trimmed", &|key| service.trim(call, key, 3).map(drop));
        on("limited", &|key| service.set_minimum(call, key, Minimum::Decrypt, 3));
        on("limited", &|key| service.set_minimum(call, key, Minimum::Decrypt, 2));
        on("limited", &|key| service.set_expiry(call, key, Some(7)));
        on("widened", &|key| service.set_minimum(call, key, Minimum::Decrypt, 1));
        on("widened", &|key| service.set_expiry(call, key, Some(7)));
        on("widened", &|key| service.set_expiry(call, key, None));
        on("deleted", &|key| service.delete(call, key));
        on("undeleted", &|key| service.delete(call, key));
        on("undeleted", &|key| service.restore(call, key).map(drop));
        on("destroyed", &|key| service.delete(call, key));
        on("destroyed", &|key| service.destroy(call, key).map(drop));
        on("vaults", &|key| service.set_deletable(call, key, false));
        on("private", &|key| service.configure(call, key, &[KeyChange::RequireMu]).map(drop));
        on("tokens", &|key| limit_jwt(service, call, key, 30));
        on("tokens", &|key| limit_jwt(service, call, key, 90));
        on("long-tokens", &|key| limit_jwt(service, call, key, 3600));
    });
    World { place, revoked, whole, cut, stays }
}

/// Checks that all restrictions apply in a service.
fn holds(World { place, revoked, whole, cut, stays }: &World, service: &Service) {
    assert!(!is_good(service, revoked) && !is_good(service, cut));
    assert!(is_good(service, whole) && is_good(service, stays));
    assert_eq!(place.key(service, "disabled").1, [1]);
    assert_eq!(place.key(service, "enabled").1, [0; 0]);
    let (trimmed, _) = place.key(service, "trimmed");
    assert_eq!((trimmed.min_available, trimmed.min_verify, trimmed.min_decrypt), (3, 3, 3));
    assert_eq!(service.kms().versions(&trimmed.id).unwrap().len(), 2);
    let (limited, _) = place.key(service, "limited");
    assert_eq!((limited.min_decrypt, limited.expires_ms), (2, Some(7)));
    let (widened, _) = place.key(service, "widened");
    // Changes that add permissions are not reapplied.
    assert!(widened.min_decrypt <= 2 && widened.expires_ms.is_none());
    assert!(place.key(service, "deleted").0.deleted_ms.is_some());
    assert!(place.key(service, "undeleted").0.deleted_ms.is_none());
    assert!(!place.key(service, "vaults").0.is_deletable);
    assert!(place.key(service, "private").0.requires_mu);
    assert_eq!(place.key(service, "tokens").0.jwt_max_lifetime_s, Some(90));
    // A longer limit gave something.
    assert!(place.key(service, "long-tokens").0.jwt_max_lifetime_s.is_some());
    let who = service.gate().local(Principal::new("me").unwrap());
    let call = Call::new(&who, "r-2");
    let gone = place.on("destroyed", |key| service.show(&call, key)).map(drop);
    assert!(matches!(gone, Err(Error::NoKey(_))), "{gone:?}");
}

/// More attenuations than are revoked by their digest alone.
#[test]
fn attenuations_that_revoked_themselves_are_revoked_again_and_nothing_else() {
    let place = Place::new();
    let whole = place.with(token);
    place.keep();
    let less = |token: &Token, items: u32| {
        token.attenuate(format!("batch_max={items}").parse().unwrap()).unwrap()
    };
    let (branch, sibling) = (less(&whole, 1), less(&whole, 2));
    let own: Vec<Token> = (10..270).map(|items| less(&branch, items)).collect();
    place.with(|service, _| {
        for token in &own {
            let holder = holder(service, token);
            service.token_revoke_self(&Call::new(&holder, "r-3")).unwrap();
        }
    });
    place.put_back();
    let service = place.open();
    assert!(own.iter().all(|token| !is_good(&service, token)));
    assert!([&whole, &branch, &sibling].into_iter().all(|token| is_good(&service, token)));
    let again = service.reconcile_report();
    assert_eq!((again.done.len(), again.left.len()), (own.len(), 0));
}

#[test]
fn reconciliation_reapplies_revocations() {
    let world = world();
    holds(&world, &world.place.open());
    world.place.put_back();
    let service = world.place.open();
    holds(&world, &service);
    let again = service.reconcile_report().clone();
    assert_eq!(again.left, Vec::<String>::new());
    let done = again.done.join("\n");
    for what in [
        "revoked token:",
        "revoked one token:",
        "disabled version 1 of a/",
        "trimmed a/",
        "limited a/",
        "deleted a/",
        "destroyed a/",
    ] {
        assert!(done.contains(what), "{what} is not in\n{done}");
    }
    // Each reapplied change is recorded.
    let records = told(&service);
    assert_eq!(records.len(), again.done.len(), "{records:?}");
    let key = place_id(&world.place, &service, "limited");
    let limited = records.iter().find(|record| record.key.as_deref() == Some(&key)).unwrap();
    let settings = vec![Setting::MinDecrypt(2), Setting::ExpiresMs(Some(7))];
    assert_eq!(
        (limited.action, &limited.change),
        (Action::Config, &Some(Change::Settings(settings)))
    );
    assert!(
        records.iter().all(|record| record.outcome == Outcome::Done && record.revision.is_some())
    );
    drop(service);
    // Only once: later changes are kept.
    world.place.with(|service, call| {
        assert!(service.reconcile_report().is_empty());
        world.place.on("disabled", |key| service.set_state(call, key, 1, State::Enabled)).unwrap();
        world.place.on("deleted", |key| service.restore(call, key)).unwrap();
    });
    let service = world.place.open();
    assert!(service.reconcile_report().is_empty());
    assert_eq!(world.place.key(&service, "disabled").1, [0; 0]);
    assert!(world.place.key(&service, "deleted").0.deleted_ms.is_none());
    assert_eq!(told(&service).len(), again.done.len());
}

fn place_id(place: &Place, service: &Service, name: &str) -> String {
    place.key(service, name).0.id.to_string()
}

/// A process that ends at any commit of it is followed by one that goes on.
#[test]
fn interrupted_reconciliation_resumes() {
    let world = world();
    let mut ended = 0;
    for commits in 0.. {
        world.place.put_back();
        let opened = world.place.open_to(commits);
        let is_done = opened.is_ok();
        drop(opened);
        holds(&world, &world.place.open());
        if is_done {
            break;
        }
        ended += 1;
    }
    assert!(ended > 10, "{ended}");
}

/// A kill within the second before the store notes how far the log has come: the store has all of
/// it, and is not older.
#[test]
fn a_store_that_is_not_older_is_left_as_it_is() {
    let place = Place::new();
    place.with(|service, call| place.create(service, call, "k", "ed25519", 2));
    let service = place.open();
    let who = service.gate().local(Principal::new("me").unwrap());
    let call = Call::new(&who, "r-1");
    place.on("k", |key| service.set_state(&call, key, 1, State::Disabled)).unwrap();
    let size = service.log().size();
    drop(service);
    place.enable_untold("k");
    let service = place.open();
    assert!(service.reconcile_report().is_empty());
    assert_eq!(place.key(&service, "k").1, [0; 0]);
    assert_eq!(service.log().size(), size + 1);
}

/// Before it serves, the store notes how far the log has come: it is older no longer, however its
/// next process ends.
#[test]
fn reconciliation_runs_once() {
    let place = Place::new();
    place.with(|service, call| place.create(service, call, "k", "ed25519", 2));
    place.keep();
    place.with(|service, call| {
        place.on("k", |key| service.set_state(call, key, 1, State::Disabled)).unwrap();
    });
    place.put_back();
    let service = place.open();
    assert_eq!(place.key(&service, "k").1, [1]);
    assert_eq!(service.reconcile_report().done.len(), 1);
    drop(service);
    place.enable_untold("k");
    let service = place.open();
    assert!(service.reconcile_report().is_empty());
    assert_eq!(place.key(&service, "k").1, [0; 0]);
}

/// The commits of each process increase the store's revision, finally up to the one in the log.
#[test]
fn processes_that_are_killed_again_and_again_forget_nothing() {
    let place = Place::new();
    let old = place.with(token_of);
    place.keep();
    place.with(|service, _| service.recover(&Principal::new("new").unwrap(), None, None).unwrap());
    place.put_back();
    for commits in [1; 8] {
        let opened = place.open_to(commits).map(drop);
        assert!(opened.is_err());
    }
    let service = place.open();
    assert!(!is_good(&service, &old));
    assert!(service.reconcile_report().left.iter().any(|line| line.contains("recover-admin")));
}

#[test]
fn replaced_administrators_do_not_come_back() {
    let place = Place::new();
    let old = place.with(token_of);
    place.keep();
    let new = place
        .with(|service, _| service.recover(&Principal::new("new").unwrap(), None, None).unwrap());
    place.put_back();
    let service = place.open();
    assert!(!is_good(&service, &old) && !is_good(&service, &new));
    assert!(service.reconcile_report().left.iter().any(|line| line.contains("recover-admin")));
    assert_eq!(service.gate().roots().len(), 1);
    drop(service);
    let newest = place
        .with(|service, _| service.recover(&Principal::new("newer").unwrap(), None, None).unwrap());
    assert!(is_good(&place.open(), &newest));
}

fn token_of(service: &Service, call: &Call<'_>) -> Token {
    token(service, call)
}

#[test]
fn root_keys_that_were_retired_do_not_come_back() {
    let place = Place::new();
    let (first, second, roots) = place.with(|service, call| {
        let first = token(service, call);
        service.root_rotate(call).unwrap();
        (first, token(service, call), service.gate().roots())
    });
    place.keep();
    place.with(|service, call| {
        service.root_retire(call, roots[1]).unwrap();
        service.root_rotate(call).unwrap();
        service.root_retire(call, roots[0]).unwrap();
    });
    place.put_back();
    let service = place.open();
    // The newest one of then, too: another one makes tokens.
    assert!(!is_good(&service, &first) && !is_good(&service, &second));
    assert!(service.gate().roots().iter().all(|root| !roots.contains(root)));
    assert_eq!(
        service.reconcile_report().done.iter().filter(|line| line.starts_with("retired")).count(),
        2
    );
}

/// All versions that the copy has were destroyed since, in favour of one that it has not.
#[test]
fn a_key_that_was_trimmed_to_a_version_that_is_lost_has_none_until_it_is_rotated() {
    let place = Place::new();
    place.with(|service, call| place.create(service, call, "k", "ed25519", 2));
    place.keep();
    place.with(|service, call| {
        place.on("k", |key| service.rotate(call, key)).unwrap();
        place.on("k", |key| service.set_minimum(call, key, Minimum::Verify, 3)).unwrap();
        place.on("k", |key| service.set_minimum(call, key, Minimum::Decrypt, 3)).unwrap();
        place.on("k", |key| service.trim(call, key, 3)).unwrap();
    });
    place.put_back();
    place.with(|service, call| {
        let message = Message::Pure { context: b"", message: b"text" };
        let gone = place.on("k", |key| service.sign(call, key, None, message)).map(drop);
        assert_eq!(gone, Err(Error::VersionDestroyed(2)));
        let (key, _) = place.key(service, "k");
        assert_eq!(service.kms().versions(&key.id).unwrap(), []);
        let left = &service.reconcile_report().left;
        assert!(left.len() == 1 && left[0].contains("none of its versions is left"), "{left:?}");
        assert_eq!(place.on("k", |key| service.rotate(call, key)).unwrap().version, 3);
        let signed = place.on("k", |key| service.sign(call, key, None, message)).unwrap();
        let verified =
            place.on("k", |key| service.verify(call, key, 3, message, &signed.signature));
        assert!(verified.unwrap());
    });
}

#[test]
fn reconcile_reports_records_without_enough_detail() {
    let place = Place::new();
    place.with(|service, call| place.create(service, call, "k", "ed25519", 2));
    place.keep();
    let policies = label("p");
    place.with(|service, call| {
        let text = "permit(principal is Token, action, resource);";
        service.policy_put(call, &policies, text).unwrap();
        service.policy_put(call, &policies, text).unwrap();
        place.on("k", |key| service.rotate(call, key)).unwrap();
        let labels = [("a".to_owned(), "b".to_owned())].into();
        place.on("k", |key| service.set_labels(call, key, &labels)).unwrap();
    });
    place.put_back();
    let service = place.open();
    let left = service.reconcile_report().left.clone();
    for what in [
        "the set of policies p was changed up to version 2, and is of version 0",
        "had version 3, which is lost: version 2 makes new things again",
        "the labels of a/",
    ] {
        assert_eq!(left.iter().filter(|line| line.contains(what)).count(), 1, "{what}: {left:?}");
    }
    assert_eq!(left.len(), 3, "{left:?}");
}

/// Keys and root keys that the copy does not have are named, but for those that were destroyed.
#[test]
fn keys_that_were_made_since_are_named() {
    let place = Place::new();
    place.with(|service, call| place.create(service, call, "known", "ed25519", 1));
    place.keep();
    let (ids, root) = place.with(|service, call| {
        place.create(service, call, "later", "ed25519", 1);
        place.create(service, call, "rotated", "xaes-256-gcm", 3);
        place.create(service, call, "gone", "ed25519", 1);
        let ids = ["later", "rotated"].map(|name| place_id(&place, service, name));
        place.on("gone", |key| service.delete(call, key)).unwrap();
        place.on("gone", |key| service.destroy(call, key)).unwrap();
        place.on("later", |key| service.set_expiry(call, key, Some(7))).unwrap();
        let taken = NewKey {
            tenant: place.tenant.clone(),
            purpose: label("transit"),
            name: label("later"),
            algorithm: "ed25519".parse().unwrap(),
        };
        service.create(call, &taken).unwrap_err();
        service.make_own(OwnKey::WrappingXWing).unwrap();
        service.make_own(OwnKey::WrappingXWing).unwrap();
        (ids, service.root_rotate(call).unwrap())
    });
    place.put_back();
    let service = place.open();
    let left = service.reconcile_report().left.clone();
    for what in [
        format!("the key `later` ({}) was made since, and the store does not have it", ids[0]),
        format!("the key `rotated` ({}) was made since and 3 versions of it", ids[1]),
        format!("the root key {root} of tokens was made since"),
        "own key `wrapping-x-wing` was made since".to_owned(),
    ] {
        assert_eq!(left.iter().filter(|line| line.contains(&what)).count(), 1, "{what}: {left:?}");
    }
    assert_eq!(left.len(), 4, "{left:?}");
    drop(service);
    assert!(place.open().reconcile_report().is_empty());
}

/// Nothing is to be taken out of use of what is lost, and the store opens.
#[test]
fn reconcile_ignores_a_disabled_version_that_is_lost() {
    let place = Place::new();
    place.with(|service, call| place.create(service, call, "k", "ed25519", 1));
    place.keep();
    place.with(|service, call| {
        place.on("k", |key| service.rotate(call, key)).unwrap();
        place.on("k", |key| service.set_state(call, key, 2, State::Disabled)).unwrap();
    });
    place.put_back();
    let service = place.open();
    let left = &service.reconcile_report().left;
    assert!(left.len() == 1 && left[0].contains("had version 2, which is lost"), "{left:?}");
    assert_eq!(service.reconcile_report().done, [""; 0]);
}

/// Programs before this one told of no versions, nor which tokens were made and which revoked.
#[test]
fn reconcile_reads_records_of_older_programs() {
    let place = Place::new();
    let (id, twice, once, own) = place.with(|service, call| {
        place.create(service, call, "k", "ed25519", 2);
        place.create(service, call, "d", "ed25519", 1);
        let tokens = [(); 3].map(|()| token(service, call));
        let [twice, once, own] = tokens;
        (place.key(service, "k").0.id, twice, once, own)
    });
    place.keep();
    place.with(|service, _| {
        let destroyed = place.key(service, "d").0.id;
        let old = |action, key: String, method: &str| Record {
            time_ms: 1,
            request_id: "r".to_owned(),
            trace: None,
            principal: Principal::new("ci").unwrap(),
            method: method.to_owned(),
            action,
            tenant: None,
            key: Some(key),
            input: None,
            output: None,
            change: None,
            outcome: Outcome::Done,
            count: None,
            revision: None,
        };
        let of = |token: &Token| format!("token:{}", token.id());
        let records = [
            old(Action::Token, of(&twice), "token:00"),
            old(Action::Token, of(&twice), "token:00"),
            old(Action::Token, of(&once), "token:00"),
            old(Action::Token, of(&own), &of(&own)),
            old(Action::Disable, id.to_string(), "certificate"),
            old(Action::Trim, id.to_string(), "certificate"),
            old(Action::Config, id.to_string(), "certificate"),
            old(Action::Destroy, destroyed.to_string(), "certificate"),
            Record {
                outcome: Outcome::Failed(gabion_kms::Code::OutcomeUnknown),
                ..old(Action::Disable, "k".to_owned(), "certificate")
            },
            Record { request_id: "reseal".to_owned(), ..old(Action::Seal, String::new(), "local") },
        ];
        service.log().append(&records, Class::Durable).unwrap();
    });
    place.put_back();
    let service = place.open();
    assert!(!is_good(&service, &twice) && is_good(&service, &once) && is_good(&service, &own));
    let gone = service.kms().find(&place.tenant, &label("d"));
    assert!(matches!(gone, Err(Error::NoKey(_))), "{gone:?}");
    let left = service.reconcile_report().left.clone();
    for what in [
        format!("the token {} was made or revoked", once.id()),
        format!("one of the tokens {} was revoked by its holder", own.id()),
        format!("a caller disabled a version of {id}"),
        format!("a caller trimmed {id}"),
        format!("a caller configured {id}"),
        "the outcome of `disable` of k is unknown".to_owned(),
        "the shares of the seal were dealt anew since".to_owned(),
    ] {
        assert_eq!(left.iter().filter(|line| line.contains(&what)).count(), 1, "{what}: {left:?}");
    }
    assert_eq!(left.len(), 7, "{left:?}");
}

/// Where some of the log is in its archive, the store does not open before it is back.
#[test]
fn store_requires_archived_audit_segments_to_open() {
    let place = Place::new();
    place.with(|service, call| place.create(service, call, "k", "ed25519", 1));
    place.keep();
    place.with(|service, call| {
        for _ in 0..400 {
            place.on("k", |key| service.rotate(call, key)).unwrap();
        }
        service.checkpoint().unwrap();
        let archived = service.audit_archive(call, &place.at("archive"), &audit::Keep::default());
        assert!(archived.unwrap().first > 10);
    });
    place.put_back();
    let refused = place.open_to(usize::MAX).map(drop);
    assert!(
        matches!(refused, Err(Error::Audit(gabion_kms::AuditError::NeedsArchive { .. }))),
        "{refused:?}"
    );
}
