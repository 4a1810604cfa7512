//! Backends that fail, and what callers bring that is no key and no signature.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.

mod faults;
mod garbage;
