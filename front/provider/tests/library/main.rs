//! The provider in this process, through libcrypto. These tests run in parallel; those that examine
//! the whole process are in `whole_process`.

// A panic is how a test fails, in the helpers too.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod exchange;
mod files;
mod hss;
mod hybrids;
mod interop;
mod parity;
mod signatures;
mod stateful;
mod threads;
