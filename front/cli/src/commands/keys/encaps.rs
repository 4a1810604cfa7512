//! `gabion encaps`: encapsulates a shared secret for the owner of a key.

use std::path::PathBuf;

use gabion_engine::OsEntropy;

use crate::failure::Failure;
use crate::files::{self, Access, Force, Output};
use crate::keys::{self, KeyArgs};

/// Encapsulate a shared secret for a public key
///
/// Example:
///   gabion keygen ML-KEM-768 --out key.pem --pub pub.pem
///   gabion encaps --key pub.pem --out ct.bin --secret secret.bin
///
/// With a raw key: gabion encaps --algorithm X25519MLKEM768 --key pub.bin --out ct --secret ss
///
/// The secret has 32 bytes (TLS hybrids: up to 98) and is written with mode 0600.
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
    #[command(flatten)]
    force: Force,
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    args.key.check_standard_input(&[])?;
    let outputs = [("--out", args.out.as_path()), ("--secret", args.secret.as_path())];
    let existing = args.force.existing();
    let [ciphertext_place, secret_place] = files::places(outputs, &args.key.inputs(), existing)?;
    files::not_a_terminal([&ciphertext_place, &secret_place])?;
    let engine = keys::engine()?;
    let key = args.key.encaps_key(engine)?;
    let (ciphertext, secret) = engine.encaps(&key, &OsEntropy)?;
    let ciphertext = Output::prepare(ciphertext_place, &ciphertext, Access::Public, existing)?;
    let secret = Output::prepare(secret_place, &secret[..], Access::Secret, existing)?;
    files::commit([ciphertext, secret])?;
    Ok(0)
}
