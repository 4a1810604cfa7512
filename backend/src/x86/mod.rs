//! Common parts of the kernels of AVX2 and AVX-512: the SHA extensions, and properties of a
//! processor.

pub(crate) mod processor;
#[cfg(not(emulated_lanes))]
pub(crate) mod sha_ni;

// The module `sha_ni`, over emulated instructions.
#[cfg(emulated_lanes)]
include!(concat!(env!("OUT_DIR"), "/emulated_sha_ni.rs"));
