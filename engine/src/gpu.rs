//! NVIDIA GPUs: the devices of this process, shared by all its engines.
//!
//! An engine uses them only if its configuration names the backend `cuda`: a driver call that never
//! returns blocks its thread, and callers that did not request a GPU must not be exposed to that
//! (ADR 0081). Otherwise nothing is loaded, unless [`measure`] is called. A program with more
//! rights than its caller has no GPU, because the driver reads environment variables that name code
//! to load.

use std::io;

use gabion_backend::Backend;
pub use gabion_cuda::offload::{
    Absent, Costs, Curve, DeviceDescription, Report, Row, Source, Stamp,
};
use gabion_cuda::offload::{Driver, Offload, operations};
use once_cell::race::OnceBox;

use crate::config::Config;
use crate::error::Error;
use crate::{Algorithm, Task, rights};

/// The name of the backend.
pub const NAME: &str = "cuda";

/// Returns the devices of this process without opening any.
fn devices() -> &'static Offload<Driver> {
    static DEVICES: OnceBox<Offload<Driver>> = OnceBox::new();
    DEVICES.get_or_init(|| Box::new(Offload::new(Driver)))
}

/// Returns whether a configuration names the devices.
fn is_named(config: &Config) -> bool {
    config.backend.as_ref().is_some_and(|backend| backend.eq_ignore_ascii_case(NAME))
}

/// Returns the processor's backends, best first, followed by the devices if a configuration names
/// them.
pub(crate) fn with_processors(
    processors: Vec<Box<dyn Backend>>,
    config: &Config,
) -> Result<Vec<Box<dyn Backend>>, Error> {
    let allowed = allowed(config, rights::is_privileged());
    with_devices(processors, devices(), config, allowed)
}

/// Checks whether a configuration allows devices in a program with these rights.
fn allowed(config: &Config, elevated: bool) -> Result<(), Absent> {
    match (config.without_gpu, elevated) {
        (true, _) => Err(Absent::Forbidden),
        (_, true) => Err(Absent::MoreRights),
        _ => Ok(()),
    }
}

/// Adds the devices of any source to the processor's backends.
fn with_devices<S: Source>(
    mut processors: Vec<Box<dyn Backend>>,
    devices: &Offload<S>,
    config: &Config,
    allowed: Result<(), Absent>,
) -> Result<Vec<Box<dyn Backend>>, Error> {
    if let Some(wanted) = config.backend.as_ref().filter(|_| is_named(config)) {
        allowed
            .and_then(|()| devices.source().check())
            .map_err(|why| Error::NoDevice { wanted: wanted.clone(), why: why.to_string() })?;
        processors.push(Box::new(devices.clone()));
    }
    Ok(processors)
}

/// Opens the GPUs if a configuration names them. Returns the properties of each, and the batch
/// sizes from which it is faster.
///
/// # Errors
/// The reason why there is no usable GPU. [`Absent::NotAsked`] if there may be one that the
/// configuration does not name.
pub fn report(config: &Config) -> Result<Vec<Report>, Absent> {
    report_of(devices(), config, rights::is_privileged())
}

/// Reports on the devices of any source.
fn report_of<S: Source>(
    devices: &Offload<S>,
    config: &Config,
    elevated: bool,
) -> Result<Vec<Report>, Absent> {
    allowed(config, elevated)?;
    match (devices.source().may_be_there(), is_named(config)) {
        (false, _) => Err(Absent::NoDevice),
        (true, false) => Err(Absent::NotAsked),
        (true, true) => devices.report(),
    }
}

/// Measures every operation on every GPU, calling `tell` before each, and saves the times for
/// processes that start later. Each report is returned with the result of saving it.
///
/// # Errors
/// Fails like [`report`].
pub fn measure(
    config: &Config,
    tell: impl FnMut(&DeviceDescription, Algorithm, Task),
) -> Result<Vec<(Report, io::Result<()>)>, Absent> {
    allowed(config, rights::is_privileged())?;
    let all: Vec<_> = operations().collect();
    match devices().source().may_be_there() {
        true => devices().measure(&all, tell),
        false => Err(Absent::NoDevice),
    }
}

#[cfg(all(test, not(loom)))]
#[allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.
mod tests {
    use gabion_backend::cpus;
    use gabion_cuda::driver::Nvidia;

    use super::*;
    use crate::Engine;

    /// A system without a device, or with one that is never opened.
    struct System {
        has_one: bool,
    }

    impl Source for System {
        type Device = Nvidia;

        fn may_be_there(&self) -> bool {
            true
        }

        fn check(&self) -> Result<(), Absent> {
            if self.has_one { Ok(()) } else { Err(Absent::Unusable("no driver".to_owned())) }
        }

        fn open(&self) -> Result<Vec<(DeviceDescription, Nvidia)>, Absent> {
            panic!("nobody asked for a batch")
        }
    }

    fn named(backend: Option<&str>) -> Config {
        Config { backend: backend.map(str::to_owned), ..Config::default() }
    }

    /// Returns the names of an engine's backends, in order, each with a mark if it estimates the
    /// costs of batches.
    fn backends(system: System, config: &Config, elevated: bool) -> Result<Vec<String>, String> {
        let offload = Offload::with_folder(system, None);
        let allowed = allowed(config, elevated);
        let backends = with_devices(cpus(), &offload, config, allowed);
        let backends = backends.map_err(|error| error.to_string())?;
        let shown = |backend: &dyn Backend| {
            format!("{}{}", backend.name(), if backend.knows_costs() { PRICED } else { "" })
        };
        let all = backends.iter().map(|backend| shown(&**backend)).collect();
        let engine = Engine::with_backends(backends, config).map_err(|error| error.to_string())?;
        assert_eq!(engine.backend_first(Algorithm::X25519).unwrap().name(), cpus()[0].name());
        assert!(!offload.is_opened());
        Ok(all)
    }

    /// The mark of a backend that is selected by its estimated costs.
    const PRICED: &str = "+";

    fn processors() -> Vec<String> {
        cpus().iter().map(|backend| backend.name().to_owned()).collect()
    }

    /// Processors, and a device behind them.
    fn with_device() -> Vec<String> {
        [processors(), vec![format!("cuda{PRICED}")]].concat()
    }

    /// A driver that must not be called; each of its calls could block for ever.
    struct Untouchable;

    impl Source for Untouchable {
        type Device = Nvidia;

        fn may_be_there(&self) -> bool {
            true
        }

        fn check(&self) -> Result<(), Absent> {
            panic!("the driver was loaded")
        }

        fn open(&self) -> Result<Vec<(DeviceDescription, Nvidia)>, Absent> {
            panic!("the driver was called")
        }
    }

    /// Runs batches of every size, the trees of a key, and the queries of `gabion doctor`, on a
    /// machine that may have a GPU.
    #[test]
    fn the_driver_is_not_called_unless_the_devices_are_named() {
        let configs = [
            named(None),
            Config { verify_after_sign: true, ..named(None) },
            named(Some(cpus()[0].name())),
            Config { without_gpu: true, ..named(None) },
        ];
        for (config, elevated) in configs.iter().flat_map(|it| [(it, false), (it, true)]) {
            let devices = Offload::with_folder(Untouchable, None);
            let all = with_devices(cpus(), &devices, config, allowed(config, elevated)).unwrap();
            let names: Vec<_> = all.iter().map(|backend| backend.name()).collect();
            assert_eq!(names, processors());
            assert!(all.iter().all(|backend| !backend.knows_costs()));
            let engine = Engine::with_backends(all, config).unwrap();
            assert!(!engine.asks_devices_for(u32::MAX));
            assert!(report_of(&devices, config, elevated).is_err());
            assert!(!devices.is_opened());
        }
        let devices = Offload::with_folder(Untouchable, None);
        assert_eq!(report_of(&devices, &named(None), false), Err(Absent::NotAsked));
    }

    #[test]
    fn a_device_that_is_named_and_not_there_is_an_error_that_says_why() {
        let system = |has_one| System { has_one };
        let cuda = named(Some("CUDA"));
        assert_eq!(backends(system(true), &cuda, false), Ok(with_device()));
        let without = Config { without_gpu: true, ..cuda.clone() };
        for (system, config, elevated, why) in [
            (system(false), &cuda, false, "no driver"),
            (system(true), &without, false, "GABION_GPU"),
            (system(true), &cuda, true, "more rights"),
        ] {
            let error = backends(system, config, elevated).unwrap_err();
            assert!(error.contains(why) && error.contains("backend `CUDA`"), "{error}");
        }
    }

    /// Loads nothing on any machine: the driver is not queried.
    #[test]
    fn forbidden_devices_are_not_looked_for() {
        let config = Config { without_gpu: true, ..Config::default() };
        assert_eq!(report(&config), Err(Absent::Forbidden));
        assert!(report(&Config::default()).is_err());
        assert!(measure(&config, |_, _, _| panic!("nothing is measured")).is_err());
        assert!(!devices().is_opened());
    }
}
