//! Faults put into backends and entropy: what comes out must be right, or nothing.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use gabion_backend::cpus;
use gabion_engine::{
    Algorithm, Backend, BackendState, Batch, BatchOutcome, Config, Dsa, Engine, Error, Kem, Keys,
    Message, Operation, OsEntropy, Randomness, Status, Task, ml_dsa, ml_kem,
};

/// The fault of a [`Broken`] backend once it was triggered.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    /// Panics before it writes anything.
    PanicsAtOnce,
    /// Panics after it wrote every output and every status.
    PanicsAtTheEnd,
    /// Runs the batch and takes one lane's status back.
    LeavesALane,
    /// Runs nothing and says nothing.
    DoesNothing,
    /// Flips a bit of the last signature, and calls it good.
    Lies,
    /// Does so once.
    LiesOnce,
    /// Runs the batch and reports a failed self-check for the last lane.
    BlamesItself,
    /// Does so once.
    BlamesItselfOnce,
    /// Has no memory for the last lane.
    LacksMemory,
    /// Declines, though it wrote every output and every status.
    Declines,
    /// Loses the batch after it wrote every output and every status.
    Loses,
}

/// A backend that passes its self-tests and breaks afterwards.
struct Broken {
    inner: Box<dyn Backend>,
    fault: Fault,
    loose: Arc<AtomicBool>,
    calls: Arc<AtomicUsize>,
}

impl Backend for Broken {
    fn name(&self) -> &'static str {
        "broken"
    }

    fn lanes(&self) -> usize {
        self.inner.lanes()
    }

    fn run(&self, batch: &mut Batch<'_>) -> BatchOutcome {
        if !self.loose.load(Ordering::Relaxed) {
            return self.inner.run(batch);
        }
        self.calls.fetch_add(1, Ordering::Relaxed);
        let ran = match self.fault {
            Fault::PanicsAtOnce => panic!("a fault that a test put in"),
            Fault::DoesNothing => BatchOutcome::Done,
            _ => self.inner.run(batch),
        };
        match self.fault {
            Fault::PanicsAtOnce | Fault::DoesNothing => {}
            Fault::PanicsAtTheEnd => panic!("a fault that a test put in"),
            Fault::Lies | Fault::LiesOnce => {
                if let Operation::Dsa(Dsa::Sign { sig, .. }) = &mut batch.operation
                    && let Some(last) = sig.last_mut()
                {
                    *last ^= 1;
                    self.loose.store(self.fault == Fault::Lies, Ordering::Relaxed);
                }
            }
            Fault::LeavesALane => {
                *batch.status.last_mut().unwrap() = Status::NotRun;
            }
            Fault::BlamesItself | Fault::BlamesItselfOnce => {
                *batch.status.last_mut().unwrap() = Status::Fault;
                self.loose.store(self.fault == Fault::BlamesItself, Ordering::Relaxed);
            }
            Fault::LacksMemory => {
                *batch.status.last_mut().unwrap() = Status::NoMemory;
            }
            Fault::Declines => return BatchOutcome::Declined,
            Fault::Loses => return BatchOutcome::Lost,
        }
        ran
    }
}

/// An engine whose best backend is broken, whether a sound one stands behind it or not; what lets
/// the fault loose, and how often the broken one was called since.
fn engine(fault: Fault, is_alone: bool) -> (Engine, Arc<AtomicBool>, Arc<AtomicUsize>) {
    let (loose, calls) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
    let inner = cpus().remove(0);
    let broken = Broken { inner, fault, loose: Arc::clone(&loose), calls: Arc::clone(&calls) };
    let mut backends: Vec<Box<dyn Backend>> = vec![Box::new(broken)];
    if !is_alone {
        backends.extend(cpus().pop());
    }
    let config = Config { verify_after_sign: true, ..Config::default() };
    (Engine::with_backends(backends, &config).unwrap(), loose, calls)
}

const FAULTS: [Fault; 6] = [
    Fault::PanicsAtOnce,
    Fault::PanicsAtTheEnd,
    Fault::LeavesALane,
    Fault::DoesNothing,
    Fault::Declines,
    Fault::Loses,
];

#[test]
fn next_backend_takes_over_from_a_broken_one() {
    for fault in FAULTS {
        let (engine, loose, calls) = engine(fault, false);
        let key = engine.signature_generate(Algorithm::MlDsa44, &OsEntropy).unwrap();
        let kem = engine.kem_generate(Algorithm::MlKem768, &OsEntropy).unwrap();
        loose.store(true, Ordering::Relaxed);
        let message = Message::Pure { context: b"", message: b"m" };
        let signature = engine.sign(&key, message, &OsEntropy).unwrap();
        assert_eq!(engine.verify(&key.public(), message, &signature), Ok(()), "{fault:?}");
        let (ct, shared) = engine.encaps(&kem.public(), &OsEntropy).unwrap();
        assert_eq!(engine.decaps(&kem, &ct).unwrap(), shared, "{fault:?}");
        // One that leaves lanes without a verdict may not be asked again, for that algorithm; one that lost a
        // batch for none, for a second that may be over.
        let is_wrong = matches!(fault, Fault::LeavesALane | Fault::DoesNothing);
        let called = calls.load(Ordering::Relaxed);
        match fault {
            Fault::Loses => assert!(called >= 1),
            _ => assert_eq!(called, if is_wrong { 2 } else { 5 }, "{fault:?}"),
        }
        loose.store(false, Ordering::Relaxed);
        match &engine.report()[0].state {
            BackendState::Ok => assert!(!is_wrong, "{fault:?}"),
            BackendState::Withdrawn(why) => assert!(is_wrong && why.contains("verdict"), "{why}"),
            BackendState::Quarantined => assert_eq!(fault, Fault::Loses),
            other => unreachable!("{other:?}"),
        }
    }
}

#[test]
fn broken_only_backend_yields_no_output() {
    for fault in FAULTS {
        let (engine, loose, _) = engine(fault, true);
        let algorithm = Algorithm::MlKem768;
        let params = ml_kem::params(algorithm).unwrap();
        let key = engine.kem_generate(algorithm, &OsEntropy).unwrap();
        loose.store(true, Ordering::Relaxed);
        let (mut ct, mut shared) = (vec![7; 3 * params.ct_len()], [[7; 32]; 3]);
        let mut status = [Status::Ok; 3];
        let public = key.public();
        let operation = Operation::Kem(Kem::Encaps {
            params,
            keys: Keys::Known(&[public.ml_kem().unwrap(); 3]),
            m: &[[9; 32]; 3],
            ct: &mut ct,
            shared: &mut shared,
        });
        let error = engine.run(&mut Batch { operation, status: &mut status }).unwrap_err();
        let task = Task::Encaps;
        let expected = match fault {
            Fault::PanicsAtOnce | Fault::PanicsAtTheEnd => Error::Panicked { algorithm, task },
            Fault::Declines | Fault::Loses => Error::BackendUnavailable { algorithm, task },
            _ => Error::NoBackend(algorithm),
        };
        assert_eq!(error, expected, "{fault:?}");
        assert_eq!((status, shared), ([Status::NotRun; 3], [[0; 32]; 3]), "{fault:?}");
        assert!(ct.iter().all(|&byte| byte == 0), "{fault:?}");
    }
}

#[test]
fn a_wrong_signature_is_caught_before_it_is_given_out() {
    let message = Message::Pure { context: b"", message: b"m" };
    for fault in [Fault::Lies, Fault::LiesOnce] {
        let (engine, loose, _) = engine(fault, false);
        let key = engine.signature_generate(Algorithm::MlDsa44, &OsEntropy).unwrap();
        assert!(engine.sign(&key, message, &OsEntropy).is_ok());
        loose.store(true, Ordering::Relaxed);
        let n = 3;
        let output = Algorithm::MlDsa44.info().output.max();
        let (mut signatures, mut lengths) = (vec![7; n * output], vec![7; n]);
        let mut status = vec![Status::NotRun; n];
        let (keys, messages) = (vec![&key; n], vec![message; n]);
        let fresh = Randomness::Fresh(&OsEntropy);
        engine
            .sign_many(&keys, &messages, fresh, &mut signatures, &mut lengths, &mut status)
            .unwrap();
        assert_eq!(status, [Status::Ok, Status::Ok, Status::Fault], "{fault:?}");
        assert_eq!(lengths, [output, output, 0]);
        assert!(signatures[2 * output..].iter().all(|&byte| byte == 0));
        for lane in signatures.chunks_exact(output).take(2) {
            assert_eq!(engine.verify(&key.public(), message, lane), Ok(()));
        }
        // A fault that stays fails the self-test; one that passed leaves the backend in use.
        assert!(engine.sign(&key, message, &OsEntropy).is_ok(), "{fault:?}");
        let name = engine.backend_for(Algorithm::MlDsa44).unwrap().name();
        assert_eq!(name, if fault == Fault::Lies { "portable" } else { "broken" });
    }
}

#[test]
fn single_faulty_signature_is_an_error() {
    let (engine, loose, _) = engine(Fault::LiesOnce, false);
    let key = engine.signature_generate(Algorithm::MlDsa65, &OsEntropy).unwrap();
    let message = Message::Pure { context: b"", message: b"m" };
    assert!(engine.sign(&key, message, &OsEntropy).is_ok());
    loose.store(true, Ordering::Relaxed);
    let (algorithm, task) = (Algorithm::MlDsa65, Task::Sign);
    let expected = Error::Lane { algorithm, task, status: Status::Fault };
    assert_eq!(engine.sign(&key, message, &OsEntropy), Err(expected));
    assert!(engine.sign(&key, message, &OsEntropy).is_ok());
}

/// The faults that every family's code may report: a malformed key, a root that is not the key's.
#[test]
fn a_fault_that_the_backend_finds_has_it_tested_again() {
    let message = Message::Pure { context: b"", message: b"m" };
    for algorithm in [Algorithm::SlhDsaShake128f, Algorithm::Falcon512, Algorithm::Ed25519] {
        for fault in [Fault::BlamesItself, Fault::BlamesItselfOnce] {
            let (engine, loose, calls) = engine(fault, false);
            let key = engine.signature_generate(algorithm, &OsEntropy).unwrap();
            loose.store(true, Ordering::Relaxed);
            let signed = engine.sign(&key, message, &OsEntropy);
            let serves = |algorithm| engine.backend_for(algorithm).unwrap().name();
            if fault == Fault::BlamesItself {
                // It stays in the test, too: the next backend has signed.
                assert_eq!(engine.verify(&key.public(), message, &signed.unwrap()), Ok(()));
                assert_eq!(serves(algorithm), "portable");
                assert!(calls.load(Ordering::Relaxed) >= 2, "{algorithm} is not tested again");
                loose.store(false, Ordering::Relaxed);
            } else {
                let (task, status) = (Task::Sign, Status::Fault);
                assert_eq!(signed, Err(Error::Lane { algorithm, task, status }));
                assert_eq!(serves(algorithm), "broken");
            }
            // Results of one algorithm do not affect the backend's status for another.
            assert_eq!(serves(Algorithm::MlKem512), "broken");
        }
    }
}

/// A process without memory, or threads, for a moment: what fails then is right afterwards, and by the same
/// backend.
#[test]
fn self_test_without_memory_leaves_the_backend_untested() {
    for algorithm in [Algorithm::MlDsa44, Algorithm::Falcon512, Algorithm::SlhDsaSha2_128f] {
        let (engine, loose, _) = engine(Fault::LacksMemory, false);
        loose.store(true, Ordering::Relaxed);
        let refused = engine.signature_generate(algorithm, &OsEntropy).err();
        assert_eq!(refused, Some(Error::NoMemory("a self-test")), "{algorithm}");
        assert_eq!(engine.report()[0].state, BackendState::Untested);
        loose.store(false, Ordering::Relaxed);
        let key = engine.signature_generate(algorithm, &OsEntropy).unwrap();
        assert_eq!(engine.backend_for(algorithm).unwrap().name(), "broken");
        // An operation that lacks it, likewise.
        loose.store(true, Ordering::Relaxed);
        let message = Message::Pure { context: b"", message: b"m" };
        let refused = engine.sign(&key, message, &OsEntropy).err();
        assert_eq!(refused, Some(Error::NoMemory("the operation")), "{algorithm}");
        loose.store(false, Ordering::Relaxed);
        assert!(engine.sign(&key, message, &OsEntropy).is_ok());
        assert_eq!(engine.backend_for(algorithm).unwrap().name(), "broken");
    }
}

#[test]
fn a_panic_in_a_self_test_withdraws() {
    let (engine, loose, _) = engine(Fault::PanicsAtOnce, false);
    loose.store(true, Ordering::Relaxed);
    let key = engine.kem_generate(Algorithm::MlKem512, &OsEntropy).unwrap();
    assert_eq!(engine.backend_for(Algorithm::MlKem512).unwrap().name(), "portable");
    assert!(key.seed().is_some());
    let BackendState::Withdrawn(why) = &engine.report()[0].state else { panic!("it is not") };
    assert!(why.contains("panicked"), "{why}");
}

/// A backend that leaves its results in failed lanes.
struct Untidy(Box<dyn Backend>);

impl Backend for Untidy {
    fn name(&self) -> &'static str {
        "untidy"
    }

    fn lanes(&self) -> usize {
        self.0.lanes()
    }

    fn run(&self, batch: &mut Batch<'_>) -> BatchOutcome {
        let ran = self.0.run(batch);
        let failed: Vec<usize> =
            (0..batch.lanes()).filter(|&lane| !batch.status[lane].is_ok()).collect();
        for lane in failed {
            match &mut batch.operation {
                Operation::Kem(Kem::Encaps { params, ct, shared, .. }) => {
                    ct[lane * params.ct_len()..][..params.ct_len()].fill(0xaa);
                    shared[lane].fill(0xaa);
                }
                Operation::Dsa(Dsa::Sign { params, sig, .. }) => {
                    sig[lane * params.sig_len()..][..params.sig_len()].fill(0xaa);
                }
                _ => {}
            }
        }
        ran
    }
}

#[test]
fn output_of_failed_lanes_is_cleared() {
    let untidy: Vec<Box<dyn Backend>> = vec![Box::new(Untidy(cpus().remove(0)))];
    let engine = Engine::with_backends(untidy, &Config::default()).unwrap();
    let params = ml_kem::params(Algorithm::MlKem512).unwrap();
    let made = engine.kem_generate(Algorithm::MlKem512, &OsEntropy).unwrap();
    let mut ek = [made.public().bytes(), made.public().bytes()].concat();
    ek[params.ek_len()..params.ek_len() + 3].fill(0xff);
    let (mut ct, mut shared) = (vec![7; 2 * params.ct_len()], [[7; 32]; 2]);
    let mut status = [Status::NotRun; 2];
    let operation = Operation::Kem(Kem::Encaps {
        params,
        keys: Keys::Fresh(&ek),
        m: &[[9; 32]; 2],
        ct: &mut ct,
        shared: &mut shared,
    });
    engine.run(&mut Batch { operation, status: &mut status }).unwrap();
    assert_eq!(status, [Status::Ok, Status::InvalidKey]);
    assert!(ct[params.ct_len()..].iter().all(|&byte| byte == 0));
    assert_eq!(shared[1], [0; 32]);
    assert_eq!(*engine.decaps(&made, &ct[..params.ct_len()]).unwrap(), shared[0]);

    let params = ml_dsa::params(Algorithm::MlDsa44).unwrap();
    let made = engine.signature_generate(Algorithm::MlDsa44, &OsEntropy).unwrap();
    let mut sk = [made.bytes(), made.bytes()].concat();
    // tr no longer belongs to the rest.
    sk[params.sk_len() + 64] ^= 1;
    let mut sig = vec![7; 2 * params.sig_len()];
    let operation = Operation::Dsa(Dsa::Sign {
        params,
        keys: Keys::Fresh(&sk),
        messages: &[Message::Internal(b"m"); 2],
        rnd: &[[0; 32]; 2],
        sig: &mut sig,
    });
    engine.run(&mut Batch { operation, status: &mut status }).unwrap();
    assert_eq!(status, [Status::Ok, Status::InvalidKey]);
    assert!(sig[params.sig_len()..].iter().all(|&byte| byte == 0));
    assert!(sig[..params.sig_len()].iter().any(|&byte| byte != 0));
}
