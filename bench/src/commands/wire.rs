//! `gabion bench wire`: bytes of a TLS connection.

use crate::wire::{self, Config};
use clap::Parser;

use super::setup::{ProviderName, Setup, TableName, lines, print};
use gabion_cli::failure::Failure;

/// Count the bytes of TLS 1.3 connections, and compare them with a formula
///
/// Server and client of the bundle's libssl communicate over sockets through a relay that counts
/// TCP payload. The rows that wolfSSL published in 2022 come first, with old and new algorithms;
/// then today's groups and signatures. A row that differs from the formula by more than 16 bytes is
/// an error.
#[derive(Parser)]
#[command(after_help = "Example:
  gabion bench wire --table seed\n
Exits 1 if a connection fails or does not agree with the formula, 3 if the bundle or a provider
does not load.")]
pub struct Args {
    /// Rows to measure
    #[arg(long, value_enum, default_value = "all")]
    table: TableName,
    /// Provider of both sides
    #[arg(long, value_enum, default_value = "gabion")]
    provider: ProviderName,
    #[command(flatten)]
    setup: Setup,
    /// Print one JSON object per line, for each row
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    let (prefix, modules) = args.setup.places()?;
    let table = args.table.into();
    let config = Config { prefix, modules, provider: args.provider.into(), table };
    let rows = wire::measure(&config)?;
    print(&if args.json { lines(&rows)? } else { wire::render(&rows) })
}
