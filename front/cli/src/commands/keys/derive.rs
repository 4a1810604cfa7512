//! `gabion derive`: derives the shared secret of a key exchange.

use std::path::PathBuf;

use crate::failure::Failure;
use crate::files::{self, Access, Force, Output};
use crate::keys::{self, KeyArgs};

/// Derive the shared secret of a private key and a peer's public key
///
/// Example:
///   gabion keygen X25519 --out mine.pem --pub mine.pub.pem
///   gabion keygen X25519 --out theirs.pem --pub theirs.pub.pem
///   gabion derive --key mine.pem --peer theirs.pub.pem --secret secret.bin
///
/// With raw keys: gabion derive --algorithm X25519 --key key.bin --peer pub.bin --secret ss
///
/// Supports X25519 and ECDH on P-256, P-384 and P-521, with the result of `openssl pkeyutl
/// -derive`. A quantum computer breaks all of these; use `gabion encaps` with ML-KEM for
/// post-quantum security.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(flatten)]
    key: KeyArgs,
    /// The peer's public key, in any form that --key accepts; also a certificate or private key
    #[arg(long, value_name = "PEER")]
    peer: PathBuf,
    /// File for the shared secret, mode 0600; `-` is standard output
    #[arg(long, value_name = "SS")]
    secret: PathBuf,
    #[command(flatten)]
    force: Force,
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    args.key.check_standard_input(&[("--peer", &args.peer)])?;
    let inputs = [args.key.inputs(), vec![("--peer", args.peer.as_path())]].concat();
    let existing = args.force.existing();
    let [place] = files::places([("--secret", &args.secret)], &inputs, existing)?;
    files::not_a_terminal([&place])?;
    let engine = keys::engine()?;
    let key = args.key.exchange_key(engine)?;
    // Both keys belong to one algorithm, but one may be raw and the other a PEM file.
    let algorithm = args.key.algorithm;
    let peer = KeyArgs { key: args.peer, algorithm, passin: None, raw: None }.peer_key(engine)?;
    if peer.algorithm() != key.algorithm() {
        return Err(Failure::Usage(format!(
            "the private key is a key of {} and the peer's public key one of {}; both must have the same algorithm",
            key.algorithm(),
            peer.algorithm()
        )));
    }
    let secret = engine.derive(&key, &peer)?;
    files::commit([Output::prepare(place, &secret[..], Access::Secret, existing)?])?;
    Ok(0)
}
