//! The C interface, from C and from Rust.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.

mod c;
mod hss;
mod key_batches;
mod randomness;
mod stateful;
