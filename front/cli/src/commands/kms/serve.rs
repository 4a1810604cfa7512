//! `gabion kms serve`: the service, by a configuration.

use std::path::PathBuf;

use gabion_kms_server::config::Config;
use gabion_kms_server::{Keeper, Server};

use crate::failure::Failure;
use crate::ffi;

/// Serve the keys of a store
///
/// Example:
///   gabion kms serve --config kms.toml
///
/// `gabion kms init` makes the store. Waits sealed for `gabion kms unseal`, unless the configuration names a file with the
/// passphrase. SIGTERM ends it within 10 seconds, after what it was asked is answered. docs/kms.md has every key.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The configuration
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    // Or whoever hangs up early ends it.
    ffi::go_on_when_the_reader_is_gone();
    let config = Config::read(&args.config)?;
    let options = config.options()?;
    let keeper = Keeper::open(&config)?;
    let server = Server::start(keeper.into(), &options)?;
    let addresses: Vec<String> = server.addresses().iter().map(ToString::to_string).collect();
    server.serve(|| eprintln!("serving at {}", addresses.join(", ")))?;
    Ok(0)
}
