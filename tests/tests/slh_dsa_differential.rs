//! SLH-DSA against someone else's implementation, the `slh-dsa` crate, bit for bit: its interface
//! takes the randomness. OpenSSL is compared in the tests of the command line.
//!
//! A short run signs once with each quick set on every backend, lets the small sets be signed here
//! only, on the best backend (the crate takes seconds), and compares verdicts on mutated signatures,
//! alone and in one batch. `GABION_SOAK=N` signs N times with every set, 100 at most, with 100
//! verifications each, on the best backend.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.

use gabion_engine::{Algorithm, Config, Engine, Message, SigningKey, Status};
use sha3::digest::{ExtendableOutput, Update, XofReader};
use slh_dsa::{ParameterSet, Signature, VerifyingKey};

/// Random bytes that depend on the label and the round alone.
fn random(label: &str, round: usize, len: usize) -> Vec<u8> {
    let mut source = sha3::Shake128::default();
    source.update(label.as_bytes());
    source.update(&round.to_le_bytes());
    let mut out = vec![0; len];
    source.finalize_xof().read(&mut out);
    out
}

/// Signatures of a set, and verifications of each.
fn counts() -> (usize, usize) {
    match std::env::var("GABION_SOAK").ok().and_then(|count| count.parse::<usize>().ok()) {
        Some(count) => (count.min(100), 100),
        None => (1, 12),
    }
}

fn engines() -> Vec<Engine> {
    let backends = gabion_backend::cpus();
    let configs =
        backends.iter().map(|b| Config { backend: Some(b.name().to_owned()), ..Config::default() });
    configs.map(|config| Engine::new(&config).unwrap()).collect()
}

/// A signature of the set as it might be forged: one bit, one value, or a piece moved.
fn mutated(sig: &[u8], n: usize, round: usize, kind: usize) -> Vec<u8> {
    let mut sig = sig.to_vec();
    let bytes = random("mutation", 1000 * round + kind, 16);
    let at = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize % sig.len();
    let value = at / n * n;
    match kind % 5 {
        0 => {}
        1 | 2 => sig[at] ^= 1 << (bytes[8] % 8),
        3 => sig[value..value + n].fill(bytes[9]),
        _ => {
            let to = (value + 7 * n) % (sig.len() - n);
            sig.copy_within(value..value + n, to);
        }
    }
    sig
}

/// The verdicts of both implementations on mutated signatures; ours alone and in one batch.
fn compare_verdicts<P: ParameterSet>(
    engine: &Engine,
    key: &SigningKey,
    (text, context): (&[u8], &[u8]),
    sig: &[u8],
    round: usize,
) {
    let public = key.public();
    let theirs = VerifyingKey::<P>::try_from(public.bytes()).unwrap();
    let message = Message::Pure { context, message: text };
    let n = public.bytes().len() / 2;
    let count = counts().1;
    let sigs: Vec<Vec<u8>> = (0..count).map(|kind| mutated(sig, n, round, kind)).collect();
    let mut status = vec![Status::NotRun; count];
    let (keys, messages) = (vec![&public; count], vec![message; count]);
    let lengths = vec![sig.len(); count];
    engine.verify_many(&keys, &messages, &sigs.concat(), &lengths, &mut status).unwrap();
    for (changed, status) in sigs.iter().zip(status) {
        let other = Signature::<P>::try_from(&changed[..]).unwrap();
        let expected = theirs.try_verify_with_context(text, context, &other).is_ok();
        assert_eq!(expected, changed == sig, "round {round}: a change went unnoticed");
        assert_eq!(status.is_ok(), expected, "round {round}: in a batch");
        assert_eq!(engine.verify(&public, message, changed).is_ok(), expected, "round {round}");
    }
    let short = &sig[..sig.len() - 1];
    assert!(engine.verify(&public, message, short).is_err());
}

/// `compare_signing`: whether the crate signs as well.
fn compare<P: ParameterSet>(algorithm: Algorithm, engine: &Engine, compare_signing: bool) {
    let (n, name) = (algorithm.info().public_key / 2, algorithm.name());
    for round in 0..counts().0 {
        let seed = random(name, round, 3 * n);
        let key = engine.dsa_from_seed(algorithm, &seed).unwrap();
        let text = random("text", round, 100 + round);
        let context = &text[..round % 100];
        let message = Message::Pure { context, message: &text };
        let rnd = random("rnd", round, n);
        let sig = engine.testing_only_sign_with(&key, message, &rnd).unwrap();
        if compare_signing {
            let other = slh_dsa::SigningKey::<P>::slh_keygen_internal(
                &seed[..n],
                &seed[n..2 * n],
                &seed[2 * n..],
            );
            assert_eq!(key.bytes(), other.to_vec(), "{name} round {round}");
            let theirs = other.try_sign_with_context(&text, context, Some(&rnd)).unwrap();
            assert!(sig == theirs.to_vec(), "{name} round {round}");
            let theirs = other.try_sign_with_context(&text, context, None).unwrap();
            let fixed = engine.sign_deterministic(&key, message).unwrap();
            assert!(fixed == theirs.to_vec(), "{name} round {round}");
        }
        compare_verdicts::<P>(engine, &key, (&text, context), &sig, round);
    }
}

macro_rules! sets {
    ($($test:ident: $algorithm:ident = $parameters:ident, $quick:expr;)*) => {
        $(#[test]
        fn $test() {
            let soak = std::env::var_os("GABION_SOAK").is_some();
            let engines = engines();
            let count = if soak || !$quick { 1 } else { engines.len() };
            for engine in &engines[..count] {
                let (algorithm, signs) = (Algorithm::$algorithm, soak || $quick);
                compare::<slh_dsa::$parameters>(algorithm, engine, signs);
            }
        })*
    };
}

sets! {
    sha2_128s: SlhDsaSha2_128s = Sha2_128s, false;
    sha2_128f: SlhDsaSha2_128f = Sha2_128f, true;
    sha2_192s: SlhDsaSha2_192s = Sha2_192s, false;
    sha2_192f: SlhDsaSha2_192f = Sha2_192f, true;
    sha2_256s: SlhDsaSha2_256s = Sha2_256s, false;
    sha2_256f: SlhDsaSha2_256f = Sha2_256f, true;
    shake_128s: SlhDsaShake128s = Shake128s, false;
    shake_128f: SlhDsaShake128f = Shake128f, true;
    shake_192s: SlhDsaShake192s = Shake192s, false;
    shake_192f: SlhDsaShake192f = Shake192f, true;
    shake_256s: SlhDsaShake256s = Shake256s, false;
    shake_256f: SlhDsaShake256f = Shake256f, true;
}
