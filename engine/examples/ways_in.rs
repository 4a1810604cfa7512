//! The costs of the engine's entry points: a single job through the queue, a crowd of threads with
//! and without it, a key that is found in the cache, a large batch on one thread and on two.
//!
//! ```text
//! cargo run --release -p gabion-engine --example ways_in
//! ```
//!
//! Medians of wall time, the fastest runs where threads are compared. The crowd figures need an
//! idle machine.

use std::hint::black_box;
use std::num::NonZero;
use std::time::{Duration, Instant};

use gabion_engine::{
    Algorithm, Batch, Dsa, Engine, Error, Kem, KeyCache, Keys, Limits, Message, Operation,
    OsEntropy, Queue, SigningKey, Status, ml_dsa, ml_kem,
};

const MESSAGE: Message<'_> =
    Message::Pure { context: b"", message: b"thirty-two bytes of some message" };

fn main() -> Result<(), Error> {
    let engine = Engine::global()?;
    engine.report();
    lone(engine)?;
    cache(engine)?;
    threads(engine)?;
    crowd(engine)
}

/// The median of `samples` runs of `f`, in nanoseconds.
fn median(samples: usize, mut f: impl FnMut()) -> f64 {
    let mut times: Vec<Duration> = (0..samples)
        .map(|_| {
            let start = Instant::now();
            f();
            start.elapsed()
        })
        .collect();
    times.sort();
    times[samples / 2].as_nanos() as f64
}

/// One thread, nothing else: what the queue adds.
fn lone(engine: &'static Engine) -> Result<(), Error> {
    let queue = Queue::new(engine, OsEntropy, Limits::default());
    let kem = engine.kem_generate(Algorithm::MlKem512, &OsEntropy)?;
    let (ct, _) = engine.encaps(&kem.public(), &OsEntropy)?;
    let mut differences: Vec<f64> = (0..25)
        .map(|_| {
            let direct = median(1001, || {
                black_box(engine.decaps(&kem, &ct).is_ok());
            });
            let queued = median(1001, || {
                black_box(queue.decaps(&kem, &ct).is_ok());
            });
            queued - direct
        })
        .collect();
    differences.sort_by(f64::total_cmp);
    println!("lone ML-KEM-512 decaps: the queue adds {:.0} ns", differences[12]);
    Ok(())
}

/// A key that is found.
fn cache(engine: &Engine) -> Result<(), Error> {
    let cache = KeyCache::new(64 << 20);
    let kem = engine.kem_generate(Algorithm::MlKem768, &OsEntropy)?;
    let bytes = kem.public_bytes();
    let find = || {
        black_box(cache.kem_public(engine, Algorithm::MlKem768, bytes).is_ok());
    };
    // Ten at a time, since one is as short as a look at the clock.
    let hit = median(10_001, || (0..10).for_each(|_| find())) / 10.0;
    let expand = median(2001, || {
        black_box(engine.kem_public(Algorithm::MlKem768, bytes).is_ok());
    });
    println!("ML-KEM-768 key, {} bytes: hit {hit:.0} ns, expanded {expand:.0} ns", bytes.len());
    for algorithm in [Algorithm::MlDsa44, Algorithm::MlDsa65, Algorithm::MlDsa87] {
        let key = engine.signature_generate(algorithm, &OsEntropy)?;
        let bytes = key.public_bytes();
        let find = || {
            black_box(cache.signature_public(engine, algorithm, bytes).is_ok());
        };
        let hit = median(10_001, || (0..10).for_each(|_| find())) / 10.0;
        let expand = median(501, || {
            black_box(engine.signature_public(algorithm, bytes).is_ok());
        });
        println!(
            "{algorithm} key, {} bytes: hit {hit:.0} ns, expanded {expand:.0} ns",
            bytes.len()
        );
    }
    Ok(())
}

/// The repeated operation of every thread of a crowd.
type Work<'a> = Box<dyn Fn() -> bool + Sync + 'a>;

/// Many blocking threads, each with one job at a time: operations a second.
fn crowd(engine: &'static Engine) -> Result<(), Error> {
    let kem = engine.kem_generate(Algorithm::MlKem768, &OsEntropy)?;
    let (ct, _) = engine.encaps(&kem.public(), &OsEntropy)?;
    let signing = engine.signature_generate(Algorithm::MlDsa65, &OsEntropy)?;
    let (public, signature) = (signing.public(), engine.sign(&signing, MESSAGE, &OsEntropy)?);
    let direct: [(&str, Work<'_>); 3] = [
        ("ML-KEM-768 decaps", Box::new(|| engine.decaps(&kem, &ct).is_ok())),
        ("ML-DSA-65 verify", Box::new(|| engine.verify(&public, MESSAGE, &signature).is_ok())),
        ("ML-DSA-65 sign", Box::new(|| engine.sign(&signing, MESSAGE, &OsEntropy).is_ok())),
    ];
    for leaders_max in [NonZero::<usize>::MIN, Limits::default().leaders_max] {
        let limits = Limits { leaders_max, ..Limits::default() };
        let queue = &Queue::new(engine, OsEntropy, limits);
        let queued: [Work<'_>; 3] = [
            Box::new(|| queue.decaps(&kem, &ct).is_ok()),
            Box::new(|| queue.verify(&public, MESSAGE, &signature).is_ok()),
            Box::new(|| queue.sign(&signing, MESSAGE).is_ok()),
        ];
        for ((name, direct), queued) in direct.iter().zip(&queued) {
            for threads in [2, 16, 64] {
                let (alone, together) = (rate(threads, direct), rate(threads, queued));
                println!(
                    "{threads} threads, {leaders_max} leaders, {name}: {alone:.0}/s alone, \
                     {together:.0}/s through the queue, {:.2}x",
                    together / alone
                );
            }
        }
        tickets(engine, limits, &signing)?;
    }
    Ok(())
}

/// One thread with 64 jobs under way, as an event loop has them.
fn tickets(engine: &'static Engine, limits: Limits, key: &SigningKey) -> Result<(), Error> {
    let queue = Queue::new(engine, OsEntropy, limits);
    let queue = queue.with_workers(limits.leaders_max).map_err(|_| Error::Closed)?;
    let (start, mut done) = (Instant::now(), 0);
    while start.elapsed() < Duration::from_millis(600) {
        let tickets: Result<Vec<_>, _> = (0..64).map(|_| queue.submit_sign(key, MESSAGE)).collect();
        for ticket in tickets? {
            ticket.wait()?;
            done += 1;
        }
    }
    let rate = f64::from(done) / start.elapsed().as_secs_f64();
    println!("64 tickets, {} workers, ML-DSA-65 sign: {rate:.0}/s", limits.leaders_max);
    Ok(())
}

fn rate(threads: usize, work: &Work<'_>) -> f64 {
    let start = Instant::now();
    let count = || {
        let mut done = 0;
        while start.elapsed() < Duration::from_millis(600) {
            done += usize::from(work());
        }
        done
    };
    let done: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(count)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or(0)).sum()
    });
    done as f64 / start.elapsed().as_secs_f64()
}

/// A batch of known keys on one thread and on two.
fn threads(engine: &Engine) -> Result<(), Error> {
    let key = engine.kem_generate(Algorithm::MlKem768, &OsEntropy)?;
    let signing = engine.signature_generate(Algorithm::MlDsa65, &OsEntropy)?;
    let (Some(known), Some(params)) = (key.ml_kem(), ml_kem::params(key.algorithm())) else {
        return Ok(());
    };
    let (Some(signer), Some(p)) = (signing.ml_dsa(), ml_dsa::params(signing.algorithm())) else {
        return Ok(());
    };
    for lanes in [256, 1024, 4096] {
        let mut status = vec![Status::NotRun; lanes];
        let keys = vec![known; lanes];
        let (ct, mut shared) = (vec![1; lanes * params.ct_len()], vec![[0; 32]; lanes]);
        let ratio = gain(40_000 / lanes, |threads| {
            let keys = Keys::Known(&keys);
            let operation =
                Operation::Kem(Kem::Decaps { params, keys, ct: &ct, shared: &mut shared });
            let mut batch = Batch { operation, status: &mut status };
            black_box(engine.run_parallel(&mut batch, threads).is_ok());
        });
        println!("ML-KEM-768 decaps, {lanes} lanes: two threads {ratio:.2}x one");
        let (keys, rnd) = (vec![signer; lanes], vec![[0; 32]; lanes]);
        let texts: Vec<[u8; 8]> = (0..lanes as u64).map(u64::to_le_bytes).collect();
        let messages: Vec<_> = texts.iter().map(|text| Message::Internal(text)).collect();
        let mut sig = vec![0; lanes * p.sig_len()];
        let ratio = gain(6_000 / lanes, |threads| {
            let (keys, messages) = (Keys::Known(&keys), &messages[..]);
            let operation =
                Operation::Dsa(Dsa::Sign { params: p, keys, messages, rnd: &rnd, sig: &mut sig });
            let mut batch = Batch { operation, status: &mut status };
            black_box(engine.run_parallel(&mut batch, threads).is_ok());
        });
        println!("ML-DSA-65 sign, {lanes} lanes: two threads {ratio:.2}x one");
    }
    Ok(())
}

/// Returns how much faster two threads are than one, by the fastest runs of each: others on the
/// machine only ever slow a run down.
fn gain(samples: usize, mut run: impl FnMut(NonZero<usize>)) -> f64 {
    let one = NonZero::<usize>::MIN;
    let mut fastest = [f64::INFINITY; 2];
    for _ in 0..samples + 5 {
        fastest[0] = fastest[0].min(median(1, || run(one)));
        fastest[1] = fastest[1].min(median(1, || run(one.saturating_add(1))));
    }
    fastest[0] / fastest[1]
}
