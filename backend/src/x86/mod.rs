//! What kernels of AVX2 and of AVX-512 share: the SHA extensions, and what is to be known of a processor.

pub(crate) mod processor;
#[cfg(not(emulated_lanes))]
pub(crate) mod sha_ni;

// The module `sha_ni`, over emulated instructions.
#[cfg(emulated_lanes)]
include!(concat!(env!("OUT_DIR"), "/emulated_sha_ni.rs"));
