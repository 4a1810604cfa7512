//! `gabion bench size`: what each family of algorithms adds to the module.

use std::path::PathBuf;

use crate::size;
use clap::Parser;
use gabion_ship::environment::Settings;

use super::setup::{lines, print};
use gabion_cli::failure::Failure;

/// Say how much of the stripped module each family of algorithms is.
///
/// With a family is the module as it is. Without it is the module's size less the bytes of the functions and
/// tables whose path names the family; code that several families share counts as shared. With --without, also
/// the size of modules that were built without one: `script/size` in Gabion's source builds them all.
/// Needs modules that still have their symbols.
#[derive(Parser)]
#[command(after_help = "Example:
  gabion bench size\n
Exits 2 if the file is not a module or was stripped, 3 if it is missing.")]
pub struct Args {
    /// The module [default: gabion.so of the bundle]
    #[arg(long, value_name = "FILE")]
    module: Option<PathBuf>,
    /// A module that was built without the family that NAME says
    #[arg(long, value_name = "NAME=FILE", value_parser = named)]
    without: Vec<(String, PathBuf)>,
    /// The commit that the module was built from, to be named in the object
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
