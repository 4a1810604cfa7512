//! Changes under a caller's own name: what is noted of them outlives the process, and has a limit.

use std::path::Path;
use std::sync::Arc;

use gabion_kms::gate::{self, Action, Authenticated, Peer, Principal};
use gabion_kms::model::Label;
use gabion_kms::operations::{self, Kms};
use gabion_kms::seal::{self, By, Cost, Shares, Slots};
use gabion_kms::service::{
    AuditAt, Begun, Call, Ended, OP_ID_MAX, OPS_MAX, OpRequest, Options, Service,
};
use gabion_kms::store::{MemoryStore, Store};
use gabion_kms::{Code, Error};

use crate::verbs::label;

fn sealed() -> Arc<MemoryStore> {
    let store = Arc::new(MemoryStore::new());
    let recovery = Shares { shares: 1, threshold: 1 };
    let cost = Cost { memory_kib: 8, passes: 1 };
    let slots = Slots { recovery, passphrase: Some(("secret", cost)) };
    let dealt = seal::init(&*store, &slots).unwrap();
    dealt.adopt(&*store, dealt.shares()).unwrap();
    store
}

fn open(store: &Arc<MemoryStore>, at: &Path) -> Service {
    let sealer = seal::unseal(&**store, By::Passphrase("secret")).unwrap();
    let store: Arc<dyn Store> = store.clone();
    let kms = Kms::new(store, sealer, operations::Options::default()).unwrap();
    let gate = gate::Options { needs_certificate_for_administration: false, ..Default::default() };
    Service::open(kms, &AuditAt::Folder(at), Options { gate, ..Options::default() }).unwrap()
}

fn who(service: &Service) -> Authenticated {
    let token = service.first_token(&Principal::new("me").unwrap()).unwrap().to_string();
    service.authenticate(&token, &Peer::default()).unwrap()
}

fn asked<'a>(op_id: &'a str, request: u8, tenant: &'a Label, key: &'a Label) -> OpRequest<'a> {
    OpRequest { op_id, request: [request; 32], action: Action::Destroy, tenant, key }
}

#[track_caller]
fn begun(service: &Service, who: &Authenticated, asked: &OpRequest<'_>) -> Begun {
    service.op_begin(&Call::new(who, "r"), asked).unwrap()
}

#[track_caller]
fn refused(service: &Service, who: &Authenticated, asked: &OpRequest<'_>) -> Error {
    service.op_begin(&Call::new(who, "r"), asked).err().unwrap()
}

#[test]
fn what_was_done_is_known_after_a_restart_and_what_was_not_ended_is_not_done_again() {
    let (folder, store) = (tempfile::tempdir().unwrap(), sealed());
    let (tenant, key) = (label("default"), label("k"));
    let at = folder.path().join("audit");
    let service = open(&store, &at);
    let me = who(&service);
    let of = |op_id, request| asked(op_id, request, &tenant, &key);
    let Begun::New(op) = begun(&service, &me, &of("a", 1)) else { panic!() };
    // While it is under way nobody begins it again, and nobody else takes its name.
    let running = refused(&service, &me, &of("a", 1));
    assert_eq!((running.code(), running.code().is_retryable()), (Code::Busy, true));
    assert_eq!(refused(&service, &me, &of("a", 2)), Error::OpReused);
    service.op_end(op, Ended::Done(b"answer")).unwrap();
    let Begun::New(op) = begun(&service, &me, &of("b", 1)) else { panic!() };
    service.op_end(op, Ended::Not).unwrap();
    let Begun::New(op) = begun(&service, &me, &of("c", 1)) else { panic!() };
    service.op_end(op, Ended::Unknown).unwrap();
    // One that a kill ends: nothing is noted.
    let Begun::New(_killed) = begun(&service, &me, &of("d", 1)) else { panic!() };
    drop(service);

    let service = open(&store, &at);
    let me = who(&service);
    let Begun::Done(answer) = begun(&service, &me, &of("a", 1)) else { panic!() };
    assert_eq!(answer, b"answer");
    assert_eq!(refused(&service, &me, &of("a", 2)), Error::OpReused);
    for op_id in ["c", "d"] {
        assert_eq!(refused(&service, &me, &of(op_id, 1)), Error::OutcomeUnknown);
    }
    let Begun::New(op) = begun(&service, &me, &of("b", 2)) else { panic!() };
    service.op_end(op, Ended::Not).unwrap();
    // Nothing of it is in the clear.
    let dump = store.list(&gabion_kms::store::RecordPath::new("ops/default").unwrap(), None, 100);
    for (_, record) in dump.unwrap().records {
        let value = record.value.unwrap();
        assert!(!value.windows(6).any(|part| part == b"answer"));
    }
}

#[test]
fn there_is_a_limit_of_a_tenant() {
    let (folder, store) = (tempfile::tempdir().unwrap(), sealed());
    let (tenant, key, other) = (label("default"), label("k"), label("other"));
    let service = open(&store, &folder.path().join("audit"));
    let me = who(&service);
    let names: Vec<String> = (0..OPS_MAX).map(|place| format!("op-{place}")).collect();
    for name in &names {
        let Begun::New(op) = begun(&service, &me, &asked(name, 1, &tenant, &key)) else { panic!() };
        service.op_end(op, Ended::Done(b"done")).unwrap();
    }
    let refusal = refused(&service, &me, &asked("more", 1, &tenant, &key));
    assert_eq!(refusal.code(), Code::TooLarge);
    // Those that there are stay known, and another tenant has its own.
    assert!(matches!(begun(&service, &me, &asked(&names[7], 1, &tenant, &key)), Begun::Done(_)));
    assert!(matches!(begun(&service, &me, &asked("more", 1, &other, &key)), Begun::New(_)));
    for op_id in ["", "a b", "\u{e9}", &"x".repeat(OP_ID_MAX + 1)] {
        let refusal = refused(&service, &me, &asked(op_id, 1, &other, &key));
        assert_eq!(refusal.code(), Code::BadRequest, "{op_id}");
    }
}
