//! Backends that compute garbage, operation by operation, and randomness that ends at any draw.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.

use std::sync::atomic::{AtomicUsize, Ordering};

use gabion_backend::{FnDsa, cpus};
use gabion_engine::{
    Algorithm, Backend, Batch, BatchOutcome, Config, Dsa, Ed25519, Engine, Entropy, EntropyError,
    Error, Kem, Kind, Message, Operation, OsEntropy, Randomness, Slh, Status, Task, X25519,
};

/// The error in the results of one kind of operation.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Garbage {
    /// One bit of the last lane's last output.
    Bit,
    /// The keys of two lanes are exchanged.
    Exchanged,
    /// The keys are those of another seed.
    OtherSeed,
    /// Every lane says that it succeeded.
    AllOk,
    /// Every lane says that it failed.
    AllFailed,
}

/// The batches that come out wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Scope {
    All,
    /// Single operations alone.
    Single,
    /// Batches of several lanes alone.
    Batches,
}

struct WrongBackend {
    inner: Box<dyn Backend>,
    task: Task,
    garbage: Garbage,
    of: Scope,
}

impl Backend for WrongBackend {
    fn name(&self) -> &'static str {
        "wrong"
    }

    fn lanes(&self) -> usize {
        self.inner.lanes()
    }

    fn run(&self, batch: &mut Batch<'_>) -> BatchOutcome {
        let ran = self.inner.run(batch);
        let is_one = batch.status.len() == 1;
        let is_right = match self.of {
            Scope::All => false,
            Scope::Single => !is_one,
            Scope::Batches => is_one,
        };
        if batch.task() != self.task || is_right {
            return ran;
        }
        match self.garbage {
            Garbage::Bit => flip(&mut batch.operation),
            Garbage::Exchanged => exchange(&mut batch.operation),
            Garbage::OtherSeed => self.of_another_seed(&mut batch.operation),
            Garbage::AllOk => batch.status.fill(Status::Ok),
            Garbage::AllFailed => batch.status.fill(Status::InvalidSignature),
        }
        ran
    }
}

impl WrongBackend {
    /// Makes keys once more, the first of another seed, or decodes other bytes.
    fn of_another_seed(&self, operation: &mut Operation<'_>) {
        let lanes = match operation {
            Operation::Kem(Kem::Generate { seeds, .. }) => seeds.len(),
            Operation::Dsa(Dsa::Generate { seeds, .. }) => seeds.len(),
            Operation::Ed25519(Ed25519::Generate { seeds, .. }) => seeds.len(),
            Operation::Slh(Slh::Generate { keys, .. }) => keys.len(),
            Operation::Kem(Kem::DecodePublic { keys, .. }) => keys.len(),
            Operation::Dsa(Dsa::DecodePublic { keys, .. }) => keys.len(),
            Operation::Kem(Kem::DecodePrivate { keys, .. }) => keys.len(),
            _ => return,
        };
        let mut status = vec![Status::NotRun; lanes];
        let status = &mut status[..];
        let ran = match operation {
            Operation::Kem(Kem::Generate { params, seeds, keys }) => {
                let mut seeds = seeds.to_vec();
                seeds[0][0] ^= 1;
                let operation = Operation::Kem(Kem::Generate { params, seeds: &seeds, keys });
                self.inner.run(&mut Batch { operation, status })
            }
            Operation::Dsa(Dsa::Generate { params, seeds, keys }) => {
                let mut seeds = seeds.to_vec();
                seeds[0][0] ^= 1;
                let operation = Operation::Dsa(Dsa::Generate { params, seeds: &seeds, keys });
                self.inner.run(&mut Batch { operation, status })
            }
            Operation::Ed25519(Ed25519::Generate { seeds, keys }) => {
                let mut seeds = seeds.to_vec();
                seeds[0][0] ^= 1;
                let operation = Operation::Ed25519(Ed25519::Generate { seeds: &seeds, keys });
                self.inner.run(&mut Batch { operation, status })
            }
            Operation::Slh(Slh::Generate { params, seeds, keys }) => {
                let mut seeds = seeds.to_vec();
                seeds[0] ^= 1;
                let operation = Operation::Slh(Slh::Generate { params, seeds: &seeds, keys });
                self.inner.run(&mut Batch { operation, status })
            }
            // A bit of t_hat, of t1 and of s: keys all the same.
            Operation::Kem(Kem::DecodePublic { params, bytes, keys }) => {
                let bytes = changed(bytes, lanes, 0);
                let operation = Operation::Kem(Kem::DecodePublic { params, bytes: &bytes, keys });
                self.inner.run(&mut Batch { operation, status })
            }
            Operation::Dsa(Dsa::DecodePublic { params, bytes, keys }) => {
                let bytes = changed(bytes, lanes, 100);
                let operation = Operation::Dsa(Dsa::DecodePublic { params, bytes: &bytes, keys });
                self.inner.run(&mut Batch { operation, status })
            }
            Operation::Kem(Kem::DecodePrivate { params, bytes, keys }) => {
                let bytes = changed(bytes, lanes, 0);
                let operation = Operation::Kem(Kem::DecodePrivate { params, bytes: &bytes, keys });
                self.inner.run(&mut Batch { operation, status })
            }
            _ => return,
        };
        assert_eq!(ran, BatchOutcome::Done);
        assert!(status.iter().all(|status| status.is_ok()));
    }
}

/// The encodings of so many lanes, a bit changed in each.
fn changed(bytes: &[u8], lanes: usize, at: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let len = bytes.len() / lanes;
    bytes.chunks_exact_mut(len).for_each(|lane| lane[at] ^= 1);
    bytes
}

fn flip(operation: &mut Operation<'_>) {
    let last = match operation {
        Operation::Kem(Kem::Encaps { ct, .. }) => ct.last_mut(),
        Operation::Kem(Kem::Decaps { shared, .. })
        | Operation::X25519(X25519::Derive { shared, .. }) => {
            shared.last_mut().map(|secret| &mut secret[31])
        }
        Operation::X25519(X25519::Public { public, .. }) => {
            public.last_mut().map(|key| &mut key[31])
        }
        // Where a signature is shorter than its place, its end is not its last byte.
        Operation::FnDsa(FnDsa::Sign { sig, .. }) => sig.get_mut(100),
        Operation::Dsa(Dsa::Sign { sig, .. })
        | Operation::Slh(Slh::Sign { sig, .. })
        | Operation::Ed25519(Ed25519::Sign { sig, .. }) => sig.last_mut(),
        _ => None,
    };
    if let Some(byte) = last {
        *byte ^= 1;
    }
}

/// Exchanges the first key and the last. A batch of one is left as it is.
fn exchange(operation: &mut Operation<'_>) {
    fn ends<K>(keys: &mut [K]) {
        keys.reverse();
    }
    match operation {
        Operation::Kem(Kem::Generate { keys, .. } | Kem::DecodePrivate { keys, .. }) => ends(keys),
        Operation::Kem(Kem::DecodePublic { keys, .. }) => ends(keys),
        Operation::Dsa(Dsa::Generate { keys, .. } | Dsa::DecodePrivate { keys, .. }) => ends(keys),
        Operation::Dsa(Dsa::DecodePublic { keys, .. }) => ends(keys),
        Operation::Ed25519(Ed25519::Generate { keys, .. }) => ends(keys),
        Operation::Slh(Slh::Generate { keys, .. }) => ends(keys),
        Operation::FnDsa(FnDsa::Generate { keys, .. }) => ends(keys),
        Operation::X25519(X25519::Public { public, .. }) => ends(public),
        Operation::X25519(X25519::Derive { shared, .. }) => ends(shared),
        _ => {}
    }
}

/// An algorithm of each family that backends run.
const FAMILIES: [Algorithm; 6] = [
    Algorithm::MlKem512,
    Algorithm::MlDsa44,
    Algorithm::SlhDsaShake128f,
    Algorithm::Ed25519,
    Algorithm::FnDsa512,
    Algorithm::X25519,
];

/// The faults that a self-test must find in an algorithm's operations.
fn faults(algorithm: Algorithm) -> Vec<(Task, Garbage, Scope)> {
    let widths =
        |task, garbage| [Scope::All, Scope::Single, Scope::Batches].map(|of| (task, garbage, of));
    let mut faults: Vec<_> = match algorithm.info().kind {
        Kind::Kem => [(Task::Encaps, Garbage::Bit), (Task::Decaps, Garbage::Bit)].to_vec(),
        Kind::Signature => vec![
            (Task::Sign, Garbage::Bit),
            (Task::Verify, Garbage::AllOk),
            (Task::Verify, Garbage::AllFailed),
        ],
        _ => vec![
            (Task::Keygen, Garbage::Bit),
            (Task::Derive, Garbage::Bit),
            (Task::Derive, Garbage::AllOk),
            (Task::Derive, Garbage::AllFailed),
        ],
    }
    .into_iter()
    .flat_map(|(task, garbage)| widths(task, garbage))
    .collect();
    let (any, many) = (Scope::All, Scope::Batches);
    faults.push((Task::Keygen, Garbage::AllFailed, any));
    match algorithm {
        // Its keys are made one after the other, and take their time: there is no other width.
        Algorithm::FnDsa512 => faults.push((Task::Keygen, Garbage::Exchanged, any)),
        Algorithm::X25519 => {
            faults.push((Task::Keygen, Garbage::Exchanged, any));
            faults.push((Task::Derive, Garbage::Exchanged, any));
        }
        _ => {
            faults.extend(widths(Task::Keygen, Garbage::OtherSeed));
            faults.push((Task::Keygen, Garbage::Exchanged, many));
        }
    }
    if matches!(algorithm, Algorithm::MlKem512 | Algorithm::MlDsa44) {
        for task in [Task::DecodePublic, Task::DecodePrivate] {
            faults.push((task, Garbage::Exchanged, any));
            faults.extend(widths(task, Garbage::AllFailed));
        }
        faults.extend(widths(Task::DecodePublic, Garbage::OtherSeed));
    }
    if algorithm == Algorithm::MlKem512 {
        faults.extend(widths(Task::DecodePrivate, Garbage::OtherSeed));
    }
    faults
}

#[test]
fn a_backend_that_gives_garbage_never_passes_its_self_test() {
    let mut passed = Vec::new();
    for algorithm in FAMILIES {
        // Without lanes, a backend makes keys and signatures of SLH-DSA one after the other.
        let is_serial = algorithm == Algorithm::SlhDsaShake128f && cpus()[0].lanes() == 1;
        for (task, garbage, of) in faults(algorithm) {
            if is_serial && of == Scope::Batches && task != Task::Verify {
                continue;
            }
            let wrong = WrongBackend { inner: cpus().remove(0), task, garbage, of };
            let mut backends: Vec<Box<dyn Backend>> = vec![Box::new(wrong)];
            backends.extend(cpus().pop());
            let engine = Engine::with_backends(backends, &Config::default()).unwrap();
            if engine.backend_for(algorithm).unwrap().name() != "portable" {
                passed.push(format!("{algorithm}: {garbage:?} of {task} of {of:?}"));
            }
        }
    }
    assert!(passed.is_empty(), "these faults were not found: {passed:#?}");
}

/// A source that fails after some draws, and leaves the partially filled buffer.
struct FiniteEntropy {
    left: AtomicUsize,
}

impl FiniteEntropy {
    fn after(draws: usize) -> Self {
        FiniteEntropy { left: AtomicUsize::new(draws) }
    }
}

impl Entropy for FiniteEntropy {
    fn fill(&self, out: &mut [u8]) -> Result<(), EntropyError> {
        OsEntropy.fill(out)?;
        let left =
            self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
        left.map(drop).map_err(|_| EntropyError("played".into()))
    }
}

/// Runs `operation` with randomness that ends at each draw in turn, until it has enough: before
/// that it must fail with [`Error::Entropy`]. Returns the number of draws it took.
fn starved(mut operation: impl FnMut(&FiniteEntropy) -> Result<(), Error>) -> usize {
    for draws in 0..200 {
        match operation(&FiniteEntropy::after(draws)) {
            Ok(()) => return draws,
            Err(error) => assert!(matches!(error, Error::Entropy(_)), "{error}"),
        }
    }
    panic!("it draws for ever");
}

/// RSA's primes take too many draws to starve each of them; one such set stands for all.
fn is_long(algorithm: Algorithm) -> bool {
    algorithm.name().contains("RSA")
}

#[test]
fn entropy_failure_yields_no_output() {
    let engine = Engine::new(&Config::default()).unwrap();
    let takes_any = |algorithm: &Algorithm| !is_long(*algorithm) && !algorithm.info().stateful;
    for algorithm in Algorithm::all().filter(takes_any) {
        let info = algorithm.info();
        let n = 3;
        let mut status = vec![Status::Ok; n];
        match info.kind {
            Kind::Kem => {
                let draws = starved(|entropy| engine.kem_generate(algorithm, entropy).map(drop));
                assert!(draws > 0, "{algorithm}");
                let key = engine.kem_generate(algorithm, &OsEntropy).unwrap().public();
                let (mut ct, mut shared) = (vec![], vec![]);
                starved(|entropy| {
                    (ct, shared) =
                        (vec![7; n * info.output.max()], vec![7; n * info.shared_secret]);
                    let fresh = Randomness::Fresh(entropy);
                    let made =
                        engine.encaps_many(&[&key; 3], fresh, &mut ct, &mut shared, &mut status);
                    if made.is_err() {
                        assert_eq!(status, [Status::NotRun; 3], "{algorithm}");
                        assert!(ct.iter().chain(&shared).all(|&b| b == 0), "{algorithm}");
                    }
                    made
                });
                assert_eq!(status, [Status::Ok; 3], "{algorithm}");
            }
            // The small sets of SLH-DSA take their time; their code is that of the quick ones.
            Kind::Signature if !info.name.ends_with('s') => {
                let draws =
                    starved(|entropy| engine.signature_generate(algorithm, entropy).map(drop));
                assert!(draws > 0, "{algorithm}");
                let key = engine.signature_generate(algorithm, &OsEntropy).unwrap();
                let messages = [Message::Pure { context: b"", message: b"m" }; 3];
                let (mut signatures, mut lengths) = (vec![], vec![]);
                starved(|entropy| {
                    (signatures, lengths) = (vec![7; n * info.output.max()], vec![7; n]);
                    let made = engine.sign_many(
                        &[&key; 3],
                        &messages,
                        Randomness::Fresh(entropy),
                        &mut signatures,
                        &mut lengths,
                        &mut status,
                    );
                    if made.is_err() {
                        assert_eq!(
                            (&status[..], &lengths[..]),
                            (&[Status::NotRun; 3][..], &[0; 3][..])
                        );
                        assert!(signatures.iter().all(|&byte| byte == 0), "{algorithm}");
                    }
                    made
                });
                assert_eq!(status, [Status::Ok; 3], "{algorithm}");
            }
            Kind::Signature => {}
            _ => {
                assert!(
                    starved(|entropy| engine.exchange_generate(algorithm, entropy).map(drop)) > 0
                );
            }
        }
    }
}
