//! Panics of background threads: each is counted, and the thread continues.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A background thread.
#[derive(Clone, Copy)]
pub enum BackgroundThread {
    /// The thread that makes checkpoints and prepares segments of the log.
    Clock,
    /// The thread that copies checkpoints to the second folder.
    CheckpointMirror,
    /// The thread that rotates keys that are due.
    Rotation,
    /// The thread that reloads changed TLS files.
    Tls,
}

impl BackgroundThread {
    const ALL: [(BackgroundThread, &'static str); 4] = [
        (BackgroundThread::Clock, "clock"),
        (BackgroundThread::CheckpointMirror, "copies"),
        (BackgroundThread::Rotation, "rotation"),
        (BackgroundThread::Tls, "tls"),
    ];
}

/// Counts the panics of background threads.
#[derive(Default)]
pub struct PanicCounters([ThreadPanics; BackgroundThread::ALL.len()]);

/// The panics of one thread.
#[derive(Default)]
struct ThreadPanics {
    panics: AtomicU64,
    /// Whether its last round panicked.
    has_failed: AtomicBool,
}

impl PanicCounters {
    /// Runs one round of a thread and counts its panic.
    pub fn catch<T>(&self, of: BackgroundThread, run: impl FnOnce() -> T) -> Option<T> {
        let ran = catch_unwind(AssertUnwindSafe(run)).ok();
        let thread = &self.0[of as usize];
        if ran.is_none() {
            thread.panics.fetch_add(1, Ordering::Relaxed);
        }
        thread.has_failed.store(ran.is_none(), Ordering::Relaxed);
        ran
    }

    /// Returns whether the last round of any thread panicked.
    pub fn is_any(&self) -> bool {
        self.0.iter().any(|thread| thread.has_failed.load(Ordering::Relaxed))
    }

    /// Returns the metrics in the Prometheus text format.
    pub fn text(&self) -> String {
        let mut text = "# TYPE kms_panics_total counter\n".to_owned();
        for (of, name) in BackgroundThread::ALL {
            let panics = self.0[of as usize].panics.load(Ordering::Relaxed);
            text.push_str(&format!("kms_panics_total{{thread=\"{name}\"}} {panics}\n"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_panics_are_counted_and_reported_until_recovery() {
        let panics = PanicCounters::default();
        assert_eq!(panics.catch(BackgroundThread::CheckpointMirror, || 7), Some(7));
        assert!(!panics.is_any());
        let planted: Option<()> =
            panics.catch(BackgroundThread::CheckpointMirror, || panic!("planted"));
        assert_eq!((planted, panics.is_any()), (None, true));
        panics.catch(BackgroundThread::Clock, || {});
        assert!(panics.is_any(), "another thread's");
        panics.catch(BackgroundThread::CheckpointMirror, || {});
        assert!(!panics.is_any());
        let text = panics.text();
        assert!(
            text.contains("{thread=\"copies\"} 1\n") && text.contains("{thread=\"clock\"} 0\n")
        );
    }
}
