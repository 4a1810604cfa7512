//! How an engine starts: the only place that knows both engines and self-tests.

use std::sync::Arc;
use std::time::Instant;

use gabion_backend::{Backend, cpus};
use once_cell::race::OnceBox;

use crate::config::Config;
use crate::error::Error;
use crate::route::{Clock, Engine};
use crate::self_test::TESTS;

impl Engine {
    /// The engine of this process, set up from the environment at the first call.
    ///
    /// # Errors
    /// [`Error::NoSuchBackend`] if `GABION_BACKEND` names none of this machine's backends.
    pub fn global() -> Result<&'static Engine, Error> {
        // A process whose threads are first together makes two, and drops one: it never waits for itself.
        static GLOBAL: OnceBox<Result<Engine, Error>> = OnceBox::new();
        GLOBAL
            .get_or_init(|| Box::new(Engine::new(&Config::from_environment())))
            .as_ref()
            .map_err(Clone::clone)
    }

    /// An engine of its own.
    ///
    /// # Examples
    /// ```
    /// use gabion_engine::{Algorithm, Config, Engine};
    ///
    /// // Signatures are verified before they are given out, and only portable code runs.
    /// let backend = Some("portable".to_owned());
    /// let engine = Engine::new(&Config { backend, verify_after_sign: true })?;
    /// assert_eq!(engine.backend_for(Algorithm::MlKem768)?.name(), "portable");
    /// # Ok::<(), gabion_engine::Error>(())
    /// ```
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
        let clock: Clock = Arc::new(Instant::now);
        Ok(Engine::over(backends, TESTS, config.verify_after_sign, &clock))
    }
}
