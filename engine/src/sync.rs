//! Locks, as the standard library has them or as loom models them (`--cfg loom`, for
//! `cargo test loom`, which tries every interleaving of a few threads).

#[cfg(not(loom))]
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};

#[cfg(loom)]
pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};

use std::sync::PoisonError;

/// Locks a mutex, ignoring poisoning: every critical section leaves its data consistent before it
/// calls anything that may panic.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until `is_over` says so.
pub(crate) fn wait_until<'a, T>(
    changed: &Condvar,
    mut guard: MutexGuard<'a, T>,
    is_over: impl Fn(&T) -> bool,
) -> MutexGuard<'a, T> {
    while !is_over(&guard) {
        guard = changed.wait(guard).unwrap_or_else(PoisonError::into_inner);
    }
    guard
}
