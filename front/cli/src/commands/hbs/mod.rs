//! Stateful hash-based signatures: each signature uses up part of the key.
//!
//! A key consists of several files, which `gabion_state` manages. These commands parse options,
//! call it and print the results; they never write the state.

mod audit;
mod copies;
mod export;
mod forget;
mod import;
mod keygen;
mod log;
mod new_key;
mod params;
mod public;
mod recover;
mod sign;
mod status;
mod verify;

use std::path::{Path, PathBuf};

use clap::Subcommand;
use gabion_state::{Environment, KeyFile};
use zeroize::Zeroizing;

use crate::failure::Failure;
use crate::files;

/// Sign with stateful hash-based keys: LMS, HSS, XMSS and XMSS^MT
///
/// Example:
///   mkdir keys && gabion hbs keygen LMS_SHA256_M32_H5_W4 --out keys/key --pub pub.pem --anchor anchors/key
///   echo hi > firmware.bin && gabion hbs sign --key keys/key firmware.bin
///   gabion hbs verify --key pub.pem --sig firmware.bin.sig firmware.bin
///
/// A key signs a fixed number of messages, each with a new index. If one index signs two messages,
/// the key is broken. Therefore the used indexes are stored with the key, and a copy that may be
/// outdated is refused: docs/guide/hbs.md, docs/operate/state.md.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Audit(audit::Args),
    Backup(copies::BackupArgs),
    Forget(forget::Args),
    Import(import::Args),
    Keygen(keygen::Args),
    Log(log::Args),
    Params(params::Args),
    Pub(public::Args),
    Recover(recover::Args),
    Restore(copies::RestoreArgs),
    Retire(copies::RetireArgs),
    Sign(sign::Args),
    Status(status::Args),
    Verify(verify::Args),
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    match args.command {
        Command::Audit(args) => audit::run(args),
        Command::Backup(args) => copies::backup(args),
        Command::Forget(args) => forget::run(args),
        Command::Import(args) => import::run(args),
        Command::Keygen(args) => keygen::run(args),
        Command::Log(args) => log::run(args),
        Command::Params(args) => params::run(args),
        Command::Pub(args) => public::run(args),
        Command::Recover(args) => recover::run(args),
        Command::Restore(args) => copies::restore(args),
        Command::Retire(args) => copies::retire(args),
        Command::Sign(args) => sign::run(args),
        Command::Status(args) => status::run(args),
        Command::Verify(args) => verify::run(args),
    }
}

/// The rules of CNSA 2.0, for error messages.
const CNSA: &str = "CNSA 2.0 allows LMS and XMSS of one tree (SP 800-208; SHA-256/192 is recommended) and neither HSS nor XMSS^MT; \
    national security systems sign with validated hardware, which this software is not";

/// An existing private key file, written by `gabion hbs keygen`.
#[derive(clap::Args)]
struct KeyPath {
    /// Private key; its state files are next to it
    #[arg(value_name = "KEY")]
    key: PathBuf,
}

/// Reads the unencrypted part of a private key file.
fn key_file(around: &Environment, key: &Path) -> Result<KeyFile, Failure> {
    named_file("KEY", key)?;
    Ok(KeyFile::read(&*around.disk, key)?)
}

/// Fails on `-`: the command needs the files next to the named one.
fn named_file(option: &str, path: &Path) -> Result<(), Failure> {
    if files::is_dash(path) {
        return Err(Failure::Usage(format!(
            "{option} is `-`; expected a file name, because the state of a key is stored next to it"
        )));
    }
    Ok(())
}

/// Reads the message to sign or verify: a file, or the digest in a file, in binary or hexadecimal.
fn message(file: &Path, is_digest: bool) -> Result<Zeroizing<Vec<u8>>, Failure> {
    if !is_digest {
        check_size(file)?;
        return files::read(file, files::LARGE_MAX);
    }
    let bytes = files::read(file, files::SMALL_MAX)?;
    let is_one = |len: usize| [24, 28, 32, 48, 64].contains(&len);
    // The format of sha256sum: the digest and a file name. A binary digest that consists only of
    // hexadecimal digits has a probability of at most 2^-85.
    let text = std::str::from_utf8(&bytes).unwrap_or_default();
    let word = text.split_ascii_whitespace().next().unwrap_or_default();
    let is_hex = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let digest = match is_hex && text.trim_end().lines().count() == 1 {
        true => base16ct::mixed::decode_vec(word).ok().map(Zeroizing::new),
        false => Some(bytes),
    };
    digest.filter(|digest| is_one(digest.len())).ok_or_else(|| {
        Failure::Usage(format!(
            "{} does not hold a digest; expected 24, 28, 32, 48 or 64 bytes, or one line of as many in hexadecimal",
            files::shown(file, "standard input")
        ))
    })
}

/// Fails if a message is too long to be read, and names the alternatives.
fn check_size(file: &Path) -> Result<(), Failure> {
    let len = file.metadata().map_or(0, |about| about.len());
    if len > files::LARGE_MAX {
        return Err(Failure::Usage(format!(
            "{} has {len} bytes, and at most {} are read; sign and verify its digest with --digest (sha256sum FILE), or a \
             manifest of digests",
            files::shown(file, "standard input"),
            files::LARGE_MAX
        )));
    }
    Ok(())
}
