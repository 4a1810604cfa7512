//! Against two other people's implementations, in process and on random inputs: libcrux bit for bit
//! (its interfaces take the randomness), AWS-LC in both directions (it draws its own).
//!
//! OpenSSL is compared in the tests of the provider and of the command line, both ways. The seeds
//! are counted, so a failure can be run again. `GABION_SOAK=N` runs N rounds instead of 40.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.

use aws_lc_rs::encoding::AsRawBytes;
use aws_lc_rs::kem;
use aws_lc_rs::signature::{
    self as aws, KeyPair, PqdsaKeyPair, PqdsaSigningAlgorithm, PqdsaVerificationAlgorithm,
    UnparsedPublicKey,
};
use gabion_engine::{Algorithm, Config, Engine, Message, OsEntropy};
use sha3::digest::{ExtendableOutput, Update, XofReader};

/// Random bytes that depend on the test, the round and the use alone.
fn random<const N: usize>(label: &str, round: usize) -> [u8; N] {
    let mut source = sha3::Shake128::default();
    source.update(label.as_bytes());
    source.update(&round.to_le_bytes());
    let mut out = [0; N];
    source.finalize_xof().read(&mut out);
    out
}

fn rounds() -> usize {
    std::env::var("GABION_SOAK").ok().and_then(|count| count.parse().ok()).unwrap_or(40)
}

fn engines() -> Vec<Engine> {
    gabion_backend::cpus()
        .iter()
        .map(|backend| Config { backend: Some(backend.name().to_owned()), ..Config::default() })
        .map(|config| Engine::new(&config).unwrap())
        .collect()
}

macro_rules! libcrux_kem {
    ($test:ident, $module:ident, $algorithm:expr) => {
        #[test]
        fn $test() {
            use libcrux_ml_kem::$module as other;
            for engine in engines() {
                for round in 0..rounds() {
                    let seed = random::<64>(stringify!($test), round);
                    let key = engine.kem_from_seed($algorithm, &seed).unwrap();
                    let pair = other::generate_key_pair(seed);
                    assert_eq!(key.public().bytes(), pair.pk(), "round {round}");
                    assert_eq!(key.bytes(), pair.sk(), "round {round}");
                    let m = random::<32>("m", round);
                    let (ct, shared) = engine.testing_only_encaps_with(&key.public(), &m).unwrap();
                    let (their_ct, theirs) = other::encapsulate(pair.public_key(), m);
                    assert_eq!(ct, their_ct.as_ref(), "round {round}");
                    assert_eq!(*shared, theirs, "round {round}");
                    // One bit flipped somewhere: both reject implicitly, to the same secret.
                    let mut bad = ct.clone();
                    let place = round * 31 % bad.len();
                    bad[place] ^= 1 << (round % 8);
                    let their_bad = bad.as_slice().try_into().unwrap();
                    let theirs = other::decapsulate(pair.private_key(), &their_bad);
                    assert_eq!(*engine.decaps(&key, &bad).unwrap(), theirs, "round {round}");
                }
            }
        }
    };
}

libcrux_kem!(ml_kem_512_equals_libcrux, mlkem512, Algorithm::MlKem512);
libcrux_kem!(ml_kem_768_equals_libcrux, mlkem768, Algorithm::MlKem768);
libcrux_kem!(ml_kem_1024_equals_libcrux, mlkem1024, Algorithm::MlKem1024);

macro_rules! libcrux_dsa {
    ($test:ident, $module:ident, $signature:ident, $algorithm:expr) => {
        #[test]
        fn $test() {
            use libcrux_ml_dsa::$module as other;
            for engine in engines() {
                for round in 0..rounds() {
                    let seed = random::<32>(stringify!($test), round);
                    let key = engine.dsa_from_seed($algorithm, &seed).unwrap();
                    let pair = other::generate_key_pair(seed);
                    assert_eq!(key.public().bytes(), pair.verification_key.as_ref());
                    assert_eq!(key.bytes(), pair.signing_key.as_ref());
                    let text = random::<200>("text", round);
                    let text = &text[..round % 200];
                    let context = &text[..text.len() / 3];
                    let rnd = random::<32>("rnd", round);
                    let message = Message::Pure { context, message: text };
                    let signature = engine.testing_only_sign_with(&key, message, &rnd).unwrap();
                    let theirs = other::sign(&pair.signing_key, text, context, rnd).unwrap();
                    assert_eq!(signature, theirs.as_ref(), "round {round}");
                    engine.verify(&key.public(), message, theirs.as_ref()).unwrap();
                    // The same verdict on a signature with one bit flipped.
                    let mut bad = signature;
                    let place = round * 67 % bad.len();
                    bad[place] ^= 1 << (round % 8);
                    let ours = engine.verify(&key.public(), message, &bad).is_ok();
                    let bad = other::$signature::new(bad.as_slice().try_into().unwrap());
                    let theirs = other::verify(&pair.verification_key, text, context, &bad);
                    assert_eq!(ours, theirs.is_ok(), "round {round}, byte {place}");
                    assert!(!ours, "round {round}: byte {place} does not matter");
                }
            }
        }
    };
}

libcrux_dsa!(ml_dsa_44_equals_libcrux, ml_dsa_44, MLDSA44Signature, Algorithm::MlDsa44);
libcrux_dsa!(ml_dsa_65_equals_libcrux, ml_dsa_65, MLDSA65Signature, Algorithm::MlDsa65);
libcrux_dsa!(ml_dsa_87_equals_libcrux, ml_dsa_87, MLDSA87Signature, Algorithm::MlDsa87);

#[test]
fn ml_kem_works_with_aws_lc_in_both_directions() {
    for (algorithm, other) in [
        (Algorithm::MlKem512, &kem::ML_KEM_512),
        (Algorithm::MlKem768, &kem::ML_KEM_768),
        (Algorithm::MlKem1024, &kem::ML_KEM_1024),
    ] {
        for engine in engines() {
            for _ in 0..rounds() {
                // Their key, our encapsulation, their decapsulation.
                let theirs = kem::DecapsulationKey::generate(other).unwrap();
                let public = theirs.encapsulation_key().unwrap().key_bytes().unwrap();
                let public = engine.kem_public(algorithm, public.as_ref()).unwrap();
                let (ct, shared) = engine.encaps(&public, &OsEntropy).unwrap();
                let opened = theirs.decapsulate(kem::Ciphertext::from(&ct[..])).unwrap();
                assert_eq!(opened.as_ref(), &shared[..]);
                // Our key, their encapsulation, our decapsulation.
                let ours = engine.kem_generate(algorithm, &OsEntropy).unwrap();
                let public = kem::EncapsulationKey::new(other, ours.public().bytes()).unwrap();
                let (ct, shared) = public.encapsulate().unwrap();
                assert_eq!(&engine.decaps(&ours, ct.as_ref()).unwrap()[..], shared.as_ref());
                // Their private key is ours as well.
                let imported = theirs.key_bytes().unwrap();
                let imported = engine.kem_private(algorithm, imported.as_ref()).unwrap();
                let (ct, shared) = engine.encaps(&imported.public(), &OsEntropy).unwrap();
                assert_eq!(engine.decaps(&imported, &ct).unwrap(), shared);
            }
        }
    }
}

#[test]
fn ml_dsa_works_with_aws_lc_in_both_directions() {
    let sets: [(Algorithm, &'static PqdsaSigningAlgorithm, &'static PqdsaVerificationAlgorithm);
        3] = [
        (Algorithm::MlDsa44, &aws::ML_DSA_44_SIGNING, &aws::ML_DSA_44),
        (Algorithm::MlDsa65, &aws::ML_DSA_65_SIGNING, &aws::ML_DSA_65),
        (Algorithm::MlDsa87, &aws::ML_DSA_87_SIGNING, &aws::ML_DSA_87),
    ];
    for (algorithm, signing, verification) in sets {
        for engine in engines() {
            for round in 0..rounds() {
                let seed = random::<32>("aws-lc", round);
                let ours = engine.dsa_from_seed(algorithm, &seed).unwrap();
                let theirs = PqdsaKeyPair::from_seed(signing, &seed).unwrap();
                assert_eq!(theirs.public_key().as_ref(), ours.public().bytes());
                let text = random::<64>("text", round);
                let message = Message::Pure { context: b"", message: &text };
                let signature = engine.sign(&ours, message, &OsEntropy).unwrap();
                let public = ours.public();
                let verifier = UnparsedPublicKey::new(verification, public.bytes());
                verifier.verify(&text, &signature).unwrap();
                let mut signature = vec![0; signature.len()];
                theirs.sign(&text, &mut signature).unwrap();
                engine.verify(&ours.public(), message, &signature).unwrap();
                let raw = theirs.private_key().as_raw_bytes().unwrap();
                assert_eq!(
                    engine.dsa_private(algorithm, raw.as_ref()).unwrap().bytes(),
                    ours.bytes()
                );
            }
        }
    }
}
