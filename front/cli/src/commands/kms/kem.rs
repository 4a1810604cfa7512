//! `gabion kms encaps` and `decaps`: shared secrets with a KEM key of the service.

use std::path::PathBuf;

use gabion_kms_wire::native::{Decaps, Decapsulated, Encaps};
use gabion_kms_wire::{Secret, encode};

use super::outcome::{OutputArgs, OutputForm, decoded};
use super::{client, say_json};
use crate::failure::Failure;
use crate::files::{self, Access, Force, Output};

/// Encapsulate a shared secret for a key of the service
///
/// Example:
///   gabion kms key create box --algorithm ML-KEM-768
///   gabion kms encaps --key box --out ct.bin --secret secret.bin
///
/// With the public key (`gabion kms key show`), `gabion encaps` does this without the service. The
/// secret is written with mode 0600.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct EncapsArgs {
    /// The key, by name or id
    #[arg(long, value_name = "KEY")]
    key: String,
    /// Key version [default: the newest]
    #[arg(long = "version", value_name = "VERSION")]
    number: Option<u32>,
    /// File for the ciphertext; `-` is standard output
    #[arg(long, value_name = "CT", required_unless_present = "json")]
    out: Option<PathBuf>,
    /// File for the shared secret; `-` is standard output
    #[arg(long, value_name = "SS", required_unless_present = "json")]
    secret: Option<PathBuf>,
    /// Print the service's answer as one JSON object instead: by, version, ciphertext, secret,
    /// revision
    #[arg(long, conflicts_with_all = ["out", "secret"])]
    json: bool,
    #[command(flatten)]
    force: Force,
}

/// Decapsulate a ciphertext with a key of the service
///
/// Example:
///   gabion kms key create box --algorithm ML-KEM-768
///   gabion kms encaps --key box --out ct.bin --secret secret.bin
///   gabion kms decaps --key box --out got.bin ct.bin && cmp secret.bin got.bin
///
/// A ciphertext does not name its key version: after a rotation, specify it. A ciphertext that was
/// modified, or made for another key, yields a different secret and no error.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct DecapsArgs {
    /// The key, by name or id
    #[arg(long, value_name = "KEY")]
    key: String,
    /// Key version that the ciphertext was made for [default: the newest]
    #[arg(long = "version", value_name = "VERSION")]
    number: Option<u32>,
    /// File with the ciphertext; `-` is standard input
    #[arg(value_name = "CT", default_value = "-")]
    file: PathBuf,
    #[command(flatten)]
    out: OutputArgs,
}

/// Runs `encaps`.
pub fn encaps(args: EncapsArgs) -> Result<u8, Failure> {
    let existing = args.force.existing();
    let outputs = [("--out", &args.out), ("--secret", &args.secret)];
    let outputs = outputs.into_iter().filter_map(|(name, path)| Some((name, path.as_deref()?)));
    let places = files::places_of(outputs, &[], &[], existing)?;
    files::not_a_terminal(&places)?;
    let what = Encaps { key: args.key, tenant: None, version: args.number };
    let made = client()?.encaps(&what)?;
    if args.json {
        say_json(&made)?;
        return Ok(0);
    }
    let ciphertext = decoded(&Secret::from(made.ciphertext.clone()))?;
    let results = [(ciphertext, Access::Public), (decoded(&made.secret)?, Access::Secret)];
    let prepared = places.into_iter().zip(results);
    let prepared = prepared
        .map(|(place, (bytes, access))| Output::prepare(place, &bytes, access, existing))
        .collect::<Result<Vec<_>, _>>()?;
    files::commit(prepared)?;
    Ok(0)
}

/// Runs `decaps`.
pub fn decaps(args: DecapsArgs) -> Result<u8, Failure> {
    let ask = || {
        let ciphertext = encode(&files::read(&args.file, files::SMALL_MAX)?);
        let (key, version) = (args.key.clone(), args.number);
        Ok(client()?.decaps(&Decaps { key, tenant: None, version, ciphertext })?)
    };
    let result = |opened: &Decapsulated| decoded(&opened.secret);
    args.out.put(&args.file, OutputForm::Secret, ask, result)
}
