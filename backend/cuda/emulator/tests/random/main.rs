//! Random batches on the device and on the processor, which give the same verdicts and the same bytes: every task of every
//! set, fresh and known keys, every form of a message, lanes that are spoilt.
//!
//! `GABION_RANDOM_OPERATIONS` says how many operations (3000), `GABION_RANDOM_SEED` repeats a run.
//! The test prints the number of comparisons of each task:
//! `cargo test -p gabion-cuda-emulator --test random -- --nocapture`.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.

mod stateful;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use gabion_backend::{Backend, Batch, BatchOutcome, Dsa, Kem, Keys, Operation, Slh, cpus};
use gabion_cuda_emulator::selected_backend;
use gabion_scheme::message::Message;
use gabion_scheme::prehash::Prehash;
use gabion_scheme::{Algorithm, Status, ml_dsa, ml_kem, slh_dsa};

/// Numbers that look random (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n.div_ceil(8)).flat_map(|_| self.next().to_le_bytes()).take(n).collect()
    }

    fn arrays<const N: usize>(&mut self, n: usize) -> Vec<[u8; N]> {
        (0..n).map(|_| self.bytes(N).try_into().unwrap()).collect()
    }

    /// Changes a bit of one item in `share`, or all of its bytes.
    fn spoil(&mut self, items: &mut [u8], each: usize, share: usize) {
        for item in items.chunks_exact_mut(each) {
            if !self.one_in(share) {
                continue;
            }
            match self.below(4) {
                0 => item.copy_from_slice(&self.bytes(each)),
                1 => item.fill([0, 0xff][self.below(2)]),
                _ => item[self.below(each)] ^= 1 << self.below(8),
            }
        }
    }
}

/// A message of any form.
enum Text {
    Pure(Vec<u8>, Vec<u8>),
    Prehash(Vec<u8>, Prehash, Vec<u8>),
    Mu([u8; 64]),
    Internal(Vec<u8>),
}

impl Text {
    fn new(random: &mut Random, has_mu: bool) -> Self {
        // Most are short, some have several blocks.
        let length = [32, 1, 200, 2000][random.below(4)];
        let message = |random: &mut Random| {
            let length = random.below(length + 1);
            random.bytes(length)
        };
        let context = |random: &mut Random| {
            let length = [0, 0, 20, 257][random.below(4)];
            let length = random.below(length + 1);
            random.bytes(length)
        };
        match random.below(6) {
            0 if has_mu => Text::Mu(random.bytes(64).try_into().unwrap()),
            1 => Text::Internal(message(random)),
            2 => {
                let all: Vec<Prehash> = Prehash::all().collect();
                let hash = all[random.below(all.len())];
                let digest = hash.digest(&message(random));
                Text::Prehash(context(random), hash, digest)
            }
            _ => Text::Pure(context(random), message(random)),
        }
    }

    fn message(&self) -> Message<'_> {
        match self {
            Text::Pure(context, message) => Message::Pure { context, message },
            Text::Prehash(context, hash, digest) => {
                Message::Prehash { context, hash: *hash, digest }
            }
            Text::Mu(mu) => Message::Mu(mu),
            Text::Internal(message) => Message::Internal(message),
        }
    }
}

/// A backend's output for a batch.
type BatchOutput = (Vec<Status>, Vec<Vec<u8>>);

fn run(backend: &dyn Backend, operation: Operation<'_>, n: usize) -> (BatchOutcome, Vec<Status>) {
    let mut status = vec![Status::NotRun; n];
    let mut batch = Batch { operation, status: &mut status };
    batch.check().unwrap();
    let mut ran = backend.run(&mut batch);
    // Threads share the slots of a device.
    for _ in 0..200 {
        if ran != BatchOutcome::Declined {
            break;
        }
        ran = backend.run(&mut batch);
    }
    (ran, status)
}

/// A task: it runs on a backend, with separate outputs.
type Task<'t> = Box<dyn Fn(&dyn Backend) -> (BatchOutcome, BatchOutput) + 't>;

/// Runs a task on both, and says how many lanes it had; none if the device does not do such tasks.
fn compare(
    name: &str,
    seed: u64,
    cuda: &dyn Backend,
    cpu: &dyn Backend,
    task: &Task<'_>,
) -> Option<u64> {
    let (ran, made) = task(cuda);
    if ran == BatchOutcome::Declined {
        return None;
    }
    assert_eq!(ran, BatchOutcome::Done, "{name}, seed {seed}");
    let (ran, expected) = task(cpu);
    assert_eq!(ran, BatchOutcome::Done, "{name}, seed {seed}");
    let lanes = made.0.iter().zip(&expected.0).position(|(made, expected)| made != expected);
    assert_eq!(lanes, None, "{name}, seed {seed}: the first lane with another verdict");
    assert!(made.1 == expected.1, "{name}, seed {seed}: other results");
    Some(made.0.len() as u64)
}

fn kem(random: &mut Random, cpu: &dyn Backend, set: usize, n: usize) -> (String, Task<'static>) {
    let params = [&ml_kem::ML_KEM_512, &ml_kem::ML_KEM_768, &ml_kem::ML_KEM_1024][set];
    let name = params.algorithm.name();
    let seeds: Vec<[u8; 64]> = random.arrays(n);
    let keygen = move |backend: &dyn Backend, seeds: &[[u8; 64]]| {
        let (mut ek, mut dk) = (vec![0; n * params.ek_len()], vec![0; n * params.dk_len()]);
        let kem = Kem::Keygen { params, seeds, ek: &mut ek, dk: &mut dk };
        let (ran, status) = run(backend, Operation::Kem(kem), n);
        (ran, (status, vec![ek, dk]))
    };
    let which = random.below(6);
    if which == 5 {
        let task = Box::new(move |backend: &dyn Backend| {
            let mut ek = vec![0; n * params.ek_len()];
            let kem = Kem::Publish { params, seeds: &seeds, ek: &mut ek };
            let (ran, status) = run(backend, Operation::Kem(kem), n);
            (ran, (status, vec![ek]))
        });
        return (format!("{name}:keygen:seed"), task);
    }
    if which == 0 {
        let task = Box::new(move |backend: &dyn Backend| keygen(backend, &seeds));
        return (format!("{name}:keygen"), task);
    }
    let (_, (_, mut keys)) = keygen(cpu, &seeds);
    let (mut dk, mut ek) = (keys.pop().unwrap(), keys.pop().unwrap());
    let known: Vec<ml_kem::DecapsKey> = random
        .arrays(4)
        .iter()
        .map(|seed| ml_kem::DecapsKey::from_seed(&gabion_backend::portable::Portable, params, seed))
        .collect();
    let turn: Vec<usize> = (0..n).map(|_| random.below(known.len())).collect();
    let m: Vec<[u8; 32]> = random.arrays(n);
    let is_known = random.one_in(2);
    let encaps = move |backend: &dyn Backend,
                       ek: &[u8],
                       known: &[ml_kem::DecapsKey],
                       turn: &[usize],
                       m: &[[u8; 32]]| {
        let (mut ct, mut shared) = (vec![0; n * params.ct_len()], vec![[0; 32]; n]);
        let refs: Vec<_> = turn.iter().map(|&key| known[key].encaps_key()).collect();
        let keys = if is_known { Keys::Known(&refs) } else { Keys::Fresh(ek) };
        let kem = Kem::Encaps { params, keys, m, ct: &mut ct, shared: &mut shared };
        let (ran, status) = run(backend, Operation::Kem(kem), n);
        (ran, (status, vec![ct, shared.concat()]))
    };
    let key = if is_known { "known" } else { "fresh" };
    if which <= 2 {
        random.spoil(&mut ek, params.ek_len(), 8);
        let task = Box::new(move |backend: &dyn Backend| encaps(backend, &ek, &known, &turn, &m));
        return (format!("{name}:encaps:{key}"), task);
    }
    let (_, (_, made)) = encaps(cpu, &ek, &known, &turn, &m);
    let mut ct = made.into_iter().next().unwrap();
    random.spoil(&mut ct, params.ct_len(), 4);
    random.spoil(&mut dk, params.dk_len(), 8);
    let task = Box::new(move |backend: &dyn Backend| {
        let mut shared = vec![[0; 32]; n];
        let refs: Vec<_> = turn.iter().map(|&key| &known[key]).collect();
        let keys = if is_known { Keys::Known(&refs) } else { Keys::Fresh(&dk) };
        let kem = Kem::Decaps { params, keys, ct: &ct, shared: &mut shared };
        let (ran, status) = run(backend, Operation::Kem(kem), n);
        (ran, (status, vec![shared.concat()]))
    });
    (format!("{name}:decaps:{key}"), task)
}

fn dsa(random: &mut Random, cpu: &dyn Backend, set: usize, n: usize) -> (String, Task<'static>) {
    let set = [Algorithm::MlDsa44, Algorithm::MlDsa65, Algorithm::MlDsa87][set];
    let params = ml_dsa::params(set).unwrap();
    let name = set.name();
    let seeds: Vec<[u8; 32]> = random.arrays(n);
    let keygen = move |backend: &dyn Backend, seeds: &[[u8; 32]]| {
        let (mut pk, mut sk) = (vec![0; n * params.pk_len()], vec![0; n * params.sk_len()]);
        let dsa = Dsa::Keygen { params, seeds, pk: &mut pk, sk: &mut sk };
        let (ran, status) = run(backend, Operation::Dsa(dsa), n);
        (ran, (status, vec![pk, sk]))
    };
    let which = random.below(6);
    if which == 0 {
        let task = Box::new(move |backend: &dyn Backend| keygen(backend, &seeds));
        return (format!("{name}:keygen"), task);
    }
    let (_, (_, mut keys)) = keygen(cpu, &seeds);
    let (mut sk, mut pk) = (keys.pop().unwrap(), keys.pop().unwrap());
    let known: Vec<ml_dsa::SigningKey> = {
        let mut keys: Vec<_> = (0..4).map(|_| ml_dsa::SigningKey::blank(params)).collect();
        let dsa = Dsa::Generate { params, seeds: &random.arrays(4), keys: &mut keys };
        assert_eq!(run(cpu, Operation::Dsa(dsa), 4).0, BatchOutcome::Done);
        keys
    };
    let turn: Vec<usize> = (0..n).map(|_| random.below(known.len())).collect();
    let mut texts: Vec<Text> = (0..n).map(|_| Text::new(random, true)).collect();
    let rnd: Vec<[u8; 32]> = random.arrays(n);
    let is_known = random.one_in(2);
    let key = if is_known { "known" } else { "fresh" };
    let sign = move |backend: &dyn Backend,
                     sk: &[u8],
                     known: &[ml_dsa::SigningKey],
                     turn: &[usize],
                     texts: &[Text],
                     rnd: &[[u8; 32]]| {
        let mut sig = vec![0; n * params.sig_len()];
        let messages: Vec<_> = texts.iter().map(Text::message).collect();
        let refs: Vec<_> = turn.iter().map(|&key| &known[key]).collect();
        let keys = if is_known { Keys::Known(&refs) } else { Keys::Fresh(sk) };
        let dsa = Dsa::Sign { params, keys, messages: &messages, rnd, sig: &mut sig };
        let (ran, status) = run(backend, Operation::Dsa(dsa), n);
        (ran, (status, vec![sig]))
    };
    if which <= 2 {
        random.spoil(&mut sk, params.sk_len(), 16);
        let task =
            Box::new(move |backend: &dyn Backend| sign(backend, &sk, &known, &turn, &texts, &rnd));
        return (format!("{name}:sign:{key}"), task);
    }
    let (_, (_, made)) = sign(cpu, &sk, &known, &turn, &texts, &rnd);
    let mut sig = made.into_iter().next().unwrap();
    random.spoil(&mut sig, params.sig_len(), 4);
    random.spoil(&mut pk, params.pk_len(), 8);
    // Another message than the one that was signed.
    let other = random.below(n);
    texts[other] = Text::new(random, true);
    let task = Box::new(move |backend: &dyn Backend| {
        let messages: Vec<_> = texts.iter().map(Text::message).collect();
        let refs: Vec<_> = turn.iter().map(|&key| known[key].verify_key()).collect();
        let keys = if is_known { Keys::Known(&refs) } else { Keys::Fresh(&pk) };
        let dsa = Dsa::Verify { params, keys, messages: &messages, sig: &sig };
        let (ran, status) = run(backend, Operation::Dsa(dsa), n);
        (ran, (status, Vec::new()))
    });
    (format!("{name}:verify:{key}"), task)
}

fn slh(
    random: &mut Random,
    cpu: &dyn Backend,
    n: usize,
    has_small: bool,
) -> (String, Task<'static>) {
    let sets: Vec<_> = Algorithm::all().filter_map(slh_dsa::params).collect();
    // A signature of a small set takes a processor as long as twenty others.
    let params = loop {
        let params = sets[random.below(sets.len())];
        if !params.name().ends_with('s') || has_small && random.one_in(20) {
            break params;
        }
    };
    let name = params.name();
    let keys = {
        let mut keys: Vec<_> = (0..2).map(|_| slh_dsa::SigningKey::blank(params)).collect();
        let seeds = random.bytes(2 * params.seed_len());
        let slh = Slh::Generate { params, seeds: &seeds, keys: &mut keys };
        assert_eq!(run(cpu, Operation::Slh(slh), 2).0, BatchOutcome::Done);
        keys
    };
    let turn: Vec<usize> = (0..n).map(|_| random.below(keys.len())).collect();
    let mut texts: Vec<Text> = (0..n).map(|_| Text::new(random, false)).collect();
    let opt_rand = random.one_in(2).then(|| random.bytes(n * params.seed_len() / 3));
    let is_known = random.one_in(2);
    let key = if is_known { "known" } else { "fresh" };
    let sign = move |backend: &dyn Backend,
                     keys: &[slh_dsa::SigningKey],
                     turn: &[usize],
                     texts: &[Text],
                     opt_rand: Option<&[u8]>| {
        let mut sig = vec![0; n * params.sig_len()];
        let messages: Vec<_> = texts.iter().map(Text::message).collect();
        let refs: Vec<_> = turn.iter().map(|&key| &keys[key]).collect();
        let sk: Vec<u8> = refs.iter().flat_map(|key| key.bytes().to_vec()).collect();
        let keys = if is_known { Keys::Known(&refs) } else { Keys::Fresh(&sk) };
        let slh = Slh::Sign { params, keys, messages: &messages, opt_rand, sig: &mut sig };
        let (ran, status) = run(backend, Operation::Slh(slh), n);
        (ran, (status, vec![sig]))
    };
    if random.one_in(2) {
        let task = Box::new(move |backend: &dyn Backend| {
            sign(backend, &keys, &turn, &texts, opt_rand.as_deref())
        });
        return (format!("{name}:sign:{key}"), task);
    }
    let (_, (_, made)) = sign(cpu, &keys, &turn, &texts, opt_rand.as_deref());
    let mut sig = made.into_iter().next().unwrap();
    random.spoil(&mut sig, params.sig_len(), 4);
    let mut pk: Vec<u8> =
        turn.iter().flat_map(|&key| keys[key].verify_key().bytes().to_vec()).collect();
    random.spoil(&mut pk, params.pk_len(), 8);
    let other = random.below(n);
    texts[other] = Text::new(random, false);
    let task = Box::new(move |backend: &dyn Backend| {
        let messages: Vec<_> = texts.iter().map(Text::message).collect();
        let refs: Vec<_> = turn.iter().map(|&key| keys[key].verify_key()).collect();
        let keys = if is_known { Keys::Known(&refs) } else { Keys::Fresh(&pk) };
        let slh = Slh::Verify { params, keys, messages: &messages, sig: &sig };
        let (ran, status) = run(backend, Operation::Slh(slh), n);
        (ran, (status, Vec::new()))
    });
    (format!("{name}:verify:{key}"), task)
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is `{text}`, which is no number")))
}

#[test]
fn random_batches_are_those_of_the_processor() {
    let operations = number("GABION_RANDOM_OPERATIONS").unwrap_or(3000);
    let seed = number("GABION_RANDOM_SEED").unwrap_or_else(|| {
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes).unwrap();
        u64::from_le_bytes(bytes)
    });
    println!("GABION_RANDOM_SEED={seed} repeats it");
    let cuda = selected_backend(64 << 20).unwrap();
    let all = cpus();
    let cpu = &*all[0];
    // Batches of a device are large; those of a processor in its place take long.
    let is_long = operations > 10_000;
    let log_max = if is_long { 12 } else { 6 };
    let (done, batch) = (AtomicU64::new(0), AtomicU64::new(0));
    let counts: Mutex<BTreeMap<String, (u64, u64)>> = Mutex::default();
    let work = || {
        while done.load(Ordering::Relaxed) < operations {
            let number = batch.fetch_add(1, Ordering::Relaxed);
            let own = seed ^ number.wrapping_mul(0x9e6c_63d0_876a_68ee);
            let mut random = Random(own);
            let log = random.below(log_max + 1);
            let n = 1 + random.below(1 << log);
            let set = random.below(3);
            let family = random.below(if is_long { 16 } else { 48 });
            // Families that are slow on a processor have fewer lanes.
            let n = match family {
                0 => 1 + n % 4,
                1..=4 => 1 + n % if is_long { 256 } else { 16 },
                _ => n,
            };
            let (name, task) = match family {
                0 => slh(&mut random, cpu, n, is_long),
                1 | 2 => stateful::hss(&mut random, n),
                3 | 4 => stateful::xmss(&mut random, n),
                _ if family % 2 == 1 => kem(&mut random, cpu, set, n),
                _ => dsa(&mut random, cpu, set, n),
            };
            let lanes = compare(&name, own, &cuda, cpu, &task);
            let mut counts = counts.lock().unwrap();
            let count = counts.entry(name).or_default();
            match lanes {
                Some(lanes) => {
                    count.0 += lanes;
                    done.fetch_add(lanes, Ordering::Relaxed);
                }
                None => count.1 += 1,
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get()).min(16);
    std::thread::scope(|scope| {
        (0..threads).for_each(|_| drop(scope.spawn(work)));
    });
    let counts = counts.into_inner().unwrap();
    for (name, (operations, declined)) in &counts {
        println!("{name}: {operations} operations, {declined} batches declined");
    }
    let compared: u64 = counts.values().map(|count| count.0).sum();
    println!("{compared} operations compared on {}", cpu.name());
    assert!(compared >= operations);
}
