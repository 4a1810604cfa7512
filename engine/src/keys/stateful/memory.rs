//! A ledger that forgets everything with its process: for tests and benchmarks.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::conformance::Bench;
use super::{
    Entry, Holder, Ledger, LedgerError, LedgerRecord, Remaining, Reservation, check_request_ids,
};

/// Indexes `0..capacity`, in memory alone. A key that signs by it must never sign by another
/// ledger, nor in another process.
pub fn testing_only_ledger(capacity: u64) -> impl Ledger {
    MemoryLedger::new(capacity)
}

/// Returns a ledger in memory for the conformance test.
#[cfg(test)]
pub(super) fn testing_only_bench(capacity: u64) -> Box<dyn Bench> {
    Box::new(MemoryLedger::new(capacity))
}

#[derive(Clone)]
struct MemoryLedger(Arc<Mutex<State>>);

struct State {
    next: u64,
    capacity: u64,
    requests: HashMap<String, LedgerRecord>,
}

impl MemoryLedger {
    fn new(capacity: u64) -> Self {
        MemoryLedger(Arc::new(Mutex::new(State { next: 0, capacity, requests: HashMap::new() })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No holder panics between two changes that belong together.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ledger for MemoryLedger {
    fn reserve(&self, count: u64) -> Result<Reservation, LedgerError> {
        let mut state = self.state();
        let left = state.capacity - state.next;
        if count > left {
            return Err(LedgerError::Exhausted { wanted: count, left });
        }
        let first = state.next;
        state.next += count;
        Ok(Reservation::new(first..state.next, Box::new(self.clone())))
    }

    fn recall(&self, request: &str) -> Result<Option<LedgerRecord>, LedgerError> {
        Ok(self.state().requests.get(request).cloned())
    }

    fn record(&self, entries: &[Entry<'_>]) -> Result<(), LedgerError> {
        check_request_ids(entries.iter().filter_map(|entry| entry.request))?;
        let mut state = self.state();
        let mut ids = entries.iter().filter_map(|entry| entry.request);
        if let Some(known) = ids.find(|id| state.requests.contains_key(*id)) {
            return Err(LedgerError::RequestKnown(known.to_owned()));
        }
        for Entry { index, digest, request, signature } in entries {
            if let Some(id) = request {
                let signature = signature.to_vec();
                let recorded = LedgerRecord { index: *index, digest: *digest, signature };
                state.requests.insert((*id).to_owned(), recorded);
            }
        }
        Ok(())
    }

    fn remaining(&self) -> Result<Remaining, LedgerError> {
        let state = self.state();
        Ok(Remaining { left: state.capacity - state.next, burnt: 0, is_low: false })
    }
}

impl Holder for MemoryLedger {
    fn check(&self) -> Result<(), LedgerError> {
        Ok(())
    }

    fn give_back(&mut self, unused: Range<u64>) {
        let mut state = self.state();
        if unused.end == state.next {
            state.next = unused.start;
        }
    }
}

impl Bench for MemoryLedger {
    fn open(&self) -> Result<Box<dyn Ledger>, LedgerError> {
        Ok(Box::new(self.clone()))
    }
}
