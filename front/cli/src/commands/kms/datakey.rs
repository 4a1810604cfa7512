//! `gabion kms datakey`: generates a data key and encrypts it.

use std::path::PathBuf;

use gabion_kms_wire::native::Datakey;

use super::outcome::{AssociatedDataArgs, decoded, line};
use super::{client, say_json};
use crate::failure::Failure;
use crate::files::{self, Access, Force, Output};

/// Generate a data key and encrypt it with a key of the service
///
/// Example:
///   gabion kms key create data --algorithm XAES-256-GCM
///   gabion kms datakey --key data --out data.enc --plaintext data.key
///   gabion kms decrypt --key data data.enc | cmp - data.key
///
/// Encrypt your data with the data key, store the printed line with the data, and delete the data
/// key; `gabion kms decrypt` recovers it. Without --plaintext, only the encrypted data key is
/// returned. The plaintext key is written with mode 0600.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The key that encrypts the data key, by name or id
    #[arg(long, value_name = "KEY")]
    key: String,
    /// Size of the data key in bits: 128, 256 or 512
    #[arg(long, value_name = "BITS", default_value_t = 256)]
    bits: u32,
    #[command(flatten)]
    beside: AssociatedDataArgs,
    /// File for the line vault:vN:BASE64; `-` is standard output
    #[arg(long, value_name = "OUT", default_value = "-")]
    out: PathBuf,
    /// File for the plaintext data key; `-` is standard output
    #[arg(long, value_name = "FILE")]
    plaintext: Option<PathBuf>,
    /// Print the service's answer as one JSON object instead, including the plaintext key
    #[arg(long, conflicts_with_all = ["out", "plaintext"])]
    json: bool,
    #[command(flatten)]
    force: Force,
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    let existing = args.force.existing();
    let outputs = [("--out", args.out.as_path())];
    let outputs = outputs.into_iter().chain(args.plaintext.iter().map(|p| ("--plaintext", &**p)));
    let mut places = files::places_of(outputs, &[], &[], existing)?.into_iter();
    let (line_place, key_place) = (places.next(), places.next());
    files::not_a_terminal(key_place.iter())?;
    let is_shown = args.json || key_place.is_some();
    let what = Datakey {
        key: args.key,
        tenant: None,
        bits: Some(args.bits),
        associated_data: args.beside.sent(),
        wrapped_only: Some(!is_shown),
    };
    let made = client()?.datakey(&what)?;
    if args.json {
        say_json(&made)?;
        return Ok(0);
    }
    let mut outputs = Vec::new();
    if let Some(place) = line_place {
        let line = line(made.version, &made.ciphertext)?;
        outputs.push(Output::prepare(place, &line, Access::Public, existing)?);
    }
    if let (Some(place), Some(key)) = (key_place, &made.plaintext) {
        outputs.push(Output::prepare(place, &decoded(key)?, Access::Secret, existing)?);
    }
    files::commit(outputs)?;
    Ok(0)
}
