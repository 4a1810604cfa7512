//! `gabion hbs log`: what a key signed.

use gabion_state::{Line, Surroundings, log};

use super::export::Writer;
use super::{KeyPath, key_file};
use crate::failure::{Failure, spelt};

/// List what a key signed: index, digest of the message, request id, time, host
///
/// Example:
///   gabion hbs keygen LMS_SHA256_M32_H5_W4 --out key
///   echo hi > message && gabion hbs sign --key key message
///   gabion hbs log key
///   gabion hbs log key --json > key.ndjson
///
/// Changes nothing and needs no password. The last lines may be lost with the power; their indexes are used up all the
/// same. The digest is SHA-256, as `sha256sum` prints it. Exits 4 if the log is damaged, ends before the state says it does, or
/// can't be read; what can be read is printed.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(flatten)]
    key: KeyPath,
    /// Print a JSON object for each line and one that ends the log, as `gabion hbs audit` reads them
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    let around = Surroundings::real();
    let file = key_file(&around, &args.key.key)?;
    let history = log(&around, &args.key.key).map_err(|why| Failure::Refused(why.to_string()))?;
    let mut writer = Writer::new(file.sets().algorithm(), file.public());
    for line in &history.lines {
        if args.json {
            say!("{}", writer.line(line));
        } else {
            say!("{}", as_text(line));
        }
    }
    if args.json {
        say!("{}", writer.end(&history));
    }
    match history.damage {
        None => Ok(0),
        Some(damage) => {
            Err(Failure::Refused(format!("{damage}; lines may be missing from what was printed")))
        }
    }
}

fn as_text(line: &Line) -> String {
    match line {
        Line::Signed { index, digest, request, time, host, .. } => {
            let request = request.as_deref().map_or(String::new(), |id| format!("  {}", spelt(id)));
            format!("{time}  {}  index {index}  {}{request}", spelt(host), hex::encode(digest))
        }
        Line::Forgotten { request } => format!("forgotten: {}", spelt(request)),
        Line::Note { text, time, host } => format!("{time}  {}  {}", spelt(host), spelt(text)),
    }
}
