//! Creates engines. This is the only module that knows both engines and self-tests.

use std::sync::Arc;
use std::time::Instant;

use gabion_backend::{Backend, cpus};
use once_cell::race::OnceBox;

use crate::config::Config;
use crate::error::Error;
use crate::route::{Clock, Engine};
use crate::self_test::TESTS;

impl Engine {
    /// Returns the engine of this process, configured from the environment at the first call.
    ///
    /// # Errors
    /// [`Error::NoSuchBackend`] if `GABION_BACKEND` names none of this machine's backends, and
    /// [`Error::NoDevice`] if it names a device that can't be used.
    pub fn global() -> Result<&'static Engine, Error> {
        // A process whose threads are first together makes two, and drops one: it never waits for
        // itself.
        static GLOBAL: OnceBox<Result<Engine, Error>> = OnceBox::new();
        GLOBAL
            .get_or_init(|| Box::new(Engine::new(&Config::from_environment())))
            .as_ref()
            .map_err(Clone::clone)
    }

    /// Creates a separate engine.
    ///
    /// # Examples
    /// ```
    /// use gabion_engine::{Algorithm, Config, Engine};
    ///
    /// // Signatures are verified before they are given out, and only portable code runs.
    /// let backend = Some("portable".to_owned());
    /// let engine = Engine::new(&Config { backend, verify_after_sign: true, without_gpu: true })?;
    /// assert_eq!(engine.backend_for(Algorithm::MlKem768)?.name(), "portable");
    /// # Ok::<(), gabion_engine::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoSuchBackend`] if the configuration names none of this machine's backends, and
    /// [`Error::NoDevice`] if it names a device that can't be used.
    pub fn new(config: &Config) -> Result<Engine, Error> {
        #[cfg(feature = "cuda")]
        let backends = crate::gpu::with_processors(cpus(), config)?;
        #[cfg(not(feature = "cuda"))]
        let backends = cpus();
        Engine::with_backends(backends, config)
    }

    /// Returns an engine over these backends, best first. If the configuration names a device (a
    /// backend without kernels), the processor's backends follow it.
    ///
    /// # Errors
    /// [`Error::NoSuchBackend`] if the configuration names none of them.
    pub fn with_backends(
        backends: Vec<Box<dyn Backend>>,
        config: &Config,
    ) -> Result<Engine, Error> {
        let backends = match &config.backend {
            Some(wanted) => named(backends, wanted)?,
            None => backends,
        };
        let clock: Clock = Arc::new(Instant::now);
        Ok(Engine::over(backends, TESTS, config.verify_after_sign, &clock))
    }
}

/// Returns the backends with a name; those of the processor follow a device.
fn named(backends: Vec<Box<dyn Backend>>, wanted: &str) -> Result<Vec<Box<dyn Backend>>, Error> {
    let available: Vec<_> = backends.iter().map(|backend| backend.name()).collect();
    let available = available.join(", ");
    let is_wanted = |backend: &dyn Backend| backend.name().eq_ignore_ascii_case(wanted);
    let (mut named, mut others): (Vec<_>, Vec<_>) =
        backends.into_iter().partition(|backend| is_wanted(&**backend));
    if named.is_empty() {
        return Err(Error::NoSuchBackend { wanted: wanted.to_owned(), available });
    }
    if named.iter().all(|backend| backend.kernels().is_none()) {
        others.retain(|backend| backend.kernels().is_some());
        named.append(&mut others);
    }
    Ok(named)
}
