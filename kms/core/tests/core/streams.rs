//! Messages that come in pieces.

use std::sync::Arc;

use gabion_kms::audit::{self, Outcome, Record};
use gabion_kms::clock::Clock;
use gabion_kms::gate::{self, Caller, Peer, Principal};
use gabion_kms::model::{Capability, KeyAlgorithm, Label, Minimum, State, VersionId};
use gabion_kms::operations::{Kms, NewKey, StreamForm, StreamLen, StreamUse};
use gabion_kms::rsa::{Hash, Scheme};
use gabion_kms::service::{AuditAt, Call, KeyRef, Options, QuotaOptions, Service, StreamedMessage};
use gabion_kms::{Code, Error, Message, Prehash, Signable};

use crate::fixture::lax;
use crate::verbs::{create, label};

/// Round the blocks of SHA-2 (64, 128) and SHA-3 (72 to 168), with what stands before a message,
/// and round a piece.
const SIZES: [usize; 24] = [
    0, 1, 55, 56, 63, 64, 65, 69, 70, 71, 72, 103, 104, 111, 112, 127, 128, 129, 135, 136, 137,
    167, 168, 169,
];

const WHOLE_MAX: usize = 4096;

fn message(size: usize) -> Vec<u8> {
    (0..size).map(|at| (at % 251) as u8).collect()
}

/// A message in pieces, cut at places that a seed draws; some pieces are empty.
fn pieces(message: &[u8], mut seed: u64) -> Vec<&[u8]> {
    let (mut rest, mut pieces) = (message, Vec::new());
    while !rest.is_empty() {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let most = [1, 3, 64, 136, 1000, 100_000][(seed >> 33) as usize % 6];
        let len = ((seed >> 40) as usize % (most + 1)).min(rest.len());
        let (piece, later) = rest.split_at(len);
        pieces.push(piece);
        rest = later;
    }
    pieces
}

fn len(message: &[u8]) -> StreamLen {
    StreamLen { of_message: Some(message.len() as u64), whole_max: WHOLE_MAX }
}

/// Returns a key for every signing algorithm. Slow algorithms are left out: they hash messages in
/// the same way as the others of their family.
fn signers(kms: &Kms) -> Vec<VersionId> {
    let signs = |algorithm: &KeyAlgorithm| {
        let name = algorithm.to_string();
        let is_slow = name.contains("rsa") && !name.contains("2048")
            || name.starts_with("slh") && !name.ends_with("128f");
        matches!(algorithm.does(), Capability::Sign | Capability::SignAndEncrypt) && !is_slow
    };
    let algorithms: Vec<String> =
        KeyAlgorithm::all().filter(signs).map(|algorithm| algorithm.to_string()).collect();
    assert!(algorithms.len() > 15, "{algorithms:?}");
    (0..).zip(&algorithms).map(|(at, name)| create(kms, &format!("k{at}"), name)).collect()
}

/// Returns the message that signing without a stream takes, in a form.
fn whole<'a>(form: &'a StreamForm, message: &'a [u8], digest: &'a mut Vec<u8>) -> Message<'a> {
    let context = &form.context[..];
    match form.hash {
        None => Message::Pure { context, message },
        Some(hash) => {
            *digest = hash.digest(message);
            Message::Prehash { context, hash, digest }
        }
    }
}

fn streamed(
    kms: &Kms,
    by: &VersionId,
    form: &StreamForm,
    message: &[u8],
    seed: u64,
) -> Result<Vec<u8>, Error> {
    let (what, form) = (StreamUse::Sign, form.clone());
    let mut stream = kms.stream(&by.key, None, what, form, len(message))?;
    for piece in pieces(message, seed) {
        stream.add(piece)?;
    }
    let signed = kms.sign_stream(&stream)?;
    assert_eq!(signed.by, *by);
    Ok(signed.signature)
}

fn verified(
    kms: &Kms,
    by: &VersionId,
    form: &StreamForm,
    message: &[u8],
    signature: &[u8],
) -> Result<bool, Error> {
    let (what, form) = (StreamUse::Verify(signature.len()), form.clone());
    let mut stream = kms.stream(&by.key, Some(by.version), what, form, len(message))?;
    for piece in pieces(message, 7) {
        stream.add(piece)?;
    }
    kms.verify_stream(&stream, signature)
}

/// Signatures of pieces and of the whole message verify in either way, and both ways refuse the
/// same input alike.
fn is_the_same(kms: &Kms, by: &VersionId, form: &StreamForm, message: &[u8]) -> bool {
    let what = format!("{} {form:?} {}", by.key.algorithm, message.len());
    let (mut digest, mut other) = (Vec::new(), Vec::new());
    let of_whole = whole(form, message, &mut digest);
    let signed = match kms.sign(&by.key, None, of_whole) {
        Ok(signed) => signed.signature,
        Err(error) => {
            let refused = streamed(kms, by, form, message, 1).unwrap_err();
            assert_eq!((refused.code(), refused), (error.code(), error), "{what}");
            return false;
        }
    };
    let in_pieces = streamed(kms, by, form, message, message.len() as u64).unwrap();
    assert_eq!(kms.verify(by, of_whole, &in_pieces), Ok(true), "{what}");
    assert_eq!(verified(kms, by, form, message, &signed), Ok(true), "{what}");
    let longer = [message, &[0]].concat();
    assert_eq!(verified(kms, by, form, &longer, &signed), Ok(false), "{what}");
    assert_eq!(kms.verify(by, whole(form, &longer, &mut other), &in_pieces), Ok(false), "{what}");
    let none = verified(kms, by, form, message, &[]).unwrap_err();
    assert_eq!(none.code(), Code::Malformed, "{what}");
    true
}

#[test]
fn pieces_are_signed_as_the_message_that_they_are() {
    let kms = Kms::in_memory().unwrap();
    let hashes = [None, Some(Prehash::Sha2_256), Some(Prehash::Sha2_512), Some(Prehash::Shake128)];
    let contexts = [Vec::new(), b"context".to_vec(), vec![7; 255], vec![7; 256]];
    let mut forms = 0;
    for by in signers(&kms) {
        let is_slow = by.key.algorithm.to_string().starts_with("slh");
        for hash in hashes {
            // One that takes long has a context or none as the others of its family have.
            for context in &contexts[..if is_slow { 2 } else { 4 }] {
                let form = StreamForm { context: context.clone(), hash, rsa: None };
                forms += usize::from(is_the_same(&kms, &by, &form, &message(137)));
            }
            let form = StreamForm { hash, ..StreamForm::default() };
            for size in SIZES.into_iter().filter(|size| !is_slow || [0, 1].contains(size)) {
                is_the_same(&kms, &by, &form, &message(size));
            }
        }
    }
    assert!(forms > 60, "{forms}");
}

#[test]
fn every_hash_of_a_form_takes_pieces() {
    let kms = Kms::in_memory().unwrap();
    let by = create(&kms, "k", "ml-dsa-44");
    for hash in Prehash::all() {
        let form = StreamForm { context: b"c".to_vec(), hash: Some(hash), rsa: None };
        for size in SIZES {
            assert!(is_the_same(&kms, &by, &form, &message(size)), "{hash:?}");
        }
    }
}

#[test]
fn a_long_message_is_signed_in_pieces() {
    let kms = Kms::in_memory().unwrap();
    let long = message(5 << 20);
    for (name, algorithm, hash) in [
        ("a", "ml-dsa-65", None),
        ("a", "ml-dsa-65", Some(Prehash::Sha2_512)),
        ("b", "ecdsa-p-256", None),
        ("c", "rsa-2048", None),
        ("d", "slh-dsa-sha2-128f", Some(Prehash::Sha2_256)),
    ] {
        let name = &format!("{name}{}", hash.is_some());
        let by = create(&kms, name, algorithm);
        let form = StreamForm { hash, ..StreamForm::default() };
        assert!(is_the_same(&kms, &by, &form, &long), "{algorithm}");
    }
}

#[test]
fn rsa_signs_streams_with_the_requested_scheme() {
    let kms = Kms::in_memory().unwrap();
    let (by, other) = (create(&kms, "r", "rsa-2048"), create(&kms, "e", "ed25519"));
    let message = message(1000);
    for hash in Hash::ALL {
        for scheme in [Scheme::Pss { hash, salt: Some(20) }, Scheme::Pkcs1 { hash }] {
            let form = StreamForm { rsa: Some(scheme), ..StreamForm::default() };
            let digest = hash.digest(&message);
            let in_pieces = streamed(&kms, &by, &form, &message, 3).unwrap();
            let signable = Signable::Digest { scheme, digest: &digest };
            assert_eq!(kms.verify(&by, signable, &in_pieces), Ok(true));
            let signed = kms.sign(&by.key, None, signable).unwrap().signature;
            assert_eq!(verified(&kms, &by, &form, &message, &signed), Ok(true));
            assert_eq!(verified(&kms, &by, &form, &message[1..], &signed), Ok(false));
            let short = verified(&kms, &by, &form, &message, &signed[1..]);
            assert_eq!(short.unwrap_err().code(), Code::Malformed);
            let refused = streamed(&kms, &other, &form, &message, 3).unwrap_err();
            assert_eq!(refused.code(), Code::Unsupported);
        }
        let form = StreamForm {
            rsa: Some(Scheme::Pss { hash, salt: Some(300) }),
            ..StreamForm::default()
        };
        let refused = streamed(&kms, &by, &form, &message, 3).unwrap_err();
        assert_eq!(refused.code(), Code::BadRequest, "a salt that is too long");
    }
}

#[test]
fn tags_of_pieces_are_those_of_the_message() {
    let kms = Kms::in_memory().unwrap();
    for algorithm in ["hmac-sha-256", "hmac-sha-384", "hmac-sha-512"] {
        let by = create(&kms, algorithm, algorithm);
        let begin = |what, message: &[u8]| {
            let mut stream =
                kms.stream(&by.key, None, what, StreamForm::default(), len(message))?;
            pieces(message, 5).into_iter().try_for_each(|piece| stream.add(piece))?;
            Ok::<_, Error>(stream)
        };
        for size in SIZES.into_iter().chain([1 << 20]) {
            let message = message(size);
            let tag = kms.hmac(&by.key, None, &message).unwrap().tag;
            let made = kms.hmac_stream(&begin(StreamUse::Tag, &message).unwrap()).unwrap();
            assert_eq!((&made.tag, &made.by), (&tag, &by), "{algorithm} {size}");
            let verify = begin(StreamUse::VerifyTag(tag.len()), &message).unwrap();
            assert_eq!(kms.verify_hmac_stream(&verify, &tag), Ok(true));
            let mut wrong = tag.clone();
            wrong[0] ^= 1;
            assert_eq!(kms.verify_hmac_stream(&verify, &wrong), Ok(false));
            let short = kms.verify_hmac_stream(&verify, &tag[1..]).unwrap_err();
            assert_eq!(short.code(), Code::Malformed);
            let short = begin(StreamUse::VerifyTag(tag.len() - 1), &message).err().unwrap();
            assert_eq!(short.code(), Code::Malformed);
            // A stream can only be used for the operation it was begun for.
            assert_eq!(kms.sign_stream(&verify).unwrap_err().code(), Code::Unsupported);
        }
        let signs = begin(StreamUse::Sign, b"m").err().unwrap();
        assert_eq!(signs.code(), Code::Unsupported);
    }
}

#[test]
fn a_message_that_has_to_be_there_whole_is_bounded_and_the_error_says_what_is_not() {
    let kms = Kms::in_memory().unwrap();
    for (algorithm, is_by_digest) in [
        ("ed25519", false),
        ("slh-dsa-sha2-128f", true),
        ("fn-dsa-512-draft", true),
        ("falcon-512", false),
    ] {
        let by = create(&kms, algorithm, algorithm);
        let refused = |of_message: Option<u64>, size: usize| {
            let len = StreamLen { of_message, whole_max: WHOLE_MAX };
            let form = StreamForm::default();
            let mut stream = kms.stream(&by.key, None, StreamUse::Sign, form, len)?;
            for piece in message(size).chunks(100) {
                stream.add(piece)?;
            }
            kms.sign_stream(&stream).map(drop)
        };
        for of_message in [None, Some(WHOLE_MAX as u64)] {
            assert_eq!(refused(of_message, WHOLE_MAX), Ok(()), "{algorithm}");
        }
        for (of_message, size) in [(None, WHOLE_MAX + 1), (Some(WHOLE_MAX as u64 + 1), 0)] {
            let Err(Error::Whole { most, by_digest, .. }) = refused(of_message, size) else {
                panic!("{algorithm}")
            };
            assert_eq!((most, by_digest), (WHOLE_MAX, is_by_digest), "{algorithm}");
        }
    }
}

/// A service, and who may do everything there.
struct World {
    service: Service,
    who: Caller,
    tenant: Label,
}

impl World {
    fn new(kms: Kms, quota: QuotaOptions) -> World {
        let options = Options { gate: lax(), quota, ..Options::default() };
        let service = Service::open(kms, &AuditAt::Memory, options).unwrap();
        let token = service.first_token(&Principal::new("ci").unwrap()).unwrap().to_string();
        let who = service.authenticate(&token, &Peer::default()).unwrap();
        World { service, who, tenant: label("a") }
    }

    fn usual() -> World {
        World::new(Kms::in_memory().unwrap(), QuotaOptions::default())
    }

    fn call(&self) -> Call<'_> {
        Call::new(&self.who, "r")
    }

    fn create(&self, name: &Label, algorithm: &str) {
        let (tenant, purpose, name) = (self.tenant.clone(), label("transit"), name.clone());
        let algorithm = algorithm.parse().unwrap();
        self.service.create(&self.call(), &NewKey { tenant, purpose, name, algorithm }).unwrap();
    }

    fn key<'a>(&'a self, name: &'a Label) -> KeyRef<'a> {
        KeyRef { tenant: &self.tenant, name }
    }

    fn begin(
        &self,
        name: &Label,
        version: Option<u32>,
        what: StreamUse,
        form: StreamForm,
    ) -> Result<StreamedMessage, Error> {
        let len = StreamLen { of_message: None, whole_max: WHOLE_MAX };
        let mut came =
            self.service.begin_stream(&self.call(), &self.key(name), version, (what, form), len)?;
        pieces(&message(300), 9).into_iter().try_for_each(|piece| came.add(piece))?;
        Ok(came)
    }

    /// The last record, without what differs each time.
    fn last(&self) -> Record {
        let size = self.service.log().size();
        let entries = self.service.log().tail(size - 1, usize::MAX).unwrap();
        let mut record = entries.into_iter().next_back().unwrap().record;
        record.time_ms = 0;
        record
    }
}

#[test]
fn streams_are_logged_like_whole_messages() {
    let world = World::usual();
    let (call, message) = (world.call(), message(300));
    let hash = Some(Prehash::Sha2_512);
    let scheme = Scheme::Pkcs1 { hash: Hash::Sha512 };
    for (algorithm, hash, rsa) in [
        ("ml-dsa-44", None, None),
        ("ml-dsa-65", hash, None),
        ("ed25519", None, None),
        ("ecdsa-p-256", None, None),
        ("rsa-2048", None, None),
        ("rsa-2048", hash, None),
        ("rsa-2048", hash, Some(scheme)),
    ] {
        let name = label(&format!("{algorithm}{}{}", hash.is_some(), rsa.is_some()));
        world.create(&name, algorithm);
        let (key, form) = (world.key(&name), StreamForm { context: Vec::new(), hash, rsa });
        let mut digest = Vec::new();
        let whole = whole(&form, &message, &mut digest);
        let signed = match rsa {
            None => world.service.sign(&call, &key, None, whole),
            Some(scheme) => {
                let digest = &scheme.hash().digest(&message);
                world.service.sign(&call, &key, None, Signable::Digest { scheme, digest })
            }
        };
        let signature = signed.unwrap().signature;
        let told = Record { output: None, ..world.last() };
        let came = world.begin(&name, None, StreamUse::Sign, form.clone()).unwrap();
        let size = world.service.log().size();
        let signed = world.service.sign_stream(&call, &key, &came).unwrap();
        assert_eq!(world.service.log().size(), size + 1);
        let output = Some(audit::Digest::of(&signed.signature));
        assert_eq!(world.last(), Record { output, ..told.clone() }, "{name}");

        let what = StreamUse::Verify(signature.len());
        let came = world.begin(&name, Some(1), what, form).unwrap();
        for (signature, outcome) in
            [(signature.clone(), Outcome::Done), (vec![1; signature.len()], Outcome::Wrong)]
        {
            let is_its = world.service.verify_stream(&call, &key, &came, &signature);
            // Bytes that are not a valid ECDSA encoding are wrong, too.
            assert_eq!(is_its.unwrap(), outcome == Outcome::Done);
            let (action, output) = (gate::Action::Verify, Some(audit::Digest::of(&signature)));
            let told = Record { action, output, outcome, ..told.clone() };
            assert_eq!(world.last(), told, "{name}");
        }
    }
    let name = label("tags");
    world.create(&name, "hmac-sha-256");
    let key = world.key(&name);
    let tag = world.service.hmac(&call, &key, None, &message).unwrap().tag;
    let told = world.last();
    let came = world.begin(&name, None, StreamUse::Tag, StreamForm::default()).unwrap();
    assert_eq!(world.service.hmac_stream(&call, &key, &came).unwrap().tag, tag);
    assert_eq!(world.last(), told);
    assert!(world.service.verify_hmac(&call, &key, 1, &message, &tag).unwrap());
    let told = world.last();
    let what = StreamUse::VerifyTag(32);
    let came = world.begin(&name, None, what, StreamForm::default()).unwrap();
    assert!(world.service.verify_hmac_stream(&call, &key, &came, &tag).unwrap());
    assert_eq!(world.last(), told);
}

#[test]
fn withdrawal_during_a_stream_is_honored() {
    let world = World::usual();
    let (service, call) = (&world.service, world.call());
    let begin = |name: &Label, version| {
        let (what, form) = (StreamUse::Sign, StreamForm::default());
        world.begin(name, version, what, form).unwrap()
    };
    let refused = |name: &Label, came: &StreamedMessage, code: Code| {
        let error = service.sign_stream(&call, &world.key(name), came).unwrap_err();
        assert_eq!(error.code(), code, "{error}");
        let told = world.last();
        assert_eq!((told.outcome, told.output), (Outcome::Failed(code), None));
        assert_eq!(told.input, Some(audit::Digest::of(&message(300))));
    };
    let name = label("k");
    world.create(&name, "ml-dsa-44");
    let key = world.key(&name);

    // A rotation withdraws nothing: the version of the beginning signs, and its own mu.
    let came = begin(&name, None);
    service.rotate(&call, &key).unwrap();
    let signed = service.sign_stream(&call, &key, &came).unwrap();
    assert_eq!(signed.by.version, 1);
    let text = message(300);
    let whole = Message::Pure { context: b"", message: &text };
    assert!(service.verify(&call, &key, 1, whole, &signed.signature).unwrap());
    // A request that names the version is rejected, as without streaming.
    service.set_minimum(&call, &key, Minimum::Sign, 1).unwrap();
    let came = begin(&name, Some(1));
    service.set_minimum(&call, &key, Minimum::Sign, 2).unwrap();
    refused(&name, &came, Code::VersionNotAllowed);
    let came = begin(&name, None);
    service.set_state(&call, &key, 2, State::Disabled).unwrap();
    refused(&name, &came, Code::VersionDisabled);
    service.set_state(&call, &key, 2, State::Enabled).unwrap();
    // A verdict is a use, too.
    let verify = StreamUse::Verify(signed.signature.len());
    let came = world.begin(&name, Some(1), verify, StreamForm::default()).unwrap();
    service.set_minimum(&call, &key, Minimum::Verify, 2).unwrap();
    service.set_minimum(&call, &key, Minimum::Decrypt, 2).unwrap();
    service.trim(&call, &key, 2).unwrap();
    let error = service.verify_stream(&call, &key, &came, &signed.signature).unwrap_err();
    assert_eq!(error.code(), Code::VersionDestroyed);
    let came = begin(&name, None);
    service.delete(&call, &key).unwrap();
    refused(&name, &came, Code::KeyDeleted);
    service.restore(&call, &key).unwrap();
    // Another key of the same name is not the one that was meant.
    let came = begin(&name, None);
    service.delete(&call, &key).unwrap();
    service.destroy(&call, &key).unwrap();
    world.create(&name, "ml-dsa-44");
    let error = service.sign_stream(&call, &key, &came).unwrap_err();
    assert!([Code::NotFound, Code::KeyDestroyed].contains(&error.code()), "{error}");
    // A caller whose permission ended.
    let came = begin(&name, None);
    let id = match world.who.method() {
        gate::Method::Token { id } => id,
        _ => panic!("no token"),
    };
    service.token_revoke(&call, id).unwrap();
    let error = service.sign_stream(&call, &key, &came).unwrap_err();
    assert_eq!(error.code(), Code::Denied);
    assert_eq!(world.last().outcome, Outcome::Failed(Code::Denied));
}

#[test]
fn a_key_that_expires_while_a_message_comes_makes_nothing() {
    struct SteppingClock(std::sync::atomic::AtomicU64);
    impl Clock for SteppingClock {
        fn now_ms(&self) -> u64 {
            self.0.load(std::sync::atomic::Ordering::Relaxed)
        }
        fn steady_ms(&self) -> u64 {
            0
        }
    }
    let clock = Arc::new(SteppingClock(1_000_000.into()));
    let kms = Kms::in_memory().unwrap().with_clock(clock.clone());
    let world = World::new(kms, QuotaOptions::default());
    let name = label("k");
    world.create(&name, "ml-dsa-44");
    world.service.set_expiry(&world.call(), &world.key(&name), Some(1_000_500)).unwrap();
    let begin = || world.begin(&name, None, StreamUse::Sign, StreamForm::default());
    let came = begin().unwrap();
    clock.0.store(1_000_500, std::sync::atomic::Ordering::Relaxed);
    let late = world.service.sign_stream(&world.call(), &world.key(&name), &came);
    assert_eq!(late.unwrap_err().code(), Code::KeyExpired);
    assert_eq!(begin().err().unwrap().code(), Code::KeyExpired);
    assert_eq!(world.last().outcome, Outcome::Failed(Code::KeyExpired));
}

#[test]
fn a_denied_stream_is_refused_before_the_message_and_logged() {
    let world = World::usual();
    let name = label("k");
    world.create(&name, "ml-dsa-44");
    let begin = |name: &Label, what, form| world.begin(name, None, what, form).err().unwrap();
    let wrong = StreamForm { context: vec![0; 256], ..StreamForm::default() };
    for (error, code) in [
        (begin(&label("none"), StreamUse::Sign, StreamForm::default()), Code::NotFound),
        (begin(&name, StreamUse::Tag, StreamForm::default()), Code::Unsupported),
        (begin(&name, StreamUse::Verify(7), StreamForm::default()), Code::Malformed),
        (begin(&name, StreamUse::Sign, wrong), Code::BadRequest),
    ] {
        assert_eq!(error.code(), code, "{error}");
    }
    assert_eq!(world.last().outcome, Outcome::Failed(Code::BadRequest));
    let metrics = world.service.kms().metrics().text();
    assert!(metrics.contains("malformed"), "{metrics}");
    let token = world.service.first_token(&Principal::new("x").unwrap()).unwrap();
    let token = token.attenuate("actions=verify".parse().unwrap()).unwrap().to_string();
    let who = world.service.authenticate(&token, &Peer::default()).unwrap();
    let call = Call::new(&who, "r");
    let len = StreamLen { of_message: None, whole_max: 0 };
    let what = (StreamUse::Sign, StreamForm::default());
    let refused = world.service.begin_stream(&call, &world.key(&name), None, what, len);
    assert_eq!(refused.err().unwrap().code(), Code::Denied);
    assert_eq!(world.last().outcome, Outcome::Failed(Code::Denied));
}

#[test]
fn a_key_keeps_to_its_labels_in_pieces_too() {
    let world = World::usual();
    let kms = world.service.kms();
    let new = NewKey {
        tenant: label("a"),
        purpose: label("transit"),
        name: label("c"),
        algorithm: "ml-dsa-87".parse().unwrap(),
    };
    let labels = ["cnsa2".parse().unwrap()].into_iter().collect();
    kms.create_conforming(&new, &labels).unwrap();
    let form = |hash| StreamForm { hash: Some(hash), ..StreamForm::default() };
    let begin = |hash| world.begin(&label("c"), None, StreamUse::Sign, form(hash));
    assert_eq!(begin(Prehash::Sha2_256).err().unwrap().code(), Code::Unsupported);
    assert!(begin(Prehash::Sha2_512).is_ok());
}

#[test]
fn bytes_are_charged_as_they_come_and_the_end_is_not_refused_for_them() {
    let quota = QuotaOptions { us_per_second: Some(1), burst_seconds: 3600, ..Default::default() };
    let kms = Kms::in_memory().unwrap();
    let world = World::new(kms, quota);
    let name = label("k");
    // 3600 us are there; the key is made at the service's own cost.
    let kms = world.service.kms();
    let (tenant, purpose) = (label("a"), label("transit"));
    let algorithm = "ml-dsa-44".parse().unwrap();
    kms.create(&NewKey { tenant, purpose, name: name.clone(), algorithm }).unwrap();
    let begin = || world.begin(&name, None, StreamUse::Sign, StreamForm::default());
    let came = begin().unwrap();
    // A MiB is some 5 ms.
    world.service.charge_bytes(&world.call(), &world.key(&name), 1 << 20);
    world.service.sign_stream(&world.call(), &world.key(&name), &came).unwrap();
    assert_eq!(begin().err().unwrap().code(), Code::QuotaExceeded);
}
