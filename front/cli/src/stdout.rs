//! Standard output and standard error. If standard output cannot be written (for example on a full
//! disk), the command fails with a message and an exit code, where `println!` panics. If standard
//! error cannot be written, the message is lost and the command continues.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write};

use crate::failure::Failure;

/// Prints to standard output. A reader that closed the pipe (`| head`) is not an error.
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

/// Prints a line like `println!`, or returns from the function with the failure of [`print`].
macro_rules! say {
    ($($text:tt)*) => {
        crate::stdout::print(format_args!("{}\n", format_args!($($text)*)))?
    };
}

/// Prints to standard error, ignoring errors.
pub fn print_aside(text: Arguments<'_>) {
    // The message about this error would have no destination.
    let _ = std::io::stderr().lock().write_fmt(text);
}

/// Prints to standard error without panicking. The macro of the standard library panics on a full
/// disk: a server would not start, and a command would lose its exit code.
#[macro_export]
macro_rules! eprint {
    ($($text:tt)*) => { $crate::stdout::print_aside(format_args!($($text)*)) };
}

/// Prints a line to standard error without panicking.
#[macro_export]
macro_rules! eprintln {
    () => { $crate::stdout::print_aside(format_args!("\n")) };
    ($($text:tt)*) => { $crate::stdout::print_aside(format_args!("{}\n", format_args!($($text)*))) };
}
