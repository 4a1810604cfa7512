//! `gabion bench wire`: bytes of a TLS connection.

use crate::wire::{self, Config};
use clap::Parser;

use super::setup::{ProviderName, Setup, TableName, lines, print};
use gabion_cli::failure::Failure;

/// Count the bytes of TLS 1.3 connections and compare them with a formula.
///
/// Server and client of the bundle's libssl talk over sockets through a relay that sums TCP
/// payload. The rows that wolfSSL published in 2022 come first, in their order, with old names and
/// new; then today's groups and signatures. A row further than 16 bytes from the formula is an
/// error.
#[derive(Parser)]
#[command(after_help = "Example:
  gabion bench wire --table seed\n
Exits 1 when a connection fails or does not agree with the formula, 3 when the bundle or a provider
does not load.")]
pub struct Args {
    /// Which rows
    #[arg(long, value_enum, default_value = "all")]
    table: TableName,
    /// Whose code serves both sides
    #[arg(long, value_enum, default_value = "gabion")]
    provider: ProviderName,
    #[command(flatten)]
    setup: Setup,
    /// Print one JSON object a line, one for each row
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
