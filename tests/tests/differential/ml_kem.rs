//! ML-KEM against libcrux, bit for bit, and AWS-LC, which draws its own randomness.

use aws_lc_rs::kem;
use gabion_engine::{Algorithm, Engine, Kem, Keys, Operation, ml_kem};

use crate::{batches, count, engines, random, random_below, run_all, tally};

type Params = &'static ml_kem::Params;

/// The outputs of another implementation for one round's randomness.
struct ExpectedOutputs {
    seed: [u8; 64],
    m: [u8; 32],
    ek: Vec<u8>,
    dk: Vec<u8>,
    ct: Vec<u8>,
    shared: [u8; 32],
    /// The ciphertext to decapsulate, with a bit flipped in most rounds.
    given: Vec<u8>,
    opened: [u8; 32],
}

/// Flips a bit of a ciphertext in two rounds of three.
fn damage(ct: &mut [u8], round: usize) {
    if !round.is_multiple_of(3) {
        let bit = random_below("damage", round, 8 * ct.len());
        ct[bit / 8] ^= 1 << (bit % 8);
    }
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
    let m: Vec<_> = rounds.iter().map(|round| round.m).collect();
    let (mut ek, mut dk) = (vec![0; n * params.ek_len()], vec![0; n * params.dk_len()]);
    let mut keys: Vec<_> = (0..n).map(|_| ml_kem::DecapsKey::blank(params)).collect();
    if is_known {
        run_all(
            engine,
            n,
            Operation::Kem(Kem::Generate { params, seeds: &seeds, keys: &mut keys }),
        );
        ek = keys.iter().flat_map(|key| key.encaps_key().bytes()).copied().collect();
        dk = keys.iter().flat_map(|key| key.bytes()).copied().collect();
    } else {
        let operation =
            Operation::Kem(Kem::Keygen { params, seeds: &seeds, ek: &mut ek, dk: &mut dk });
        run_all(engine, n, operation);
    }
    assert!(ek == all(rounds, |round| &round.ek) && dk == all(rounds, |round| &round.dk));
    let known: Vec<_> = keys.iter().collect();
    let public: Vec<_> = keys.iter().map(|key| key.encaps_key()).collect();
    let (mut ct, mut shared) = (vec![0; n * params.ct_len()], vec![[0; 32]; n]);
    let keys = if is_known { Keys::Known(&public[..]) } else { Keys::Fresh(&ek) };
    let operation =
        Operation::Kem(Kem::Encaps { params, keys, m: &m, ct: &mut ct, shared: &mut shared });
    run_all(engine, n, operation);
    assert!(ct == all(rounds, |round| &round.ct));
    assert!(shared.as_flattened() == all(rounds, |round| &round.shared));
    let given = all(rounds, |round| &round.given);
    let keys = if is_known { Keys::Known(&known[..]) } else { Keys::Fresh(&dk) };
    let operation = Operation::Kem(Kem::Decaps { params, keys, ct: &given, shared: &mut shared });
    run_all(engine, n, operation);
    assert!(shared.as_flattened() == all(rounds, |round| &round.opened));
}

/// Every operation of a set bit for bit, on every backend.
fn compare(algorithm: Algorithm, other: fn([u8; 64], [u8; 32], usize) -> ExpectedOutputs) {
    let params = ml_kem::params(algorithm).unwrap();
    let (engines, rounds) = (engines(), count(3, 240));
    for (index, batch) in batches(rounds).enumerate() {
        let first = batch.start;
        let label = algorithm.name();
        let expected: Vec<_> =
            batch.map(|round| other(random(label, round), random("m", round), round)).collect();
        for engine in &engines {
            println!("{algorithm}: {} rounds from {first}", expected.len());
            check(engine, params, &expected, index % 2 == 1);
        }
    }
    tally(algorithm, "libcrux-ml-kem", 3 * rounds);
}

macro_rules! libcrux {
    ($test:ident, $module:ident, $algorithm:ident) => {
        #[test]
        fn $test() {
            use libcrux_ml_kem::$module as other;
            compare(Algorithm::$algorithm, |seed, m, round| {
                let pair = other::generate_key_pair(seed);
                let (ct, shared) = other::encapsulate(pair.public_key(), m);
                let mut given = *ct.as_slice();
                damage(&mut given, round);
                let opened = other::decapsulate(pair.private_key(), &given.into());
                ExpectedOutputs {
                    seed,
                    m,
                    ek: pair.pk().to_vec(),
                    dk: pair.sk().to_vec(),
                    ct: ct.as_slice().to_vec(),
                    shared,
                    given: given.to_vec(),
                    opened,
                }
            });
        }
    };
}

libcrux!(ml_kem_512_equals_libcrux, mlkem512, MlKem512);
libcrux!(ml_kem_768_equals_libcrux, mlkem768, MlKem768);
libcrux!(ml_kem_1024_equals_libcrux, mlkem1024, MlKem1024);

/// Both directions in a batch: our keys, their encapsulation, our decapsulation; their keys, our
/// encapsulation, their decapsulation, ours with their private key, which also gives their result
/// for an invalid ciphertext.
fn with_aws_lc(
    engines: &[Engine],
    params: Params,
    other: &'static kem::Algorithm<kem::AlgorithmId>,
    rounds: std::ops::Range<usize>,
) {
    let n = rounds.len();
    let seeds: Vec<_> = rounds.clone().map(|round| random("aws-lc", round)).collect();
    let m: Vec<_> = rounds.clone().map(|round| random("m", round)).collect();
    let theirs: Vec<_> =
        rounds.clone().map(|_| kem::DecapsulationKey::generate(other).unwrap()).collect();
    let public = |key: &kem::DecapsulationKey<_>| {
        key.encapsulation_key().unwrap().key_bytes().unwrap().as_ref().to_vec()
    };
    let their_ek: Vec<u8> = theirs.iter().flat_map(public).collect();
    let private = |key: &kem::DecapsulationKey<_>| key.key_bytes().unwrap().as_ref().to_vec();
    let their_dk: Vec<u8> = theirs.iter().flat_map(private).collect();
    let (mut ek, mut dk) = (vec![0; n * params.ek_len()], vec![0; n * params.dk_len()]);
    let operation = Operation::Kem(Kem::Keygen { params, seeds: &seeds, ek: &mut ek, dk: &mut dk });
    run_all(&engines[0], n, operation);
    // Their ciphertexts, and the shared secrets.
    let (mut ct_in, mut secrets_in) = (Vec::new(), Vec::new());
    for ek in ek.chunks_exact(params.ek_len()) {
        let (ct, shared) = kem::EncapsulationKey::new(other, ek).unwrap().encapsulate().unwrap();
        ct_in.extend_from_slice(ct.as_ref());
        secrets_in.extend_from_slice(shared.as_ref());
    }
    let mut first: Option<(Vec<u8>, Vec<[u8; 32]>)> = None;
    for engine in engines {
        let mut shared = vec![[0; 32]; n];
        let keys = Keys::Fresh(&dk);
        let operation =
            Operation::Kem(Kem::Decaps { params, keys, ct: &ct_in, shared: &mut shared });
        run_all(engine, n, operation);
        assert!(shared.as_flattened() == secrets_in, "{rounds:?}");
        let mut ct = vec![0; n * params.ct_len()];
        let keys = Keys::Fresh(&their_ek);
        let operation =
            Operation::Kem(Kem::Encaps { params, keys, m: &m, ct: &mut ct, shared: &mut shared });
        run_all(engine, n, operation);
        let expected = first.get_or_insert_with(|| (ct.clone(), shared.clone()));
        assert!(*expected == (ct.clone(), shared), "{rounds:?}");
        // The other implementation decapsulates these below; our engine decapsulates them with its
        // keys.
        for (ct, round) in ct.chunks_exact_mut(params.ct_len()).zip(rounds.clone()) {
            damage(ct, round);
        }
        let mut opened = vec![[0; 32]; n];
        let keys = Keys::Fresh(&their_dk);
        let operation = Operation::Kem(Kem::Decaps { params, keys, ct: &ct, shared: &mut opened });
        run_all(engine, n, operation);
        for ((key, ct), opened) in theirs.iter().zip(ct.chunks_exact(params.ct_len())).zip(opened) {
            let theirs = key.decapsulate(kem::Ciphertext::from(ct)).unwrap();
            assert_eq!(theirs.as_ref(), opened, "{rounds:?}");
        }
    }
    let (ct, shared) = first.unwrap();
    for ((key, ct), shared) in theirs.iter().zip(ct.chunks_exact(params.ct_len())).zip(shared) {
        assert_eq!(key.decapsulate(kem::Ciphertext::from(ct)).unwrap().as_ref(), shared);
    }
}

#[test]
fn ml_kem_works_with_aws_lc_in_both_directions() {
    let engines = engines();
    for (algorithm, other) in [
        (Algorithm::MlKem512, &kem::ML_KEM_512),
        (Algorithm::MlKem768, &kem::ML_KEM_768),
        (Algorithm::MlKem1024, &kem::ML_KEM_1024),
    ] {
        let params = ml_kem::params(algorithm).unwrap();
        // Our decapsulation, our encapsulation, and decapsulation with their key.
        let rounds = count(3, 120);
        batches(rounds).for_each(|batch| with_aws_lc(&engines, params, other, batch));
        tally(algorithm, "AWS-LC", 3 * rounds);
    }
}
