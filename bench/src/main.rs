//! The `gabion-bench` command; the library of this crate implements it.

use std::process::ExitCode;

fn main() -> ExitCode {
    gabion_bench::main()
}
