//! A processor beside devices: it says what its batches cost, and puts by what they took.

use std::time::Instant;

use gabion_backend::{Backend, Batch, Ran, Task};
use gabion_scheme::algorithms::Algorithm;
use gabion_scheme::kernels::Kernels;

/// What a processor's batches are compared with.
pub(super) trait Beside: Send + Sync {
    /// What a batch takes on one thread, if that was measured.
    fn processor_cost(&self, algorithm: Algorithm, task: Task, lanes: usize) -> Option<u64>;

    /// Takes notice of a batch that a device might have run.
    fn took(&self, algorithm: Algorithm, ns: u64);
}

/// Batches of fewer lanes are not timed.
const TIMED_LANES: usize = 16;

pub(super) struct Priced<B: Beside> {
    processor: Box<dyn Backend>,
    beside: B,
}

impl<B: Beside> Priced<B> {
    pub(super) fn new(processor: Box<dyn Backend>, beside: B) -> Self {
        Priced { processor, beside }
    }
}

impl<B: Beside> Backend for Priced<B> {
    fn name(&self) -> &'static str {
        self.processor.name()
    }

    fn lanes(&self) -> usize {
        self.processor.lanes()
    }

    fn takes(&self, algorithm: Algorithm) -> bool {
        self.processor.takes(algorithm)
    }

    fn kernels(&self) -> Option<&dyn Kernels> {
        self.processor.kernels()
    }

    fn run(&self, batch: &mut Batch<'_>) -> Ran {
        if batch.lanes() < TIMED_LANES {
            return self.processor.run(batch);
        }
        let start = Instant::now();
        let ran = self.processor.run(batch);
        let ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.beside.took(batch.algorithm(), ns);
        ran
    }

    fn knows_costs(&self) -> bool {
        true
    }

    fn cost(&self, algorithm: Algorithm, task: Task, lanes: usize) -> Option<u64> {
        self.beside.processor_cost(algorithm, task, lanes)
    }

    fn piece(&self, algorithm: Algorithm, task: Task) -> usize {
        self.processor.piece(algorithm, task)
    }
}
