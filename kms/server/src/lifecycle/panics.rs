//! Panics of the threads that go on by themselves: each is counted, and the thread goes on.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A thread that goes on by itself, and that nobody asked for what it does.
#[derive(Clone, Copy)]
pub enum Of {
    /// It makes checkpoints, and the log's next segments.
    Clock,
    /// It writes checkpoints to their second place.
    Copies,
    /// It rotates keys that are due.
    Rotation,
    /// It reads the files of TLS that changed.
    Tls,
}

impl Of {
    const ALL: [(Of, &'static str); 4] = [
        (Of::Clock, "clock"),
        (Of::Copies, "copies"),
        (Of::Rotation, "rotation"),
        (Of::Tls, "tls"),
    ];
}

/// What was counted of them.
#[derive(Default)]
pub struct Panics([Thread; Of::ALL.len()]);

#[derive(Default)]
struct Thread {
    panics: AtomicU64,
    /// Whether it did what it did last.
    has_failed: AtomicBool,
}

impl Panics {
    /// Runs what a thread does each time; a panic ends this time alone.
    pub fn caught<T>(&self, of: Of, run: impl FnOnce() -> T) -> Option<T> {
        let ran = catch_unwind(AssertUnwindSafe(run)).ok();
        let thread = &self.0[of as usize];
        if ran.is_none() {
            thread.panics.fetch_add(1, Ordering::Relaxed);
        }
        thread.has_failed.store(ran.is_none(), Ordering::Relaxed);
        ran
    }

    /// Whether one of them panicked the last time.
    pub fn is_any(&self) -> bool {
        self.0.iter().any(|thread| thread.has_failed.load(Ordering::Relaxed))
    }

    /// All of it, in the text format of Prometheus.
    pub fn text(&self) -> String {
        let mut text = "# TYPE kms_panics_total counter\n".to_owned();
        for (of, name) in Of::ALL {
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
    fn a_panic_is_counted_and_said_until_the_thread_works_again() {
        let panics = Panics::default();
        assert_eq!(panics.caught(Of::Copies, || 7), Some(7));
        assert!(!panics.is_any());
        let planted: Option<()> = panics.caught(Of::Copies, || panic!("planted"));
        assert_eq!((planted, panics.is_any()), (None, true));
        panics.caught(Of::Clock, || {});
        assert!(panics.is_any(), "another thread's");
        panics.caught(Of::Copies, || {});
        assert!(!panics.is_any());
        let text = panics.text();
        assert!(
            text.contains("{thread=\"copies\"} 1\n") && text.contains("{thread=\"clock\"} 0\n")
        );
    }
}
