//! Polynomials of ML-KEM and ML-DSA: transforms, sampling, rounding, packing.

mod constants;
pub(super) mod dsa_ntt;
pub(super) mod dsa_pack;
pub(super) mod dsa_round;
pub(super) mod dsa_small;
pub(super) mod kem_ntt;
pub(super) mod kem_pack;
pub(super) mod kem_sample;
mod pack;
mod shuffle;
