//! `gabion sign`: signs a file.

use std::path::PathBuf;

use gabion_engine::OsEntropy;

use super::message::{MessageArgs, MuArgs};
use crate::failure::Failure;
use crate::files::{self, Access, Force, Output};
use crate::keys::{self, KeyArgs};

/// Sign a file or standard input
///
/// Example:
///   gabion keygen ML-DSA-65 --out key.pem && echo hi | gabion sign --key key.pem --out hi.sig
///
/// With a raw key: gabion sign --algorithm FN-DSA-512-draft --key key.bin --out hi.sig hi.txt
///
/// Signs the message itself, or its digest with --prehash. Signatures are hedged with fresh
/// randomness if the algorithm supports it.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(flatten)]
    key: KeyArgs,
    #[command(flatten)]
    mode: MessageArgs,
    #[command(flatten)]
    mu: MuArgs,
    /// Sign without randomness: the same key and message always produce the same signature
    #[arg(long)]
    deterministic: bool,
    /// File for the signature; `-` is standard output, unless that is a terminal
    #[arg(long, value_name = "SIG", default_value = "-")]
    out: PathBuf,
    #[command(flatten)]
    force: Force,
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    args.key.algorithm.as_deref().map_or(Ok(()), keys::check_stateless)?;
    args.key.check_standard_input(&[("FILE", args.mode.file())])?;
    let inputs = [args.key.inputs(), vec![("FILE", args.mode.file())]].concat();
    let existing = args.force.existing();
    let [place] = files::places([("--out", &args.out)], &inputs, existing)?;
    files::not_a_terminal([&place])?;
    let engine = keys::engine()?;
    let key = args.key.signing_key(engine)?;
    let signature = args.mu.with_message(&args.mode, |message| {
        if args.deterministic {
            engine.sign_deterministic(&key, message)
        } else {
            engine.sign(&key, message, &OsEntropy)
        }
    })?;
    files::commit([Output::prepare(place, &signature, Access::Public, existing)?])?;
    Ok(0)
}
