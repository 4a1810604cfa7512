//! `gabion bench memory`: heap and stack of a TLS connection.

use crate::memory::{self, Config};
use crate::tls::Provider;
use clap::Parser;

use super::setup::{ProviderName, Setup, TableName, lines, print};
use gabion_cli::failure::Failure;

/// Measure heap and stack of TLS 1.3 connections, per side
///
/// Each side runs in its own process with counted allocations and a painted stack. The rows that
/// wolfSSL published in 2022 come first, with old and new algorithms; then today's. The results do
/// not depend on the load of the machine.
#[derive(Parser)]
#[command(after_help = "Example:
  gabion bench memory --table today --provider gabion\n
Exits 1 if a connection fails, 3 if the bundle or a provider does not load.")]
pub struct Args {
    /// Rows to measure
    #[arg(long, value_enum, default_value = "all")]
    table: TableName,
    /// Provider to measure; may be given several times [default: default and gabion]
    #[arg(long, value_enum, value_delimiter = ',')]
    provider: Vec<ProviderName>,
    #[command(flatten)]
    setup: Setup,
    /// Print one JSON object per line, for each row and provider
    #[arg(long)]
    json: bool,
    /// The measured process's configuration; written by the command itself
    #[arg(long, hide = true)]
    task: Option<String>,
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    if let Some(task) = args.task {
        return print(&(memory::run_child(&task)? + "\n"));
    }
    let (prefix, modules) = args.setup.places()?;
    let program = std::env::current_exe()
        .map_err(|cause| Failure::NotReady(format!("this program cannot find itself: {cause}")))?;
    let words = [&*program.to_string_lossy(), "memory", "--task"];
    let mut providers: Vec<Provider> = args.provider.into_iter().map(Provider::from).collect();
    if providers.is_empty() {
        providers = vec![Provider::Default, Provider::Gabion];
    }
    let config = Config {
        prefix,
        modules,
        providers,
        table: args.table.into(),
        child: words.map(str::to_owned).to_vec(),
    };
    let rows = memory::measure(&config)?;
    print(&if args.json { lines(&rows)? } else { memory::render(&rows) })
}
