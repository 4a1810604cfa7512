//! `gabion hbs forget`: allows a request id to be used again.

use gabion_state::{Environment, FilesLedger, Options};

use super::{KeyPath, key_file};
use crate::failure::Failure;

/// Allow a request id to be used for another message
///
/// Example:
///   gabion hbs keygen LMS_SHA256_M32_H5_W4 --out key
///   echo hi > message && gabion hbs sign --key key --request-id build-7 message
///   gabion hbs forget key build-7
///
/// The index that was used for it stays used and stays in the log.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(flatten)]
    key: KeyPath,
    /// The request id
    #[arg(value_name = "ID")]
    id: String,
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    let around = Environment::real();
    let file = key_file(&around, &args.key.key)?;
    let options = Options::default();
    let ledger = FilesLedger::open(&around, &args.key.key, file.public(), options)?;
    if !ledger.knows(&args.id)? {
        return Err(Failure::Usage(format!(
            "no signature was made under the request id `{}`; `gabion hbs log` lists them",
            args.id
        )));
    }
    ledger.forget(&args.id)?;
    ledger.close()?;
    Ok(0)
}
