//! How much stack a piece of work takes: paint it, run, look how far down the paint is gone.

/// The pattern that the stack is painted with.
const PATTERN: u64 = 0xa5a5_5a5a_c3c3_3c3c;
/// The painted depth in bytes.
pub(super) const PAINTED: usize = 1 << 20;
/// Stack that a thread needs to be painted that far.
pub(super) const THREAD: usize = 2 * PAINTED;
/// Bytes below the painter's own frame that are not painted, because it works there itself.
const MARGIN: usize = 2048;

/// Runs `work` on painted stack, and returns how many bytes below this call it reached: at least
/// [`MARGIN`], at most [`PAINTED`].
///
/// The thread has to have [`THREAD`] bytes of stack, and nothing else may run on it: no signal
/// handler, no coroutine.
#[inline(never)]
pub(super) fn measure<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let marker = 0u64;
    let top = std::ptr::from_ref(&marker) as usize & !7;
    paint(top);
    let done = work();
    (done, top - lowest(top))
}

#[inline(never)]
fn paint(top: usize) {
    for address in (top - PAINTED..top - MARGIN).step_by(8) {
        // SAFETY: this thread's own stack, which has twice the room, below every live frame: the
        // margin holds this function's.
        unsafe { std::ptr::with_exposed_provenance_mut::<u64>(address).write_volatile(PATTERN) };
    }
}

/// The lowest address whose paint is gone.
#[inline(never)]
fn lowest(top: usize) -> usize {
    let painted = (top - PAINTED..top - MARGIN).step_by(8);
    // SAFETY: the range that was painted.
    let read = |address: usize| unsafe {
        std::ptr::with_exposed_provenance::<u64>(address).read_volatile()
    };
    painted.clone().find(|address| read(*address) != PATTERN).unwrap_or(top - MARGIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_thread(work: fn()) -> usize {
        std::thread::Builder::new()
            .stack_size(THREAD)
            .spawn(move || measure(work).1)
            .unwrap()
            .join()
            .unwrap()
    }

    #[inline(never)]
    fn deep<const N: usize>() {
        let mut room = [0u8; N];
        std::hint::black_box(&mut room);
    }

    #[test]
    fn depth_is_seen_to_within_a_frame() {
        let little = in_thread(|| {});
        assert_eq!(little, MARGIN);
        for (work, bytes) in [(deep::<20_000> as fn(), 20_000), (deep::<300_000> as fn(), 300_000)]
        {
            let seen = in_thread(work);
            assert!((bytes..bytes + 1024).contains(&seen), "{seen} of {bytes}");
        }
    }
}
