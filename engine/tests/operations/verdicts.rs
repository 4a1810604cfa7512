//! One verdict on every input: alone, in a batch with any others, through the queue.
//!
//! ```text
//!   a good signature or ciphertext --damage of every kind--> lanes
//!      lanes, one by one      \
//!      batches of 1, 3, 8, all |-- the same statuses, and in a KEM the same secrets
//!      a queue, four threads  /
//! ```
//!
//! The damage is drawn from a seed; a failure names the algorithm, the seed and the lane. A short run
//! has one seed for each algorithm; `GABION_SOAK=N` has N / 10,000, all different. Where
//! `GABION_SOAK_TALLY` names a file, each algorithm adds a line that says how many verdicts there were.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.

use std::io::Write;
use std::num::NonZero;
use std::sync::{Arc, Mutex};

use gabion_engine::{
    Algorithm, Config, Engine, Error, Family, KemPrivateKey, Kind, Limits, Message, OsEntropy,
    Prehash, Queue, SharedSecret, SigningKey, Status, VerifyKey,
};

/// SplitMix64: numbers that depend on the seed alone.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

/// Returns how many seeds each algorithm has.
fn rounds() -> u64 {
    let soak = std::env::var("GABION_SOAK").ok().and_then(|count| count.parse::<u64>().ok());
    soak.map_or(1, |count| count.div_ceil(10_000).max(1))
}

/// The seeds of the algorithm at this place; no two places share one.
fn seeds(place: usize) -> impl Iterator<Item = u64> {
    (0..rounds()).map(move |round| 1000 * round + place as u64)
}

/// Says how many lanes got one verdict.
fn tally(algorithm: Algorithm, lanes: usize) {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let Some(path) = std::env::var_os("GABION_SOAK_TALLY") else { return };
    let against = "alone, in batches, through a queue";
    let line = format!(
        "{{\"algorithm\":\"{algorithm}\",\"against\":\"{against}\",\"operations\":{lanes}}}\n"
    );
    let _turn = ONE_AT_A_TIME.lock().unwrap();
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    file.unwrap().write_all(line.as_bytes()).unwrap();
}

fn engines(family: Family) -> Vec<Arc<Engine>> {
    let backends = gabion_backend::cpus();
    // SLH-DSA's other backends have the same lanes over slower hashes, and take long.
    let count = if family == Family::SlhDsa { 1 } else { backends.len() };
    let configs = backends[..count]
        .iter()
        .map(|backend| Config { backend: Some(backend.name().to_owned()), ..Config::default() });
    configs.map(|config| Arc::new(Engine::new(&config).unwrap())).collect()
}

fn of_kind(kind: Kind) -> impl Iterator<Item = Algorithm> {
    let info = |algorithm: &Algorithm| algorithm.info();
    Algorithm::all().filter(move |one| info(one).kind == kind && !info(one).stateful)
}

/// One lane of a verification.
#[derive(Clone)]
struct Lane<'a> {
    key: VerifyKey,
    message: Message<'a>,
    sig: Vec<u8>,
}

/// Changes a signature or a ciphertext somehow; `len_max` is the table's. Lengths stay where
/// `is_fixed` says so.
fn damage(bytes: &mut Vec<u8>, len_max: usize, is_fixed: bool, numbers: &mut Numbers) {
    let at = numbers.below(bytes.len());
    match numbers.below(if is_fixed { 7 } else { 11 }) {
        0 => bytes[at] ^= 1 << numbers.below(8),
        1 => bytes[at] = numbers.next() as u8,
        2 => bytes[at..].fill(0),
        3 => bytes[..=at].fill(0xff),
        4 => bytes.fill(0),
        5 => bytes[numbers.below(4).min(at)] ^= 0x80,
        6 => {
            // A piece moves: of a tree, of a point, of a vector.
            let len = numbers.below(bytes.len() - at) + 1;
            let to = numbers.below(bytes.len() - len + 1);
            bytes.copy_within(at..at + len, to);
        }
        7 => bytes.truncate(at),
        8 => bytes.truncate(bytes.len() - 1),
        9 => bytes.resize((bytes.len() + 1).min(len_max), 0),
        _ => bytes.resize(len_max, 0),
    }
}

/// The encodings of points of small order of Curve25519 in Edwards form, and of y = p and p + 1: no
/// strict verifier takes one as a key or as R.
fn small_encodings() -> Vec<[u8; 32]> {
    let mut one = [0; 32];
    one[0] = 1;
    let mut minus_one = [0xff; 32];
    (minus_one[0], minus_one[31]) = (0xec, 0x7f);
    let order_8: [u8; 32] = [
        0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b, 0x76, 0x0d, 0x10, 0x67,
        0x0f, 0x2a, 0x20, 0x53, 0xfa, 0x2c, 0x39, 0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77, 0x92, 0xac,
        0x03, 0x7a,
    ];
    let (mut p, mut above) = ([0xff; 32], [0xff; 32]);
    (p[0], p[31], above[0], above[31]) = (0xed, 0x7f, 0xee, 0x7f);
    let mut all = vec![[0; 32], one, minus_one, order_8, p, above];
    for i in 0..all.len() {
        let mut signed = all[i];
        signed[31] |= 0x80;
        all.push(signed);
    }
    all
}

/// L of RFC 8032, section 5.1, added to S.
fn plus_order(s: &mut [u8]) {
    let mut order = [0; 32];
    order[..16].copy_from_slice(&0x14de_f9de_a2f7_9cd6_5812_631a_5cf5_d3ed_u128.to_le_bytes());
    order[31] = 0x10;
    let mut carry = 0;
    for (byte, other) in s.iter_mut().zip(order) {
        let sum = u16::from(*byte) + u16::from(other) + carry;
        (*byte, carry) = (sum as u8, sum >> 8);
    }
}

/// Adds inputs that only Ed25519 has: keys and R of small order, encodings above p, S + L.
fn add_adversarial<'a>(engine: &Engine, good: &Lane<'a>, lanes: &mut Vec<Lane<'a>>) {
    let encodings = small_encodings();
    let algorithm = good.key.algorithm();
    for (i, r) in encodings.iter().enumerate() {
        let mut lane = good.clone();
        lane.sig[..32].copy_from_slice(r);
        lanes.push(lane.clone());
        lane.sig[32..].fill(0);
        lanes.push(lane.clone());
        // Strictly there is no such key to verify with.
        if let Ok(key) =
            engine.signature_public(algorithm, &encodings[(5 * i + 1) % encodings.len()])
        {
            assert_eq!(algorithm, Algorithm::Ed25519Zip215);
            lane.key = key;
            lanes.push(lane);
        }
    }
    let mut lane = good.clone();
    plus_order(&mut lane.sig[32..]);
    lanes.push(lane.clone());
    lane.sig[63] |= 0xe0;
    lanes.push(lane);
}

/// Messages of every form, some of which an algorithm does not have.
fn messages() -> Vec<Message<'static>> {
    const LONG: &[u8] = &[7; 256];
    vec![
        Message::Pure { context: b"", message: b"a message" },
        Message::Pure { context: b"", message: b"" },
        Message::Pure { context: b"context", message: b"a message" },
        Message::Pure { context: LONG, message: b"a message" },
        Message::Prehash { context: b"", hash: Prehash::Sha2_512, digest: &LONG[..64] },
        Message::Prehash { context: b"", hash: Prehash::Sha2_256, digest: &LONG[..31] },
        Message::Mu(&[3; 64]),
        Message::Internal(b"an internal message"),
    ]
}

/// The lanes of one algorithm: good ones of two keys, damaged ones, messages of every form.
fn lanes(engine: &Engine, algorithm: Algorithm, count: usize, seed: u64) -> Vec<Lane<'static>> {
    let mut numbers = Numbers(seed);
    let info = algorithm.info();
    let messages = messages();
    let keys: Vec<SigningKey> = engine.signature_generate_many(algorithm, 2, &OsEntropy).unwrap();
    let good: Vec<_> = keys
        .iter()
        .map(|key| Lane {
            key: key.public(),
            message: messages[0],
            sig: engine.sign(key, messages[0], &OsEntropy).unwrap(),
        })
        .collect();
    let mut lanes = vec![good[0].clone(), good[1].clone()];
    lanes.push(Lane { key: good[1].key.clone(), ..good[0].clone() });
    lanes.extend(messages.iter().map(|&message| Lane { message, ..good[0].clone() }));
    let has_all = info.family != Family::SlhDsa;
    for &message in messages[1..].iter().filter(|_| has_all) {
        // A signature in this form verifies in it.
        if let Ok(sig) = engine.sign(&keys[1], message, &OsEntropy) {
            lanes.push(Lane { key: good[1].key.clone(), message, sig });
        }
    }
    for _ in 0..count {
        let mut lane = good[numbers.below(2)].clone();
        damage(&mut lane.sig, info.output.max(), false, &mut numbers);
        lanes.push(lane);
    }
    // Longer than any: a batch has no place for them, and nothing of them is read.
    for (message, length) in [(messages[0], 1), (messages[0], 700), (messages[3], 1)] {
        let mut lane = Lane { message, ..good[0].clone() };
        lane.sig.resize(info.output.max() + length, 0);
        lanes.push(lane);
    }
    if info.family == Family::Ed25519 {
        add_adversarial(engine, &good[0], &mut lanes);
    }
    // In any order, so that good and bad ones are neighbours.
    for i in (1..lanes.len()).rev() {
        lanes.swap(i, numbers.below(i + 1));
    }
    lanes
}

/// Returns the result of a single operation as the status of a lane.
fn status<T>(result: &Result<T, Error>) -> Status {
    match result {
        Ok(_) => Status::Ok,
        Err(Error::BadSignature) => Status::InvalidSignature,
        Err(Error::Input(_)) => Status::InvalidInput,
        Err(Error::Lane { status, .. }) => *status,
        Err(error) => panic!("{error}"),
    }
}

/// The verdicts of batches of `size` lanes.
fn in_batches(engine: &Engine, lanes: &[Lane<'_>], size: usize) -> Vec<Status> {
    let mut all = Vec::new();
    for lanes in lanes.chunks(size) {
        let room = lanes[0].key.algorithm().info().output.max();
        let keys: Vec<_> = lanes.iter().map(|lane| &lane.key).collect();
        let messages: Vec<_> = lanes.iter().map(|lane| lane.message).collect();
        let mut sigs = vec![0; lanes.len() * room];
        for (place, lane) in sigs.chunks_exact_mut(room).zip(lanes) {
            let len = lane.sig.len().min(room);
            place[..len].copy_from_slice(&lane.sig[..len]);
        }
        let lengths: Vec<_> = lanes.iter().map(|lane| lane.sig.len()).collect();
        let mut status = vec![Status::NotRun; lanes.len()];
        engine.verify_many(&keys, &messages, &sigs, &lengths, &mut status).unwrap();
        all.extend(status);
    }
    all
}

/// One batch at a time, so that what comes meanwhile is run together.
fn narrow() -> Limits {
    Limits { leaders_max: NonZero::<usize>::MIN, ..Limits::default() }
}

/// Calls `ask` for every item from four threads at once; answers in order.
fn from_threads<T: Sync, R: Send>(items: &[T], ask: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let ask = &ask;
    let part = items.len().div_ceil(4);
    std::thread::scope(|scope| {
        let threads: Vec<_> = items
            .chunks(part)
            .map(|items| scope.spawn(move || items.iter().map(ask).collect::<Vec<_>>()))
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

/// Signatures of one algorithm, good and bad; gives how many.
fn check_signatures(engine: &Arc<Engine>, algorithm: Algorithm, seed: u64) -> usize {
    let count = if algorithm.info().family == Family::SlhDsa { 8 } else { 40 };
    let lanes = lanes(engine, algorithm, count, seed);
    let single: Vec<_> = lanes
        .iter()
        .map(|lane| status(&engine.verify(&lane.key, lane.message, &lane.sig)))
        .collect();
    let good = single.iter().filter(|status| status.is_ok()).count();
    assert!(good >= 3 && good < lanes.len() / 2 + 8, "{algorithm}: {good} of {}", lanes.len());
    for size in [1, 3, 8, lanes.len()] {
        let many = in_batches(engine, &lanes, size);
        for (lane, (one, many)) in single.iter().zip(many).enumerate() {
            let sig = &lanes[lane].sig;
            assert_eq!(*one, many, "{algorithm} seed {seed} lane {lane}: {sig:02x?}");
        }
    }
    let queue = Queue::new(Arc::clone(engine), OsEntropy, narrow());
    let queued =
        from_threads(&lanes, |lane| status(&queue.verify(&lane.key, lane.message, &lane.sig)));
    assert_eq!(queued, single, "{algorithm} seed {seed}, through a queue");
    lanes.len()
}

/// Runs `check` on every backend for each of the algorithm's seeds.
fn check_all(
    (place, algorithm): (usize, Algorithm),
    check: impl Fn(&Arc<Engine>, Algorithm, u64) -> usize,
) {
    let engines = engines(algorithm.info().family);
    let runs = seeds(place).flat_map(|seed| engines.iter().map(move |engine| (engine, seed)));
    tally(algorithm, runs.map(|(engine, seed)| check(engine, algorithm, seed)).sum());
}

#[test]
fn signatures_get_one_verdict() {
    let mut seen = 0;
    for algorithm in of_kind(Kind::Signature) {
        seen += 1;
        check_all((seen, algorithm), check_signatures);
    }
    assert!(seen >= 40, "{seen} algorithms");
}

/// Public keys of one algorithm, good, damaged and of other lengths; gives how many. `bytes` gives back
/// what was decoded.
fn check_public_keys<K>(
    (algorithm, seed): (Algorithm, u64),
    mut encoded: Vec<Vec<u8>>,
    decode: impl Fn(&[u8]) -> Result<K, Error>,
    decode_many: impl Fn(&[&[u8]]) -> Result<Vec<Result<K, Error>>, Error>,
    bytes: impl Fn(&K) -> &[u8],
) -> usize {
    let mut numbers = Numbers(seed);
    for lane in 0..40 {
        let mut key = encoded[lane % 2].clone();
        match lane % 4 {
            0 => {}
            1 => key.truncate(numbers.below(key.len())),
            2 => damage(&mut key, 2 * algorithm.info().public_key.max(), false, &mut numbers),
            // Coefficients that ML-KEM refuses, and no point of any curve.
            _ => key.fill(0xff),
        }
        encoded.push(key);
    }
    let encoded: Vec<&[u8]> = encoded.iter().map(Vec::as_slice).collect();
    let single: Vec<_> = encoded.iter().map(|key| decode(key)).collect();
    for size in [1, 3, 8, encoded.len()] {
        for (encoded, single) in encoded.chunks(size).zip(single.chunks(size)) {
            let many = decode_many(encoded).unwrap();
            assert_eq!(many.len(), encoded.len());
            for (one, many) in single.iter().zip(&many) {
                assert_eq!(
                    one.as_ref().map(&bytes).map_err(ToString::to_string),
                    many.as_ref().map(&bytes).map_err(ToString::to_string),
                    "{algorithm} seed {seed}"
                );
            }
        }
    }
    let good = single.iter().filter(|one| one.is_ok()).count();
    assert!(good >= 10 && good < single.len() - 8, "{algorithm}: {good} of {}", single.len());
    single.len()
}

#[test]
fn public_keys_get_one_verdict() {
    for numbered in of_kind(Kind::Kem).enumerate() {
        check_all(numbered, |engine, algorithm, seed| {
            let keys = engine.kem_generate_many(algorithm, 2, &OsEntropy).unwrap();
            check_public_keys(
                (algorithm, seed),
                keys.iter().map(|key| key.public_bytes().to_vec()).collect(),
                |key| engine.kem_public(algorithm, key),
                |keys| engine.kem_public_many(algorithm, keys),
                |key| key.bytes(),
            )
        });
    }
    for numbered in of_kind(Kind::Signature).enumerate() {
        check_all(numbered, |engine, algorithm, seed| {
            let keys = engine.signature_generate_many(algorithm, 2, &OsEntropy).unwrap();
            check_public_keys(
                (algorithm, seed),
                keys.iter().map(|key| key.public_bytes().to_vec()).collect(),
                |key| engine.signature_public(algorithm, key),
                |keys| engine.signature_public_many(algorithm, keys),
                |key| key.bytes(),
            )
        });
    }
}

/// Ciphertexts of one algorithm with what each opens to; gives how many.
fn check_kem(engine: &Arc<Engine>, algorithm: Algorithm, seed: u64) -> usize {
    let (info, mut numbers) = (algorithm.info(), Numbers(seed));
    let keys: Vec<KemPrivateKey> = engine.kem_generate_many(algorithm, 2, &OsEntropy).unwrap();
    let mut lanes: Vec<(&KemPrivateKey, Vec<u8>)> = Vec::new();
    for round in 0..40 {
        let key = &keys[round % 2];
        let (mut ct, _) = engine.encaps(&key.public(), &OsEntropy).unwrap();
        match round % 5 {
            0 => {}
            // The curve's part, wherever it stands: its ends are the ciphertext's ends.
            1 => ct[numbers.below(65)] ^= 1 << numbers.below(8),
            2 => {
                let at = ct.len() - 1 - numbers.below(97);
                ct[at] ^= 1 << numbers.below(8);
            }
            3 => damage(&mut ct, info.output.max(), true, &mut numbers),
            _ => {
                let at = if round % 2 == 0 { 0..32 } else { ct.len() - 32..ct.len() };
                // The first at either end is one that X25519 refuses, whatever the seed.
                let encoding = if round < 10 { 0 } else { numbers.below(12) };
                ct[at].copy_from_slice(&small_encodings()[encoding]);
            }
        }
        lanes.push((key, ct));
    }
    let open = |(key, ct): &(&KemPrivateKey, Vec<u8>)| engine.decaps(key, ct);
    let single: Vec<Result<SharedSecret, Error>> = lanes.iter().map(open).collect();
    for size in [1, 3, 8, lanes.len()] {
        let chunks = lanes.chunks(size).zip(single.chunks(size));
        for (lanes, single) in chunks {
            let keys: Vec<_> = lanes.iter().map(|lane| lane.0).collect();
            let ct: Vec<u8> = lanes.iter().flat_map(|lane| &lane.1).copied().collect();
            let mut shared = vec![7; lanes.len() * info.shared_secret];
            let mut many = vec![Status::NotRun; lanes.len()];
            engine.decaps_many(&keys, &ct, &mut shared, &mut many).unwrap();
            let secrets = shared.chunks_exact(info.shared_secret);
            for ((one, many), secret) in single.iter().zip(many).zip(secrets) {
                assert_eq!(status(one), many, "{algorithm} seed {seed}");
                match one {
                    Ok(one) => assert_eq!(one[..], *secret, "{algorithm} seed {seed}"),
                    Err(_) => assert!(secret.iter().all(|&byte| byte == 0), "{algorithm}"),
                }
            }
        }
    }
    let queue = Queue::new(Arc::clone(engine), OsEntropy, narrow());
    let queued = from_threads(&lanes, |(key, ct)| queue.decaps(key, ct));
    assert_eq!(queued, single, "{algorithm} seed {seed}, through a queue");
    let refused = single.iter().filter(|one| one.is_err()).count();
    // ML-KEM and X-Wing take what comes; a curve refuses what is no point of it.
    let takes_all = info.family == Family::MlKem || algorithm == Algorithm::XWing;
    assert_eq!(refused == 0, takes_all, "{algorithm}: {refused} refused");
    lanes.len()
}

#[test]
fn ciphertexts_get_one_verdict_and_one_secret() {
    for numbered in of_kind(Kind::Kem).enumerate() {
        check_all(numbered, check_kem);
    }
}
