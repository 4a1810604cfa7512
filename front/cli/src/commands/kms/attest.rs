//! `gabion kms attest`: prints a signed statement about a key.

use gabion_kms_wire::native::Attest;

use super::{client, say_json};
use crate::failure::Failure;

/// Print the service's signed statement about a key: an ML-DSA-44 JWS
///
/// Example:
///   gabion kms key create release --algorithm ML-DSA-65
///   gabion kms attest --key release --nonce "$(date +%s)"
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The key, by name or id
    #[arg(long, value_name = "KEY")]
    key: String,
    /// Nonce that the statement repeats, so an older statement is not accepted in its place
    #[arg(long, value_name = "TEXT")]
    nonce: Option<String>,
    /// Print the service's answer as one JSON object: attest, jws, revision
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    let attested = client()?.attest(&Attest { key: args.key, tenant: None, nonce: args.nonce })?;
    if args.json {
        say_json(&attested)?;
    } else {
        say!("{}", attested.jws);
    }
    Ok(0)
}
