//! The `gabion` command: decode the command line, call a station, encode the answer.
//!
//! Each command lives in its own module of [`commands`] and exposes `Args` (clap) and
//! `run(Args) -> Result<u8, Failure>`, where the number is the exit code of a completed command.

mod acvp;
mod commands;
mod failure;
mod ffi;
mod files;
mod keys;
mod openssl;
mod style;
mod table;

use std::process::ExitCode;

use clap::Parser;

/// Post-quantum cryptography for servers.
#[derive(Parser)]
#[command(name = "gabion", version, about)]
struct Cli {
    #[command(subcommand)]
    command: commands::Command,
}

fn main() -> ExitCode {
    ffi::end_quietly_when_the_reader_is_gone();
    let cli = Cli::parse();
    match cli.command.run() {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}
