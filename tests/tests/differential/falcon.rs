//! Falcon against pqcrypto-falcon, the C code of the round-3 submission, both ways: keys and
//! signatures of each with the other, and the verdict on damaged signatures. A verifier written
//! from the definition ([`is_valid`]) judges every signature as well, so that the verdict does not
//! rest on two verifiers of one author.

use gabion_engine::{Algorithm, Engine, Message, OsEntropy, Randomness, SigningKey, Status};
use pqcrypto_falcon::{falcon512, falcon1024, falconpadded512, falconpadded1024};
use pqcrypto_traits::sign::{DetachedSignature, PublicKey, SecretKey};

use crate::fn_dsa::{FALCON, FALCON_PADDED, is_valid};
use crate::{count, engines, random, random_below, tally};

/// The other implementation of one set, bytes in and out.
#[derive(Clone, Copy)]
pub(crate) struct ReferenceImplementation {
    pub(crate) keypair: fn() -> (Vec<u8>, Vec<u8>),
    pub(crate) sign: fn(&[u8], &[u8]) -> Vec<u8>,
    pub(crate) verify: fn(&[u8], &[u8], &[u8]) -> bool,
}

macro_rules! other {
    ($module:ident) => {
        $crate::falcon::ReferenceImplementation {
            keypair: || {
                let (public, private) = $module::keypair();
                (public.as_bytes().to_vec(), private.as_bytes().to_vec())
            },
            sign: |private, text| {
                let private = $module::SecretKey::from_bytes(private).unwrap();
                $module::detached_sign(text, &private).as_bytes().to_vec()
            },
            verify: |public, text, sig| {
                let public = $module::PublicKey::from_bytes(public).unwrap();
                $module::DetachedSignature::from_bytes(sig).is_ok_and(|sig| {
                    $module::verify_detached_signature(&sig, text, &public).is_ok()
                })
            },
        }
    };
}

/// Signatures made with one key pair.
pub(crate) const KEY_ROUNDS: usize = 25;

/// A key pair, made here or there.
fn key(
    engine: &Engine,
    algorithm: Algorithm,
    other: &ReferenceImplementation,
    is_ours: bool,
) -> SigningKey {
    if is_ours {
        return engine.signature_generate(algorithm, &OsEntropy).unwrap();
    }
    let (public, private) = (other.keypair)();
    let key = engine.signature_private(algorithm, &private).unwrap();
    assert_eq!(key.public_bytes(), public, "{algorithm}: a private key has one public key");
    key
}

/// A bit flipped in two rounds of three: in the nonce, at the end, or anywhere.
pub(crate) fn damage(sig: &mut [u8], round: usize) {
    let bytes = match round % 6 {
        0 | 1 => return,
        2 => 0..41,
        3 => sig.len() - 16..sig.len(),
        _ => 0..sig.len(),
    };
    let bit = random_below("damage", round, 8 * bytes.len());
    sig[bytes.start + bit / 8] ^= 1 << (bit % 8);
}

/// One key: our signatures made in a batch and judged there, theirs judged in a batch here.
fn compare(
    engine: &Engine,
    algorithm: Algorithm,
    other: &ReferenceImplementation,
    rounds: std::ops::Range<usize>,
) {
    let n = rounds.len();
    let key = key(engine, algorithm, other, (rounds.start / KEY_ROUNDS).is_multiple_of(2));
    let public = key.public();
    let texts: Vec<_> = rounds
        .clone()
        .map(|round| random::<90>("text", round)[..random_below("length", round, 91)].to_vec())
        .collect();
    let messages: Vec<_> =
        texts.iter().map(|message| Message::Pure { context: b"", message }).collect();
    let room = algorithm.info().output.max();
    let (mut sigs, mut lengths) = (vec![0; n * room], vec![0; n]);
    let mut status = vec![Status::NotRun; n];
    let fresh = Randomness::Fresh(&OsEntropy);
    let signing = vec![&key; n];
    engine.sign_many(&signing, &messages, fresh, &mut sigs, &mut lengths, &mut status).unwrap();
    assert!(status.iter().all(|status| status.is_ok()), "{algorithm}: {status:?}");
    let form = match algorithm {
        Algorithm::Falcon512 | Algorithm::Falcon1024 => FALCON,
        _ => FALCON_PADDED,
    };
    let by_definition = |text: &[u8], sig: &[u8]| is_valid(public.bytes(), text, sig, form);
    let mut verdicts = Vec::new();
    for (lane, (round, text)) in rounds.zip(&texts).enumerate() {
        let room = &mut sigs[lane * room..][..room];
        let ours = &room[..lengths[lane]];
        assert!((other.verify)(public.bytes(), text, ours), "{algorithm}, round {round}");
        assert!(by_definition(text, ours), "{algorithm}, round {round}");
        let mut theirs = (other.sign)(key.bytes(), text);
        damage(&mut theirs, round);
        let verdict = (other.verify)(public.bytes(), text, &theirs);
        assert!(verdict || !matches!(round % 6, 0 | 1), "{algorithm}, round {round}");
        assert_eq!(by_definition(text, &theirs), verdict, "{algorithm}: {theirs:02x?}");
        verdicts.push(verdict);
        room.fill(0);
        room[..theirs.len()].copy_from_slice(&theirs);
        lengths[lane] = theirs.len();
    }
    let keys = vec![&public; n];
    engine.verify_many(&keys, &messages, &sigs, &lengths, &mut status).unwrap();
    for (lane, status) in status.iter().enumerate() {
        let sig = &sigs[lane * room..][..lengths[lane]];
        assert_eq!(status.is_ok(), verdicts[lane], "{algorithm}: {sig:02x?}");
    }
}

/// Signatures of each side, as many in all as are to be compared, spread over the backends.
fn compare_set(algorithm: Algorithm, other: &ReferenceImplementation) {
    let (engines, rounds) = (engines(), count(200, 3 * KEY_ROUNDS));
    for (index, start) in (0..rounds).step_by(KEY_ROUNDS).enumerate() {
        let rounds = start..rounds.min(start + KEY_ROUNDS);
        compare(&engines[index % engines.len()], algorithm, other, rounds);
    }
    tally(algorithm, "pqcrypto-falcon", 2 * rounds);
    tally(algorithm, "the definition", 2 * rounds);
}

pub(crate) use other;

macro_rules! sets {
    ($($test:ident: $algorithm:ident = $module:ident;)*) => {
        $(#[test]
        fn $test() {
            compare_set(Algorithm::$algorithm, &other!($module));
        })*
    };
}

sets! {
    falcon_512: Falcon512 = falcon512;
    falcon_1024: Falcon1024 = falcon1024;
    falcon_padded_512: FalconPadded512 = falconpadded512;
    falcon_padded_1024: FalconPadded1024 = falconpadded1024;
}
