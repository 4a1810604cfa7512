//! The tests of published vectors that the crate `gabion-tests` has, as a program that needs nothing else of that crate: what
//! bench/gpu.sh takes to a machine with a GPU.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.

extern crate self as gabion_tests;

#[path = "../../../../tests/tests/vectors/cuda.rs"]
mod cuda;
#[path = "../../../../tests/tests/vectors/cuda_lms.rs"]
mod cuda_lms;
#[path = "../../../../tests/tests/vectors/cuda_slh_dsa.rs"]
mod cuda_slh_dsa;
#[allow(dead_code)] // Other tests use the rest.
#[path = "../../../../tests/src/vectors.rs"]
pub mod vectors;
