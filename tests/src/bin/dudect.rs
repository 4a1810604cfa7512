//! Timing smoke test: two classes of secret inputs in random order, Welch's t between their times.
//!
//!     cargo run --release -p gabion-tests --bin dudect [-- [--backend B] [--samples N]]
//!
//! Without a backend, the best of this machine.
//!
//! For each test t is computed over all times and over the quickest 50, 75, 90, 95 and 99 of a
//! hundred, which drops interrupts; the largest is printed. Beyond 10 there is a leak, beyond 4.5
//! something to look at with more samples. The leaky demo must exceed 10, or nothing was seen.
//!
//! Exits 1 if anything but the demo exceeds 10, or the demo does not. Where `GABION_SOAK_TALLY` names a
//! file, each test adds a line that says what was timed, how often, and the largest |t|.

use std::cell::Cell;
use std::hint::black_box;
use std::io::Write as _;
use std::num::NonZero;
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::slice::from_ref;

use gabion_backend::portable::Portable;
use gabion_engine::keys::stateful::hss::{HssSecret, Levels, Progress, StatefulKey};
use gabion_engine::lms::{LM_OTS, LMS};
use gabion_engine::{Config, Engine, ExchangePrivateKey, OsEntropy, Randomness};
use gabion_scheme::Algorithm::{
    self, EcdhP256, EcdhP384, EcdhP521, EcdsaP256, EcdsaP384, EcdsaP521, Ed25519, X25519,
};
use gabion_scheme::kernels::{DSA_Q, DsaPoly, KemPoly, Kernels};
use gabion_scheme::message::Message;
use gabion_scheme::ml_dsa::{self, SigningKey};
use gabion_scheme::ml_kem::{self, DecapsKey};
use gabion_scheme::{Status, ct};
use gabion_tests::probe::Probe;

/// |t| from which on a difference is no accident.
const LEAK: f64 = 10.0;

/// xorshift64*: for the order and for test data.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() >> 33) as usize % n
    }

    fn bytes(&mut self) -> [u8; 32] {
        std::array::from_fn(|_| (self.next() >> 56) as u8)
    }

    fn kem_poly(&mut self) -> KemPoly {
        KemPoly(std::array::from_fn(|_| self.below(3329) as i16))
    }

    fn dsa_poly(&mut self) -> DsaPoly {
        DsaPoly(std::array::from_fn(|_| self.below(DSA_Q as usize) as i32))
    }
}

/// Ticks of a steady clock; the two fences keep the measured work between two calls.
fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_mm_lfence, _rdtsc};
        // SAFETY: every x86-64 processor has both instructions.
        unsafe {
            _mm_lfence();
            let now = _rdtsc();
            _mm_lfence();
            now
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
        START.get_or_init(std::time::Instant::now).elapsed().as_nanos() as u64
    }
}

/// Welch's t of the times below `limit`, class 0 against class 1; and the means.
fn welch(times: &[(usize, u64)], limit: u64) -> (f64, [f64; 2]) {
    let (mut n, mut mean, mut squares) = ([0.0; 2], [0.0; 2], [0.0; 2]);
    for &(class, time) in times.iter().filter(|(_, time)| *time <= limit) {
        n[class] += 1.0;
        let delta = time as f64 - mean[class];
        mean[class] += delta / n[class];
        squares[class] += delta * (time as f64 - mean[class]);
    }
    let error = (0..2).map(|c| squares[c] / (n[c] - 1.0) / n[c]).sum::<f64>();
    let t = if error > 0.0 { (mean[0] - mean[1]) / error.sqrt() } else { 0.0 };
    (t, mean)
}

struct Report {
    samples: usize,
    leaks: Vec<String>,
}

impl Report {
    /// Failing operations are quick, and would make the timings meaningless: as bad as a leak.
    fn complain_of(&mut self, failures: u32, what: &str) {
        if failures > 0 {
            self.leaks.push(format!("{failures} {what} failed"));
        }
    }

    /// Times `work` after `prepare` on the inputs of both classes in random order and prints t.
    /// `prepare` brings the input to where it always lies, so that addresses say nothing.
    fn test<S, I, R>(
        &mut self,
        name: &str,
        classes: [&[I]; 2],
        state: &mut S,
        prepare: impl Fn(&mut S, &I),
        work: impl Fn(&mut S) -> R,
    ) -> f64 {
        let mut random = Random(0x1234_5678_9abc_def1);
        let mut times = Vec::with_capacity(self.samples);
        for round in 0..self.samples + self.samples / 10 {
            let class = (random.next() >> 40) as usize & 1;
            prepare(state, &classes[class][random.below(classes[class].len())]);
            let begin = ticks();
            black_box(work(black_box(state)));
            let time = ticks() - begin;
            // The first tenth warms up.
            if round >= self.samples / 10 {
                times.push((class, time));
            }
        }
        let mut sorted: Vec<u64> = times.iter().map(|(_, time)| *time).collect();
        sorted.sort_unstable();
        let limits = [50, 75, 90, 95, 99, 100].map(|part| sorted[(sorted.len() - 1) * part / 100]);
        let all = limits.map(|limit| welch(&times, limit));
        let (t, mean) = all.into_iter().fold((0.0f64, [0.0; 2]), |worst, one| {
            if one.0.abs() > worst.0.abs() { one } else { worst }
        });
        println!("{name:54} t = {t:8.2}   means {:10.1} {:10.1}", mean[0], mean[1]);
        tally(name, times.len(), t.abs());
        if t.abs() > LEAK {
            self.leaks.push(name.to_owned());
        }
        t.abs()
    }
}

/// Adds a line to the file of the long counts: what was timed, and the largest |t| of it.
fn tally(name: &str, samples: usize, t: f64) {
    let Some(path) = std::env::var_os("GABION_SOAK_TALLY") else { return };
    let t = (t * 100.0).round() / 100.0;
    let line = serde_json::json!({ "timed": name, "samples": samples, "t": t });
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    if let Err(error) = file.and_then(|mut file| writeln!(file, "{line}")) {
        eprintln!("error: the file of GABION_SOAK_TALLY: {error}");
    }
}

/// One place for everything that decapsulation touches.
struct Opening {
    key: DecapsKey,
    ct: Vec<u8>,
    shared: [[u8; 32]; 1],
    scratch: ml_kem::Scratch,
}

/// Valid against invalid ciphertexts of one key, and one key against random keys.
fn decaps<K: Kernels>(k: &K, p: &'static ml_kem::Params, random: &mut Random, report: &mut Report) {
    let (mut keygen_scratch, mut ct) = (ml_kem::Scratch::default(), vec![0; p.ct_len()]);
    let mut sealed = |seed: [u8; 64], random: &mut Random| {
        let key = DecapsKey::from_seed(k, p, &seed);
        let (m, mut shared) = ([random.bytes()], [[0; 32]]);
        let keys = [key.encaps_key()];
        ml_kem::encaps(k, p, &keys, &m, &mut ct, &mut shared, &mut keygen_scratch);
        (seed, ct.clone())
    };
    let (mut valid, mut invalid, mut others) = (Vec::new(), Vec::new(), Vec::new());
    for at in 0..128 {
        valid.push(sealed([7; 64], random));
        let (seed, mut bad) = sealed([7; 64], random);
        let len = bad.len();
        bad[at * 97 % len] ^= 1;
        invalid.push((seed, bad));
        let mut seed = [0; 64];
        seed[..32].copy_from_slice(&random.bytes());
        seed[32..].copy_from_slice(&random.bytes());
        others.push(sealed(seed, random));
    }
    let mut state = Opening {
        key: DecapsKey::blank(p),
        ct: vec![0; p.ct_len()],
        shared: [[0; 32]],
        scratch: ml_kem::Scratch::default(),
    };
    let prepare = |state: &mut Opening, (seed, ct): &([u8; 64], Vec<u8>)| {
        let keys = std::slice::from_mut(&mut state.key);
        ml_kem::keygen(k, p, std::slice::from_ref(seed), keys, &mut state.scratch);
        state.ct.copy_from_slice(ct);
    };
    let work = |state: &mut Opening| {
        let (keys, shared) = ([&state.key], &mut state.shared);
        ml_kem::decaps(k, p, &keys, &state.ct, shared, &mut state.scratch);
    };
    let name = format!("decaps {}, valid and invalid ciphertext", p.algorithm);
    report.test(&name, [&valid, &invalid], &mut state, prepare, work);
    let name = format!("decaps {}, one key and random keys", p.algorithm);
    report.test(&name, [&valid, &others], &mut state, prepare, work);
}

/// One place for everything that signing touches.
struct Signing {
    key: SigningKey,
    text: [u8; 32],
    sig: Vec<u8>,
    scratch: ml_dsa::Scratch,
}

/// Signs deterministically.
fn sign_once<K: Kernels>(k: &K, state: &mut Signing) -> Status {
    let message = Message::Pure { context: b"", message: &state.text };
    let (keys, mut status) = ([&state.key], [Status::NotRun]);
    let (sig, scratch) = (&mut state.sig, &mut state.scratch);
    ml_dsa::sign(k, &keys, &[message], &[[0; 32]], sig, &mut status, scratch);
    status[0]
}

/// One key against random keys, with messages that are signed at the first attempt, so that no
/// rejection is timed: with one lane, every attempt has its own calls of the sponge.
fn sign<K: Kernels>(k: &K, p: &'static ml_dsa::Params, random: &mut Random, report: &mut Report) {
    let mut state = Signing {
        key: SigningKey::blank(p),
        text: [0; 32],
        sig: vec![0; p.sig_len()],
        scratch: ml_dsa::Scratch::new(),
    };
    let prepare = |state: &mut Signing, (seed, text): &([u8; 32], [u8; 32])| {
        let keys = std::slice::from_mut(&mut state.key);
        ml_dsa::keygen(k, p, std::slice::from_ref(seed), keys, &mut state.scratch);
        state.key.prepare(k);
        state.text = *text;
    };
    let probe = Probe::new(k).with_lanes(1);
    let mut classes = [Vec::new(), Vec::new()];
    for number in 0..512 {
        let seed = if number % 2 == 0 { [3; 32] } else { random.bytes() };
        for tries in 0.. {
            assert!(tries < 1000, "{} accepts no signature at once", p.algorithm);
            let input = (seed, random.bytes());
            prepare(&mut state, &input);
            probe.sponges();
            // mu, rho'', the masks, c~, the challenge's stream.
            if sign_once(&probe, &mut state).is_ok() && probe.sponges().calls == 5 {
                classes[number % 2].push(input);
                break;
            }
        }
    }
    let name = format!("sign {}, accepted at once, one key and random", p.algorithm);
    let classes = [&classes[0][..], &classes[1][..]];
    report.test(&name, classes, &mut state, prepare, |state| sign_once(k, state));
}

/// Single kernels, eight times each: one polynomial against random ones.
fn kernels<K: Kernels>(k: &K, random: &mut Random, report: &mut Report) {
    let kem: Vec<KemPoly> = (0..64).map(|_| random.kem_poly()).collect();
    let dsa: Vec<DsaPoly> = (0..64).map(|_| random.dsa_poly()).collect();
    let (kem_one, dsa_one) = (vec![KemPoly([1; 256]); 64], vec![DsaPoly([1; 256]); 64]);
    let mut small = (KemPoly::default(), [0u8; 320]);
    for d in [1, 4, 10] {
        let name = format!("{}: kem_compress {d}, one and random", k.name());
        let prepare = |state: &mut (KemPoly, _), p: &KemPoly| state.0.clone_from(p);
        report.test(&name, [&kem_one, &kem], &mut small, prepare, |(p, out)| {
            (0..8).for_each(|_| k.kem_compress(d, from_ref(black_box(p)), &mut out[..32 * d]));
        });
    }
    let name = format!("{}: kem_ntt, one and random", k.name());
    let prepare = |state: &mut (KemPoly, _), p: &KemPoly| state.0.clone_from(p);
    report.test(&name, [&kem_one, &kem], &mut small, prepare, |(p, _)| {
        (0..8).for_each(|_| k.kem_ntt(std::slice::from_mut(black_box(p))));
    });
    let mut wide = [DsaPoly::default(), DsaPoly::default(), DsaPoly::default()];
    let prepare = |state: &mut [DsaPoly; 3], p: &DsaPoly| state[0].clone_from(p);
    let gamma2 = (DSA_Q - 1) / 32;
    let name = format!("{}: dsa_norm_below, one and random", k.name());
    report.test(&name, [&dsa_one, &dsa], &mut wide, prepare, |[p, _, _]| {
        (0..8).filter(|_| k.dsa_norm_below(std::slice::from_ref(black_box(p)), 1000)).count()
    });
    let name = format!("{}: dsa_decompose, one and random", k.name());
    report.test(&name, [&dsa_one, &dsa], &mut wide, prepare, |[p, r1, r0]| {
        (0..8).for_each(|_| k.dsa_decompose(gamma2, black_box(p), r1, r0));
    });
    let name = format!("{}: dsa_make_hint, one and random", k.name());
    report.test(&name, [&dsa_one, &dsa], &mut wide, prepare, |[p, r1, hint]| {
        (0..8).map(|_| k.dsa_make_hint(gamma2, black_box(p), r1, hint)).sum::<usize>()
    });
}

/// Curves through the engine: one private key against random ones. The processor determines the
/// code: our lanes or graviola's assembly, and RustCrypto for P-521.
fn curves(engine: &Engine, report: &mut Report) -> Result<(), gabion_engine::Error> {
    let failures = Cell::new(0);
    let count = |worked: bool| failures.set(failures.get() + u32::from(!worked));
    for algorithm in [X25519, EcdhP256, EcdhP384, EcdhP521] {
        let scalar = || Ok(engine.exchange_generate(algorithm, &OsEntropy)?.bytes().to_vec());
        let classes = one_and_random(scalar)?;
        let peer = engine.exchange_generate(algorithm, &OsEntropy)?.public();
        let prepare = |key: &mut Option<ExchangePrivateKey>, scalar: &Vec<u8>| {
            *key = None; // Its memory first, so that the next key lies where this one lay.
            *key = engine.exchange_private(algorithm, scalar).ok();
        };
        let name = format!("derive {algorithm}, one key and random");
        report.test(&name, [&classes[0], &classes[1]], &mut None, prepare, |key| {
            count(key.as_ref().is_some_and(|key| engine.derive(key, &peer).is_ok()));
        });
    }
    // The curve whose public keys are made by arithmetic of our own.
    let scalar = || Ok(engine.exchange_generate(EcdhP384, &OsEntropy)?.bytes().to_vec());
    let classes = one_and_random(scalar)?;
    let copy = |copy: &mut Vec<u8>, scalar: &Vec<u8>| copy.clone_from(scalar);
    let name = "public key of ECDH-P-384, one key and random";
    report.test(name, [&classes[0], &classes[1]], &mut Vec::new(), copy, |scalar| {
        count(engine.exchange_private(EcdhP384, scalar).is_ok());
    });
    let message = Message::Pure { context: b"", message: b"timed" };
    for algorithm in [EcdsaP256, EcdsaP384, EcdsaP521, Ed25519] {
        let scalar = || Ok(engine.signature_generate(algorithm, &OsEntropy)?.bytes().to_vec());
        let classes = one_and_random(scalar)?;
        let prepare = |key: &mut Option<gabion_engine::SigningKey>, scalar: &Vec<u8>| {
            *key = None;
            *key = engine.signature_private(algorithm, scalar).ok();
        };
        let name = format!("sign {algorithm}, one key and random");
        report.test(&name, [&classes[0], &classes[1]], &mut None, prepare, |key| {
            count(key.as_ref().is_some_and(|key| engine.sign(key, message, &OsEntropy).is_ok()));
        });
    }
    report.complain_of(failures.get(), "operations on curves");
    Ok(())
}

/// Keys of a batch: more than any instruction set has lanes, and not a multiple of them.
const LANES: usize = 9;

/// Batches through the engine: every lane one private key against a random one in each. Of Ed25519 and
/// X25519 they have kernels that single operations do not reach.
fn many(engine: &Engine, report: &mut Report) -> Result<(), gabion_engine::Error> {
    let failures = Cell::new(0);
    let count = |worked: bool| failures.set(failures.get() + u32::from(!worked));
    let scalar = || Ok(engine.exchange_generate(X25519, &OsEntropy)?.bytes().to_vec());
    let classes = batches_of(one_and_random(scalar)?);
    let peer = engine.exchange_generate(X25519, &OsEntropy)?.public();
    let prepare = |keys: &mut Vec<ExchangePrivateKey>, scalars: &Vec<Vec<u8>>| {
        keys.clear();
        keys.extend(scalars.iter().filter_map(|key| engine.exchange_private(X25519, key).ok()));
    };
    let name = format!("derive X25519, {LANES} at once, one key and random");
    report.test(&name, [&classes[0], &classes[1]], &mut Vec::new(), prepare, |keys| {
        let lanes: Vec<_> = keys.iter().map(|key| (key, &peer)).collect();
        let secrets = engine.derive_many(&lanes).unwrap_or_default();
        count(secrets.len() == LANES && secrets.iter().all(Result::is_ok));
    });
    let seed = || Ok(engine.signature_generate(Ed25519, &OsEntropy)?.bytes().to_vec());
    let classes = batches_of(one_and_random(seed)?);
    let prepare = |keys: &mut Vec<gabion_engine::SigningKey>, seeds: &Vec<Vec<u8>>| {
        keys.clear();
        keys.extend(seeds.iter().filter_map(|seed| engine.signature_private(Ed25519, seed).ok()));
    };
    let messages = [Message::Pure { context: b"", message: b"timed" }; LANES];
    let name = format!("sign Ed25519, {LANES} at once, one key and random");
    report.test(&name, [&classes[0], &classes[1]], &mut Vec::new(), prepare, |keys| {
        let keys: Vec<_> = keys.iter().collect();
        let (mut sigs, mut lengths) = ([0; 64 * LANES], [0; LANES]);
        let (mut status, fresh) = ([Status::NotRun; LANES], Randomness::Fresh(&OsEntropy));
        let ran = engine.sign_many(&keys, &messages, fresh, &mut sigs, &mut lengths, &mut status);
        count(ran.is_ok() && status == [Status::Ok; LANES]);
    });
    report.complain_of(failures.get(), "batches");
    Ok(())
}

/// Private keys in batches: of the first class every lane has the one, of the second each another.
fn batches_of([one, random]: [Vec<Vec<u8>>; 2]) -> [Vec<Vec<Vec<u8>>>; 2] {
    let all_one = vec![vec![one[0].clone(); LANES]];
    [all_one, random.chunks_exact(LANES).map(<[_]>::to_vec).collect()]
}

/// SLH-DSA through the engine, hedged, so that what a signature makes public (the leaf, the digits that
/// chains are cut by) is random in both classes. Takes milliseconds, and so fewer samples.
fn slh_dsa(engine: &Engine, report: &mut Report) -> Result<(), gabion_engine::Error> {
    let failures = Cell::new(0);
    let samples = report.samples;
    report.samples = (samples / 20).max(500);
    let message = Message::Pure { context: b"", message: b"timed" };
    for algorithm in [Algorithm::SlhDsaSha2_128f, Algorithm::SlhDsaShake128f] {
        let key = || Ok(engine.signature_generate(algorithm, &OsEntropy)?.bytes().to_vec());
        let classes = one_and_random(key)?;
        let prepare = |key: &mut Option<gabion_engine::SigningKey>, bytes: &Vec<u8>| {
            *key = None; // Its memory first, so that the next key lies where this one lay.
            *key = engine.signature_private(algorithm, bytes).ok();
        };
        let name = format!("sign {algorithm}, one key and random");
        report.test(&name, [&classes[0], &classes[1]], &mut None, prepare, |key| {
            let worked =
                key.as_ref().is_some_and(|key| engine.sign(key, message, &OsEntropy).is_ok());
            failures.set(failures.get() + u32::from(!worked));
        });
    }
    report.samples = samples;
    report.complain_of(failures.get(), "signatures of SLH-DSA");
    Ok(())
}

/// The key of a secret of LMS, as it is written down.
fn made<'e>(engine: &'e Engine, secret: &[u8]) -> Option<StatefulKey<'e>> {
    let mut go_on = |_: Progress<'_>| ControlFlow::Continue(());
    let secret = HssSecret::decode(secret).ok()?;
    StatefulKey::generate(engine, &secret, &[], NonZero::<usize>::MIN, &mut go_on).ok()?
}

/// Keys of LMS, and signatures at one leaf of a message that is another each time, so that the digits that chains are cut
/// by, which a signature makes public, are random in both classes.
fn hss<'e>(engine: &'e Engine, report: &mut Report) -> Result<(), gabion_engine::Error> {
    let failures = Cell::new(0);
    let count = |worked: bool| failures.set(failures.get() + u32::from(!worked));
    let samples = report.samples;
    report.samples = (samples / 20).max(500);
    // 5 high, with digits of 4 bits, of SHA-256 and of SHAKE256.
    for (lms, ots) in [(0, 2), (10, 10)] {
        let levels = Levels::new(&[(&LMS[lms], &LM_OTS[ots])])?;
        let secret = || Ok(HssSecret::draw(levels.clone(), &OsEntropy)?.encode().to_vec());
        let classes = one_and_random(secret)?;
        let copy = |copy: &mut Vec<u8>, secret: &Vec<u8>| copy.clone_from(secret);
        let name = format!("key of {}, one seed and random", LMS[lms].name);
        report.test(&name, [&classes[0], &classes[1]], &mut Vec::new(), copy, |secret| {
            count(made(engine, secret).is_some());
        });
        let prepare = |(key, turn): &mut (Option<StatefulKey<'e>>, u64), secret: &Vec<u8>| {
            *key = None; // Its memory first, so that the next key lies where this one lay.
            *key = made(engine, secret);
            *turn += 1;
        };
        let name = format!("sign {}, one key and random", LMS[lms].name);
        report.test(&name, [&classes[0], &classes[1]], &mut (None, 0), prepare, |(key, turn)| {
            let sign =
                |key: &mut StatefulKey<'_>| key.testing_only_sign_at(7, &[&turn.to_le_bytes()]);
            count(key.as_mut().is_some_and(|key| sign(key).is_ok()));
        });
    }
    report.samples = samples;
    report.complain_of(failures.get(), "operations of LMS");
    Ok(())
}

/// A class of one private key and a class of many.
fn one_and_random(
    make: impl Fn() -> Result<Vec<u8>, gabion_engine::Error>,
) -> Result<[Vec<Vec<u8>>; 2], gabion_engine::Error> {
    Ok([vec![make()?], (0..256).map(|_| make()).collect::<Result<_, _>>()?])
}

/// A comparison in constant time, and one that leaks. Says whether the leak was seen.
fn compare(report: &mut Report) -> bool {
    let reference = vec![0x5au8; 1088];
    let mut other = reference.clone();
    other[0] ^= 1;
    let (equal, different) = ([reference.clone()], [other]);
    let mut buffer = reference.clone();
    let prepare = |buffer: &mut Vec<u8>, bytes: &Vec<u8>| buffer.copy_from_slice(bytes);
    let name = "ct::eq_mask, equal and different at once";
    report.test(name, [&equal, &different], &mut buffer, prepare, |buffer| {
        ct::eq_mask(buffer, black_box(&reference))
    });
    let name = "leaky demo: a comparison that ends early";
    let demo = report.test(name, [&equal, &different], &mut buffer, prepare, |buffer| {
        buffer.iter().zip(&reference).all(|(x, y)| black_box(x) == y)
    });
    report.leaks.retain(|leak| leak != name);
    demo > LEAK
}

/// All tests over one set of kernels; whether they passed.
fn run<K: Kernels>(k: &K, samples: usize) -> bool {
    println!("backend {}, {samples} samples a test", k.name());
    let mut random = Random(5);
    let mut report = Report { samples, leaks: Vec::new() };
    for p in [&ml_kem::ML_KEM_512, &ml_kem::ML_KEM_768, &ml_kem::ML_KEM_1024] {
        decaps(k, p, &mut random, &mut report);
    }
    let sets = [Algorithm::MlDsa44, Algorithm::MlDsa65, Algorithm::MlDsa87].map(ml_dsa::params);
    for p in sets.into_iter().flatten() {
        sign(k, p, &mut random, &mut report);
    }
    kernels(k, &mut random, &mut report);
    let config = Config { backend: Some(k.name().to_owned()), ..Config::default() };
    let through_engine = |engine: Engine| {
        curves(&engine, &mut report)?;
        many(&engine, &mut report)?;
        slh_dsa(&engine, &mut report)?;
        hss(&engine, &mut report)
    };
    if let Err(error) = Engine::new(&config).and_then(through_engine) {
        eprintln!("error: {error}");
        return false;
    }
    let seen = compare(&mut report);
    if !seen {
        eprintln!("error: the leaky demo was not seen, so neither would be a leak");
    }
    for leak in &report.leaks {
        eprintln!("error: |t| > {LEAK}: {leak}");
    }
    seen && report.leaks.is_empty()
}

/// `[--backend B] [--samples N]`.
fn arguments() -> Result<(Option<String>, usize), String> {
    let (mut backend, mut samples) = (None, 20_000);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let value = arguments.next().ok_or(format!("{argument} needs a value"))?;
        match argument.as_str() {
            "--backend" => backend = Some(value),
            "--samples" => {
                samples = value.parse().map_err(|_| format!("not a number: {value}"))?;
            }
            _ => return Err(format!("expected --backend or --samples, not {argument}")),
        }
    }
    Ok((backend, samples.max(1000)))
}

fn main() -> ExitCode {
    let (backend, samples) = match arguments() {
        Ok(given) => given,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(2);
        }
    };
    let wants = |name: &str| backend.as_deref().is_none_or(|wanted| wanted == name);
    #[cfg(target_arch = "x86_64")]
    {
        use gabion_backend::{avx2::Avx2, avx512::Avx512};
        if let Some(k) = Avx512::detect().filter(|k| wants(k.name())) {
            return ExitCode::from(u8::from(!run(&k, samples)));
        }
        if let Some(k) = Avx2::detect().filter(|k| wants(k.name())) {
            return ExitCode::from(u8::from(!run(&k, samples)));
        }
    }
    if !wants(Portable.name()) {
        eprintln!("error: this machine has no such backend; try --backend portable");
        return ExitCode::from(3);
    }
    ExitCode::from(u8::from(!run(&Portable, samples)))
}
