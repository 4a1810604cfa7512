//! `gabion sign`: a signature over a file.

use std::path::{Path, PathBuf};

use gabion_engine::{Message, OsEntropy, Prehash};

use crate::failure::Failure;
use crate::files::{self, Access, Force, Output};
use crate::keys::passin::PassIn;
use crate::keys::{self, KeyArgs};

/// Sign a file or standard input
///
/// Example:
///   gabion keygen ML-DSA-65 --out key.pem && echo hi | gabion sign --key key.pem --out hi.sig
///
/// With a raw key: gabion sign --algorithm FN-DSA-512-draft --key key.bin --out hi.sig hi.txt
///
/// Signs the message itself (not a digest of it, unless --prehash is given), hedged with fresh
/// randomness where the algorithm takes any.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(flatten)]
    key: KeyArgs,
    #[command(flatten)]
    mode: MessageArgs,
    /// Sign without randomness: the same key and message always give the same signature
    #[arg(long)]
    deterministic: bool,
    /// File for the signature; `-` is standard output, which then is no terminal
    #[arg(long, value_name = "SIG", default_value = "-")]
    out: PathBuf,
    #[command(flatten)]
    force: Force,
}

/// What is signed or verified, and how: the same for `sign` and `verify`.
#[derive(clap::Args)]
pub struct MessageArgs {
    /// Context string in hexadecimal, at most 255 bytes; signer and verifier must agree on it
    #[arg(long, value_name = "HEX", value_parser = context, default_value = "")]
    context: Context,
    /// Sign the digest of the message (HashML-DSA, HashSLH-DSA): SHA2-256, SHA2-512, SHA3-256,
    /// SHAKE-128 ..
    #[arg(long, value_name = "HASH")]
    prehash: Option<Prehash>,
    /// The message; `-` is standard input
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
}

/// A context string.
#[derive(Clone)]
struct Context(Vec<u8>);

fn context(text: &str) -> Result<Context, String> {
    match hex::decode(text) {
        Ok(bytes) if bytes.len() <= 255 => Ok(Context(bytes)),
        Ok(bytes) => Err(format!("{} bytes; at most 255 are allowed", bytes.len())),
        Err(cause) => Err(format!("{cause}; expected pairs of hexadecimal digits, such as 0aff")),
    }
}

impl MessageArgs {
    /// Where the message comes from.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Reads the message and hands it over in the form that is to be signed.
    ///
    /// # Errors
    /// The file's, and those of `then`.
    pub fn with_message<T>(
        &self,
        then: impl FnOnce(Message<'_>) -> Result<T, gabion_engine::Error>,
    ) -> Result<T, Failure> {
        let bytes = files::read(&self.file, files::LARGE_MAX)?;
        let context = &self.context.0;
        let done = match self.prehash {
            None => then(Message::Pure { context, message: &bytes }),
            Some(hash) => then(Message::Prehash { context, hash, digest: &hash.digest(&bytes) }),
        };
        done.map_err(Failure::from)
    }
}

/// Refuses that more than one of key, password and message come from standard input.
pub fn check_standard_input(
    key: &KeyArgs,
    others: &[(&'static str, &Path)],
) -> Result<(), Failure> {
    let mut inputs = vec![
        ("--key", files::is_standard_input(&key.key)),
        ("--passin", key.passin.as_ref().is_some_and(PassIn::is_stdin)),
    ];
    inputs.extend(others.iter().map(|(name, path)| (*name, files::is_standard_input(path))));
    files::one_standard_input(&inputs)
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    check_standard_input(&args.key, &[("FILE", args.mode.file())])?;
    let inputs = [args.key.inputs(), vec![("FILE", args.mode.file())]].concat();
    let existing = args.force.existing();
    let [place] = files::places([("--out", &args.out)], &inputs, existing)?;
    files::not_a_terminal([&place])?;
    let engine = keys::engine()?;
    let key = args.key.signing_key(engine)?;
    let signature = args.mode.with_message(|message| {
        if args.deterministic {
            engine.sign_deterministic(&key, message)
        } else {
            engine.sign(&key, message, &OsEntropy)
        }
    })?;
    files::commit([Output::prepare(place, &signature, Access::Public, existing)?])?;
    Ok(0)
}
