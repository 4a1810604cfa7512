//! Timing smoke test: two classes of secret inputs in random order, Welch's t between their times.
//!
//!     cargo run --release -p gabion-tests --example dudect [-- [--backend B] [--samples N]]
//!
//! For each test t is computed over all times and over the quickest 50, 75, 90, 95 and 99 of a
//! hundred, which drops interrupts; the largest is printed. Beyond 10 there is a leak, beyond 4.5
//! something to look at with more samples. The leaky demo must exceed 10, or nothing was seen.
//!
//! Exits 1 if anything but the demo exceeds 10, or the demo does not.

use std::hint::black_box;
use std::process::ExitCode;

use gabion_backend::portable::Portable;
use gabion_engine::{
    Algorithm, Config, Engine, KemPrivateKey, Message, OsEntropy, SharedSecret, SigningKey, ct,
};
use gabion_scheme::kernels::{DSA_Q, DsaPoly, KemPoly, Kernels};
use gabion_tests::probe::Probe;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

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
        START
            .get_or_init(std::time::Instant::now)
            .elapsed()
            .as_nanos() as u64
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
    let error = (0..2)
        .map(|c| squares[c] / (n[c] - 1.0) / n[c])
        .sum::<f64>();
    let t = if error > 0.0 {
        (mean[0] - mean[1]) / error.sqrt()
    } else {
        0.0
    };
    (t, mean)
}

struct Report {
    samples: usize,
    leaks: Vec<String>,
}

impl Report {
    /// Times `work` on the inputs of both classes in random order and prints t. Returns |t|.
    fn test<I, R>(&mut self, name: &str, classes: [&[I]; 2], mut work: impl FnMut(&I) -> R) -> f64 {
        let mut random = Random(0x1234_5678_9abc_def1);
        let mut times = Vec::with_capacity(self.samples);
        for round in 0..self.samples + self.samples / 10 {
            let class = (random.next() >> 40) as usize & 1;
            let input = &classes[class][random.below(classes[class].len())];
            let begin = ticks();
            black_box(work(black_box(input)));
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
            if one.0.abs() > worst.0.abs() {
                one
            } else {
                worst
            }
        });
        println!(
            "{name:52} t = {t:8.2}   means {:10.1} {:10.1}",
            mean[0], mean[1]
        );
        if t.abs() > LEAK {
            self.leaks.push(name.to_owned());
        }
        t.abs()
    }
}

/// Valid against invalid ciphertexts, and one key (in many copies) against many keys.
fn decaps(engine: &Engine, report: &mut Report) -> Outcome<()> {
    let algorithm = Algorithm::MlKem768;
    let key = engine.kem_generate(algorithm, &OsEntropy)?;
    let (mut valid, mut invalid) = (Vec::new(), Vec::new());
    for at in 0..128 {
        let (ct, _) = engine.encaps(&key.public(), &OsEntropy)?;
        let (mut bad, _) = engine.encaps(&key.public(), &OsEntropy)?;
        let len = bad.len();
        bad[at * 97 % len] ^= 1;
        valid.push(ct);
        invalid.push(bad);
    }
    // Every input passes through the same buffer, so that its address says nothing.
    let mut buffer = valid[0].clone();
    let mut open = |ct: &Vec<u8>| -> Option<SharedSecret> {
        buffer.copy_from_slice(ct);
        engine.decaps(&key, &buffer).ok()
    };
    report.test(
        "decaps ML-KEM-768, valid and invalid ciphertext",
        [&valid, &invalid],
        &mut open,
    );
    let (mut fixed, mut random) = (Vec::new(), Vec::new());
    for _ in 0..32 {
        fixed.push(engine.kem_from_seed(algorithm, &[7; 64])?);
        random.push(engine.kem_generate(algorithm, &OsEntropy)?);
    }
    let work = |key: &KemPrivateKey| engine.decaps(key, &valid[0]).ok();
    report.test(
        "decaps ML-KEM-768, one key and random keys",
        [&fixed, &random],
        work,
    );
    Ok(())
}

/// A message that the key signs deterministically at the first attempt, so that no rejection is
/// timed: with one lane every attempt has its own calls of the sponge.
fn first_attempt(key: &SigningKey, random: &mut Random) -> Outcome<[u8; 32]> {
    let probe = Probe::new(&Portable).with_lanes(1);
    let p = key.expanded().params();
    let (mut sig, mut scratch) = (vec![0; p.sig_len()], Default::default());
    loop {
        let text: [u8; 32] = std::array::from_fn(|_| random.next() as u8);
        let message = Message::Pure {
            context: b"",
            message: &text,
        };
        let (keys, mut status) = ([key.expanded()], [Default::default()]);
        probe.sponges();
        let out = (&mut sig[..], &mut status[..]);
        gabion_engine::ml_dsa::sign(
            &probe,
            &keys,
            &[message],
            &[[0; 32]],
            out.0,
            out.1,
            &mut scratch,
        );
        // mu, rho'', the masks, c~, the challenge's stream.
        if probe.sponges().calls == 5 {
            return Ok(text);
        }
    }
}

fn sign(engine: &Engine, report: &mut Report) -> Outcome<()> {
    let algorithm = Algorithm::MlDsa65;
    let mut random = Random(99);
    let mut classes = [Vec::new(), Vec::new()];
    for number in 0..256 {
        let fixed = engine.dsa_from_seed(algorithm, &[3; 32])?;
        let other = engine.dsa_generate(algorithm, &OsEntropy)?;
        for (class, key) in classes.iter_mut().zip([fixed, other]) {
            let text = first_attempt(&key, &mut random)?;
            let message = Message::Pure {
                context: b"",
                message: &text,
            };
            // Derives the secret vectors, which the first signature pays for.
            engine.sign_deterministic(&key, message)?;
            class.push((key, text, number));
        }
    }
    let work = |(key, text, _): &(SigningKey, [u8; 32], i32)| {
        let message = Message::Pure {
            context: b"",
            message: text,
        };
        engine.sign_deterministic(key, message).ok()
    };
    report.test(
        "sign ML-DSA-65, accepted at once, one key and random",
        [&classes[0], &classes[1]],
        work,
    );
    Ok(())
}

/// Single kernels, eight times each; all inputs pass through one buffer.
fn kernels<K: Kernels>(k: &K, report: &mut Report) {
    let mut random = Random(5);
    let (zero, many) = (vec![KemPoly::default(); 64], 0..64);
    let kem: Vec<KemPoly> = many.clone().map(|_| random.kem_poly()).collect();
    let dsa: Vec<DsaPoly> = many.map(|_| random.dsa_poly()).collect();
    let dsa_zero = vec![DsaPoly::default(); 64];
    let (mut small, mut wide) = (KemPoly::default(), DsaPoly::default());
    let mut out = [DsaPoly::default(), DsaPoly::default()];
    let mut bytes = [0u8; 640];
    for d in [1, 4, 10] {
        let name = format!("{}: kem_compress {d}, zero and random", k.name());
        report.test(&name, [&zero, &kem], |p| {
            small.clone_from(p);
            (0..8).for_each(|_| k.kem_compress(d, black_box(&small), &mut bytes[..32 * d]));
        });
    }
    report.test(
        &format!("{}: kem_ntt, zero and random", k.name()),
        [&zero, &kem],
        |p| {
            small.clone_from(p);
            (0..8).for_each(|_| k.kem_ntt(std::slice::from_mut(black_box(&mut small))));
        },
    );
    report.test(
        &format!("{}: dsa_norm_below, zero and random", k.name()),
        [&dsa_zero, &dsa],
        |p| {
            wide.clone_from(p);
            (0..8)
                .filter(|_| k.dsa_norm_below(std::slice::from_ref(black_box(&wide)), 1000))
                .count()
        },
    );
    report.test(
        &format!("{}: dsa_decompose, zero and random", k.name()),
        [&dsa_zero, &dsa],
        |p| {
            wide.clone_from(p);
            let [r1, r0] = &mut out;
            (0..8).for_each(|_| k.dsa_decompose((DSA_Q - 1) / 32, black_box(&wide), r1, r0));
        },
    );
    let hint = format!("{}: dsa_make_hint, zero and random", k.name());
    report.test(&hint, [&dsa_zero, &dsa], |p| {
        wide.clone_from(p);
        let [h, r1] = &mut out;
        (0..8)
            .map(|_| k.dsa_make_hint((DSA_Q - 1) / 32, black_box(&wide), r1, h))
            .sum::<usize>()
    });
}

/// A comparison in constant time, and one that leaks.
fn compare(report: &mut Report) -> bool {
    let reference = vec![0x5au8; 1088];
    let mut other = reference.clone();
    other[0] ^= 1;
    let (equal, different) = ([reference.clone()], [other]);
    let mut buffer = reference.clone();
    report.test(
        "ct::eq_mask, equal and different at once",
        [&equal, &different],
        |bytes| {
            buffer.copy_from_slice(bytes);
            ct::eq_mask(black_box(&buffer), &reference)
        },
    );
    let demo = report.test(
        "leaky demo: a comparison that ends early",
        [&equal, &different],
        |bytes| {
            buffer.copy_from_slice(bytes);
            buffer
                .iter()
                .zip(&reference)
                .all(|(x, y)| black_box(x) == y)
        },
    );
    report.leaks.pop_if(|name| name.starts_with("leaky demo"));
    demo > LEAK
}

fn run() -> Outcome<bool> {
    let mut config = Config::from_environment();
    let mut samples = 20_000;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let value = arguments
            .next()
            .ok_or(format!("{argument} needs a value"))?;
        match argument.as_str() {
            "--backend" => config.backend = Some(value),
            "--samples" => samples = value.parse()?,
            _ => return Err(format!("expected --backend or --samples, not {argument}").into()),
        }
    }
    let engine = Engine::new(&config)?;
    let backend = engine.backend_for(Algorithm::MlKem768)?.name();
    println!("backend {backend}, {samples} samples a test");
    let mut report = Report {
        samples: samples.max(1000),
        leaks: Vec::new(),
    };
    decaps(&engine, &mut report)?;
    sign(&engine, &mut report)?;
    match backend {
        #[cfg(target_arch = "x86_64")]
        "avx512" => {
            let kernels_of = gabion_backend::avx512::Avx512::detect();
            kernels(
                &kernels_of.ok_or("the backend runs, so it is detected")?,
                &mut report,
            );
        }
        _ => kernels(&Portable, &mut report),
    }
    let seen = compare(&mut report);
    if !seen {
        eprintln!("error: the leaky demo was not seen, so neither would be a leak");
    }
    for leak in &report.leaks {
        eprintln!("error: |t| > {LEAK}: {leak}");
    }
    Ok(seen && report.leaks.is_empty())
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}
