//! The processor's backend, metered: it reports the cost of its batches and records how long they
//! take.

use std::time::Instant;

use gabion_backend::{Backend, Batch, BatchOutcome, Task};
use gabion_scheme::algorithms::Algorithm;
use gabion_scheme::kernels::Kernels;

/// The measured costs that a processor's batches are compared by.
pub(super) trait CostModel: Send + Sync {
    /// Returns the time of a batch on one thread, if that was measured.
    fn processor_cost(&self, algorithm: Algorithm, task: Task, lanes: usize) -> Option<u64>;

    /// Records the duration of a batch that a device might have run.
    fn record_time(&self, algorithm: Algorithm, ns: u64);
}

/// Batches of fewer lanes are not timed.
const TIMED_LANES: usize = 16;

pub(super) struct MeteredProcessor<B: CostModel> {
    processor: Box<dyn Backend>,
    costs: B,
}

impl<B: CostModel> MeteredProcessor<B> {
    pub(super) fn new(processor: Box<dyn Backend>, costs: B) -> Self {
        MeteredProcessor { processor, costs }
    }
}

impl<B: CostModel> Backend for MeteredProcessor<B> {
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

    fn run(&self, batch: &mut Batch<'_>) -> BatchOutcome {
        if batch.lanes() < TIMED_LANES {
            return self.processor.run(batch);
        }
        let start = Instant::now();
        let ran = self.processor.run(batch);
        let ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.costs.record_time(batch.algorithm(), ns);
        ran
    }

    fn knows_costs(&self) -> bool {
        true
    }

    fn cost(&self, algorithm: Algorithm, task: Task, lanes: usize) -> Option<u64> {
        self.costs.processor_cost(algorithm, task, lanes)
    }

    fn piece(&self, algorithm: Algorithm, task: Task) -> usize {
        self.processor.piece(algorithm, task)
    }
}
