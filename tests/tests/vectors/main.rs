//! Known answers: test vectors of standards and of other implementations.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.

mod artifacts;
mod composites;
mod cuda;
mod cuda_lms;
mod cuda_slh_dsa;
mod curves;
mod ed25519;
mod fn_dsa;
mod hybrids;
mod lms;
mod lms_sign;
mod ml_dsa;
mod ml_kem;
mod slh_dsa;
mod xmss;
