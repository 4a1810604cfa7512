//! Forks: whether this is still the process that it was.
//!
//! ```text
//!   page, wiped by the kernel in a forked child:   [ token ]      0: a new process, which takes the next token
//! ```

use std::ptr::NonNull;
#[cfg(target_os = "linux")]
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};

use once_cell::race::OnceBox;

/// The token of the process that calls, as [`Process::token`], of one page that all of this library share. Two
/// loads after the first call; where there was no memory for the page the next call asks for it again.
#[must_use]
pub fn token() -> Option<u64> {
    static THIS: OnceBox<Process> = OnceBox::new();
    let mapped = || Some(Process::new()).filter(|this| this.page.is_some()).map(Box::new).ok_or(());
    THIS.get_or_try_init(mapped).ok()?.token()
}

/// Distinguishes a process from the one that it was forked from, without a system call.
///
/// A process id would not suffice: a grandchild may have its grandparent's.
pub struct Process {
    /// A page that the kernel wipes in a child, however that was forked. `None` on kernels before
    /// 4.14, and under emulators that accept the request and ignore it.
    page: Option<NonNull<AtomicU64>>,
    /// The last token that was given to this process or to one that it descends from.
    last: AtomicU64,
}

/// One page, which need not be a whole one of the processor's.
#[cfg(target_os = "linux")]
const PAGE: usize = 4096;

/// An advice value that every kernel rejects as unknown.
#[cfg(target_os = "linux")]
const NO_ADVICE: i32 = -1;

// SAFETY: the page is mapped as long as the value lives, and only used through its atomic.
unsafe impl Send for Process {}
// SAFETY: as above.
unsafe impl Sync for Process {}

impl Default for Process {
    fn default() -> Self {
        Self::new()
    }
}

impl Process {
    /// Maps the page.
    #[must_use]
    pub fn new() -> Self {
        Process { page: wiped_page(), last: AtomicU64::new(0) }
    }

    /// The token of the process that calls: never 0, and never that of a process that it descends from.
    /// None where forks cannot be told.
    pub fn token(&self) -> Option<u64> {
        // SAFETY: mapped by `wiped_page`, aligned, and only used as this atomic.
        let page = unsafe { self.page?.as_ref() };
        let token = page.load(Ordering::Acquire);
        if token != 0 {
            return Some(token);
        }
        // `last` was copied by the fork, so what comes next is above every ancestor's token.
        let fresh = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let order = (Ordering::AcqRel, Ordering::Acquire);
        Some(
            page.compare_exchange(0, fresh, order.0, order.1).map_or_else(|other| other, |_| fresh),
        )
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        #[cfg(target_os = "linux")]
        if let Some(page) = self.page {
            // SAFETY: mapped by `wiped_page`, and no references remain.
            unsafe { libc::munmap(page.as_ptr().cast(), PAGE) };
        }
    }
}

/// A zeroed page that a forked child sees zeroed again.
#[cfg(target_os = "linux")]
fn wiped_page() -> Option<NonNull<AtomicU64>> {
    // SAFETY: a fresh mapping, which is given back where it is not what was asked for.
    unsafe {
        let (access, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let page = libc::mmap(null_mut(), PAGE, access, flags, -1, 0);
        if page == libc::MAP_FAILED {
            return None;
        }
        // QEMU's user mode takes any advice, and does nothing for it (qemu-aarch64 7.2).
        let is_heard = libc::madvise(page, PAGE, NO_ADVICE) != 0;
        if !is_heard || libc::madvise(page, PAGE, libc::MADV_WIPEONFORK) != 0 {
            libc::munmap(page, PAGE);
            return None;
        }
        NonNull::new(page.cast())
    }
}

/// Only Linux has such pages.
#[cfg(not(target_os = "linux"))]
fn wiped_page() -> Option<NonNull<AtomicU64>> {
    None
}

#[cfg(all(test, target_os = "linux"))]
#[allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.
mod tests {
    /// Returns whether this kernel rejects unknown advice; an emulator may accept anything and do
    /// nothing.
    fn refuses_unknown_advice() -> bool {
        // SAFETY: advice that does nothing, for no bytes.
        unsafe { libc::madvise(std::ptr::null_mut(), 0, super::NO_ADVICE) != 0 }
    }

    /// Runs in a separate process.
    #[test]
    fn failed_page_allocation_is_retried() {
        const ALONE: &str = "GABION_TEST_ALONE";
        if !refuses_unknown_advice() {
            assert_eq!(super::token(), None, "an emulator's page is none");
            return;
        }
        if std::env::var_os(ALONE).is_none() {
            let name = "forks::tests::failed_page_allocation_is_retried";
            let program = std::env::current_exe().expect("this program");
            let alone = std::process::Command::new(program)
                .args(["--exact", name])
                .env(ALONE, "1")
                .status();
            assert!(alone.expect("a process").success());
            return;
        }
        let mut before = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: limits of this process, which does nothing else meanwhile.
        let without = unsafe {
            assert_eq!(libc::getrlimit(libc::RLIMIT_AS, &mut before), 0);
            let none = libc::rlimit { rlim_cur: 0, ..before };
            assert_eq!(libc::setrlimit(libc::RLIMIT_AS, &none), 0);
            let without = super::token();
            assert_eq!(libc::setrlimit(libc::RLIMIT_AS, &before), 0);
            without
        };
        assert_eq!((without, super::token().is_some()), (None, refuses_unknown_advice()));
    }

    #[test]
    fn forked_children_have_distinct_tokens() {
        let before = super::token();
        assert_eq!(before.is_some(), refuses_unknown_advice());
        if before.is_none() {
            return;
        }
        // SAFETY: the children compare two numbers and end by _exit.
        let status = unsafe {
            let child = libc::fork();
            if child == 0 {
                let of_child = super::token();
                let grandchild = libc::fork();
                if grandchild == 0 {
                    let of_grandchild = super::token();
                    libc::_exit(i32::from(of_grandchild == of_child || of_grandchild == before));
                }
                let mut status = -1;
                libc::waitpid(grandchild, &mut status, 0);
                libc::_exit(i32::from(status != 0 || of_child == before || of_child.is_none()));
            }
            let mut status = -1;
            libc::waitpid(child, &mut status, 0);
            status
        };
        assert_eq!((status, super::token()), (0, before));
    }
}
