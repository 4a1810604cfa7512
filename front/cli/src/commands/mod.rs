//! One module per command. A command parses, calls a station, prints; it holds no mathematics.

use clap::Subcommand;

use crate::failure::Failure;

/// Every command of `gabion`.
#[derive(Subcommand)]
pub enum Command {}

impl Command {
    /// Runs the command and returns its exit code.
    pub fn run(self) -> Result<u8, Failure> {
        match self {}
    }
}
