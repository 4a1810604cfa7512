//! The provider in this process, through libcrypto. These tests run beside each other; what looks at the
//! whole process is in `whole_process`.

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
