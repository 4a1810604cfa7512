//! `gabion encaps`: a shared secret for the owner of a key.

use std::path::PathBuf;

use gabion_engine::OsEntropy;

use crate::commands::sign::check_standard_input;
use crate::failure::Failure;
use crate::files::{self, Access, Output};
use crate::keys::{self, KeyArgs};

/// Make a shared secret and the ciphertext that brings it to the owner of a key
///
/// Example:
///   gabion keygen ML-KEM-768 --out key.pem --pub pub.pem
///   gabion encaps --key pub.pem --out ct.bin --secret secret.bin
///
/// With a raw key: gabion encaps --algorithm X25519MLKEM768 --key pub.bin --out ct --secret ss
///
/// The secret has 32 bytes, of TLS's hybrids up to 98, and is written with mode 0600.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(flatten)]
    key: KeyArgs,
    /// File for the ciphertext; `-` is standard output
    #[arg(long, value_name = "CT")]
    out: PathBuf,
    /// File for the shared secret; `-` is standard output
    #[arg(long, value_name = "SS")]
    secret: PathBuf,
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    check_standard_input(&args.key, &[])?;
    let outputs = [("--out", args.out.as_path()), ("--secret", args.secret.as_path())];
    files::distinct(&outputs, &[("--key", &args.key.key)])?;
    files::not_a_terminal(&outputs)?;
    let engine = keys::engine()?;
    let key = args.key.encaps_key(engine)?;
    let (ciphertext, secret) = engine.encaps(&key, &OsEntropy)?;
    let ciphertext = Output::prepare(&args.out, &ciphertext, Access::Public, true)?;
    let secret = Output::prepare(&args.secret, &secret[..], Access::Secret, true)?;
    ciphertext.commit()?;
    secret.commit()?;
    Ok(0)
}
