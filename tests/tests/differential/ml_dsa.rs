//! ML-DSA against libcrux, bit for bit, and AWS-LC, which draws its own randomness.

use std::ops::Range;

use aws_lc_rs::signature::{
    self as aws, KeyPair, PqdsaKeyPair, PqdsaSigningAlgorithm, PqdsaVerificationAlgorithm,
    UnparsedPublicKey,
};
use gabion_engine::{Algorithm, Dsa, Engine, Keys, Message, Operation, Status, ml_dsa};

use crate::{batches, count, engines, random, random_below, run, run_all, tally};

type Params = &'static ml_dsa::Params;

/// One round: the inputs, and the outputs of another implementation.
struct ExpectedOutputs {
    seed: [u8; 32],
    rnd: [u8; 32],
    text: Vec<u8>,
    /// How much of the text is the context as well.
    context: usize,
    pk: Vec<u8>,
    sk: Vec<u8>,
    sig: Vec<u8>,
    /// The signature to verify, and the verdict.
    given: Vec<u8>,
    is_valid: bool,
}

impl ExpectedOutputs {
    fn message(&self) -> Message<'_> {
        Message::Pure { context: &self.text[..self.context], message: &self.text }
    }
}

/// A text of any length up to 300, and how much of it is a context.
fn text(round: usize) -> (Vec<u8>, usize) {
    let bytes = random::<300>("text", round);
    let text = bytes[..random_below("length", round, 300)].to_vec();
    let context = random_below("context", round, text.len().min(255) + 1);
    (text, context)
}

/// Flips a bit of a signature in two rounds of three: in the challenge, the hint, or anywhere.
fn damage(sig: &mut [u8], round: usize) {
    let bytes = match round % 6 {
        0 | 1 => return,
        2 => 0..32,
        3 => sig.len() - 80..sig.len(),
        _ => 0..sig.len(),
    };
    let bit = random_below("damage", round, 8 * bytes.len());
    sig[bytes.start + bit / 8] ^= 1 << (bit % 8);
}

/// One array of a part of every round.
fn all<'a>(
    rounds: &'a [ExpectedOutputs],
    part: impl Fn(&'a ExpectedOutputs) -> &'a [u8],
) -> Vec<u8> {
    rounds.iter().flat_map(part).copied().collect()
}

/// A batch on one backend: keys encoded, made and used in one go, or expanded before.
fn check(engine: &Engine, params: Params, rounds: &[ExpectedOutputs], is_known: bool) {
    let n = rounds.len();
    let seeds: Vec<_> = rounds.iter().map(|round| round.seed).collect();
    let rnd: Vec<_> = rounds.iter().map(|round| round.rnd).collect();
    let messages: Vec<_> = rounds.iter().map(ExpectedOutputs::message).collect();
    let (mut pk, mut sk) = (vec![0; n * params.pk_len()], vec![0; n * params.sk_len()]);
    let mut keys: Vec<_> = (0..n).map(|_| ml_dsa::SigningKey::blank(params)).collect();
    if is_known {
        run_all(
            engine,
            n,
            Operation::Dsa(Dsa::Generate { params, seeds: &seeds, keys: &mut keys }),
        );
        pk = keys.iter().flat_map(|key| key.verify_key().bytes()).copied().collect();
        sk = keys.iter().flat_map(|key| key.bytes()).copied().collect();
    } else {
        let operation =
            Operation::Dsa(Dsa::Keygen { params, seeds: &seeds, pk: &mut pk, sk: &mut sk });
        run_all(engine, n, operation);
    }
    assert!(pk == all(rounds, |round| &round.pk) && sk == all(rounds, |round| &round.sk));
    let known: Vec<_> = keys.iter().collect();
    let public: Vec<_> = keys.iter().map(|key| key.verify_key()).collect();
    let mut sig = vec![0; n * params.sig_len()];
    let keys = if is_known { Keys::Known(&known[..]) } else { Keys::Fresh(&sk) };
    let operation =
        Operation::Dsa(Dsa::Sign { params, keys, messages: &messages, rnd: &rnd, sig: &mut sig });
    run_all(engine, n, operation);
    assert!(sig == all(rounds, |round| &round.sig));
    let given = all(rounds, |round| &round.given);
    let keys = if is_known { Keys::Known(&public[..]) } else { Keys::Fresh(&pk) };
    let operation = Operation::Dsa(Dsa::Verify { params, keys, messages: &messages, sig: &given });
    for (round, status) in rounds.iter().zip(run(engine, n, operation)) {
        assert_eq!(status == Status::Ok, round.is_valid, "{status:?}: {:02x?}", round.given);
        assert_eq!(round.is_valid, round.given == round.sig, "a change went unnoticed");
    }
}

/// Every operation of a set bit for bit, on every backend.
fn compare(algorithm: Algorithm, other: fn([u8; 32], usize) -> ExpectedOutputs) {
    let params = ml_dsa::params(algorithm).unwrap();
    let (engines, rounds) = (engines(), count(3, 120));
    for (index, batch) in batches(rounds).enumerate() {
        let first = batch.start;
        let expected: Vec<_> =
            batch.map(|round| other(random(algorithm.name(), round), round)).collect();
        for engine in &engines {
            println!("{algorithm}: {} rounds from {first}", expected.len());
            check(engine, params, &expected, index % 2 == 1);
        }
    }
    tally(algorithm, "libcrux-ml-dsa", 3 * rounds);
}

macro_rules! libcrux {
    ($test:ident, $module:ident, $signature:ident, $algorithm:ident) => {
        #[test]
        fn $test() {
            use libcrux_ml_dsa::$module as other;
            compare(Algorithm::$algorithm, |seed, round| {
                let (rnd, (text, context)) = (random("rnd", round), text(round));
                let pair = other::generate_key_pair(seed);
                let sig = other::sign(&pair.signing_key, &text, &text[..context], rnd).unwrap();
                let sig = *sig.as_ref();
                let mut given = sig;
                damage(&mut given, round);
                let theirs = other::$signature::new(given);
                let verdict =
                    other::verify(&pair.verification_key, &text, &text[..context], &theirs);
                ExpectedOutputs {
                    seed,
                    rnd,
                    context,
                    pk: pair.verification_key.as_ref().to_vec(),
                    sk: pair.signing_key.as_ref().to_vec(),
                    sig: sig.to_vec(),
                    given: given.to_vec(),
                    is_valid: verdict.is_ok(),
                    text,
                }
            });
        }
    };
}

libcrux!(ml_dsa_44_equals_libcrux, ml_dsa_44, MLDSA44Signature, MlDsa44);
libcrux!(ml_dsa_65_equals_libcrux, ml_dsa_65, MLDSA65Signature, MlDsa65);
libcrux!(ml_dsa_87_equals_libcrux, ml_dsa_87, MLDSA87Signature, MlDsa87);

type AwsLc = (&'static PqdsaSigningAlgorithm, &'static PqdsaVerificationAlgorithm);

/// Keys of one seed are the same; ours verify with them and theirs with us, and both refuse what is
/// damaged.
fn with_aws_lc(
    engines: &[Engine],
    params: Params,
    (signing, verification): AwsLc,
    rounds: Range<usize>,
) {
    let n = rounds.len();
    let seeds: Vec<[u8; 32]> = rounds.clone().map(|round| random("aws-lc", round)).collect();
    let rnd: Vec<_> = rounds.clone().map(|round| random("rnd", round)).collect();
    let texts: Vec<_> = rounds.clone().map(|round| text(round).0).collect();
    let messages: Vec<_> =
        texts.iter().map(|text| Message::Pure { context: b"", message: text }).collect();
    let theirs: Vec<_> =
        seeds.iter().map(|seed| PqdsaKeyPair::from_seed(signing, seed).unwrap()).collect();
    let mut given = vec![0; n * params.sig_len()];
    let mut valid = Vec::new();
    for (((sig, key), text), round) in
        given.chunks_exact_mut(params.sig_len()).zip(&theirs).zip(&texts).zip(rounds.clone())
    {
        key.sign(text, sig).unwrap();
        damage(sig, round);
        let public = UnparsedPublicKey::new(verification, key.public_key().as_ref());
        valid.push(public.verify(text, sig).is_ok());
    }
    let mut first: Option<Vec<u8>> = None;
    for engine in engines {
        let (mut pk, mut sk) = (vec![0; n * params.pk_len()], vec![0; n * params.sk_len()]);
        let operation =
            Operation::Dsa(Dsa::Keygen { params, seeds: &seeds, pk: &mut pk, sk: &mut sk });
        run_all(engine, n, operation);
        for (ours, theirs) in pk.chunks_exact(params.pk_len()).zip(&theirs) {
            assert!(ours == theirs.public_key().as_ref(), "{rounds:?}");
        }
        let mut sig = vec![0; n * params.sig_len()];
        let keys = Keys::Fresh(&sk);
        let operation = Operation::Dsa(Dsa::Sign {
            params,
            keys,
            messages: &messages,
            rnd: &rnd,
            sig: &mut sig,
        });
        run_all(engine, n, operation);
        assert!(*first.get_or_insert_with(|| sig.clone()) == sig, "{rounds:?}");
        let keys = Keys::Fresh(&pk);
        let operation =
            Operation::Dsa(Dsa::Verify { params, keys, messages: &messages, sig: &given });
        let status = run(engine, n, operation);
        let verdicts: Vec<_> = status.iter().map(|status| status.is_ok()).collect();
        assert_eq!(verdicts, valid, "{rounds:?}");
    }
    let sig = first.unwrap();
    for ((sig, key), text) in sig.chunks_exact(params.sig_len()).zip(&theirs).zip(&texts) {
        let public = UnparsedPublicKey::new(verification, key.public_key().as_ref());
        public.verify(text, sig).unwrap();
    }
}

#[test]
fn ml_dsa_works_with_aws_lc_in_both_directions() {
    let sets: [(Algorithm, AwsLc); 3] = [
        (Algorithm::MlDsa44, (&aws::ML_DSA_44_SIGNING, &aws::ML_DSA_44)),
        (Algorithm::MlDsa65, (&aws::ML_DSA_65_SIGNING, &aws::ML_DSA_65)),
        (Algorithm::MlDsa87, (&aws::ML_DSA_87_SIGNING, &aws::ML_DSA_87)),
    ];
    let engines = engines();
    for (algorithm, other) in sets {
        let params = ml_dsa::params(algorithm).unwrap();
        let rounds = count(3, 120);
        batches(rounds).for_each(|batch| with_aws_lc(&engines, params, other, batch));
        tally(algorithm, "AWS-LC", 3 * rounds);
    }
}
