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
//! - A test that lacks memory or a stack says nothing of the backend. What one algorithm did says
//!   nothing of the others: each has a test of its own.
//! - A panic in a test is a wrong answer of that algorithm. A backend that panics later loses that batch
//!   to the next one and is not withdrawn: the input may be to blame, and a process whose last backend
//!   an input can switch off would be worse than a slow batch.
//! - A task that a backend declines in a test is left to portable code there, and is not asked of it afterwards.
//! - A test starts no thread, and nobody waits for one without end: who finds one running gives it some
//!   time and then tests by himself. So a child that was forked in the middle of it, or callers of a
//!   thread that was ended there, go on. For the test of a backend that was set aside nobody waits at all.

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

use super::device_counts::{Counts, Served};
use super::monitor::Watched;
use super::quarantine::{Aside, Clock, Turn};
use super::test_record::{Did, Known, Verdict};
use crate::error::Error;

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

/// Whether a backend may run an algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    Yes,
    /// It does not run this, or is set aside.
    NotNow,
    /// It gave a wrong answer.
    Never,
}

/// How the test of an algorithm ended that ran.
enum Tested {
    Passed(Did),
    Wrong,
    Lost,
}

/// What is known of one algorithm on the backend. Atomics and no lock: a forked child would wait for
/// ever for a lock that a thread of its parent holds.
struct Health {
    /// A [`Known`].
    word: AtomicU64,
    /// Of an algorithm that gave a wrong answer itself.
    reason: OnceBox<String>,
}

impl Health {
    fn known(&self) -> Known {
        Known::of(self.word.load(Ordering::Acquire))
    }

    /// Puts one thing in another's place; whether that was what is known.
    fn replace(&self, known: Known, by: Known) -> bool {
        let order = (Ordering::AcqRel, Ordering::Acquire);
        self.word.compare_exchange(known.word(), by.word(), order.0, order.1).is_ok()
    }

    /// The same as often as it takes, as long as `by` has something to put there.
    fn update(&self, by: impl Fn(Known) -> Option<Known>) {
        let by = |word| by(Known::of(word)).map(Known::word);
        let _ = self.word.fetch_update(Ordering::AcqRel, Ordering::Acquire, by);
    }
}

/// A backend and what is known of its health.
pub(crate) struct Slot {
    pub(crate) backend: Box<dyn Backend>,
    tests: SelfTests,
    health: [Health; ALGORITHMS.len()],
    aside: Aside,
    /// Whether a panic was reported.
    panicked: AtomicBool,
    /// What it did, if it is a device.
    counts: Option<Counts>,
}

impl Slot {
    pub(crate) fn new(backend: Box<dyn Backend>, tests: SelfTests, clock: Clock) -> Self {
        let health = [const {
            Health { word: AtomicU64::new(Known::NOTHING.word()), reason: OnceBox::new() }
        }; ALGORITHMS.len()];
        let (aside, panicked) = (Aside::new(clock), AtomicBool::new(false));
        let counts = backend.kernels().is_none().then(Counts::new);
        Slot { backend, tests, health, aside, panicked, counts }
    }

    /// Whether it is a device: it has no kernels.
    pub(crate) fn is_device(&self) -> bool {
        self.counts.is_some()
    }

    /// What it did, if it is a device.
    pub(crate) fn served(&self) -> Vec<Served> {
        self.counts.as_ref().map_or(Vec::new(), |counts| counts.all(self.backend.name()))
    }

    fn health(&self, algorithm: Algorithm) -> &Health {
        &self.health[algorithm as usize]
    }

    /// Whether the backend may run a task of this algorithm, or any if none is named; runs its self-test before
    /// its first use.
    ///
    /// # Errors
    /// [`Error::NoMemory`] where the self-test lacks what it needs; then nothing is known as before.
    #[inline]
    pub(crate) fn fit(&self, algorithm: Algorithm, task: Option<Task>) -> Result<Fit, Error> {
        match self.verdict(algorithm, task) {
            Some(fit) => Ok(fit),
            None => {
                let found = self.find_out(algorithm)?;
                // What it passed may still leave this task out.
                Ok(if found == Fit::Yes {
                    self.verdict(algorithm, task).unwrap_or(found)
                } else {
                    found
                })
            }
        }
    }

    /// The same as far as it is known.
    #[inline]
    fn verdict(&self, algorithm: Algorithm, task: Option<Task>) -> Option<Fit> {
        let known = self.health(algorithm).known();
        match known.verdict {
            Verdict::Passed if known.losses == self.aside.losses() => {
                Some(if known.did.serves(task) { Fit::Yes } else { Fit::NotNow })
            }
            Verdict::Failed => Some(Fit::Never),
            Verdict::Passed | Verdict::Untested | Verdict::Testing => None,
        }
    }

    /// Whether it may be chosen for a task, as far as it is known: what was not tested may be fit.
    pub(crate) fn may_be_fit(&self, algorithm: Algorithm, task: Task) -> bool {
        match self.verdict(algorithm, Some(task)) {
            Some(fit) => fit == Fit::Yes,
            None => self.backend.takes(algorithm) && self.aside.may_be_asked(),
        }
    }

    /// Whether it gave no wrong answer of this algorithm so far.
    pub(crate) fn is_unblamed(&self, algorithm: Algorithm) -> bool {
        self.health(algorithm).known().verdict != Verdict::Failed
    }

    /// Whether it runs this algorithm, and ran its test.
    pub(crate) fn has_passed(&self, algorithm: Algorithm) -> bool {
        self.verdict(algorithm, None) == Some(Fit::Yes)
    }

    /// Whether it lost a batch, and has passed no test since.
    pub(crate) fn is_aside(&self) -> bool {
        self.aside.is_aside()
    }

    /// Tests an algorithm, unless the backend is set aside and the time has not come.
    #[cold]
    fn find_out(&self, algorithm: Algorithm) -> Result<Fit, Error> {
        let asking = match self.aside.turn() {
            Turn::AtHand => return self.find_out_at_hand(algorithm),
            Turn::NotYet => return Ok(Fit::NotNow),
            Turn::Asks(asking) => asking,
        };
        // Where the test can't be had it stays aside, and the next backend serves.
        let found = self.find_out_at_hand(algorithm).unwrap_or(Fit::NotNow);
        if matches!(self.verdict(algorithm, None), Some(Fit::Yes | Fit::NotNow)) {
            // A test that it passed without running anything says nothing: the next one may ask.
            self.aside.give_back(asking);
        }
        Ok(found)
    }

    /// Tests the parts of an algorithm and what it has beside them.
    fn find_out_at_hand(&self, algorithm: Algorithm) -> Result<Fit, Error> {
        let health = self.health(algorithm);
        let testing = Known::new(Verdict::Testing, self.aside.losses());
        let found = health.known();
        if found.verdict == Verdict::Failed {
            return Ok(Fit::Never);
        }
        let is_tested = found.verdict == Verdict::Testing && found.losses == testing.losses;
        if is_tested || !health.replace(found, testing) {
            for _ in 0..TEST_POLLS {
                match self.verdict(algorithm, None) {
                    Some(fit) => return Ok(fit),
                    None if health.known() == testing => rest(),
                    None => break,
                }
            }
        }
        if self.aside.losses() != testing.losses {
            return Ok(Fit::NotNow);
        }
        let tested = if self.backend.takes(algorithm) {
            self.test_with_parts(algorithm)
        } else {
            Ok(Tested::Passed(Did::NOTHING))
        };
        let Ok(Tested::Passed(did)) = tested else {
            // Untested as before, unless the test failed or another one has passed meanwhile.
            health.replace(testing, Known::NOTHING);
            tested?;
            return Ok(if self.is_unblamed(algorithm) { Fit::NotNow } else { Fit::Never });
        };
        let passed = Known { verdict: Verdict::Passed, did, losses: testing.losses };
        health.update(|known| {
            // Neither what failed meanwhile nor what was found out since a loss.
            let is_older = known.losses == passed.losses || known.verdict == Verdict::Untested;
            (known.verdict != Verdict::Failed && is_older).then_some(passed)
        });
        if did.anything() && self.aside.is_back(passed.losses) {
            self.say(&format!("is back: it passed the self-test of {algorithm}"));
        }
        Ok(self.verdict(algorithm, None).unwrap_or(Fit::NotNow))
    }

    fn test_with_parts(&self, algorithm: Algorithm) -> Result<Tested, Error> {
        let mut all = Did::default();
        for part in (self.tests.parts)(algorithm) {
            let found = match self.verdict(part, None) {
                Some(fit) => fit,
                None => self.find_out_at_hand(part)?,
            };
            let known = self.health(part).known();
            match (found, known.verdict) {
                (Fit::Never, _) => return Ok(Tested::Wrong),
                (Fit::Yes | Fit::NotNow, Verdict::Passed) => all = all.and(known.did),
                (Fit::Yes | Fit::NotNow, _) => return Ok(Tested::Lost),
            }
        }
        Ok(match self.test(algorithm)? {
            Tested::Passed(did) => Tested::Passed(all.and(did)),
            other => other,
        })
    }

    /// Runs the self-test of one algorithm without its parts, whatever an earlier one said; withdraws
    /// the backend for it if it fails. On a stack of its own: the caller may have next to none.
    fn test(&self, algorithm: Algorithm) -> Result<Tested, Error> {
        let losses = self.aside.losses();
        let watched = Watched::new(&*self.backend);
        let run = || catch_unwind(AssertUnwindSafe(|| (self.tests.run)(&watched, algorithm)));
        let ended = with_room(run)?
            .unwrap_or_else(|_| Err(format!("{algorithm} self-test: it panicked").into()));
        // Whatever came of it where a batch was lost or a lane lacked memory is no answer.
        if watched.was_lost() {
            self.set_aside(losses, &format!("a batch of the self-test of {algorithm}"));
            return Ok(Tested::Lost);
        }
        match ended {
            Err(Failed::NoMemory) => Err(Error::NoMemory("a self-test")),
            _ if watched.lacked_memory() => Err(Error::NoMemory("a self-test")),
            Ok(()) => Ok(Tested::Passed(watched.did())),
            Err(Failed::Wrong(reason)) => {
                self.withdraw(algorithm, reason);
                Ok(Tested::Wrong)
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
                for algorithm in [part, algorithm] {
                    self.health(algorithm).update(|known| {
                        (known.verdict == Verdict::Passed).then_some(Known::NOTHING)
                    });
                }
            }
        }
    }

    /// Leaves the backend alone for a while, whatever it is asked, after it lost a batch that began after so many
    /// losses.
    fn set_aside(&self, losses: u64, what: &str) {
        if self.aside.lose(losses) {
            self.say(&format!("lost {what}; it is set aside until it passes a self-test again"));
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
        let losses = self.aside.losses();
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
                    self.set_aside(losses, &format!("a batch ({algorithm} {task})"));
                }
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

    /// What a batch would cost the backend, if it can say.
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

    /// Takes an algorithm from the backend for good, and all that is made of it.
    fn withdraw(&self, algorithm: Algorithm, reason: String) {
        let is_first = self.health[algorithm as usize].reason.set(Box::new(reason)).is_ok();
        let is_made_of_it = |other: &Algorithm| {
            *other == algorithm || (self.tests.parts)(*other).contains(&algorithm)
        };
        for made in Algorithm::all().filter(is_made_of_it) {
            self.health(made).update(|known| Some(Known { verdict: Verdict::Failed, ..known }));
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
    use std::sync::Arc;
    use std::time::Instant;

    fn slot() -> Slot {
        Slot::new(cpus().remove(0), TESTS, Arc::new(Instant::now))
    }

    /// As in a child that was forked while a thread of its parent tested.
    #[test]
    fn a_test_that_does_not_end_is_run_by_who_waits_for_it() {
        let slot = slot();
        let health = slot.health(Algorithm::MlKem512);
        assert!(health.replace(Known::NOTHING, Known::new(Verdict::Testing, 0)));
        assert_eq!(slot.fit(Algorithm::MlKem512, None), Ok(Fit::Yes));
        assert_eq!(health.known().verdict, Verdict::Passed);
    }

    #[test]
    fn a_test_that_another_thread_runs_is_given_time() {
        let slot = slot();
        let health = slot.health(Algorithm::MlKem768);
        for (found, fit) in [(Verdict::Passed, Fit::Yes), (Verdict::Failed, Fit::Never)] {
            health.update(|_| Some(Known::new(Verdict::Testing, 0)));
            std::thread::scope(|scope| {
                let start = Instant::now();
                let waiting = scope.spawn(|| slot.fit(Algorithm::MlKem768, None));
                std::thread::sleep(10 * TEST_POLL);
                assert!(!waiting.is_finished() || start.elapsed() > TEST_POLL * TEST_POLLS as u32);
                health.update(|_| Some(Known::new(found, 0)));
                assert_eq!(waiting.join().unwrap(), Ok(fit));
            });
        }
    }

    #[test]
    fn a_wrong_answer_concerns_what_is_made_of_the_algorithm_and_nothing_else() {
        let slot = slot();
        let all = [Algorithm::MlDsa65, Algorithm::MlDsa65EcdsaP384Sha512, Algorithm::MlKem768];
        assert_eq!(all.map(|algorithm| slot.fit(algorithm, None)), [const { Ok(Fit::Yes) }; 3]);
        assert_eq!(slot.reasons(), None);
        slot.withdraw(Algorithm::MlDsa65, "a test says so".to_owned());
        slot.withdraw(Algorithm::MlDsa65, "and once more".to_owned());
        let fit = all.map(|algorithm| slot.fit(algorithm, None));
        assert_eq!(fit, [Ok(Fit::Never), Ok(Fit::Never), Ok(Fit::Yes)]);
        assert_eq!(slot.fit(Algorithm::MlDsa44, None), Ok(Fit::Yes));
        assert_eq!(slot.reasons().as_deref(), Some("a test says so"));
        // A test that was running meanwhile changes nothing.
        assert_eq!(slot.find_out(Algorithm::MlDsa65), Ok(Fit::Never));
    }
}
