//! `gabion hbs sign`: signs files, each with an unused index.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gabion_engine::Error;
use gabion_engine::keys::stateful::{LedgerError, Request};
use gabion_state::{Environment, Signature, Signer, SignerOptions};
use serde_json::json;

use super::{key_file, message};
use crate::failure::Failure;
use crate::files::{self, Access, Force, Output, Place};
use crate::keys;
use crate::keys::passin::PassIn;

/// Sign files with a key of `gabion hbs keygen`
///
/// Example:
///   gabion hbs keygen LMS_SHA256_M32_H5_W4 --out key --pub pub.pem
///   echo one > a.img && echo two > b.img
///   gabion hbs sign --key key --request-id build-7 --out a.sig a.img
///   gabion hbs sign --key key --json a.img b.img
///
/// The signature of a single FILE goes to --out or FILE.sig; the signatures of several files go to
/// FILE.sig next to each and are made as one batch. Every index is durably marked as used before
/// its signature is released. Exits 4 if the state is not safe or the key is used up. A request id
/// is permanently bound to its message: signing the message again returns the same signature and
/// uses no index.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Private key; its state files are next to it
    #[arg(long, value_name = "KEY")]
    key: PathBuf,
    /// Password of an encrypted key: pass:TEXT, env:NAME, file:PATH, fd:NUMBER or stdin
    #[arg(long, value_name = "SOURCE")]
    passin: Option<PassIn>,
    /// File for the signature of a single FILE; `-` is standard output, unless that is a terminal
    /// [default: FILE.sig]
    #[arg(long, value_name = "SIG")]
    out: Option<PathBuf>,
    /// Request id, up to 128 printable characters; repeating the request returns the same signature
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
    /// Reserve at least this many indexes per write of the state. Unused ones are returned at the
    /// end; a crash burns them. The limit is the number of FILES, an eighth of the remaining
    /// indexes or, for keys with at least 512 indexes, 64, whichever is largest
    #[arg(long, value_name = "N", default_value = "1")]
    reserve: NonZero<u64>,
    /// Reserve N indexes even above the limit: a crash may burn the whole key
    #[arg(long)]
    reserve_anyway: bool,
    /// FILE holds a digest: 24, 28, 32, 48 or 64 bytes, in binary or in hexadecimal as printed by
    /// sha256sum; the digest is the message
    #[arg(long)]
    digest: bool,
    /// How many seconds to wait while another process signs with the key
    #[arg(long, value_name = "S", default_value = "30")]
    wait: u64,
    /// Print a JSON object for each FILE: file, index, remaining, sig_file
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    force: Force,
    /// Files to sign; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    let around = Environment::real();
    let places = places(&args, &around)?;
    let messages = args.files.iter().map(|file| message(file, args.digest));
    let messages: Vec<_> = messages.collect::<Result<_, _>>()?;
    let file = key_file(&around, &args.key)?;
    let passphrase = match (file.is_encrypted(), &args.passin) {
        (true, None) => {
            return Err(Failure::Usage(format!(
                "{} is encrypted; give its password with --passin (pass:TEXT, env:NAME, file:PATH, \
                 fd:NUMBER or stdin)",
                files::shown(&args.key, "-")
            )));
        }
        (true, Some(source)) => Some(source.password()?),
        (false, _) => None,
    };
    let opening = SignerOptions {
        ahead: args.reserve.get(),
        messages: messages.len() as u64,
        reserve_anyway: args.reserve_anyway,
        wait: Duration::from_secs(args.wait),
        threads: std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN),
    };
    let passphrase = passphrase.as_deref().map(Vec::as_slice);
    let engine = keys::engine()?;
    // Checked first, because a signature that cannot be written uses up an index too.
    files::probe(&places, file.signature_len())?;
    let signer = Signer::from_file(&around, engine, &args.key, file, passphrase, &opening);
    let signer = signer.map_err(|error| match error {
        Error::Ledger(error @ LedgerError::Reserve { .. }) => Failure::Usage(format!(
            "--reserve: {error}, or --reserve-anyway if losing them is acceptable"
        )),
        error => error.into(),
    })?;
    let id = args.request_id.as_deref();
    let requests = messages.iter().map(|message| Request { message, id });
    let signed = signer.sign(&requests.collect::<Vec<_>>());
    // Returns the unused reserved indexes, even after an error.
    let closed = signer.close();
    let signed = signed?;
    let existing = args.force.existing();
    let outputs = places.into_iter().zip(&signed);
    let outputs =
        outputs.map(|(place, made)| Output::prepare(place, &made.bytes, Access::Public, existing));
    files::commit(outputs.collect::<Result<Vec<_>, _>>()?)?;
    print_result(&args, &signed)?;
    closed?;
    Ok(0)
}

/// Resolves the output paths before anything is signed.
fn places(args: &Args, around: &Environment) -> Result<Vec<Place>, Failure> {
    let several = args.files.len() > 1;
    for (is_given, option) in
        [(args.out.is_some(), "--out"), (args.request_id.is_some(), "--request-id")]
    {
        if several && is_given {
            return Err(Failure::Usage(format!(
                "{option} needs exactly one FILE; give one FILE or omit {option}"
            )));
        }
    }
    let is_passin = args.passin.as_ref().is_some_and(PassIn::is_stdin);
    let mut standard = vec![("--passin", is_passin)];
    standard.extend(args.files.iter().map(|file| ("FILE", files::is_standard_input(file))));
    files::one_standard_input(&standard)?;
    let mut inputs = vec![("--key", args.key.as_path())];
    inputs.extend(args.files.iter().map(|file| ("FILE", file.as_path())));
    inputs.extend(args.passin.as_ref().and_then(PassIn::file).map(|file| ("--passin", file)));
    // A missing key is reported later.
    let files = gabion_state::files(around, &args.key).unwrap_or_default();
    let taken: Vec<_> = files.iter().map(|file| ("a file of the key", file.as_path())).collect();
    let option = if args.out.is_some() { "--out" } else { "FILE.sig" };
    let outs = args.files.iter().map(|file| out_of(args, file)).collect::<Result<Vec<_>, _>>()?;
    let outputs = outs.iter().map(|out| (option, out.as_path()));
    let places = files::places_of(outputs, &inputs, &taken, args.force.existing())?;
    files::not_a_terminal(&places)?;
    Ok(places)
}

fn out_of(args: &Args, file: &Path) -> Result<PathBuf, Failure> {
    match &args.out {
        Some(out) => Ok(out.clone()),
        None if files::is_standard_input(file) => Err(Failure::Usage(
            "standard input has no name to append .sig to; name the signature file with --out"
                .to_owned(),
        )),
        None => {
            let mut out = file.as_os_str().to_owned();
            out.push(".sig");
            Ok(out.into())
        }
    }
}

/// Prints the index of each signature.
fn print_result(args: &Args, signed: &[Signature]) -> Result<(), Failure> {
    for (file, made) in args.files.iter().zip(signed) {
        let out = out_of(args, file).unwrap_or_default();
        let (file, is_out) = (files::shown(file, "-"), files::is_dash(&out));
        let sig_file = files::shown(&out, "-");
        let Signature { index, remaining, .. } = made;
        if args.json && !is_out {
            let row = json!({
                "file": file, "index": index, "remaining": remaining, "sig_file": sig_file,
            });
            say!("{row}");
        } else if !is_out {
            let before = if made.is_repeated { ", made before" } else { "" };
            say!("{sig_file}: index {index}{before}, {remaining} left");
        }
    }
    if let Some(last) = signed.last().filter(|last| last.is_low) {
        eprintln!(
            "warning: {} signatures are left in this key; generate its successor while this key can still sign for it",
            last.remaining
        );
    }
    Ok(())
}
