//! `gabion hbs import`: takes over a private key of another library.

use std::path::PathBuf;

use gabion_state::{Environment, Foreign, GeneratedKey};

use super::new_key::{NewKeyArgs, not_made, watched};
use crate::failure::{Failure, NEXT_KEY};
use crate::files;
use crate::keys;

/// Import a private key of hash-sigs or wolfSSL
///
/// Example:
///   printf '\0\0\0\0\0\0\0\0\124\377\377\377\377\377\377\377%048d' 7 > other.prv
///   gabion hbs import other.prv --out key --pub pub.pem --next 12 --margin 3 --i-have-destroyed-the-original
///
/// If the key is used both here and there, an index signs twice and the key is broken. Therefore
/// state the next index, how many indexes to skip in case the other library used more, and that the
/// original is destroyed. The log records these statements.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Private key of the other library: 64 bytes (SHA-256 and SHAKE-256), or 56 (n = 24)
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    new: NewKeyArgs,
    /// Next index, as last recorded by the other library
    #[arg(long, value_name = "INDEX")]
    next: u64,
    /// Number of indexes to skip from there on
    #[arg(long, value_name = "N")]
    margin: u64,
    /// Confirm that the original and all its copies are destroyed and will not sign again
    #[arg(long, required = true)]
    i_have_destroyed_the_original: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    let Args { file, new, next, margin, i_have_destroyed_the_original: _ } = args;
    let around = Environment::real();
    let new = new.checked(&around, &[("FILE", &file)], 1, false)?;
    let bytes = files::read(&file, files::SMALL_MAX)?;
    let name = files::shown(&file, "standard input");
    let refused = |reason: String| Failure::Usage(format!("{name}: {reason}"));
    let Foreign { secret, next: said } = Foreign::decode(&bytes).map_err(refused)?;
    let sets = secret.sets();
    new.check_encoding(&sets)?;
    if next < said {
        return Err(Failure::Usage(format!(
            "--next {next} was already used: the next index in {name} is {said}"
        )));
    }
    let most = sets.signatures();
    let first = next.checked_add(margin).filter(|first| *first < most).ok_or_else(|| {
        Failure::Refused(format!(
            "nothing would be left, and nothing was made: the key makes {most} signatures, --next is {next} and --margin \
             {margin}; lower the margin if that covers what was signed, or {NEXT_KEY}"
        ))
    })?;
    let engine = keys::engine()?;
    let made = GeneratedKey::from_secret(engine, secret, new.threads(), &mut watched())?;
    let made = made.ok_or_else(not_made)?;
    let note = format!(
        "imported: {sets}, next index {next}, {margin} skipped; the importer confirmed that the original is destroyed"
    );
    new.write(&around, &[made], first, &note)?;
    Ok(0)
}
