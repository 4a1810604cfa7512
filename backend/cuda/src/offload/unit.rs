//! One device among several, with what is known of it.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use gabion_backend::Task;
use gabion_scheme::algorithms::{ALGORITHMS, Algorithm};
use once_cell::race::OnceBox;

use super::curve::Row;
use super::file::{self, Costs, Stamp};
use super::source::DeviceDescription;
use crate::cuda::Cuda;
use crate::device::Device;

/// Kinds of operations, of which each has a place in the table of costs.
const TASKS: usize = 8;
/// The time for which a device is avoided after it lost a batch, if there are others.
const REST: Duration = Duration::from_secs(1);
/// The assumed time of batches with unknown cost, in nanoseconds a lane.
const LANE_NS: u64 = 1_000;

pub(super) struct Unit<D: Device> {
    pub(super) about: DeviceDescription,
    pub(super) cuda: Cuda<D>,
    pub(super) stamp: Stamp,
    /// The file with its costs, if any.
    pub(super) file: Option<PathBuf>,
    /// The measurements, by algorithm and task.
    rows: Box<[OnceBox<Row>]>,
    /// The time of the last measurement, in seconds since 1970; 0 before the first one.
    measured: AtomicU64,
    /// The expected time of all running batches, in nanoseconds.
    busy: AtomicU64,
    /// Until when it is left alone, in milliseconds since `origin`.
    rests: AtomicU64,
    origin: Instant,
}

/// A batch that is running on a unit.
pub(super) struct RunningBatch<'a> {
    busy: &'a AtomicU64,
    ns: u64,
}

impl Drop for RunningBatch<'_> {
    fn drop(&mut self) {
        self.busy.fetch_sub(self.ns, Ordering::Relaxed);
    }
}

impl<D: Device> Unit<D> {
    /// Creates a device with the costs in its file.
    pub(super) fn new(
        about: DeviceDescription,
        cuda: Cuda<D>,
        processor: &str,
        folder: Option<&PathBuf>,
    ) -> Self {
        let stamp = Stamp {
            gabion: env!("CARGO_PKG_VERSION").to_owned(),
            device: about.name.clone(),
            driver: about.driver.clone(),
            processor: processor.to_owned(),
        };
        let file = folder.map(|folder| file::place(folder, &about.uuid));
        let rows = (0..ALGORITHMS.len() * TASKS).map(|_| OnceBox::new()).collect();
        let [measured, busy, rests] = [0; 3].map(AtomicU64::new);
        let origin = Instant::now();
        let unit = Unit { about, cuda, stamp, file, rows, measured, busy, rests, origin };
        let known = unit.file.as_ref().and_then(|file| file::read(file, &unit.stamp));
        if let Some(Costs { measured, rows, .. }) = known {
            rows.into_iter().for_each(|row| unit.learn(row, measured));
        }
        unit
    }

    /// Returns the measurement of an operation.
    pub(super) fn row(&self, algorithm: Algorithm, task: Task) -> Option<&Row> {
        self.rows.get(algorithm as usize * TASKS + task as usize)?.get()
    }

    /// Stores a row for the rest of the process, unless the operation has one already.
    pub(super) fn learn(&self, row: Row, measured: u64) {
        let place = row.algorithm as usize * TASKS + row.task as usize;
        if let Some(place) = self.rows.get(place) {
            let _ = place.set(Box::new(row));
            self.measured.fetch_max(measured, Ordering::Relaxed);
        }
    }

    /// All that was measured.
    pub(super) fn costs(&self) -> Costs {
        let rows = self.rows.iter().filter_map(OnceBox::get).cloned().collect();
        let measured = self.measured.load(Ordering::Relaxed);
        Costs { stamp: self.stamp.clone(), measured, rows }
    }

    /// Returns the estimated time of the batches that run on the device, in nanoseconds.
    pub(super) fn busy_ns(&self) -> u64 {
        self.busy.load(Ordering::Relaxed)
    }

    /// Counts a batch as long as the answer lives.
    pub(super) fn begin(&self, algorithm: Algorithm, task: Task, lanes: usize) -> RunningBatch<'_> {
        let known = self.row(algorithm, task).and_then(|row| row.device.at(lanes));
        // No sum of so many batches as there are threads goes beyond the number.
        let ns = known.unwrap_or(LANE_NS.saturating_mul(lanes as u64)).min(u64::MAX >> 20);
        self.busy.fetch_add(ns, Ordering::Relaxed);
        RunningBatch { busy: &self.busy, ns }
    }

    /// Excludes the device from batches for a while.
    pub(super) fn back_off(&self) {
        self.rests.store(self.now() + REST.as_millis() as u64, Ordering::Relaxed);
    }

    /// Returns whether the device is excluded from batches.
    pub(super) fn is_backing_off(&self) -> bool {
        self.now() < self.rests.load(Ordering::Relaxed)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

const _: () = assert!((Task::Verify as usize) < TASKS);
