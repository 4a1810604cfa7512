//! Whole pages of the host's memory, which a driver can lock in place.

use std::ptr::{NonNull, null_mut};

use gabion_scheme::ct;

/// Bytes of a page; a processor's own pages may be larger.
const PAGE: usize = 4096;

/// Exclusively owned pages, wiped when dropped. A forked child sees them as zeros: their contents
/// are not copied, and the parent keeps the very pages that a device writes to.
pub(crate) struct Pages {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: it owns its memory.
unsafe impl Send for Pages {}
// SAFETY: as a slice of bytes.
unsafe impl Sync for Pages {}

impl Pages {
    /// Maps at least so many zeroed bytes. `None` if there is not enough memory.
    pub(crate) fn new(bytes: usize) -> Option<Self> {
        let bytes = bytes.max(1).checked_next_multiple_of(PAGE)?;
        let (access, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANON);
        // SAFETY: a fresh mapping.
        let start = unsafe { libc::mmap(null_mut(), bytes, access, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return None;
        }
        #[cfg(target_os = "linux")]
        // SAFETY: advice about this mapping. If a kernel refuses it, only its benefit is lost.
        unsafe {
            libc::madvise(start, bytes, libc::MADV_WIPEONFORK);
            libc::madvise(start, bytes, libc::MADV_HUGEPAGE);
        }
        NonNull::new(start.cast()).map(|start| Pages { start, bytes })
    }

    /// Returns the address of its first byte.
    pub(crate) fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Returns how many bytes.
    pub(crate) fn len(&self) -> usize {
        self.bytes
    }

    /// Makes bytes from the front zero.
    ///
    /// # Safety
    /// The bytes are not read or written elsewhere.
    pub(crate) unsafe fn wipe(&self, bytes: usize) {
        // SAFETY: within its own memory; the rest is the caller's.
        ct::wipe(unsafe { std::slice::from_raw_parts_mut(self.start(), bytes.min(self.bytes)) });
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the pages are not used any more.
        unsafe {
            self.wipe(self.bytes);
            libc::munmap(self.start().cast(), self.bytes);
        }
    }
}

/// An owner that has to act before pages are freed.
pub(crate) trait PageOwner: Send + Sync {
    /// Takes pages back, and releases them when possible.
    fn take_back(&self, pages: Pages);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_zero_and_can_be_written_and_wiped() {
        let pages = Pages::new(5000).unwrap();
        assert_eq!((pages.len(), pages.start() as usize % PAGE), (8192, 0));
        // SAFETY: exclusively owned memory.
        let bytes = unsafe { std::slice::from_raw_parts_mut(pages.start(), pages.len()) };
        assert!(bytes.iter().all(|&byte| byte == 0));
        bytes.fill(7);
        // SAFETY: as above.
        unsafe { pages.wipe(4999) };
        assert_eq!((bytes[4998], bytes[4999]), (0, 7));
        assert!(Pages::new(usize::MAX).is_none() && Pages::new(usize::MAX / 2).is_none());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_forked_child_sees_zeros() {
        let pages = Pages::new(1).unwrap();
        // SAFETY: its own memory; the child reads one byte and ends by _exit.
        let status = unsafe {
            pages.start().write(9);
            let child = libc::fork();
            if child == 0 {
                libc::_exit(i32::from(pages.start().read()));
            }
            let mut status = -1;
            libc::waitpid(child, &mut status, 0);
            status
        };
        // SAFETY: as above.
        assert_eq!((status, unsafe { pages.start().read() }), (0, 9));
    }
}
