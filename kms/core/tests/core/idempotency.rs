//! Changes under a caller's own name: done once, whenever the process ends; known after a restart;
//! and limited.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gabion_kms::clock::SystemClock;
use gabion_kms::gate::{Action, Caller, TokenId};
use gabion_kms::model::{Label, Minimum, State};
use gabion_kms::operations::{Import, KeyChange, NewKey};
use gabion_kms::seal::{self, UnsealMethod};
use gabion_kms::service::{
    AuditAt, Call, IdempotentRequest, KeyRef, OP_ID_MAX, OPS_MAX, OPS_RESERVED, OpResult, OpStart,
    Service,
};
use gabion_kms::store::testing::StoreWrapper;
use gabion_kms::store::{
    Faults, MemoryStore, Outcome, Page, ReadResult, RecordPath, Sim, Store, StoreError, Transaction,
};
use gabion_kms::{Code, Error};

use crate::fixture::{self, PASSPHRASE, local, sealed, who};
use crate::verbs::label;

/// The point at which a process is killed, by the number of its commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KillPoint {
    None,
    /// Before the commit: nothing is stored.
    BeforeCommit(usize),
    /// After the commit, before it is acknowledged.
    AfterCommit(usize),
}

impl KillPoint {
    /// Returns the same point, `by` commits later.
    pub fn later(self, by: usize) -> Self {
        match self {
            KillPoint::None => KillPoint::None,
            KillPoint::BeforeCommit(at) => KillPoint::BeforeCommit(at + by),
            KillPoint::AfterCommit(at) => KillPoint::AfterCommit(at + by),
        }
    }
}

/// A store whose process is killed. From then on it does nothing.
pub struct KillableStore {
    store: Arc<MemoryStore>,
    killed: KillPoint,
    commits: AtomicUsize,
}

impl KillableStore {
    pub fn new(store: &Arc<MemoryStore>, killed: KillPoint) -> Arc<Self> {
        Arc::new(KillableStore { store: store.clone(), killed, commits: AtomicUsize::new(0) })
    }

    pub fn is_dead(&self) -> bool {
        let begun = self.commits.load(Ordering::SeqCst);
        matches!(self.killed, KillPoint::BeforeCommit(at) | KillPoint::AfterCommit(at) if begun > at)
    }

    /// Returns how many commits it was asked for.
    pub fn count(&self) -> usize {
        self.commits.load(Ordering::SeqCst)
    }

    fn check(&self) -> Result<(), StoreError> {
        match self.is_dead() {
            true => Err(StoreError::Unavailable("killed".to_owned())),
            false => Ok(()),
        }
    }
}

impl StoreWrapper for KillableStore {
    fn below(&self) -> &dyn Store {
        &self.store
    }

    fn read(&self, paths: &[RecordPath]) -> Result<ReadResult, StoreError> {
        self.check()?;
        self.store.read(paths)
    }

    fn list(
        &self,
        under: &RecordPath,
        after: Option<&RecordPath>,
        most: usize,
    ) -> Result<Page, StoreError> {
        self.check()?;
        self.store.list(under, after, most)
    }

    fn commit(&self, transaction: &Transaction) -> Result<Outcome, StoreError> {
        self.check()?;
        let this = self.commits.fetch_add(1, Ordering::SeqCst);
        if self.killed == KillPoint::BeforeCommit(this) {
            return Err(StoreError::Unavailable("killed".to_owned()));
        }
        let came = self.store.commit(transaction);
        match self.killed == KillPoint::AfterCommit(this) {
            true => Err(StoreError::Unavailable("killed".to_owned())),
            false => came,
        }
    }
}

fn open(store: Arc<dyn Store>, audit: &AuditAt<'_>) -> Service {
    fixture::service(store, Arc::new(SystemClock), audit).unwrap()
}

fn open_at(store: &Arc<MemoryStore>, at: &Path) -> Service {
    open(store.clone(), &AuditAt::Folder(at))
}

fn asked<'a>(
    op_id: &'a str,
    request: u8,
    tenant: &'a Label,
    key: &'a Label,
) -> IdempotentRequest<'a> {
    let key = Some(key);
    let is_secret = false;
    IdempotentRequest {
        op_id,
        request: [request; 32],
        action: Action::Destroy,
        tenant,
        key,
        is_secret,
    }
}

#[track_caller]
fn begun(service: &Service, who: &Caller, asked: &IdempotentRequest<'_>) -> OpStart {
    service.op_begin(&Call::new(who, "r"), asked).unwrap()
}

#[track_caller]
fn refused(service: &Service, who: &Caller, asked: &IdempotentRequest<'_>) -> Error {
    service.op_begin(&Call::new(who, "r"), asked).err().unwrap()
}

#[test]
fn idempotent_operations_survive_restart() {
    let (folder, store) = (tempfile::tempdir().unwrap(), sealed());
    let (tenant, key) = (label("default"), label("k"));
    let at = folder.path().join("audit");
    let service = open_at(&store, &at);
    let me = local(&service);
    let of = |op_id, request| asked(op_id, request, &tenant, &key);
    let OpStart::New(op) = begun(&service, &me, &of("a", 1)) else { panic!() };
    // While it is running, it cannot be started again, and no other change can use its key's name.
    let running = refused(&service, &me, &of("a", 1));
    assert_eq!((running.code(), running.code().is_retryable()), (Code::Busy, true));
    assert_eq!(refused(&service, &me, &of("a", 2)), Error::OpReused);
    // Others have other places, and what never happens leaves a gap.
    let OpStart::New(failed) = begun(&service, &me, &of("b", 1)) else { panic!() };
    let OpStart::New(_killed) = begun(&service, &me, &of("c", 1)) else { panic!() };
    let OpStart::New(last) = begun(&service, &me, &of("d", 1)) else { panic!() };
    service.op_end(op, OpResult::Done(b"answer")).unwrap();
    service.op_end(failed, OpResult::Failed).unwrap();
    service.op_end(last, OpResult::Done(b"last")).unwrap();
    drop(service);

    let service = open_at(&store, &at);
    let me = local(&service);
    for (op_id, answer) in [("a", &b"answer"[..]), ("d", b"last")] {
        let OpStart::Replayed(found) = begun(&service, &me, &of(op_id, 1)) else {
            panic!("{op_id}")
        };
        assert_eq!(*found, answer);
        assert_eq!(refused(&service, &me, &of(op_id, 2)), Error::OpReused);
    }
    for op_id in ["b", "c"] {
        let OpStart::New(op) = begun(&service, &me, &of(op_id, 2)) else { panic!("{op_id}") };
        service.op_end(op, OpResult::Failed).unwrap();
    }
    // Nothing of it is in the clear.
    let dump = store.list(&RecordPath::new("ops/default").unwrap(), None, 100);
    for (_, record) in dump.unwrap().records {
        let value = record.value.unwrap();
        assert!(!value.windows(6).any(|part| part == b"answer"));
    }
}

#[test]
fn there_is_a_limit_of_a_tenant() {
    let (folder, store) = (tempfile::tempdir().unwrap(), sealed());
    let (tenant, key, other) = (label("default"), label("k"), label("other"));
    let service = open_at(&store, &folder.path().join("audit"));
    // Every other caller has a limit before that.
    let me = local(&service);
    let most = OPS_MAX - OPS_RESERVED;
    let names: Vec<String> = (0..most).map(|place| format!("op-{place}")).collect();
    for name in &names {
        let OpStart::New(op) = begun(&service, &me, &asked(name, 1, &tenant, &key)) else {
            panic!()
        };
        service.op_end(op, OpResult::Done(b"done")).unwrap();
    }
    let rotate = IdempotentRequest { action: Action::Rotate, ..asked("more", 1, &tenant, &key) };
    assert_eq!(refused(&service, &me, &rotate).code(), Code::TooLarge);
    // A limit refuses nothing that withdraws use.
    let keys = [Action::Disable, Action::Delete, Action::Destroy, Action::Trim, Action::Config];
    let withdraws = |action: Action| {
        let withdraws = IdempotentRequest { action, ..asked("more", 1, &tenant, &key) };
        assert!(matches!(begun(&service, &me, &withdraws), OpStart::Untracked), "{action}");
    };
    keys.into_iter().for_each(withdraws);
    // Changes of tokens have a reserve, which is limited, too.
    fn token<'a>(op_id: &'a str, tenant: &'a Label, key: &'a Label) -> IdempotentRequest<'a> {
        let make = IdempotentRequest { action: Action::Token, ..asked(op_id, 1, tenant, key) };
        IdempotentRequest { key: None, is_secret: true, ..make }
    }
    for name in names.iter().take(OPS_RESERVED) {
        let op_id = format!("token-{name}");
        let OpStart::New(op) = begun(&service, &me, &token(&op_id, &tenant, &key)) else {
            panic!("{op_id}")
        };
        service.op_end(op, OpResult::Done(b"done")).unwrap();
    }
    assert_eq!(refused(&service, &me, &token("more", &tenant, &key)).code(), Code::TooLarge);
    [Action::Token, Action::Policy].into_iter().for_each(withdraws);
    // Those that there are stay known, and another tenant has its own.
    assert!(matches!(
        begun(&service, &me, &asked(&names[7], 1, &tenant, &key)),
        OpStart::Replayed(_)
    ));
    assert!(matches!(begun(&service, &me, &asked("more", 1, &other, &key)), OpStart::New(_)));
    for op_id in ["", "a b", "\u{e9}", &"x".repeat(OP_ID_MAX + 1)] {
        let refusal = refused(&service, &me, &asked(op_id, 1, &other, &key));
        assert_eq!(refusal.code(), Code::BadRequest, "{op_id}");
    }
}

/// A change, and what tells how often it happened.
struct Change {
    name: &'static str,
    action: Action,
    is_of_key: bool,
    run: fn(&Service, &Call<'_>, &KeyRef<'_>) -> Result<(), Error>,
    /// A number that is one thing before it and another after it, and yet another after two.
    count: fn(&MemoryStore, &Service, &KeyRef<'_>) -> u64,
}

const POLICY: &str = "permit(principal is Token, action, resource);";

pub fn new(name: &Label) -> NewKey {
    let (tenant, purpose) = (label("default"), label("transit"));
    NewKey { tenant, purpose, name: name.clone(), algorithm: "ed25519".parse().unwrap() }
}

/// Returns how often a key's record was written; 0 if the key does not exist.
fn writes(store: &MemoryStore, service: &Service, key: &KeyRef<'_>) -> u64 {
    let Ok(id) = service.kms().find(key.tenant, key.name) else { return 0 };
    let path = RecordPath::new(format!("keys/{}/{}", id.tenant, id.uuid)).unwrap();
    let record = store.read(&[path]).unwrap().records[0].clone().unwrap();
    record.generation
}

/// Of all versions.
fn version_writes(store: &MemoryStore, _: &Service, _: &KeyRef<'_>) -> u64 {
    let page = store.list(&RecordPath::new("versions/default").unwrap(), None, 1000).unwrap();
    page.records.iter().map(|(_, record)| record.generation).sum()
}

fn latest(_: &MemoryStore, service: &Service, key: &KeyRef<'_>) -> u64 {
    let id = service.kms().find(key.tenant, key.name);
    id.and_then(|id| service.kms().describe(&id)).map_or(0, |key| key.latest.into())
}

fn policies(_: &MemoryStore, service: &Service, _: &KeyRef<'_>) -> u64 {
    service.gate().policies().first().map_or(0, |set| set.version)
}

fn records_under(store: &MemoryStore, under: &str) -> u64 {
    let page = store.list(&RecordPath::new(under).unwrap(), None, 1000).unwrap();
    page.records.len() as u64
}

fn of_key(
    name: &'static str,
    action: Action,
    run: fn(&Service, &Call<'_>, &KeyRef<'_>) -> Result<(), Error>,
    count: fn(&MemoryStore, &Service, &KeyRef<'_>) -> u64,
) -> Change {
    Change { name, action, is_of_key: true, run, count }
}

/// Each kind of change that takes an op_id.
fn changes() -> Vec<Change> {
    let config = |service: &Service, call: &Call<'_>, key: &KeyRef<'_>| {
        let labels = [("stage".to_owned(), "test".to_owned())].into();
        let changes = [
            KeyChange::Minimum(Minimum::Verify, 2),
            KeyChange::Labels(labels),
            KeyChange::Durable(Some(true)),
        ];
        service.configure(call, key, &changes).map(drop)
    };
    vec![
        of_key(
            "create",
            Action::Create,
            |service, call, _| service.create(call, &new(&label("made"))).map(drop),
            |store, _, _| records_under(store, "keys/default"),
        ),
        of_key(
            "import",
            Action::Import,
            |service, call, _| {
                let import = Import::Raw(&[7; 32]);
                service.import(call, &new(&label("brought")), import).map(drop)
            },
            |store, _, _| records_under(store, "keys/default"),
        ),
        of_key(
            "rotate",
            Action::Rotate,
            |service, call, key| service.rotate(call, key).map(drop),
            latest,
        ),
        of_key("config", Action::Config, config, writes),
        of_key(
            "disable",
            Action::Disable,
            |service, call, key| service.set_state(call, key, 1, State::Disabled),
            version_writes,
        ),
        of_key("delete", Action::Delete, |service, call, key| service.delete(call, key), writes),
        of_key(
            "trim",
            Action::Trim,
            |service, call, key| service.trim(call, key, 2).map(drop),
            version_writes,
        ),
        Change {
            name: "policy",
            action: Action::Policy,
            is_of_key: false,
            run: |service, call, _| service.policy_put(call, &label("all"), POLICY).map(drop),
            count: policies,
        },
        Change {
            name: "revoke",
            action: Action::Token,
            is_of_key: false,
            run: |service, call, _| service.token_revoke(call, "09".repeat(16).parse::<TokenId>()?),
            count: |store, _, _| records_under(store, "tokens/revoked"),
        },
    ]
}

/// A key of two versions, of which the older one may go.
fn prepared(service: &Service, call: &Call<'_>, key: &KeyRef<'_>) {
    service.create(call, &new(key.name)).unwrap();
    service.rotate(call, key).unwrap();
    service.set_minimum(call, key, Minimum::Verify, 2).unwrap();
    service.set_minimum(call, key, Minimum::Decrypt, 2).unwrap();
}

fn request<'a>(change: &Change, tenant: &'a Label, name: &'a Label) -> IdempotentRequest<'a> {
    let key = change.is_of_key.then_some(name);
    let is_secret = false;
    IdempotentRequest {
        op_id: "op",
        request: [1; 32],
        action: change.action,
        tenant,
        key,
        is_secret,
    }
}

/// Asks for it as a front does. Whether it is done by now, as far as the caller hears.
fn ask(service: &Service, change: &Change, key: &KeyRef<'_>) -> Result<(), Error> {
    let me = local(service);
    let call = Call::new(&me, "r");
    let name = match change.name {
        "create" => label("made"),
        "import" => label("brought"),
        _ => key.name.clone(),
    };
    let asked = request(change, key.tenant, &name);
    let op = match service.op_begin(&call, &asked)? {
        OpStart::New(op) => op,
        OpStart::Replayed(answer) => {
            assert_eq!(*answer, b"answer");
            return Ok(());
        }
        OpStart::Untracked => panic!("there is room"),
        OpStart::Completed(made) => {
            assert!(!made.is_empty());
            return Ok(());
        }
    };
    let ran = (change.run)(service, &Call { op: Some(&op), ..call }, key);
    let ended = if ran.is_ok() { OpResult::Done(b"answer") } else { OpResult::Failed };
    let _ = service.op_end(op, ended);
    ran
}

/// Whenever the process is killed, who asks again has the change done once, and not twice.
#[test]
fn a_change_is_done_once_whenever_the_process_is_killed() {
    let (tenant, name) = (label("default"), label("k"));
    let key = KeyRef { tenant: &tenant, name: &name };
    let mut points = 0;
    for change in changes() {
        // The expected state after the change was made once, and the number of commits.
        let mut at = 0;
        loop {
            let mut reached = false;
            for killed in [KillPoint::BeforeCommit(at), KillPoint::AfterCommit(at)] {
                let store = sealed();
                let service = open(store.clone(), &AuditAt::Memory);
                let me = who(&service);
                prepared(&service, &Call::new(&me, "r"), &key);
                let before = (change.count)(&store, &service, &key);
                drop(service);

                let dying = KillableStore::new(&store, KillPoint::None);
                let service = open(dying.clone(), &AuditAt::Memory);
                let opened = dying.commits.load(Ordering::SeqCst);
                drop(service);
                let killed = match killed {
                    KillPoint::BeforeCommit(at) => KillPoint::BeforeCommit(at + opened),
                    KillPoint::AfterCommit(at) => KillPoint::AfterCommit(at + opened),
                    KillPoint::None => KillPoint::None,
                };
                let dying = KillableStore::new(&store, killed);
                let service = open(dying.clone(), &AuditAt::Memory);
                let told = ask(&service, &change, &key);
                let was_killed = dying.is_dead();
                assert!(was_killed || told.is_ok(), "{}: {told:?}", change.name);
                reached |= was_killed;
                drop(service);

                let what = format!("{} {killed:?}, told {told:?}", change.name);
                let service = open(store.clone(), &AuditAt::Memory);
                ask(&service, &change, &key).unwrap_or_else(|error| panic!("{what}: {error}"));
                let once = (change.count)(&store, &service, &key);
                assert_ne!(once, before, "{what}: it was never done");
                ask(&service, &change, &key).unwrap_or_else(|error| panic!("{what}: {error}"));
                drop(service);
                let service = open(store.clone(), &AuditAt::Memory);
                ask(&service, &change, &key).unwrap_or_else(|error| panic!("{what}: {error}"));
                assert_eq!((change.count)(&store, &service, &key), once, "{what}: done again");
                // As many writes as without a kill.
                let calm = calm(&change, &key);
                assert_eq!(once, calm, "{what}");
                points += usize::from(was_killed);
            }
            if !reached {
                break;
            }
            at += 1;
        }
        assert!(at >= 2, "{}: the change and its answer are commits", change.name);
    }
    assert!(points >= 30, "{points}");
}

/// Returns the writes of the change if the process is not killed.
fn calm(change: &Change, key: &KeyRef<'_>) -> u64 {
    let store = sealed();
    let service = open(store.clone(), &AuditAt::Memory);
    let me = who(&service);
    prepared(&service, &Call::new(&me, "r"), key);
    ask(&service, change, key).unwrap();
    (change.count)(&store, &service, key)
}

/// A retry completes the destruction of a key under an `op_id`.
#[test]
fn a_destruction_that_was_cut_off_goes_on() {
    let (tenant, name) = (label("default"), label("k"));
    let key = KeyRef { tenant: &tenant, name: &name };
    let destroy = of_key(
        "destroy",
        Action::Destroy,
        |service, call, key| service.destroy(call, key).map(drop),
        |store, _, _| {
            let page = store.list(&RecordPath::new("versions/default").unwrap(), None, 100);
            let is_there =
                |record: &&(RecordPath, gabion_kms::store::Record)| record.1.value.is_some();
            page.unwrap().records.iter().filter(is_there).count() as u64
        },
    );
    for at in 0..4 {
        for after in [false, true] {
            let store = sealed();
            let service = open(store.clone(), &AuditAt::Memory);
            let me = who(&service);
            let call = Call::new(&me, "r");
            prepared(&service, &call, &key);
            service.delete(&call, &key).unwrap();
            drop(service);
            let killed =
                if after { KillPoint::AfterCommit(at) } else { KillPoint::BeforeCommit(at) };
            let dying = KillableStore::new(&store, killed);
            let service = open(dying, &AuditAt::Memory);
            let told = ask(&service, &destroy, &key);
            drop(service);
            let service = open(store.clone(), &AuditAt::Memory);
            ask(&service, &destroy, &key)
                .unwrap_or_else(|error| panic!("{killed:?} {told:?}: {error}"));
            assert_eq!((destroy.count)(&store, &service, &key), 0, "{killed:?} {told:?}");
        }
    }
}

/// A store that loses requests and answers, and applies lost requests later.
#[test]
fn a_change_is_done_once_whatever_the_store_loses() {
    let (tenant, name) = (label("default"), label("k"));
    let key = KeyRef { tenant: &tenant, name: &name };
    let rotate = of_key(
        "rotate",
        Action::Rotate,
        |service, call, key| service.rotate(call, key).map(drop),
        latest,
    );
    let mut asked_again = 0;
    for seed in 0..60 {
        let store = sealed();
        let service = open(store.clone(), &AuditAt::Memory);
        let me = who(&service);
        prepared(&service, &Call::new(&me, "r"), &key);
        drop(service);
        let faults =
            Faults { unavailable: 80, request_lost: 150, answer_lost: 150, late: 250, full: 80 };
        let kept: Arc<dyn Store> = Arc::new(Sim::new(store.clone(), seed, faults));
        let sealer = loop {
            match seal::unseal(&*kept, UnsealMethod::Passphrase(PASSPHRASE)) {
                Ok(sealer) => break sealer,
                Err(error) => assert!(error.code().is_retryable(), "{error}"),
            }
        };
        drop(sealer);
        let service = loop {
            let clock = Arc::new(SystemClock);
            if let Ok(service) = fixture::service(kept.clone(), clock, &AuditAt::Memory) {
                break service;
            }
        };
        let mut tries = 0;
        while let Err(error) = ask(&service, &rotate, &key) {
            tries += 1;
            assert!(tries < 200, "seed {seed}: {error}");
        }
        asked_again += tries;
        for _ in 0..20 {
            let _ = ask(&service, &rotate, &key);
        }
        drop(service);
        let service = open(store.clone(), &AuditAt::Memory);
        assert_eq!(latest(&store, &service, &key), 3, "seed {seed}");
    }
    assert!(asked_again > 30, "{asked_again}");
}
