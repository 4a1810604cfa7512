//! Working memory, taken for a batch and given back after it.
//!
//! ```text
//!   batch --take--> the place of this stack --empty?--> any other place --all empty?--> new
//!         <-- give back: to the place of this stack; what lay there goes to the next empty one
//! ```
//!
//! Not thread-local: the value of a thread-local with a destructor is gone when other destructors
//! of the thread run, and at the exit of the program, and operations have to work in those too. Its
//! first use allocates inside the dynamic loader, which takes a lock and ends the process if the
//! allocation fails. Here there is no lock and no waiting: a forked child lacks the buffers that
//! other threads of the parent had taken, and allocates new ones. There are as many buffers as
//! there were concurrent batches, at most one per place.

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use gabion_scheme::{lms, ml_dsa, slh_dsa, xmss};

use super::kem;

/// Working memory of one batch; holds no secret between batches.
#[derive(Default)]
pub(super) struct Scratch {
    pub(super) kem: kem::Scratch,
    pub(super) dsa: ml_dsa::Scratch,
    pub(super) slh: slh_dsa::Scratch,
    pub(super) hss: lms::Scratch,
    pub(super) xmss: xmss::Scratch,
}

/// More than batches run at the same time on most machines; those beyond it make their own.
const PLACES: usize = 256;

/// A slot of the pool: empty, or the owner of a boxed buffer. A cache line each.
#[repr(align(64))]
struct ScratchSlot(AtomicPtr<Scratch>);

static POOL: Pool = Pool::new();

struct Pool([ScratchSlot; PLACES]);

impl Pool {
    const fn new() -> Pool {
        Pool([const { ScratchSlot(AtomicPtr::new(ptr::null_mut())) }; PLACES])
    }

    fn take(&self, home: usize) -> Option<Box<Scratch>> {
        self.around(home).find_map(|place| {
            // Only a place that is not empty is worth a write.
            if place.load(Ordering::Relaxed).is_null() {
                return None;
            }
            let taken = place.swap(ptr::null_mut(), Ordering::Acquire);
            // SAFETY: what a place owned came from a box, and the swap took it for this call alone.
            (!taken.is_null()).then(|| unsafe { Box::from_raw(taken) })
        })
    }

    fn give_back(&self, home: usize, scratch: Box<Scratch>) {
        let mut displaced = self.0[home].0.swap(Box::into_raw(scratch), Ordering::AcqRel);
        for place in self.around(home) {
            if displaced.is_null() {
                return;
            }
            let (new, order) = (displaced, (Ordering::Release, Ordering::Relaxed));
            if place.compare_exchange(ptr::null_mut(), new, order.0, order.1).is_ok() {
                displaced = ptr::null_mut();
            }
        }
        if !displaced.is_null() {
            // SAFETY: what a place owned came from a box, and the swap took it for this call alone.
            drop(unsafe { Box::from_raw(displaced) });
        }
    }

    fn with<R>(&self, work: impl FnOnce(&mut Scratch) -> R) -> R {
        let home = home();
        let mut scratch = self.take(home).unwrap_or_default();
        // The engine catches panics: what one leaves in here is wiped and freed by the unwinding.
        let result = work(&mut scratch);
        self.give_back(home, scratch);
        result
    }

    /// Every place, from `home` on.
    fn around(&self, home: usize) -> impl Iterator<Item = &AtomicPtr<Scratch>> {
        (0..PLACES).map(move |step| &self.0[(home + step) % PLACES].0)
    }
}

/// Returns the slot of the current stack: a thread finds the buffers in its processor's cache.
fn home() -> usize {
    let here = 0u8;
    // Stacks lie apart by more than 64 KiB, and differ by multiples of powers of two.
    let stack = (ptr::from_ref(&here).addr() >> 16) as u64;
    (stack.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize % PLACES
}

/// Runs `work` with working memory.
pub(super) fn with<R>(work: impl FnOnce(&mut Scratch) -> R) -> R {
    POOL.with(work)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(pool: &Pool) -> usize {
        pool.around(0).filter(|place| !place.load(Ordering::Relaxed).is_null()).count()
    }

    #[test]
    fn returned_scratch_is_reused_from_any_slot() {
        let pool = Pool::new();
        assert!(pool.take(7).is_none());
        let first = Box::<Scratch>::default();
        let address = ptr::from_ref(&*first);
        pool.give_back(255, first);
        let again = pool.take(8).unwrap();
        assert_eq!(ptr::from_ref(&*again), address);
        assert_eq!(count(&pool), 0);
        // Two of one home: the second displaces the first, and both stay.
        pool.give_back(255, again);
        pool.give_back(255, Box::default());
        assert_eq!(count(&pool), 2);
        // As many as there are places, and no more.
        (0..PLACES).for_each(|_| pool.give_back(3, Box::default()));
        assert_eq!(count(&pool), PLACES);
        while let Some(scratch) = pool.take(100) {
            drop(scratch);
        }
        assert_eq!(count(&pool), 0);
    }

    #[test]
    fn scratch_is_dropped_on_panic() {
        let pool = Pool::new();
        pool.with(|_| ());
        assert_eq!(count(&pool), 1);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            pool.with(|_| panic!("in there"));
        }));
        assert!(panicked.is_err());
        assert_eq!(count(&pool), 0);
    }

    #[test]
    fn threads_make_as_many_as_run_at_once() {
        let pool = Pool::new();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| pool.with(|_| ())));
            }
        });
        assert!((1..=4).contains(&count(&pool)));
        while pool.take(0).is_some() {}
    }
}
