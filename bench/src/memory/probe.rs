//! Counts a process's heap: preloaded before libc, compiled by build.rs into a separate library.
//!
//! It replaces malloc and related functions, passes every call on to glibc, and keeps four numbers.
//! Blocks count with the size that malloc really gave them (`malloc_usable_size`), both when they
//! are allocated and when they are freed. Not part of the crate: the harness embeds the library and
//! preloads it into the processes that it measures, and into no other.

#![no_std]

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

unsafe extern "C" {
    fn __libc_malloc(size: usize) -> *mut c_void;
    fn __libc_calloc(count: usize, size: usize) -> *mut c_void;
    fn __libc_realloc(block: *mut c_void, size: usize) -> *mut c_void;
    fn __libc_memalign(alignment: usize, size: usize) -> *mut c_void;
    fn __libc_free(block: *mut c_void);
    fn malloc_usable_size(block: *mut c_void) -> usize;
    fn abort() -> !;
}

const ENOMEM: c_int = 12;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static TOTAL: AtomicU64 = AtomicU64::new(0);
static LIVE: AtomicI64 = AtomicI64::new(0);
static PEAK: AtomicI64 = AtomicI64::new(0);

/// The counters.
#[repr(C)]
pub struct Heap {
    /// Calls that gave a block.
    allocations: u64,
    /// Bytes of all of them together.
    total: u64,
    /// Bytes that have not been freed.
    live: i64,
    /// The most bytes at one time since the last mark.
    peak: i64,
}

/// Writes the counts to `out`.
///
/// # Safety
/// `out` is valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gabion_heap_read(out: *mut Heap) {
    let heap = Heap {
        allocations: ALLOCATIONS.load(Relaxed),
        total: TOTAL.load(Relaxed),
        live: LIVE.load(Relaxed),
        peak: PEAK.load(Relaxed),
    };
    // SAFETY: the caller's promise.
    unsafe { out.write(heap) }
}

/// Restarts the peak from the bytes that are live now.
#[unsafe(no_mangle)]
pub extern "C" fn gabion_heap_mark() {
    PEAK.store(LIVE.load(Relaxed), Relaxed);
}

/// Counts an allocated block and returns it.
fn count_allocation(block: *mut c_void) -> *mut c_void {
    if !block.is_null() {
        // SAFETY: a block of this malloc.
        let size = unsafe { malloc_usable_size(block) };
        ALLOCATIONS.fetch_add(1, Relaxed);
        TOTAL.fetch_add(size as u64, Relaxed);
        let live = LIVE.fetch_add(size as i64, Relaxed) + size as i64;
        PEAK.fetch_max(live, Relaxed);
    }
    block
}

/// Counts a block that is about to be freed.
fn count_release(block: *mut c_void) {
    if !block.is_null() {
        // SAFETY: a block of this malloc, not freed yet.
        let size = unsafe { malloc_usable_size(block) };
        LIVE.fetch_sub(size as i64, Relaxed);
    }
}

/// # Safety
/// See malloc(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc(size: usize) -> *mut c_void {
    // SAFETY: passed on.
    count_allocation(unsafe { __libc_malloc(size) })
}

/// # Safety
/// See calloc(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    // SAFETY: passed on.
    count_allocation(unsafe { __libc_calloc(count, size) })
}

/// # Safety
/// See realloc(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(block: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: the size is read before the block may move; a null pointer is not read.
    let before = if block.is_null() { 0 } else { unsafe { malloc_usable_size(block) } };
    // SAFETY: passed on.
    let moved = unsafe { __libc_realloc(block, size) };
    // A failed call leaves the old block as it was; realloc to nothing frees it.
    if !moved.is_null() || size == 0 {
        LIVE.fetch_sub(before as i64, Relaxed);
    }
    count_allocation(moved)
}

/// # Safety
/// See free(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(block: *mut c_void) {
    count_release(block);
    // SAFETY: passed on.
    unsafe { __libc_free(block) }
}

/// # Safety
/// See memalign(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memalign(alignment: usize, size: usize) -> *mut c_void {
    // SAFETY: passed on.
    count_allocation(unsafe { __libc_memalign(alignment, size) })
}

/// # Safety
/// See aligned_alloc(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aligned_alloc(alignment: usize, size: usize) -> *mut c_void {
    // SAFETY: passed on.
    count_allocation(unsafe { __libc_memalign(alignment, size) })
}

/// # Safety
/// See posix_memalign(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(
    out: *mut *mut c_void,
    alignment: usize,
    size: usize,
) -> c_int {
    // SAFETY: passed on.
    let block = count_allocation(unsafe { __libc_memalign(alignment, size) });
    if block.is_null() {
        return ENOMEM;
    }
    // SAFETY: the caller's pointer, as the function's contract has it.
    unsafe { out.write(block) };
    0
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: no arguments; nothing here can panic, and there is no way to report it.
    unsafe { abort() }
}
