//! A forked child never waits for a thread of its parent.
//!
//! ```text
//!   test process (never uses the engine)
//!     +-- fork: a fresh process, as a server is before its workers --> a thread in a first use
//!           |                                                           ^ after some microseconds
//!           +-- fork: a worker, which has the first use to itself ------+
//! ```
//!
//! An operation that a thread of the parent had begun at the fork is never finished in the child: a
//! lock or a once-cell that the thread holds is held for ever. A child that does not end is killed,
//! and two of them fail the test: of 37,000 one was killed, on an overloaded machine, and no lock
//! of ours was found for it.

#![cfg(unix)]
#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.

mod state;

use std::num::NonZero;
use std::time::{Duration, Instant};

use gabion_engine::{
    Algorithm, Engine, Error, Kind, Limits, Message, OsEntropy, Queue, SigningKey,
};
use gabion_kms::model::Label;
use gabion_kms::operations::{Kms, NewKey};
use gabion_kms::store::StoreError;

/// How long a worker may take. Its work takes milliseconds.
const WORKER_MAX: Duration = Duration::from_secs(20);
/// How long the process between may take: its workers, and itself.
const BETWEEN_MAX: Duration = Duration::from_secs(60);

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Success,
    /// It said no, or was ended by a signal.
    Failure,
    /// It had to be killed.
    TimedOut,
}

/// Runs `work` in a forked process, which ends by _exit, and waits for its end.
fn forked(limit: Duration, work: impl FnOnce() -> End) -> End {
    // SAFETY: the child ends by _exit, whatever happens in it; the parent waits for it by its number.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            // Also where its parent is killed before it.
            libc::alarm(limit.as_secs() as u32);
            let end = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            libc::_exit(end.unwrap_or(End::Failure) as i32);
        }
        assert!(child > 0, "no process could be made");
        let start = Instant::now();
        let mut status = 0;
        while libc::waitpid(child, &mut status, libc::WNOHANG) == 0 {
            if start.elapsed() > limit {
                libc::kill(child, libc::SIGKILL);
                libc::waitpid(child, &mut status, 0);
                return End::TimedOut;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        match (libc::WIFEXITED(status), libc::WEXITSTATUS(status)) {
            (true, code) if code == End::Success as i32 => End::Success,
            (true, code) if code == End::TimedOut as i32 => End::TimedOut,
            _ => End::Failure,
        }
    }
}

/// Forks a worker some time after a thread has begun `first`; the worker runs `then`.
fn beside(delay: Duration, first: impl FnOnce() + Send, then: impl FnOnce() -> bool) -> End {
    let begun = std::sync::Barrier::new(2);
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            begun.wait();
            first();
        });
        begun.wait();
        let start = Instant::now();
        while start.elapsed() < delay {
            std::hint::spin_loop();
        }
        let end = forked(WORKER_MAX, || if then() { End::Success } else { End::Failure });
        thread.join().expect("the thread succeeds");
        end
    })
}

const MESSAGE: Message<'_> = Message::Pure { context: b"", message: b"fork" };

/// All that a first use makes: keys, and what verifies or derives, alone and in lanes.
fn use_it(engine: &Engine, algorithm: Algorithm) -> bool {
    match algorithm.info().kind {
        Kind::Signature => {
            let key = engine.signature_generate(algorithm, &OsEntropy).expect("keygen");
            sign_with(engine, &key)
        }
        Kind::Kem => {
            let key = engine.kem_generate(algorithm, &OsEntropy).expect("keygen");
            let (ct, shared) = engine.encaps(&key.public(), &OsEntropy).expect("encaps");
            engine.decaps(&key, &ct).expect("decaps") == shared
        }
        _ => {
            let keys = engine.exchange_generate_many(algorithm, 9, &OsEntropy).expect("keygen");
            let secret = engine.derive(&keys[0], &keys[1].public()).expect("derive");
            engine.derive(&keys[1], &keys[0].public()).expect("derive") == secret
        }
    }
}

fn sign_with(engine: &Engine, key: &SigningKey) -> bool {
    let signature = engine.sign(key, MESSAGE, &OsEntropy).expect("sign");
    // Often enough for what is made of a key that is used often.
    (0..4).all(|_| engine.verify(&key.public(), MESSAGE, &signature).is_ok())
}

/// The delays of so many trials: first close together, then further and further apart.
fn delays(trials: u32) -> impl Iterator<Item = Duration> {
    (0..trials).map(move |trial| Duration::from_micros(u64::from(20 + 10 * trial * trial)))
}

/// No child said no, and no more than one hung.
fn assert_well(ends: &[(Algorithm, Duration, End)]) {
    assert!(ends.len() < 2 && ends.iter().all(|end| end.2 == End::TimedOut), "{ends:?}");
}

#[test]
fn a_fork_during_first_use_leaves_the_child_usable() {
    let mut ends = Vec::new();
    for algorithm in [
        Algorithm::Ed25519,
        Algorithm::X25519,
        Algorithm::MlKem768,
        Algorithm::MlDsa44,
        Algorithm::XWing,
        Algorithm::EcdsaP384,
        Algorithm::MlDsa44Ed25519Sha512,
    ] {
        for delay in delays(24) {
            let end = forked(BETWEEN_MAX, || {
                // The engine, too, is made by the first user.
                let engine = || Engine::global().expect("an engine");
                beside(
                    delay,
                    || assert!(use_it(engine(), algorithm)),
                    || use_it(engine(), algorithm),
                )
            });
            if end != End::Success {
                ends.push((algorithm, delay, end));
                assert_well(&ends);
            }
        }
    }
}

#[test]
fn a_key_that_another_thread_uses_first_serves_a_child() {
    let mut ends = Vec::new();
    for algorithm in [Algorithm::MlDsa65, Algorithm::Ed25519, Algorithm::Falcon512] {
        // One process, whose self-tests have passed, forks during the first use of one key after
        // another.
        let start = Instant::now();
        let end = forked(BETWEEN_MAX, || {
            let engine = Engine::global().expect("an engine");
            assert!(use_it(engine, algorithm));
            let made = engine.signature_generate_many(algorithm, 30, &OsEntropy).expect("keygen");
            // Decoded ones have made nothing yet.
            let decode = |key: &SigningKey| engine.signature_private(algorithm, key.bytes());
            for (trial, key) in made.iter().enumerate() {
                let key = decode(key).expect("a key");
                let delay = Duration::from_micros(4 * trial as u64);
                let sign = || assert!((0..8).all(|_| sign_with(engine, &key)));
                match beside(delay, sign, || sign_with(engine, &key)) {
                    End::Success => {}
                    end => return end,
                }
            }
            End::Success
        });
        if end != End::Success {
            ends.push((algorithm, start.elapsed(), end));
            assert_well(&ends);
        }
    }
}

#[test]
fn a_forked_child_gets_an_error_for_its_parents_workers() {
    let engine = Engine::global().expect("an engine");
    let limits = Limits { message_max: 100, ..Limits::default() };
    let queue = Queue::new(engine, OsEntropy, limits).with_workers(NonZero::<usize>::MIN);
    let queue = queue.expect("a thread starts");
    let key = queue.signature_generate(Algorithm::MlDsa44).expect("keygen");
    for text in [&[1; 32][..], &[2; 200]] {
        let message = Message::Pure { context: b"", message: text };
        let signature = queue.submit_sign(&key, message).expect("room").wait().expect("sign");
        let end = forked(WORKER_MAX, || {
            let signed = queue.submit_sign(&key, message).err();
            let verified = queue.submit_verify(&key.public(), message, &signature).err();
            let closed = Some(Error::Closed);
            if signed == closed && verified == closed { End::Success } else { End::Failure }
        });
        assert_eq!(end, End::Success, "{} bytes", text.len());
    }
}

/// A child's copy of a key service becomes stale: it would continue to sign with a key that its
/// parent has disabled.
#[test]
fn a_child_uses_no_key_of_its_parents_service() {
    let kms = Kms::in_memory().expect("a service");
    let [tenant, purpose, name] =
        ["default", "transit", "a"].map(|text| Label::new("key", text).expect("a name"));
    let algorithm = "ed25519".parse().expect("an algorithm");
    let id = kms.create(&NewKey { tenant, purpose, name, algorithm }).expect("a key");
    let signed = kms.sign(&id.key, None, MESSAGE).expect("a signature");
    let end = forked(WORKER_MAX, || {
        let forked = Some(gabion_kms::Error::Store(StoreError::Forked));
        let refused = [
            kms.sign(&id.key, None, MESSAGE).err(),
            kms.verify(&id, MESSAGE, &signed.signature).err(),
            kms.rotate(&id.key).err(),
        ];
        if refused.iter().all(|error| *error == forked) { End::Success } else { End::Failure }
    });
    assert_eq!(end, End::Success);
    kms.sign(&id.key, None, MESSAGE).expect("the parent goes on");
}
