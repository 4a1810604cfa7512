//! Pages for secrets that no other process can read.

use std::ptr::{NonNull, null_mut};

use gabion_engine::{ct, forks};

/// The kind of memory that holds a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Memory that the kernel itself does not map (`memfd_secret(2)`, Linux 5.14): it is never
    /// swapped, and neither other processes nor reads of `/proc/PID/mem` get it.
    Hidden,
    /// In locked memory: never swapped.
    Locked,
    /// Memory that may be swapped, because the limit of locked memory is too low.
    Unlocked,
}

/// Bytes on separate pages, initially zero, and wiped when dropped. They are excluded from core
/// dumps and not mapped in forked processes, where access is refused.
pub(crate) struct Pages {
    start: NonNull<u8>,
    len: usize,
    /// The size of the mapping in bytes.
    mapped: usize,
    place: Place,
    /// The process that mapped them.
    process: u64,
}

// SAFETY: it owns its memory.
unsafe impl Send for Pages {}
// SAFETY: like a byte slice: shared references only allow reading.
unsafe impl Sync for Pages {}

/// The assumed page size. If the processor's pages are larger, the kernel rounds up.
const PAGE: usize = 4096;

impl Pages {
    /// Allocates `len` bytes in the best available kind of memory; `None` if there is no memory.
    pub fn new(len: usize) -> Option<Self> {
        let mapped = len.max(1).checked_next_multiple_of(PAGE)?;
        let (start, place) = hidden(mapped)
            .map(|start| (start, Place::Hidden))
            .or_else(|| anonymous(mapped))
            .map(|(start, place)| (kept_to_itself(start, mapped), place))?;
        Some(Pages { start, len, mapped, place, process: this_process() })
    }

    /// Returns the kind of memory.
    pub fn place(&self) -> Place {
        self.place
    }

    /// Returns the bytes; `None` in a forked process.
    pub fn bytes(&self) -> Option<&[u8]> {
        // SAFETY: mapped, readable and initialised as long as this lives, in this process.
        self.is_here().then(|| unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) })
    }

    /// Returns the bytes for writing; `None` in a forked process.
    pub fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        let start = self.start.as_ptr();
        // SAFETY: mapped, writable and initialized as long as this lives, in this process, and
        // `&mut self` excludes other references.
        self.is_here().then(|| unsafe { std::slice::from_raw_parts_mut(start, self.len) })
    }

    fn is_here(&self) -> bool {
        self.process == this_process()
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        if let Some(bytes) = self.bytes_mut() {
            ct::wipe(bytes);
            // SAFETY: no reference is left, and this process made the mapping. A forked child,
            // where another mapping may be at this address by now, does not get here.
            unsafe { libc::munmap(self.start.as_ptr().cast(), self.mapped) };
        }
    }
}

/// Returns a token that differs between a process and its forked children; the process id if the
/// kernel does not support such a token.
fn this_process() -> u64 {
    forks::token().unwrap_or_else(|| u64::MAX - u64::from(std::process::id()))
}

/// Maps memory that the kernel does not map. `None` if the kernel does not support it, a system
/// call filter forbids it, or the limit of locked memory is too low.
#[cfg(target_os = "linux")]
fn hidden(bytes: usize) -> Option<NonNull<u8>> {
    let size = libc::off_t::try_from(bytes).ok()?;
    // SAFETY: a new file, which is closed again, and a new mapping of it.
    unsafe {
        let file = libc::syscall(libc::SYS_memfd_secret, libc::O_CLOEXEC);
        let file = libc::c_int::try_from(file).ok().filter(|&file| file >= 0)?;
        let start = match libc::ftruncate(file, size) {
            0 => {
                let access = libc::PROT_READ | libc::PROT_WRITE;
                libc::mmap(null_mut(), bytes, access, libc::MAP_SHARED, file, 0)
            }
            _ => libc::MAP_FAILED,
        };
        libc::close(file);
        NonNull::new(start.cast()).filter(|_| start != libc::MAP_FAILED)
    }
}

#[cfg(not(target_os = "linux"))]
fn hidden(_: usize) -> Option<NonNull<u8>> {
    None
}

/// Maps anonymous memory, locked if possible.
fn anonymous(bytes: usize) -> Option<(NonNull<u8>, Place)> {
    // SAFETY: a new mapping.
    unsafe {
        let (access, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANON);
        let start = libc::mmap(null_mut(), bytes, access, flags, -1, 0);
        if start == libc::MAP_FAILED {
            return None;
        }
        let place = match libc::mlock(start, bytes) {
            0 => Place::Locked,
            _ => Place::Unlocked,
        };
        NonNull::new(start.cast()).map(|start| (start, place))
    }
}

/// Excludes pages from core dumps and forked children. Access is also checked by process, so a
/// kernel that rejects this advice loses only the advice.
fn kept_to_itself(start: NonNull<u8>, bytes: usize) -> NonNull<u8> {
    #[cfg(target_os = "linux")]
    // SAFETY: advice about a mapping of our own.
    unsafe {
        libc::madvise(start.as_ptr().cast(), bytes, libc::MADV_DONTDUMP);
        libc::madvise(start.as_ptr().cast(), bytes, libc::MADV_DONTFORK);
    }
    let _ = bytes;
    start
}

#[cfg(all(test, target_os = "linux"))]
#[allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.
mod tests {
    use std::fs;
    use std::os::unix::fs::FileExt;
    use std::process::Command;

    use super::*;

    /// The kinds of memory to leave to a child process that runs one test of this file.
    const LEFT: &str = "GABION_TEST_PLACE";

    const SECRET: [u8; 32] = *b"thirty-two bytes nobody else has";

    fn with_secret() -> Pages {
        let mut pages = Pages::new(SECRET.len()).unwrap();
        pages.bytes_mut().unwrap().copy_from_slice(&SECRET);
        pages
    }

    /// Returns the kernel's flags of the mapping (proc(5), VmFlags).
    fn flags(pages: &Pages) -> Vec<String> {
        let wanted = format!("{:x}-", pages.start.as_ptr() as usize);
        let maps = fs::read_to_string("/proc/self/smaps").unwrap();
        let mut lines =
            maps.lines().skip_while(|line| !line.trim_start_matches('0').starts_with(&wanted));
        assert!(lines.next().is_some(), "no mapping begins at {wanted}");
        let found = lines.find_map(|line| line.strip_prefix("VmFlags: ")).unwrap();
        found.split_whitespace().map(str::to_owned).collect()
    }

    /// Reads the pages as a debugger would.
    fn read_from_outside(pages: &Pages) -> Option<Vec<u8>> {
        let mut bytes = vec![0; pages.len];
        let memory = fs::File::open("/proc/self/mem").unwrap();
        memory.read_exact_at(&mut bytes, pages.start.as_ptr() as u64).ok().map(|()| bytes)
    }

    /// Makes the kernel return ENOSYS for memfd_secret from here on, as a container's system call
    /// filter may (seccomp(2)).
    fn forbid_hidden() {
        let step =
            |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt, jf, k };
        let mut steps = [
            // The number of the system call is the first field of the filter's input.
            step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
            step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, libc::SYS_memfd_secret as u32),
            step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32),
            step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
        ];
        let filter = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
        // SAFETY: a filter of this thread, which is the only thread of the process that continues.
        unsafe {
            assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
            let mode = libc::SECCOMP_MODE_FILTER;
            assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const filter), 0);
        }
    }

    /// Removes the limit of locked memory and the capability to exceed it (capabilities(7)).
    fn forbid_locks() {
        #[repr(C)]
        struct Head(u32, i32);
        // SAFETY: changes only limits and capabilities of this thread.
        unsafe {
            let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            assert_eq!(libc::setrlimit(libc::RLIMIT_MEMLOCK, &none), 0);
            // Version 3: two sets of effective, permitted, inheritable.
            let (head, rights) = (Head(0x2008_0522, 0), [0u32; 6]);
            assert_eq!(libc::syscall(libc::SYS_capset, &head, &rights), 0);
        }
    }

    /// Runs this test in a child process for each kind. Returns the kind in the child, and `None`
    /// in the parent.
    fn left_with(name: &str, places: &[&str]) -> Option<String> {
        if let Ok(place) = std::env::var(LEFT) {
            return Some(place);
        }
        for place in places {
            let name = format!("memory::pages::tests::{name}");
            let run = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", &name, "--nocapture"])
                .env(LEFT, place)
                .output()
                .unwrap();
            assert!(run.status.success(), "{place}: {run:?}");
        }
        None
    }

    #[test]
    fn a_secret_has_the_best_place_that_there_is() {
        let places = ["any", "locked", "unlocked"];
        let Some(left) = left_with("a_secret_has_the_best_place_that_there_is", &places) else {
            return;
        };
        if left != "any" {
            forbid_hidden();
        }
        if left == "unlocked" {
            forbid_locks();
        }
        let pages = with_secret();
        let has = flags(&pages);
        let has = |flag: &str| has.iter().any(|found| found == flag);
        assert_eq!(pages.bytes().unwrap(), SECRET);
        // Not dumped, not copied to a child.
        assert!(has("dd") && has("dc"), "{:?}", flags(&pages));
        match (&*left, pages.place()) {
            ("any", Place::Hidden) => {
                assert!(has("lo"));
                assert_eq!(read_from_outside(&pages), None);
            }
            // A kernel without memfd_secret.
            ("any" | "locked", Place::Locked) => {
                assert!(has("lo"));
                assert_eq!(read_from_outside(&pages).unwrap(), SECRET);
            }
            ("unlocked", Place::Unlocked) => assert!(!has("lo")),
            (left, place) => panic!("{place:?} where there is {left}"),
        }
    }

    #[test]
    fn a_forked_child_has_no_secret_and_the_parent_keeps_its_own() {
        let places = ["any", "locked", "unlocked"];
        let name = "a_forked_child_has_no_secret_and_the_parent_keeps_its_own";
        let Some(left) = left_with(name, &places) else { return };
        match &*left {
            "locked" => forbid_hidden(),
            "unlocked" => {
                forbid_hidden();
                forbid_locks();
            }
            _ => {}
        }
        let pages = with_secret();
        // SAFETY: the child only checks, drops and exits.
        let status = unsafe {
            let child = libc::fork();
            if child == 0 {
                let is_refused = pages.bytes().is_none();
                // The mapping does not exist: msync(2) fails for unmapped pages.
                let is_mapped =
                    libc::msync(pages.start.as_ptr().cast(), pages.mapped, libc::MS_ASYNC) == 0;
                drop(pages);
                libc::_exit(i32::from(!is_refused) + 2 * i32::from(is_mapped));
            }
            let mut status = -1;
            libc::waitpid(child, &mut status, 0);
            status
        };
        assert_eq!(status, 0, "{left}");
        assert_eq!(pages.bytes().unwrap(), SECRET);
    }

    /// An unmapped page cannot be read; if it stays mapped, it was wiped before.
    #[test]
    fn a_secret_is_wiped_before_its_pages_go() {
        let mut pages = with_secret();
        let (start, len) = (pages.start, pages.len);
        ct::wipe(pages.bytes_mut().unwrap());
        // SAFETY: still mapped.
        assert_eq!(unsafe { std::slice::from_raw_parts(start.as_ptr(), len) }, [0; 32]);
        drop(pages);
    }
}
