//! `gabion verify`: verifies a signature.

use std::path::PathBuf;

use super::message::{MessageArgs, MuArgs};
use crate::failure::Failure;
use crate::files;
use crate::keys::{self, KeyArgs};

/// Verify a signature over a file or standard input
///
/// Example:
///   gabion keygen ML-DSA-65 --out k.pem --pub p.pem && echo hi > hi.txt
///   gabion sign --key k.pem --out hi.sig hi.txt && gabion verify --key p.pem --sig hi.sig hi.txt
///
/// With a raw key: gabion verify --algorithm FN-DSA-512-draft --key pub.bin --sig hi.sig hi.txt
///
/// Exits 0 if the signature verifies and 1 if not. The key may be a public key, a private key or a
/// certificate; only the public key is used.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(flatten)]
    key: KeyArgs,
    /// File with the signature; `-` is standard input
    #[arg(long, value_name = "SIG")]
    sig: PathBuf,
    #[command(flatten)]
    mode: MessageArgs,
    #[command(flatten)]
    mu: MuArgs,
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    args.key.check_standard_input(&[("--sig", &args.sig), ("FILE", args.mode.file())])?;
    let engine = keys::engine()?;
    let key = args.key.verify_key(engine)?;
    let signature = files::read(&args.sig, files::SMALL_MAX)?;
    args.mu.with_message(&args.mode, |message| engine.verify(&key, message, &signature))?;
    say!("the {} signature verifies", key.algorithm());
    Ok(0)
}
