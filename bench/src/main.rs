//! The `gabion-bench` command; what it does is in the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    gabion_bench::main()
}
