//! A device as a backend.

use gabion_backend::{Backend, Batch, BatchOutcome, Operation};

use crate::cuda::Cuda;
use crate::device::Device;
use crate::{dsa, hss, kem, slh, xmss};

impl<D: Device> Backend for Cuda<D> {
    fn name(&self) -> &'static str {
        "cuda"
    }

    fn lanes(&self) -> usize {
        self.slots()
    }

    fn run(&self, batch: &mut Batch<'_>) -> BatchOutcome {
        if !self.is_here() {
            return BatchOutcome::Lost;
        }
        let status = &mut *batch.status;
        match &mut batch.operation {
            Operation::Kem(operation) => kem::run(self, operation, status),
            Operation::Dsa(operation) => dsa::run(self, operation, status),
            Operation::Slh(operation) => slh::run(self, operation, status),
            Operation::Hss(operation) => hss::run(self, operation, status),
            Operation::Xmss(operation) => xmss::run(self, operation, status),
            Operation::Ed25519(_) | Operation::FnDsa(_) | Operation::X25519(_) => {
                BatchOutcome::Declined
            }
        }
    }
}
