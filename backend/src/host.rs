//! The process that this code is loaded into: its threads, of which none may be cancelled in here, and its
//! signals, of which none may land on a thread of ours.

use std::cell::Cell;
use std::ffi::c_int;
use std::marker::PhantomData;
use std::thread::{Builder, JoinHandle};

/// Holds back the cancellation of the calling thread (`pthread_cancel`) until it is dropped.
///
/// A thread that is cancelled unwinds its stack from where it waits, through everybody's frames. Frames
/// of Rust do not let that pass: the process would be aborted. So every entry point from C holds
/// cancellation back. What was asked for meanwhile happens at the thread's next wait after that.
pub struct Uncancelled {
    /// The state in which the thread came.
    before: Cell<c_int>,
    /// A state is a thread's own.
    thread: PhantomData<*mut ()>,
}

impl Uncancelled {
    /// From now on.
    #[must_use]
    pub fn hold() -> Self {
        Uncancelled { before: Cell::new(set_cancellation(DISABLE)), thread: PhantomData }
    }

    /// Leaves the thread as it came while it is `away`: for a switch to another stack, from which it may
    /// come back as another thread, or never.
    pub fn released<T>(&self, away: impl FnOnce() -> T) -> T {
        self.put_back();
        let came = away();
        self.before.set(set_cancellation(DISABLE));
        came
    }

    fn put_back(&self) {
        if self.before.get() != DISABLE {
            set_cancellation(self.before.get());
        }
    }
}

impl Drop for Uncancelled {
    fn drop(&mut self) {
        self.put_back();
    }
}

/// PTHREAD_CANCEL_DISABLE, as the C libraries of Linux have it.
const DISABLE: c_int = 1;

#[cfg(target_os = "linux")]
fn set_cancellation(state: c_int) -> c_int {
    unsafe extern "C" {
        // glibc and musl have it; the `libc` crate does not.
        fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
    }
    let mut before = DISABLE;
    // SAFETY: room for the state that was; the new one is one that this call gave, or the constant.
    unsafe { pthread_setcancelstate(state, &mut before) };
    before
}

#[cfg(not(target_os = "linux"))]
fn set_cancellation(_: c_int) -> c_int {
    DISABLE
}

/// Starts a thread that nobody else's business reaches: signals that the process expects are for its own
/// threads, and a callback that asks for its thread's cancellation does not get it.
///
/// # Errors
/// The system starts no more threads.
pub fn spawn(
    name: String,
    body: impl FnOnce() + Send + 'static,
) -> std::io::Result<JoinHandle<()>> {
    let body = move || {
        let _held = Uncancelled::hold();
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

    /// The state of this thread, which stays.
    fn state() -> c_int {
        let state = set_cancellation(DISABLE);
        set_cancellation(state);
        state
    }

    #[test]
    fn threads_that_are_started_have_no_part_in_the_hosts_business() {
        let check = || {
            use libc::{SIGCHLD, SIGHUP, SIGPROF, SIGSEGV, SIGSYS, SIGTERM, SIGUSR1};
            let host = [SIGTERM, SIGCHLD, SIGHUP, SIGUSR1, SIGPROF];
            assert_eq!(host.map(is_blocked), [true; 5]);
            assert_eq!([SIGSEGV, SIGSYS].map(is_blocked), [false; 2]);
            assert_eq!(state(), DISABLE);
        };
        spawn("test".to_owned(), check).unwrap().join().unwrap();
        assert!(!is_blocked(libc::SIGTERM), "the caller's own mask is as it was");
        assert_ne!(state(), DISABLE, "and so is its state");
    }

    #[test]
    fn cancellation_is_held_back_and_put_back() {
        let came = state();
        assert_ne!(came, DISABLE);
        let outer = Uncancelled::hold();
        assert_eq!(state(), DISABLE);
        let inner = Uncancelled::hold();
        drop(inner);
        assert_eq!(state(), DISABLE, "an inner one ends nothing");
        assert_eq!(outer.released(state), came);
        assert_eq!(state(), DISABLE);
        // Whoever comes back may be another thread, in another state.
        outer.released(|| set_cancellation(DISABLE));
        drop(outer);
        assert_eq!(state(), DISABLE);
        set_cancellation(came);
    }
}
