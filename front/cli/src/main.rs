//! The `gabion` command. Its code is in the library of this crate.

use std::process::ExitCode;

fn main() -> ExitCode {
    gabion_cli::main()
}
