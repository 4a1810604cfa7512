//! Devices as one backend of an engine, which opens them when that pays.
//!
//! ```text
//!   engine --cost--> Offload: lanes too few, or nothing saved up yet? -> none: the processor's batch
//!                       |      enough saved up: open devices; read or measure what this operation takes
//!                       v
//!                     what the batch takes on the least busy device + what runs there
//!   engine --run---> Offload --> the least busy Cuda<D> --lost--> the next device --> .. --> lost
//! ```
//!
//! - A process that makes an engine loads nothing: [`Source::may_be_there`] looks at the file system. Devices are opened by
//!   the first batch that is asked of them, or by one whose cost is asked once its account says that this pays.
//! - Only a batch that is directed to a device by name waits while another thread opens or measures
//!   devices.
//! - A thread measures one operation at a time, and stores the result in a file.
//! - A forked child of a process that opened them has no devices; one of a process that had not yet has.

mod absent;
mod account;
mod curve;
mod file;
mod measure;
mod nvidia;
mod processor;
mod source;
mod unit;

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gabion_backend::{Backend, Batch, BatchOutcome, Task, cpus, forks, piece_of_processor};
use gabion_scheme::algorithms::{Algorithm, Family};
use once_cell::race::OnceBox;

pub use absent::Absent;
use account::Account;
pub use curve::{Curve, Row};
pub use file::{Costs, Stamp};
pub use measure::operations;
pub use nvidia::Driver;
use processor::{CostModel, MeteredProcessor};
pub use source::{DeviceDescription, Source};
use unit::Unit;

use crate::cuda::Cuda;

/// The savings required before devices are opened, and before an operation is measured: about the
/// cost of each.
const OPEN_NS: u64 = 1_000_000_000;
const MEASURE_NS: u64 = 250_000_000;
/// Bytes of a slot, of which a device has six; less on one that has little memory.
const SLOT_BYTES: u64 = 256 << 20;
const SLOT_PART: u64 = 32;
/// A batch whose chunk takes longer is lost.
const AT_MOST: Duration = Duration::from_secs(30);
/// Lanes of a piece of a large batch at least: some kernels have a thread a lane, and a device has as many.
const PIECE: usize = 8192;
/// The piece size of hash-based signatures, each of which has hundreds or thousands of parallel
/// chains.
const HASHED_PIECE: usize = 512;
/// The number of polls, each of a fixed time, for which a batch waits for another thread that opens
/// devices: 20 s.
const POLLS: usize = 20_000;
const POLL: Duration = Duration::from_millis(1);
/// A value that is not a process number.
const NOBODY: u64 = 0;

/// The devices of a source. A clone is the same.
pub struct Offload<S: Source>(Arc<Inner<S>>);

impl<S: Source> Clone for Offload<S> {
    fn clone(&self) -> Self {
        Offload(Arc::clone(&self.0))
    }
}

struct Inner<S: Source> {
    source: S,
    /// The folder of cost files.
    folder: Option<PathBuf>,
    /// The process that opens them or has.
    opener: AtomicU64,
    opened: OnceBox<Result<Vec<Unit<S::Device>>, Absent>>,
    account: Account,
    measures: AtomicBool,
    /// Whether the reason for missing devices was already reported.
    said: AtomicBool,
}

/// A device with its measurements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The device.
    pub about: DeviceDescription,
    /// The measured costs.
    pub costs: Costs,
    /// The file that stores them, if any.
    pub file: Option<PathBuf>,
}

impl<S: Source> Offload<S> {
    /// Returns the devices of a source, all of them closed. Measurements are kept in files under
    /// `$XDG_CACHE_HOME` or `~/.cache`.
    pub fn new(source: S) -> Self {
        Self::with_folder(source, file::folder())
    }

    /// Returns the devices of a source, with measured costs kept in `folder`, or in memory only.
    pub fn with_folder(source: S, folder: Option<PathBuf>) -> Self {
        Offload(Arc::new(Inner {
            source,
            folder,
            opener: AtomicU64::new(NOBODY),
            opened: OnceBox::new(),
            account: Account::default(),
            measures: AtomicBool::new(false),
            said: AtomicBool::new(false),
        }))
    }

    /// Returns the source of the devices.
    pub fn source(&self) -> &S {
        &self.0.source
    }

    /// Wraps a processor's backend so that it reports the cost of its batches, to choose between it and these devices. No
    /// engine does that today: devices are used only on request (ADR 0081).
    pub fn metered_processor(&self, processor: Box<dyn Backend>) -> Box<dyn Backend> {
        Box::new(MeteredProcessor::new(processor, self.clone()))
    }

    /// Returns whether devices were opened, or it was tried.
    pub fn is_opened(&self) -> bool {
        self.0.opened.get().is_some()
    }

    /// Opens all devices, and returns a report of each.
    ///
    /// # Errors
    /// The reason why there is no device.
    pub fn report(&self) -> Result<Vec<Report>, Absent> {
        let report = |unit: &Unit<S::Device>| {
            let (about, costs) = (unit.about.clone(), unit.costs());
            Report { about, costs, file: unit.file.clone() }
        };
        Ok(self.open_or_wait()?.iter().map(report).collect())
    }

    /// Measures operations on every device, calls `tell` before each of them, and stores the times
    /// for later processes in place of the stored ones; this process continues with the times it
    /// already used. Each report comes with the result of storing it.
    ///
    /// # Errors
    /// The reason why there is no device.
    pub fn measure(
        &self,
        operations: &[(Algorithm, Task)],
        mut tell: impl FnMut(&DeviceDescription, Algorithm, Task),
    ) -> Result<Vec<(Report, std::io::Result<()>)>, Absent> {
        let processor = cpus().remove(0);
        let mut reports = Vec::new();
        for unit in self.open_or_wait()? {
            let mut rows = Vec::new();
            for &(algorithm, task) in operations {
                tell(&unit.about, algorithm, task);
                rows.extend(row(&unit.cuda, &*processor, algorithm, task));
            }
            let costs = Costs { stamp: unit.stamp.clone(), measured: unix_seconds(), rows };
            let kept = unit.file.as_ref().map_or(Ok(()), |file| file::write(file, &costs));
            costs.rows.iter().for_each(|row| unit.learn(row.clone(), costs.measured));
            let about = unit.about.clone();
            reports.push((Report { about, costs, file: unit.file.clone() }, kept));
        }
        Ok(reports)
    }

    /// The devices, if they are opened, and by this process.
    fn units(&self) -> Option<&[Unit<S::Device>]> {
        let units = self.0.opened.get()?.as_ref().ok()?;
        units.iter().all(|unit| unit.cuda.is_here()).then_some(units)
    }

    /// The devices; opens them unless another thread does, for which it waits.
    fn open_or_wait(&self) -> Result<&[Unit<S::Device>], Absent> {
        self.open();
        let this = this_process();
        for _ in 0..POLLS {
            if let Some(opened) = self.0.opened.get() {
                return opened.as_deref().map_err(Clone::clone);
            }
            if self.0.opener.load(Ordering::Acquire) != this {
                break;
            }
            thread::sleep(POLL);
        }
        // In a child that was forked meanwhile, or behind a driver that does not answer.
        Err(Absent::Unusable("another thread did not open it in time".to_owned()))
    }

    /// Opens the devices, unless that was begun before.
    fn open(&self) {
        let order = (Ordering::AcqRel, Ordering::Acquire);
        if self.0.opener.compare_exchange(NOBODY, this_process(), order.0, order.1).is_err() {
            return;
        }
        let processor = cpus().remove(0).name();
        let folder = self.0.folder.as_ref();
        let opened = self.0.source.open().map(|found| {
            let unit = |(about, device): (DeviceDescription, S::Device)| {
                let slot = SLOT_BYTES.min(about.memory_bytes / SLOT_PART);
                let cuda = Cuda::new(device, usize::try_from(slot).unwrap_or(0), AT_MOST);
                Unit::new(about, cuda, processor, folder)
            };
            found.into_iter().map(unit).collect()
        });
        let _ = self.0.opened.set(Box::new(opened));
    }

    /// Returns the measured costs of an operation on the least busy device, and how busy that is; opens and measures if
    /// the batch that it is asked for pays.
    fn row_for(&self, algorithm: Algorithm, task: Task, lanes: usize) -> Option<(&Row, u64)> {
        if !takes(algorithm) {
            return None;
        }
        if !self.is_opened() {
            if !self.0.account.pays(lanes, OPEN_NS) {
                return None;
            }
            self.open();
        }
        let units = self.units()?;
        let unit = least_busy(units, 0).map(|(_, unit)| unit)?;
        let row = match unit.row(algorithm, task) {
            Some(row) => row,
            None => self.measure_row(unit, algorithm, task, lanes)?,
        };
        Some((row, unit.busy_ns()))
    }

    /// Measures one operation, if the batch pays that and no other thread measures.
    fn measure_row<'a>(
        &self,
        unit: &'a Unit<S::Device>,
        algorithm: Algorithm,
        task: Task,
        lanes: usize,
    ) -> Option<&'a Row> {
        if !Account::may_pay(lanes)
            || !operations().any(|operation| operation == (algorithm, task))
            || self.0.measures.load(Ordering::Acquire)
            || !self.0.account.pays(lanes, MEASURE_NS)
            || self.0.measures.swap(true, Ordering::AcqRel)
        {
            return None;
        }
        let made = row(&unit.cuda, &*cpus().remove(0), algorithm, task);
        if let Some(made) = made {
            unit.learn(made, unix_seconds());
            if let Some(file) = &unit.file {
                // Without it the next process measures again.
                let _ = file::write(file, &unit.costs());
            }
        }
        self.0.measures.store(false, Ordering::Release);
        unit.row(algorithm, task)
    }

    /// Reports once, on standard error, why there is no device.
    fn report_absence(&self, why: &Absent) {
        if !self.0.said.swap(true, Ordering::Relaxed) {
            let _ = writeln!(std::io::stderr(), "gabion: backend cuda: {why}");
        }
    }
}

impl<S: Source> CostModel for Offload<S> {
    fn processor_cost(&self, algorithm: Algorithm, task: Task, lanes: usize) -> Option<u64> {
        self.row_for(algorithm, task, lanes)?.0.processor.at(lanes)
    }

    fn record_time(&self, algorithm: Algorithm, ns: u64) {
        if takes(algorithm) {
            self.0.account.add(ns);
        }
    }
}

/// Measures one operation on a device and on the host processor.
fn row(
    device: &dyn Backend,
    processor: &dyn Backend,
    algorithm: Algorithm,
    task: Task,
) -> Option<Row> {
    let operation = (algorithm, task);
    let device = measure::measure(device, processor, operation, measure::DEVICE_LANES)?;
    let processor = if device.points().is_empty() {
        Curve::default()
    } else {
        measure::measure(processor, processor, operation, measure::PROCESSOR_LANES)?
    };
    Some(Row { algorithm, task, device, processor })
}

/// Returns whether devices do anything of an algorithm.
fn takes(algorithm: Algorithm) -> bool {
    use Family::{Hss, MlDsa, MlKem, SlhDsa, Xmss};
    matches!(algorithm.info().family, MlKem | MlDsa | SlhDsa | Hss | Xmss)
}

/// The device with the least to do of those whose bit is not in `tried`: one that lost a batch lately comes last.
fn least_busy<D: crate::Device>(units: &[Unit<D>], tried: u64) -> Option<(usize, &Unit<D>)> {
    let untried = |&(at, _): &(usize, &Unit<D>)| at < 64 && tried >> at & 1 == 0;
    let all = units.iter().enumerate().filter(untried);
    all.min_by_key(|(_, unit)| (unit.is_backing_off(), unit.busy_ns()))
}

/// A number of this process that no child has.
fn this_process() -> u64 {
    forks::token().unwrap_or(u64::MAX)
}

/// Seconds since 1970.
fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

impl<S: Source> Backend for Offload<S> {
    fn name(&self) -> &'static str {
        "cuda"
    }

    fn lanes(&self) -> usize {
        PIECE
    }

    fn takes(&self, algorithm: Algorithm) -> bool {
        takes(algorithm)
    }

    fn run(&self, batch: &mut Batch<'_>) -> BatchOutcome {
        let units = match self.open_or_wait() {
            Ok(units) => units,
            Err(why) => {
                self.report_absence(&why);
                return BatchOutcome::Lost;
            }
        };
        let (algorithm, task, lanes) = (batch.algorithm(), batch.task(), batch.lanes());
        let (mut tried, mut answer) = (0, BatchOutcome::Declined);
        while let Some((at, unit)) = least_busy(units, tried) {
            tried |= 1 << at;
            let running = unit.begin(algorithm, task, lanes);
            let ran = unit.cuda.run(batch);
            drop(running);
            match ran {
                BatchOutcome::Done => return BatchOutcome::Done,
                BatchOutcome::Declined => {}
                BatchOutcome::Lost => {
                    // Whatever it left there is not the next one's.
                    batch.reset();
                    unit.back_off();
                    answer = BatchOutcome::Lost;
                }
            }
        }
        answer
    }

    fn knows_costs(&self) -> bool {
        true
    }

    fn cost(&self, algorithm: Algorithm, task: Task, lanes: usize) -> Option<u64> {
        let (row, busy) = self.row_for(algorithm, task, lanes)?;
        Some(row.device.at(lanes)?.saturating_add(busy))
    }

    fn piece(&self, algorithm: Algorithm, task: Task) -> usize {
        match (algorithm.info().family, task) {
            // Keys that are made for use are made on the processor, and go by the same name.
            (Family::MlKem | Family::MlDsa, Task::Keygen) => piece_of_processor(algorithm, task),
            (Family::MlKem | Family::MlDsa, _) => PIECE,
            _ => HASHED_PIECE,
        }
    }
}
