//! `gabion mu`: computes the ML-DSA message representative.

use std::io::{ErrorKind, Read};
use std::path::Path;

use gabion_engine::{Pieces, VerifyKey};
use zeroize::Zeroizing;

use super::message::MessageArgs;
use crate::failure::Failure;
use crate::files;
use crate::keys::{self, KeyArgs};

/// Compute mu of a file or standard input, for signing with ML-DSA
///
/// Example:
///   gabion keygen ML-DSA-65 --out key.pem --pub pub.pem && echo hi > hi.txt
///   gabion mu --key pub.pem hi.txt > hi.mu
///   gabion sign --mu --key key.pem --out hi.sig hi.mu && gabion verify --key pub.pem --sig hi.sig hi.txt
///
/// Prints mu (FIPS 204, Algorithm 7, line 6) as 128 hexadecimal digits. It depends on the public
/// key and the context string. Signing mu produces the signature of the message, so the signer does
/// not need the message. The file may have any size.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(flatten)]
    key: KeyArgs,
    #[command(flatten)]
    mode: MessageArgs,
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    args.key.check_standard_input(&[("FILE", args.mode.file())])?;
    if args.mode.prehash().is_some() {
        return Err(Failure::Usage("mu is of a message; leave --prehash out".to_owned()));
    }
    let key = args.key.verify_key(keys::engine()?)?;
    let mut message = files::open(args.mode.file(), 0)?.into_reader();
    let mu = of(&key, args.mode.context(), &mut message, args.mode.file())?;
    say!("{}", base16ct::lower::encode_string(&mu));
    Ok(0)
}

/// Reads a message to its end and returns its mu under a public key.
///
/// # Errors
/// [`Failure::Usage`] if the key is not an ML-DSA key or the message cannot be read.
pub fn of(
    key: &VerifyKey,
    context: &[u8],
    message: &mut dyn Read,
    file: &Path,
) -> Result<[u8; 64], Failure> {
    let algorithm = key.algorithm();
    let other = || Failure::Usage(format!("{algorithm} does not sign mu; expected an ML-DSA key"));
    key.ml_dsa().ok_or_else(other)?;
    let pieces = finished(Pieces::to_mu(key.bytes(), Some(context))?, message, file)?;
    pieces.try_into().map_err(|_| other())
}

/// Reads a message to its end into `pieces` and returns the result.
///
/// # Errors
/// [`Failure::Usage`] if the message cannot be read.
pub fn finished(
    mut pieces: Pieces,
    message: &mut dyn Read,
    file: &Path,
) -> Result<Vec<u8>, Failure> {
    let mut piece = Zeroizing::new(vec![0; 64 << 10]);
    loop {
        match message.read(&mut piece) {
            Ok(0) => return Ok(pieces.so_far()),
            Ok(read) => pieces.add(&piece[..read]),
            Err(cause) if cause.kind() == ErrorKind::Interrupted => {}
            Err(cause) => {
                let name = files::shown(file, "standard input");
                let words = files::words(&cause);
                return Err(Failure::Usage(format!("cannot read {name}: {words}")));
            }
        }
    }
}
