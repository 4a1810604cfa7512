//! What can run a batch.
//!
//! ```text
//!   engine --Batch--> Backend::run        one operation, one parameter set, many lanes
//!                        |
//!                        +-- cpu::Cpu<K>  the flows of gabion-scheme over the kernels K
//!                              K = portable::Portable | avx2::Avx2 | avx512::Avx512
//! ```
//!
//! [`batch`] holds the seam; [`cpus`] lists what this machine can run, best first.

#[cfg(target_arch = "x86_64")]
pub mod avx2;
#[cfg(target_arch = "x86_64")]
pub mod avx512;
pub mod batch;
mod constants;
pub mod cpu;
#[cfg(target_arch = "x86_64")]
mod memory;
pub mod portable;
#[cfg(target_arch = "x86_64")]
mod sha2;
#[cfg(target_arch = "x86_64")]
mod sha_ni;
#[cfg(target_arch = "x86_64")]
mod slh;
#[cfg(target_arch = "x86_64")]
mod sponge;
#[cfg(all(test, target_arch = "x86_64"))]
mod tests;

pub use batch::{Backend, Batch, Ed25519, FnDsa, Keys, Operation, Slh, Task};
pub use cpu::{Cpu, cpus};
