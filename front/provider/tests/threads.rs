//! One key, many threads: a key is immutable, so nobody may see anything but right answers. The key
//! comes from the default provider, so that the threads also race for its import.

// A panic is how a test fails, in the helpers too.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::sync::{Barrier, LazyLock};

use common::Place;
use common::libcrypto::{Context, Libcrypto, Params};

const THREADS: usize = 24;
const ROUNDS: usize = 60;

static LIB: LazyLock<Libcrypto> = LazyLock::new(|| Libcrypto::load(&common::prefix()));

/// Runs `work` on every thread at once and counts what came out right.
fn on_all_threads(rounds: usize, work: impl Fn(usize, usize) -> bool + Sync) -> usize {
    let barrier = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (barrier, work) = (&barrier, &work);
                scope.spawn(move || {
                    barrier.wait();
                    (0..rounds).filter(|&round| work(thread, round)).count()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    })
}

fn both() -> (Place, Context) {
    let place = Place::new();
    let context = Context::with_config(&LIB, &place.path("gabion.cnf"));
    (place, context)
}

const OURS: &str = "provider=gabion";

#[test]
fn signing_and_verifying_with_one_key() {
    let (_place, context) = both();
    for (name, maker, rounds) in [
        ("ML-DSA-65", "provider=default", ROUNDS),
        ("HashML-DSA-44-with-SHA512", OURS, ROUNDS),
        ("Falcon-512", OURS, ROUNDS),
        ("FN-DSA-512-draft", OURS, ROUNDS),
        ("MLDSA44-Ed25519-SHA512-draft19", OURS, ROUNDS),
        ("SLH-DSA-SHA2-128f", "provider=default", 3),
        ("SLH-DSA-SHAKE-128f", "provider=default", 3),
    ] {
        let key = context.generate(name, maker, &Params::default()).unwrap();
        let right = on_all_threads(rounds, |thread, round| {
            let message = format!("thread {thread}, round {round}");
            let params = Params::default();
            let signature = key.sign(name, OURS, &params, message.as_bytes()).unwrap();
            let other = format!("thread {thread}, round {}", round + 1);
            key.verify(name, OURS, &params, message.as_bytes(), &signature)
                && !key.verify(name, OURS, &params, other.as_bytes(), &signature)
        });
        assert_eq!(right, THREADS * rounds, "{name}");
    }
}

#[test]
fn encapsulating_and_decapsulating_with_one_key() {
    let (_place, context) = both();
    let key = context.generate("ML-KEM-768", "provider=default", &Params::default()).unwrap();
    let right = on_all_threads(ROUNDS, |_, round| {
        let (mut ct, secret) = key.encapsulate(OURS, &Params::default()).unwrap();
        let opened = key.decapsulate(OURS, &ct);
        ct[round] ^= 1;
        opened.as_ref() == Some(&secret) && key.decapsulate(OURS, &ct) != opened
    });
    assert_eq!(right, THREADS * ROUNDS);
}

#[test]
fn a_forked_child_goes_on() {
    let (_place, context) = both();
    let key = context.generate("ML-DSA-44", OURS, &Params::default()).unwrap();
    let params = Params::default();
    let sign = || key.sign("ML-DSA-44", OURS, &params, b"before and after").unwrap();
    let good =
        |signature: &[u8]| key.verify("ML-DSA-44", OURS, &params, b"before and after", signature);
    let before = sign();
    // SAFETY: the child only uses the key and ends by _exit, so nothing of the parent runs twice.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let (first, second) = (sign(), sign());
        let right = good(&before) && good(&first) && first != second && first != before;
        // SAFETY: ends the child without running the parent's exit handlers.
        unsafe { libc::_exit(if right { 0 } else { 1 }) }
    }
    let after = sign();
    let mut status = 0;
    // SAFETY: a child of ours.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "status {status:#x}");
    assert!(good(&after) && after != before);
}
