//! `gabion bench size`: what each family of algorithms adds to the module.

use std::path::PathBuf;

use clap::Parser;
use gabion_bench::size;
use gabion_ship::environment::Settings;

use super::setup::{lines, print};
use crate::failure::Failure;

/// Say how much of the stripped module each family of algorithms is.
///
/// With a family is the module as it is. Without it is the module's size less the bytes of the functions and
/// tables whose path names the family: what would go if the family went. It is not the size of another build,
/// since no family can be left out of one: code that several families share stays, and counts as shared.
/// Needs a module that still has its symbols.
#[derive(Parser)]
#[command(after_help = "Example:
  gabion bench size\n
Exits 2 when the file is no module or was stripped, 3 when there is none.")]
pub struct Args {
    /// The module [default: gabion.so of the bundle]
    #[arg(long, value_name = "FILE")]
    module: Option<PathBuf>,
    /// The commit that the module was built from, to be named in the object
    #[arg(long, value_name = "ID")]
    commit: Option<String>,
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
    let measured = size::measure(&module, args.commit)?;
    print(&if args.json { lines(&[measured])? } else { size::render(&measured) })
}
