//! A backend under self-test, monitored: which tasks it ran, and whether it lost a batch or lacked
//! memory.

use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};

use gabion_backend::portable::Portable;
use gabion_backend::{Backend, Batch, BatchOutcome, Cpu};
use gabion_scheme::Status;
use gabion_scheme::kernels::Kernels;

use super::test_record::{TaskSupport, Tasks};

pub(super) struct MonitoredBackend<'a> {
    backend: &'a dyn Backend,
    done: AtomicU16,
    declined: AtomicU16,
    lacked_memory: AtomicBool,
    lost: AtomicBool,
}

impl<'a> MonitoredBackend<'a> {
    pub(super) fn new(backend: &'a dyn Backend) -> Self {
        let (done, declined) = (AtomicU16::new(0), AtomicU16::new(0));
        let (lacked_memory, lost) = (AtomicBool::new(false), AtomicBool::new(false));
        MonitoredBackend { backend, done, declined, lacked_memory, lost }
    }

    /// Returns whether it lost a batch.
    pub(super) fn was_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    /// Returns whether a lane of it lacked memory.
    pub(super) fn lacked_memory(&self) -> bool {
        self.lacked_memory.load(Ordering::Relaxed)
    }

    pub(super) fn support(&self) -> TaskSupport {
        let tasks = |of: &AtomicU16| Tasks::from_bits(of.load(Ordering::Relaxed));
        TaskSupport::new(tasks(&self.done), tasks(&self.declined))
    }
}

impl Backend for MonitoredBackend<'_> {
    fn name(&self) -> &'static str {
        self.backend.name()
    }

    fn lanes(&self) -> usize {
        self.backend.lanes()
    }

    fn kernels(&self) -> Option<&dyn Kernels> {
        self.backend.kernels()
    }

    fn run(&self, batch: &mut Batch<'_>) -> BatchOutcome {
        let task = Tasks::single(batch.task()).bits();
        let ran = self.backend.run(batch);
        match ran {
            BatchOutcome::Done => {
                self.done.fetch_or(task, Ordering::Relaxed);
                if batch.status.contains(&Status::NoMemory) {
                    self.lacked_memory.store(true, Ordering::Relaxed);
                }
                ran
            }
            // So that the rest is tested, of which this may be the input.
            BatchOutcome::Declined => {
                self.declined.fetch_or(task, Ordering::Relaxed);
                batch.reset();
                Cpu::new(Portable).run(batch)
            }
            BatchOutcome::Lost => {
                self.lost.store(true, Ordering::Relaxed);
                ran
            }
        }
    }
}
