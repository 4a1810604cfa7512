//! The doors for many keys of any algorithm, against single operations.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.

use std::cell::Cell;
use std::collections::HashSet;
use std::num::NonZero;
use std::sync::Arc;

use gabion_engine::{
    Algorithm, Backend, Batch, BatchOutcome, Config, Dsa, Engine, Entropy, EntropyError, Error,
    Family, KemPrivateKey, Keys, Kind, Limits, Message, Operation, OsEntropy, Queue, Randomness,
    SigningKey, Slh, Status, VerifyKey,
};

fn algorithms(kind: Kind) -> impl Iterator<Item = Algorithm> {
    let info = |algorithm: &Algorithm| algorithm.info();
    Algorithm::all().filter(move |one| info(one).kind == kind && !info(one).stateful)
}

/// Returns the verdict of the single operation as the status of a lane.
fn verdict(engine: &Engine, key: &VerifyKey, message: Message<'_>, signature: &[u8]) -> Status {
    match engine.verify(key, message, signature) {
        Ok(()) => Status::Ok,
        Err(Error::BadSignature) => Status::InvalidSignature,
        Err(Error::Input(_)) => Status::InvalidInput,
        Err(error) => panic!("{error}"),
    }
}

/// The doors for many lanes give what single operations give, in every lane, for every signature.
#[test]
fn many_signatures_agree_with_single_ones() {
    let engine = Engine::new(&Config::default()).unwrap();
    for algorithm in algorithms(Kind::Signature) {
        let (n, room) = (5, algorithm.info().output.max());
        let keys: Vec<_> =
            (0..2).map(|_| engine.signature_generate(algorithm, &OsEntropy).unwrap()).collect();
        let signing: Vec<_> = (0..n).map(|lane| &keys[lane % 2]).collect();
        let public: Vec<_> = keys.iter().map(SigningKey::public).collect();
        let verifying: Vec<_> = (0..n).map(|lane| &public[lane % 2]).collect();
        let mut messages = vec![Message::Pure { context: b"", message: b"many" }; n];
        messages[3] = Message::Pure { context: &[0; 256], message: b"many" };
        let (mut sigs, mut lengths) = (vec![9; n * room], vec![9; n]);
        let mut status = vec![Status::Ok; n];
        let fresh = Randomness::Fresh(&OsEntropy);
        engine.sign_many(&signing, &messages, fresh, &mut sigs, &mut lengths, &mut status).unwrap();
        for lane in 0..n {
            let sig = &sigs[lane * room..(lane + 1) * room];
            let (made, rest) = sig.split_at(lengths[lane]);
            assert!(rest.iter().all(|&byte| byte == 0), "{algorithm}, lane {lane}");
            let expected = if lane == 3 { Status::InvalidInput } else { Status::Ok };
            assert_eq!((status[lane], made.is_empty()), (expected, lane == 3), "{algorithm}");
        }
        // A flipped bit, a length that is not the signature's, a message of the wrong form.
        sigs[room + lengths[1] / 2] ^= 1;
        lengths[2] -= 1;
        engine.verify_many(&verifying, &messages, &sigs, &lengths, &mut status).unwrap();
        for lane in 0..n {
            let sig = &sigs[lane * room..lane * room + lengths[lane]];
            let single = verdict(&engine, verifying[lane], messages[lane], sig);
            assert_eq!(status[lane], single, "{algorithm}, lane {lane}");
            assert_eq!(single.is_ok(), lane == 0 || lane == 4, "{algorithm}, lane {lane}");
        }
        let misuse = Err(Error::Input(gabion_scheme::Error::Batch { lanes: n }));
        let short = &sigs[1..];
        let answer = engine.verify_many(&verifying, &messages, short, &lengths, &mut status);
        assert_eq!((answer, status[0]), (misuse, Status::NotRun));
        // Lengths that no place has: of a good signature, and of one whose message is refused.
        for length in [room + 1, usize::MAX] {
            (lengths[0], lengths[3]) = (length, length);
            engine.verify_many(&verifying, &messages, &sigs, &lengths, &mut status).unwrap();
            let expected = [0, 1, 2, 3, 4].map(|lane| match lane {
                3 => Status::InvalidInput,
                4 => Status::Ok,
                _ => Status::InvalidSignature,
            });
            assert_eq!(status, expected, "{algorithm}, {length} bytes");
        }
        let long = vec![0; room + 1];
        for lane in [0, 3] {
            let single = verdict(&engine, verifying[lane], messages[lane], &long);
            assert_eq!(single, status[lane], "{algorithm}, lane {lane}");
        }
    }
}

/// Counts of which there can be no array are refused, and nothing is drawn for them.
#[test]
fn absurdly_many_keys_are_refused() {
    let engine = Engine::new(&Config::default()).unwrap();
    let cores = engine.parallel(NonZero::new(2).unwrap());
    for algorithm in Algorithm::all() {
        for n in [1 << 44, 1 << 58, (1 << 58) + 1, usize::MAX / 2 + 1, usize::MAX] {
            let refused = |answer: Result<usize, Error>| {
                assert_eq!(answer, Err(Error::TooMany { lanes: n }), "{algorithm}");
            };
            let (one, two) = (&NoEntropy, &NoEntropy);
            match algorithm.info().kind {
                Kind::Kem => {
                    refused(engine.kem_generate_many(algorithm, n, one).map(|keys| keys.len()));
                    refused(cores.kem_generate_many(algorithm, n, two).map(|keys| keys.len()));
                }
                Kind::Signature => {
                    refused(
                        engine.signature_generate_many(algorithm, n, one).map(|keys| keys.len()),
                    );
                    refused(
                        cores.signature_generate_many(algorithm, n, two).map(|keys| keys.len()),
                    );
                }
                _ => {
                    refused(
                        engine.exchange_generate_many(algorithm, n, one).map(|keys| keys.len()),
                    );
                    refused(cores.exchange_generate_many(algorithm, n, two).map(|keys| keys.len()));
                }
            }
        }
    }
}

/// A source that is never used.
struct NoEntropy;

impl Entropy for NoEntropy {
    fn fill(&self, _: &mut [u8]) -> Result<(), EntropyError> {
        panic!("nothing is drawn for keys that can't be made")
    }
}

/// A batch in which no lane runs is a batch like another: each lane says why, for every backend.
#[test]
fn a_batch_of_refused_messages_ends_lane_by_lane() {
    let engine = Engine::new(&Config::default()).unwrap();
    let long = Message::Pure { context: &[0; 256], message: b"many" };
    for algorithm in algorithms(Kind::Signature) {
        let (n, room) = (3, algorithm.info().output.max());
        let key = engine.signature_generate(algorithm, &OsEntropy).unwrap();
        for message in [long, Message::Mu(&[7; 64])] {
            let alone = engine.sign(&key, message, &OsEntropy);
            let expected = match alone {
                Ok(_) => Status::Ok,
                Err(Error::Input(_)) => Status::InvalidInput,
                Err(error) => panic!("{algorithm}: {error}"),
            };
            let (mut sigs, mut lengths) = (vec![9; n * room], vec![9; n]);
            let (mut status, messages) = (vec![Status::NotRun; n], vec![message; n]);
            let fresh = Randomness::Fresh(&OsEntropy);
            engine
                .sign_many(&vec![&key; n], &messages, fresh, &mut sigs, &mut lengths, &mut status)
                .unwrap();
            assert_eq!(status, vec![expected; n], "{algorithm}");
            let public = key.public();
            let keys = vec![&public; n];
            engine.verify_many(&keys, &messages, &sigs, &lengths, &mut status).unwrap();
            assert_eq!(status, vec![expected; n], "{algorithm}");
        }
    }
}

/// Batches of encapsulations equal single ones.
#[test]
fn many_encapsulations_agree_with_single_ones() {
    let engine = Engine::new(&Config::default()).unwrap();
    for algorithm in algorithms(Kind::Kem) {
        let (n, info) = (5, algorithm.info());
        let keys: Vec<_> =
            (0..2).map(|_| engine.kem_generate(algorithm, &OsEntropy).unwrap()).collect();
        let private: Vec<_> = (0..n).map(|lane| &keys[lane % 2]).collect();
        let public: Vec<_> = keys.iter().map(KemPrivateKey::public).collect();
        let public: Vec<_> = (0..n).map(|lane| &public[lane % 2]).collect();
        let (mut ct, mut shared) =
            (vec![9; n * info.output.max()], vec![9; n * info.shared_secret]);
        let mut status = vec![Status::NotRun; n];
        let fresh = Randomness::Fresh(&OsEntropy);
        engine.encaps_many(&public, fresh, &mut ct, &mut shared, &mut status).unwrap();
        assert_eq!(status, vec![Status::Ok; n], "{algorithm}");
        let mut opened = vec![7; shared.len()];
        engine.decaps_many(&private, &ct, &mut opened, &mut status).unwrap();
        assert_eq!((&opened, &status), (&shared, &vec![Status::Ok; n]), "{algorithm}");
        for lane in 0..n {
            let ct = &ct[lane * info.output.max()..(lane + 1) * info.output.max()];
            let secret = &shared[lane * info.shared_secret..(lane + 1) * info.shared_secret];
            assert_eq!(*engine.decaps(private[lane], ct).unwrap(), *secret, "{algorithm}");
            assert!(secret.iter().any(|&byte| byte != secret[0]), "{algorithm}");
        }
        let answer = engine.encaps_many(
            &public,
            Randomness::Deterministic,
            &mut ct,
            &mut shared,
            &mut status,
        );
        assert!(matches!(answer, Err(Error::WrongAlgorithm { .. })), "{algorithm}");
        let answer = engine.decaps_many(&private, &ct[1..], &mut opened, &mut status);
        assert!(matches!(answer, Err(Error::Input(_))) && status[0] == Status::NotRun);
    }
}

#[test]
fn keys_of_several_algorithms_are_misuse() {
    let engine = Engine::new(&Config::default()).unwrap();
    let keys = [Algorithm::MlKem512, Algorithm::MlKem768]
        .map(|algorithm| engine.kem_generate(algorithm, &OsEntropy).unwrap().public());
    let (mut ct, mut shared) = ([0; 2 * 768], [0; 64]);
    let mut status = [Status::Ok; 2];
    let answer = engine.encaps_many(
        &[&keys[0], &keys[1]],
        Randomness::Fresh(&OsEntropy),
        &mut ct,
        &mut shared,
        &mut status,
    );
    assert_eq!(answer, Err(Error::Input(gabion_scheme::Error::Batch { lanes: 2 })));
    assert_eq!(status, [Status::NotRun; 2]);
}

/// A source that counts how often the operating system's generator is asked.
#[derive(Default)]
struct CountingEntropy(Cell<usize>);

impl Entropy for CountingEntropy {
    fn fill(&self, out: &mut [u8]) -> Result<(), EntropyError> {
        self.0.set(self.0.get() + 1);
        OsEntropy.fill(out)
    }
}

/// A batch of any algorithm asks for randomness once, as a single operation does.
#[test]
fn randomness_is_drawn_once_for_a_batch() {
    let engine = Engine::new(&Config::default()).unwrap();
    let counted = |n: usize, run: &dyn Fn(usize, &CountingEntropy)| {
        let entropy = CountingEntropy::default();
        run(n, &entropy);
        entropy.0.get()
    };
    // A key of the longer RSA takes seconds.
    let quick = |algorithm: &Algorithm| {
        let is_long = ["RSA3072", "RSA4096"].iter().any(|rsa| algorithm.name().contains(rsa));
        !is_long && !algorithm.info().stateful
    };
    for algorithm in Algorithm::all().filter(quick) {
        let info = algorithm.info();
        let generate = |n: usize, entropy: &CountingEntropy| {
            let public: Vec<Vec<u8>> = match info.kind {
                Kind::Signature => {
                    let keys = engine.signature_generate_many(algorithm, n, entropy).unwrap();
                    keys.iter().map(|key| key.public().bytes().to_vec()).collect()
                }
                Kind::Kem => {
                    let keys = engine.kem_generate_many(algorithm, n, entropy).unwrap();
                    keys.iter().map(|key| key.public().bytes().to_vec()).collect()
                }
                Kind::KeyExchange => {
                    let keys = engine.exchange_generate_many(algorithm, n, entropy).unwrap();
                    keys.iter().map(|key| key.public().bytes().to_vec()).collect()
                }
            };
            assert_eq!(public.len(), n, "{algorithm}");
            assert_eq!(public.iter().collect::<HashSet<_>>().len(), n, "{algorithm}");
        };
        let one = counted(1, &generate);
        assert_eq!(one, 1, "{algorithm}: draws for a key");
        assert_eq!(counted(3, &generate), one, "{algorithm}: draws for three keys");
        let operate = |n: usize, entropy: &CountingEntropy| {
            let mut status = vec![Status::NotRun; n];
            let (mut out, fresh) = (vec![0; n * info.output.max()], Randomness::Fresh(entropy));
            match info.kind {
                Kind::Signature => {
                    let key = engine.signature_generate(algorithm, &OsEntropy).unwrap();
                    let messages = vec![Message::Pure { context: b"", message: b"drawn" }; n];
                    let (keys, mut lengths) = (vec![&key; n], vec![0; n]);
                    engine
                        .sign_many(&keys, &messages, fresh, &mut out, &mut lengths, &mut status)
                        .unwrap();
                }
                Kind::Kem => {
                    let key = engine.kem_generate(algorithm, &OsEntropy).unwrap().public();
                    let mut shared = vec![0; n * info.shared_secret];
                    let keys = vec![&key; n];
                    engine.encaps_many(&keys, fresh, &mut out, &mut shared, &mut status).unwrap();
                }
                Kind::KeyExchange => return,
            }
            assert_eq!(status, vec![Status::Ok; n], "{algorithm}");
        };
        let one = counted(1, &operate);
        assert!(one <= 1, "{algorithm}: {one} draws for an operation");
        assert_eq!(counted(3, &operate), one, "{algorithm}: draws for three operations");
    }
}

/// The ways in which a backend could lose the randomness that hedges signatures.
#[derive(Clone, Copy, Debug, PartialEq)]
enum HedgeLoss {
    None,
    /// Signatures are deterministic.
    All,
    /// Every lane has the randomness of the first.
    Lanes,
}

/// A backend that loses what signatures are hedged with.
struct UnhedgedBackend(Box<dyn Backend>, HedgeLoss);

impl Backend for UnhedgedBackend {
    fn name(&self) -> &'static str {
        "unhedged"
    }

    fn lanes(&self) -> usize {
        self.0.lanes()
    }

    fn run(&self, batch: &mut Batch<'_>) -> BatchOutcome {
        let one = |random: &[u8], lanes: usize| match self.1 {
            HedgeLoss::None => random.to_vec(),
            HedgeLoss::All => vec![0; random.len()],
            HedgeLoss::Lanes => random[..random.len() / lanes].repeat(lanes),
        };
        // The self-tests, whose randomness is their own, are left alone.
        let is_tested = |random: &[u8]| random.len() > 1 && random[1..].iter().all(|&b| b < 2);
        let status = &mut *batch.status;
        match &mut batch.operation {
            Operation::Dsa(Dsa::Sign { params, keys: Keys::Known(keys), messages, rnd, sig })
                if !is_tested(rnd.as_flattened()) =>
            {
                let rnd = one(rnd.as_flattened(), rnd.len());
                let (keys, rnd) = (Keys::Known(keys), rnd.as_chunks().0);
                let operation = Operation::Dsa(Dsa::Sign { params, keys, messages, rnd, sig });
                self.0.run(&mut Batch { operation, status })
            }
            Operation::Slh(Slh::Sign {
                params,
                keys: Keys::Known(keys),
                messages,
                opt_rand,
                sig,
            }) if opt_rand.is_some_and(|random| random[..4] != [0x77; 4]) => {
                let opt_rand = opt_rand.map(|random| one(random, keys.len()));
                let (keys, opt_rand) = (Keys::Known(keys), opt_rand.as_deref());
                let operation = Slh::Sign { params, keys, messages, opt_rand, sig };
                self.0.run(&mut Batch { operation: Operation::Slh(operation), status })
            }
            _ => self.0.run(batch),
        }
    }
}

fn unhedged(lost: HedgeLoss) -> Arc<Engine> {
    let backends = vec![Box::new(UnhedgedBackend(gabion_backend::cpus().remove(0), lost)) as _];
    Arc::new(Engine::with_backends(backends, &Config::default()).unwrap())
}

/// The algorithms whose signatures have a random part, one of each design, with the bytes at the front that have to
/// differ by themselves: of a composite those of ML-DSA.
fn hedged() -> impl Iterator<Item = (Algorithm, usize)> {
    algorithms(Kind::Signature).filter_map(|algorithm| {
        let info = algorithm.info();
        let ml_dsa = || info.part_algorithms().next();
        match info.family {
            Family::MlDsa | Family::FnDsa | Family::Ecdsa => Some((algorithm, 32)),
            Family::SlhDsa => info.name.ends_with("128f").then_some((algorithm, 16)),
            Family::Composite if info.has_rsa() => None,
            Family::Composite => Some((algorithm, ml_dsa()?.info().output.max())),
            // Deterministic, or no signature.
            Family::Ed25519
            | Family::Hss
            | Family::Xmss
            | Family::MlKem
            | Family::Ecdh
            | Family::Hybrid => None,
        }
    })
}

/// Signatures of one message by one key, through every door.
fn through_every_door(engine: &Arc<Engine>, algorithm: Algorithm) -> Vec<(&'static str, Vec<u8>)> {
    let key = engine.signature_generate(algorithm, &OsEntropy).unwrap();
    let message = Message::Pure { context: b"", message: b"hedged" };
    let mut made = Vec::new();
    for _ in 0..2 {
        made.push(("alone", engine.sign(&key, message, &OsEntropy).unwrap()));
    }
    let cores = engine.parallel(NonZero::new(2).unwrap());
    let room = algorithm.info().output.max();
    // Lanes of a piece, of which there have to be two.
    let pieces = if algorithm.info().family == Family::MlDsa { 128 } else { 8 };
    for (door, n) in [("batch", 3), ("pieces", pieces)] {
        let (mut sigs, mut lengths) = (vec![0; n * room], vec![0; n]);
        let (keys, messages) = (vec![&key; n], vec![message; n]);
        let mut status = vec![Status::NotRun; n];
        if door == "batch" {
            let fresh = Randomness::Fresh(&OsEntropy);
            engine.sign_many(&keys, &messages, fresh, &mut sigs, &mut lengths, &mut status)
        } else {
            let entropy = Some(&OsEntropy as _);
            cores.sign_many(&keys, &messages, entropy, &mut sigs, &mut lengths, &mut status)
        }
        .unwrap();
        let lanes = sigs.chunks_exact(room).zip(lengths);
        made.extend(lanes.map(|(sig, length)| (door, sig[..length].to_vec())));
    }
    let queue = Queue::new(Arc::clone(engine), OsEntropy, Limits::default());
    made.push(("queue", queue.sign(&key, message).unwrap()));
    let queue = queue.with_workers(NonZero::<usize>::MIN).unwrap();
    let tickets: Vec<_> = (0..5).map(|_| queue.submit_sign(&key, message).unwrap()).collect();
    made.extend(tickets.into_iter().map(|ticket| ("tickets", ticket.wait().unwrap())));
    made
}

/// The doors through which a signature came that another one begins like.
fn repeated(engine: &Arc<Engine>, (algorithm, front): (Algorithm, usize)) -> HashSet<&'static str> {
    let made = through_every_door(engine, algorithm);
    let mut seen = HashSet::new();
    // A Falcon signature begins with a byte for its form and the salt, an ECDSA signature with lengths.
    let front = |sig: &Vec<u8>| sig[..front.min(sig.len())].to_vec();
    made.iter().filter(|(_, sig)| !seen.insert(front(sig))).map(|(door, _)| *door).collect()
}

/// Two hedged signatures of one message differ, whichever way they came; what loses the hedge is noticed.
#[test]
fn hedged_signatures_of_one_message_differ() {
    let engine = unhedged(HedgeLoss::None);
    for algorithm in hedged() {
        assert_eq!(repeated(&engine, algorithm), HashSet::new(), "{algorithm:?}");
    }
    let everywhere = ["alone", "batch", "pieces", "queue", "tickets"].into();
    let in_lanes = HashSet::from(["batch", "pieces"]);
    let (deterministic, alike) = (unhedged(HedgeLoss::All), unhedged(HedgeLoss::Lanes));
    for name in ["ML-DSA-44", "SLH-DSA-SHAKE-128f"] {
        let algorithm: Algorithm = name.parse().unwrap();
        assert_eq!(repeated(&deterministic, (algorithm, 16)), everywhere, "{algorithm}");
        // Tickets may come to the worker one by one.
        assert!(repeated(&alike, (algorithm, 16)).is_superset(&in_lanes), "{algorithm}");
    }
    let (composite, front) = hedged().find(|row| row.0.info().family == Family::Composite).unwrap();
    assert_eq!(repeated(&deterministic, (composite, front)), everywhere, "{composite}");
}
