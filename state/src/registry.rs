//! Handles of one key in one process share one state.
//!
//! ```text
//!   [ token of this process's parent | its keys ] --> [ token of this process | its keys ]
//! ```
//!
//! A forked child may find its parent's list locked by a thread that it did not inherit. So it never looks at it:
//! it has a list of its own, behind its parent's.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};

use gabion_disk::Identity;
use once_cell::race::OnceBox;

/// The keys that a process has open, by the file of their lock.
pub struct Registry<S>(Mutex<HashMap<Identity, Weak<S>>>);

impl<S> Default for Registry<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S> Registry<S> {
    /// Nothing is open.
    pub fn new() -> Self {
        Registry(Mutex::new(HashMap::new()))
    }

    /// The list, as long as the guard lives.
    pub fn list(&self) -> MutexGuard<'_, HashMap<Identity, Weak<S>>> {
        // An entry is inserted or it is not.
        let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        list.retain(|_, state| state.strong_count() > 0);
        list
    }
}

/// One process's list, and those of its children behind it.
pub struct Chain<S> {
    first: OnceBox<Link<S>>,
}

struct Link<S> {
    token: u64,
    registry: Registry<S>,
    next: OnceBox<Link<S>>,
}

impl<S> Chain<S> {
    /// No process has one.
    pub const fn new() -> Self {
        Chain { first: OnceBox::new() }
    }

    /// Returns the registry of the process with this token.
    pub fn registry(&self, token: u64) -> &Registry<S> {
        let mut place = &self.first;
        loop {
            let link = place.get_or_init(|| {
                Box::new(Link { token, registry: Registry::new(), next: OnceBox::new() })
            });
            if link.token == token {
                return &link.registry;
            }
            place = &link.next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_process_has_a_list_of_its_own() {
        let chain = Chain::<u8>::new();
        let list = |token| chain.registry(token) as *const Registry<u8>;
        let (one, two) = (list(1), list(2));
        assert_ne!(one, two);
        assert_eq!((list(1), list(2)), (one, two));
    }
}
