//! Lines on standard error.

/// Prints a line to stderr, ignoring errors. It bypasses the standard library, whose lock needs the
/// thread's number in thread-local storage: the dynamic loader allocates it, and ends the process
/// if it cannot. `eprintln` also panics if stderr is closed.
pub(crate) fn print_line(line: &str) {
    let mut bytes = line.as_bytes();
    while !bytes.is_empty() {
        // SAFETY: a slice's address and length.
        let written =
            unsafe { libc::write(libc::STDERR_FILENO, bytes.as_ptr().cast(), bytes.len()) };
        match usize::try_from(written) {
            Ok(written @ 1..) => bytes = bytes.get(written..).unwrap_or_default(),
            _ => return,
        }
    }
}
