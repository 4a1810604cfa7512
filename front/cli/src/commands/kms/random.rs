//! `gabion kms random`: random bytes from the service.

use gabion_kms_wire::native::Random;
use zeroize::Zeroizing;

use super::outcome::decoded;
use super::{client, say_json};
use crate::failure::Failure;

/// Print random bytes that the service generates, in hexadecimal
///
/// Example:
///   gabion kms random 16
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Number of bytes, at most 131072
    #[arg(value_name = "BYTES", default_value_t = 32)]
    bytes: u32,
    /// Print the service's answer as one JSON object: random_bytes, revision
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    let drawn = client()?.random(&Random { bytes: Some(args.bytes) })?;
    if args.json {
        say_json(&drawn)?;
        return Ok(0);
    }
    let bytes = decoded(&drawn.random_bytes)?;
    say!("{}", *Zeroizing::new(base16ct::lower::encode_string(&bytes)));
    Ok(0)
}
