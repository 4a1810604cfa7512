//! Room on the stack for what other people's crates put there.

/// Bytes of stack: decoding a private key of FN-DSA takes up to 600 KiB.
const STACK: usize = 2 << 20;

/// Does work that takes much stack on a thread of its own and waits for its end: the caller may be one
/// of OpenSSL's asynchronous jobs, which has 32 KiB and no guard page. None where no thread can be made.
pub fn with_room<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK);
        let thread = thread.spawn_scoped(scope, work).ok()?;
        match thread.join() {
            Ok(made) => Some(made),
            // As if it had run here.
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_has_room_and_its_panic_is_the_callers() {
        let deep =
            || std::hint::black_box([1u8; 1 << 20]).iter().map(|&byte| usize::from(byte)).sum();
        assert_eq!(with_room(deep), Some(1usize << 20));
        let panic = std::panic::catch_unwind(|| with_room(|| panic!("in there")));
        assert_eq!(panic.unwrap_err().downcast_ref(), Some(&"in there"));
    }
}
