//! Hash-based signatures whose keys change with every signature.

mod params;
mod verify;

use clap::Subcommand;

use crate::failure::Failure;

/// Hash-based signatures with state: LMS and HSS
///
/// Example:
///   gabion hbs params
///   gabion hbs verify --key pub.pem --sig firmware.sig firmware.bin
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Params(params::Args),
    Verify(verify::Args),
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    match args.command {
        Command::Params(args) => params::run(args),
        Command::Verify(args) => verify::run(args),
    }
}
