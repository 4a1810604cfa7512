//! JSON Web Tokens: what keys sign and verify, and what the limit of a key keeps them from.

use std::cell::RefCell;
use std::sync::Arc;

use gabion_engine::ecdsa::{is_ecdsa, raw_to_der};
use gabion_kms::audit::{self, Outcome};
use gabion_kms::gate::{Peer, Principal};
use gabion_kms::jwt::{ExpectedClaims, Jwt, NewJwt, Reason};
use gabion_kms::model::{
    JWT_MAX_LIFETIME_DEFAULT_S, JWT_MAX_LIFETIME_MAX_S, KeyId, Minimum, State,
};
use gabion_kms::operations::{
    Blake3, KeyChange, Kms, NewKey, SignRequest, SignedJwt, StreamForm, StreamLen, StreamUse,
    Terms, VerifiedJwt,
};
use gabion_kms::rsa::{self, Hash, Scheme};
use gabion_kms::service::{AuditAt, Call, KeyRef, Options, Service, SignItem};
use gabion_kms::store::MemoryStore;
use gabion_kms::{Code, Error, Message, Prehash, Signable};
use serde_json::{Value, json};

use crate::clocks::{NOW, TestClock};
use crate::fixture::{lax, local, sealer, service, who};
use crate::verbs::{label, pure};

/// Seconds since 1970 of the tests' clock.
const NOW_S: u64 = NOW / 1000;

fn kms() -> (Kms, Arc<TestClock>) {
    let clock = Arc::new(TestClock::default());
    clock.jumps_to(NOW);
    (Kms::in_memory().unwrap().with_clock(clock.clone()), clock)
}

fn new(name: &str, algorithm: &str) -> NewKey {
    NewKey {
        tenant: label("a"),
        purpose: label("transit"),
        name: label(name),
        algorithm: algorithm.parse().unwrap(),
    }
}

fn create(kms: &Kms, algorithm: &str) -> KeyId {
    kms.create(&new(algorithm, algorithm)).unwrap().key
}

fn limited(kms: &Kms, name: &str, algorithm: &str, lifetime_s: u64) -> KeyId {
    let terms = Terms { jwt_max_lifetime_s: Some(lifetime_s), ..Terms::default() };
    kms.create_on(&new(name, algorithm), &terms).unwrap().key
}

fn lasting(lifetime_s: u64) -> NewJwt {
    let claims = json!({"sub": "a", "iss": "https://example.com"}).as_object().unwrap().clone();
    NewJwt { claims, lifetime_s: Some(lifetime_s), ..NewJwt::default() }
}

fn sign(kms: &Kms, id: &KeyId, lifetime_s: u64) -> Result<SignedJwt, Error> {
    let now_s = kms.clock().now_ms() / 1000;
    kms.sign_jwt(id, None, &lasting(lifetime_s).claims(now_s).unwrap())
}

fn verify(kms: &Kms, id: &KeyId, token: &str) -> VerifiedJwt {
    kms.verify_jwt(id, &Jwt::parse(token).unwrap(), &ExpectedClaims::default()).unwrap()
}

fn reason(kms: &Kms, id: &KeyId, token: &str) -> Option<Reason> {
    verify(kms, id, token).claims.err()
}

/// The bytes of a part of a token.
fn part(token: &str, place: usize) -> Vec<u8> {
    use base64ct::{Base64UrlUnpadded, Encoding};
    Base64UrlUnpadded::decode_vec(token.split('.').nth(place).unwrap()).unwrap()
}

/// A token with one part of it replaced.
fn with_part(token: &str, place: usize, bytes: &[u8]) -> String {
    use base64ct::{Base64UrlUnpadded, Encoding};
    let text = Base64UrlUnpadded::encode_string(bytes);
    let mut parts: Vec<&str> = token.split('.').collect();
    parts[place] = &text;
    parts.join(".")
}

const ALGORITHMS: [(&str, &str, usize); 8] = [
    ("ed25519", "EdDSA", 64),
    ("ecdsa-p-256", "ES256", 64),
    ("ecdsa-p-384", "ES384", 96),
    ("ecdsa-p-521", "ES512", 132),
    ("ml-dsa-44", "ML-DSA-44", 2420),
    ("ml-dsa-65", "ML-DSA-65", 3309),
    ("ml-dsa-87", "ML-DSA-87", 4627),
    ("rsa-2048", "PS256", 256),
];

/// By the public key alone, and by nothing of the service's.
fn is_signed(kms: &Kms, id: &KeyId, token: &str) -> bool {
    let (input, signature) = (token.rsplit_once('.').unwrap().0, part(token, 2));
    let public = kms.publics(id, 0, 1).unwrap().remove(0).bytes;
    let Some(algorithm) = id.algorithm.algorithm() else {
        let scheme = Scheme::Pss { hash: Hash::Sha256, salt: Some(32) };
        let digest = Hash::Sha256.digest(input.as_bytes());
        let public = rsa::PublicKey::of_pkcs1(&public).unwrap();
        return public.verify_digest(scheme, &digest, &signature);
    };
    let signature = match is_ecdsa(algorithm) {
        true => raw_to_der(algorithm, &signature).unwrap(),
        false => signature,
    };
    let key = kms.engine().signature_public(algorithm, &public).unwrap();
    let message = Message::Pure { context: b"", message: input.as_bytes() };
    kms.engine().verify(&key, message, &signature).is_ok()
}

#[test]
fn a_token_verifies_by_its_public_key_alone() {
    let (kms, _) = kms();
    for (name, alg, len) in ALGORITHMS {
        let id = create(&kms, name);
        let signed = sign(&kms, &id, 60).unwrap();
        assert_eq!((signed.alg, signed.by.version), (alg, 1));
        let header: Value = serde_json::from_slice(&part(&signed.token, 0)).unwrap();
        assert_eq!(header, json!({"alg": alg, "kid": signed.by.to_string(), "typ": "JWT"}));
        let claims: Value = serde_json::from_slice(&part(&signed.token, 1)).unwrap();
        let wanted =
            json!({"sub": "a", "iss": "https://example.com", "iat": NOW_S, "exp": NOW_S + 60});
        assert_eq!(claims, wanted);
        assert_eq!(part(&signed.token, 2).len(), len);
        assert!(is_signed(&kms, &id, &signed.token), "{name}");
        let verified = verify(&kms, &id, &signed.token);
        assert_eq!(verified.by, Some(signed.by.clone()));
        assert_eq!(Value::from(verified.claims.unwrap()), wanted);
        // Every part counts.
        let forged = with_part(&signed.token, 1, &part(&signed.token, 1)[..1]);
        assert_eq!(reason(&kms, &id, &forged), Some(Reason::Signature));
        for at in [0, len / 2, len - 1] {
            let mut signature = part(&signed.token, 2);
            signature[at] ^= 1;
            let forged = with_part(&signed.token, 2, &signature);
            assert_eq!(reason(&kms, &id, &forged), Some(Reason::Signature), "{name} {at}");
        }
        for signature in [&[][..], &part(&signed.token, 2)[1..], &[0; 64], &[0; 5000]] {
            let forged = with_part(&signed.token, 2, signature);
            assert_eq!(reason(&kms, &id, &forged), Some(Reason::Signature), "{name}");
        }
        // A token says nothing of what verifies it.
        for alg in ["none", "HS256", "RS256", "Ed25519"] {
            let header =
                json!({"alg": alg, "kid": signed.by.to_string(), "typ": "JWT"}).to_string();
            let forged = with_part(&signed.token, 0, header.as_bytes());
            assert_eq!(reason(&kms, &id, &forged), Some(Reason::Alg));
        }
    }
}

#[test]
fn keys_of_other_algorithms_sign_no_tokens() {
    let (kms, _) = kms();
    for algorithm in [
        "slh-dsa-sha2-128f",
        "hmac-sha-256",
        "xaes-256-gcm",
        "ml-kem-768",
        "mldsa65-ed25519-sha512-draft19",
    ] {
        let id = create(&kms, algorithm);
        assert!(matches!(sign(&kms, &id, 60), Err(Error::Unsupported(_))), "{algorithm}");
        let limit = kms.configure(&id, &[KeyChange::LimitJwt(60)]);
        assert!(matches!(limit, Err(Error::Unsupported(_))), "{algorithm}");
        let terms = Terms { jwt_max_lifetime_s: Some(60), ..Terms::default() };
        let made = kms.create_on(&new("other", algorithm), &terms);
        assert!(matches!(made, Err(Error::Unsupported(_))), "{algorithm}");
    }
}

/// The token names the version, and the caller the key.
#[test]
fn a_token_is_of_the_version_that_it_names() {
    let (kms, _) = kms();
    let (id, other) = (create(&kms, "ed25519"), create(&kms, "ml-dsa-44"));
    let first = sign(&kms, &id, 60).unwrap();
    kms.rotate(&id).unwrap();
    let second = sign(&kms, &id, 60).unwrap();
    assert_eq!((first.by.version, second.by.version), (1, 2));
    assert_eq!((reason(&kms, &id, &first.token), reason(&kms, &id, &second.token)), (None, None));
    assert!(verify(&kms, &other, &first.token).by.is_none());
    let twin = kms.create(&new("twin", "ed25519")).unwrap().key;
    assert_eq!(reason(&kms, &twin, &first.token), Some(Reason::Kid));
    // A signature of one version under the name of another.
    let renamed = with_part(&first.token, 0, &part(&second.token, 0));
    assert_eq!(reason(&kms, &id, &renamed), Some(Reason::Signature));
    for version in ["#v3", "#v4294967295"] {
        let kid = second.by.to_string().replace("#v2", version);
        let header = json!({"alg": "EdDSA", "kid": kid, "typ": "JWT"}).to_string();
        let unknown = with_part(&first.token, 0, header.as_bytes());
        assert_eq!(reason(&kms, &id, &unknown), Some(Reason::Version));
    }
    kms.set_state(&id, 1, State::Disabled).unwrap();
    assert_eq!(reason(&kms, &id, &first.token), Some(Reason::Version));
    kms.set_state(&id, 1, State::Enabled).unwrap();
    kms.set_minimum(&id, Minimum::Verify, 2).unwrap();
    assert_eq!(reason(&kms, &id, &first.token), Some(Reason::Version));
    kms.set_minimum(&id, Minimum::Decrypt, 2).unwrap();
    kms.trim(&id, 2).unwrap();
    assert_eq!(reason(&kms, &id, &first.token), Some(Reason::Version));
    assert_eq!(reason(&kms, &id, &second.token), None);
    kms.delete(&id).unwrap();
    let token = Jwt::parse(&second.token).unwrap();
    assert_eq!(kms.verify_jwt(&id, &token, &ExpectedClaims::default()), Err(Error::Deleted));
    assert_eq!(sign(&kms, &id, 60), Err(Error::Deleted));
}

#[test]
fn tokens_live_no_longer_than_the_key_allows() {
    let (kms, clock) = kms();
    let of = |id: &KeyId, lifetime_s| match sign(&kms, id, lifetime_s) {
        Ok(_) => true,
        Err(Error::Parameter(why)) if why.contains("the key signs tokens of at most") => false,
        Err(other) => panic!("{other}"),
    };
    let usual = create(&kms, "ed25519");
    assert!(of(&usual, JWT_MAX_LIFETIME_DEFAULT_S) && !of(&usual, JWT_MAX_LIFETIME_DEFAULT_S + 1));
    let id = limited(&kms, "limited", "ed25519", 60);
    assert_eq!(kms.describe(&id).unwrap().jwt_max_lifetime_s, Some(60));
    assert!(of(&id, 60) && !of(&id, 61));
    // It counts from now, whatever the claims say of their beginning.
    for beside in [json!({"iat": 1}), json!({"nbf": NOW_S + 50}), json!({"iat": NOW_S + 59})] {
        let mut claims = beside.as_object().unwrap().clone();
        claims.insert("exp".to_owned(), (NOW_S + 61).into());
        let claims = NewJwt { claims, ..NewJwt::default() }.claims(NOW_S).unwrap();
        assert!(matches!(kms.sign_jwt(&id, None, &claims), Err(Error::Parameter(_))));
    }
    // The limit can be another, and cannot be none.
    kms.configure(&id, &[KeyChange::LimitJwt(120)]).unwrap();
    assert!(of(&id, 120) && !of(&id, 121));
    for wrong in [0, JWT_MAX_LIFETIME_MAX_S + 1, u64::MAX] {
        let refused = kms.configure(&id, &[KeyChange::LimitJwt(wrong)]);
        assert!(matches!(refused, Err(Error::Parameter(_))), "{wrong}");
    }
    let token = sign(&kms, &id, 60).unwrap().token;
    clock.goes_on(59_999);
    assert_eq!(reason(&kms, &id, &token), None);
    clock.goes_on(1);
    assert_eq!(reason(&kms, &id, &token), Some(Reason::Expired));
    // A key that has expired signs none, and verifies.
    let token = sign(&kms, &id, 60).unwrap().token;
    kms.configure(&id, &[KeyChange::Expiry(Some(NOW))]).unwrap();
    assert_eq!(sign(&kms, &id, 60), Err(Error::Expired));
    assert_eq!(reason(&kms, &id, &token), None);
}

/// Each way in which bytes are signed that the service did not read: by any of them a token of any
/// lifetime could be signed.
#[test]
fn a_key_with_a_limit_signs_nothing_but_tokens() {
    let (kms, _) = kms();
    let refuses = |what: &str, refused: Option<Error>| {
        assert_eq!(refused, Some(Error::JwtRequired), "{what}");
    };
    for (algorithm, ..) in ALGORITHMS {
        let id = create(&kms, algorithm);
        let old = kms.sign(&id, None, pure(b"m")).unwrap();
        kms.configure(&id, &[KeyChange::LimitJwt(60)]).unwrap();
        kms.rotate(&id).unwrap();
        kms.set_minimum(&id, Minimum::Sign, 1).unwrap();
        for version in [None, Some(1), Some(2)] {
            refuses("sign", kms.sign(&id, version, pure(b"m")).err());
            let digest = [7; 64];
            let hash = Prehash::Sha2_512;
            let prehash = Message::Prehash { context: b"", hash, digest: &digest };
            refuses("prehash", kms.sign(&id, version, prehash).err());
            refuses("mu", kms.sign(&id, version, Message::Mu(&digest)).err());
            refuses("blake3", kms.sign_blake3(&id, version, &Blake3::new([7; 32])).err());
            for scheme in [
                Scheme::Pss { hash: Hash::Sha256, salt: None },
                Scheme::Pkcs1 { hash: Hash::Sha256 },
            ] {
                let signable = Signable::Digest { scheme, digest: &[7; 32] };
                refuses("rsa", kms.sign(&id, version, signable).err());
            }
            let len = StreamLen { of_message: None, whole_max: 1000 };
            let stream = kms.stream(&id, version, StreamUse::Sign, StreamForm::default(), len);
            refuses("stream", stream.err());
            let item = SignRequest { key: &id, version, signable: pure(b"m").into() };
            for signed in kms.sign_batch(&[item, item]) {
                refuses("batch", signed.err());
            }
        }
        // Earlier signatures still verify.
        assert!(kms.verify(&old.by, pure(b"m"), &old.signature).unwrap());
        let token = sign(&kms, &id, 60).unwrap();
        assert_eq!((token.by.version, reason(&kms, &id, &token.token)), (2, None));
    }
    // A message that began before is not signed after.
    let id = create(&kms, "ed25519-zip215");
    assert!(kms.configure(&id, &[KeyChange::LimitJwt(60)]).is_err());
    let id = kms.create(&new("begun", "ml-dsa-44")).unwrap().key;
    let len = StreamLen { of_message: None, whole_max: 1000 };
    let mut stream = kms.stream(&id, None, StreamUse::Sign, StreamForm::default(), len).unwrap();
    kms.configure(&id, &[KeyChange::LimitJwt(60)]).unwrap();
    stream.add(b"m").unwrap();
    refuses("stream", kms.sign_stream(&stream).err());
}

/// The service reads the claims of the tokens it signs, which a key that requires `mu` does not
/// allow.
#[test]
fn a_key_requires_mu_or_tokens() {
    let (kms, _) = kms();
    let id = create(&kms, "ml-dsa-44");
    let twice = kms.configure(&id, &[KeyChange::LimitJwt(60), KeyChange::RequireMu]);
    assert!(matches!(twice, Err(Error::Unsupported(_))), "{twice:?}");
    kms.configure(&id, &[KeyChange::RequireMu]).unwrap();
    assert!(matches!(kms.configure(&id, &[KeyChange::LimitJwt(60)]), Err(Error::Unsupported(_))));
    assert_eq!(sign(&kms, &id, 60), Err(Error::MuRequired));
    let terms = Terms { requires_mu: true, jwt_max_lifetime_s: Some(60), ..Terms::default() };
    let made = kms.create_on(&new("both", "ml-dsa-44"), &terms);
    assert!(matches!(made, Err(Error::Unsupported(_))), "{made:?}");
}

#[test]
fn the_log_has_digests_of_claims_and_tokens() {
    let options = Options { gate: lax(), ..Options::default() };
    let service = Service::open(kms().0, &AuditAt::Memory, options).unwrap();
    let who = who(&service);
    let (call, tenant, name) = (Call::new(&who, "r-1"), label("a"), label("k"));
    service.create(&call, &new("k", "ed25519")).unwrap();
    let key = KeyRef { tenant: &tenant, name: &name };
    let (signed, exp_s) = service.sign_jwt(&call, &key, None, &lasting(60)).unwrap();
    assert_eq!(exp_s, NOW_S + 60);
    let last = || service.log().tail(service.log().size() - 1, 1).unwrap().remove(0).record;
    let told = last();
    assert_eq!((told.action.as_str(), told.outcome), ("sign_jwt", Outcome::Done));
    assert_eq!(told.key, Some(signed.by.to_string()));
    assert_eq!(told.input, Some(audit::Digest::of(&part(&signed.token, 1))));
    assert_eq!(told.output, Some(audit::Digest::of(signed.token.as_bytes())));
    let verify = |token: &str| {
        let token = Jwt::parse(token).unwrap();
        service.verify_jwt(&call, &key, &token, &ExpectedClaims::default()).unwrap().claims
    };
    assert!(verify(&signed.token).is_ok());
    let verified = last();
    assert_eq!((verified.action.as_str(), verified.outcome), ("verify", Outcome::Done));
    assert_eq!(
        (&verified.key, verified.input, verified.output),
        (&told.key, told.input, told.output)
    );
    let forged = with_part(&signed.token, 2, &[0; 64]);
    assert_eq!(verify(&forged), Err(Reason::Signature));
    assert_eq!(last().outcome, Outcome::Wrong);
    let refused = service.sign_jwt(&call, &key, None, &lasting(JWT_MAX_LIFETIME_DEFAULT_S + 1));
    assert_eq!(refused.map(drop).unwrap_err().code(), Code::BadRequest);
    let told = last();
    assert_eq!(
        (told.action.as_str(), told.outcome),
        ("sign_jwt", Outcome::Failed(Code::BadRequest))
    );
    let leeway = ExpectedClaims { leeway_s: 61, ..ExpectedClaims::default() };
    let token = Jwt::parse(&signed.token).unwrap();
    assert!(matches!(service.verify_jwt(&call, &key, &token, &leeway), Err(Error::Parameter(_))));
}

/// A caller who may sign tokens may not sign anything else, and the other way around.
#[test]
fn tokens_are_an_action_of_their_own() {
    let options = Options { gate: lax(), ..Options::default() };
    let service = Service::open(kms().0, &AuditAt::Memory, options).unwrap();
    let local = local(&service);
    service.create(&Call::new(&local, "r-1"), &new("k", "ed25519")).unwrap();
    let (tenant, name) = (label("a"), label("k"));
    let key = KeyRef { tenant: &tenant, name: &name };
    let token = service.first_token(&Principal::new("me").unwrap()).unwrap();
    for (actions, may_jwt, may_sign) in
        [("sign_jwt", true, false), ("sign", false, true), ("verify", false, false)]
    {
        let token = token.attenuate(format!("actions={actions}").parse().unwrap()).unwrap();
        let who = service.authenticate(&token.to_string(), &Peer::default()).unwrap();
        let call = Call::new(&who, "r-1");
        let code = |result: Result<(), Error>| result.err().map(|error| error.code());
        let refused = |may: bool| (!may).then_some(Code::Denied);
        let jwt = service.sign_jwt(&call, &key, None, &lasting(60)).map(drop);
        assert_eq!(code(jwt), refused(may_jwt), "{actions}");
        assert_eq!(code(service.sign(&call, &key, None, pure(b"m")).map(drop)), refused(may_sign));
        let item = SignItem { key, version: None, signable: pure(b"m").into() };
        assert_eq!(code(service.sign_batch(&call, &[item]).remove(0).map(drop)), refused(may_sign));
    }
}

thread_local! {
    /// Runs after a computation and before its answer.
    static MEANWHILE: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
}

/// A limit that is lowered while a token is signed keeps that token back.
#[test]
fn jwt_limits_are_rechecked_before_release() {
    let clock = Arc::new(TestClock::default());
    clock.jumps_to(NOW);
    let store = Arc::new(MemoryStore::new());
    sealer(&*store);
    let service = Arc::new(service(store, clock, &AuditAt::Memory).unwrap());
    let who = who(&service);
    let run_blocking = |act: &mut dyn FnMut()| {
        act();
        if let Some(run) = MEANWHILE.with(|meanwhile| meanwhile.borrow_mut().take()) {
            run();
        }
    };
    let call = Call { run_blocking, ..Call::new(&who, "r-1") };
    let (tenant, name) = (label("a"), label("k"));
    let key = KeyRef { tenant: &tenant, name: &name };
    // One that takes long, and so is run aside.
    service.create(&call, &new("k", "rsa-3072")).unwrap();
    service.configure(&call, &key, &[KeyChange::LimitJwt(3600)]).unwrap();
    assert!(service.sign_jwt(&call, &key, None, &lasting(3600)).is_ok());
    let other = service.clone();
    MEANWHILE.with(|meanwhile| {
        *meanwhile.borrow_mut() = Some(Box::new(move || {
            let id = other.kms().find(&label("a"), &label("k")).unwrap();
            other.kms().configure(&id, &[KeyChange::LimitJwt(60)]).unwrap();
        }));
    });
    let refused = service.sign_jwt(&call, &key, None, &lasting(3600)).map(drop).unwrap_err();
    assert_eq!(refused.code(), Code::BadRequest);
    let told = service.log().tail(service.log().size() - 1, 1).unwrap().remove(0).record;
    assert_eq!((told.action.as_str(), told.outcome), ("sign_jwt", Outcome::Withheld));
}
