//! `gabion decaps`: decapsulates a shared secret.

use std::path::PathBuf;

use crate::failure::Failure;
use crate::files::{self, Access, Force, Output};
use crate::keys::{self, KeyArgs};

/// Decapsulate the shared secret in a ciphertext
///
/// Example:
///   gabion keygen ML-KEM-768 --out key.pem
///   gabion encaps --key key.pem --out ct.bin --secret sent.bin
///   gabion decaps --key key.pem --secret got.bin ct.bin && cmp sent.bin got.bin
///
/// With a raw key: gabion decaps --algorithm X25519MLKEM768 --key key.bin --secret ss ct
///
/// A ciphertext that was modified, or made for another key, yields a different secret and no error,
/// as FIPS 203 requires. The difference only shows when the secret is used.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(flatten)]
    key: KeyArgs,
    /// File for the shared secret, mode 0600; `-` is standard output
    #[arg(long, value_name = "SS")]
    secret: PathBuf,
    /// File with the ciphertext; `-` is standard input
    #[arg(value_name = "CT")]
    ciphertext: PathBuf,
    #[command(flatten)]
    force: Force,
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    args.key.check_standard_input(&[("CT", &args.ciphertext)])?;
    let inputs = [args.key.inputs(), vec![("CT", args.ciphertext.as_path())]].concat();
    let existing = args.force.existing();
    let [place] = files::places([("--secret", &args.secret)], &inputs, existing)?;
    files::not_a_terminal([&place])?;
    let engine = keys::engine()?;
    let key = args.key.decaps_key(engine)?;
    let ciphertext = files::read(&args.ciphertext, files::SMALL_MAX)?;
    let expected = key.algorithm().info().output.max();
    if ciphertext.len() != expected {
        return Err(Failure::Usage(format!(
            "{} has {} bytes; an {} ciphertext has {expected}",
            files::shown(&args.ciphertext, "standard input"),
            ciphertext.len(),
            key.algorithm()
        )));
    }
    let secret = engine.decaps(&key, &ciphertext)?;
    files::commit([Output::prepare(place, &secret[..], Access::Secret, existing)?])?;
    Ok(0)
}
