//! Which backend runs a batch, and whether it may.

pub(crate) mod slot;

use gabion_backend::{Backend, Batch, Operation, Task};
use gabion_scheme::algorithms::Family;
use gabion_scheme::{Algorithm, Status};

use crate::error::{Error, check_built, lane_result};
use slot::{Answer, SelfTests, Slot};

/// What is known of a backend's health.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BackendState {
    /// Every self-test passed.
    Ok,
    /// Self-tests failed, or lanes came back without a verdict; it does not run those algorithms any
    /// more, nor what is made of them.
    Withdrawn(String),
    /// There was no memory to test it, for now.
    Untested,
}

/// One backend, for `gabion doctor`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendReport {
    /// Its name.
    pub name: &'static str,
    /// Operations side by side.
    pub lanes: usize,
    /// Whether it may run.
    pub state: BackendState,
}

/// Routes batches to backends. Immutable but for self-test verdicts; share it by reference.
pub struct Engine {
    slots: Vec<Slot>,
    verify_after_sign: bool,
}

impl Engine {
    /// Over given backends, best first, each with its self-tests.
    pub(crate) fn over(
        backends: Vec<Box<dyn Backend>>,
        tests: SelfTests,
        verify_after_sign: bool,
    ) -> Engine {
        let slots = backends.into_iter().map(|backend| Slot::new(backend, tests)).collect();
        Engine { slots, verify_after_sign }
    }

    /// The backend that runs this algorithm.
    ///
    /// # Errors
    /// [`Error::NotBuilt`]; [`Error::NoBackend`] if all failed their self-test; [`Error::NoMemory`] if
    /// there was none to test them.
    pub fn backend_for(&self, algorithm: Algorithm) -> Result<&dyn Backend, Error> {
        check_built(algorithm)?;
        for slot in &self.slots {
            if slot.is_fit(algorithm)? {
                return Ok(&*slot.backend);
            }
        }
        Err(Error::NoBackend(algorithm))
    }

    /// The backend that is first to run this algorithm, without running its self-test, which
    /// [`Self::backend_for`] does: the best one that has failed none so far.
    ///
    /// # Errors
    /// [`Error::NoBackend`] if every backend has failed the algorithm's self-test.
    pub fn backend_first(&self, algorithm: Algorithm) -> Result<&dyn Backend, Error> {
        let slot = self.slots.iter().find(|slot| slot.is_unblamed(algorithm));
        slot.map(|slot| &*slot.backend).ok_or(Error::NoBackend(algorithm))
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
                    .filter(|&algorithm| slot.is_fit(algorithm).is_err())
                    .count();
                let state = match slot.reasons() {
                    Some(reasons) => BackendState::Withdrawn(reasons),
                    None if untested > 0 => BackendState::Untested,
                    None => BackendState::Ok,
                };
                BackendReport { name: slot.backend.name(), lanes: slot.backend.lanes(), state }
            })
            .collect()
    }

    /// Runs a batch on the best healthy backend. Each lane's verdict is in `batch.status`, and what
    /// did not succeed has no output. Where a backend declines the batch, loses it, panics, leaves a lane
    /// without a verdict or was withdrawn meanwhile (a self-test of another algorithm failed on another
    /// thread), nothing that it wrote counts, and the next backend runs the batch.
    ///
    /// # Errors
    /// Misuse (lengths that do not fit, before anything runs); no healthy backend, no memory for its
    /// self-test, [`Error::Unserved`] if none takes it, or
    /// [`Error::Panicked`] if one of them panicked: then every status is [`Status::NotRun`] and every
    /// output zero or blank. A bad lane is no error here.
    pub fn run(&self, batch: &mut Batch<'_>) -> Result<(), Error> {
        batch.status.fill(Status::NotRun);
        batch.check()?;
        let algorithm = batch.algorithm();
        check_built(algorithm)?;
        let task = batch.task();
        let mut error = Error::NoBackend(algorithm);
        for slot in &self.slots {
            if !is_tested_by_who_uses_it(batch) && !slot.is_fit(algorithm)? {
                continue;
            }
            match slot.run(batch) {
                Answer::Done => return Ok(()),
                Answer::Panicked => error = Error::Panicked { algorithm, task },
                Answer::Refused if matches!(error, Error::NoBackend(_)) => {
                    error = Error::Unserved { algorithm, task };
                }
                Answer::Refused | Answer::Unfit => {}
            }
        }
        Err(error)
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

    /// Tests the backend that runs an algorithm again, because of `what` it did.
    pub(crate) fn suspect(&self, algorithm: Algorithm, what: &str) {
        if let Some(slot) = self.slots.iter().find(|slot| slot.is_fit(algorithm) == Ok(true)) {
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

/// Whether what a batch makes shows by itself whether it is right, or is tested when it is used.
///
/// These are public keys whose decoding runs no kernel of a backend: it looks at each coefficient, or
/// copies bytes. Whoever sends a certificate decides which keys are decoded, and a self-test, which makes
/// keys and signs, takes up to 40 ms.
fn is_tested_by_who_uses_it(batch: &Batch<'_>) -> bool {
    batch.task() == Task::DecodePublic
        && matches!(batch.algorithm().info().family, Family::FnDsa | Family::SlhDsa)
}
