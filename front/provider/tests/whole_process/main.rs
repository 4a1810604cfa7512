//! Tests that look at the memory or the threads of the whole process, or fork it. They take turns.

// A panic is how a test fails, in the helpers too.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod calls;
mod fork;
mod pieces;
mod pools;
mod reload;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Waits until no other test of this program runs.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}
