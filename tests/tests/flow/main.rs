//! The flows of the standards, step by step.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.

mod defects;
mod lms;
mod ml_dsa;
mod slh_dsa;
mod xmss;
