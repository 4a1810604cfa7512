//! One backend under observation: tested before its first use, watched while it runs.
//!
//! ```text
//!   of each algorithm:
//!
//!   untested --first use--> testing --right answers----------> fit
//!     ^   ^                  |  |                               |  leaves a lane without a verdict,
//!     |   +-- no memory: the +  |                               |  or is suspected and tested again
//!     |       use fails, and    +-- a wrong answer --> withdrawn, for this algorithm and what is
//!     |       says nothing of it                       made of it, for good and loudly
//!     |
//!     +-- the backend loses a batch: all that it was fit for. It is set aside, and the next one
//!         runs the batch. Who would choose it a second or more later tests it, and the others do
//!         without it meanwhile
//! ```
//!
//! - A test that lacks memory or a stack has no result. Each algorithm has a separate test, and its
//!   result does not affect the others.
//! - A panic in a test counts as a wrong answer for that algorithm. If a backend panics later, the
//!   next backend runs the batch, but the first is not withdrawn: the input may be the cause, and
//!   an input must not be able to switch off the last backend.
//! - A task that a backend declines in a test is left to portable code, and not requested from it
//!   afterwards.
//! - A test starts no thread, and waiting for a test is bounded: a thread that finds one running
//!   waits for some time and then runs the test itself. Therefore a child forked during a test, and
//!   the callers of a thread that ended during one, can continue. Threads never wait for the test
//!   of a quarantined backend.

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use gabion_backend::{Backend, Batch, BatchOutcome, Task};
use gabion_scheme::algorithms::ALGORITHMS;
use gabion_scheme::room::with_room;
use gabion_scheme::{Algorithm, Status};
use once_cell::race::OnceBox;

use super::device_counts::{Counters, DeviceCounts};
use super::monitor::MonitoredBackend;
use super::quarantine::{Availability, Clock, Quarantine};
use super::test_record::{TaskSupport, TestRecord, Verdict};
use crate::error::Error;

/// The pause between polls while another thread tests; a test takes some milliseconds.
const TEST_POLL: Duration = Duration::from_micros(200);
/// The number of polls before a caller tests by itself: 100 ms at least, twice the time of the
/// longest test.
const TEST_POLLS: usize = 500;

/// Why a self-test failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TestFailure {
    /// An answer was wrong, with the difference.
    Wrong(String),
    /// The test could not be completed, so that the answers are unknown.
    NoMemory,
}

impl From<String> for TestFailure {
    fn from(what: String) -> Self {
        TestFailure::Wrong(what)
    }
}

/// The self-tests of all algorithms. They know families and curves, which know the engine, and so
/// its slots.
#[derive(Clone, Copy)]
pub(crate) struct SelfTests {
    /// The algorithms whose self-tests are part of this one's.
    pub(crate) parts: fn(Algorithm) -> Vec<Algorithm>,
    /// Tests an algorithm on a backend, without its parts.
    pub(crate) run: fn(&dyn Backend, Algorithm) -> Result<(), TestFailure>,
}

/// The result of giving a batch to a backend.
pub(crate) enum Answer {
    /// Every lane has a verdict, and failed lanes have no output.
    Done,
    /// The backend declined the batch, or lost it; there is no output.
    Refused,
    /// The backend panicked; there is no output.
    Panicked,
    /// The backend is not trusted with this batch; there is no output.
    Unfit,
}

/// Whether a backend may run an algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    Yes,
    /// The backend does not run this, or is in quarantine.
    Unavailable,
    /// The backend gave a wrong answer.
    Withdrawn,
}

/// The outcome of an algorithm's self-test.
enum TestOutcome {
    Passed(TaskSupport),
    Wrong,
    Lost,
}

/// The test results of one algorithm on the backend. It uses atomics and no lock: a forked child
/// would wait forever for a lock that a thread of its parent holds.
struct Health {
    /// A [`TestRecord`].
    word: AtomicU64,
    /// The reason, if the algorithm itself gave a wrong answer.
    reason: OnceBox<String>,
}

impl Health {
    fn record(&self) -> TestRecord {
        TestRecord::from_word(self.word.load(Ordering::Acquire))
    }

    /// Replaces one record by another; returns whether `record` was the current one.
    fn replace(&self, record: TestRecord, by: TestRecord) -> bool {
        let order = (Ordering::AcqRel, Ordering::Acquire);
        self.word.compare_exchange(record.word(), by.word(), order.0, order.1).is_ok()
    }

    /// Updates the record, retrying until it succeeds or `by` returns `None`.
    fn update(&self, by: impl Fn(TestRecord) -> Option<TestRecord>) {
        let by = |word| by(TestRecord::from_word(word)).map(TestRecord::word);
        let _ = self.word.fetch_update(Ordering::AcqRel, Ordering::Acquire, by);
    }
}

/// A backend and its health.
pub(crate) struct Slot {
    pub(crate) backend: Box<dyn Backend>,
    tests: SelfTests,
    health: [Health; ALGORITHMS.len()],
    quarantine: Quarantine,
    /// Whether a panic was reported.
    panicked: AtomicBool,
    /// The counts of a device.
    counts: Option<Counters>,
}

impl Slot {
    pub(crate) fn new(backend: Box<dyn Backend>, tests: SelfTests, clock: Clock) -> Self {
        let health = [const {
            Health { word: AtomicU64::new(TestRecord::UNTESTED.word()), reason: OnceBox::new() }
        }; ALGORITHMS.len()];
        let (quarantine, panicked) = (Quarantine::new(clock), AtomicBool::new(false));
        let counts = backend.kernels().is_none().then(Counters::new);
        Slot { backend, tests, health, quarantine, panicked, counts }
    }

    /// Returns whether it is a device: it has no kernels.
    pub(crate) fn is_device(&self) -> bool {
        self.counts.is_some()
    }

    /// Returns the counts of a device.
    pub(crate) fn device_counts(&self) -> Vec<DeviceCounts> {
        self.counts.as_ref().map_or(Vec::new(), |counts| counts.all(self.backend.name()))
    }

    fn health(&self, algorithm: Algorithm) -> &Health {
        &self.health[algorithm as usize]
    }

    /// Returns whether the backend may run a task of this algorithm, or any task if none is named.
    /// Runs its self-test before the first use.
    ///
    /// # Errors
    /// [`Error::NoMemory`] if the self-test lacks memory; then the result is still unknown.
    #[inline]
    pub(crate) fn fit(&self, algorithm: Algorithm, task: Option<Task>) -> Result<Fit, Error> {
        match self.verdict(algorithm, task) {
            Some(fit) => Ok(fit),
            None => {
                let found = self.test_if_available(algorithm)?;
                // Even if the test passed, the backend may have declined this task.
                Ok(if found == Fit::Yes {
                    self.verdict(algorithm, task).unwrap_or(found)
                } else {
                    found
                })
            }
        }
    }

    /// Returns the result as far as it is known.
    #[inline]
    fn verdict(&self, algorithm: Algorithm, task: Option<Task>) -> Option<Fit> {
        let record = self.health(algorithm).record();
        match record.verdict {
            Verdict::Passed if record.losses == self.quarantine.losses() => {
                Some(if record.support.allows(task) { Fit::Yes } else { Fit::Unavailable })
            }
            Verdict::Failed => Some(Fit::Withdrawn),
            Verdict::Passed | Verdict::Untested | Verdict::Testing => None,
        }
    }

    /// Returns whether it may be chosen for a task, as far as that is known: an untested one may be
    /// fit.
    pub(crate) fn may_be_fit(&self, algorithm: Algorithm, task: Task) -> bool {
        match self.verdict(algorithm, Some(task)) {
            Some(fit) => fit == Fit::Yes,
            None => self.backend.takes(algorithm) && self.quarantine.may_be_probed(),
        }
    }

    /// Returns whether it gave no wrong answer of this algorithm so far.
    pub(crate) fn is_unblamed(&self, algorithm: Algorithm) -> bool {
        self.health(algorithm).record().verdict != Verdict::Failed
    }

    /// Returns whether it runs this algorithm, and ran its test.
    pub(crate) fn has_passed(&self, algorithm: Algorithm) -> bool {
        self.verdict(algorithm, None) == Some(Fit::Yes)
    }

    /// Returns whether it lost a batch, and has passed no test since.
    pub(crate) fn is_quarantined(&self) -> bool {
        self.quarantine.is_quarantined()
    }

    /// Tests an algorithm, unless the backend is in quarantine and may not be probed yet.
    #[cold]
    fn test_if_available(&self, algorithm: Algorithm) -> Result<Fit, Error> {
        let probe = match self.quarantine.availability() {
            Availability::Available => return self.test_with_retries(algorithm),
            Availability::Quarantined => return Ok(Fit::Unavailable),
            Availability::Probe(probe) => probe,
        };
        // Where the test can't be had it stays aside, and the next backend serves.
        let found = self.test_with_retries(algorithm).unwrap_or(Fit::Unavailable);
        if matches!(self.verdict(algorithm, None), Some(Fit::Yes | Fit::Unavailable)) {
            // A test that it passed without running anything says nothing: the next one may ask.
            self.quarantine.give_back(probe);
        }
        Ok(found)
    }

    /// Tests an algorithm and its parts; waits for some time if another thread runs the test.
    fn test_with_retries(&self, algorithm: Algorithm) -> Result<Fit, Error> {
        let health = self.health(algorithm);
        let testing = TestRecord::new(Verdict::Testing, self.quarantine.losses());
        let found = health.record();
        if found.verdict == Verdict::Failed {
            return Ok(Fit::Withdrawn);
        }
        let is_tested = found.verdict == Verdict::Testing && found.losses == testing.losses;
        if is_tested || !health.replace(found, testing) {
            for _ in 0..TEST_POLLS {
                match self.verdict(algorithm, None) {
                    Some(fit) => return Ok(fit),
                    None if health.record() == testing => rest(),
                    None => break,
                }
            }
        }
        if self.quarantine.losses() != testing.losses {
            return Ok(Fit::Unavailable);
        }
        let tested = if self.backend.takes(algorithm) {
            self.test_with_parts(algorithm)
        } else {
            Ok(TestOutcome::Passed(TaskSupport::NONE))
        };
        let Ok(TestOutcome::Passed(support)) = tested else {
            // Untested as before, unless the test failed or another one has passed meanwhile.
            health.replace(testing, TestRecord::UNTESTED);
            tested?;
            return Ok(if self.is_unblamed(algorithm) { Fit::Unavailable } else { Fit::Withdrawn });
        };
        let passed = TestRecord { verdict: Verdict::Passed, support, losses: testing.losses };
        health.update(|record| {
            // Neither what failed meanwhile nor what was found out since a loss.
            let is_older = record.losses == passed.losses || record.verdict == Verdict::Untested;
            (record.verdict != Verdict::Failed && is_older).then_some(passed)
        });
        if support.ran_any() && self.quarantine.reinstate(passed.losses) {
            self.log(&format!("is back: it passed the self-test of {algorithm}"));
        }
        Ok(self.verdict(algorithm, None).unwrap_or(Fit::Unavailable))
    }

    fn test_with_parts(&self, algorithm: Algorithm) -> Result<TestOutcome, Error> {
        let mut all = TaskSupport::default();
        for part in (self.tests.parts)(algorithm) {
            let found = match self.verdict(part, None) {
                Some(fit) => fit,
                None => self.test_with_retries(part)?,
            };
            let record = self.health(part).record();
            match (found, record.verdict) {
                (Fit::Withdrawn, _) => return Ok(TestOutcome::Wrong),
                (Fit::Yes | Fit::Unavailable, Verdict::Passed) => all = all.and(record.support),
                (Fit::Yes | Fit::Unavailable, _) => return Ok(TestOutcome::Lost),
            }
        }
        Ok(match self.test(algorithm)? {
            TestOutcome::Passed(support) => TestOutcome::Passed(all.and(support)),
            other => other,
        })
    }

    /// Runs the self-test of one algorithm without its parts, regardless of earlier results.
    /// Withdraws the backend for it if the test fails. Runs on a separate stack, because the caller
    /// may have little left.
    fn test(&self, algorithm: Algorithm) -> Result<TestOutcome, Error> {
        let losses = self.quarantine.losses();
        let monitored = MonitoredBackend::new(&*self.backend);
        let run = || catch_unwind(AssertUnwindSafe(|| (self.tests.run)(&monitored, algorithm)));
        let ended = with_room(run)?
            .unwrap_or_else(|_| Err(format!("{algorithm} self-test: it panicked").into()));
        // Whatever came of it where a batch was lost or a lane lacked memory is no answer.
        if monitored.was_lost() {
            self.quarantine(losses, &format!("a batch of the self-test of {algorithm}"));
            return Ok(TestOutcome::Lost);
        }
        match ended {
            Err(TestFailure::NoMemory) => Err(Error::NoMemory("a self-test")),
            _ if monitored.lacked_memory() => Err(Error::NoMemory("a self-test")),
            Ok(()) => Ok(TestOutcome::Passed(monitored.support())),
            Err(TestFailure::Wrong(reason)) => {
                self.withdraw(algorithm, reason);
                Ok(TestOutcome::Wrong)
            }
        }
    }

    /// Tests an algorithm and its parts again after a result that can't be right; withdraws the
    /// backend for what fails.
    pub(crate) fn suspect(&self, algorithm: Algorithm, what: &str) {
        self.log(&format!("{what}; it is tested again"));
        for part in (self.tests.parts)(algorithm).into_iter().chain([algorithm]) {
            if self.test(part).is_err() {
                // It is tested at the next use.
                for algorithm in [part, algorithm] {
                    self.health(algorithm).update(|record| {
                        (record.verdict == Verdict::Passed).then_some(TestRecord::UNTESTED)
                    });
                }
            }
        }
    }

    /// Puts the backend in quarantine after it lost a batch that began after so many
    /// losses.
    fn quarantine(&self, losses: u64, what: &str) {
        if self.quarantine.lose(losses) {
            self.log(&format!("lost {what}; it is set aside until it passes a self-test again"));
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
        let losses = self.quarantine.losses();
        let ran = catch_unwind(AssertUnwindSafe(|| self.backend.run(batch)));
        let (algorithm, task) = (batch.algorithm(), batch.task());
        if let (Some(counts), &Ok(ran)) = (&self.counts, &ran) {
            counts.add(self.backend.name(), (algorithm, task), batch.lanes(), ran);
        }
        match ran {
            Ok(BatchOutcome::Done) => {}
            Ok(refused @ (BatchOutcome::Declined | BatchOutcome::Lost)) => {
                batch.reset();
                if refused == BatchOutcome::Lost {
                    self.quarantine(losses, &format!("a batch ({algorithm} {task})"));
                }
                return Answer::Refused;
            }
            Err(_) => {
                batch.reset();
                if !self.panicked.swap(true, Ordering::Relaxed) {
                    let what = format!("panicked in {algorithm} {task}");
                    self.log(&format!("{what}; the next backend takes the batch"));
                }
                return Answer::Panicked;
            }
        }
        if let Some(lane) = batch.status.iter().position(|&status| status == Status::NotRun) {
            let what = format!("{algorithm} {task}: lane {lane} came back without a verdict");
            self.withdraw(algorithm, what);
        } else if batch.status.contains(&Status::Fault) {
            self.suspect(algorithm, &format!("failed its internal check in {algorithm} {task}"));
        }
        // Another thread may have withdrawn it meanwhile; then this answer does not count either.
        if !self.is_unblamed(algorithm) {
            batch.reset();
            return Answer::Unfit;
        }
        batch.clear_failed();
        Answer::Done
    }

    /// Returns the cost of a batch on the backend, if known.
    pub(crate) fn cost(&self, algorithm: Algorithm, task: Task, lanes: usize) -> Option<u64> {
        let cost = || self.backend.cost(algorithm, task, lanes);
        catch_unwind(AssertUnwindSafe(cost)).ok().flatten()
    }

    /// Lanes of a piece at least, where a large batch is cut for several threads.
    pub(crate) fn piece(&self, algorithm: Algorithm, task: Task) -> usize {
        let piece = || self.backend.piece(algorithm, task);
        // One that can't say leaves the batch whole.
        catch_unwind(AssertUnwindSafe(piece)).map_or(usize::MAX, |piece| piece.max(1))
    }

    /// Withdraws an algorithm from the backend permanently, with all algorithms that contain it.
    fn withdraw(&self, algorithm: Algorithm, reason: String) {
        let is_first = self.health[algorithm as usize].reason.set(Box::new(reason)).is_ok();
        let is_made_of_it = |other: &Algorithm| {
            *other == algorithm || (self.tests.parts)(*other).contains(&algorithm)
        };
        for made in Algorithm::all().filter(is_made_of_it) {
            self.health(made)
                .update(|record| Some(TestRecord { verdict: Verdict::Failed, ..record }));
        }
        if is_first {
            let reason = self.health[algorithm as usize].reason.get();
            let reason = reason.map_or("", |reason| reason.as_str());
            self.log(&format!("is withdrawn for {algorithm} and algorithms that use it: {reason}"));
        }
    }

    /// Prints a message, since a processor that computes wrongly must not go unnoticed. Does not
    /// use `eprintln`, which panics if stderr is closed.
    fn log(&self, what: &str) {
        let _ = writeln!(std::io::stderr(), "gabion: backend {} {what}", self.backend.name());
    }
}

/// Sleeps briefly on a private lock: unlike sleep(3), this is not a POSIX cancellation point.
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
    use std::sync::Arc;
    use std::time::Instant;

    fn slot() -> Slot {
        Slot::new(cpus().remove(0), TESTS, Arc::new(Instant::now))
    }

    /// Simulates a child that was forked while a thread of its parent ran a test.
    #[test]
    fn abandoned_self_test_is_rerun_by_a_waiter() {
        let slot = slot();
        let health = slot.health(Algorithm::MlKem512);
        assert!(health.replace(TestRecord::UNTESTED, TestRecord::new(Verdict::Testing, 0)));
        assert_eq!(slot.fit(Algorithm::MlKem512, None), Ok(Fit::Yes));
        assert_eq!(health.record().verdict, Verdict::Passed);
    }

    #[test]
    fn a_test_that_another_thread_runs_is_given_time() {
        let slot = slot();
        let health = slot.health(Algorithm::MlKem768);
        for (found, fit) in [(Verdict::Passed, Fit::Yes), (Verdict::Failed, Fit::Withdrawn)] {
            health.update(|_| Some(TestRecord::new(Verdict::Testing, 0)));
            std::thread::scope(|scope| {
                let start = Instant::now();
                let waiting = scope.spawn(|| slot.fit(Algorithm::MlKem768, None));
                std::thread::sleep(10 * TEST_POLL);
                assert!(!waiting.is_finished() || start.elapsed() > TEST_POLL * TEST_POLLS as u32);
                health.update(|_| Some(TestRecord::new(found, 0)));
                assert_eq!(waiting.join().unwrap(), Ok(fit));
            });
        }
    }

    #[test]
    fn withdrawal_covers_an_algorithm_and_its_composites_only() {
        let slot = slot();
        let all = [Algorithm::MlDsa65, Algorithm::MlDsa65EcdsaP384Sha512, Algorithm::MlKem768];
        assert_eq!(all.map(|algorithm| slot.fit(algorithm, None)), [const { Ok(Fit::Yes) }; 3]);
        assert_eq!(slot.reasons(), None);
        slot.withdraw(Algorithm::MlDsa65, "a test says so".to_owned());
        slot.withdraw(Algorithm::MlDsa65, "and once more".to_owned());
        let fit = all.map(|algorithm| slot.fit(algorithm, None));
        assert_eq!(fit, [Ok(Fit::Withdrawn), Ok(Fit::Withdrawn), Ok(Fit::Yes)]);
        assert_eq!(slot.fit(Algorithm::MlDsa44, None), Ok(Fit::Yes));
        assert_eq!(slot.reasons().as_deref(), Some("a test says so"));
        // A test that was running meanwhile changes nothing.
        assert_eq!(slot.test_if_available(Algorithm::MlDsa65), Ok(Fit::Withdrawn));
    }
}
