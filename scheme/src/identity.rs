//! Numbers that identify keys, so that a device can cache data derived from them.
//!
//! - A key gets its number when it is first asked for or when the key is first cloned. A clone has
//!   the same number: it is the same key. Numbers are unique in a process.
//! - A key whose buffers are filled with another key gets a new number.
//! - A private key that contains its public half shares that one's number. A device that keeps both
//!   tells them apart by their types.
//! - A forked child continues the parent's numbering: keys numbered before the fork keep their
//!   number in both, and each process gives the next numbers to its new keys. A service for several
//!   processes has to name the process, too.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The callback that receives the numbers of dropped keys.
static ON_DROP: OnceLock<fn(u64)> = OnceLock::new();

/// Registers a function that is called with the number of each numbered key that is dropped or
/// becomes another key. It is also called for clones, while other clones with that number may live
/// on. It is called wherever keys are dropped, so it must not wait, allocate or panic. Only the
/// first registration takes effect.
pub fn on_drop(heard: fn(u64)) {
    let _ = ON_DROP.set(heard);
}

/// The number of a key; 0 until it is first asked for.
pub(crate) struct Identity(AtomicU64);

impl Identity {
    /// Returns the identity of a key without a number.
    pub(crate) fn new() -> Self {
        Identity(AtomicU64::new(0))
    }

    /// The number, which is never 0.
    pub(crate) fn get(&self) -> u64 {
        match self.0.load(Ordering::Relaxed) {
            0 => self.give(),
            number => number,
        }
    }

    /// Resets the number of a key that becomes another one.
    pub(crate) fn renew(&mut self) {
        self.gone();
        *self.0.get_mut() = 0;
    }

    /// Reports that the key with this number is gone.
    fn gone(&mut self) {
        let number = *self.0.get_mut();
        if number != 0
            && let Some(heard) = ON_DROP.get()
        {
            heard(number);
        }
    }

    /// Assigns the next number, unless another thread was first, whose number stays.
    fn give(&self) -> u64 {
        // At one a nanosecond it overflows after 584 years.
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let order = (Ordering::Relaxed, Ordering::Relaxed);
        self.0.compare_exchange(0, next, order.0, order.1).map_or_else(|given| given, |_| next)
    }
}

impl Drop for Identity {
    fn drop(&mut self) {
        self.gone();
    }
}

impl Clone for Identity {
    fn clone(&self) -> Self {
        Identity(AtomicU64::new(self.get()))
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({})", self.0.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_number_is_given_once_and_to_clones() {
        let (mut one, other) = (Identity::new(), Identity::new());
        let number = one.get();
        assert_ne!(number, 0);
        assert_ne!(number, other.get());
        let clone = one.clone();
        assert_eq!((one.get(), clone.get()), (number, number));
        one.renew();
        assert!(one.get() > number);
        assert_eq!(clone.get(), number);
        let unasked = Identity::new();
        assert_eq!(unasked.clone().get(), unasked.get());
    }

    #[test]
    fn a_dropped_identity_is_reported() {
        use std::sync::Mutex;
        static HEARD: Mutex<Vec<u64>> = Mutex::new(Vec::new());
        let heard = |number: u64| HEARD.lock().unwrap().contains(&number);
        on_drop(|number| HEARD.lock().unwrap().push(number));
        let (mut one, other) = (Identity::new(), Identity::new());
        let numbers = (one.get(), other.get());
        drop(Identity::new()); // A key without a number.
        assert!(!heard(numbers.0) && !heard(numbers.1) && !heard(0));
        one.renew();
        drop(other);
        assert!(heard(numbers.0) && heard(numbers.1) && !heard(0));
    }

    #[test]
    fn threads_that_are_first_together_hear_one_number() {
        let all: Vec<_> = (0..1000).map(|_| Identity::new()).collect();
        let start = std::sync::Barrier::new(4);
        let ask = || {
            start.wait();
            all.iter().map(Identity::get).collect::<Vec<_>>()
        };
        let heard = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        assert!(heard.iter().all(|numbers| *numbers == heard[0]));
        assert_eq!(heard[0].iter().collect::<HashSet<_>>().len(), all.len());
    }
}
