//! The registry through which all handles of a key in one process share one state.
//!
//! ```text
//!   [ token of this process's parent | its keys ] --> [ token of this process | its keys ]
//! ```
//!
//! A thread that a forked child did not inherit may hold the lock of the parent's list. A child
//! therefore never uses that list: it appends a list for itself.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};

use gabion_disk::Identity;
use once_cell::race::OnceBox;

/// The open keys of a process, by the identity of their lock file.
pub struct Registry<S>(Mutex<HashMap<Identity, Weak<S>>>);

impl<S> Default for Registry<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S> Registry<S> {
    /// Returns an empty registry.
    pub fn new() -> Self {
        Registry(Mutex::new(HashMap::new()))
    }

    /// Locks the list until the guard is dropped.
    pub fn list(&self) -> MutexGuard<'_, HashMap<Identity, Weak<S>>> {
        // A panic cannot leave a partial entry.
        let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        list.retain(|_, state| state.strong_count() > 0);
        list
    }
}

/// The list of one process, followed by those of its children.
pub struct Chain<S> {
    first: OnceBox<Link<S>>,
}

struct Link<S> {
    token: u64,
    registry: Registry<S>,
    next: OnceBox<Link<S>>,
}

impl<S> Chain<S> {
    /// Returns an empty chain.
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
