//! Which backend runs a batch, and whether it may.

use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use gabion_backend::{Backend, Batch, Operation, cpus};
use gabion_scheme::algorithms::ALGORITHMS;
use gabion_scheme::{Algorithm, Status};

use crate::config::Config;
use crate::error::{Error, lane_error};
use crate::self_test;

/// A backend and what is known of its health.
struct Slot {
    backend: Box<dyn Backend>,
    /// The verdict of the self-test, per algorithm, once it has run.
    tested: [OnceLock<Result<(), String>>; ALGORITHMS.len()],
    /// Set when any self-test failed: the backend runs nothing more.
    withdrawn: AtomicBool,
}

impl Slot {
    fn new(backend: Box<dyn Backend>) -> Self {
        Slot { backend, tested: Default::default(), withdrawn: AtomicBool::new(false) }
    }

    /// Whether the backend may run this algorithm; runs its self-test before its first use.
    fn is_fit(&self, algorithm: Algorithm) -> bool {
        if self.withdrawn.load(Ordering::Acquire) {
            return false;
        }
        let verdict = self.tested[algorithm as usize].get_or_init(|| {
            let verdict = self_test::run(&*self.backend, algorithm);
            if let Err(reason) = &verdict {
                self.withdrawn.store(true, Ordering::Release);
                // Loud on purpose: a processor that computes wrongly must not go unnoticed. Not
                // eprintln, which panics where nobody reads stderr any more: the next backend serves.
                let name = self.backend.name();
                let _ =
                    writeln!(std::io::stderr(), "gabion: backend {name} is withdrawn: {reason}");
            }
            verdict
        });
        verdict.is_ok() && !self.withdrawn.load(Ordering::Acquire)
    }
}

/// What is known of a backend's health.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BackendState {
    /// Every self-test passed.
    Ok,
    /// A self-test failed, so it runs nothing.
    Withdrawn(String),
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
}

impl Engine {
    /// The engine of this process, set up from the environment at the first call.
    ///
    /// # Errors
    /// [`Error::NoSuchBackend`] if `GABION_BACKEND` names none of this machine's backends.
    pub fn global() -> Result<&'static Engine, Error> {
        static GLOBAL: OnceLock<Result<Engine, Error>> = OnceLock::new();
        GLOBAL
            .get_or_init(|| Engine::new(&Config::from_environment()))
            .as_ref()
            .map_err(Clone::clone)
    }

    /// An engine of its own.
    ///
    /// # Errors
    /// [`Error::NoSuchBackend`] if the configuration names none of this machine's backends.
    pub fn new(config: &Config) -> Result<Engine, Error> {
        Engine::with_backends(cpus(), config)
    }

    /// An engine over given backends, best first.
    ///
    /// # Errors
    /// [`Error::NoSuchBackend`] if the configuration names none of them.
    pub fn with_backends(
        mut backends: Vec<Box<dyn Backend>>,
        config: &Config,
    ) -> Result<Engine, Error> {
        if let Some(wanted) = &config.backend {
            let available: Vec<_> = backends.iter().map(|backend| backend.name()).collect();
            let available = available.join(", ");
            backends.retain(|backend| backend.name().eq_ignore_ascii_case(wanted));
            if backends.is_empty() {
                return Err(Error::NoSuchBackend { wanted: wanted.clone(), available });
            }
        }
        Ok(Engine { slots: backends.into_iter().map(Slot::new).collect() })
    }

    /// The backend that runs this algorithm.
    ///
    /// # Errors
    /// [`Error::NoBackend`] if all failed their self-test.
    pub fn backend_for(&self, algorithm: Algorithm) -> Result<&dyn Backend, Error> {
        self.slots
            .iter()
            .find(|slot| slot.is_fit(algorithm))
            .map(|slot| &*slot.backend)
            .ok_or(Error::NoBackend(algorithm))
    }

    /// Runs every self-test and reports on every backend, best first.
    pub fn report(&self) -> Vec<BackendReport> {
        self.slots
            .iter()
            .map(|slot| {
                for algorithm in Algorithm::all() {
                    slot.is_fit(algorithm);
                }
                let failed = slot.tested.iter().find_map(|verdict| match verdict.get() {
                    Some(Err(reason)) => Some(reason.clone()),
                    _ => None,
                });
                BackendReport {
                    name: slot.backend.name(),
                    lanes: slot.backend.lanes(),
                    state: failed.map_or(BackendState::Ok, BackendState::Withdrawn),
                }
            })
            .collect()
    }

    /// Runs a batch on the best healthy backend. Each lane's verdict is in `batch.status`. Where
    /// the backend was withdrawn meanwhile (a self-test of another algorithm failed on another
    /// thread), its answer does not count and the next backend runs the batch.
    ///
    /// # Errors
    /// Misuse (lengths that do not fit, before anything runs) or no healthy backend. A bad lane is
    /// no error here.
    pub fn run(&self, batch: &mut Batch<'_>) -> Result<(), Error> {
        batch.status.fill(Status::NotRun);
        batch.check()?;
        let algorithm = batch.algorithm();
        for slot in &self.slots {
            if slot.is_fit(algorithm) {
                slot.backend.run(batch);
                if !slot.withdrawn.load(Ordering::Acquire) {
                    return Ok(());
                }
                batch.status.fill(Status::NotRun);
            }
        }
        Err(Error::NoBackend(algorithm))
    }

    /// Runs a batch of one lane and turns its verdict into a result.
    pub(crate) fn run_one(&self, operation: Operation<'_>) -> Result<(), Error> {
        let mut status = [Status::NotRun];
        let mut batch = Batch { operation, status: &mut status };
        let (algorithm, name) = (batch.algorithm(), batch.operation_name());
        self.run(&mut batch)?;
        match status[0] {
            Status::Ok => Ok(()),
            status => Err(lane_error(algorithm, name, status)),
        }
    }
}
