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

/// The token of the process that calls, as [`Process::token`], of one page that all of this library share. One
/// load after the first call.
#[must_use]
pub fn token() -> Option<u64> {
    static THIS: OnceBox<Process> = OnceBox::new();
    THIS.get_or_init(|| Box::new(Process::new())).token()
}

/// Tells a process from the one that it was forked from, without a system call.
///
/// A number of a process would not do: a grandchild may have its grandparent's.
pub struct Process {
    /// A page that the kernel wipes in a child, however that was forked. None on kernels before 4.14
    /// and under some emulators.
    page: Option<NonNull<AtomicU64>>,
    /// The last token that was given to this process or to one that it descends from.
    last: AtomicU64,
}

/// One page, which need not be a whole one of the processor's.
#[cfg(target_os = "linux")]
const PAGE: usize = 4096;

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
            // SAFETY: mapped by `wiped_page`, and nobody can use it any more.
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
        if libc::madvise(page, PAGE, libc::MADV_WIPEONFORK) != 0 {
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
mod tests {
    #[test]
    fn a_child_has_another_token_and_so_has_its_own() {
        let before = super::token();
        assert!(before.is_some());
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
