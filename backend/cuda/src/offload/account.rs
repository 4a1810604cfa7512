//! The budget for starting a device.
//!
//! Loading a driver takes a good part of a second, and so does measuring. A process that only
//! starts, or answers one request at a time, must not pay for that, while one that runs large
//! batches all day gains by it. The kind of a process cannot be known beforehand. So the processor
//! time of its large batches is added up, and a device is started once the sum exceeds the cost of
//! the start: in the worst case the total is twice the minimum.

use std::sync::atomic::{AtomicU64, Ordering};

/// The minimum lanes of a batch that may wait for a start. Smaller batches are considered
/// interactive.
const LANES_MIN: usize = 256;
/// The minimum time of a lane on a processor, with which batches count before they have run.
const LANE_NS: u64 = 2_000;

/// Processor time of large batches that was not spent yet, in nanoseconds.
#[derive(Debug, Default)]
pub(super) struct Account(AtomicU64);

impl Account {
    /// Adds the time of a batch.
    pub(super) fn add(&self, ns: u64) {
        let _ = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |had| Some(had.saturating_add(ns)));
    }

    /// Returns whether a batch of so many lanes may buy anything.
    pub(super) fn may_pay(lanes: usize) -> bool {
        lanes >= LANES_MIN
    }

    /// Returns whether a batch of so many lanes buys something, which is paid then.
    pub(super) fn pays(&self, lanes: usize, price_ns: u64) -> bool {
        if !Self::may_pay(lanes) {
            return false;
        }
        let own = LANE_NS.saturating_mul(lanes as u64);
        let left = |had: u64| had.saturating_add(own).checked_sub(price_ns);
        // The batch's own time helps to pay the price, but is not saved in the account.
        let spend = |had: u64| left(had).map(|left| left.min(had));
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, spend).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_is_paid_once_and_only_by_large_batches() {
        let account = Account::default();
        assert!(!account.pays(1000, 100_000_000), "2 ms are not enough");
        account.add(99_000_000);
        assert!(!account.pays(1, 1) && !account.pays(255, 1), "somebody waits for it");
        assert!(account.pays(1000, 100_000_000));
        assert!(!account.pays(1000, 100_000_000), "it was paid already");
        assert!(account.pays(50_000, 100_000_000), "a batch that is large enough by itself");
        account.add(u64::MAX);
        assert!(account.pays(256, u64::MAX));
    }
}
