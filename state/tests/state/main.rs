//! The state under faults, on a simulated disk, and on a real one.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.

mod attacks;
mod broken;
mod evidence;
mod faults;
mod homes;
mod making;
mod place;
mod real;
mod sectors;
mod signer;
mod world;
