//! A service whose seal is closed: nothing begins, nothing that was computed is given out, and the
//! log says so.

use std::sync::OnceLock;

use gabion_kms::audit::Outcome;
use gabion_kms::gate::{Action, Method, Peer, Principal, TokenId};
use gabion_kms::model::Label;
use gabion_kms::operations::{Kms, NewKey, StreamForm, StreamLen, StreamUse};
use gabion_kms::service::{
    AuditAt, Call, Generation, KeyRef, NewToken, Options, RotationReport, Service, SignItem,
    VerifyItem,
};
use gabion_kms::{Code, Error, Message};

use crate::fixture::lax;

const MESSAGE: Message<'static> = Message::Pure { context: b"", message: b"m" };

/// A service with a key of an algorithm.
fn service(algorithm: &str) -> (Service, NewKey) {
    let options = Options { gate: lax(), ..Options::default() };
    let service = Service::open(Kms::in_memory().unwrap(), &AuditAt::Memory, options).unwrap();
    let [tenant, purpose, name] =
        ["a", "transit", "k"].map(|text| Label::new("name", text).unwrap());
    let new = NewKey { tenant, purpose, name, algorithm: algorithm.parse().unwrap() };
    service.create(&Call::new(&who(&service), "r"), &new).unwrap();
    (service, new)
}

fn who(service: &Service) -> gabion_kms::gate::Caller {
    let token = service.first_token(&Principal::new("me").unwrap()).unwrap().to_string();
    service.authenticate(&token, &Peer::default()).unwrap()
}

#[test]
fn every_call_is_refused_after_sealing() {
    let (service, new) = service("ed25519");
    let who = who(&service);
    let (call, key) = (Call::new(&who, "r"), KeyRef { tenant: &new.tenant, name: &new.name });
    let signature = service.sign(&call, &key, None, MESSAGE).unwrap().signature;
    let len = StreamLen { of_message: Some(1), whole_max: 1 };
    let form = || StreamForm { context: Vec::new(), hash: None, rsa: None };
    let mut stream =
        service.begin_stream(&call, &key, None, (StreamUse::Sign, form()), len).unwrap();
    stream.add(b"m").unwrap();
    service.generation().close();
    let before = service.log().size();
    let sealed = Some(Error::Sealed);
    let (signable, version) = (MESSAGE.into(), None);
    let sign = SignItem { key, version, signable };
    let verify = VerifyItem { key, version: 1, signable, signature: &signature };
    assert_eq!(service.sign(&call, &key, None, MESSAGE).err(), sealed);
    assert_eq!(service.verify(&call, &key, 1, MESSAGE, &signature).err(), sealed);
    assert_eq!(service.sign_stream(&call, &key, &stream).err(), sealed);
    let begun = service.begin_stream(&call, &key, None, (StreamUse::Sign, form()), len);
    assert_eq!(begun.err(), sealed);
    let (signed, verified) = service.batch(&call, 2, &[sign], &[verify]);
    assert_eq!(
        (signed[0].clone().err(), verified[0].clone().err()),
        (sealed.clone(), sealed.clone())
    );
    service.sign_coalesced(&[(call, sign)], |_, signed| assert_eq!(signed.err(), sealed));
    service.verify_coalesced(&[(call, verify)], |_, valid| assert_eq!(valid.err(), sealed));
    assert_eq!(service.rotate(&call, &key).err(), sealed);
    assert_eq!(service.show(&call, &key).err(), sealed);
    assert_eq!(service.list(&call, &new.tenant, "", None, 10).err(), sealed);
    let token = NewToken {
        principal: Principal::new("late").unwrap(),
        caveats: Vec::new(),
        lifetime_ms: None,
    };
    assert_eq!(service.token_create(&call, &token).err(), sealed);
    assert_eq!(service.token_revoke_self(&call).err(), sealed);
    assert_eq!(service.audit_tail(&call, 0, 10).err(), sealed);
    assert_eq!(service.audit_state(&call).err(), sealed);
    assert_eq!(service.administer(&call, Action::Backup, || Ok(())).err(), sealed);
    assert_eq!(service.rotate_due(10), Ok(RotationReport::default()));
    // It is as if they had come while it was closed.
    assert_eq!(service.log().size(), before);
}

/// The service and the token that a change loses while it waits for its slot.
static LOSES: OnceLock<(Service, TokenId)> = OnceLock::new();

#[test]
fn a_change_fails_if_its_token_is_revoked_while_it_waits() {
    let (service, new) = service("ed25519");
    let who = who(&service);
    let Method::Token { id } = who.method() else { panic!() };
    let (service, _) = LOSES.get_or_init(|| (service, id));
    let run_blocking = |act: &mut dyn FnMut()| {
        let (service, id) = LOSES.get().unwrap();
        let admin = self::who(service);
        service.token_revoke(&Call::new(&admin, "r"), *id).unwrap();
        act();
    };
    let call = Call { run_blocking, ..Call::new(&who, "waits") };
    let key = KeyRef { tenant: &new.tenant, name: &new.name };
    assert_eq!(service.rotate(&call, &key).map_err(|error| error.code()), Err(Code::Denied));
    let admin = self::who(service);
    assert_eq!(service.show(&Call::new(&admin, "r"), &key).unwrap().versions.len(), 1);
    let records = service.log().tail(0, usize::MAX).unwrap();
    let outcomes: Vec<Outcome> = records
        .iter()
        .filter(|entry| entry.record.request_id == "waits")
        .map(|entry| entry.record.outcome)
        .collect();
    assert_eq!(outcomes, [Outcome::Begun, Outcome::Failed(Code::Denied)]);
}

/// The generation that ends while something of it is computed.
static ENDS: OnceLock<Generation> = OnceLock::new();

#[test]
fn results_computed_during_sealing_are_withheld() {
    let (service, new) = service("slh-dsa-sha2-128f");
    let who = who(&service);
    let key = KeyRef { tenant: &new.tenant, name: &new.name };
    ENDS.set(service.generation().clone()).unwrap();
    let run_blocking = |act: &mut dyn FnMut()| {
        act();
        ENDS.get().unwrap().close();
    };
    let call = Call { run_blocking, ..Call::new(&who, "r") };
    assert_eq!(service.sign(&call, &key, None, MESSAGE).err(), Some(Error::Sealed));
    let last: Vec<_> = service.log().tail(service.log().size() - 2, 2).unwrap();
    let outcomes: Vec<_> = last.iter().map(|entry| entry.record.outcome).collect();
    assert_eq!(outcomes, [Outcome::Done, Outcome::Withheld]);
}
