//! Handshakes in memory: gabion-rustls on one side or both, and rustls with aws-lc-rs on the other.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.
#![allow(clippy::result_large_err)] // A failure of a test may be as large as it likes.

mod default;
#[cfg(unix)]
mod forks;
mod groups;
mod observer;
mod pair;
mod points;
mod raw_keys;
mod repetition;
mod sessions;
mod shares;
mod signatures;
mod zeroization;
