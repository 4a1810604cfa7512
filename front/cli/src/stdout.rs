//! Standard output and error. What cannot be written to the first, on a disk that is full, is a failure with a message and an exit
//! code, where `println!` panics; where the second takes nothing, nobody is told, and what runs goes on.

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

/// Prints to standard error, if that can be.
pub fn print_aside(text: Arguments<'_>) {
    // Nobody is left to be told.
    let _ = std::io::stderr().lock().write_fmt(text);
}

/// As the standard one, which panics where a log's disk is full: a server would not start, and a command end with another exit
/// code than its own.
#[macro_export]
macro_rules! eprint {
    ($($text:tt)*) => { $crate::stdout::print_aside(format_args!($($text)*)) };
}

/// The same with the end of a line.
#[macro_export]
macro_rules! eprintln {
    () => { $crate::stdout::print_aside(format_args!("\n")) };
    ($($text:tt)*) => { $crate::stdout::print_aside(format_args!("{}\n", format_args!($($text)*))) };
}
