//! `gabion bench size`: what each family of algorithms adds to the module.

use std::path::PathBuf;

use clap::Parser;
use gabion_bench::size;
use gabion_ship::environment::Settings;

use super::setup::{lines, print};
use crate::failure::Failure;

/// Say how much of the stripped module each family of algorithms is.
///
/// No family can be left out of a build. What is given are the bytes of the functions and tables
/// whose path names a family: what would go if the family went; code that several families share
/// stays. Needs a module that still has its symbols.
#[derive(Parser)]
#[command(after_help = "Example:
  gabion bench size\n
Exits 2 when the file is no module or was stripped, 3 when there is none.")]
pub struct Args {
    /// The module [default: gabion.so of the bundle]
    #[arg(long, value_name = "FILE")]
    module: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    let module = match args.module {
        Some(module) => module,
        None => {
            let settings = Settings::from_process()?;
            settings.modules().join("gabion.so")
        }
    };
    let measured = size::measure(&module)?;
    print(&if args.json { lines(&[measured])? } else { size::render(&measured) })
}
