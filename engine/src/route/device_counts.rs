//! Counts of the batches that an engine ran on devices.
//!
//! A backend without kernels is a device. Batches of self-tests are not counted, since no caller
//! requested them.

use std::sync::atomic::{AtomicU64, Ordering};

use gabion_backend::{BatchOutcome, Task};
use gabion_scheme::Algorithm;
use gabion_scheme::algorithms::ALGORITHMS;
use once_cell::race::OnceBox;

/// The counts of one operation of one algorithm on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceCounts {
    /// The backend's name.
    pub backend: &'static str,
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The requested task.
    pub task: Task,
    /// Lanes that it ran to their end.
    pub lanes: u64,
    /// The batches that they came in.
    pub batches: u64,
    /// Batches that it did not take.
    pub declined: u64,
    /// Batches that it lost, which another backend ran.
    pub lost: u64,
}

/// The function called at the end of each batch that was offered to a device. Threads call it
/// concurrently.
static WATCHER: OnceBox<fn(&DeviceCounts)> = OnceBox::new();

/// Registers a function that is called with the counts of each batch that an engine of this process
/// sends to a device: for frontends that count elsewhere. Only the first registration takes effect.
pub fn watch_devices(watcher: fn(&DeviceCounts)) {
    let _ = WATCHER.set(Box::new(watcher));
}

/// Operations of an algorithm, of which each has a place.
const TASKS: usize = 8;

#[derive(Default)]
struct Count {
    lanes: AtomicU64,
    batches: AtomicU64,
    declined: AtomicU64,
    lost: AtomicU64,
}

/// The counters of one device.
pub(super) struct Counters(Box<[Count]>);

impl Counters {
    pub(super) fn new() -> Self {
        Counters((0..ALGORITHMS.len() * TASKS).map(|_| Count::default()).collect())
    }

    /// Counts a batch.
    pub(super) fn add(
        &self,
        backend: &'static str,
        (algorithm, task): (Algorithm, Task),
        lanes: usize,
        ran: BatchOutcome,
    ) {
        let is = |of: BatchOutcome| u64::from(ran == of);
        let batches = is(BatchOutcome::Done);
        let (lanes, declined, lost) =
            (lanes as u64 * batches, is(BatchOutcome::Declined), is(BatchOutcome::Lost));
        let counts = DeviceCounts { backend, algorithm, task, lanes, batches, declined, lost };
        let count = &self.0[algorithm as usize * TASKS + task as usize];
        for (count, more) in [
            (&count.lanes, lanes),
            (&count.batches, batches),
            (&count.declined, declined),
            (&count.lost, lost),
        ] {
            count.fetch_add(more, Ordering::Relaxed);
        }
        if let Some(watcher) = WATCHER.get() {
            watcher(&counts);
        }
    }

    /// Returns the counts so far, without entries that are zero.
    pub(super) fn all(&self, backend: &'static str) -> Vec<DeviceCounts> {
        const ALL: [Task; TASKS] = [
            Task::Keygen,
            Task::DecodePublic,
            Task::DecodePrivate,
            Task::Encaps,
            Task::Decaps,
            Task::Derive,
            Task::Sign,
            Task::Verify,
        ];
        let mut counts = Vec::new();
        for algorithm in Algorithm::all() {
            for task in ALL {
                let count = &self.0[algorithm as usize * TASKS + task as usize];
                let read = |of: &AtomicU64| of.load(Ordering::Relaxed);
                let (lanes, batches) = (read(&count.lanes), read(&count.batches));
                let (declined, lost) = (read(&count.declined), read(&count.lost));
                if batches + declined + lost > 0 {
                    counts.push(DeviceCounts {
                        backend,
                        algorithm,
                        task,
                        lanes,
                        batches,
                        declined,
                        lost,
                    });
                }
            }
        }
        counts
    }
}

const _: () = assert!((Task::Verify as usize) < TASKS);
