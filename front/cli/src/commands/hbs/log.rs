//! `gabion hbs log`: lists what a key signed.

use gabion_state::{Environment, Line, read_log};

use super::export::Writer;
use super::{KeyPath, key_file};
use crate::failure::{Failure, spelt};
use crate::stdout;

/// List the signatures of a key: index, message digest, request id, time, host
///
/// Example:
///   gabion hbs keygen LMS_SHA256_M32_H5_W4 --out key
///   echo hi > message && gabion hbs sign --key key message
///   gabion hbs log key
///   gabion hbs log key --json > key.ndjson
///
/// Changes nothing and needs no password. A power failure may lose the last lines; their indexes
/// are used up nevertheless. The digest is SHA-256, as printed by sha256sum. Exits 4 if the log is
/// damaged, is shorter than the state records, or cannot be read; the readable part is printed.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(flatten)]
    key: KeyPath,
    /// Print a JSON object per line and an end record, for `gabion hbs audit`
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    let around = Environment::real();
    let file = key_file(&around, &args.key.key)?;
    let mut writer = Writer::new(file.sets().algorithm(), file.public());
    let mut printed = Ok(());
    let history = read_log(&around, &args.key.key, |line| {
        if printed.is_ok() {
            let text = if args.json { writer.line(&line) } else { as_text(&line) };
            printed = stdout::print(format_args!("{text}\n"));
        }
    });
    let history = history.map_err(|why| Failure::Refused(why.to_string()))?;
    printed?;
    if args.json {
        say!("{}", writer.end(&history));
    }
    match history.damage {
        None => Ok(0),
        Some(damage) => {
            Err(Failure::Refused(format!("{damage}; lines may be missing from the output")))
        }
    }
}

fn as_text(line: &Line) -> String {
    match line {
        Line::Signed { index, digest, request, time, host, .. } => {
            let request = request.as_deref().map_or(String::new(), |id| format!("  {}", spelt(id)));
            format!(
                "{time}  {}  index {index}  {}{request}",
                spelt(host),
                base16ct::lower::encode_string(digest)
            )
        }
        Line::Forgotten { request } => format!("forgotten: {}", spelt(request)),
        Line::Note { text, time, host } => format!("{time}  {}  {}", spelt(host), spelt(text)),
    }
}
