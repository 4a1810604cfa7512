//! A reserve of memory for shared libraries that live in other people's processes.
//!
//! ```text
//!   code of the library --malloc, calloc, ...--> __wrap_malloc ---> malloc of the process
//!                         (linked by --wrap)          |                 | null
//!                                                     |                 v
//!                                                     +-----------> the reserve: RESERVE bytes of .bss
//! ```
//!
//! Rust ends the process if an allocation fails. A library must not: while an operation runs,
//! allocations that the process's malloc refuses are served from here, so that the operation can
//! finish. While any of the reserve is in use, [`has_memory`] returns whether another operation may
//! begin. A `#[global_allocator]` would also affect programs that link these crates, and conflict
//! with theirs; so the linker replaces malloc in the shared libraries alone, as their build scripts
//! request. In other programs this code is never called.
//!
//! The reserve has no lock, which a forked child might find locked: blocks are runs of bits that
//! are set and cleared by atomic operations. Blocks that another thread of the parent held stay
//! allocated in the child.

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::ptr::{self, null_mut};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Bytes of the reserve: no page of it is touched before it is needed.
const RESERVE: usize = 4 << 20;
/// Bytes that a bit stands for.
const GRANULE: usize = 256;
const GRANULES: usize = RESERVE / GRANULE;
/// The header of a block: the number of its granules. Its size is malloc's alignment.
const HEADER: usize = 16;
/// The memory that a process must be able to allocate before operations begin while the reserve is
/// in use: more than most operations take.
const ENOUGH: usize = 1 << 20;

type Malloc = unsafe extern "C" fn(usize) -> *mut c_void;
type Calloc = unsafe extern "C" fn(usize, usize) -> *mut c_void;
type Realloc = unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void;
type Memalign = unsafe extern "C" fn(*mut *mut c_void, usize, usize) -> c_int;
type Free = unsafe extern "C" fn(*mut c_void);

#[repr(C, align(4096))]
struct Arena(UnsafeCell<[u8; RESERVE]>);

// SAFETY: no reference to the bytes is made; a block belongs to the caller that set its bits.
unsafe impl Sync for Arena {}

static ARENA: Arena = Arena(UnsafeCell::new([0; RESERVE]));
static BLOCKS: Blocks = Blocks::new();
/// Granules in use when the process was last seen to have memory.
static CALM: AtomicUsize = AtomicUsize::new(0);

/// Returns whether an operation may begin: nothing more of the reserve is in use than when the
/// process was last seen to have memory, or it has memory again.
#[inline]
#[must_use]
pub fn has_memory() -> bool {
    let used = BLOCKS.used.load(Ordering::Relaxed);
    used == CALM.load(Ordering::Relaxed) || is_calm(used)
}

/// Probes the process's allocator. Long-lived values that were allocated in the reserve, such as a
/// key, stay there; after a successful probe, they do not trigger another one.
#[cold]
fn is_calm(used: usize) -> bool {
    let is_calm = can_be_had(ENOUGH);
    if is_calm {
        CALM.store(used, Ordering::Relaxed);
    }
    is_calm
}

/// Returns whether the process gives so many bytes, apart from the reserve, of which something is
/// in use.
fn can_be_had(bytes: usize) -> bool {
    // SAFETY: what malloc gave is freed; null may be, too.
    unsafe {
        let block = gabion_real_malloc(bytes);
        free(block);
        !block.is_null()
    }
}

/// The granules in use.
struct Blocks {
    bits: [AtomicU64; GRANULES / 64],
    used: AtomicUsize,
}

impl Blocks {
    const fn new() -> Self {
        Blocks { bits: [const { AtomicU64::new(0) }; GRANULES / 64], used: AtomicUsize::new(0) }
    }

    /// Takes a run of granules; returns the number of the first one.
    fn take(&self, count: usize) -> Option<usize> {
        if count == 0 || count > GRANULES {
            return None;
        }
        let mut start = 0;
        // Another thread may be quicker, at each try.
        while let Some(found) = self.find(start, count) {
            if self.set(found, count) {
                self.used.fetch_add(count, Ordering::Relaxed);
                return Some(found);
            }
            start = found + 1;
        }
        None
    }

    /// Finds a run of free granules, at `start` or behind it.
    fn find(&self, start: usize, count: usize) -> Option<usize> {
        let mut run = 0;
        for at in start..GRANULES {
            let is_free = self.bits[at / 64].load(Ordering::Relaxed) >> (at % 64) & 1 == 0;
            run = if is_free { run + 1 } else { 0 };
            if run == count {
                return Some(at + 1 - count);
            }
        }
        None
    }

    /// Sets all bits of a run, or none where one is set.
    fn set(&self, start: usize, count: usize) -> bool {
        for (index, (word, mask)) in masks(start, count).enumerate() {
            let before = self.bits[word].fetch_or(mask, Ordering::Acquire);
            if before & mask != 0 {
                self.bits[word].fetch_and(!(mask & !before), Ordering::Release);
                for (word, mask) in masks(start, count).take(index) {
                    self.bits[word].fetch_and(!mask, Ordering::Release);
                }
                return false;
            }
        }
        true
    }

    fn give_back(&self, start: usize, count: usize) {
        for (word, mask) in masks(start, count) {
            self.bits[word].fetch_and(!mask, Ordering::Release);
        }
        self.used.fetch_sub(count, Ordering::Relaxed);
    }
}

/// The words that a run of bits touches, and which of their bits.
fn masks(start: usize, count: usize) -> impl Iterator<Item = (usize, u64)> {
    let end = start + count;
    (start / 64..end.div_ceil(64)).map(move |word| {
        let (from, to) = (start.max(64 * word) - 64 * word, end.min(64 * word + 64) - 64 * word);
        (word, (u64::MAX >> (64 - (to - from))) << from)
    })
}

/// Returns whether a block is the reserve's.
#[inline]
fn is_ours(block: *mut c_void) -> bool {
    block.addr().wrapping_sub(ARENA.0.get().addr()) < RESERVE
}

/// The process's malloc has refused this.
#[cold]
fn refused(size: usize, align: usize) -> *mut c_void {
    let front = HEADER.max(align);
    let Some(bytes) = size.checked_add(front) else { return null_mut() };
    if align > GRANULE {
        return null_mut();
    }
    let count = bytes.div_ceil(GRANULE);
    let Some(start) = BLOCKS.take(count) else { return null_mut() };
    // SAFETY: the run lies in the arena and is this call's; its header fits in front of the block, and is
    // aligned, for granules and blocks are.
    unsafe {
        let block = ARENA.0.get().cast::<u8>().add(start * GRANULE + front);
        block.sub(HEADER).cast::<usize>().write(count);
        block.cast()
    }
}

/// The header of a block of the reserve: its first granule, and how many it has.
///
/// # Safety
/// The block came from [`refused`] and was not given back.
unsafe fn run_of(block: *mut c_void) -> (usize, usize) {
    // SAFETY: as the caller vouches, a header lies in front of it, in the run's first granule.
    unsafe {
        let header = block.cast::<u8>().sub(HEADER);
        ((header.addr() - ARENA.0.get().addr()) / GRANULE, header.cast::<usize>().read())
    }
}

/// Bytes of a block of the reserve from its address on.
///
/// # Safety
/// See [`run_of`].
unsafe fn room(block: *mut c_void) -> usize {
    // SAFETY: as the caller vouches.
    let (start, count) = unsafe { run_of(block) };
    (start + count) * GRANULE - (block.addr() - ARENA.0.get().addr())
}

#[cold]
unsafe fn give_back(block: *mut c_void) {
    // SAFETY: the caller guarantees that it owns the block; it is not read after this.
    unsafe {
        let (start, count) = run_of(block);
        ptr::write_bytes(block.cast::<u8>(), 0, room(block));
        BLOCKS.give_back(start, count);
    }
}

unsafe extern "C" fn malloc(size: usize, real: Malloc) -> *mut c_void {
    // SAFETY: the process's malloc.
    let block = unsafe { real(size) };
    if block.is_null() { refused(size, HEADER) } else { block }
}

unsafe extern "C" fn calloc(count: usize, size: usize, real: Calloc) -> *mut c_void {
    // SAFETY: the process's calloc.
    let block = unsafe { real(count, size) };
    if !block.is_null() {
        return block;
    }
    let Some(size) = count.checked_mul(size) else { return null_mut() };
    let block = refused(size, HEADER);
    if !block.is_null() {
        // SAFETY: a fresh block of that size.
        unsafe { ptr::write_bytes(block.cast::<u8>(), 0, size) };
    }
    block
}

unsafe extern "C" fn realloc(old: *mut c_void, size: usize, real: Realloc) -> *mut c_void {
    // SAFETY: the caller's block is null, the process's or the reserve's, and is asked for its length and
    // read within it.
    unsafe {
        let is_ours = is_ours(old);
        let mut block = real(if is_ours { null_mut() } else { old }, size);
        if !block.is_null() && !is_ours || size == 0 {
            return block;
        }
        if block.is_null() {
            block = refused(size, HEADER);
        }
        if block.is_null() || old.is_null() {
            return block;
        }
        let len = if is_ours { room(old) } else { malloc_usable_size(old) };
        ptr::copy_nonoverlapping(old.cast::<u8>(), block.cast::<u8>(), len.min(size));
        if is_ours {
            give_back(old)
        } else {
            free(old)
        }
        block
    }
}

unsafe extern "C" fn memalign(
    place: *mut *mut c_void,
    align: usize,
    size: usize,
    real: Memalign,
) -> c_int {
    // SAFETY: the process's posix_memalign, and the caller's place.
    unsafe {
        let code = real(place, align, size);
        if code == 0 || !align.is_power_of_two() {
            return code;
        }
        let block = refused(size, align);
        if block.is_null() {
            return code;
        }
        place.write(block);
        0
    }
}

unsafe extern "C" fn free_wrapped(block: *mut c_void, real: Free) {
    // SAFETY: the caller's block is the reserve's or the process's.
    unsafe { if is_ours(block) { give_back(block) } else { real(block) } }
}

unsafe extern "C" {
    fn free(block: *mut c_void);
    /// The process's malloc, in a library that is linked for the reserve; never called elsewhere.
    fn gabion_real_malloc(size: usize) -> *mut c_void;
    fn malloc_usable_size(block: *mut c_void) -> usize;
}

/// A function of assembly. It is hidden, and weak, so that a program may have its own of that name, as
/// `__real_NAME` is, which is there only where the linker was told `--wrap=NAME`.
macro_rules! stub {
    ($symbol:literal, $real:literal, $($line:expr),+ $(; $function:path)?) => {
        std::arch::global_asm!(
            concat!(".pushsection .text.", $symbol, ",\"ax\",@progbits"),
            concat!(".weak ", $real),
            concat!(".weak ", $symbol),
            concat!(".hidden ", $symbol),
            concat!(".type ", $symbol, ",@function"),
            concat!($symbol, ":"),
            $($line,)+
            concat!(".size ", $symbol, ", . - ", $symbol),
            ".popsection",
            $(function = sym $function)?
        );
    };
}

/// `__wrap_NAME`, to which the linker sends calls of NAME: the function with one argument more, NAME's own
/// address, which is to be in that register.
macro_rules! wrap {
    ($wrapped:literal, $real:literal, $x86:literal, $arm:literal, $function:path) => {
        #[cfg(target_arch = "x86_64")]
        stub!(
            $wrapped, $real,
            concat!("mov ", $x86, ", qword ptr [rip + ", $real, "@GOTPCREL]"),
            "jmp {function}"; $function
        );
        #[cfg(target_arch = "aarch64")]
        stub!(
            $wrapped, $real,
            concat!("adrp ", $arm, ", :got:", $real),
            concat!("ldr ", $arm, ", [", $arm, ", :got_lo12:", $real, "]"),
            "b {function}"; $function
        );
    };
}

wrap!("__wrap_malloc", "__real_malloc", "rsi", "x1", malloc);
wrap!("__wrap_calloc", "__real_calloc", "rdx", "x2", calloc);
wrap!("__wrap_realloc", "__real_realloc", "rdx", "x2", realloc);
wrap!("__wrap_posix_memalign", "__real_posix_memalign", "rcx", "x3", memalign);
wrap!("__wrap_free", "__real_free", "rsi", "x1", free_wrapped);

#[cfg(target_arch = "x86_64")]
stub!("gabion_real_malloc", "__real_malloc", "jmp qword ptr [rip + __real_malloc@GOTPCREL]");
#[cfg(target_arch = "aarch64")]
stub!(
    "gabion_real_malloc",
    "__real_malloc",
    "adrp x16, :got:__real_malloc",
    "ldr x16, [x16, :got_lo12:__real_malloc]",
    "br x16"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_bits_are_taken_and_given_back() {
        let blocks = Blocks::new();
        let (one, many) = (blocks.take(1).unwrap(), blocks.take(200).unwrap());
        assert_eq!((one, many), (0, 1));
        blocks.give_back(one, 1);
        // Too small for two; the next place is behind both.
        assert_eq!(blocks.take(2), Some(201));
        assert_eq!(blocks.take(1), Some(0));
        assert_eq!(blocks.used.load(Ordering::Relaxed), 203);
        assert_eq!(blocks.take(GRANULES - 202), None);
        assert_eq!(blocks.take(GRANULES - 203), Some(203));
        assert_eq!(blocks.take(1), None);
        assert_eq!((blocks.take(0), blocks.take(GRANULES + 1)), (None, None));
        blocks.give_back(0, GRANULES);
        assert!(blocks.bits.iter().all(|word| word.load(Ordering::Relaxed) == 0));
        assert_eq!(blocks.used.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_run_that_is_not_free_is_left_as_it_was() {
        let blocks = Blocks::new();
        assert!(blocks.set(130, 1));
        assert!(!blocks.set(60, 100));
        let taken = |at: usize| blocks.bits[at / 64].load(Ordering::Relaxed) >> (at % 64) & 1;
        assert_eq!((0..GRANULES).filter(|&at| taken(at) == 1).collect::<Vec<_>>(), [130]);
    }

    #[test]
    fn threads_never_have_the_same_granule() {
        let blocks = Blocks::new();
        let owners: Vec<_> = (0..GRANULES).map(|_| AtomicUsize::new(0)).collect();
        std::thread::scope(|scope| {
            for thread in 1..5 {
                let (blocks, owners) = (&blocks, &owners);
                scope.spawn(move || {
                    for round in 0..2000 {
                        let count = 1 + (round * thread) % 150;
                        let Some(start) = blocks.take(count) else { continue };
                        for owner in &owners[start..start + count] {
                            assert_eq!(owner.swap(thread, Ordering::Relaxed), 0);
                        }
                        for owner in &owners[start..start + count] {
                            assert_eq!(owner.swap(0, Ordering::Relaxed), thread);
                        }
                        blocks.give_back(start, count);
                    }
                });
            }
        });
        assert_eq!(blocks.used.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn blocks_are_aligned_and_know_their_size() {
        for (size, align) in [(0, 16), (1, 16), (240, 16), (241, 32), (5000, 64), (3, 256)] {
            let block = refused(size, align);
            assert!(is_ours(block) && block.addr().is_multiple_of(align), "{size} {align}");
            // SAFETY: a block of the reserve, all of which is written and which is given back once.
            unsafe {
                assert!((size..size + 2 * GRANULE).contains(&room(block)), "{size} {align}");
                ptr::write_bytes(block.cast::<u8>(), 0xff, size);
                give_back(block);
            }
        }
        assert!(refused(1, 512).is_null());
        assert!(refused(RESERVE, 16).is_null() && refused(usize::MAX, 16).is_null());
        let mut local = 0u8;
        assert!(!is_ours(ptr::from_mut(&mut local).cast()) && !is_ours(null_mut()));
    }
}
