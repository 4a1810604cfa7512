//! Backends that run batches.
//!
//! ```text
//!   engine --Batch--> Backend::run        one operation, one parameter set, many lanes
//!                        |
//!                        +-- cpu::Cpu<K>  the flows of gabion-scheme over the kernels K
//!                              K = portable::Portable | avx2::Avx2 | avx512::Avx512 | neon::Neon
//! ```
//!
//! [`batch`] defines the interface; [`cpus`] lists the backends that this machine supports, best
//! first. [`ecc`] has curves, whose operations run one by one.

#[cfg(target_arch = "x86_64")]
#[cfg_attr(emulated_lanes, allow(unused_unsafe))] // It calls `sha_ni`.
pub mod avx2;
#[cfg(all(target_arch = "x86_64", not(emulated_lanes)))]
pub mod avx512;
pub mod batch;
pub mod cpu;
pub mod ecc;
#[cfg(all(target_arch = "x86_64", any(test, emulated_lanes)))]
mod emulation;
pub mod forks;
pub mod host;
#[cfg(target_arch = "aarch64")]
pub mod neon;
pub mod portable;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
pub mod reserve;
/// No reserve on this platform: a failed allocation ends the process.
#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
pub mod reserve {
    /// Returns whether an operation may begin.
    #[must_use]
    pub fn has_memory() -> bool {
        true
    }
}
mod common;
pub mod rights;
mod sha512;
#[cfg(all(test, any(target_arch = "x86_64", target_arch = "aarch64")))]
#[allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.
mod tests;
#[cfg(target_arch = "x86_64")]
#[cfg_attr(emulated_lanes, allow(unused_unsafe))] // Emulated instructions need no `unsafe`.
mod x86;

// The module `avx512`, over emulated instructions.
#[cfg(all(target_arch = "x86_64", emulated_lanes))]
include!(concat!(env!("OUT_DIR"), "/emulated.rs"));

pub use batch::{
    Backend, Batch, BatchOutcome, Dsa, Ed25519, FnDsa, Hss, Kem, Keys, Operation, Slh, Task,
    X25519, Xmss, piece_of_processor,
};
pub use cpu::{Cpu, cpus};
pub use sha512::Sha512Blocks;

/// Empties the upper parts of the vector registers, for after code of other people's that leaves them in use:
/// to go from an instruction of SSE to one of AVX takes Intel's processors hundreds of cycles then. Kernels
/// here leave them empty by themselves.
#[inline]
pub fn empty_upper_halves() {
    #[cfg(target_arch = "x86_64")]
    x86::processor::empty_upper_halves();
}
