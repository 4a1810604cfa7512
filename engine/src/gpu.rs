//! NVIDIA GPUs: the devices of this process, which all its engines share.
//!
//! Nothing is loaded before a batch needs it, or [`report`] or [`measure`] is called. A program with more rights than its
//! caller has no GPU: the driver follows variables of the environment that name code to load.

use std::io;

use gabion_backend::Backend;
pub use gabion_cuda::offload::{About, Absent, Costs, Curve, Report, Row, Source, Stamp};
use gabion_cuda::offload::{Driver, Offload, operations};
use once_cell::race::OnceBox;

use crate::config::Config;
use crate::error::Error;
use crate::{Algorithm, Task, rights};

/// The name of the backend.
pub const NAME: &str = "cuda";

/// The devices of this process, none of which is opened here.
fn devices() -> &'static Offload<Driver> {
    static DEVICES: OnceBox<Offload<Driver>> = OnceBox::new();
    DEVICES.get_or_init(|| Box::new(Offload::new(Driver)))
}

/// Processors, best first, with the devices that a configuration allows.
pub(crate) fn with_processors(
    processors: Vec<Box<dyn Backend>>,
    config: &Config,
) -> Result<Vec<Box<dyn Backend>>, Error> {
    let allowed = allowed(config, rights::exceed_the_callers());
    beside(processors, devices(), config, allowed)
}

/// Whether a configuration allows devices in a program with these rights.
fn allowed(config: &Config, elevated: bool) -> Result<(), Absent> {
    match (config.without_gpu, elevated) {
        (true, _) => Err(Absent::Forbidden),
        (_, true) => Err(Absent::MoreRights),
        _ => Ok(()),
    }
}

/// The same with the devices of any source: the last of all where they are chosen by what they cost, and where they
/// are named.
fn beside<S: Source>(
    mut processors: Vec<Box<dyn Backend>>,
    devices: &Offload<S>,
    config: &Config,
    allowed: Result<(), Absent>,
) -> Result<Vec<Box<dyn Backend>>, Error> {
    match &config.backend {
        Some(wanted) if wanted.eq_ignore_ascii_case(NAME) => {
            allowed
                .and_then(|()| devices.source().check())
                .map_err(|why| Error::NoDevice { wanted: wanted.clone(), why: why.to_string() })?;
        }
        None if allowed.is_ok() && devices.source().may_be_there() => {
            if !processors.is_empty() {
                let best = processors.remove(0);
                processors.insert(0, devices.beside(best));
            }
        }
        _ => return Ok(processors),
    }
    processors.push(Box::new(devices.clone()));
    Ok(processors)
}

/// Opens the GPUs, and says what is known of each: what it is, and from how many lanes on it is faster.
///
/// # Errors
/// Why there is none, or none may be used.
pub fn report(config: &Config) -> Result<Vec<Report>, Absent> {
    allowed(config, rights::exceed_the_callers())?;
    match devices().source().may_be_there() {
        true => devices().report(),
        false => Err(Absent::NoDevice),
    }
}

/// Measures every operation on every GPU, with `tell` told of each before it begins, and keeps the times for processes
/// that start later. Beside each report stands whether they could be kept.
///
/// # Errors
/// As [`report`].
pub fn measure(
    config: &Config,
    tell: impl FnMut(&About, Algorithm, Task),
) -> Result<Vec<(Report, io::Result<()>)>, Absent> {
    allowed(config, rights::exceed_the_callers())?;
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
        may_be_there: bool,
    }

    impl Source for System {
        type Device = Nvidia;

        fn may_be_there(&self) -> bool {
            self.may_be_there
        }

        fn check(&self) -> Result<(), Absent> {
            if self.has_one { Ok(()) } else { Err(Absent::Unusable("no driver".to_owned())) }
        }

        fn open(&self) -> Result<Vec<(About, Nvidia)>, Absent> {
            panic!("nobody asked for a batch")
        }
    }

    fn named(backend: Option<&str>) -> Config {
        Config { backend: backend.map(str::to_owned), ..Config::default() }
    }

    /// The names of an engine's backends, in order, with a mark behind each that says what its batches cost.
    fn backends(system: System, config: &Config, elevated: bool) -> Result<Vec<String>, String> {
        let offload = Offload::keeping(system, None);
        let allowed = allowed(config, elevated);
        let backends = beside(cpus(), &offload, config, allowed);
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

    /// The mark of a backend that is chosen by what its batches cost.
    const PRICED: &str = "+";

    fn processors() -> Vec<String> {
        cpus().iter().map(|backend| backend.name().to_owned()).collect()
    }

    /// Processors, and a device behind them.
    fn with_device() -> Vec<String> {
        [processors(), vec![format!("cuda{PRICED}")]].concat()
    }

    #[test]
    fn a_device_stands_behind_processors_where_there_may_be_one() {
        let system = |may_be_there| System { has_one: true, may_be_there };
        let auto = named(None);
        // Without its costs a processor would get every batch, and nothing would ever be put by for a device.
        let mut all = with_device();
        all[0].push_str(PRICED);
        assert_eq!(backends(system(true), &auto, false), Ok(all));
        assert_eq!(backends(system(false), &auto, false), Ok(processors()));
        let without = Config { without_gpu: true, ..auto.clone() };
        assert_eq!(backends(system(true), &without, false), Ok(processors()));
        assert_eq!(backends(system(true), &auto, true), Ok(processors()), "elevated");
        let other = named(Some(cpus()[0].name()));
        assert_eq!(backends(system(true), &other, false), Ok(processors()));
    }

    #[test]
    fn a_device_that_is_named_and_not_there_is_an_error_that_says_why() {
        let system = |has_one| System { has_one, may_be_there: true };
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

    /// Nothing is loaded by this on any machine: the driver is not asked.
    #[test]
    fn forbidden_devices_are_not_looked_for() {
        let config = Config { without_gpu: true, ..Config::default() };
        assert_eq!(report(&config), Err(Absent::Forbidden));
        assert!(measure(&config, |_, _, _| panic!("nothing is measured")).is_err());
        assert!(!devices().is_opened());
    }
}
