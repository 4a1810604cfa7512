//! The flows of the standards on a processor: one backend for each set of kernels.

mod dsa;
mod ed25519;
mod fn_dsa;
mod hss;
mod kem;
mod scratch;
mod slh;
mod x25519;
mod xmss;

use gabion_scheme::algorithms::Family;
use gabion_scheme::error::Status;
use gabion_scheme::kernels::Kernels;

use crate::batch::{Backend, Batch, BatchOutcome, Operation};
use scratch::Scratch;

/// A processor as a backend, over the kernels `K`.
pub struct Cpu<K: Kernels>(K);

impl<K: Kernels> Cpu<K> {
    /// A backend over these kernels.
    pub fn new(kernels: K) -> Self {
        Cpu(kernels)
    }
}

/// Every processor backend that this machine can run, best first; the portable one is always there.
pub fn cpus() -> Vec<Box<dyn Backend>> {
    let mut all: Vec<Box<dyn Backend>> = Vec::new();
    #[cfg(target_arch = "x86_64")]
    if let Some(kernels) = crate::avx512::Avx512::detect() {
        all.push(Box::new(Cpu::new(kernels)));
        #[cfg(emulated_lanes)]
        all.push(Box::new(Cpu::new(kernels.with_lanes())));
    }
    #[cfg(target_arch = "x86_64")]
    if let Some(kernels) = crate::avx2::Avx2::detect() {
        all.push(Box::new(Cpu::new(kernels)));
        #[cfg(emulated_lanes)]
        all.push(Box::new(Cpu::new(kernels.without_sha())));
    }
    #[cfg(target_arch = "aarch64")]
    if let Some(kernels) = crate::neon::Neon::detect() {
        all.push(Box::new(Cpu::new(kernels)));
    }
    all.push(Box::new(Cpu::new(crate::portable::Portable)));
    all
}

impl<K: Kernels> Backend for Cpu<K> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn lanes(&self) -> usize {
        self.0.lanes()
    }

    fn kernels(&self) -> Option<&dyn Kernels> {
        Some(&self.0)
    }

    fn run(&self, batch: &mut Batch<'_>) -> BatchOutcome {
        scratch::with(|scratch| run(&self.0, batch, scratch))
    }
}

/// Runs the batch by its family.
fn run<K: Kernels>(k: &K, batch: &mut Batch<'_>, scratch: &mut Scratch) -> BatchOutcome {
    let status = &mut *batch.status;
    match &mut batch.operation {
        Operation::Kem(operation) if Family::MlKem.is_built() => {
            kem::run(k, operation, status, &mut scratch.kem);
        }
        Operation::Dsa(operation) if Family::MlDsa.is_built() => {
            dsa::run(k, operation, status, &mut scratch.dsa);
        }
        Operation::Slh(operation) if Family::SlhDsa.is_built() => {
            slh::run(k, operation, status, &mut scratch.slh);
        }
        Operation::Ed25519(operation) if Family::Ed25519.is_built() => {
            ed25519::run(k, operation, status);
        }
        Operation::FnDsa(operation) if Family::FnDsa.is_built() => fn_dsa::run(operation, status),
        Operation::Hss(operation) if Family::Hss.is_built() => {
            hss::run(k, operation, status, &mut scratch.hss);
        }
        Operation::X25519(operation) if Family::Ecdh.is_built() => {
            x25519::run(k, operation, status);
        }
        Operation::Xmss(operation) if Family::Xmss.is_built() => {
            xmss::run(k, operation, status, &mut scratch.xmss);
        }
        // Of a family that is not in this build, which the engine has refused.
        Operation::Kem(_)
        | Operation::Dsa(_)
        | Operation::Slh(_)
        | Operation::Ed25519(_)
        | Operation::FnDsa(_)
        | Operation::Hss(_)
        | Operation::X25519(_)
        | Operation::Xmss(_) => return BatchOutcome::Declined,
    }
    BatchOutcome::Done
}

/// Clears the output of every lane that did not succeed.
fn zero_failed(status: &[Status], out: &mut [u8], len: usize) {
    for (status, out) in status.iter().zip(out.chunks_exact_mut(len)) {
        if !status.is_ok() {
            out.fill(0);
        }
    }
}
