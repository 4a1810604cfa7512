//! One backend under observation: tested before its first use, watched while it runs.
//!
//! ```text
//!   untested --first use--> testing --passed--> fit
//!                              |                 |  leaves lanes without a verdict
//!                              +---failed--------+--> withdrawn, for good and for every algorithm
//! ```
//!
//! A backend that panics loses that batch to the next one and is not withdrawn: the input may be to
//! blame, and a process whose last backend an input can switch off would be worse than a slow batch.

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use gabion_backend::{Backend, Batch};
use gabion_scheme::algorithms::ALGORITHMS;
use gabion_scheme::{Algorithm, Status};
use once_cell::race::OnceBox;

use crate::self_test;

/// Verdicts on one algorithm. Any other value is [`testing`] of the process whose thread tests.
const UNTESTED: u64 = 0;
const PASSED: u64 = 1;
const FAILED: u64 = 2;

/// How long a thread sleeps while another one tests; a test takes some milliseconds.
const TEST_POLL: Duration = Duration::from_micros(100);
/// Bytes of stack of a self-test; the deepest, of P-521 in a build without optimisation, takes 130 KiB.
const SELF_TEST_STACK: usize = 2 << 20;

/// The mark of a test that this process runs.
fn testing() -> u64 {
    u64::from(std::process::id()) << 2 | 3
}

/// How a backend took a batch.
pub(crate) enum Answer {
    /// Every lane has a verdict, and what failed has no output.
    Done,
    /// It panicked; nothing came out.
    Panicked,
    /// It is not to be trusted with this batch; nothing came out.
    Unfit,
}

/// A backend and what is known of its health.
pub(crate) struct Slot {
    pub(crate) backend: Box<dyn Backend>,
    /// Atomics and no lock: a forked child would wait for ever for a lock that a thread of its
    /// parent holds. A test that was running at the fork is run again by the child.
    verdicts: [AtomicU64; ALGORITHMS.len()],
    /// Set once and for all algorithms: the backend runs nothing more.
    withdrawn: AtomicBool,
    reason: OnceBox<String>,
    /// Whether a panic was reported.
    panicked: AtomicBool,
}

impl Slot {
    pub(crate) fn new(backend: Box<dyn Backend>) -> Self {
        Slot {
            backend,
            verdicts: [const { AtomicU64::new(UNTESTED) }; ALGORITHMS.len()],
            withdrawn: AtomicBool::new(false),
            reason: OnceBox::new(),
            panicked: AtomicBool::new(false),
        }
    }

    /// Whether the backend may run this algorithm; runs its self-test before its first use.
    pub(crate) fn is_fit(&self, algorithm: Algorithm) -> bool {
        let verdict = &self.verdicts[algorithm as usize];
        loop {
            match verdict.load(Ordering::Acquire) {
                _ if self.is_withdrawn() => return false,
                PASSED => return true,
                FAILED => return false,
                seen if seen == testing() => std::thread::sleep(TEST_POLL),
                seen => {
                    let claim = verdict.compare_exchange(
                        seen,
                        testing(),
                        Ordering::AcqRel,
                        Ordering::Relaxed,
                    );
                    if claim.is_ok() {
                        let mut parts = self_test::parts(algorithm).into_iter();
                        let passed = parts.all(|part| self.is_fit(part)) && self.test(algorithm);
                        verdict.store(if passed { PASSED } else { FAILED }, Ordering::Release);
                    }
                }
            }
        }
    }

    /// Runs the self-test of one algorithm without its parts, whatever an earlier one said;
    /// withdraws the backend if it fails.
    fn test(&self, algorithm: Algorithm) -> bool {
        let verdict = on_a_stack_of_its_own(&|| self_test::run(&*self.backend, algorithm));
        let verdict =
            verdict.unwrap_or_else(|_| Err(format!("{algorithm} self-test: it panicked")));
        match verdict {
            Ok(()) => true,
            Err(reason) => {
                self.withdraw(reason);
                false
            }
        }
    }

    /// Tests an algorithm again after a wrong result; withdraws the backend if the test fails.
    pub(crate) fn suspect(&self, algorithm: Algorithm) {
        self.say(&format!(
            "made an {algorithm} signature that does not verify; it is tested again"
        ));
        let parts = self_test::parts(algorithm).into_iter().chain([algorithm]);
        parts.for_each(|part| {
            self.test(part);
        });
    }

    /// Why the backend runs nothing any more, if that is so.
    pub(crate) fn reason(&self) -> Option<String> {
        let known =
            || self.reason.get().cloned().unwrap_or_else(|| "no reason recorded".to_owned());
        self.is_withdrawn().then(known)
    }

    /// Runs a checked batch whose algorithm the backend is fit for.
    pub(crate) fn run(&self, batch: &mut Batch<'_>) -> Answer {
        let ran = catch_unwind(AssertUnwindSafe(|| self.backend.run(batch)));
        if ran.is_err() {
            batch.reset();
            if !self.panicked.swap(true, Ordering::Relaxed) {
                let what = format!("panicked in {} {}", batch.algorithm(), batch.task());
                self.say(&format!("{what}; the next backend takes the batch"));
            }
            return Answer::Panicked;
        }
        if let Some(lane) = batch.status.iter().position(|&status| status == Status::NotRun) {
            let (algorithm, task) = (batch.algorithm(), batch.task());
            self.withdraw(format!("{algorithm} {task}: lane {lane} came back without a verdict"));
        }
        // Another thread may have withdrawn it meanwhile; then this answer does not count either.
        if self.is_withdrawn() {
            batch.reset();
            return Answer::Unfit;
        }
        batch.clear_failed();
        Answer::Done
    }

    fn is_withdrawn(&self) -> bool {
        self.withdrawn.load(Ordering::Acquire)
    }

    fn withdraw(&self, reason: String) {
        let is_first = self.reason.set(Box::new(reason)).is_ok();
        self.withdrawn.store(true, Ordering::Release);
        if is_first {
            self.say(&format!("is withdrawn: {}", self.reason().unwrap_or_default()));
        }
    }

    /// Loud on purpose: a processor that computes wrongly must not go unnoticed. Not eprintln, which
    /// panics where nobody reads stderr any more: the next backend serves.
    fn say(&self, what: &str) {
        let _ = writeln!(std::io::stderr(), "gabion: backend {} {what}", self.backend.name());
    }
}

/// Runs a self-test where there is room for it: the first caller of an algorithm may be one of
/// OpenSSL's asynchronous jobs, which has 32 KiB of stack and no guard page. Where no thread can be
/// made, it runs on the caller's.
fn on_a_stack_of_its_own(
    test: &(dyn Fn() -> Result<(), String> + Sync),
) -> std::thread::Result<Result<(), String>> {
    let here = || catch_unwind(AssertUnwindSafe(test));
    if cfg!(loom) {
        return here();
    }
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(SELF_TEST_STACK);
        match thread.spawn_scoped(scope, test) {
            Ok(running) => running.join(),
            Err(_) => here(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_backend::cpus;

    #[test]
    fn a_test_that_a_parent_process_was_running_is_run_again() {
        let slot = Slot::new(cpus().remove(0));
        let algorithm = Algorithm::MlKem512;
        let of_parent = u64::from(std::process::id() ^ 1) << 2 | 3;
        slot.verdicts[algorithm as usize].store(of_parent, Ordering::Relaxed);
        assert!(slot.is_fit(algorithm));
        assert_eq!(slot.verdicts[algorithm as usize].load(Ordering::Relaxed), PASSED);
    }

    #[test]
    fn threads_wait_for_a_test_that_their_process_runs() {
        let slot = Slot::new(cpus().remove(0));
        let verdict = &slot.verdicts[Algorithm::MlKem768 as usize];
        verdict.store(testing(), Ordering::Relaxed);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| slot.is_fit(Algorithm::MlKem768));
            std::thread::sleep(10 * TEST_POLL);
            assert!(!waiting.is_finished());
            verdict.store(FAILED, Ordering::Release);
            assert!(!waiting.join().unwrap_or(true));
        });
    }
}
