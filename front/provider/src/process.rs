//! Forks: what belongs to one process.
//!
//! ```text
//!   page, wiped by the kernel in a forked child:   [ token ]
//!   PerProcess<T>:  token of its maker --> T       equal: use it; else the child makes its own
//! ```
//!
//! A provider is loaded once and then often forked: nginx, Apache httpd and PostgreSQL do it for
//! every worker. Data that threads of the parent were changing at the fork is useless to the child,
//! and the child must never use key pairs that the parent may use.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use gabion_engine::forks::Process;

/// A value that handles a forked child's copy of its parent's data, which other threads of the
/// parent may have been changing: its locks may be held for ever.
pub trait ForkAware {
    /// Wipes what can be wiped without waiting. The value's memory stays.
    fn forget(&self) {}
}

/// A value for each process.
pub struct PerProcess<T: ForkAware> {
    process: Arc<Process>,
    current: AtomicPtr<ProcessValue<T>>,
}

struct ProcessValue<T> {
    token: u64,
    value: T,
}

impl<T: ForkAware> PerProcess<T> {
    /// Returns a holder without a value.
    pub fn new(process: &Arc<Process>) -> Self {
        PerProcess { process: Arc::clone(process), current: AtomicPtr::new(null_mut()) }
    }

    /// Returns this process's value, calling `make` if it does not exist. Returns `None` if forks
    /// cannot be detected.
    pub fn get(&self, make: impl FnOnce() -> T) -> Option<&T> {
        Some(self.of(self.process.token()?, make))
    }

    /// The value of the process with this token.
    fn of(&self, token: u64, make: impl FnOnce() -> T) -> &T {
        let current = self.current.load(Ordering::Acquire);
        // SAFETY: null, or from the box below; one that was in place is not freed before `self` is.
        let owned = unsafe { current.as_ref() };
        if let Some(owned) = owned
            && owned.token == token
        {
            return &owned.value;
        }
        let fresh = Box::into_raw(Box::new(ProcessValue { token, value: make() }));
        let order = (Ordering::AcqRel, Ordering::Acquire);
        match self.current.compare_exchange(current, fresh, order.0, order.1) {
            Ok(_) => {
                if let Some(inherited) = owned {
                    inherited.value.forget();
                }
                // SAFETY: from the box above, and as above.
                unsafe { &(*fresh).value }
            }
            // Another thread of this process was first.
            Err(theirs) => {
                // SAFETY: from the box above, and no other code has seen it.
                drop(unsafe { Box::from_raw(fresh) });
                // SAFETY: what is in place is never null again, and as above.
                unsafe { &(*theirs).value }
            }
        }
    }
}

impl<T: ForkAware> Drop for PerProcess<T> {
    fn drop(&mut self) {
        let current = std::mem::replace(self.current.get_mut(), null_mut());
        // SAFETY: null, or from the box in `of`; a provider that is torn down is not in use.
        let Some(owned) = (unsafe { current.as_ref() }) else {
            return;
        };
        if self.process.token() == Some(owned.token) {
            // SAFETY: as above; the reference is not used again.
            drop(unsafe { Box::from_raw(current) });
        } else {
            owned.value.forget();
        }
    }
}

/// Locks. A panic of an earlier holder is no reason to stop: every critical section of this crate
/// leaves its data whole before it calls anything that could panic.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    /// A value that counts how often it was forgotten and dropped.
    struct CountingValue(Arc<[AtomicUsize; 2]>);

    impl ForkAware for CountingValue {
        fn forget(&self) {
            self.0[0].fetch_add(1, Ordering::Relaxed);
        }
    }

    impl Drop for CountingValue {
        fn drop(&mut self) {
            self.0[1].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Runs `child` in a forked process; whether it said yes.
    fn forked(child: impl FnOnce() -> bool) -> bool {
        // SAFETY: the child runs a few lines and ends by _exit.
        unsafe {
            let id = libc::fork();
            if id == 0 {
                libc::_exit(i32::from(!child()));
            }
            let mut status = -1;
            libc::waitpid(id, &mut status, 0) == id && status == 0
        }
    }

    #[test]
    fn a_child_and_its_child_have_tokens_of_their_own() {
        let process = Process::new();
        let first = process.token().unwrap();
        assert_ne!(first, 0);
        assert_eq!(process.token(), Some(first));
        let good = forked(|| {
            let second = process.token().unwrap();
            let third = forked(|| {
                let third = process.token().unwrap();
                third != first && third != second && process.token() == Some(third)
            });
            second != first && third && process.token() == Some(second)
        });
        assert!(good);
        assert_eq!(process.token(), Some(first));
    }

    #[test]
    fn threads_agree_on_one_token() {
        let process = Process::new();
        let tokens: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| process.token())).collect();
            threads.into_iter().map(|thread| thread.join().unwrap().unwrap()).collect()
        });
        assert!(tokens.iter().all(|&token| token == tokens[0]), "{tokens:?}");
    }

    #[test]
    fn a_child_forgets_what_it_inherits_and_makes_its_own() {
        let counts = Arc::new([const { AtomicUsize::new(0) }; 2]);
        let read = || [0, 1].map(|index| counts[index].load(Ordering::Relaxed));
        let make = || CountingValue(Arc::clone(&counts));
        let value = PerProcess::new(&Arc::new(Process::new()));
        let mine = std::ptr::from_ref(value.get(make).unwrap());
        assert!(std::ptr::eq(mine, value.get(|| unreachable!()).unwrap()));
        let good = forked(|| {
            let other = !std::ptr::eq(mine, value.get(make).unwrap());
            other && read() == [1, 0] && std::ptr::eq(mine, mine)
        });
        assert!(good);
        // A child that never asks forgets it at the end.
        let value = std::mem::ManuallyDrop::new(value);
        // SAFETY: the child's copy of a value that is dropped there once.
        let dropped = || unsafe { drop(std::ptr::read(&raw const *value)) };
        assert!(forked(|| {
            dropped();
            read() == [1, 0]
        }));
        assert_eq!(read(), [0, 0]);
        drop(std::mem::ManuallyDrop::into_inner(value));
        assert_eq!(read(), [0, 1]);
    }

    #[test]
    fn threads_agree_on_one_value() {
        let counts = Arc::new([const { AtomicUsize::new(0) }; 2]);
        let value = PerProcess::new(&Arc::new(Process::new()));
        let seen: Vec<usize> = std::thread::scope(|scope| {
            let ask =
                || std::ptr::from_ref(value.get(|| CountingValue(counts.clone())).unwrap()).addr();
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(seen.iter().all(|&at| at == seen[0]));
    }
}
