//! The owner of an op_id is a credential, never a name; also the result of a replay and its stored
//! record.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use gabion_kms::audit::Outcome;
use gabion_kms::clock::SystemClock;
use gabion_kms::gate::{Action, Caller, Caveat, Peer, Principal, Token};
use gabion_kms::model::Label;
use gabion_kms::operations::NewKey;
use gabion_kms::seal::{self, AuthenticatedStore, UnsealMethod};
use gabion_kms::service::{
    AuditAt, Call, IdempotentRequest, KeyRef, NewToken, OPS_OF_CALLER_MAX, OpResult, OpStart,
    Service,
};
use gabion_kms::store::{self, MemoryStore, RecordPath, Store, Transaction};
use gabion_kms::{Code, Error};
use sha2::{Digest, Sha256};

use crate::fixture::{self, PASSPHRASE, sealed};
use crate::idempotency::new;
use crate::verbs::label;

const POLICY: &str = "permit(principal, action, resource);";

fn open(store: &Arc<MemoryStore>) -> Service {
    fixture::service(store.clone(), Arc::new(SystemClock), &AuditAt::Memory).unwrap()
}

fn by_token(service: &Service, token: &Token) -> Caller {
    service.authenticate(&token.to_string(), &Peer::default()).unwrap()
}

fn limited(token: &Token, caveat: &str) -> Token {
    token.attenuate(caveat.parse().unwrap()).unwrap()
}

fn by_certificate(service: &Service, name: &str, digest: u8) -> Caller {
    let peer = Peer { certificate: Some([digest; 32]), ..Peer::default() };
    service.of_certificate(Principal::new(name).unwrap(), &peer)
}

fn rotation<'a>(op_id: &'a str, tenant: &'a Label, key: &'a Label) -> IdempotentRequest<'a> {
    let (request, action, key) = ([1; 32], Action::Rotate, Some(key));
    IdempotentRequest { op_id, request, action, tenant, key, is_secret: false }
}

fn creation<'a>(op_id: &'a str, tenant: &'a Label) -> IdempotentRequest<'a> {
    let (request, action) = ([1; 32], Action::Token);
    IdempotentRequest { op_id, request, action, tenant, key: None, is_secret: true }
}

/// The newest record of the log: credential, action, key, outcome.
fn newest(service: &Service) -> (String, Action, Option<String>, Outcome) {
    let entries = service.log().tail(service.log().size() - 1, 1).unwrap();
    let record = entries[0].record.clone();
    (record.method, record.action, record.key, record.outcome)
}

/// Runs a rotation under an op_id; whether it was done now.
fn rotates(service: &Service, who: &Caller, asked: &IdempotentRequest<'_>) -> Result<bool, Error> {
    let (call, key) =
        (Call::new(who, "r"), KeyRef { tenant: asked.tenant, name: asked.key.unwrap() });
    match service.op_begin(&call, asked)? {
        OpStart::New(op) => {
            service.rotate(&Call { op: Some(&op), ..call }, &key).unwrap();
            service.op_end(op, OpResult::Done(b"answer")).unwrap();
            Ok(true)
        }
        OpStart::Replayed(answer) => {
            assert_eq!(*answer, b"answer");
            Ok(false)
        }
        OpStart::Completed(made) => panic!("{made}"),
        OpStart::Untracked => panic!("there is room"),
    }
}

/// F1: the maker of a token chooses its principal, an attenuation keeps it, and a certificate may
/// have the same name.
#[test]
fn an_op_id_belongs_to_a_credential() {
    let store = sealed();
    let service = open(&store);
    let (tenant, name) = (label("default"), label("k"));
    let me = Principal::new("ci").unwrap();
    let base = service.first_token(&me).unwrap();
    let admin = by_token(&service, &base);
    service.create(&Call::new(&admin, "r"), &new(&name)).unwrap();
    service.policy_put(&Call::new(&admin, "r"), &label("all"), POLICY).unwrap();
    let narrower = limited(&base, "batch_max=9");
    let credentials = [
        ("the token", admin.clone()),
        ("an attenuation", by_token(&service, &narrower)),
        ("an attenuation of it", by_token(&service, &limited(&narrower, "batch_max=9"))),
        ("a sibling", by_token(&service, &limited(&base, "batch_max=8"))),
        ("another token of this name", by_token(&service, &service.first_token(&me).unwrap())),
        ("a certificate of this name", by_certificate(&service, "ci", 1)),
        ("another certificate of this name", by_certificate(&service, "ci", 2)),
        ("a certificate of another name", by_certificate(&service, "cd", 3)),
        ("the process", service.gate().local(me)),
    ];
    let asked = rotation("nightly", &tenant, &name);
    for (what, who) in &credentials {
        assert!(rotates(&service, who, &asked).unwrap(), "{what} was given another one's answer");
    }
    for (place, (_, who)) in credentials.iter().enumerate() {
        for (_, other) in &credentials[..place] {
            assert_ne!(who.credential(), other.credential());
            assert_ne!(who.credential_text(), other.credential_text());
        }
    }
    // Each is answered again, and the log says by whom; also after a restart, and by another
    // connection.
    drop(service);
    let service = open(&store);
    for (what, who) in &credentials {
        let before = service.log().size();
        assert!(!rotates(&service, who, &asked).unwrap(), "{what}");
        let (method, action, key, outcome) = newest(&service);
        assert_eq!(service.log().size(), before + 1, "{what}");
        assert_eq!((method, action), (who.credential_text(), Action::Rotate), "{what}");
        assert!(key.unwrap().contains("#v") && outcome == Outcome::Replayed, "{what}");
    }
    let from = Peer { address: Some("192.0.2.7".parse().unwrap()), ..Peer::default() };
    let elsewhere = service.authenticate(&base.to_string(), &from).unwrap();
    assert!(!rotates(&service, &elsewhere, &asked).unwrap());
}

/// All that is noted under op_ids, opened.
fn notes(store: &MemoryStore) -> Vec<String> {
    let sealer = seal::unseal(store, UnsealMethod::Passphrase(PASSPHRASE)).unwrap();
    let page = store.list(&RecordPath::new("ops/default").unwrap(), None, 100).unwrap();
    let open = |(path, record): &(RecordPath, gabion_kms::store::Record)| {
        let plain = sealer.open(path, record.generation, record.value.as_ref().unwrap()).unwrap();
        String::from_utf8(plain.to_vec()).unwrap()
    };
    page.records.iter().map(open).collect()
}

/// F1: the store never has a token, also where the process ends at once; a replay names the token
/// and gives none.
#[test]
fn a_token_is_given_out_once() {
    let store = sealed();
    let service = open(&store);
    let tenant = label("default");
    let base = service.first_token(&Principal::new("me").unwrap()).unwrap();
    let me = by_token(&service, &base);
    let call = Call::new(&me, "r");
    let make = |service: &Service, call: &Call<'_>| {
        let caveats = vec!["actions=sign".parse::<Caveat>().unwrap()];
        let principal = Principal::new("ci").unwrap();
        service.token_create(call, &NewToken { principal, caveats, lifetime_ms: None })
    };
    let (told, killed) = (creation("told", &tenant), creation("killed", &tenant));
    let OpStart::New(op) = service.op_begin(&call, &told).unwrap() else { panic!() };
    let token = make(&service, &Call { op: Some(&op), ..call }).unwrap();
    service.op_end(op, OpResult::Done(token.to_string().as_bytes())).unwrap();
    let OpStart::New(op) = service.op_begin(&call, &killed).unwrap() else { panic!() };
    let lost = make(&service, &Call { op: Some(&op), ..call }).unwrap();
    drop((op, service));

    let service = open(&store);
    for (asked, made) in [(&told, &token), (&killed, &lost)] {
        let refused = service.op_begin(&call, asked).err().unwrap();
        assert_eq!(refused, Error::OpDone { made: made.id().to_string() });
        assert_eq!(refused.code(), Code::OpIdDone);
        assert_eq!(newest(&service).3, Outcome::Failed(Code::OpIdDone));
    }
    let notes = notes(&store);
    assert_eq!(notes.len(), 2);
    for note in notes {
        assert!(note.contains("\"answer\":null"), "{note}");
    }
    // An attenuation of the maker's token makes its own, or none.
    let other = by_token(&service, &limited(&base, "actions=token"));
    let OpStart::New(op) = service.op_begin(&Call::new(&other, "r"), &told).unwrap() else {
        panic!()
    };
    service.op_end(op, OpResult::Failed).unwrap();
    let other = by_token(&service, &limited(&base, "actions=sign"));
    let refused = service.op_begin(&Call::new(&other, "r"), &told).err().unwrap();
    assert_eq!(refused.code(), Code::Denied);
    // One who makes tokens of one tenant alone may say an op_id, too.
    let other = by_token(&service, &limited(&base, "tenant=default"));
    assert!(matches!(service.op_begin(&Call::new(&other, "r"), &told), Ok(OpStart::New(_))));
}

/// F1: a replay is authorised like the change and checks the key's state; refusals are recorded in
/// the audit log, too.
#[test]
fn a_replay_looks_at_authority_and_at_its_key() {
    let store = sealed();
    let service = open(&store);
    let (tenant, name) = (label("default"), label("k"));
    let key = KeyRef { tenant: &tenant, name: &name };
    let base = service.first_token(&Principal::new("me").unwrap()).unwrap();
    let (admin, mine) = (by_token(&service, &base), limited(&base, "tenant=default"));
    let who = by_token(&service, &mine);
    let call = Call::new(&admin, "r");
    service.create(&call, &new(&name)).unwrap();
    let asked = rotation("nightly", &tenant, &name);
    let refused = |code: Code| {
        let before = service.log().size();
        assert_eq!(rotates(&service, &who, &asked).unwrap_err().code(), code);
        service.append_denials(true).unwrap();
        assert_eq!(service.log().size(), before + 1, "{code}");
        assert_eq!(newest(&service).3, Outcome::Failed(code));
    };
    assert!(rotates(&service, &who, &asked).unwrap());
    service.delete(&call, &key).unwrap();
    refused(Code::KeyDeleted);
    service.restore(&call, &key).unwrap();
    assert!(!rotates(&service, &who, &asked).unwrap());
    let forbid = format!("{POLICY} forbid(principal, action == Action::\"rotate\", resource);");
    service.policy_put(&call, &label("all"), &forbid).unwrap();
    refused(Code::Denied);
    service.policy_put(&call, &label("all"), POLICY).unwrap();
    // The name is another key's.
    service.delete(&call, &key).unwrap();
    service.destroy(&call, &key).unwrap();
    refused(Code::NotFound);
    service.create(&call, &new(&name)).unwrap();
    refused(Code::NotFound);
    let other = IdempotentRequest { request: [2; 32], ..asked };
    assert_eq!(rotates(&service, &who, &other).unwrap_err(), Error::OpReused);
    service.token_revoke(&call, base.id()).unwrap();
    refused(Code::Denied);
}

/// Attenuations of a token share its limit, also after a restart; other callers of the tenant go
/// on.
#[test]
fn no_caller_uses_up_the_notes_of_others() {
    let store = sealed();
    let service = open(&store);
    let (tenant, name) = (label("default"), label("k"));
    let first = |name: &str| service.first_token(&Principal::new(name).unwrap()).unwrap();
    let (greedy, other) = (first("greedy"), first("other"));
    let who = by_token(&service, &greedy);
    service.create(&Call::new(&who, "r"), &new(&name)).unwrap();
    for number in 0..OPS_OF_CALLER_MAX {
        let op_id = format!("op-{number}");
        let asked = rotation(&op_id, &tenant, &name);
        let OpStart::New(op) = service.op_begin(&Call::new(&who, "r"), &asked).unwrap() else {
            panic!("{op_id}")
        };
        service.op_end(op, OpResult::Done(b"answer")).unwrap();
    }
    drop(service);
    let service = open(&store);
    let more = rotation("more", &tenant, &name);
    for token in [&greedy, &limited(&greedy, "batch_max=9")] {
        let who = by_token(&service, token);
        let refused = service.op_begin(&Call::new(&who, "r"), &more).err().unwrap();
        assert_eq!(refused.code(), Code::TooLarge);
        assert!(refused.to_string().contains("a caller"), "{refused}");
    }
    let (other, certificate) = (by_token(&service, &other), by_certificate(&service, "x", 1));
    assert!(rotates(&service, &other, &more).unwrap());
    service.policy_put(&Call::new(&other, "r"), &label("all"), POLICY).unwrap();
    assert!(rotates(&service, &certificate, &more).unwrap());
}

/// A store of a program that bound notes to a principal's name: such a note is never replayed, and
/// the change is not repeated.
#[test]
fn a_note_of_an_older_program_is_never_replayed() {
    let store = sealed();
    let sealer = Arc::new(seal::unseal(&*store, UnsealMethod::Passphrase(PASSPHRASE)).unwrap());
    let principal = "ci";
    let id = Sha256::new()
        .chain_update((principal.len() as u64).to_be_bytes())
        .chain_update(principal)
        .chain_update("nightly")
        .finalize();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let now_ms = std::time::UNIX_EPOCH.elapsed().unwrap().as_millis();
    let note = format!(
        "{{\"id\":\"{}\",\"request\":\"{}\",\"at_ms\":{now_ms},\"answer\":\"Z2JrMS4uLg==\"}}",
        hex(&id),
        hex(&[1; 32])
    );
    let path = RecordPath::new("ops/default/000000").unwrap();
    let sealed = sealer.seal(&path, 1, note.as_bytes()).unwrap();
    let records = AuthenticatedStore::open(&*store as &dyn Store, sealer.clone()).unwrap();
    let committed = records.commit(&Transaction::new().put(path, 0, sealed)).unwrap();
    assert!(matches!(committed, store::Outcome::Committed(_)), "{committed:?}");

    let service = open(&store);
    let tenant = label("default");
    let token = service.first_token(&Principal::new(principal).unwrap()).unwrap();
    let (who, other) = (by_token(&service, &token), fixture::who(&service));
    let asked = creation("nightly", &tenant);
    let refused = service.op_begin(&Call::new(&who, "r"), &asked).err().unwrap();
    assert_eq!((refused.clone(), refused.code()), (Error::OpOfName, Code::OpIdReused));
    for (who, asked) in [(&who, creation("another", &tenant)), (&other, asked)] {
        assert!(matches!(service.op_begin(&Call::new(who, "r"), &asked), Ok(OpStart::New(_))));
    }
}

/// A note is committed by the change that carries its op, whatever other callers and the service
/// itself commit meanwhile, on this thread and on others.
#[test]
fn parallel_changes_never_swap_notes() {
    const ROUNDS: usize = 40;
    let store = sealed();
    let service = open(&store);
    let tenant = label("default");
    let names = ["noted", "here", "there"].map(label);
    let [noted, here, there] = names.each_ref().map(|name| KeyRef { tenant: &tenant, name });
    let who = fixture::local(&service);
    let call = Call::new(&who, "r");
    for name in &names {
        service.create(&call, &new(name)).unwrap();
    }
    let short = NewKey { algorithm: "aes256-gcm96".parse().unwrap(), ..new(&label("short")) };
    service.create(&call, &short).unwrap();
    let short = KeyRef { tenant: &tenant, name: &short.name };
    let is_done = AtomicBool::new(false);
    let made = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                service.rotate(&call, &there).unwrap();
            }
        });
        let made = (0..ROUNDS).map(|round| {
            let op_id = format!("op-{round}");
            let asked = rotation(&op_id, &tenant, noted.name);
            let OpStart::New(op) = service.op_begin(&call, &asked).unwrap() else { panic!() };
            service.rotate(&call, &here).unwrap();
            // Its first block of nonces is reserved by a transaction that is part of no change.
            service.encrypt(&Call { op: Some(&op), ..call }, &short, None, b"x", b"").unwrap();
            service.checkpoint().unwrap();
            let made = service.rotate(&Call { op: Some(&op), ..call }, &noted).unwrap();
            service.op_end(op, OpResult::Done(b"answer")).unwrap();
            format!("\"made\":\"{made}\"")
        });
        let made: Vec<String> = made.collect();
        is_done.store(true, Ordering::Relaxed);
        made
    });
    let notes = notes(&store);
    assert_eq!(notes.len(), ROUNDS);
    for made in &made {
        let count = notes.iter().filter(|note| note.contains(made.as_str())).count();
        assert_eq!(count, 1, "{made}: {notes:?}");
    }
}
