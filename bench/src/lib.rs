//! The `gabion-bench` command as a library: the harness, and the commands that call it.

#[macro_use(eprint, eprintln)]
extern crate gabion_cli;

mod commands;
pub mod engine;
mod error;
pub mod gpu;
pub mod hbs;
#[cfg(feature = "kms")]
pub mod kms;
pub mod memory;
pub mod offload;
pub mod openssl_tool;
mod ossl;
mod outcome;
mod pairs;
pub mod seed;
pub mod size;
pub mod tls;
pub mod wire;

pub use error::Error;
pub use gabion_rows::{Status, clock, cpu_time, inputs, machine};

/// Runs the command that the process's arguments name and returns the process's exit code.
pub fn main() -> std::process::ExitCode {
    gabion_cli::start(command(), commands::run)
}

/// Returns the definition of the command line.
pub fn command() -> clap::Command {
    gabion_cli::examples_first(<commands::Args as clap::CommandFactory>::command())
}
