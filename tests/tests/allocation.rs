//! Memory that can't be had ends the process at once, as the documentation says: nothing half-made
//! comes out, and nothing goes on with less.
//!
//! The test runs itself alone in child processes, in each of which another large allocation fails.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.

use std::alloc::{GlobalAlloc, Layout, System};
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use gabion_engine::{Algorithm, Engine, Message, OsEntropy, Randomness, Status};

/// The threshold of large allocations: more than the test harness and messages need.
const LARGE: usize = 2048;
/// The number of the large allocation that fails, for the child.
const WHICH: &str = "GABION_TEST_ALLOCATION";
const NAME: &str = "an_allocation_that_fails_ends_the_process_and_gives_nothing_out";

/// Large allocations until one fails; zero means that none will.
static LEFT: AtomicUsize = AtomicUsize::new(0);

struct FailingAllocator;

impl FailingAllocator {
    fn fails(size: usize) -> bool {
        size >= LARGE
            && LEFT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1))
                == Ok(1)
    }
}

// SAFETY: every request goes to the system's allocator unchanged, or is answered with null, which an
// allocator may do at any time.
unsafe impl GlobalAlloc for FailingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if FailingAllocator::fails(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promise about the layout is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if FailingAllocator::fails(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promise about the layout is passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer came from the system's allocator with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if size > layout.size() && FailingAllocator::fails(size) {
            return std::ptr::null_mut();
        }
        // SAFETY: the pointer came from the system's allocator with this layout; the caller promises
        // the rest.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: FailingAllocator = FailingAllocator;

/// Runs in the child: batches whose memory is drawn from the allocator above.
fn child(which: usize) {
    let engine = Engine::global().unwrap();
    let kem = engine.kem_generate(Algorithm::MlKem768, &OsEntropy).unwrap();
    let key = engine.signature_generate(Algorithm::MlDsa65, &OsEntropy).unwrap();
    let n = 20;
    let (mut ct, mut shared) = (vec![0; n * 1088], vec![0; n * 32]);
    let (mut signatures, mut lengths) = (vec![0; n * 3309], vec![0; n]);
    let mut status = vec![Status::NotRun; n];
    let message = Message::Pure { context: b"", message: b"m" };
    let fresh = || Randomness::Fresh(&OsEntropy);
    LEFT.store(which, Ordering::Relaxed);
    let public = kem.public();
    engine.encaps_many(&vec![&public; n], fresh(), &mut ct, &mut shared, &mut status).unwrap();
    assert!(status.iter().all(|status| status.is_ok()));
    let (keys, messages) = (vec![&key; n], vec![message; n]);
    engine
        .sign_many(&keys, &messages, fresh(), &mut signatures, &mut lengths, &mut status)
        .unwrap();
    assert!(status.iter().all(|status| status.is_ok()));
    let ran_out = LEFT.swap(0, Ordering::Relaxed) == 0;
    assert!(!ran_out, "an allocation failed, and the batches went on");
}

#[test]
fn an_allocation_that_fails_ends_the_process_and_gives_nothing_out() {
    if let Ok(which) = std::env::var(WHICH) {
        return child(which.parse().unwrap());
    }
    let run = |which: usize| {
        let arguments = ["--exact", NAME, "--nocapture", "--test-threads", "1"];
        let program = std::env::current_exe().unwrap();
        Command::new(program).args(arguments).env(WHICH, which.to_string()).output().unwrap()
    };
    // SIGABRT, from handle_alloc_error.
    const ABORTED: Option<i32> = Some(6);
    let mut aborted = 0;
    for which in 1.. {
        let output = run(which);
        if output.status.success() {
            break;
        }
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.signal(), ABORTED, "allocation {which}: {said}");
        assert!(said.contains("memory allocation of"), "allocation {which}: {said}");
        let out = String::from_utf8_lossy(&output.stdout);
        assert!(!out.contains("ok"), "allocation {which}: {out}");
        aborted += 1;
        assert!(aborted < 500, "the batches allocate without end");
    }
    assert!(aborted >= 3, "{aborted} large allocations: the test reaches what it is for");
}
