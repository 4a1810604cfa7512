//! Limits the bytes of long messages that tickets hold.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts the claimed bytes. Relaxed ordering suffices, because jobs do not share their memory.
#[derive(Clone, Default)]
pub(super) struct Bytes(Arc<AtomicUsize>);

/// A claim on some of the bytes, returned when dropped.
pub(super) struct Claim {
    of: Bytes,
    bytes: usize,
}

impl Bytes {
    /// Claims `bytes`, if no more than `most` are claimed with them or if nothing else is claimed:
    /// a job that exceeds the limit runs alone.
    pub(super) fn claim(&self, bytes: usize, most: usize) -> Option<Claim> {
        let with = |held: usize| {
            let sum = held.saturating_add(bytes);
            (held == 0 || sum <= most).then_some(sum)
        };
        let claimed = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, with);
        claimed.is_ok().then(|| Claim { of: self.clone(), bytes })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.of.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
#[allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.
mod tests {
    use super::*;

    #[test]
    fn claims_are_bounded_and_come_back() {
        let bytes = Bytes::default();
        let first = bytes.claim(usize::MAX, 10);
        assert!(first.is_some() && bytes.claim(1, 10).is_none());
        drop(first);
        let both = (bytes.claim(4, 10), bytes.claim(6, 10));
        assert!(both.0.is_some() && both.1.is_some() && bytes.claim(1, 10).is_none());
        drop(both.0);
        assert!(bytes.claim(5, 10).is_none() && bytes.claim(4, 10).is_some());
        drop(both.1);
        assert_eq!(bytes.0.load(Ordering::Relaxed), 0);
    }
}
