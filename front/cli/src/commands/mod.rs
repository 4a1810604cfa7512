//! One module per command. A command parses, calls a station, prints; it holds no mathematics.

mod bench;
mod bundle;
mod exec;
mod preflight;
mod provider;

use clap::Subcommand;

use crate::failure::Failure;

/// Every command of `gabion`.
#[derive(Subcommand)]
pub enum Command {
    Bench(bench::Args),
    Bundle(bundle::Args),
    Exec(exec::Args),
    Preflight(preflight::Args),
    Provider(provider::Args),
}

impl Command {
    /// Runs the command and returns its exit code.
    pub fn run(self) -> Result<u8, Failure> {
        match self {
            Command::Bench(args) => bench::run(args),
            Command::Bundle(args) => bundle::run(args),
            Command::Exec(args) => exec::run(args),
            Command::Preflight(args) => preflight::run(args),
            Command::Provider(args) => provider::run(args),
        }
    }
}
