//! Lines on standard error.

/// Prints a line, as far as it gets. Not through the standard library: its lock asks for the thread's
/// number in thread-local storage, for which the dynamic loader allocates, and it ends the process where
/// it can't; and `eprintln` panics where nobody reads stderr any more.
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
