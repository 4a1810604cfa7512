//! Group commit without a thread: of the threads that wait for the disk, one syncs for all.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::error::AuditError;

/// The state of syncing.
#[derive(Default)]
pub struct Syncs {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The number of synced records.
    synced: u64,
    /// Whether a thread is syncing.
    runs: bool,
    /// The error after which syncing is impossible.
    failed: Option<AuditError>,
}

impl Syncs {
    /// Returns the number of synced records.
    pub fn synced(&self) -> u64 {
        self.state().synced
    }

    /// Notes that records were synced by other means.
    pub fn raise(&self, synced: u64) {
        let mut state = self.state();
        state.synced = state.synced.max(synced);
        drop(state);
        self.changed.notify_all();
    }

    /// Waits until `size` records are synced. If no thread is syncing, this one does, by calling
    /// `sync`. `sync` returns the number of records that were written before it started.
    ///
    /// # Errors
    /// A failed sync, now and on every later call: after a failed sync the content of the disk is
    /// unknown.
    pub fn wait(
        &self,
        wanted: u64,
        sync: impl Fn() -> Result<u64, AuditError>,
    ) -> Result<(), AuditError> {
        let mut state = self.state();
        loop {
            if state.synced >= wanted {
                return Ok(());
            }
            if let Some(error) = &state.failed {
                return Err(error.clone());
            }
            if state.runs {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            state.runs = true;
            drop(state);
            let runs = SyncGuard(self);
            let synced = sync();
            state = self.state();
            // Clear `runs` together with storing the result, not before: the kernel reports a
            // failed sync only once, and the next sync would succeed.
            state.runs = false;
            std::mem::forget(runs);
            match synced {
                Ok(synced) => state.synced = state.synced.max(synced),
                Err(error) => state.failed = Some(error),
            }
            self.changed.notify_all();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A guard for the running sync, which also ends it on a panic.
struct SyncGuard<'s>(&'s Syncs);

impl Drop for SyncGuard<'_> {
    fn drop(&mut self) {
        self.0.state().runs = false;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use super::*;

    #[test]
    fn concurrent_waiters_share_one_sync() {
        let (syncs, written, ran) = (Syncs::default(), AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        let wanted = written.fetch_add(1, Ordering::SeqCst) + 1;
                        let sync = || {
                            let before = written.load(Ordering::SeqCst);
                            std::thread::sleep(Duration::from_micros(300));
                            ran.fetch_add(1, Ordering::SeqCst);
                            Ok(before)
                        };
                        syncs.wait(wanted, sync).unwrap();
                        assert!(syncs.synced() >= wanted);
                    }
                });
            }
        });
        assert_eq!(syncs.synced(), 160);
        assert!(ran.load(Ordering::SeqCst) < 100, "{ran:?} syncs of 160 records by 8 threads");
    }

    #[test]
    fn a_sync_that_failed_is_never_taken_back() {
        let syncs = Syncs::default();
        syncs.wait(1, || Ok(1)).unwrap();
        assert_eq!(syncs.wait(2, || Err(AuditError::Full)), Err(AuditError::Full));
        assert_eq!(syncs.wait(2, || Ok(2)), Err(AuditError::Full));
        assert_eq!(syncs.wait(1, || Ok(2)), Ok(()), "that was synced before");
    }

    /// The kernel reports a failed sync once, and the next sync of the same file would succeed. So
    /// no waiting thread may start a sync after a failed one, however close behind it is.
    #[test]
    fn no_waiter_syncs_after_a_failed_sync() {
        for _ in 0..300 {
            let (syncs, ran) = (Syncs::default(), AtomicU64::new(0));
            let waiting = AtomicU64::new(0);
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        waiting.fetch_add(1, Ordering::SeqCst);
                        let sync = || {
                            while waiting.load(Ordering::SeqCst) < 4 {
                                std::thread::yield_now();
                            }
                            match ran.fetch_add(1, Ordering::SeqCst) {
                                0 => Err(AuditError::Full),
                                _ => Ok(1),
                            }
                        };
                        assert_eq!(syncs.wait(1, sync), Err(AuditError::Full));
                    });
                }
            });
            assert_eq!(ran.load(Ordering::SeqCst), 1);
        }
    }
}
