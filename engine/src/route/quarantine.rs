//! The quarantine of a backend that lost a batch, and the number of its losses: one word, so that
//! both change together.
//!
//! ```text
//!    63 ............. 24 | 23 ........ 0
//!    when it was lost or   losses so far, modulo 2^24
//!    last asked; 0: it is
//!    at hand
//! ```
//!
//! - Test results of an algorithm are marked with the number of losses at which they were obtained,
//!   and are valid only for that number. A loss therefore invalidates all results at once,
//!   including those of running tests.
//! - The clock is read when a backend is lost or quarantined, never before a batch of an available
//!   one.
//! - A forked child continues in the state of its parent. If a thread of the parent was probing the
//!   backend, its time is recorded here, and one second later another thread probes it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The time for which a backend stays in quarantine after it lost a batch, in milliseconds.
const QUARANTINE_MS: u64 = 1000;
const LOSSES_BITS: u32 = 24;
const LOSSES: u64 = (1 << LOSSES_BITS) - 1;

/// The clock.
pub(crate) type Clock = Arc<dyn Fn() -> Instant + Send + Sync>;

/// Whether a backend may be asked to run a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Availability {
    /// The backend is not in quarantine.
    Available,
    /// The backend was lost, or probed, less than a second ago.
    Quarantined,
    /// This caller, and no other, tests whether it is back.
    Probe(ProbeTurn),
}

/// A caller's turn to probe a backend: the previous word, and the new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProbeTurn {
    found: u64,
    left: u64,
}

pub(super) struct Quarantine {
    word: AtomicU64,
    origin: Instant,
    clock: Clock,
}

impl Quarantine {
    pub(super) fn new(clock: Clock) -> Self {
        Quarantine { word: AtomicU64::new(0), origin: clock(), clock }
    }

    /// Losses so far.
    pub(super) fn losses(&self) -> u64 {
        self.word.load(Ordering::Acquire) & LOSSES
    }

    pub(super) fn is_quarantined(&self) -> bool {
        since(self.word.load(Ordering::Acquire)) != 0
    }

    /// Returns whether it is available, or was lost long enough ago to be probed.
    pub(super) fn may_be_probed(&self) -> bool {
        let word = self.word.load(Ordering::Acquire);
        since(word) == 0 || self.is_long_ago(since(word))
    }

    /// Puts it in quarantine because of something that began after so many losses, and returns
    /// whether this is news. Batches that were lost together count as one loss: the loss of a batch
    /// that began before the last loss says nothing about the current state of the backend.
    pub(super) fn lose(&self, losses: u64) -> bool {
        let lost = |word: u64| {
            let next = (losses + 1) & LOSSES;
            (word & LOSSES == losses).then(|| self.mark() | next)
        };
        let before = self.word.fetch_update(Ordering::AcqRel, Ordering::Acquire, lost);
        before.is_ok_and(|before| since(before) == 0)
    }

    /// Returns whether the caller may ask the backend, or has to probe it first.
    pub(super) fn availability(&self) -> Availability {
        let found = self.word.load(Ordering::Acquire);
        if since(found) == 0 {
            return Availability::Available;
        }
        if !self.is_long_ago(since(found)) {
            return Availability::Quarantined;
        }
        let left = self.mark() | found & LOSSES;
        let order = (Ordering::AcqRel, Ordering::Relaxed);
        match self.word.compare_exchange(found, left, order.0, order.1) {
            Ok(_) => Availability::Probe(ProbeTurn { found, left }),
            Err(_) => Availability::Quarantined,
        }
    }

    /// Returns a turn that did not probe the backend.
    pub(super) fn give_back(&self, probe: ProbeTurn) {
        let order = (Ordering::AcqRel, Ordering::Relaxed);
        let _ = self.word.compare_exchange(probe.left, probe.found, order.0, order.1);
    }

    /// Ends the quarantine, if there was no other loss; returns whether this is news.
    pub(super) fn reinstate(&self, losses: u64) -> bool {
        let back = |word: u64| (word & LOSSES == losses && since(word) != 0).then_some(losses);
        self.word.fetch_update(Ordering::AcqRel, Ordering::Acquire, back).is_ok()
    }

    fn is_long_ago(&self, since: u64) -> bool {
        let now = self.elapsed().as_millis() as u64 + 1;
        now.saturating_sub(since) >= QUARANTINE_MS
    }

    /// The present as part of a word. Rounded up where [`Self::is_long_ago`] rounds down: never
    /// less than a second goes by in between.
    fn mark(&self) -> u64 {
        (self.elapsed().as_nanos().div_ceil(1_000_000) as u64 + 1) << LOSSES_BITS
    }

    fn elapsed(&self) -> Duration {
        (self.clock)().saturating_duration_since(self.origin)
    }
}

/// Since when a backend is set aside, in milliseconds and one more; 0 if it is not.
fn since(word: u64) -> u64 {
    word >> LOSSES_BITS
}
