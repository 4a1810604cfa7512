//! Standard output. What cannot be written, on a disk that is full, is a failure with a message and an exit
//! code, where `println!` panics.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write};

use crate::failure::Failure;

/// Prints; a reader that went away (`| head`) is no failure.
///
/// # Errors
/// [`Failure::NotReady`] with the cause.
pub fn print(text: Arguments<'_>) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_fmt(text).and_then(|()| out.flush()) {
        Err(cause) if cause.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::NotReady(format!("cannot write to standard output: {cause}")))
        }
        _ => Ok(()),
    }
}

/// Prints a line as `println!` does, or ends the function with the failure of [`print`].
macro_rules! say {
    ($($text:tt)*) => {
        crate::stdout::print(format_args!("{}\n", format_args!($($text)*)))?
    };
}
