//! Signatures and messages of every algorithm, alone and in a batch.

use gabion_engine::{
    Algorithm, Family, Kind, Message, Prehash, Randomness, SigningKey, Status, VerifyKey,
};

use super::fixtures::{
    self, FixedEntropy, KeyFixture, MESSAGE, agreed, engine, has_ecdsa, verdict,
};
use super::input::{Input, with_every_algorithm};

fn choices() -> Vec<Algorithm> {
    fixtures::verified(|kind, _| kind == Kind::Signature)
}

/// Every algorithm with each form of message, and with its signature as it is, changed, cut short,
/// grown, or with the edges of a number in it.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = with_every_algorithm(
        &choices(),
        &[
            &[0, 0],
            &[0, 1, 0, 5, 0, 1, 9, 0, 3],
            &[0, 1, 3, 9, 0, 0],
            &[0, 1, 4, 0, 0, 1],
            &[1, 0, 3, 0, b'a', b'b', b'c', b'm', 0],
            &[1, 0, 0, 1],
            &[2, 3, 0, 32],
            &[2, 1, 0, 31],
            &[3, 1, 2, 3],
            &[4, 5, 0, b'f', b'o', b'r', b'm', b'!'],
        ],
    );
    for edge in 0..6 {
        seeds.extend(with_every_algorithm(&choices(), &[&[0, 1, 5, 32, 0, edge, 0, 0, 2]]));
    }
    seeds
}

/// Checks that a signature verifies alone and in any lane of a batch, or nowhere; that only the
/// known signature of the known message verifies; and that neighbours verify. A message that can be
/// signed alone can be signed in a batch, and a lane whose message has a wrong form is zero.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let known = input.known(&choices());
    let mut mu = [0; 64];
    let message = message(&mut input, &mut mu);
    let bytes = input.edited(&known.output);
    let lanes = 1 + input.below(18);
    let at = input.below(lanes);
    let key = engine().signature_public(known.algorithm, &known.public).expect("a known key");

    let single = agreed(|engine| engine.verify(&key, message, &bytes));
    let single = verdict(&single);
    if single.is_ok() {
        let algorithm = known.algorithm;
        assert!(bytes == known.output || has_ecdsa(algorithm), "{algorithm}: a second signature");
        if let Message::Pure { context, message } = message {
            assert!(context.is_empty() && message == MESSAGE, "{algorithm}: another message");
        }
    }
    in_a_batch(known, &key, message, &bytes, (lanes, at), single);
    if lanes <= 4 && signs_quickly(known.algorithm) {
        sign(known, message, (lanes, at));
    }
}

fn message<'a>(input: &mut Input<'a>, mu: &'a mut [u8; 64]) -> Message<'a> {
    match input.byte() % 5 {
        0 => Message::Pure { context: b"", message: MESSAGE },
        1 => {
            // A context may be too long.
            let len = input.below(300);
            let context = input.bytes(len);
            let context = if context.len() < len { &[7; 300][..len] } else { context };
            let len = usize::from(input.byte());
            Message::Pure { context, message: input.bytes(len) }
        }
        2 => {
            let all: Vec<_> = Prehash::all().collect();
            let hash = all[usize::from(input.byte()) % all.len()];
            let context = &[7; 2][..usize::from(input.byte() % 3)];
            let len = usize::from(input.byte() % 70);
            Message::Prehash { context, hash, digest: &[9; 70][..len] }
        }
        3 => {
            let given = input.bytes(64);
            mu[..given.len()].copy_from_slice(given);
            Message::Mu(mu)
        }
        _ => {
            let len = usize::from(input.byte());
            Message::Internal(input.bytes(len))
        }
    }
}

/// Verifies the signature in lane `at` of `lanes`, with valid ones around it.
fn in_a_batch(
    known: &KeyFixture,
    key: &VerifyKey,
    message: Message<'_>,
    bytes: &[u8],
    (lanes, at): (usize, usize),
    single: Status,
) {
    let room = known.algorithm.info().output.max();
    if bytes.len() > room {
        let expected = [Status::InvalidSignature, Status::InvalidInput];
        return assert!(expected.contains(&single), "{}: {single:?}", known.algorithm);
    }
    let mut messages = vec![Message::Pure { context: b"", message: MESSAGE }; lanes];
    messages[at] = message;
    let (mut signatures, mut lengths) = (vec![0; lanes * room], vec![known.output.len(); lanes]);
    for (lane, place) in signatures.chunks_exact_mut(room).enumerate() {
        let signature = if lane == at { bytes } else { &known.output };
        place[..signature.len()].copy_from_slice(signature);
    }
    lengths[at] = bytes.len();
    let mut status = vec![Status::Ok; lanes];
    engine()
        .verify_many(&vec![key; lanes], &messages, &signatures, &lengths, &mut status)
        .expect("the arrays fit");
    let mut expected = vec![Status::Ok; lanes];
    expected[at] = single;
    assert_eq!(status, expected, "{}: lane {at}", known.algorithm);
}

/// Signatures that take less than about a millisecond.
fn signs_quickly(algorithm: Algorithm) -> bool {
    matches!(algorithm.info().family, Family::MlDsa | Family::Ed25519 | Family::Ecdsa)
}

fn sign(known: &KeyFixture, message: Message<'_>, (lanes, at): (usize, usize)) {
    let algorithm = known.algorithm;
    let key = engine().signature_private(algorithm, &known.private).expect("a known key");
    let single =
        verdict(&agreed(|engine| engine.sign(&key, message, &FixedEntropy::new(4)).map(drop)));
    let (keys, public): (Vec<&SigningKey>, _) = (vec![&key; lanes], key.public());
    let mut messages = vec![Message::Pure { context: b"", message: MESSAGE }; lanes];
    messages[at] = message;
    let room = algorithm.info().output.max();
    let (mut signatures, mut lengths) = (vec![9; lanes * room], vec![9; lanes]);
    let mut status = vec![Status::NotRun; lanes];
    let fresh = FixedEntropy::new(5);
    let randomness = Randomness::Fresh(&fresh);
    engine()
        .sign_many(&keys, &messages, randomness, &mut signatures, &mut lengths, &mut status)
        .expect("the arrays fit");
    for lane in 0..lanes {
        let expected = if lane == at { single } else { Status::Ok };
        assert_eq!(status[lane], expected, "{algorithm}: lane {lane}");
        let (made, rest) = signatures[lane * room..][..room].split_at(lengths[lane]);
        assert!(rest.iter().all(|&byte| byte == 0), "{algorithm}: not zero, lane {lane}");
        assert_eq!(made.is_empty(), !expected.is_ok(), "{algorithm}: lane {lane}");
        if expected.is_ok() {
            assert_eq!(engine().verify(&public, messages[lane], made), Ok(()), "{algorithm}");
        }
    }
}
