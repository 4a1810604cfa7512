//! The key management service within this process, by Criterion: single operations, batches, threads, digests.
//!
//! Keys are known and messages have 128 bytes. `script/bench-kms-gates` runs it with each of the engine's backends that
//! it compares, and holds the figures against their gates.

#![expect(clippy::unwrap_used, reason = "a benchmark that is refused has nothing to measure")]

use std::hint::black_box;
use std::num::NonZero;
use std::sync::Arc;
use std::thread;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use gabion_kms::Message;
use gabion_kms::model::{Label, VersionId};
use gabion_kms::operations::{
    Blake3, Kms, NewKey, Options, SignOutput, SignRequest, VerifyRequest,
};
use gabion_kms::seal::Sealer;
use gabion_kms::store::{MemoryStore, Store};

const ALGORITHMS: [(&str, &str); 2] = [("ed25519", "ed25519"), ("ml_dsa_65", "ml-dsa-65")];
const MESSAGE: Message<'_> = Message::Pure { context: b"", message: &[7; 128] };
/// The number of concurrent threads, and the number of requests of each.
const THREADS: usize = 4;
const EACH: usize = 1000;
/// Bytes of a message that is long enough for its digest to be made by the caller.
const LONG: usize = 1 << 20;

/// A service over memory, and a key of each algorithm.
fn service(threads: usize) -> (Kms, Vec<VersionId>) {
    let store = Arc::new(MemoryStore::new());
    let sealer = Sealer::volatile(store.identity().id).unwrap();
    let threads = NonZero::new(threads).unwrap();
    let kms = Kms::new(store, sealer, Options { threads, ..Options::default() }).unwrap();
    let keys = ALGORITHMS.map(|(_, algorithm)| {
        let [tenant, purpose, name] =
            ["default", "transit", algorithm].map(|text| Label::new("key", text).unwrap());
        kms.create(&NewKey { tenant, purpose, name, algorithm: algorithm.parse().unwrap() })
            .unwrap()
    });
    (kms, keys.into())
}

fn single(criterion: &mut Criterion) {
    let (kms, keys) = service(1);
    let mut group = criterion.benchmark_group("sign_bench");
    for ((name, _), id) in ALGORITHMS.iter().zip(&keys) {
        group.bench_function(format!("{name}_sign_128B"), |bencher| {
            bencher.iter(|| kms.sign(&id.key, None, black_box(MESSAGE)).unwrap());
        });
    }
    group.finish();
    let mut group = criterion.benchmark_group("verify_bench");
    for ((name, _), id) in ALGORITHMS.iter().zip(&keys) {
        let signed = kms.sign(&id.key, None, MESSAGE).unwrap();
        group.bench_function(format!("{name}_verify_128B"), |bencher| {
            bencher.iter(|| {
                assert!(kms.verify(&signed.by, black_box(MESSAGE), &signed.signature).unwrap());
            });
        });
    }
    group.finish();
}

/// Batches of 128 bytes each, whose time is that of the batch.
fn batches(criterion: &mut Criterion) {
    let (kms, keys) = service(1);
    let mut group = criterion.benchmark_group("batch_verify");
    for ((name, _), id) in ALGORITHMS.iter().zip(&keys) {
        for lanes in [8, 32, 64] {
            let signed: Vec<SignOutput> =
                (0..lanes).map(|_| kms.sign(&id.key, None, MESSAGE).unwrap()).collect();
            let items: Vec<VerifyRequest<'_>> = signed.iter().map(of_signed).collect();
            group.throughput(Throughput::Elements(lanes as u64));
            group.bench_function(format!("{name}_{lanes}"), |bencher| {
                bencher.iter(|| assert_all(&kms.verify_batch(black_box(&items))));
            });
        }
    }
    group.finish();
}

/// Measures several cores: threads that each send one request after the other, and one thread that
/// sends all.
fn parallel(criterion: &mut Criterion) {
    let (kms, keys) = service(THREADS);
    let id = &keys[0];
    let signed = kms.sign(&id.key, None, MESSAGE).unwrap();
    let mut group = criterion.benchmark_group("parallel_throughput");
    group.throughput(Throughput::Elements((THREADS * EACH) as u64));
    let on_threads = |each: &(dyn Fn() + Sync)| {
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| (0..EACH).for_each(|_| each()));
            }
        });
    };
    group.bench_function("ed25519_sign_4x1000", |bencher| {
        let once = || drop(black_box(kms.sign(&id.key, None, MESSAGE).unwrap()));
        bencher.iter(|| on_threads(&once));
    });
    group.bench_function("ed25519_verify_4x1000", |bencher| {
        let once = || assert!(kms.verify(&signed.by, MESSAGE, &signed.signature).unwrap());
        bencher.iter(|| on_threads(&once));
    });
    let items = vec![of_signed(&signed); THREADS * EACH];
    group.bench_function("ed25519_verify_batch_4000", |bencher| {
        bencher.iter(|| assert_all(&kms.verify_batch(black_box(&items))));
    });
    let to_sign =
        vec![SignRequest { key: &id.key, version: None, signable: MESSAGE.into() }; THREADS * EACH];
    group.bench_function("ed25519_sign_batch_4000", |bencher| {
        bencher.iter(|| {
            kms.sign_batch(black_box(&to_sign)).into_iter().for_each(|one| drop(one.unwrap()))
        });
    });
    group.finish();
}

/// A long message as it is, and by the caller's BLAKE3, which no standard has.
fn digests(criterion: &mut Criterion) {
    let (kms, keys) = service(1);
    let id = &keys[0];
    let text = vec![7; LONG];
    let mut group = criterion.benchmark_group("prehash");
    group.throughput(Throughput::Bytes(LONG as u64));
    group.bench_function("ed25519_sign_1MiB_pure", |bencher| {
        let message = Message::Pure { context: b"", message: &text };
        bencher.iter(|| kms.sign(&id.key, None, black_box(message)).unwrap());
    });
    group.bench_function("ed25519_sign_1MiB_nonstandard_blake3", |bencher| {
        bencher.iter(|| {
            let digest = Blake3::new(*blake3::hash(black_box(&text)).as_bytes());
            kms.sign_blake3(&id.key, None, &digest).unwrap()
        });
    });
    group.finish();
}

fn of_signed(signed: &SignOutput) -> VerifyRequest<'_> {
    VerifyRequest { by: &signed.by, signable: MESSAGE.into(), signature: &signed.signature }
}

fn assert_all(verdicts: &[Result<bool, gabion_kms::Error>]) {
    assert!(verdicts.iter().all(|verdict| *verdict == Ok(true)));
}

criterion_group!(benches, single, batches, parallel, digests);
criterion_main!(benches);
