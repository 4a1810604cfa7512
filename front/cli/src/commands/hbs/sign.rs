//! `gabion hbs sign`: signatures over files, each with an index that is used for nothing else.

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
/// Of one FILE the signature goes to --out, else to FILE.sig; of several to FILE.sig beside each, and all are one
/// batch. Every index is used up durably before its signature leaves. Exits 4 where the state is not safe or the key is used
/// up. A request id names a message for ever: signed again, it gets the same signature, and no index is used.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Private key, beside which its state is
    #[arg(long, value_name = "KEY")]
    key: PathBuf,
    /// Password of an encrypted key: pass:TEXT, env:NAME, file:PATH, fd:NUMBER or stdin
    #[arg(long, value_name = "SOURCE")]
    passin: Option<PassIn>,
    /// File for the signature of one FILE; `-` is standard output, which then is no terminal [default: FILE.sig]
    #[arg(long, value_name = "SIG")]
    out: Option<PathBuf>,
    /// Name of the request, up to 128 printable characters: asked again, it gets the same signature
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
    /// Reserve so many indexes at once, at least; what is left of them goes back at the end, and a crash burns it. At most
    /// as many as FILES, an eighth of what is left, or 64 of a key with 512 indexes or more
    #[arg(long, value_name = "N", default_value = "1")]
    reserve: NonZero<u64>,
    /// Reserve N indexes even if that is more: a crash may burn the whole key
    #[arg(long)]
    reserve_anyway: bool,
    /// FILE holds a digest that somebody else made, of 24 to 64 bytes or in hexadecimal as sha256sum prints it; the
    /// digest is the message
    #[arg(long)]
    digest: bool,
    /// How many seconds to wait for another process that signs with the key
    #[arg(long, value_name = "S", default_value = "30")]
    wait: u64,
    /// Print a JSON object for each FILE: file, index, remaining, sig_file
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    force: Force,
    /// The messages; `-` is standard input
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
    // An index is used up for a signature that can't be written, too.
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
    // What was reserved and not used goes back in any case.
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

/// Where signatures go, before one is made.
fn places(args: &Args, around: &Environment) -> Result<Vec<Place>, Failure> {
    let several = args.files.len() > 1;
    for (is_given, option) in
        [(args.out.is_some(), "--out"), (args.request_id.is_some(), "--request-id")]
    {
        if several && is_given {
            return Err(Failure::Usage(format!(
                "{option} is for one FILE; expected one, or the option left out"
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
    // Where there is no key, that is said later.
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
            "standard input has no name to put .sig behind; expected --out".to_owned(),
        )),
        None => {
            let mut out = file.as_os_str().to_owned();
            out.push(".sig");
            Ok(out.into())
        }
    }
}

/// Prints which indexes signed.
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
            "warning: {} signatures are left of this key; make the next one while it can still sign for it",
            last.remaining
        );
    }
    Ok(())
}
