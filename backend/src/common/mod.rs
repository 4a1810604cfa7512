//! Common parts of the instruction sets: schedules of sponges and chains, and tables of constants
//! that are computed at compile time.

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) mod chains;
pub(crate) mod constants;
#[cfg(target_arch = "x86_64")]
pub(crate) mod hash_based;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) mod memory;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) mod polynomials;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) mod sha2;
pub(crate) mod sha512;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) mod sponge;
