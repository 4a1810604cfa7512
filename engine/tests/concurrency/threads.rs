//! The doors for many lanes on several threads end lane by lane as those on one thread do.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.

use std::collections::HashSet;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::ThreadId;
use std::time::Duration;

use gabion_backend::{FnDsa, cpus};
use gabion_engine::{
    Algorithm, Backend, Batch, BatchOutcome, Config, Engine, Entropy, EntropyError, Error, Kem,
    Message, Operation, OsEntropy, Parallel, Randomness, SigningKey, Status,
};

/// One thread; several, between which lanes do not divide evenly; more than there are lanes.
const THREADS: [usize; 4] = [1, 2, 3, 500];

/// Signatures of every family, with lanes around several of the smallest pieces.
const SIGNATURES: [(Algorithm, usize); 8] = [
    (Algorithm::MlDsa44, 131),
    (Algorithm::SlhDsaSha2_128f, 9),
    (Algorithm::Ed25519, 131),
    (Algorithm::Ed25519Zip215, 193),
    (Algorithm::FnDsa512, 9),
    (Algorithm::EcdsaP256, 21),
    (Algorithm::MlDsa44EcdsaP256Sha256, 13),
    (Algorithm::MlDsa65Ed25519Sha512, 13),
];

const KEMS: [(Algorithm, usize); 4] = [
    (Algorithm::MlKem512, 131),
    (Algorithm::X25519MlKem768, 37),
    (Algorithm::SecP256r1MlKem768, 33),
    (Algorithm::XWing, 37),
];

fn on(engine: &Engine, threads: usize) -> Parallel<'_> {
    engine.parallel(NonZero::new(threads).unwrap())
}

#[test]
fn signatures() {
    let engine = Engine::new(&Config::default()).unwrap();
    for (algorithm, n) in SIGNATURES {
        let room = algorithm.info().output.max();
        let made: Vec<Vec<SigningKey>> = THREADS
            .map(|threads| on(&engine, threads).signature_generate_many(algorithm, n, &OsEntropy))
            .map(Result::unwrap)
            .into();
        assert!(made.iter().all(|keys| keys.len() == n), "{algorithm}");
        let different: HashSet<_> = made.iter().flatten().map(|key| key.public_bytes()).collect();
        assert_eq!(different.len(), THREADS.len() * n, "{algorithm}");
        let keys: Vec<_> = made[1].iter().collect();
        let public: Vec<_> = keys.iter().map(|key| key.public()).collect();
        let public: Vec<_> = public.iter().collect();
        let texts: Vec<_> = (0..n as u64).map(u64::to_le_bytes).collect();
        let mut messages: Vec<_> =
            texts.iter().map(|message| Message::Pure { context: b"", message }).collect();
        // Refused, alone.
        messages[n - 2] = Message::Pure { context: &[0; 256], message: b"" };
        let expected: Vec<_> = (0..n)
            .map(|lane| if lane == n - 2 { Status::InvalidInput } else { Status::Ok })
            .collect();
        let (mut serial, mut lengths) = (vec![7; n * room], vec![7; n]);
        let mut status = vec![Status::NotRun; n];
        let none = Randomness::Deterministic;
        let is_deterministic = engine
            .sign_many(&keys, &messages, none, &mut serial, &mut lengths, &mut status)
            .is_ok();
        for threads in THREADS {
            let engine = on(&engine, threads);
            let (mut sigs, mut lengths) = (vec![7; n * room], vec![7; n]);
            let signed =
                engine.sign_many(&keys, &messages, None, &mut sigs, &mut lengths, &mut status);
            if is_deterministic {
                assert_eq!((signed, &status), (Ok(()), &expected), "{algorithm}");
                assert!(sigs == serial, "{algorithm} on {threads} threads");
            } else {
                assert!(matches!(signed, Err(Error::WrongAlgorithm { .. })), "{algorithm}");
                assert_eq!((&status, &lengths), (&vec![Status::NotRun; n], &vec![0; n]));
                assert!(sigs.iter().all(|&byte| byte == 0), "{algorithm}");
            }
            let fresh = Some(&OsEntropy as _);
            engine
                .sign_many(&keys, &messages, fresh, &mut sigs, &mut lengths, &mut status)
                .unwrap();
            assert_eq!(status, expected, "{algorithm} on {threads} threads");
            // Another lane's signature, and one that is too short.
            sigs.copy_within(..room, room);
            lengths[n - 1] -= 1;
            engine.verify_many(&public, &messages, &sigs, &lengths, &mut status).unwrap();
            for (lane, status) in status.iter().enumerate() {
                let wanted = match lane {
                    1 => Status::InvalidSignature,
                    lane if lane == n - 1 => Status::InvalidSignature,
                    lane => expected[lane],
                };
                assert_eq!(*status, wanted, "{algorithm} on {threads} threads, lane {lane}");
            }
        }
    }
}

#[test]
fn kems() {
    let engine = Engine::new(&Config::default()).unwrap();
    for (algorithm, n) in KEMS {
        let info = algorithm.info();
        for threads in THREADS {
            let cores = on(&engine, threads);
            let keys = cores.kem_generate_many(algorithm, n, &OsEntropy).unwrap();
            let different: HashSet<_> = keys.iter().map(|key| key.public_bytes()).collect();
            assert_eq!(different.len(), n, "{algorithm}");
            let public: Vec<_> = keys.iter().map(|key| key.public()).collect();
            let (public, keys): (Vec<_>, Vec<_>) = (public.iter().collect(), keys.iter().collect());
            let (mut ct, mut shared) =
                (vec![7; n * info.output.max()], vec![7; n * info.shared_secret]);
            let mut status = vec![Status::NotRun; n];
            cores.encaps_many(&public, &OsEntropy, &mut ct, &mut shared, &mut status).unwrap();
            assert_eq!(status, vec![Status::Ok; n], "{algorithm}");
            let mut opened = vec![7; shared.len()];
            cores.decaps_many(&keys, &ct, &mut opened, &mut status).unwrap();
            assert!(opened == shared, "{algorithm} on {threads} threads");
            // A ciphertext that a curve refuses, and those of two lanes exchanged.
            ct[..info.output.max()].fill(0xff);
            let (first, second) = ct[info.output.max()..].split_at_mut(info.output.max());
            first.swap_with_slice(&mut second[..info.output.max()]);
            let (mut expected, mut statuses) = (vec![7; shared.len()], vec![Status::NotRun; n]);
            engine.decaps_many(&keys, &ct, &mut expected, &mut statuses).unwrap();
            cores.decaps_many(&keys, &ct, &mut opened, &mut status).unwrap();
            assert!((opened, status) == (expected, statuses), "{algorithm} on {threads} threads");
        }
    }
}

#[test]
fn exchanges() {
    let engine = Engine::new(&Config::default()).unwrap();
    for (algorithm, n) in [(Algorithm::X25519, 131), (Algorithm::EcdhP384, 9)] {
        for threads in THREADS {
            let cores = on(&engine, threads);
            let keys = cores.exchange_generate_many(algorithm, n, &OsEntropy).unwrap();
            let mut peers: Vec<_> = keys.iter().rev().map(|key| key.public()).collect();
            if algorithm == Algorithm::X25519 {
                // The secret with it is all zero.
                peers[n - 2] = engine.exchange_public(algorithm, &[0; 32]).unwrap();
            }
            let lanes: Vec<_> = keys.iter().zip(&peers).collect();
            let secrets = cores.derive_many(&lanes).unwrap();
            assert_eq!(secrets, engine.derive_many(&lanes).unwrap(), "{algorithm}");
            let refused = secrets.iter().filter(|secret| secret.is_err()).count();
            assert_eq!(refused, usize::from(algorithm == Algorithm::X25519));
        }
    }
    let other = engine.exchange_generate(Algorithm::EcdhP256, &OsEntropy).unwrap();
    let one = engine.exchange_generate(Algorithm::EcdhP384, &OsEntropy).unwrap();
    let (one_public, other_public) = (one.public(), other.public());
    // Each half is a valid batch; the whole is not.
    let lanes = [[(&one, &one_public); 8], [(&other, &other_public); 8]].concat();
    assert!(matches!(on(&engine, 2).derive_many(&lanes), Err(Error::WrongAlgorithm { .. })));
    assert_eq!(on(&engine, 2).derive_many(&[]), Ok(Vec::new()));
}

#[test]
fn keys_of_several_algorithms_are_misuse_though_each_piece_has_one() {
    let engine = Engine::new(&Config::default()).unwrap();
    let cores = on(&engine, 2);
    let keys = [Algorithm::EcdsaP256, Algorithm::EcdsaP384]
        .map(|algorithm| engine.signature_generate(algorithm, &OsEntropy).unwrap());
    let (n, room) = (16, Algorithm::EcdsaP256.info().output.max());
    let signing: Vec<_> = (0..n).map(|lane| &keys[lane / 8]).collect();
    let messages = vec![Message::Pure { context: b"", message: b"m" }; n];
    let (mut sigs, mut lengths) = (vec![7; n * room], vec![7; n]);
    let mut status = vec![Status::Ok; n];
    let misuse = Err(Error::Input(gabion_scheme::Error::Batch { lanes: n }));
    let fresh = Some(&OsEntropy as _);
    let answer = cores.sign_many(&signing, &messages, fresh, &mut sigs, &mut lengths, &mut status);
    assert_eq!((answer, &status), (misuse.clone(), &vec![Status::NotRun; n]));
    assert!(sigs.iter().all(|&byte| byte == 0) && lengths == vec![0; n]);
    let public: Vec<_> = signing.iter().map(|key| key.public()).collect();
    let public: Vec<_> = public.iter().collect();
    status.fill(Status::Ok);
    let answer = cores.verify_many(&public, &messages, &sigs, &lengths, &mut status);
    assert_eq!((answer, &status), (misuse.clone(), &vec![Status::NotRun; n]));
    // One algorithm, and an array that is too short by a lane of the last piece.
    let public = vec![public[0]; n];
    let answer = cores.verify_many(&public, &messages, &sigs[room..], &lengths, &mut status);
    assert_eq!(answer, misuse);
    let refused = cores.signature_generate_many(Algorithm::MlKem512, 200, &OsEntropy);
    assert!(matches!(refused, Err(Error::WrongAlgorithm { .. })));
    assert!(cores.signature_generate_many(Algorithm::EcdsaP256, 0, &OsEntropy).unwrap().is_empty());
    let nothing = cores.sign_many(&[], &[], None, &mut [], &mut [], &mut []);
    assert_eq!(nothing, Ok(()));
}

/// A source that ends after some draws, on whichever thread.
struct FiniteEntropy(AtomicUsize);

impl Entropy for FiniteEntropy {
    fn fill(&self, out: &mut [u8]) -> Result<(), EntropyError> {
        OsEntropy.fill(out)?;
        let left = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
        left.map(drop).map_err(|_| EntropyError("played".into()))
    }
}

#[test]
fn entropy_failure_in_a_piece_yields_no_output() {
    let engine = Engine::new(&Config::default()).unwrap();
    let (n, cores) = (200, on(&engine, 2));
    let starved = |left| FiniteEntropy(AtomicUsize::new(left));
    for algorithm in [Algorithm::MlKem512, Algorithm::X25519MlKem768] {
        let info = algorithm.info();
        let key = engine.kem_generate(algorithm, &OsEntropy).unwrap().public();
        let keys = vec![&key; n];
        let (mut ct, mut shared) =
            (vec![7; n * info.output.max()], vec![7; n * info.shared_secret]);
        let mut status = vec![Status::Ok; n];
        let made = cores.encaps_many(&keys, &starved(1), &mut ct, &mut shared, &mut status);
        assert!(matches!(made, Err(Error::Entropy(_))), "{algorithm}");
        assert_eq!(status, vec![Status::NotRun; n], "{algorithm}");
        assert!(ct.iter().chain(&shared).all(|&byte| byte == 0), "{algorithm}");
        let made = cores.kem_generate_many(algorithm, n, &starved(1));
        assert!(matches!(made, Err(Error::Entropy(_))), "{algorithm}");
    }
    let (n, algorithm) = (16, Algorithm::SlhDsaShake128f);
    let key = engine.signature_generate(algorithm, &OsEntropy).unwrap();
    let (mut sigs, mut lengths) = (vec![7; n * algorithm.info().output.max()], vec![7; n]);
    let mut status = vec![Status::Ok; n];
    let messages = vec![Message::Pure { context: b"", message: b"m" }; n];
    let source = starved(2);
    let keys = vec![&key; n];
    let made =
        cores.sign_many(&keys, &messages, Some(&source), &mut sigs, &mut lengths, &mut status);
    assert!(matches!(made, Err(Error::Entropy(_))), "{made:?}");
    assert_eq!((status, lengths), (vec![Status::NotRun; n], vec![0; n]));
    assert!(sigs.iter().all(|&byte| byte == 0));
}

/// A backend that panics where a batch has a certain input in it.
struct Allergic(Box<dyn Backend>);

impl Backend for Allergic {
    fn name(&self) -> &'static str {
        "allergic"
    }

    fn lanes(&self) -> usize {
        self.0.lanes()
    }

    fn run(&self, batch: &mut Batch<'_>) -> BatchOutcome {
        let has_nuts = match &batch.operation {
            Operation::Kem(Kem::Decaps { ct, .. }) => ct.windows(4).any(|bytes| bytes == b"nuts"),
            Operation::FnDsa(FnDsa::Verify { sig, .. }) => {
                sig.windows(4).any(|bytes| bytes == b"nuts")
            }
            _ => false,
        };
        assert!(!has_nuts, "a fault that a test put in");
        self.0.run(batch)
    }
}

#[test]
fn panic_in_a_thread_discards_the_batch() {
    let backends: Vec<Box<dyn Backend>> = vec![Box::new(Allergic(cpus().remove(0)))];
    let engine = Engine::with_backends(backends, &Config::default()).unwrap();
    let cores = on(&engine, 3);
    for algorithm in [Algorithm::MlKem512, Algorithm::X25519MlKem768] {
        let (n, info) = (200, algorithm.info());
        let key = engine.kem_generate(algorithm, &OsEntropy).unwrap();
        let (ct, _) = engine.encaps(&key.public(), &OsEntropy).unwrap();
        let mut ct = ct.repeat(n);
        ct[(n - 1) * info.output.max() + 40..][..4].copy_from_slice(b"nuts");
        let (mut shared, mut status) = (vec![7; n * info.shared_secret], vec![Status::Ok; n]);
        let error = cores.decaps_many(&vec![&key; n], &ct, &mut shared, &mut status).unwrap_err();
        assert!(matches!(error, Error::Panicked { .. }), "{error}");
        assert!(shared.iter().all(|&byte| byte == 0), "{algorithm}");
        assert_eq!(status, vec![Status::NotRun; n], "{algorithm}");
    }
    let (n, algorithm) = (13, Algorithm::FnDsa512);
    let key = engine.signature_generate(algorithm, &OsEntropy).unwrap();
    let message = Message::Pure { context: b"", message: b"m" };
    let mut sigs = engine.sign(&key, message, &OsEntropy).unwrap().repeat(n);
    let room = algorithm.info().output.max();
    sigs[12 * room + 50..][..4].copy_from_slice(b"nuts");
    let (public, mut status) = (key.public(), vec![Status::Ok; n]);
    let keys = vec![&public; n];
    let error = cores
        .verify_many(&keys, &vec![message; n], &sigs, &vec![room; n], &mut status)
        .unwrap_err();
    assert!(matches!(error, Error::Panicked { .. }), "{error}");
    assert_eq!(status, vec![Status::NotRun; n]);
}

/// A rendezvous of the threads of one call: none of them goes on before there are two.
#[derive(Default)]
struct Rendezvous {
    /// `None` while no call has to wait.
    came: Mutex<Option<HashSet<ThreadId>>>,
    two: Condvar,
}

impl Rendezvous {
    /// Returns the result of a call during which two threads meet.
    fn of<T>(&self, call: impl FnOnce() -> Result<T, Error>) -> T {
        *self.came.lock().unwrap() = Some(HashSet::new());
        let made = call().unwrap();
        let came = self.came.lock().unwrap().take().unwrap();
        assert_eq!(came.len(), 2);
        made
    }

    fn come(&self) {
        let mut came = self.came.lock().unwrap();
        if let Some(threads) = came.as_mut() {
            threads.insert(std::thread::current().id());
            self.two.notify_all();
            let is_alone = |came: &mut Option<HashSet<_>>| came.as_ref().unwrap().len() < 2;
            let wait = Duration::from_secs(60);
            let (came, waited) = self.two.wait_timeout_while(came, wait, is_alone).unwrap();
            drop(came);
            assert!(!waited.timed_out(), "no other thread came");
        }
    }
}

/// A backend each of whose batches comes to a rendezvous. It has lanes enough to be asked for X25519.
struct RendezvousBackend(Box<dyn Backend>, Arc<Rendezvous>);

impl Backend for RendezvousBackend {
    fn name(&self) -> &'static str {
        "meets"
    }

    fn lanes(&self) -> usize {
        self.0.lanes().max(8)
    }

    fn run(&self, batch: &mut Batch<'_>) -> BatchOutcome {
        let ran = self.0.run(batch);
        self.1.come();
        ran
    }
}

#[test]
fn every_door_runs_on_two_threads() {
    let meeting = Arc::new(Rendezvous::default());
    let meets = RendezvousBackend(cpus().remove(0), Arc::clone(&meeting));
    let engine = Engine::with_backends(vec![Box::new(meets)], &Config::default()).unwrap();
    let (n, cores) = (128, on(&engine, 2));
    let [dsa, kem, exchange] = [Algorithm::MlDsa44, Algorithm::MlKem512, Algorithm::X25519];
    for algorithm in [dsa, kem, exchange] {
        // The self-test ends before any thread waits.
        engine.backend_for(algorithm).unwrap();
    }
    let mut status = vec![Status::NotRun; n];

    let keys = meeting.of(|| cores.signature_generate_many(dsa, n, &OsEntropy));
    let messages = vec![Message::Pure { context: b"", message: b"m" }; n];
    let (mut sigs, mut lengths) = (vec![0; n * dsa.info().output.max()], vec![0; n]);
    let public: Vec<_> = keys.iter().map(|key| key.public()).collect();
    let encoded: Vec<_> = public.iter().map(|key| key.bytes()).collect();
    meeting.of(|| cores.signature_public_many(dsa, &encoded));
    let (keys, public): (Vec<_>, Vec<_>) = (keys.iter().collect(), public.iter().collect());
    meeting.of(|| cores.sign_many(&keys, &messages, None, &mut sigs, &mut lengths, &mut status));
    meeting.of(|| cores.verify_many(&public, &messages, &sigs, &lengths, &mut status));

    let keys = meeting.of(|| cores.kem_generate_many(kem, n, &OsEntropy));
    let public: Vec<_> = keys.iter().map(|key| key.public()).collect();
    let encoded: Vec<_> = public.iter().map(|key| key.bytes()).collect();
    meeting.of(|| cores.kem_public_many(kem, &encoded));
    let (keys, public): (Vec<_>, Vec<_>) = (keys.iter().collect(), public.iter().collect());
    let (mut ct, mut shared) = (vec![0; n * kem.info().output.max()], vec![0; n * 32]);
    meeting.of(|| cores.encaps_many(&public, &OsEntropy, &mut ct, &mut shared, &mut status));
    meeting.of(|| cores.decaps_many(&keys, &ct, &mut shared, &mut status));

    let keys = meeting.of(|| cores.exchange_generate_many(exchange, n, &OsEntropy));
    let public: Vec<_> = keys.iter().map(|key| key.public()).collect();
    let lanes: Vec<_> = keys.iter().zip(&public).collect();
    meeting.of(|| cores.derive_many(&lanes));
}
