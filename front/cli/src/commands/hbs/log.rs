//! `gabion hbs log`: what a key signed.

use gabion_engine::Algorithm;
use gabion_state::{Line, Surroundings, log};
use serde_json::{Value, json};

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
/// same. The digest is SHA-256, as `sha256sum` prints it.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(flatten)]
    key: KeyPath,
    /// Print a JSON object for each line, as `gabion hbs audit` reads them
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    let around = Surroundings::real();
    let file = key_file(&around, &args.key.key)?;
    let key = (file.sets().algorithm(), hex::encode(file.public()));
    for line in log(&around, &args.key.key)? {
        if args.json {
            say!("{}", as_json(&line, &key));
        } else {
            say!("{}", as_text(&line));
        }
    }
    Ok(0)
}

fn as_json(line: &Line, (algorithm, public): &(Algorithm, String)) -> Value {
    let algorithm = algorithm.to_string();
    match line {
        Line::Signed { index, digest, request, time, host, .. } => json!({
            "kind": "signed", "algorithm": algorithm, "key": public, "index": index, "digest": hex::encode(digest),
            "request": request, "time": time, "host": host,
        }),
        Line::Forgotten { request } => {
            json!({"kind": "forgotten", "algorithm": algorithm, "key": public, "request": request})
        }
        Line::Note { text, time, host } => {
            json!({
                "kind": "note", "algorithm": algorithm, "key": public, "text": text, "time": time, "host": host,
            })
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
