//! Private keys of XMSS^MT: made on several threads and in pieces, used up by signing, closed and opened again.
//!
//! Trees 5 high, four layers of them; one of XMSS is 10 high and takes as long as 32 of these.

use std::num::NonZero;
use std::ops::ControlFlow;

use gabion_engine::keys::stateful::xmss::{Progress, Scheme, StatefulKey, XmssSecret};
use gabion_engine::keys::stateful::{
    IndexedSigner, Ledger, Request, sign_requests, testing_only_ledger,
};
use gabion_engine::xmss::{Set, XMSS, XMSSMT};
use gabion_engine::{Engine, Error, Message, OsEntropy};

const LOW: &str = "XMSSMT-SHA2_20/4_192";

fn secret() -> XmssSecret {
    XmssSecret::draw(Set::from_name(LOW).unwrap(), &OsEntropy).unwrap()
}

fn threads(count: usize) -> NonZero<usize> {
    NonZero::new(count).unwrap()
}

fn go_on(_: Progress<'_>) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn made<'e>(engine: &'e Engine, secret: &XmssSecret, count: usize) -> StatefulKey<'e> {
    StatefulKey::generate(engine, secret, &[], threads(count), &mut go_on).unwrap().unwrap()
}

fn check(engine: &Engine, key: &StatefulKey<'_>, message: &[u8], signature: &[u8]) {
    let public = key.verify_key();
    let algorithm = public.set().unwrap().scheme.into();
    let public = engine.signature_public(algorithm, public.bytes()).unwrap();
    engine.verify(&public, Message::Pure { context: &[], message }, signature).unwrap();
}

fn key_at(key: &mut StatefulKey<'_>, index: u64, message: &[u8]) -> Vec<u8> {
    key.testing_only_sign_at(index, &[message]).unwrap().pop().unwrap()
}

/// A key is the same on any number of threads, and where it was stopped in the middle and gone on with from what was
/// written down. One tree, as XMSS has it.
#[test]
fn keys_are_the_same_on_any_threads_and_in_pieces() {
    let engine = Engine::global().unwrap();
    let set = Set::from_name("XMSS-SHA2_10_256").unwrap();
    let secret = XmssSecret::draw(set, &OsEntropy).unwrap();
    let mut written = Vec::new();
    let mut stop = |progress: Progress<'_>| {
        written = progress.row.to_vec();
        assert_eq!(progress.all, 1024);
        if progress.done > 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let stopped = StatefulKey::generate(engine, &secret, &[], threads(1), &mut stop).unwrap();
    assert!(stopped.is_none());
    assert!((1..1024).contains(&(written.len() / 32)), "{} bytes", written.len());
    let mut one = made(engine, &secret, 1);
    let rest = StatefulKey::generate(engine, &secret, &written, threads(2), &mut go_on).unwrap();
    assert_eq!(rest.unwrap().verify_key(), one.verify_key());
    for row in [&written[1..], &[0; 32 * 1025][..]] {
        assert!(StatefulKey::generate(engine, &secret, row, threads(1), &mut go_on).is_err());
    }
    assert_eq!((one.signatures(), one.signature_len()), (1024, 2500));
    let last = key_at(&mut one, 1023, b"last");
    check(engine, &one, b"last", &last);
    assert!(one.testing_only_sign_at(1024, &[b"beyond"]).is_err());
}

/// Signed with a ledger's indexes, over borders between trees, in batches and one by one.
#[test]
fn a_ledger_hands_out_the_indexes() {
    let engine = Engine::global().unwrap();
    let mut key = made(engine, &secret(), 2);
    assert_eq!(key.signatures(), 1 << 20);
    let ledger = testing_only_ledger(key.signatures());
    let mut next = 0;
    for count in [1, 30, 70, 1] {
        let texts: Vec<_> = (0..count).map(|i| format!("message {}", next + i)).collect();
        let requests: Vec<_> =
            texts.iter().map(|text| Request { message: text.as_bytes(), id: None }).collect();
        let signed = sign_requests(&ledger, &mut key, &requests).unwrap();
        for (at, (signed, text)) in signed.iter().zip(&texts).enumerate() {
            assert_eq!(signed.index, next + at as u64);
            if at % 29 == 0 {
                check(engine, &key, text.as_bytes(), &signed.signature);
            }
        }
        next += count;
    }
    let mut reservation = ledger.reserve(2).unwrap();
    let two = reservation.take(2).unwrap();
    assert_eq!(key.sign_indexed(two, &[b"one"]), Err(Error::Lost));
}

/// A key that was closed and reopened signs the same signatures, with its trees, with older ones,
/// without trees, and with altered ones; it never opens under another public key.
#[test]
fn keys_open_again() {
    let engine = Engine::global().unwrap();
    let secret = secret();
    let mut key = made(engine, &secret, 1);
    let public = key.verify_key().bytes().to_vec();
    let early = key.trees();
    key_at(&mut key, 1030, b"before");
    let trees = key.trees();
    let expected = key_at(&mut key, 1031, b"after");
    check(engine, &key, b"after", &expected);
    let open = |secret: &XmssSecret, public: &[u8], trees: &[u8], index| {
        StatefulKey::open(engine, secret, public, trees, index, threads(2))
    };
    for trees in [&trees[..], &early, &[], &trees[..trees.len() - 1], &[0xff; 24]] {
        let mut again = open(&secret, &public, trees, 1031).unwrap();
        assert!(key_at(&mut again, 1031, b"after") == expected, "{} bytes", trees.len());
    }
    let again = open(&secret, &public, &trees, 1031).unwrap();
    assert!(again.trees() == trees, "all of it is taken");
    // Of the row of the top tree, whose root is compared.
    let mut wrong = trees.clone();
    wrong[24 + 40] ^= 1;
    assert!(open(&secret, &public, &wrong, 1031).is_err());
    assert!(open(&self::secret(), &public, &[], 0).is_err());
    assert!(open(&secret, &public, &trees, 1 << 20).is_err(), "there is no such index");
}

/// The form of key files: a set of another scheme, or that verifies alone, makes no key (liboqs PR 2511).
#[test]
fn secrets_have_one_form() {
    let secret = secret();
    let bytes = secret.encode();
    assert_eq!(bytes.len(), 4 + 3 * 24);
    let again = XmssSecret::decode(Scheme::XmssMt, &bytes).unwrap();
    assert!(*again.encode() == *bytes && again.set() == secret.set());
    assert_eq!(format!("{secret:?}"), format!("XmssSecret of {LOW}"));
    for len in 0..bytes.len() {
        assert!(XmssSecret::decode(Scheme::XmssMt, &bytes[..len]).is_err(), "{len} bytes");
    }
    assert!(XmssSecret::decode(Scheme::XmssMt, &[&bytes[..], &[0]].concat()).is_err());
    assert!(XmssSecret::decode(Scheme::Xmss, &bytes).is_err(), "no set of XMSS has this number");
    for set in XMSS.iter().chain(&XMSSMT) {
        let seeds = vec![7; 3 * set.n];
        assert_eq!(XmssSecret::new(set, &seeds).is_ok(), set.can_sign(), "{}", set.name);
        let other = [&set.number.to_be_bytes()[..], &vec![7; 3 * (56 - set.n.min(32))]].concat();
        assert!(XmssSecret::decode(set.scheme, &other).is_err(), "{}", set.name);
    }
}
