//! Ed25519 against ed25519-dalek and AWS-LC, bit for bit; verdicts under the strict rules and, by
//! its definition over curve25519-dalek, under ZIP 215.

use std::ops::Range;

use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use curve25519_dalek::constants::{ED25519_BASEPOINT_POINT as BASE, EIGHT_TORSION};
use curve25519_dalek::edwards::{CompressedEdwardsY, EdwardsPoint};
use curve25519_dalek::scalar::{Scalar, clamp_integer};
use ed25519_dalek::{Signature, Signer, VerifyingKey};
use gabion_engine::ed25519::{Rules, SigningKey};
use gabion_engine::{Algorithm, Ed25519, Engine, Keys, Operation};
use sha2::{Digest, Sha512};

use crate::{batches, count, engines, random, random_below, run, run_all, tally};

/// One round: a key, a signed text, and a case to verify.
struct Round {
    seed: [u8; 32],
    public: [u8; 32],
    text: Vec<u8>,
    sig: [u8; 64],
    given: VerifyCase,
    is_strict: bool,
    is_zip215: bool,
}

/// The inputs of a verification.
#[derive(Clone)]
struct VerifyCase {
    public: [u8; 32],
    text: Vec<u8>,
    sig: [u8; 64],
}

/// Another implementation's strict verdict, and a check of encodings, which it leaves out.
fn is_strict(given: &VerifyCase) -> bool {
    let is_canonical = |bytes: [u8; 32]| {
        let point = CompressedEdwardsY(bytes).decompress();
        point.is_some_and(|point| point.compress().0 == bytes)
    };
    is_canonical(given.public)
        && VerifyingKey::from_bytes(&given.public).is_ok_and(|key| {
            key.verify_strict(&given.text, &Signature::from_bytes(&given.sig)).is_ok()
        })
}

/// The hash of RFC 8032, section 5.1.7, as a scalar.
fn hash(r: &[u8], public: &[u8; 32], text: &[u8]) -> Scalar {
    let hash = Sha512::new().chain_update(r).chain_update(public).chain_update(text);
    Scalar::from_bytes_mod_order_wide(&hash.finalize().into())
}

/// ZIP 215 by its definition.
fn is_zip215(given: &VerifyCase) -> bool {
    let (r, s) = given.sig.split_at(32);
    let point = |bytes: &[u8]| CompressedEdwardsY(bytes.try_into().unwrap()).decompress();
    let s = Option::<Scalar>::from(Scalar::from_canonical_bytes(s.try_into().unwrap()));
    let (Some(a), Some(r_point), Some(s)) = (point(&given.public), point(r), s) else {
        return false;
    };
    let k = hash(r, &given.public, &given.text);
    let eight = |point: EdwardsPoint| point.mul_by_cofactor();
    eight(BASE * s) == eight(r_point) + eight(a * k)
}

/// S + L, the same scalar encoded another way.
fn plus_order(s: &mut [u8]) {
    let (order, mut carry) = ((-Scalar::ONE).to_bytes(), 1);
    for (byte, other) in s.iter_mut().zip(order) {
        let sum = u16::from(*byte) + u16::from(other) + carry;
        (*byte, carry) = (sum as u8, sum >> 8);
    }
}

/// Modifies a signature before it reaches the verifier; half of them stay valid.
fn damaged(good: VerifyCase, seed: &[u8; 32], round: usize) -> VerifyCase {
    let mut given = good;
    let torsion = EIGHT_TORSION[random_below("torsion", round, 8)];
    let bit = random_below("bit", round, 1024);
    match round % 16 {
        0 => given.sig[bit / 8 % 64] ^= 1 << (bit % 8),
        1 => given.public[bit / 8 % 32] ^= 1 << (bit % 8),
        2 => given.text.push(7),
        3 => plus_order(&mut given.sig[32..]),
        4 => given.sig[..32].copy_from_slice(&torsion.compress().0),
        5 => given.public = torsion.compress().0,
        // Signed rightly, but for a part of small order in the key, in R, or in both.
        6 | 7 => {
            let secret = Sha512::digest(seed)[..32].try_into().unwrap();
            let secret = Scalar::from_bytes_mod_order(clamp_integer(secret));
            let nonce = Scalar::from_bytes_mod_order(random("nonce", round));
            let key_part = if round.is_multiple_of(32) { EIGHT_TORSION[0] } else { torsion };
            let r_part = if round % 16 == 6 { EIGHT_TORSION[0] } else { torsion };
            let r = (BASE * nonce + r_part).compress().0;
            given.public = (BASE * secret + key_part).compress().0;
            let s = nonce + hash(&r, &given.public, &given.text) * secret;
            given.sig[..32].copy_from_slice(&r);
            given.sig[32..].copy_from_slice(s.as_bytes());
        }
        _ => {}
    }
    given
}

/// Returns the case that a round verifies.
fn given(round: usize) -> VerifyCase {
    let seed: [u8; 32] = random("ed25519", round);
    let text = random::<400>("text", round)[..random_below("length", round, 400)].to_vec();
    let dalek = ed25519_dalek::SigningKey::from_bytes(&seed);
    let (public, sig) = (dalek.verifying_key().to_bytes(), dalek.sign(&text).to_bytes());
    damaged(VerifyCase { public, text, sig }, &seed, round)
}

/// One round by both others, which must agree.
fn expected(round: usize) -> Round {
    let seed: [u8; 32] = random("ed25519", round);
    let text = random::<400>("text", round)[..random_below("length", round, 400)].to_vec();
    let dalek = ed25519_dalek::SigningKey::from_bytes(&seed);
    let public = dalek.verifying_key().to_bytes();
    let sig = dalek.sign(&text).to_bytes();
    let aws = Ed25519KeyPair::from_seed_unchecked(&seed).unwrap();
    assert_eq!((aws.public_key().as_ref(), aws.sign(&text).as_ref()), (&public[..], &sig[..]));
    let given = given(round);
    let (is_strict, is_zip215) = (is_strict(&given), is_zip215(&given));
    assert!(is_zip215 || !is_strict, "round {round}");
    // AWS-LC has neither rule where points of small order are about.
    let aws = UnparsedPublicKey::new(&ED25519, given.public).verify(&given.text, &given.sig);
    assert!(aws.is_ok() == is_strict || (4..8).contains(&(round % 16)), "round {round}");
    Round { seed, public, text, sig, given, is_strict, is_zip215 }
}

/// A batch on one backend, with keys decoded on the way.
fn check(engine: &Engine, rounds: &[Round], z: &[[u8; 16]]) {
    let n = rounds.len();
    let seeds: Vec<_> = rounds.iter().map(|round| round.seed).collect();
    let mut keys: Vec<_> = (0..n).map(|_| SigningKey::blank()).collect();
    let operation = Ed25519::Generate { seeds: &seeds, keys: &mut keys };
    run_all(engine, n, Operation::Ed25519(operation));
    let texts: Vec<_> = rounds.iter().map(|round| &round.text[..]).collect();
    let (signing, mut sig): (Vec<_>, _) = (keys.iter().collect(), vec![0; 64 * n]);
    let operation = Ed25519::Sign { keys: &signing, messages: &texts, sig: &mut sig };
    run_all(engine, n, Operation::Ed25519(operation));
    for ((round, key), sig) in rounds.iter().zip(&keys).zip(sig.as_chunks::<64>().0) {
        assert_eq!((key.public(), sig), (&round.public, &round.sig));
    }
    let public: Vec<_> = rounds.iter().map(|round| round.given.public).collect();
    let texts: Vec<_> = rounds.iter().map(|round| &round.given.text[..]).collect();
    let sig: Vec<_> = rounds.iter().map(|round| round.given.sig).collect();
    for (rules, z) in [(Rules::Strict, None), (Rules::Zip215, None), (Rules::Zip215, Some(z))] {
        let operation = Ed25519::Verify {
            rules,
            keys: Keys::Fresh(public.as_flattened()),
            messages: &texts,
            sig: sig.as_flattened(),
            z,
        };
        let status = run(engine, n, Operation::Ed25519(operation));
        for (round, status) in rounds.iter().zip(status) {
            let expected = if rules == Rules::Strict { round.is_strict } else { round.is_zip215 };
            assert_eq!(status.is_ok(), expected, "{rules:?}: {:02x?}", round.given.sig);
        }
    }
}

/// Compares verdicts by the rules of ZIP 215 on more rounds, in batches by one equation, where a
/// round above also makes a key and a signature; returns how many.
fn zip215_alone(engines: &[Engine], rounds: Range<usize>) -> usize {
    let first = rounds.start;
    for batch in batches(rounds.len()) {
        let rounds = batch.start + first..batch.end + first;
        let z: Vec<[u8; 16]> = rounds.clone().map(|round| random("z", round)).collect();
        let given: Vec<_> = rounds.map(given).collect();
        let public: Vec<_> = given.iter().map(|given| given.public).collect();
        let texts: Vec<_> = given.iter().map(|given| &given.text[..]).collect();
        let sig: Vec<_> = given.iter().map(|given| given.sig).collect();
        for engine in engines {
            let operation = Ed25519::Verify {
                rules: Rules::Zip215,
                keys: Keys::Fresh(public.as_flattened()),
                messages: &texts,
                sig: sig.as_flattened(),
                z: Some(&z),
            };
            let status = run(engine, given.len(), Operation::Ed25519(operation));
            for (given, status) in given.iter().zip(status) {
                assert_eq!(status.is_ok(), is_zip215(given), "{:02x?}", given.sig);
            }
        }
    }
    rounds.len()
}

#[test]
fn ed25519_equals_dalek_and_aws_lc() {
    // Fewer would not show the shares that are asserted below.
    let (engines, rounds) = (engines(), count(3, 300).max(300));
    let (mut strict, mut zip215) = (0, 0);
    for batch in batches(rounds) {
        let first = batch.start;
        let z: Vec<_> = batch.clone().map(|round| random("z", round)).collect();
        let expected: Vec<_> = batch.map(expected).collect();
        strict += expected.iter().filter(|round| round.is_strict).count();
        zip215 += expected.iter().filter(|round| round.is_zip215).count();
        for engine in &engines {
            println!("Ed25519: {} rounds from {first}", expected.len());
            check(engine, &expected, &z);
        }
    }
    let zip215_alone = zip215_alone(&engines, rounds..count(1, rounds).max(rounds));
    // More than half are good, and some good under one of the two rules only.
    assert!(2 * strict >= rounds && zip215 > strict && zip215 < rounds, "{strict}, {zip215}");
    tally(Algorithm::Ed25519, "ed25519-dalek", 3 * rounds);
    tally(Algorithm::Ed25519, "AWS-LC", 3 * rounds);
    let of_zip215 = rounds + zip215_alone;
    tally(Algorithm::Ed25519Zip215, "curve25519-dalek, by the rules' definition", of_zip215);
}
