//! What can run a batch.
//!
//! ```text
//!   engine --Batch--> Backend::run        one operation, one parameter set, many lanes
//!                        |
//!                        +-- cpu::Cpu<K>  the flows of gabion-scheme over the kernels K
//!                              K = portable::Portable | avx512::Avx512
//! ```
//!
//! [`batch`] holds the seam; [`cpus`] lists what this machine can run, best first.

#[cfg(target_arch = "x86_64")]
pub mod avx512;
pub mod batch;
pub mod cpu;
pub mod portable;

pub use batch::{Backend, Batch, Keys, Operation, Task};
pub use cpu::{Cpu, cpus};
