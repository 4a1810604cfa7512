//! Private keys of every algorithm: seeds, encoded keys, and both together.

use gabion_engine::keys::{Forms, PrivateKey};
use gabion_engine::{Algorithm, Error, Family, Kind, Message};

use super::fixtures::{self, FixedEntropy, KeyFixture, agreed, engine, engines};
use super::input::{Input, with_every_algorithm};

/// The small sets of SLH-DSA sign for seconds where a sanitizer watches; their decoder is that of the
/// quick ones.
fn choices() -> Vec<Algorithm> {
    let mut choices = fixtures::algorithms(|_, _| true);
    choices.retain(|algorithm| {
        algorithm.info().family != Family::SlhDsa || algorithm.name().ends_with('f')
    });
    choices
}

/// Every algorithm in every form: as it is, one bit changed, too short, too long.
pub fn seeds() -> Vec<Vec<u8>> {
    (0..3)
        .flat_map(|form| {
            with_every_algorithm(
                &choices(),
                &[&[form, 0], &[form, 1, 0, 40, 0, 1], &[form, 1, 3, 9, 0], &[form, 1, 4, 0, 0, 2]],
            )
        })
        .collect()
}

/// A key that is accepted has the bytes it was made of, belongs to its public key, and does its
/// work; both backends accept the same keys.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let known = input.known(&choices());
    let form = input.byte() % 3;
    let (seed, bytes) = match form {
        0 => (None, Some(input.edited(&known.private))),
        1 => (Some(input.edited(&known.seed)), None),
        _ => (Some(input.edited(&known.seed)), Some(input.edited(&known.private))),
    };
    let (seed, bytes) = (seed.as_deref(), bytes.as_deref());
    let is_right = match known.algorithm.info().kind {
        Kind::Kem => kem(known.algorithm, seed, bytes),
        Kind::Signature => signature(known.algorithm, seed, bytes),
        Kind::KeyExchange => return exchange(known, bytes.unwrap_or_default()),
    };
    let is_own = seed.is_none_or(|seed| seed == known.seed && !seed.is_empty())
        && bytes.is_none_or(|bytes| bytes == known.private);
    assert!(is_right || !is_own, "{}: its own key is refused", known.algorithm);
}

/// Both engines' answers as one: the keys, or that both refused for one reason.
fn both<K>(ask: impl Fn(&gabion_engine::Engine) -> Result<K, Error>) -> Option<[K; 2]> {
    match engines().each_ref().map(&ask) {
        [Ok(best), Ok(portable)] => Some([best, portable]),
        [best, portable] => {
            assert_eq!(best.err(), portable.err(), "backends differ");
            None
        }
    }
}

fn import(
    algorithm: Algorithm,
    seed: Option<&[u8]>,
    bytes: Option<&[u8]>,
) -> Option<[PrivateKey; 2]> {
    let forms = Forms { seed, expanded: bytes, public: None };
    both(|engine| PrivateKey::import(engine, algorithm, &forms))
}

fn kem(algorithm: Algorithm, seed: Option<&[u8]>, bytes: Option<&[u8]>) -> bool {
    let made = import(algorithm, seed, bytes);
    let Some([PrivateKey::Kem(key), PrivateKey::Kem(portable)]) = made else { return false };
    assert_eq!(key.bytes(), portable.bytes(), "{algorithm}: backends differ");
    assert!(bytes.is_none_or(|bytes| bytes == key.bytes()), "{algorithm}: another key came out");
    assert!(seed.is_none_or(|seed| Some(seed) == key.seed()), "{algorithm}: another seed");
    let again = engine().kem_private(algorithm, key.bytes()).expect("it encodes to a key");
    assert_eq!(again.public_bytes(), key.public_bytes(), "{algorithm}");
    let public = engine().kem_public(algorithm, key.public_bytes()).expect("it has a public key");
    let (ct, shared) = engine().encaps(&public, &FixedEntropy::new(2)).expect("it encapsulates");
    let opened = [&key, &portable, &again].map(|key| engine().decaps(key, &ct));
    assert!(opened.iter().all(|other| *other == opened[0]), "{algorithm}: {opened:?}");
    assert_eq!(opened[0].as_ref(), Ok(&shared), "{algorithm}: it does not open");
    true
}

fn signature(algorithm: Algorithm, seed: Option<&[u8]>, bytes: Option<&[u8]>) -> bool {
    let made = import(algorithm, seed, bytes);
    let Some([PrivateKey::Signature(key), PrivateKey::Signature(portable)]) = made else {
        return false;
    };
    assert_eq!(key.bytes(), portable.bytes(), "{algorithm}: backends differ");
    assert_eq!(key.public_bytes(), portable.public_bytes(), "{algorithm}: backends differ");
    assert!(bytes.is_none_or(|bytes| bytes == key.bytes()), "{algorithm}: another key came out");
    assert!(seed.is_none_or(|seed| Some(seed) == key.seed() || key.seed().is_none()));
    let public =
        engine().signature_public(algorithm, key.public_bytes()).expect("it has a public key");
    let message = Message::Pure { context: b"", message: b"m" };
    let signature = match agreed(|engine| engine.sign_deterministic(&key, message)) {
        Err(Error::WrongAlgorithm { .. }) => engine().sign(&key, message, &FixedEntropy::new(3)),
        made => made,
    };
    let signature = signature.expect("a key that was accepted signs");
    let verdict = agreed(|engine| engine.verify(&public, message, &signature));
    assert_eq!(verdict, Ok(()), "{algorithm}: its own signature");
    true
}

fn exchange(known: &KeyFixture, bytes: &[u8]) {
    let algorithm = known.algorithm;
    let Some([key, portable]) = both(|engine| engine.exchange_private(algorithm, bytes)) else {
        assert_ne!(bytes, known.private, "{algorithm}: its own key is refused");
        return;
    };
    assert_eq!(key.bytes(), bytes, "{algorithm}: another key came out");
    assert_eq!(key.public_bytes(), portable.public_bytes(), "{algorithm}: backends differ");
    let other = engine().exchange_private(algorithm, &known.private).expect("a known key");
    let there = engine().derive(&key, &other.public());
    assert_eq!(there, engine().derive(&other, &key.public()), "{algorithm}: two secrets");
}
