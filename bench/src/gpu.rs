//! Batches on a GPU: the time of its kernels, and the rates for callers, for each size of a batch.
//!
//! ```text
//!   Case ─> Pool, by a processor ─> batches in pinned memory, shifted for each thread
//!                                          │
//!      threads, each one batch after the other: forget results ─> run ─> check ─> count    ── end to end
//!      one thread, the driver's events around each kernel                                  ── kernels alone
//! ```
//!
//! An operation counts when its verdict is there and the sample of its batch (256 lanes, the first and the last among them) has the
//! results that a processor gave; these were taken away before the call. Of the first batch and the last one of each
//! thread every lane is compared. Time is that on the wall, with all of this in it.

mod card;
mod cases;
mod lanes;
mod nvidia;
mod pool;
mod raw;
mod stateful;
mod timing;

use std::time::Duration;

use gabion_backend::cpus;
use gabion_cuda::driver::Nvidia;
use gabion_cuda::{Cuda, Device, PinnedBuffer};
pub use gabion_rows::gpu::{Gpu as Row, HostMemory, Profile};
use regex::Regex;

pub use card::{Card, InstrumentedCard, Time};
pub use cases::Case;
use lanes::Lanes;
use pool::Pool;

use crate::Error;
use crate::engine::THREADS_MAX;
use crate::machine::Machine;

/// Sizes of batches if none are named.
pub const BATCHES: [usize; 9] =
    [1, 16, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];
/// Largest batch that can be measured.
pub const BATCH_MAX: usize = 1 << 20;
/// Most threads if none are named.
const THREADS_USUAL: usize = 8;
/// Bytes of the host's memory for buffers if none are named.
pub const MEMORY: usize = 4 << 30;
/// Bytes of a slot of the device if none are named.
pub const SLOT: usize = 256 << 20;
/// The time limit of a chunk.
const AT_MOST: Duration = Duration::from_secs(60);
/// A batch that would take so many times as long as its row may is left out.
const TOO_LONG: f64 = 8.0;

/// The options of a measurement.
#[derive(Clone, Debug)]
pub struct Config {
    /// Only rows whose `algorithm:operation:key` matches.
    pub filter: Option<Regex>,
    /// Sizes of batches, each from 1 to [`BATCH_MAX`].
    pub batches: Vec<usize>,
    /// Threads of the host; `None` means as many as there are cores, and 8 at most.
    pub threads: Option<usize>,
    /// Time for each row, in seconds; more than 0 and at most 3600.
    pub seconds: f64,
    /// Bytes of the host's memory for buffers.
    pub memory: usize,
    /// Bytes of a slot of the device.
    pub slot: usize,
    /// Whether the largest batch is measured once more, with buffers in ordinary memory.
    pub ordinary: bool,
    /// Whether kernels have rows of their own.
    pub profile: bool,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            filter: None,
            batches: BATCHES.to_vec(),
            threads: None,
            seconds: 1.0,
            memory: MEMORY,
            slot: SLOT,
            ordinary: true,
            profile: false,
        }
    }
}

impl Config {
    /// Returns whether the filter selects a name.
    fn selects(&self, name: &str) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.is_match(name))
    }

    fn check(&self) -> Result<usize, Error> {
        crate::engine::check_seconds(self.seconds)?;
        if self.batches.is_empty() || self.batches.iter().any(|n| !(1..=BATCH_MAX).contains(n)) {
            let text = format!("--batch is out of range; 1 to {BATCH_MAX} is possible on a GPU");
            return Err(Error::Usage(text));
        }
        let cores = std::thread::available_parallelism().map_or(1, |count| count.get());
        let threads = self.threads.unwrap_or(cores.min(THREADS_USUAL));
        match (1..=THREADS_MAX).contains(&threads) {
            true => Ok(threads),
            false => Err(Error::Usage(format!(
                "--threads {threads} is out of range; 1 to {THREADS_MAX} is possible"
            ))),
        }
    }
}

/// A progress event of a measurement.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A row.
    Row(Box<Row>),
    /// A kernel of the row before.
    Kernel(Box<Profile>),
    /// A row that was left out, and why.
    LeftOut(String),
}

/// Memory of the host, for buffers.
enum Memory {
    Pinned(PinnedBuffer),
    Ordinary(Vec<u8>),
}

impl Memory {
    fn bytes(&mut self) -> &mut [u8] {
        match self {
            Memory::Pinned(bytes) => bytes,
            Memory::Ordinary(bytes) => bytes,
        }
    }
}

/// Measures the cases that the filter selects on the GPU of a number, like [`measure`].
///
/// # Errors
/// Those of [`measure`]; `NotReady` if there is no such GPU.
pub fn measure_device(
    number: u32,
    config: &Config,
    emit: impl FnMut(Event) -> bool,
) -> Result<(), Error> {
    config.check()?;
    let device = Nvidia::open(number).map_err(|why| Error::NotReady(why.to_string()))?;
    measure(&Cuda::new(InstrumentedCard::new(device), config.slot, AT_MOST), config, emit)
}

/// Measures the cases that the filter selects on a device; `emit` receives each row when it is
/// ready, and ends the measurement by returning `false`.
///
/// # Errors
/// `Usage` for a value out of range or a filter without matches; `NotReady` if the device has no
/// memory; `Failed` if a result differs from the processor's, or if the device loses a batch.
pub fn measure<D: Card>(
    cuda: &Cuda<InstrumentedCard<D>>,
    config: &Config,
    mut emit: impl FnMut(Event) -> bool,
) -> Result<(), Error> {
    let threads = config.check()?;
    let cases: Vec<Case> = Case::all().filter(|case| config.selects(&case.name())).collect();
    let raw: Vec<raw::Raw> =
        raw::ALL.into_iter().filter(|raw| config.selects(&raw.name())).collect();
    if cases.is_empty() && raw.is_empty() {
        let text = "--filter matches no row; rows are named like ML-KEM-768:encaps:cached";
        return Err(Error::Usage(text.to_owned()));
    }
    let all = cpus();
    let cpu = all.first().ok_or_else(|| Error::NotReady("no processor backend".to_owned()))?;
    let mut bench = Bench {
        cuda,
        config,
        threads,
        device: cuda.device().card().describe(),
        machine: Machine::detect(),
        pinned: None,
    };
    for raw in raw {
        if !emit(Event::Row(Box::new(bench.raw(raw)?))) {
            return Ok(());
        }
    }
    for case in cases {
        let pool = Pool::new(case, case.items(), &**cpu)?;
        if !bench.rows(&pool, case, &mut emit)? {
            return Ok(());
        }
    }
    Ok(())
}

struct Bench<'b, D: Card> {
    cuda: &'b Cuda<InstrumentedCard<D>>,
    config: &'b Config,
    threads: usize,
    device: gabion_rows::gpu::Device,
    machine: Machine,
    /// Kept from row to row: to pin memory takes long.
    pinned: Option<Memory>,
}

impl<D: Card> Bench<'_, D> {
    /// The rows of one case; `false` if they are to be the last ones.
    fn rows(
        &mut self,
        pool: &Pool,
        case: Case,
        emit: &mut impl FnMut(Event) -> bool,
    ) -> Result<bool, Error> {
        let name = case.name();
        let mut sizes: Vec<(usize, HostMemory)> =
            self.config.batches.iter().map(|&lanes| (lanes, HostMemory::Pinned)).collect();
        let mut largest = 0;
        let mut ops_per_s = None;
        if self.config.ordinary {
            sizes.push((0, HostMemory::Ordinary));
        }
        for (lanes, memory) in sizes {
            let lanes = if memory == HostMemory::Ordinary { largest } else { lanes };
            if lanes == 0 {
                continue;
            }
            let takes = ops_per_s.map_or(0.0, |ops_per_s: f64| lanes as f64 / ops_per_s);
            let batch = Lanes::bytes(pool, lanes);
            let left_out = if takes > TOO_LONG * self.config.seconds.max(0.25) {
                Some(format!("one batch takes some {takes:.0} s"))
            } else if batch > self.config.memory {
                let mib = batch >> 20;
                Some(format!("one batch takes {mib} MiB of the host's memory; see --memory"))
            } else {
                None
            };
            if let Some(why) = left_out {
                if !emit(Event::LeftOut(format!("{name}, batches of {lanes}: {why}"))) {
                    return Ok(false);
                }
                continue;
            }
            let Some((row, profile)) = self.row(pool, case, lanes, memory)? else {
                // The same for every size.
                return Ok(emit(Event::LeftOut(format!("{name}: the device declines it"))));
            };
            ops_per_s = row.end_to_end.map(|figures| figures.ops_per_s);
            largest = lanes;
            let kernels = profile.into_iter().map(|row| Event::Kernel(Box::new(row)));
            for event in [Event::Row(Box::new(row))].into_iter().chain(kernels) {
                if !emit(event) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// A row, with its kernels if they are wanted; none if the device declines such batches.
    fn row(
        &mut self,
        pool: &Pool,
        case: Case,
        lanes: usize,
        host: HostMemory,
    ) -> Result<Option<(Row, Vec<Profile>)>, Error> {
        let (cuda, config, seconds) = (self.cuda, self.config, self.config.seconds);
        let batch = Lanes::bytes(pool, lanes);
        let threads = self.threads.min(config.memory / batch.max(1)).max(1);
        let mut ordinary;
        let memory = match host {
            HostMemory::Pinned => self.pinned_memory(threads * batch)?,
            HostMemory::Ordinary => {
                ordinary = Memory::Ordinary(vec![0; threads * batch]);
                &mut ordinary
            }
        };
        let memory = memory.bytes();
        let Some(mut end_to_end) = timing::end_to_end(cuda, pool, lanes, threads, seconds, memory)?
        else {
            return Ok(None);
        };
        let (kernel, times) = timing::kernels(cuda, pool, lanes, seconds / 2.0, memory)?;
        if let Some(kernel) = &kernel {
            let busy = kernel.ns_per_op * end_to_end.operations as f64 / 1e9;
            end_to_end.device_busy = Some(busy / end_to_end.seconds);
        }
        let row = Row {
            subject: case.subject(),
            returns: case.returns(),
            backend: "cuda".to_owned(),
            batch: lanes,
            threads,
            memory: host,
            kernel,
            end_to_end: Some(end_to_end),
            device: self.device.clone(),
            machine: self.machine.clone(),
        };
        let profile = match (kernel, config.profile) {
            (Some(kernel), true) => self.profile(case, lanes, &times, kernel.operations),
            _ => Vec::new(),
        };
        Ok(Some((row, profile)))
    }

    /// Returns the time of each kernel, the longest first.
    fn profile(&self, case: Case, batch: usize, times: &[Time], operations: u64) -> Vec<Profile> {
        let all: f64 = times.iter().map(|time| time.ns).sum();
        let mut rows: Vec<Profile> = times
            .iter()
            .map(|time| Profile {
                subject: case.subject(),
                batch,
                kernel_name: time.kernel.clone(),
                launches: time.launches,
                ms: time.ns / 1e6,
                share: if all > 0.0 { time.ns / all } else { 0.0 },
                ns_per_op: time.ns / operations.max(1) as f64,
                device: self.device.clone(),
                machine: self.machine.clone(),
            })
            .collect();
        rows.sort_by(|a, b| b.ms.total_cmp(&a.ms));
        rows
    }

    fn raw(&self, raw: raw::Raw) -> Result<Row, Error> {
        let (batch, kernel) = raw.measure(self.cuda.device(), &self.device, self.config.seconds)?;
        Ok(Row {
            subject: raw.subject(),
            returns: None,
            backend: "cuda".to_owned(),
            batch,
            threads: 1,
            memory: HostMemory::Pinned,
            kernel: Some(kernel),
            end_to_end: None,
            device: self.device.clone(),
            machine: self.machine.clone(),
        })
    }

    /// Returns pinned memory of at least `bytes` bytes.
    fn pinned_memory(&mut self, bytes: usize) -> Result<&mut Memory, Error> {
        let has = self.pinned.as_mut().map_or(0, |memory| memory.bytes().len());
        if has < bytes {
            // First back, then anew: both at once may be too much.
            self.pinned = None;
            let pinned = self.cuda.device().pin(bytes).map_err(|fault| {
                Error::NotReady(format!("{} MiB can't be pinned: {fault:?}", bytes >> 20))
            })?;
            self.pinned = Some(Memory::Pinned(pinned));
        }
        self.pinned.as_mut().ok_or_else(|| Error::NotReady("no memory".to_owned()))
    }
}

#[cfg(test)]
mod tests;
