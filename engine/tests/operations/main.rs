//! The engine's operations, through every entry point.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.

mod batches;
mod curves;
mod devices;
mod ed25519;
mod fn_dsa;
mod hss;
mod identity;
mod parallel;
mod single;
mod stateful_hss;
mod stateful_xmss;
mod verdicts;
mod x25519;
mod xmss;
