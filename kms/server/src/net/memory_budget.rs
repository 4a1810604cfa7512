//! The memory budget of requests and answers, in total and per caller.
//!
//! ```text
//!   head --> short body (8 KiB)                     --> read, unless the caller's share is used up
//!        --> longer body: its length is reserved    --> read, parsed, handled --> released with the request
//!        --> no room                                --> `busy`, before a byte of the body is read
//!   longer answer: reserved until the client has read it, even beyond the limits; then new requests wait
//! ```
//!
//! A request takes at most about four times the size of its body, so all of them together take at
//! most four times the budget. Callers at a Unix socket are limited like those that use TLS.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gabion_kms::gate::{Caller, Method, Principal, TokenId};

use crate::problem::Problem;

/// The maximum size of a short body or answer: an ML-DSA-87 signature with its message, in base64.
/// Short ones are limited only by the number of connections.
pub const SHORT: usize = 8192;

/// The total size of all bodies and answers in bytes, unless the configured body size is so large
/// that only a few would fit.
const TOTAL: usize = 64 << 20;

/// The total size per caller in bytes.
const OF_CALLER: usize = 16 << 20;

/// The number of seconds after which there may be room again.
const AGAIN_S: u64 = 1;

/// The caller that memory is counted for. All attenuations of a token share one, because their
/// holders can make any number of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MemoryOwner {
    /// The holders of tokens with this id.
    Token(TokenId),
    /// The client whose certificate has this name.
    Certificate(Principal),
}

impl MemoryOwner {
    /// Returns the owner for a caller.
    pub fn of(who: &Caller) -> Self {
        match who.method() {
            Method::Token { id } => MemoryOwner::Token(id),
            Method::Certificate | Method::Local => {
                MemoryOwner::Certificate(who.principal().clone())
            }
        }
    }
}

/// The memory budget of bodies and answers.
#[derive(Debug)]
pub struct MemoryBudget {
    total: usize,
    of_caller: usize,
    /// The total of all reservations. Changed under the lock, and read without it.
    all: AtomicUsize,
    callers: Mutex<HashMap<MemoryOwner, usize>>,
    refused: AtomicU64,
}

/// A reservation, until it is dropped.
#[derive(Debug)]
pub struct MemoryReservation {
    budget: Arc<MemoryBudget>,
    caller: MemoryOwner,
    bytes: usize,
}

impl MemoryBudget {
    /// Creates a budget for bodies of at most `body_max` bytes.
    pub fn new(body_max: usize) -> Arc<Self> {
        Self::with(TOTAL.max(4 * body_max), OF_CALLER.max(2 * body_max))
    }

    fn with(total: usize, of_caller: usize) -> Arc<Self> {
        let (all, refused) = (AtomicUsize::new(0), AtomicU64::new(0));
        Arc::new(MemoryBudget { total, of_caller, all, callers: Mutex::default(), refused })
    }

    /// Reserves memory for a body. Short ones need no reservation.
    ///
    /// # Errors
    /// `busy` if the caller's share or the budget is used up.
    pub fn take(
        self: &Arc<Self>,
        caller: &MemoryOwner,
        bytes: usize,
    ) -> Result<Option<MemoryReservation>, Problem> {
        let is_short = bytes <= SHORT;
        // If the total is within one share, no caller has used up its share.
        if is_short && self.all.load(Ordering::Relaxed) <= self.of_caller {
            return Ok(None);
        }
        let wanted = if is_short { 0 } else { bytes };
        let mut callers = self.callers();
        let own = callers.get(caller).copied().unwrap_or(0);
        if own.saturating_add(wanted) > self.of_caller {
            let why = "the caller's requests and responses use up the memory limit per caller";
            return Err(self.refuse(why));
        }
        if is_short {
            return Ok(None);
        }
        if self.all.load(Ordering::Relaxed).saturating_add(wanted) > self.total {
            return Err(self.refuse("requests and responses use up the memory limit of the server"));
        }
        Ok(Some(self.reserve(&mut callers, caller, wanted)))
    }

    /// Reserves memory for an existing answer, even beyond the limits. Short ones need no
    /// reservation.
    pub fn hold(self: &Arc<Self>, caller: &MemoryOwner, bytes: usize) -> Option<MemoryReservation> {
        (bytes > SHORT).then(|| self.reserve(&mut self.callers(), caller, bytes))
    }

    /// Returns the metrics in the Prometheus text format.
    pub fn text(&self) -> String {
        let (all, refused) =
            (self.all.load(Ordering::Relaxed), self.refused.load(Ordering::Relaxed));
        format!(
            "# TYPE kms_request_memory_bytes gauge\nkms_request_memory_bytes {all}\n\
             # TYPE kms_request_memory_refused_total counter\nkms_request_memory_refused_total {refused}\n"
        )
    }

    fn reserve(
        self: &Arc<Self>,
        callers: &mut HashMap<MemoryOwner, usize>,
        caller: &MemoryOwner,
        bytes: usize,
    ) -> MemoryReservation {
        *callers.entry(caller.clone()).or_default() += bytes;
        self.all.fetch_add(bytes, Ordering::Relaxed);
        MemoryReservation { budget: self.clone(), caller: caller.clone(), bytes }
    }

    fn refuse(&self, why: &str) -> Problem {
        self.refused.fetch_add(1, Ordering::Relaxed);
        Problem::busy(why, AGAIN_S)
    }

    fn callers(&self) -> MutexGuard<'_, HashMap<MemoryOwner, usize>> {
        self.callers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for MemoryReservation {
    fn drop(&mut self) {
        let mut callers = self.budget.callers();
        self.budget.all.fetch_sub(self.bytes, Ordering::Relaxed);
        if let Some(own) = callers.get_mut(&self.caller) {
            *own = own.saturating_sub(self.bytes);
            if *own == 0 {
                callers.remove(&self.caller);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(name: &str) -> MemoryOwner {
        MemoryOwner::Certificate(Principal::new(name).unwrap())
    }

    #[test]
    fn a_caller_has_a_share_and_all_together_have_a_budget() {
        let budget = MemoryBudget::with(100_000, 50_000);
        let take = |name: &str, bytes| budget.take(&caller(name), bytes).map_err(|why| why.code);
        let first = take("a", 30_000).unwrap();
        assert!(
            first.is_some()
                && take("a", SHORT).unwrap().is_none()
                && take("b", 0).unwrap().is_none()
        );
        assert_eq!(take("a", 30_000).err(), Some("busy"));
        let second = take("b", 50_000).unwrap();
        assert_eq!(take("c", 30_000).err(), Some("busy"), "of the 20,000 that are left");
        let third = take("c", 20_000).unwrap();
        // Short bodies are always read.
        assert!(take("a", SHORT).unwrap().is_none() && take("d", SHORT).unwrap().is_none());
        assert!(budget.text().contains("\nkms_request_memory_bytes 100000\n"), "{}", budget.text());
        assert!(budget.text().contains("\nkms_request_memory_refused_total 2\n"));
        drop((first, second, third));
        assert!(budget.callers().is_empty() && budget.all.load(Ordering::Relaxed) == 0);
    }

    #[test]
    fn answers_that_are_not_taken_keep_their_caller_from_asking_for_more() {
        let budget = MemoryBudget::with(100_000, 50_000);
        assert!(budget.hold(&caller("a"), SHORT).is_none());
        let held = budget.hold(&caller("a"), 60_000).unwrap();
        for bytes in [0, SHORT, SHORT + 1] {
            let refused = budget.take(&caller("a"), bytes).err().unwrap();
            assert_eq!((refused.code, refused.retry_after_s), ("busy", Some(AGAIN_S)));
        }
        assert!(budget.take(&caller("b"), SHORT).unwrap().is_none());
        assert!(budget.take(&caller("b"), 40_000).unwrap().is_some());
        drop(held);
        assert!(budget.take(&caller("a"), SHORT).unwrap().is_none());
    }
}
