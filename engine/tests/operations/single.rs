//! The engine as its callers see it.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.

use std::sync::atomic::{AtomicUsize, Ordering};

use gabion_backend::cpus;
use gabion_engine::keys::{Forms, Key};
use gabion_engine::{
    Algorithm, Backend, BackendState, Batch, BatchOutcome, Config, Dsa, Engine, Entropy,
    EntropyError, Error, Family, Kem, Keys, Kind, Message, Operation, OsEntropy, Status, ml_dsa,
    ml_kem,
};

fn algorithms(kind: Kind) -> impl Iterator<Item = Algorithm> {
    let info = |algorithm: &Algorithm| algorithm.info();
    Algorithm::all().filter(move |one| info(one).kind == kind && !info(one).stateful)
}

/// One engine for each backend of this machine.
fn engines() -> Vec<Engine> {
    cpus()
        .iter()
        .map(|backend| Config { backend: Some(backend.name().to_owned()), ..Config::default() })
        .map(|config| Engine::new(&config).unwrap())
        .collect()
}

#[test]
fn every_backend_passes_its_self_tests() {
    for engine in engines() {
        for report in engine.report() {
            assert_eq!(report.state, BackendState::Ok, "{}", report.name);
        }
    }
}

#[test]
fn an_unknown_backend_is_named_with_those_there_are() {
    let error =
        Engine::new(&Config { backend: Some("abacus".into()), ..Config::default() }).err().unwrap();
    let text = error.to_string();
    assert!(text.contains("abacus") && text.contains("portable"), "{text}");
}

#[test]
fn kem_round_trips_and_rejects_implicitly() {
    for engine in engines() {
        let is_ml_kem = |algorithm: &Algorithm| algorithm.info().family == Family::MlKem;
        for algorithm in algorithms(Kind::Kem).filter(is_ml_kem) {
            let key = engine.kem_generate(algorithm, &OsEntropy).unwrap();
            let (mut ct, shared) = engine.encaps(&key.public(), &OsEntropy).unwrap();
            assert_eq!(engine.decaps(&key, &ct).unwrap(), shared);
            ct[3] ^= 4;
            assert_ne!(engine.decaps(&key, &ct).unwrap(), shared);
            assert!(engine.decaps(&key, &ct[1..]).is_err());
            let again = engine.kem_private(algorithm, key.bytes()).unwrap();
            assert!(again.seed().is_none() && key.seed().is_some());
            let public = engine.kem_public(algorithm, key.public().bytes()).unwrap();
            let (ct, shared) = engine.encaps(&public, &OsEntropy).unwrap();
            assert_eq!(engine.decaps(&again, &ct).unwrap(), shared);
        }
    }
}

/// The part of a KEM's private key that is ML-KEM's secret vector, of which its other parts say nothing.
fn secret_vector(algorithm: Algorithm) -> std::ops::Range<usize> {
    let info = algorithm.info();
    let mut all = std::iter::once(algorithm).chain(info.part_algorithms());
    let kem = all.find(|part| part.info().family == Family::MlKem).unwrap().info();
    let is_first = info.part_algorithms().next().is_none_or(|part| part == kem.algorithm);
    let from = if is_first { 0 } else { info.private_key.max() - kem.private_key.max() };
    // The public key, its hash and z stand behind it (FIPS 203, Algorithm 16).
    from..from + kem.private_key.max() - kem.public_key.max() - 64
}

#[test]
fn a_private_part_of_another_key_is_refused() {
    let has_parts = |algorithm: &Algorithm| *algorithm != Algorithm::XWing;
    for (engine, algorithm) in engines()
        .iter()
        .flat_map(|engine| algorithms(Kind::Kem).map(move |algorithm| (engine, algorithm)))
        .filter(|(_, algorithm)| has_parts(algorithm))
    {
        let keys = engine.kem_generate_many(algorithm, 2, &OsEntropy).unwrap();
        let mut mixed = keys[0].bytes().to_vec();
        let part = secret_vector(algorithm);
        mixed[part.clone()].copy_from_slice(&keys[1].bytes()[part]);
        let refused = engine.kem_private(algorithm, &mixed).err().unwrap().to_string();
        assert!(refused.contains("do not belong together"), "{algorithm}: {refused}");
        let forms = Forms { expanded: Some(&mixed), ..Forms::default() };
        let both = Key::import(engine, algorithm, &forms);
        assert!(both.is_err(), "{algorithm}");
        // It passes the standard's own checks, but decapsulation gives another secret.
        let taken = engine.kem_private_untested(algorithm, &mixed).unwrap();
        let (ct, sent) = engine.encaps(&taken.public(), &OsEntropy).unwrap();
        assert_ne!(engine.decaps(&taken, &ct).unwrap(), sent, "{algorithm}");
    }
}

/// Every part that stands for another one, in turn: rho, tr, s1 with s2, and t0 of ML-DSA (FIPS 204,
/// Algorithm 24), SK.seed, PK.seed and PK.root of SLH-DSA. Seeds of randomness stand for nothing.
#[test]
fn a_signing_key_with_a_part_of_another_is_refused() {
    let engine = Engine::global().unwrap();
    for (algorithm, parts, free) in [
        (Algorithm::MlDsa44, &[0..32, 64..128, 128..896, 896..2560][..], 32..64),
        (Algorithm::MlDsa65, &[0..32, 64..128, 128..1536, 1536..4032], 32..64),
        (Algorithm::MlDsa87, &[0..32, 64..128, 128..1568, 1568..4896], 32..64),
        (Algorithm::SlhDsaShake128f, &[0..16, 32..48, 48..64], 16..32),
        (Algorithm::SlhDsaSha2_128f, &[0..16, 32..48, 48..64], 16..32),
    ] {
        let keys = engine.signature_generate_many(algorithm, 2, &OsEntropy).unwrap();
        let mixed = |part: &std::ops::Range<usize>| {
            let mut mixed = keys[0].bytes().to_vec();
            mixed[part.clone()].copy_from_slice(&keys[1].bytes()[part.clone()]);
            engine.signature_private(algorithm, &mixed)
        };
        for part in parts {
            assert!(mixed(part).is_err(), "{algorithm}: {part:?}");
        }
        assert!(mixed(&free).is_ok(), "{algorithm}");
    }
}

#[test]
fn signatures_round_trip_in_every_mode() {
    for (at, engine) in engines().into_iter().enumerate() {
        let takes_context = |algorithm: &Algorithm| {
            !matches!(algorithm.info().family, Family::Ed25519 | Family::FnDsa | Family::Composite)
        };
        // Without the best backend's lanes a small set signs for a second; the quick sets of the same
        // hashes go the same way.
        let is_quick = |algorithm: &Algorithm| {
            at == 0 || algorithm.info().family != Family::SlhDsa || !algorithm.name().ends_with('s')
        };
        let all = algorithms(Kind::Signature);
        for algorithm in all.filter(takes_context).filter(is_quick) {
            let key = engine.signature_generate(algorithm, &OsEntropy).unwrap();
            // ECDSA has no contexts.
            let context: &[u8] = if algorithm.info().family == Family::Ecdsa { b"" } else { b"c" };
            let message = Message::Pure { context, message: b"text" };
            let signature = engine.sign(&key, message, &OsEntropy).unwrap();
            assert_eq!(engine.verify(&key.public(), message, &signature), Ok(()));
            let other = Message::Pure { context, message: b"Text" };
            assert_eq!(engine.verify(&key.public(), other, &signature), Err(Error::BadSignature));
            let twice = [(); 2].map(|()| engine.sign_deterministic(&key, message).unwrap());
            assert_eq!(twice[0], twice[1]);
            assert_ne!(twice[0], signature);
            let long = Message::Pure { context: &[0; 256], message: b"" };
            assert!(matches!(engine.sign(&key, long, &OsEntropy), Err(Error::Input(_))));
        }
    }
}

#[test]
fn wrong_kinds_and_lengths_are_named() {
    let engine = Engine::new(&Config::default()).unwrap();
    let error = engine.kem_generate(Algorithm::MlDsa65, &OsEntropy).err().unwrap().to_string();
    assert!(error.contains("ML-DSA-65") && error.contains("ML-KEM-768"), "{error}");
    let error = engine.signature_from_seed(Algorithm::MlDsa44, &[0; 31]).err().unwrap().to_string();
    assert!(error.contains("31") && error.contains("32"), "{error}");
}

/// Every lane count around the lane groups, fresh and known keys, on every backend, against single
/// operations on the portable one.
#[test]
fn batches_agree_with_single_operations_around_the_lane_counts() {
    let oracle =
        Engine::new(&Config { backend: Some("portable".into()), ..Config::default() }).unwrap();
    let algorithm = Algorithm::MlKem768;
    let params = ml_kem::params(algorithm).unwrap();
    for engine in engines() {
        for n in [0, 1, 2, 7, 8, 9, 15, 16, 17, 33] {
            let seeds: Vec<[u8; 64]> =
                (0..n).map(|i| std::array::from_fn(|j| (i * 67 + j * 3) as u8)).collect();
            let (mut ek, mut dk) = (vec![0; n * params.ek_len()], vec![0; n * params.dk_len()]);
            let mut status = vec![Status::NotRun; n];
            let operation =
                Operation::Kem(Kem::Keygen { params, seeds: &seeds, ek: &mut ek, dk: &mut dk });
            engine.run(&mut Batch { operation, status: &mut status }).unwrap();
            let m: Vec<[u8; 32]> =
                (0..n).map(|i| std::array::from_fn(|j| (i * 31 + j * 7) as u8)).collect();
            let (mut ct, mut shared) = (vec![0; n * params.ct_len()], vec![[0; 32]; n]);
            let operation = Operation::Kem(Kem::Encaps {
                params,
                keys: Keys::Fresh(&ek),
                m: &m,
                ct: &mut ct,
                shared: &mut shared,
            });
            engine.run(&mut Batch { operation, status: &mut status }).unwrap();
            assert!(status.iter().all(|status| status.is_ok()));
            for lane in 0..n {
                let key = oracle.kem_from_seed(algorithm, &seeds[lane]).unwrap();
                let at = |len: usize| lane * len..(lane + 1) * len;
                assert_eq!(key.bytes(), &dk[at(params.dk_len())]);
                assert_eq!(key.public().bytes(), &ek[at(params.ek_len())]);
                let (one, secret) = oracle.encaps_with_randomness(&key.public(), &m[lane]).unwrap();
                assert_eq!(one, &ct[at(params.ct_len())], "lane {lane} of {n}");
                assert_eq!(*secret, shared[lane]);
            }
            let mut opened = vec![[0; 32]; n];
            let operation = Operation::Kem(Kem::Decaps {
                params,
                keys: Keys::Fresh(&dk),
                ct: &ct,
                shared: &mut opened,
            });
            engine.run(&mut Batch { operation, status: &mut status }).unwrap();
            assert_eq!(opened, shared);
        }
    }
}

#[test]
fn invalid_lane_does_not_affect_others() {
    for engine in engines() {
        let params = ml_kem::params(Algorithm::MlKem512).unwrap();
        let n = 11;
        let keys: Vec<_> =
            (0..n).map(|_| engine.kem_generate(Algorithm::MlKem512, &OsEntropy).unwrap()).collect();
        let mut ek: Vec<u8> = keys.iter().flat_map(|key| key.public().bytes().to_vec()).collect();
        // Two coefficients of 4095: above q, so the modulus check of FIPS 203, 7.2 must refuse.
        ek[5 * params.ek_len()..5 * params.ek_len() + 3].fill(0xff);
        let (mut ct, mut shared) = (vec![7; n * params.ct_len()], vec![[7; 32]; n]);
        let mut status = vec![Status::NotRun; n];
        let operation = Operation::Kem(Kem::Encaps {
            params,
            keys: Keys::Fresh(&ek),
            m: &vec![[9; 32]; n],
            ct: &mut ct,
            shared: &mut shared,
        });
        engine.run(&mut Batch { operation, status: &mut status }).unwrap();
        for (lane, key) in keys.iter().enumerate() {
            let ct = &ct[lane * params.ct_len()..(lane + 1) * params.ct_len()];
            if lane == 5 {
                assert_eq!(status[lane], Status::InvalidKey);
                assert!(ct.iter().all(|&byte| byte == 0) && shared[lane] == [0; 32]);
            } else {
                assert_eq!(status[lane], Status::Ok);
                assert_eq!(*engine.decaps(key, ct).unwrap(), shared[lane]);
            }
        }
    }
}

#[test]
fn a_bad_signature_fails_alone_in_a_batch() {
    for engine in engines() {
        let params = ml_dsa::params(Algorithm::MlDsa44).unwrap();
        let n = 10;
        let key = engine.signature_generate(Algorithm::MlDsa44, &OsEntropy).unwrap();
        let texts: Vec<[u8; 8]> = (0..n as u64).map(u64::to_le_bytes).collect();
        let messages: Vec<_> =
            texts.iter().map(|text| Message::Pure { context: b"", message: text }).collect();
        let known = vec![key.ml_dsa().unwrap(); n];
        let (mut sig, mut status) = (vec![0; n * params.sig_len()], vec![Status::NotRun; n]);
        let operation = Operation::Dsa(Dsa::Sign {
            params,
            keys: Keys::Known(&known),
            messages: &messages,
            rnd: &vec![[1; 32]; n],
            sig: &mut sig,
        });
        engine.run(&mut Batch { operation, status: &mut status }).unwrap();
        assert!(status.iter().all(|status| status.is_ok()));
        sig[3 * params.sig_len() + 40] ^= 1;
        let public = vec![key.ml_dsa().unwrap().verify_key(); n];
        let operation = Operation::Dsa(Dsa::Verify {
            params,
            keys: Keys::Known(&public),
            messages: &messages,
            sig: &sig,
        });
        engine.run(&mut Batch { operation, status: &mut status }).unwrap();
        for (lane, status) in status.iter().enumerate() {
            let expected = if lane == 3 { Status::InvalidSignature } else { Status::Ok };
            assert_eq!(*status, expected, "lane {lane}");
        }
    }
}

#[test]
fn misshapen_batches_are_refused_before_anything_runs() {
    let engine = Engine::new(&Config::default()).unwrap();
    let params = ml_kem::params(Algorithm::MlKem768).unwrap();
    let (mut ct, mut shared) = (vec![5; params.ct_len() - 1], [[5; 32]]);
    let mut status = [Status::Ok];
    let operation = Operation::Kem(Kem::Encaps {
        params,
        keys: Keys::Fresh(&[0; 1184]),
        m: &[[0; 32]],
        ct: &mut ct,
        shared: &mut shared,
    });
    assert!(engine.run(&mut Batch { operation, status: &mut status }).is_err());
    assert_eq!((status[0], shared), (Status::NotRun, [[5; 32]]));
}

/// Runs a batch of one lane that must be refused as misuse.
fn refused(operation: Operation<'_>) {
    let mut status = [Status::Ok];
    let status = &mut status;
    let engine = Engine::new(&Config::default()).unwrap();
    let answer = engine.run(&mut Batch { operation, status });
    assert_eq!(answer, Err(Error::Input(gabion_scheme::Error::Batch { lanes: 1 })));
}

/// With a matrix and t of zero, a shared secret is public and signatures can be forged.
#[test]
fn blank_and_refused_keys_are_not_used() {
    let engine = Engine::new(&Config::default()).unwrap();
    let params = ml_kem::params(Algorithm::MlKem768).unwrap();
    let mut encaps_key = ml_kem::EncapsKey::blank(params);
    let mut decaps_key = ml_kem::DecapsKey::blank(params);
    let made = engine.kem_generate(params.algorithm, &OsEntropy).unwrap();
    assert!(made.ml_kem().unwrap().is_expanded());
    assert!(made.public().ml_kem().unwrap().is_expanded());
    for round in ["blank", "refused"] {
        let (mut ct, mut shared) = (vec![0; params.ct_len()], [[0; 32]]);
        refused(Operation::Kem(Kem::Encaps {
            params,
            keys: Keys::Known(&[&encaps_key]),
            m: &[[0; 32]],
            ct: &mut ct,
            shared: &mut shared,
        }));
        refused(Operation::Kem(Kem::Decaps {
            params,
            keys: Keys::Known(&[&decaps_key]),
            ct: &ct,
            shared: &mut shared,
        }));
        // A coefficient of q and more; a wrong hash.
        let mut dk = made.bytes().to_vec();
        let hash_at = dk.len() - 64;
        dk[hash_at] ^= 1;
        let mut status = [Status::NotRun];
        for operation in [
            Operation::Kem(Kem::DecodePublic {
                params,
                bytes: &vec![0xff; params.ek_len()],
                keys: std::slice::from_mut(&mut encaps_key),
            }),
            Operation::Kem(Kem::DecodePrivate {
                params,
                bytes: &dk,
                keys: std::slice::from_mut(&mut decaps_key),
            }),
        ] {
            let status = &mut status;
            engine.run(&mut Batch { operation, status }).unwrap();
            assert_eq!(status[0], Status::InvalidKey, "after {round}");
        }
    }
    let other = ml_kem::params(Algorithm::MlKem512).unwrap();
    refused(Operation::Kem(Kem::Generate {
        params,
        seeds: &[[0; 64]],
        keys: &mut [ml_kem::DecapsKey::blank(other)],
    }));
}

/// Signatures for a blank key of ML-DSA can be forged.
#[test]
fn blank_signing_and_verification_keys_are_not_used() {
    let params = ml_dsa::params(Algorithm::MlDsa65).unwrap();
    let message = Message::Internal(b"m");
    let signing_key = ml_dsa::SigningKey::blank(params);
    let mut sig = vec![0; params.sig_len()];
    refused(Operation::Dsa(Dsa::Sign {
        params,
        keys: Keys::Known(&[&signing_key]),
        messages: &[message],
        rnd: &[[0; 32]],
        sig: &mut sig,
    }));
    for key in [&ml_dsa::VerifyKey::blank(params), signing_key.verify_key()] {
        refused(Operation::Dsa(Dsa::Verify {
            params,
            keys: Keys::Known(&[key]),
            messages: &[message],
            sig: &sig,
        }));
    }
}

/// A backend that computes wrongly: it flips one bit of what another one computed.
struct Faulty {
    inner: Box<dyn Backend>,
    calls: AtomicUsize,
}

impl Backend for Faulty {
    fn name(&self) -> &'static str {
        "faulty"
    }

    fn lanes(&self) -> usize {
        self.inner.lanes()
    }

    fn run(&self, batch: &mut Batch<'_>) -> BatchOutcome {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let ran = self.inner.run(batch);
        match &mut batch.operation {
            Operation::Kem(Kem::Encaps { shared, .. }) => {
                if let Some(last) = shared.last_mut() {
                    last[31] ^= 0x80;
                }
            }
            Operation::Dsa(Dsa::Verify { .. }) => batch.status.fill(Status::Ok),
            _ => {}
        }
        ran
    }
}

#[test]
fn a_backend_that_fails_its_self_test_is_withdrawn_and_the_next_one_serves() {
    let faulty = Faulty { inner: cpus().remove(0), calls: AtomicUsize::new(0) };
    let mut backends: Vec<Box<dyn Backend>> = vec![Box::new(faulty)];
    backends.extend(cpus().into_iter().rev().take(1));
    let engine = Engine::with_backends(backends, &Config::default()).unwrap();
    let key = engine.signature_generate(Algorithm::MlDsa65, &OsEntropy).unwrap();
    let message = Message::Pure { context: b"", message: b"m" };
    let mut signature = engine.sign(&key, message, &OsEntropy).unwrap();
    signature[0] ^= 1;
    assert_eq!(engine.verify(&key.public(), message, &signature), Err(Error::BadSignature));
    assert_eq!(engine.backend_for(Algorithm::MlKem768).unwrap().name(), "portable");
    let report = engine.report();
    assert!(matches!(&report[0].state, BackendState::Withdrawn(_)));
    assert_eq!(report[1].state, BackendState::Ok);
    let alone = Faulty { inner: cpus().remove(0), calls: AtomicUsize::new(0) };
    let engine = Engine::with_backends(vec![Box::new(alone)], &Config::default()).unwrap();
    assert_eq!(
        engine.kem_generate(Algorithm::MlKem768, &OsEntropy).err(),
        Some(Error::NoBackend(Algorithm::MlKem768))
    );
}

/// Runs this test alone in a process whose stderr has no reader; there it withdraws a backend.
#[test]
fn withdrawal_works_with_a_closed_stderr() {
    const INSIDE: &str = "GABION_TEST_INSIDE";
    const NAME: &str = "single::withdrawal_works_with_a_closed_stderr";
    if std::env::var_os(INSIDE).is_none() {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", NAME, "--nocapture"])
            .env(INSIDE, "1")
            .stdout(std::process::Stdio::null())
            .stderr(writer)
            .status()
            .unwrap();
        assert!(status.success(), "{status}");
        return;
    }
    let faulty = Faulty { inner: cpus().remove(0), calls: AtomicUsize::new(0) };
    let mut backends: Vec<Box<dyn Backend>> = vec![Box::new(faulty)];
    backends.extend(cpus().into_iter().rev().take(1));
    let engine = Engine::with_backends(backends, &Config::default()).unwrap();
    let backend = engine.backend_for(Algorithm::MlKem512).unwrap();
    assert_eq!(backend.name(), "portable");
}

/// A generator that fails: nothing may come out of it.
struct NoEntropy;

impl Entropy for NoEntropy {
    fn fill(&self, out: &mut [u8]) -> Result<(), EntropyError> {
        out.fill(0);
        Err(EntropyError("closed".into()))
    }
}

#[test]
fn operations_fail_without_entropy() {
    let engine = Engine::new(&Config::default()).unwrap();
    let key = engine.kem_generate(Algorithm::MlKem768, &OsEntropy).unwrap();
    let signing = engine.signature_generate(Algorithm::MlDsa44, &OsEntropy).unwrap();
    let message = Message::Pure { context: b"", message: b"m" };
    assert!(matches!(engine.encaps(&key.public(), &NoEntropy), Err(Error::Entropy(_))));
    assert!(matches!(engine.sign(&signing, message, &NoEntropy), Err(Error::Entropy(_))));
    assert!(engine.kem_generate(Algorithm::MlKem768, &NoEntropy).is_err());
    assert!(engine.signature_generate(Algorithm::MlDsa44, &NoEntropy).is_err());
}

/// Many threads on the same keys, every result checked.
#[test]
fn keys_are_shared_by_threads() {
    let engine = Engine::new(&Config::default()).unwrap();
    let key = engine.kem_generate(Algorithm::MlKem768, &OsEntropy).unwrap();
    let signing = engine.signature_generate(Algorithm::MlDsa65, &OsEntropy).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..24u8 {
            let (engine, key, signing) = (&engine, &key, &signing);
            scope.spawn(move || {
                for round in 0..8u8 {
                    let (ct, shared) = engine.encaps(&key.public(), &OsEntropy).unwrap();
                    assert_eq!(engine.decaps(key, &ct).unwrap(), shared);
                    let text = [thread, round];
                    let message = Message::Pure { context: b"", message: &text };
                    let signature = engine.sign(signing, message, &OsEntropy).unwrap();
                    assert_eq!(engine.verify(&signing.public(), message, &signature), Ok(()));
                }
            });
        }
    });
}
