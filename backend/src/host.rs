//! The process that this code is loaded into: its threads, of which none may be cancelled in here, and its
//! signals, of which none may land on a thread of ours.

use std::cell::Cell;
use std::ffi::c_int;
use std::marker::PhantomData;
use std::thread::{Builder, JoinHandle};

/// A guard that holds back the cancellation of the calling thread (`pthread_cancel`) until it is dropped.
///
/// A cancelled thread unwinds its stack from where it waits, through the frames of all callers.
/// Rust frames do not allow that: the process would abort. So every entry point from C defers
/// cancellation. A cancellation requested meanwhile happens at the thread's next wait after that.
pub struct CancellationGuard {
    /// The thread's state before the guard.
    before: Cell<Cancellation>,
    /// Makes the type `!Send`, because the setting belongs to a thread.
    thread: PhantomData<*mut ()>,
}

impl CancellationGuard {
    /// Holds cancellation from now on.
    #[must_use]
    pub fn hold() -> Self {
        CancellationGuard { before: Cell::new(HELD.set()), thread: PhantomData }
    }

    /// Suspends the guard while the thread is `away`: for a switch to another stack, from which it may
    /// come back as another thread, or never.
    pub fn suspend<T>(&self, away: impl FnOnce() -> T) -> T {
        self.before.get().set();
        let came = away();
        self.before.set(HELD.set());
        came
    }
}

impl Drop for CancellationGuard {
    fn drop(&mut self) {
        self.before.get().set();
    }
}

/// The cancellation settings of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cancellation {
    /// PTHREAD_CANCEL_ENABLE or _DISABLE, 0 or 1 in the C libraries of Linux.
    state: c_int,
    /// PTHREAD_CANCEL_DEFERRED or _ASYNCHRONOUS, 0 or 1.
    kind: c_int,
}

/// Nothing. The kind counts as well: a signal that was sent a moment earlier makes glibc end a thread of the
/// asynchronous kind whatever its state is by now.
const HELD: Cancellation = Cancellation { state: 1, kind: 0 };

impl Cancellation {
    /// Sets the state and returns the previous one. The state is set last when restoring and first
    /// when holding: a pending request then takes effect at the end of a call, after the call's own
    /// work.
    #[cfg(target_os = "linux")]
    fn set(self) -> Cancellation {
        unsafe extern "C" {
            // glibc and musl have them; the `libc` crate does not.
            fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
            fn pthread_setcanceltype(kind: c_int, before: *mut c_int) -> c_int;
        }
        let mut before = HELD;
        // SAFETY: room for what was; what is set is what these calls gave, or the constants.
        unsafe {
            if self.state == HELD.state {
                pthread_setcancelstate(self.state, &mut before.state);
                pthread_setcanceltype(self.kind, &mut before.kind);
            } else {
                pthread_setcanceltype(self.kind, &mut before.kind);
                pthread_setcancelstate(self.state, &mut before.state);
            }
        }
        before
    }

    /// There is nothing to set.
    #[cfg(not(target_os = "linux"))]
    fn set(self) -> Cancellation {
        HELD
    }
}

/// Starts a thread that other code of the process cannot disturb: signals are left to the process's
/// own threads, and a callback that requests its thread's cancellation has no effect.
///
/// # Errors
/// The system starts no more threads.
pub fn spawn(
    name: String,
    body: impl FnOnce() + Send + 'static,
) -> std::io::Result<JoinHandle<()>> {
    let body = move || {
        let _held = CancellationGuard::hold();
        body();
    };
    without_signals(|| Builder::new().name(name).spawn(body))
}

/// Runs `start`, which starts threads, so that they block signals: all but those that a thread causes by
/// itself, since for these the handlers of the process are the only way to go on (a filter of system
/// calls may answer by SIGSYS) or to tell of a crash.
#[cfg(target_os = "linux")]
pub fn without_signals<T>(start: impl FnOnce() -> T) -> T {
    const OWN: [c_int; 6] =
        [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];
    // SAFETY: sets of this stack frame, filled before they are read; a thread's mask is its own.
    unsafe {
        let (mut most, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut most);
        for signal in OWN {
            libc::sigdelset(&mut most, signal);
        }
        let blocked = libc::pthread_sigmask(libc::SIG_BLOCK, &most, &mut before) == 0;
        let started = start();
        if blocked {
            libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        }
        started
    }
}

/// Runs `start`.
#[cfg(not(target_os = "linux"))]
pub fn without_signals<T>(start: impl FnOnce() -> T) -> T {
    start()
}

#[cfg(all(test, target_os = "linux"))]
#[allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.
mod tests {
    use super::*;

    fn is_blocked(signal: c_int) -> bool {
        // SAFETY: a set of this stack frame; nothing is changed.
        unsafe {
            let mut mask = std::mem::zeroed();
            libc::pthread_sigmask(libc::SIG_SETMASK, std::ptr::null(), &mut mask);
            libc::sigismember(&mask, signal) == 1
        }
    }

    /// Returns the state of this thread, unchanged.
    fn cancellation() -> Cancellation {
        let found = HELD.set();
        found.set();
        found
    }

    #[test]
    fn threads_that_are_started_have_no_part_in_the_hosts_business() {
        let check = || {
            use libc::{SIGCHLD, SIGHUP, SIGPROF, SIGSEGV, SIGSYS, SIGTERM, SIGUSR1};
            let host = [SIGTERM, SIGCHLD, SIGHUP, SIGUSR1, SIGPROF];
            assert_eq!(host.map(is_blocked), [true; 5]);
            assert_eq!([SIGSEGV, SIGSYS].map(is_blocked), [false; 2]);
            assert_eq!(cancellation(), HELD);
        };
        spawn("test".to_owned(), check).unwrap().join().unwrap();
        assert!(!is_blocked(libc::SIGTERM), "the caller's own mask is as it was");
        assert_eq!(cancellation().state, 0, "and can be cancelled, as before");
    }

    #[test]
    fn cancellation_is_held_back_and_put_back() {
        for kind in [0, 1] {
            let came = Cancellation { state: 0, kind };
            came.set();
            let outer = CancellationGuard::hold();
            assert_eq!(cancellation(), HELD);
            let inner = CancellationGuard::hold();
            drop(inner);
            assert_eq!(cancellation(), HELD, "an inner one ends nothing");
            assert_eq!(outer.suspend(cancellation), came);
            assert_eq!(cancellation(), HELD);
            // The code may resume on another thread, which must not be cancelled.
            let other = Cancellation { state: 1, kind };
            outer.suspend(|| other.set());
            assert_eq!(cancellation(), HELD);
            drop(outer);
            assert_eq!(cancellation(), other);
        }
    }
}
