//! One call a verb, and what the audit log tells of it.

use std::cell::Cell;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use gabion_kms::audit::{self, Class, Outcome, Record};
use gabion_kms::gate::{self, Caller, Caveat, Peer, Principal};
use gabion_kms::model::{Label, State};
use gabion_kms::operations::{Import, Kms, NewKey};
use gabion_kms::service::{
    AuditAt, Call, KeyRef, NewToken, Options, Service, SignItem, VerifyItem,
};
use gabion_kms::store::MemoryStore;
use gabion_kms::transport::{Form, Wrapper};
use gabion_kms::{AuditError, Code, Error, Message};

use crate::fixture::{self, lax};

fn label(text: &str) -> Label {
    Label::new("name", text).unwrap()
}

fn options() -> Options {
    let log = audit::Options { segment_bytes: 64 << 10, reserve_bytes: 4 << 10 };
    Options { gate: lax(), log, ..Options::default() }
}

fn service() -> Service {
    Service::open(Kms::in_memory().unwrap(), &AuditAt::Memory, options()).unwrap()
}

/// Returns a caller with a token of these caveats.
fn somebody(service: &Service, caveats: &[&str]) -> Caller {
    let mut token = service.first_token(&Principal::new("ci").unwrap()).unwrap();
    for caveat in caveats {
        token = token.attenuate(caveat.parse().unwrap()).unwrap();
    }
    service.authenticate(&token.to_string(), &Peer::default()).unwrap()
}

fn call(who: &Caller) -> Call<'_> {
    Call::new(who, "r-1")
}

fn new(tenant: &Label, name: &str) -> NewKey {
    let algorithm = "ed25519".parse().unwrap();
    NewKey { tenant: tenant.clone(), purpose: label("transit"), name: label(name), algorithm }
}

fn text(message: &[u8]) -> Message<'_> {
    Message::Pure { context: b"", message }
}

/// The last records.
fn last(service: &Service, most: u64) -> Vec<Record> {
    let size = service.log().size();
    let entries = service.log().tail(size - most, usize::MAX).unwrap();
    entries.into_iter().map(|entry| entry.record).collect()
}

#[test]
fn each_verb_is_logged() {
    let (service, tenant) = (service(), label("a"));
    let who = somebody(&service, &[]);
    let (call, name) = (call(&who), label("web"));
    let key = KeyRef { tenant: &tenant, name: &name };
    let id = service.create(&call, &new(&tenant, "web")).unwrap();
    let [begun, done] = &last(&service, 2)[..] else { panic!() };
    assert_eq!((begun.outcome, done.outcome), (Outcome::Begun, Outcome::Done));
    assert_eq!((begun.key.as_deref(), done.key.clone()), (Some("web"), Some(id.to_string())));
    assert!(done.method.starts_with("token:") && done.request_id == "r-1");

    let signed = service.sign(&call, &key, None, text(b"abc")).unwrap();
    let told = last(&service, 1).remove(0);
    assert_eq!(told.outcome, Outcome::Done);
    assert_eq!(told.key, Some(signed.by.to_string()));
    assert_eq!(told.input, Some(audit::Digest::of(b"abc")));
    assert_eq!(told.output, Some(audit::Digest::of(&signed.signature)));
    assert_eq!(told.principal.as_str(), "ci");

    assert!(service.verify(&call, &key, 1, text(b"abc"), &signed.signature).unwrap());
    assert!(!service.verify(&call, &key, 1, text(b"abd"), &signed.signature).unwrap());
    let outcomes: Vec<Outcome> = last(&service, 2).iter().map(|told| told.outcome).collect();
    assert_eq!(outcomes, [Outcome::Done, Outcome::Wrong]);

    assert_eq!(service.rotate(&call, &key).unwrap().version, 2);
    service.set_state(&call, &key, 1, State::Disabled).unwrap();
    let refused = service.sign(&call, &key, Some(1), text(b"abc")).unwrap_err();
    assert_eq!(last(&service, 1)[0].outcome, Outcome::Failed(refused.code()));
    assert_eq!(service.show(&call, &key).unwrap().versions.len(), 2);
    assert!(service.attest(&call, &key, "nonce").unwrap().jws.len() > 100);
    service.delete(&call, &key).unwrap();
    service.restore(&call, &key).unwrap();
    service.delete(&call, &key).unwrap();
    service.destroy(&call, &key).unwrap();
    let gone = service.sign(&call, &key, None, text(b"abc")).unwrap_err();
    assert_eq!(gone.code(), Code::NotFound);
    assert_eq!(last(&service, 1)[0].outcome, Outcome::Failed(Code::NotFound));
    // The records of a change's beginning and outcome are adjacent, and none is missing.
    let all = service.log().tail(0, usize::MAX).unwrap();
    let begun = all.iter().filter(|entry| entry.record.outcome == Outcome::Begun).count();
    // One of them is that of the key which signs descriptions.
    assert_eq!(begun, 9);
    assert!(service.checkpoint().unwrap().size == service.log().size());
}

thread_local! {
    /// Withdraws a key, when this thread next waits for the disk.
    static WITHDRAWS: Cell<Option<Box<dyn FnOnce()>>> = const { Cell::new(None) };
}

/// A private key is not exported if its key was withdrawn while the audit record was written.
#[test]
fn an_export_looks_at_its_key_again() {
    let (service, tenant) = (Arc::new(service()), label("a"));
    let who = somebody(&service, &[]);
    let run_blocking = |act: &mut dyn FnMut()| {
        act();
        if let Some(withdraws) = WITHDRAWS.take() {
            withdraws();
        }
    };
    let call = Call { run_blocking, ..call(&who) };
    let to = Kms::in_memory().unwrap().wrapping_key(Wrapper::XWing).unwrap();
    for (name, wanted) in [("disabled", Code::VersionDisabled), ("deleted", Code::KeyDeleted)] {
        let (name, is_deleted) = (label(name), wanted == Code::KeyDeleted);
        let key = KeyRef { tenant: &tenant, name: &name };
        let id = service.create(&call, &new(&tenant, name.as_str())).unwrap().key;
        service.allow_export(&call, &key).unwrap();
        for is_wrapped in [false, true] {
            let (of, id) = (service.clone(), id.clone());
            WITHDRAWS.set(Some(Box::new(move || match is_deleted {
                true => of.kms().delete(&id).unwrap(),
                false => of.kms().set_state(&id, 1, State::Disabled).unwrap(),
            })));
            let given = match is_wrapped {
                false => service.export(&call, &key, 1, Form::Raw).map(drop),
                true => service.export_wrapped(&call, &key, 1, Form::Raw, &to).map(drop),
            };
            assert_eq!(given.unwrap_err().code(), wanted, "{is_wrapped}");
            assert_eq!(last(&service, 1)[0].outcome, Outcome::Withheld);
            match is_deleted {
                true => drop(service.restore(&call, &key).unwrap()),
                false => service.set_state(&call, &key, 1, State::Enabled).unwrap(),
            }
            service.export(&call, &key, 1, Form::Raw).unwrap();
        }
    }
}

thread_local! {
    /// How often this thread ran something aside.
    static ASIDE: Cell<usize> = const { Cell::new(0) };
}

/// Returns how often something runs aside.
fn run_blocking<T>(act: impl FnOnce() -> T) -> (T, usize) {
    let before = ASIDE.get();
    let made = act();
    (made, ASIDE.get() - before)
}

#[test]
fn only_slow_work_runs_off_the_callers_thread() {
    let count = |act: &mut dyn FnMut()| {
        ASIDE.set(ASIDE.get() + 1);
        act();
    };
    let (tenant, quick, slow) = (label("a"), label("quick"), label("slow"));
    let none = label("none");
    for class in [Class::Written, Class::Durable] {
        let options = Options { class, ..options() };
        let service = Service::open(Kms::in_memory().unwrap(), &AuditAt::Memory, options).unwrap();
        let who = somebody(&service, &[]);
        let call = Call { run_blocking: count, ..call(&who) };
        let told = usize::from(class == Class::Durable);
        // Changes wait for the disk, whatever is said of uses.
        let (made, times) = run_blocking(|| service.create(&call, &new(&tenant, "quick")));
        assert_eq!((made.is_ok(), times), (true, 1));
        let algorithm = "slh-dsa-sha2-128f".parse().unwrap();
        service.create(&call, &NewKey { algorithm, ..new(&tenant, "slow") }).unwrap();

        let key = |name| KeyRef { tenant: &tenant, name };
        let sign =
            |name| run_blocking(|| service.sign(&call, &key(name), None, text(b"abc")).is_ok());
        assert_eq!(sign(&quick), (true, told));
        assert_eq!(sign(&slow), (true, 1 + told));
        // A rejection is recorded, too.
        assert_eq!(sign(&none), (false, told));
        let item = |key| SignItem { key, version: None, signable: text(b"abc").into() };
        let (batch, times) = run_blocking(|| service.sign_batch(&call, &[item(key(&quick))]));
        assert_eq!((batch[0].is_ok(), times), (true, told));
        let both = [item(key(&quick)), item(key(&slow))];
        let (batch, times) = run_blocking(|| service.sign_batch(&call, &both));
        assert_eq!((batch.iter().all(Result::is_ok), times), (true, 1 + told));
    }
}

#[test]
fn slow_work_that_does_not_run_is_an_error() {
    let (service, tenant) = (service(), label("a"));
    let who = somebody(&service, &[]);
    let call = Call { run_blocking: |_| (), ..call(&who) };
    assert!(service.create(&call, &new(&tenant, "web")).is_err());
    let name = label("web");
    let key = KeyRef { tenant: &tenant, name: &name };
    assert_eq!(service.show(&call, &key).unwrap_err().code(), Code::NotFound);
}

#[test]
fn no_record_has_a_message_a_signature_or_a_token_in_it() {
    let (service, tenant, name) = (service(), label("a"), label("web"));
    let token = service.first_token(&Principal::new("ci").unwrap()).unwrap().to_string();
    let who = service.authenticate(&token, &Peer::default()).unwrap();
    let key = KeyRef { tenant: &tenant, name: &name };
    service.create(&call(&who), &new(&tenant, "web")).unwrap();
    let signed = service.sign(&call(&who), &key, None, text(b"a secret plan")).unwrap();
    let digits: String = signed.signature.iter().map(|byte| format!("{byte:02x}")).collect();
    for entry in service.log().tail(0, usize::MAX).unwrap() {
        let line = entry.record.to_json();
        for secret in ["secret", &digits[..16], &token[8..24], &token[token.len() - 16..]] {
            assert!(!line.contains(secret), "{line}");
        }
    }
}

#[test]
fn verbs_of_secrets_are_logged_by_keyed_digests() {
    let (service, tenant) = (service(), label("a"));
    let all = somebody(&service, &[]);
    let call = call(&all);
    for (name, algorithm) in [("e", "xaes-256-gcm"), ("t", "hmac-sha-256"), ("k", "ml-kem-768")] {
        let algorithm = algorithm.parse().unwrap();
        service.create(&call, &NewKey { algorithm, ..new(&tenant, name) }).unwrap();
    }
    let names = ["e", "t", "k"].map(label);
    let [e, t, k] = names.each_ref().map(|name| KeyRef { tenant: &tenant, name });
    let output = |service: &Service| last(service, 1)[0].output.unwrap().to_string();
    let input = |service: &Service| last(service, 1)[0].input.unwrap().to_string();

    let made = service.encrypt(&call, &e, None, b"plain", b"beside").unwrap();
    assert!(input(&service).starts_with("hmac-sha256:"));
    assert_eq!(last(&service, 1)[0].output, Some(audit::Digest::of(&made.ciphertext)));
    let told = input(&service);
    service.rotate(&call, &e).unwrap();
    let made = service.rewrap(&call, &e, 1, &made.ciphertext, b"beside", None).unwrap();
    assert_eq!(made.by.version, 2);
    let plain = service.decrypt(&call, &e, 2, &made.ciphertext, b"beside").unwrap();
    assert_eq!((&plain[..], output(&service)), (&b"plain"[..], told), "the same tells the same");
    let failed = service.decrypt(&call, &e, 2, &made.ciphertext, b"other").unwrap_err();
    assert_eq!(last(&service, 1)[0].outcome, Outcome::Failed(failed.code()));
    assert_eq!(service.datakey(&call, &e, 32, b"").unwrap().plain.len(), 32);

    let tagged = service.hmac(&call, &t, None, b"message").unwrap();
    assert!(input(&service).starts_with("hmac-") && output(&service).starts_with("hmac-"));
    assert!(service.verify_hmac(&call, &t, 1, b"message", &tagged.tag).unwrap());
    assert!(!service.verify_hmac(&call, &t, 1, b"massage", &tagged.tag).unwrap());
    assert_eq!(last(&service, 1)[0].outcome, Outcome::Wrong);

    let made = service.encaps(&call, &k, None).unwrap();
    let taken = service.decaps(&call, &k, 1, &made.ciphertext).unwrap();
    assert!(taken == made.secret);
    assert_eq!(last(&service, 1)[0].output, None, "a secret has no digest");

    let refused = service.export(&call, &e, 2, Form::Raw).unwrap_err();
    assert_eq!(refused.code(), Code::NotExportable);
    service.allow_export(&call, &e).unwrap();
    let raw = service.export(&call, &e, 2, Form::Raw).unwrap();
    let (there, copy) = (label("b"), label("copy"));
    let algorithm = "xaes-256-gcm".parse().unwrap();
    let new = NewKey { algorithm, ..new(&there, "copy") };
    service.import(&call, &new, Import::Raw(&raw)).unwrap();
    let copy = KeyRef { tenant: &there, name: &copy };
    let made = service.encrypt(&call, &copy, None, b"plain", b"").unwrap();
    assert_eq!(service.random(&call, 16).unwrap().len(), 16);
    service.set_expiry(&call, &copy, Some(1)).unwrap();
    assert!(service.encrypt(&call, &copy, None, b"plain", b"").is_err());
    assert!(service.decrypt(&call, &copy, 1, &made.ciphertext, b"").is_ok());
}

#[test]
fn each_verb_of_secrets_has_an_action_of_its_own() {
    let (service, tenant, name) = (service(), label("a"), label("e"));
    let (all, some) = (somebody(&service, &[]), somebody(&service, &["actions=encrypt"]));
    let new = NewKey { algorithm: "xaes-256-gcm".parse().unwrap(), ..new(&tenant, "e") };
    service.create(&call(&all), &new).unwrap();
    let (e, who) = (KeyRef { tenant: &tenant, name: &name }, call(&some));
    assert!(service.encrypt(&who, &e, None, b"plain", b"").is_ok());
    let denied = [
        service.decrypt(&who, &e, 1, b"", b"").map(drop),
        service.rewrap(&who, &e, 2, b"", b"", None).map(drop),
        service.datakey(&who, &e, 32, b"").map(drop),
        service.hmac(&who, &e, None, b"").map(drop),
        service.verify_hmac(&who, &e, 1, b"", b"").map(drop),
        service.encaps(&who, &e, None).map(drop),
        service.decaps(&who, &e, 1, b"").map(drop),
        service.random(&who, 1).map(drop),
        service.import(&who, &new, Import::Raw(&[1; 32])).map(drop),
        service.import_version(&who, &e, Import::Raw(&[1; 32])).map(drop),
        service.export(&who, &e, 2, Form::Raw).map(drop),
        service.allow_export(&who, &e),
        service.set_expiry(&who, &e, None),
    ];
    for denied in denied {
        assert_eq!(denied.unwrap_err().code(), Code::Denied);
    }
}

#[test]
fn denials_are_logged_and_hidden_keys_answer_like_missing_ones() {
    let (service, tenant, name) = (service(), label("a"), label("web"));
    let all = somebody(&service, &[]);
    service.create(&call(&all), &new(&tenant, "web")).unwrap();
    let key = KeyRef { tenant: &tenant, name: &name };
    for (caveat, code) in [
        ("tenant=b", Code::NotFound),
        ("key_prefix=db-", Code::NotFound),
        ("actions=verify", Code::Denied),
        ("batch_max=0", Code::Denied),
    ] {
        let who = somebody(&service, &[caveat]);
        let before = service.log().size();
        let refused = service.sign(&call(&who), &key, None, text(b"abc")).unwrap_err();
        assert_eq!(refused.code(), code, "{caveat}");
        if code == Code::NotFound {
            let nowhere = KeyRef { tenant: &tenant, name: &label("nowhere") };
            let unknown = service.sign(&call(&all), &nowhere, None, text(b"abc")).unwrap_err();
            let as_unknown = unknown.to_string().replace("nowhere", "web");
            assert_eq!(refused.to_string(), as_unknown, "it reads as one that is not there");
        }
        let told = &service.log().tail(before, 1).unwrap()[0].record;
        assert_eq!(told.outcome, Outcome::Failed(Code::Denied), "{caveat}");
    }
    assert!(matches!(
        service.authenticate("gbk1.AAAA", &Peer::default()),
        Err(Error::Unauthenticated(_))
    ));
    assert_eq!(service.unauthenticated_count(), 1);
}

#[test]
fn a_batch_has_an_answer_and_a_record_an_item() {
    let (service, tenant) = (service(), label("a"));
    let all = somebody(&service, &[]);
    let names = ["web-1", "web-2", "db"].map(label);
    for name in &names {
        service.create(&call(&all), &new(&tenant, name.as_str())).unwrap();
    }
    let who = somebody(&service, &["key_prefix=web-", "batch_max=4"]);
    let item = |name| SignItem {
        key: KeyRef { tenant: &tenant, name },
        version: None,
        signable: text(b"abc").into(),
    };
    let nowhere = label("web-3");
    let items = [item(&names[0]), item(&names[2]), item(&nowhere), item(&names[1])];
    let before = service.log().size();
    let signed = service.sign_batch(&call(&who), &items);
    let codes: Vec<Option<Code>> =
        signed.iter().map(|answer| answer.as_ref().err().map(Error::code)).collect();
    assert_eq!(codes, [None, Some(Code::NotFound), Some(Code::NotFound), None]);
    assert_eq!(service.log().size(), before + 4);
    let told: Vec<Outcome> = last(&service, 4).iter().map(|record| record.outcome).collect();
    let failed = Outcome::Failed;
    assert_eq!(told, [Outcome::Done, failed(Code::Denied), failed(Code::NotFound), Outcome::Done]);

    let [Ok(first), _, _, Ok(second)] = &signed[..] else { panic!() };
    let verify = |name, signature| VerifyItem {
        key: KeyRef { tenant: &tenant, name },
        version: 1,
        signable: text(b"abc").into(),
        signature,
    };
    let items = [
        verify(&names[0], &first.signature[..]),
        verify(&names[1], &first.signature),
        verify(&names[2], &first.signature),
        verify(&names[1], &second.signature),
    ];
    let verdicts = service.verify_batch(&call(&who), &items);
    assert_eq!(verdicts[0], Ok(true));
    assert_eq!(verdicts[1], Ok(false));
    assert_eq!(verdicts[2].as_ref().map_err(Error::code), Err(Code::NotFound));
    assert_eq!(verdicts[3], Ok(true));
    let five = vec![items[0]; 5];
    for verdict in service.verify_batch(&call(&who), &five) {
        assert_eq!(verdict.map_err(|error| error.code()), Err(Code::Denied));
    }
}

#[test]
fn revocation_during_use_withholds_results() {
    let (service, tenant, name) = (service(), label("a"), label("web"));
    let all = somebody(&service, &[]);
    service.create(&call(&all), &new(&tenant, "web")).unwrap();
    let key = KeyRef { tenant: &tenant, name: &name };
    let who = somebody(&service, &["actions=sign"]);
    let gate::Method::Token { id } = who.method() else { panic!() };
    std::thread::scope(|scope| {
        let signer = scope.spawn(|| {
            loop {
                if let Err(error) = service.sign(&call(&who), &key, None, text(b"abc")) {
                    break error;
                }
            }
        });
        std::thread::sleep(std::time::Duration::from_millis(30));
        service.token_revoke(&call(&all), id).unwrap();
        assert_eq!(signer.join().unwrap().code(), Code::Denied);
    });
    // Everything that was answered comes before the revocation was told of, or was withheld.
    let records: Vec<Record> =
        service.log().tail(0, usize::MAX).unwrap().into_iter().map(|entry| entry.record).collect();
    let revoked = records
        .iter()
        .rposition(|told| told.key == Some(format!("token:{id}")) && told.outcome == Outcome::Done)
        .unwrap();
    let of_who = |told: &&Record| told.method.starts_with(&format!("token:{id}:"));
    let later: Vec<Outcome> =
        records[revoked..].iter().filter(of_who).map(|told| told.outcome).collect();
    let denied = Outcome::Failed(Code::Denied);
    // Results that were computed before and recorded after it were withheld. A denial may precede
    // it, because the gate knows of the revocation before the log does.
    let expected = [&[][..], &[denied], &[Outcome::Withheld], &[Outcome::Done, Outcome::Withheld]];
    assert!(expected.contains(&&later[..]), "{later:?}");
}

#[test]
fn a_new_token_is_limited_to_its_makers_permissions() {
    let service = service();
    let maker =
        somebody(&service, &["tenant=a", "key_prefix=web-", "actions=token,sign", "batch_max=2"]);
    let make = |caveats: &[&str]| {
        let caveats: Vec<Caveat> = caveats.iter().map(|text| text.parse().unwrap()).collect();
        let principal = Principal::new("other").unwrap();
        service.token_create(&call(&maker), &NewToken { principal, caveats, lifetime_ms: None })
    };
    let token = make(&["actions=sign,verify"]).unwrap();
    let held: Vec<String> = token.caveats().iter().map(Caveat::to_string).collect();
    for of_maker in ["tenant=a", "key_prefix=web-", "actions=token,sign", "batch_max=2"] {
        let sorted: Caveat = of_maker.parse().unwrap();
        assert!(held.contains(&sorted.to_string()), "{of_maker} of {held:?}");
    }
    let end = maker.caveats().iter().find(|caveat| matches!(caveat, Caveat::Expires(_))).unwrap();
    assert!(token.caveats().contains(end), "it does not outlive its maker's");
    assert!(make(&["tenant=a", "key_prefix=web-1"]).is_ok());
    for bad in ["tenant=b", "key_prefix=db"] {
        assert!(make(&[bad]).is_err(), "{bad}");
    }
    let signer = somebody(&service, &["actions=sign"]);
    let (principal, caveats) = (Principal::new("other").unwrap(), Vec::new());
    let refused = service
        .token_create(&call(&signer), &NewToken { principal, caveats, lifetime_ms: None })
        .unwrap_err();
    assert_eq!(refused.code(), Code::Denied);
}

/// A service in files that can be opened again.
struct Files {
    store: Arc<MemoryStore>,
}

impl Files {
    fn new() -> Self {
        let store = Arc::new(MemoryStore::with_id([5; 16]));
        fixture::sealer(&*store);
        Files { store }
    }

    fn open(&self, at: &Path) -> Result<Service, Error> {
        let kms = fixture::kms(self.store.clone());
        Service::open(kms, &AuditAt::Folder(at), options())
    }
}

#[test]
fn operations_fail_if_the_audit_log_is_unwritable() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("audit");
    let files = Files::new();
    let service = files.open(&at).unwrap();
    let (tenant, name, who) = (label("a"), label("web"), somebody(&service, &[]));
    service.create(&call(&who), &new(&tenant, "web")).unwrap();
    let key = KeyRef { tenant: &tenant, name: &name };
    fs::remove_file(at.join("segment-00000000")).unwrap();
    let refused = [
        service.sign(&call(&who), &key, None, text(b"abc")).map(drop),
        service.verify(&call(&who), &key, 1, text(b"abc"), &[0; 64]).map(drop),
        service.rotate(&call(&who), &key).map(drop),
        service.create(&call(&who), &new(&tenant, "other")).map(drop),
        service.show(&call(&who), &key).map(drop),
        service
            .sign_batch(
                &call(&who),
                &[SignItem { key, version: None, signable: text(b"a").into() }],
            )
            .remove(0)
            .map(drop),
    ];
    for refused in refused {
        let error = refused.unwrap_err();
        assert_eq!(error.code(), Code::AuditUnwritable);
        assert!(error.code().is_retryable());
    }
    let id = service.kms().find(&tenant, &name).unwrap();
    assert_eq!(service.kms().describe(&id).unwrap().latest, 1, "nothing was rotated");
    assert!(service.kms().find(&tenant, &label("other")).is_err());
}

#[test]
fn a_log_that_was_put_back_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let (at, older) = (folder.path().join("audit"), folder.path().join("older"));
    let files = Files::new();
    let copy = |from: &Path, to: &Path| {
        fs::remove_dir_all(to).ok();
        let copied = std::process::Command::new("cp").arg("-a").args([from, to]).status().unwrap();
        assert!(copied.success());
    };
    let use_it = |service: &Service| {
        let who = somebody(service, &[]);
        let name = format!("k{}", service.log().size());
        service.create(&call(&who), &new(&label("a"), &name)).unwrap();
        service.checkpoint().unwrap();
    };
    let service = files.open(&at).unwrap();
    use_it(&service);
    drop(service);
    copy(&at, &older);
    // It goes on as it is.
    let service = files.open(&at).unwrap();
    use_it(&service);
    drop(service);
    files.open(&at).unwrap();
    // An older log, a log that was continued elsewhere, and a missing one.
    copy(&older, &at);
    let refused = files.open(&at).err();
    assert!(matches!(refused, Some(Error::Audit(AuditError::Damaged { .. }))), "{refused:?}");
    fs::remove_dir_all(&at).unwrap();
    let refused = files.open(&at).err();
    assert!(matches!(refused, Some(Error::Audit(AuditError::Damaged { .. }))), "{refused:?}");
}
