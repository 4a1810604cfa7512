//! Selects the backend that runs a batch, and decides whether it may.

mod cost;
mod device_counts;
mod monitor;
mod quarantine;
pub(crate) mod slot;
mod test_record;
#[cfg(all(test, not(loom)))]
#[allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.
mod tests;

use gabion_backend::{Backend, Batch, Operation, Task};
use gabion_scheme::algorithms::{Family, Kind};
use gabion_scheme::kernels::Kernels;
use gabion_scheme::{Algorithm, Status};

use crate::error::{Error, check_built, lane_result};
pub use device_counts::{DeviceCounts, watch_devices};
pub(crate) use quarantine::Clock;
use slot::{Answer, Fit, SelfTests, Slot};

/// Slots at most: a batch remembers in a word which of them it has tried.
const SLOTS_MAX: usize = u64::BITS as usize;
/// The number of leaves that takes a processor of sixteen cores as long as opening a device, about
/// a second.
const LEAVES_MIN: u32 = 1 << 17;

/// The health of a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BackendState {
    /// Every self-test passed.
    Ok,
    /// Self-tests failed, or lanes came back without a verdict; it does not run those algorithms
    /// any more, nor what is made of them.
    Withdrawn(String),
    /// There was no memory to test it, for now.
    Untested,
    /// It lost a batch, and runs nothing until it passes a self-test, a second later or after that.
    Quarantined,
}

/// One backend, for `gabion doctor`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendReport {
    /// The backend's name.
    pub name: &'static str,
    /// Operations side by side.
    pub lanes: usize,
    /// Whether it may run.
    pub state: BackendState,
}

/// Routes batches to backends. Immutable but for self-test verdicts; share it by reference.
pub struct Engine {
    slots: Vec<Slot>,
    /// A bit for each slot.
    all: u64,
    /// Whether there are two that know their costs.
    asks_costs: bool,
    verify_after_sign: bool,
}

impl Engine {
    /// Returns an engine over these backends, best first, each with its self-tests. Only the first
    /// 64 are used.
    pub(crate) fn over(
        backends: Vec<Box<dyn Backend>>,
        tests: SelfTests,
        verify_after_sign: bool,
        clock: &Clock,
    ) -> Engine {
        let slot = |backend| Slot::new(backend, tests, Clock::clone(clock));
        let slots: Vec<_> = backends.into_iter().take(SLOTS_MAX).map(slot).collect();
        let all = (0..slots.len()).fold(0, |all, at| all | 1 << at);
        let know_costs = slots.iter().filter(|slot| slot.backend.knows_costs()).count();
        Engine { slots, all, asks_costs: know_costs > 1, verify_after_sign }
    }

    /// Returns the backend that runs this algorithm.
    ///
    /// # Errors
    /// [`Error::NotBuilt`]; [`Error::NoBackend`] if all failed their self-test;
    /// [`Error::BackendUnavailable`] if the others are set aside; [`Error::NoMemory`] if memory for
    /// the self-test is missing.
    pub fn backend_for(&self, algorithm: Algorithm) -> Result<&dyn Backend, Error> {
        check_built(algorithm)?;
        let mut error = Error::NoBackend(algorithm);
        for slot in &self.slots {
            match slot.fit(algorithm, None)? {
                Fit::Yes => return Ok(&*slot.backend),
                Fit::Unavailable => {
                    error = Error::BackendUnavailable { algorithm, task: main_task(algorithm) }
                }
                Fit::Withdrawn => {}
            }
        }
        Err(error)
    }

    /// Returns the kernels of the best healthy backend that has kernels, for keys whose work is not
    /// divided like a batch.
    ///
    /// # Errors
    /// See [`Self::backend_for`].
    pub(crate) fn kernels_for(&self, algorithm: Algorithm) -> Result<&dyn Kernels, Error> {
        check_built(algorithm)?;
        let mut error = Error::NoBackend(algorithm);
        for slot in &self.slots {
            let Some(kernels) = slot.backend.kernels() else { continue };
            match slot.fit(algorithm, None)? {
                Fit::Yes => return Ok(kernels),
                Fit::Unavailable => {
                    error = Error::BackendUnavailable { algorithm, task: Task::Sign }
                }
                Fit::Withdrawn => {}
            }
        }
        Err(error)
    }

    /// Returns the first candidate for this algorithm, the best backend that has not failed its
    /// self-test so far. Unlike [`Self::backend_for`], does not run the self-test.
    ///
    /// # Errors
    /// [`Error::NoBackend`] if every backend has failed the algorithm's self-test.
    pub fn backend_first(&self, algorithm: Algorithm) -> Result<&dyn Backend, Error> {
        let is_first = |slot: &&Slot| slot.backend.takes(algorithm) && slot.is_unblamed(algorithm);
        let slot = self.slots.iter().find(is_first);
        slot.map(|slot| &*slot.backend).ok_or(Error::NoBackend(algorithm))
    }

    /// Returns whether running concurrent operations of an algorithm as one batch saves more than
    /// handing them to another thread costs. For callers that can wait for others, such as
    /// asynchronous jobs.
    pub fn batching_pays(&self, algorithm: Algorithm) -> bool {
        matches!(algorithm.info().family, Family::Hybrid | Family::MlDsa | Family::SlhDsa)
    }

    /// Runs every self-test and reports on every backend, best first.
    pub fn report(&self) -> Vec<BackendReport> {
        self.slots
            .iter()
            .map(|slot| {
                let is_built = |algorithm: &Algorithm| algorithm.info().family.is_built();
                // All of them, also where one could not be tested.
                let untested = Algorithm::all()
                    .filter(is_built)
                    .filter(|&algorithm| slot.fit(algorithm, None).is_err())
                    .count();
                let state = match slot.reasons() {
                    Some(reasons) => BackendState::Withdrawn(reasons),
                    None if slot.is_quarantined() => BackendState::Quarantined,
                    None if untested > 0 => BackendState::Untested,
                    None => BackendState::Ok,
                };
                BackendReport { name: slot.backend.name(), lanes: slot.backend.lanes(), state }
            })
            .collect()
    }

    /// Returns the counts of batches on devices so far, by backend, algorithm and task. Batches on
    /// this processor and self-tests are not counted.
    pub fn device_counts(&self) -> Vec<DeviceCounts> {
        self.slots.iter().flat_map(Slot::device_counts).collect()
    }

    /// Runs a batch on the best healthy backend. Each lane's verdict is in `batch.status`, and
    /// lanes that failed have no output. If a backend declines the batch, loses it, panics, leaves
    /// a lane without a verdict or was withdrawn meanwhile (a self-test of another algorithm failed
    /// on another thread), its output is discarded, and the next backend runs the batch.
    ///
    /// # Errors
    /// Misuse (lengths that do not fit, before anything runs); no healthy backend, no memory for
    /// its self-test, [`Error::BackendUnavailable`] if none takes it, or [`Error::Panicked`] if one
    /// of them panicked: then every status is [`Status::NotRun`] and every output zero or blank. A
    /// bad lane is no error here.
    pub fn run(&self, batch: &mut Batch<'_>) -> Result<(), Error> {
        batch.status.fill(Status::NotRun);
        batch.check()?;
        let (algorithm, task) = (batch.algorithm(), batch.task());
        check_built(algorithm)?;
        let mut error = Error::NoBackend(algorithm);
        let mut untried = self.all;
        while let Some((at, slot)) = self.choose(untried, algorithm, task, batch.lanes()) {
            untried &= !(1 << at);
            let answer = match fit(slot, batch) {
                Ok(Fit::Yes) => slot.run(batch),
                Ok(Fit::Unavailable) => Answer::Refused,
                Ok(Fit::Withdrawn) => Answer::Unfit,
                Err(lacking) => {
                    error = lacking;
                    break;
                }
            };
            match answer {
                Answer::Done => return Ok(()),
                Answer::Panicked => error = Error::Panicked { algorithm, task },
                Answer::Refused if matches!(error, Error::NoBackend(_)) => {
                    error = Error::BackendUnavailable { algorithm, task };
                }
                Answer::Refused | Answer::Unfit => {}
            }
        }
        batch.reset();
        Err(error)
    }

    /// Returns whether devices compute missing nodes of a tree with `leaves` missing leaves: always
    /// if the configuration names a device, else if opening the devices takes no longer than
    /// computing the leaves.
    pub(crate) fn asks_devices_for(&self, leaves: u32) -> bool {
        let is_named = self.slots.first().is_some_and(Slot::is_device);
        is_named || leaves >= LEAVES_MIN && self.slots.iter().any(Slot::is_device)
    }

    /// Runs a batch on devices alone. Returns whether one ran it; if not, there is no output.
    pub(crate) fn run_on_devices(&self, batch: &mut Batch<'_>) -> bool {
        batch.status.fill(Status::NotRun);
        let done = self.slots.iter().filter(|slot| slot.is_device()).any(|slot| {
            matches!(fit(slot, batch), Ok(Fit::Yes)) && matches!(slot.run(batch), Answer::Done)
        });
        if !done {
            batch.reset();
        }
        done
    }

    /// Returns which of the untried slots is next, and where it stands: the first, or a later one
    /// that is cheaper.
    #[inline]
    fn choose(
        &self,
        untried: u64,
        algorithm: Algorithm,
        task: Task,
        lanes: usize,
    ) -> Option<(usize, &Slot)> {
        let first = untried.trailing_zeros() as usize;
        let at = if self.asks_costs {
            cost::cheapest(&self.slots, untried, algorithm, task, lanes).unwrap_or(first)
        } else {
            first
        };
        self.slots.get(at).map(|slot| (at, slot))
    }

    /// Returns the minimum lanes of a piece, for cutting a batch for several threads: the value of
    /// the backend that is tried first for all of it.
    pub(crate) fn piece(&self, algorithm: Algorithm, task: Task, lanes: usize) -> usize {
        let at = cost::cheapest(&self.slots, self.all, algorithm, task, lanes);
        // Without a backend nothing runs, on however many threads.
        at.and_then(|at| self.slots.get(at)).map_or(usize::MAX, |slot| slot.piece(algorithm, task))
    }

    /// Runs a batch whose lanes all have to succeed.
    pub(crate) fn run_all(&self, operation: Operation<'_>, lanes: usize) -> Result<(), Error> {
        let mut status = vec![Status::NotRun; lanes];
        let mut batch = Batch { operation, status: &mut status };
        let (algorithm, task) = (batch.algorithm(), batch.task());
        self.run(&mut batch)?;
        status.iter().try_for_each(|&status| lane_result(algorithm, task, status))
    }

    /// [`crate::Config::verify_after_sign`].
    pub(crate) fn verifies_after_sign(&self) -> bool {
        self.verify_after_sign
    }

    /// Tests again every backend that has run an algorithm, because of `what` one of them did:
    /// which of them did is not known any more.
    pub(crate) fn suspect(&self, algorithm: Algorithm, what: &str) {
        for slot in self.slots.iter().filter(|slot| slot.has_passed(algorithm)) {
            slot.suspect(algorithm, what);
        }
    }

    /// Runs a batch of one lane and turns its verdict into a result.
    pub(crate) fn run_one(&self, operation: Operation<'_>) -> Result<(), Error> {
        let mut status = [Status::NotRun];
        let mut batch = Batch { operation, status: &mut status };
        let (algorithm, task) = (batch.algorithm(), batch.task());
        self.run(&mut batch)?;
        lane_result(algorithm, task, status[0])
    }
}

/// Returns whether a backend may run a batch; tests it before its first use.
fn fit(slot: &Slot, batch: &Batch<'_>) -> Result<Fit, Error> {
    if is_tested_by_who_uses_it(batch) {
        return Ok(if slot.is_quarantined() { Fit::Unavailable } else { Fit::Yes });
    }
    slot.fit(batch.algorithm(), Some(batch.task()))
}

/// Returns the task that all algorithms of its kind have.
fn main_task(algorithm: Algorithm) -> Task {
    match algorithm.info().kind {
        Kind::Kem => Task::Encaps,
        Kind::Signature => Task::Verify,
        Kind::KeyExchange => Task::Derive,
    }
}

/// Returns whether the result of a batch needs no self-test, because it is verified or tested when
/// it is used.
///
/// These are public keys whose decoding runs no kernel of a backend: it checks each coefficient, or
/// copies bytes. The sender of a certificate decides which keys are decoded, and a self-test, which
/// generates keys and signs, takes up to 40 ms.
fn is_tested_by_who_uses_it(batch: &Batch<'_>) -> bool {
    batch.task() == Task::DecodePublic
        && matches!(batch.algorithm().info().family, Family::FnDsa | Family::SlhDsa)
}
