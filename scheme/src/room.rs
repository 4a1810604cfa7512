//! Room on the stack for what may need more of it than the caller has.
//!
//! ```text
//!   caller's stack:  .. | with_room |            mapped for this call:  | guard | 2 MiB | work |
//!                              +------------------ switches to ------------------------^
//! ```
//!
//! A caller may be one of OpenSSL's asynchronous jobs, which has 32 KiB and no guard page, or a
//! thread of a host with similarly small stacks. Work that needs more runs on a separate stack, on
//! the same thread: no thread is started, which the caller would have to wait for and which a host
//! may forbid (ADR 0015). The separate stack is unmapped afterwards with everything that the work
//! left on it.

use corosensei::on_stack;
use corosensei::stack::DefaultStack;

use crate::error::Error;

/// Bytes of a stack, without its guard page. Decoding a private key of FN-DSA needs the most, up to
/// 600 KiB. Untouched pages only cost address space.
const STACK: usize = 2 << 20;

/// Runs work on a separate stack. Its panics propagate to the caller.
///
/// # Errors
/// [`Error::NoMemory`] where the system maps no stack; then the work has not run.
pub fn with_room<T>(work: impl FnOnce() -> T) -> Result<T, Error> {
    let stack = DefaultStack::new(STACK).map_err(|_| Error::NoMemory("a separate stack"))?;
    Ok(on_stack(stack, work))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_has_room_and_its_panic_is_the_callers() {
        let deep =
            || std::hint::black_box([1u8; 1 << 20]).iter().map(|&byte| usize::from(byte)).sum();
        assert_eq!(with_room(deep), Ok(1usize << 20));
        assert_eq!(with_room(|| with_room(deep)), Ok(Ok(1usize << 20)));
        let panic = std::panic::catch_unwind(|| with_room(|| panic!("in there")));
        assert_eq!(panic.unwrap_err().downcast_ref(), Some(&"in there"));
    }

    /// A caller with the stack of an asynchronous job, and a thread that is the only one that works.
    #[test]
    fn work_stays_on_the_thread_of_a_caller_without_room() {
        let small = std::thread::Builder::new().stack_size(16 << 10);
        let same = small.spawn(|| {
            let caller = std::thread::current().id();
            with_room(|| {
                std::hint::black_box([1u8; 1 << 20]);
                std::thread::current().id() == caller
            })
        });
        assert_eq!(same.unwrap().join().unwrap(), Ok(true));
    }
}
