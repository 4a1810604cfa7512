//! `gabion bench size`: what each family of algorithms adds to the module.

use std::path::PathBuf;

use crate::size;
use clap::Parser;
use gabion_ship::environment::Settings;

use super::setup::{lines, print};
use gabion_cli::failure::Failure;

/// Measure how much each algorithm family adds to the stripped module
///
/// The size with a family is that of the module. The size without it is that of the module minus
/// the functions and tables whose path names the family; code that several families use counts as
/// shared. With --without, the sizes of modules that were built without a family are printed as
/// well: `script/size` in Gabion's source builds them all. Modules must not be stripped.
#[derive(Parser)]
#[command(after_help = "Example:
  gabion bench size\n
Exits 2 if the file is not a module or was stripped, 3 if it is missing.")]
pub struct Args {
    /// Module to measure [default: gabion.so of the bundle]
    #[arg(long, value_name = "FILE")]
    module: Option<PathBuf>,
    /// Module that was built without the family NAME; may be given several times
    #[arg(long, value_name = "NAME=FILE", value_parser = named)]
    without: Vec<(String, PathBuf)>,
    /// Commit that the module was built from, for the JSON object
    #[arg(long, value_name = "ID")]
    commit: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

fn named(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, file)) if !name.is_empty() && !file.is_empty() => {
            Ok((name.into(), file.into()))
        }
        _ => {
            Err("expected what was left out, and the module, such as SLH-DSA=gabion.so".to_owned())
        }
    }
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
    let measured = size::measure(&module, args.commit, &args.without)?;
    print(&if args.json { lines(&[measured])? } else { size::render(&measured) })
}
