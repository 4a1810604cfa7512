//! One backend under observation: tested before its first use, watched while it runs.
//!
//! ```text
//!   of each algorithm:
//!
//!   untested --first use--> testing --right answers----------> fit
//!       ^                     |  |                              |  leaves a lane without a verdict,
//!       +-- no memory: the ---+  |                              |  or is suspected and tested again
//!           use fails, and       +-- a wrong answer --> withdrawn, for this algorithm and what is
//!           says nothing of it                           made of it, for good and loudly
//! ```
//!
//! - A test that lacks memory or a stack says nothing of the backend. What one algorithm did says
//!   nothing of the others: each has a test of its own.
//! - A panic in a test is a wrong answer of that algorithm. A backend that panics later loses that batch
//!   to the next one and is not withdrawn: the input may be to blame, and a process whose last backend
//!   an input can switch off would be worse than a slow batch.
//! - A test starts no thread, and nobody waits for one without end: who finds one running gives it some
//!   time and then tests by himself. So a child that was forked in the middle of it, or callers of a
//!   thread that was ended there, go on.

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use gabion_backend::{Backend, Batch, Ran};
use gabion_scheme::algorithms::ALGORITHMS;
use gabion_scheme::room::with_room;
use gabion_scheme::{Algorithm, Status};
use once_cell::race::OnceBox;

use crate::error::Error;

/// What is known of one algorithm on one backend. A higher one is never replaced by a lower one, but
/// for tests that did not come to an end.
const UNTESTED: u8 = 0;
const TESTING: u8 = 1;
const PASSED: u8 = 2;
const FAILED: u8 = 3;

/// How long a caller rests while another thread tests; a test takes some milliseconds.
const TEST_POLL: Duration = Duration::from_micros(200);
/// How often it does so before it tests by itself: 100 ms at least, twice what the longest test takes.
const TEST_POLLS: usize = 500;

/// Why a self-test did not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failed {
    /// An answer was wrong; what differed.
    Wrong(String),
    /// It could not be run to its end, which says nothing of the answers.
    NoMemory,
}

impl From<String> for Failed {
    fn from(what: String) -> Self {
        Failed::Wrong(what)
    }
}

/// The self-tests of all algorithms. They know families and curves, which know the engine, and so its slots.
#[derive(Clone, Copy)]
pub(crate) struct SelfTests {
    /// The algorithms whose self-tests are part of this one's.
    pub(crate) parts: fn(Algorithm) -> Vec<Algorithm>,
    /// Tests what an algorithm has beside its parts.
    pub(crate) run: fn(&dyn Backend, Algorithm) -> Result<(), Failed>,
}

/// How a backend took a batch.
pub(crate) enum Answer {
    /// Every lane has a verdict, and what failed has no output.
    Done,
    /// It did not take it, or lost it; nothing came out.
    Refused,
    /// It panicked; nothing came out.
    Panicked,
    /// It is not to be trusted with this batch; nothing came out.
    Unfit,
}

/// What is known of one algorithm on the backend. Atomics and no lock: a forked child would wait for
/// ever for a lock that a thread of its parent holds.
struct Health {
    verdict: AtomicU8,
    /// Of an algorithm that gave a wrong answer itself.
    reason: OnceBox<String>,
}

/// A backend and what is known of its health.
pub(crate) struct Slot {
    pub(crate) backend: Box<dyn Backend>,
    tests: SelfTests,
    health: [Health; ALGORITHMS.len()],
    /// Whether a panic was reported.
    panicked: AtomicBool,
}

impl Slot {
    pub(crate) fn new(backend: Box<dyn Backend>, tests: SelfTests) -> Self {
        let health = [const { Health { verdict: AtomicU8::new(UNTESTED), reason: OnceBox::new() } };
            ALGORITHMS.len()];
        Slot { backend, tests, health, panicked: AtomicBool::new(false) }
    }

    fn verdict(&self, algorithm: Algorithm) -> &AtomicU8 {
        &self.health[algorithm as usize].verdict
    }

    /// Whether the backend may run this algorithm; runs its self-test before its first use.
    ///
    /// # Errors
    /// [`Error::NoMemory`] where the self-test lacks what it needs; then nothing is known as before.
    pub(crate) fn is_fit(&self, algorithm: Algorithm) -> Result<bool, Error> {
        match self.verdict(algorithm).load(Ordering::Acquire) {
            PASSED => Ok(true),
            FAILED => Ok(false),
            _ => self.find_out(algorithm),
        }
    }

    /// Whether it gave no wrong answer of this algorithm so far.
    pub(crate) fn is_unblamed(&self, algorithm: Algorithm) -> bool {
        self.verdict(algorithm).load(Ordering::Acquire) != FAILED
    }

    /// Tests the parts of an algorithm and what it has beside them.
    #[cold]
    fn find_out(&self, algorithm: Algorithm) -> Result<bool, Error> {
        let verdict = self.verdict(algorithm);
        let order = (Ordering::AcqRel, Ordering::Acquire);
        let is_first = verdict.compare_exchange(UNTESTED, TESTING, order.0, order.1).is_ok();
        if !is_first {
            for _ in 0..TEST_POLLS {
                match verdict.load(Ordering::Acquire) {
                    TESTING => rest(),
                    PASSED => return Ok(true),
                    FAILED => return Ok(false),
                    _ => break,
                }
            }
        }
        let passed = self.test_with_parts(algorithm);
        if passed == Ok(true) {
            verdict.fetch_max(PASSED, Ordering::AcqRel);
        } else {
            // Untested as before, unless the test failed or another one has passed meanwhile.
            let _ = verdict.compare_exchange(TESTING, UNTESTED, order.0, order.1);
        }
        passed?;
        Ok(verdict.load(Ordering::Acquire) == PASSED)
    }

    fn test_with_parts(&self, algorithm: Algorithm) -> Result<bool, Error> {
        for part in (self.tests.parts)(algorithm) {
            if !self.is_fit(part)? {
                return Ok(false);
            }
        }
        self.test(algorithm)
    }

    /// Runs the self-test of one algorithm without its parts, whatever an earlier one said; withdraws
    /// the backend for it if it fails. On a stack of its own: the caller may have next to none.
    fn test(&self, algorithm: Algorithm) -> Result<bool, Error> {
        let run = || catch_unwind(AssertUnwindSafe(|| (self.tests.run)(&*self.backend, algorithm)));
        let ended = match with_room(run)? {
            Ok(ended) => ended,
            Err(_) => Err(Failed::Wrong(format!("{algorithm} self-test: it panicked"))),
        };
        match ended {
            Ok(()) => Ok(true),
            Err(Failed::NoMemory) => Err(Error::NoMemory("a self-test")),
            Err(Failed::Wrong(reason)) => {
                self.withdraw(algorithm, reason);
                Ok(false)
            }
        }
    }

    /// Tests an algorithm and its parts again after a result that can't be right; withdraws the backend
    /// for what fails.
    pub(crate) fn suspect(&self, algorithm: Algorithm, what: &str) {
        self.say(&format!("{what}; it is tested again"));
        for part in (self.tests.parts)(algorithm).into_iter().chain([algorithm]) {
            if self.test(part).is_err() {
                // It is tested by whoever uses it next.
                let order = (Ordering::AcqRel, Ordering::Relaxed);
                for verdict in [part, algorithm].map(|algorithm| self.verdict(algorithm)) {
                    let _ = verdict.compare_exchange(PASSED, UNTESTED, order.0, order.1);
                }
            }
        }
    }

    /// The wrong answers that there were, if there were any.
    pub(crate) fn reasons(&self) -> Option<String> {
        let reasons: Vec<_> = Algorithm::all()
            .filter_map(|algorithm| self.health[algorithm as usize].reason.get())
            .map(String::as_str)
            .collect();
        (!reasons.is_empty()).then(|| reasons.join("; "))
    }

    /// Runs a checked batch whose algorithm the backend is fit for.
    pub(crate) fn run(&self, batch: &mut Batch<'_>) -> Answer {
        let ran = catch_unwind(AssertUnwindSafe(|| self.backend.run(batch)));
        let (algorithm, task) = (batch.algorithm(), batch.task());
        match ran {
            Ok(Ran::Done) => {}
            Ok(Ran::Declined | Ran::Lost) => {
                batch.reset();
                return Answer::Refused;
            }
            Err(_) => {
                batch.reset();
                if !self.panicked.swap(true, Ordering::Relaxed) {
                    let what = format!("panicked in {algorithm} {task}");
                    self.say(&format!("{what}; the next backend takes the batch"));
                }
                return Answer::Panicked;
            }
        }
        if let Some(lane) = batch.status.iter().position(|&status| status == Status::NotRun) {
            let what = format!("{algorithm} {task}: lane {lane} came back without a verdict");
            self.withdraw(algorithm, what);
        } else if batch.status.contains(&Status::Fault) {
            self.suspect(algorithm, &format!("failed a check of its own in {algorithm} {task}"));
        }
        // Another thread may have withdrawn it meanwhile; then this answer does not count either.
        if !self.is_unblamed(algorithm) {
            batch.reset();
            return Answer::Unfit;
        }
        batch.clear_failed();
        Answer::Done
    }

    /// Takes an algorithm from the backend for good, and all that is made of it.
    fn withdraw(&self, algorithm: Algorithm, reason: String) {
        let is_first = self.health[algorithm as usize].reason.set(Box::new(reason)).is_ok();
        let is_made_of_it = |other: &Algorithm| {
            *other == algorithm || (self.tests.parts)(*other).contains(&algorithm)
        };
        for made in Algorithm::all().filter(is_made_of_it) {
            self.verdict(made).store(FAILED, Ordering::Release);
        }
        if is_first {
            let reason = self.health[algorithm as usize].reason.get();
            let reason = reason.map_or("", |reason| reason.as_str());
            self.say(&format!("is withdrawn for {algorithm} and what is made of it: {reason}"));
        }
    }

    /// Loud on purpose: a processor that computes wrongly must not go unnoticed. Not eprintln, which
    /// panics where nobody reads stderr any more: the next backend serves.
    fn say(&self, what: &str) {
        let _ = writeln!(std::io::stderr(), "gabion: backend {} {what}", self.backend.name());
    }
}

/// Sleeps a moment on a lock that nobody else knows: unlike sleep(3) this is no point where POSIX ends
/// a thread that was cancelled.
fn rest() {
    let (nobodys, never) = (Mutex::new(()), Condvar::new());
    let held = nobodys.lock().unwrap_or_else(PoisonError::into_inner);
    let _ = never.wait_timeout(held, TEST_POLL);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::self_test::TESTS;
    use gabion_backend::cpus;
    use std::time::Instant;

    /// As in a child that was forked while a thread of its parent tested.
    #[test]
    fn a_test_that_does_not_end_is_run_by_who_waits_for_it() {
        let slot = Slot::new(cpus().remove(0), TESTS);
        let verdict = slot.verdict(Algorithm::MlKem512);
        verdict.store(TESTING, Ordering::Relaxed);
        assert_eq!(slot.is_fit(Algorithm::MlKem512), Ok(true));
        assert_eq!(verdict.load(Ordering::Relaxed), PASSED);
    }

    #[test]
    fn a_test_that_another_thread_runs_is_given_time() {
        let slot = Slot::new(cpus().remove(0), TESTS);
        let verdict = slot.verdict(Algorithm::MlKem768);
        for (found, is_fit) in [(PASSED, true), (FAILED, false)] {
            verdict.store(TESTING, Ordering::Relaxed);
            std::thread::scope(|scope| {
                let start = Instant::now();
                let waiting = scope.spawn(|| slot.is_fit(Algorithm::MlKem768));
                std::thread::sleep(10 * TEST_POLL);
                assert!(!waiting.is_finished() || start.elapsed() > TEST_POLL * TEST_POLLS as u32);
                verdict.store(found, Ordering::Release);
                assert_eq!(waiting.join().unwrap(), Ok(is_fit));
            });
        }
    }

    #[test]
    fn a_wrong_answer_concerns_what_is_made_of_the_algorithm_and_nothing_else() {
        let slot = Slot::new(cpus().remove(0), TESTS);
        let all = [Algorithm::MlDsa65, Algorithm::MlDsa65EcdsaP384Sha512, Algorithm::MlKem768];
        assert_eq!(all.map(|algorithm| slot.is_fit(algorithm)), [const { Ok(true) }; 3]);
        assert_eq!(slot.reasons(), None);
        slot.withdraw(Algorithm::MlDsa65, "a test says so".to_owned());
        slot.withdraw(Algorithm::MlDsa65, "and once more".to_owned());
        let fit = all.map(|algorithm| slot.is_fit(algorithm));
        assert_eq!(fit, [Ok(false), Ok(false), Ok(true)]);
        assert_eq!(slot.is_fit(Algorithm::MlDsa44), Ok(true));
        assert_eq!(slot.reasons().as_deref(), Some("a test says so"));
        // A test that was running meanwhile changes nothing.
        assert_eq!(slot.find_out(Algorithm::MlDsa65), Ok(false));
    }
}
