//! Many threads with one operation each, by OpenSSL's own code, by the provider, by the core patch, by the engine's queue and by
//! a GPU: the same jobs, counted the same way.
//!
//! ```text
//!   thread 1..jobs, each with a key of its own:  take a number ─> encapsulate ─> decapsulate ─> same secret? ─> count
//!                                                             or  sign ─> verify ─> count
//!   wall: from the barrier before the first to the end of the last; processor time of the whole process beside it
//! ```
//!
//! A job counts when its result was checked, and the check is part of its time. A job that fails
//! ends the run without a figure. Each way runs in a separate process, since a process chooses its
//! libcrypto and its switches once.

use std::num::NonZero;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Instant;

use gabion_engine::{
    Algorithm, DeviceCounts, Engine, Kind, Limits, Message, OsEntropy, Queue, Task,
};
pub use gabion_rows::gpu::Offload as Row;

use crate::Error;
use crate::cpu_time::process_cpu_ns;
use crate::engine::THREADS_MAX;
use crate::inputs;
use crate::machine::Machine;
use crate::ossl::{Context, Key, KeyShape, Ossl};
use crate::tls::{self, Provider, judge_counts};

/// The environment variables of the core patch: its switch, and its report.
pub const SWITCHES: [&str; 2] = [tls::SWITCH, "GABION_OFFLOAD_REPORT"];

/// The code that runs the jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// OpenSSL's own code.
    Default,
    /// Our provider.
    Gabion,
    /// The core patch; the process has its switch on.
    Offload,
    /// The engine's queue on the processor: waiting jobs run together.
    Engine,
    /// The engine's queue on a GPU.
    Cuda,
}

impl Way {
    /// All of them, in the order of their rows.
    pub const ALL: [Way; 5] = [Way::Default, Way::Gabion, Way::Offload, Way::Engine, Way::Cuda];

    /// The word in rows and options.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Way::Default => "default",
            Way::Gabion => "gabion",
            Way::Offload => "offload",
            Way::Engine => "engine",
            Way::Cuda => "cuda",
        }
    }
}

/// The options of a measurement.
#[derive(Clone, Debug)]
pub struct Config {
    /// The code that runs the jobs.
    pub way: Way,
    /// The prefix of the OpenSSL installation, for the ways that use it.
    pub prefix: PathBuf,
    /// Folder of provider modules; `None` means that of the prefix.
    pub modules: Option<PathBuf>,
    /// An ML-KEM or an ML-DSA.
    pub algorithm: Algorithm,
    /// Threads, 1 to 1024.
    pub jobs: usize,
    /// Jobs in all, at least as many as threads.
    pub iterations: u64,
}

impl Config {
    fn check(&self) -> Result<bool, Error> {
        if !(1..=THREADS_MAX).contains(&self.jobs) {
            let text = format!("--jobs is out of range; 1 to {THREADS_MAX} is possible");
            return Err(Error::Usage(text));
        }
        if self.iterations < self.jobs as u64 {
            return Err(Error::Usage("--iters has to be as many as --jobs at least".to_owned()));
        }
        let name = self.algorithm.name();
        match self.algorithm.info().kind {
            Kind::Kem if name.starts_with("ML-KEM-") => Ok(true),
            Kind::Signature if name.starts_with("ML-DSA-") => Ok(false),
            _ => Err(Error::Usage(format!("{name} can't be measured; expected ML-KEM or ML-DSA"))),
        }
    }
}

/// One job of a thread: done and checked.
type Job<'a> = Box<dyn FnMut(u64) -> Result<(), Error> + 'a>;

/// Does all jobs by one way.
///
/// # Errors
/// `Usage` for a value out of range; `NotReady` if the way is not available; `Failed` when a job
/// fails, or if other code would run it.
pub fn measure(config: &Config) -> Result<Row, Error> {
    let is_kem = config.check()?;
    let watch = (config.way == Way::Cuda).then(Watch::start).flatten();
    let (figures, code) = match config.way {
        Way::Default | Way::Gabion | Way::Offload => by_openssl(config, is_kem)?,
        Way::Engine | Way::Cuda => by_queue(config, is_kem)?,
    };
    let machine = Machine::detect();
    let cores = machine.cores.max(1) as f64;
    Ok(Row {
        way: config.way.word().to_owned(),
        algorithm: config.algorithm.name().to_owned(),
        operation: if is_kem { "encaps, decaps" } else { "sign, verify" }.to_owned(),
        jobs: config.jobs,
        iterations: config.iterations,
        checked: figures.checked,
        seconds: figures.seconds,
        ops_per_s: figures.checked as f64 / figures.seconds,
        cpu_cores: figures.cpu_cores,
        cpu_share: figures.cpu_cores / cores,
        device_busy: watch.and_then(Watch::share),
        code,
        machine,
    })
}

/// The figures of a run.
struct Figures {
    checked: u64,
    seconds: f64,
    cpu_cores: f64,
}

/// Runs jobs on all threads until all numbers are taken; `make` makes those of one thread, with its key.
fn on_threads<'a>(
    config: &Config,
    make: impl Fn() -> Result<Job<'a>, Error> + Sync,
) -> Result<Figures, Error> {
    let (taken, checked, failed) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let start = Barrier::new(config.jobs + 1);
    let work = || {
        // One call in advance, because some code initializes at first use. A thread that fails must
        // not leave the others at a barrier.
        let made = make().and_then(|mut job| job(u64::MAX).map(|()| job));
        failed.fetch_or(made.is_err(), Ordering::Relaxed);
        start.wait();
        start.wait();
        let mut job = made?;
        while !failed.load(Ordering::Relaxed) {
            let number = taken.fetch_add(1, Ordering::Relaxed);
            if number >= config.iterations {
                break;
            }
            if let Err(error) = job(number) {
                failed.store(true, Ordering::Relaxed);
                return Err(error);
            }
            checked.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    };
    let (mut begun, mut cpu) = (Instant::now(), 0);
    let ran: Result<Vec<()>, Error> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..config.jobs).map(|_| scope.spawn(work)).collect();
        start.wait();
        (begun, cpu) = (Instant::now(), process_cpu_ns());
        start.wait();
        let lost = || Err(Error::Failed("a thread panicked".to_owned()));
        running.into_iter().map(|thread| thread.join().unwrap_or_else(|_| lost())).collect()
    });
    let seconds = begun.elapsed().as_secs_f64().max(1e-9);
    let cpu_cores = (process_cpu_ns() - cpu) as f64 / 1e9 / seconds;
    ran?;
    let checked = checked.into_inner();
    if checked != config.iterations {
        let of = config.iterations;
        return Err(Error::Failed(format!("{checked} of {of} jobs were done and checked")));
    }
    Ok(Figures { checked, seconds, cpu_cores })
}

fn wrong(what: &str) -> Error {
    Error::Failed(format!("{what}: the result is wrong"))
}

fn by_openssl(config: &Config, is_kem: bool) -> Result<(Figures, String), Error> {
    let prefix = std::fs::canonicalize(&config.prefix).unwrap_or_else(|_| config.prefix.clone());
    let ossl = Ossl::load(&prefix)?;
    let provider = match config.way {
        Way::Gabion => Provider::Gabion,
        // The patch is under the default provider.
        _ => Provider::Default,
    };
    let context = tls::context_for(provider, ossl, config.modules.as_deref(), false)?;
    let name = config.algorithm.name();
    let key = Key::generate(&context, name, KeyShape::Named)?;
    let serves = if is_kem { key.encapsulating_provider() } else { key.signing_provider(None) }?;
    if serves != provider.name() {
        return Err(Error::NotReady(format!("{name} would be done by the provider `{serves}`")));
    }
    let figures = on_threads(config, || thread(&context, name, is_kem))?;
    Ok((figures, ossl.version().to_owned()))
}

/// Returns the jobs of a thread, with a separate key.
fn thread<'a>(context: &Context, name: &str, is_kem: bool) -> Result<Job<'a>, Error> {
    let key = Key::generate(context, name, KeyShape::Named)?;
    if is_kem {
        return Ok(Box::new(move |_| {
            let (ct, secret) = key.encapsulate()?;
            let again = key.decapsulate(&ct)?;
            if again == secret { Ok(()) } else { Err(wrong("decapsulation")) }
        }));
    }
    Ok(Box::new(move |number| {
        let message = inputs::message(number as usize);
        let signature = key.sign(&message)?;
        Ok(key.verify(&message, &signature)?)
    }))
}

fn by_queue(config: &Config, is_kem: bool) -> Result<(Figures, String), Error> {
    let algorithm = config.algorithm;
    let backend = match config.way {
        Way::Cuda => Some("cuda".to_owned()),
        _ => gabion_backend::cpus().first().map(|backend| backend.name().to_owned()),
    };
    let engine = Engine::new(&gabion_engine::Config { backend, ..Default::default() })?;
    let engine = Arc::new(engine);
    let backend = engine.backend_for(algorithm)?;
    let code = gabion_engine::code_of(algorithm, backend);
    if (backend.name() == "cuda") != (config.way == Way::Cuda) {
        let text = format!("{algorithm} would be done by the backend {}", backend.name());
        return Err(Error::NotReady(text));
    }
    let mut limits = Limits { depth: 2 * config.jobs, ..Limits::default() };
    if config.way == Way::Cuda {
        // Jobs that wait while one batch runs form the next one.
        limits.leaders_max = NonZero::<usize>::MIN;
        limits.lanes_max = NonZero::new(config.jobs).unwrap_or(limits.lanes_max);
    }
    let queue = Queue::new(Arc::clone(&engine), OsEntropy, limits);
    let queue = &queue;
    let figures = on_threads(config, || -> Result<Job<'_>, Error> {
        if is_kem {
            let key = queue.kem_generate(algorithm)?;
            return Ok(Box::new(move |_| {
                let (ct, secret) = queue.encaps(&key.public())?;
                let again = queue.decaps(&key, &ct)?;
                if again == secret { Ok(()) } else { Err(wrong("decapsulation")) }
            }));
        }
        let key = queue.signature_generate(algorithm)?;
        Ok(Box::new(move |number| {
            let message = inputs::message(number as usize);
            let message = Message::Pure { context: &[], message: &message };
            let signature = queue.sign(&key, message)?;
            Ok(queue.verify(&key.public(), message, &signature)?)
        }))
    })?;
    if config.way == Way::Cuda {
        let tasks = if is_kem { [Task::Encaps, Task::Decaps] } else { [Task::Sign, Task::Verify] };
        let lanes = on_device(&engine.device_counts(), algorithm, tasks, figures.checked)?;
        return Ok((figures, format!("{code}, {lanes:.1} jobs a batch")));
    }
    Ok((figures, code))
}

/// Refuses figures of a device that did not do all jobs itself; otherwise how many of them came in a batch.
fn on_device(
    served: &[DeviceCounts],
    algorithm: Algorithm,
    tasks: [Task; 2],
    jobs: u64,
) -> Result<f64, Error> {
    let (mut lanes, mut batches) = (0, 0);
    for task in tasks {
        let of = served.iter().find(|one| (one.algorithm, one.task) == (algorithm, task));
        let (did, lost) = of.map_or((0, 0), |one| (one.lanes, one.lost));
        if did < jobs || lost > 0 {
            return Err(Error::Failed(format!(
                "the device did {did} of {jobs} jobs ({task:?}) and lost {lost} batches; the processor did the rest"
            )));
        }
        lanes += did;
        batches += of.map_or(0, |one| one.batches);
    }
    Ok(lanes as f64 / batches.max(1) as f64)
}

/// Refuses the report of a process with the core patch's switch on, if it did not do all jobs.
///
/// # Errors
/// `NotReady` if it says nothing, `Failed` if it says less.
pub fn judge(report: &str, row: &Row) -> Result<(), Error> {
    let needed = match row.operation.as_str() {
        "encaps, decaps" => ["encaps", "decaps"],
        _ => ["sign", "verify"],
    };
    judge_counts(report, &needed, row.checked, "jobs")
}

/// `nvidia-smi`, which says ten times a second how busy a GPU is.
struct Watch(Option<Child>);

impl Watch {
    fn start() -> Option<Watch> {
        let options =
            ["--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", "-lms", "100"];
        let mut command = Command::new("nvidia-smi");
        command.args(options).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        command.spawn().ok().map(|child| Watch(Some(child)))
    }

    /// The mean share, without the time before and after work.
    fn share(mut self) -> Option<f64> {
        let mut child = self.0.take()?;
        // It does not end by itself.
        child.kill().ok()?;
        let said = child.wait_with_output().ok()?.stdout;
        mean_share(&String::from_utf8_lossy(&said))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            // Best effort: the process may have ended already.
            let _ = child.kill().and_then(|()| child.wait());
        }
    }
}

/// The mean of the percentages, one a line, from the first that is not zero to the last.
fn mean_share(said: &str) -> Option<f64> {
    let all: Vec<f64> = said.lines().filter_map(|line| line.trim().parse().ok()).collect();
    let from = all.iter().position(|&share| share > 0.0)?;
    let to = all.iter().rposition(|&share| share > 0.0)?;
    let busy = &all[from..=to];
    Some(busy.iter().sum::<f64>() / busy.len() as f64 / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(algorithm: Algorithm) -> Config {
        let prefix = PathBuf::from("/nonexistent");
        Config { way: Way::Engine, prefix, modules: None, algorithm, jobs: 6, iterations: 50 }
    }

    #[test]
    fn every_job_is_done_and_checked() {
        for algorithm in [Algorithm::MlKem768, Algorithm::MlDsa44] {
            let row = measure(&config(algorithm)).unwrap();
            assert_eq!((row.checked, row.jobs, row.way.as_str()), (50, 6, "engine"));
            assert!(row.seconds > 0.0 && row.cpu_cores > 0.0 && row.device_busy.is_none());
            assert!((row.ops_per_s * row.seconds - 50.0).abs() < 1e-6);
            let text = serde_json::to_string(&row).unwrap();
            let read = gabion_rows::read(&text).unwrap();
            let gabion_rows::Row::Offload(read) = &read[0].row else { panic!("{text}") };
            assert_eq!((&read.way, read.checked), (&row.way, row.checked));
        }
    }

    #[test]
    fn a_job_that_fails_leaves_no_figure() {
        let config = config(Algorithm::MlKem512);
        for bad in [0, 17, 49, u64::MAX] {
            let make = || -> Result<Job<'_>, Error> {
                Ok(Box::new(move |number| match number == bad {
                    true => Err(wrong("this")),
                    false => Ok(()),
                }))
            };
            assert!(matches!(on_threads(&config, make), Err(Error::Failed(_))), "{bad}");
        }
        let make = || Err(Error::NotReady("no key".to_owned()));
        assert!(matches!(on_threads(&config, make), Err(Error::NotReady(_))));
    }

    #[test]
    fn out_of_range_offload_settings_are_refused() {
        let good = config(Algorithm::MlKem768);
        for bad in [
            Config { jobs: 0, ..good.clone() },
            Config { jobs: 1025, ..good.clone() },
            Config { iterations: 5, ..good.clone() },
            Config { algorithm: Algorithm::Ed25519, ..good.clone() },
        ] {
            assert!(matches!(measure(&bad), Err(Error::Usage(_))), "{bad:?}");
        }
        let nowhere = Config { way: Way::Default, ..good };
        assert!(matches!(measure(&nowhere), Err(Error::NotReady(_))));
    }

    #[test]
    fn a_report_of_the_core_patch_has_all_jobs() {
        let row = measure(&config(Algorithm::MlKem512)).unwrap();
        let report = |encaps: u64| {
            format!("gabion offload: served encaps={encaps} decaps=60 failed encaps=0 decaps=0")
        };
        assert_eq!(judge(&report(50), &row), Ok(()));
        assert!(matches!(judge(&report(49), &row), Err(Error::Failed(_))));
        assert!(matches!(judge("", &row), Err(Error::NotReady(_))));
    }

    #[test]
    fn a_device_that_did_nothing_has_no_figures() {
        let tasks = [Task::Encaps, Task::Decaps];
        let none = on_device(&[], Algorithm::MlKem768, tasks, 1).unwrap_err();
        assert!(none.to_string().contains("0 of 1 jobs (Encaps)"), "{none}");
        // The processor's queue asks no device.
        let engine = Engine::new(&gabion_engine::Config::default()).unwrap();
        assert!(on_device(&engine.device_counts(), Algorithm::MlKem768, tasks, 1).is_err());
    }

    #[test]
    fn shares_are_those_of_the_time_of_work() {
        assert_eq!(mean_share("0\n0\n50\n0\n100\n0\n"), Some(0.5));
        assert_eq!(mean_share("0\n0\n"), None);
        assert_eq!(mean_share("[N/A]\n"), None);
    }
}
