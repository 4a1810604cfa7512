//! The state under faults, on a simulated disk, and on a real one.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.

mod attacks;
mod broken_ledgers;
mod evidence;
mod faults;
mod homes;
mod real_disk;
mod resumable;
mod sectors;
mod signer;
mod simulation;
mod test_home;
