//! `gabion hbs audit`: looks for an index that signed two messages, over logs and signatures from wherever.

use std::path::{Path, PathBuf};

use gabion_engine::Prehash;
use gabion_engine::lms::index_of;
use gabion_state::{KeyFile, Line, Reuse, Surroundings, audit, log};
use serde_json::Value;

use crate::failure::Failure;
use crate::files;

/// Look for an index that signed two messages
///
/// Example:
///   gabion hbs keygen LMS_SHA256_M32_H5_W4 --out key
///   echo one > a && echo two > b && gabion hbs sign --key key a b
///   gabion hbs log key --json > host-a.ndjson
///   gabion hbs audit key host-a.ndjson a.sig b.sig
///
/// LOG is a private key, whose log is read, or what `gabion hbs log --json` printed on another host. SIG is a signature: its
/// index stands in it. Beside its message, without .sig, it is compared with logs too, else with other signatures. All
/// have to be of one key. Exits 1 where an index was used twice: that key must not be trusted any more.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Logs and signatures
    #[arg(value_name = "LOG|SIG", required = true)]
    sources: Vec<PathBuf>,
}

/// An index that was used, where, and for what.
type Use = (String, u64, [u8; 32]);

/// What was seen.
#[derive(Default)]
struct Seen {
    /// By digests of messages.
    messages: Vec<Use>,
    /// By digests of signatures: one index and message have one.
    signatures: Vec<Use>,
    /// The key that logs name, and which log did first.
    key: Option<(String, String)>,
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    let mut seen = Seen::default();
    for path in &args.sources {
        seen.add(path)?;
    }
    let uses = seen.messages.len().max(seen.signatures.len());
    let mut reused = audit(seen.messages);
    for reuse in audit(seen.signatures) {
        if reused.iter().all(|known| known.index != reuse.index) {
            reused.push(reuse);
        }
    }
    for Reuse { index, sources: [one, other] } in &reused {
        say!("index {index} signed two messages: {one}, {other}");
    }
    match reused.len() {
        0 => {
            say!("no index signed two messages; {uses} uses were seen");
            Ok(0)
        }
        count => Err(Failure::No(format!(
            "{count} indexes signed two messages; whoever has both signatures can forge: replace the key"
        ))),
    }
}

impl Seen {
    fn add(&mut self, path: &Path) -> Result<(), Failure> {
        let bytes = files::read(path, files::LARGE_MAX)?;
        let name = files::shown(path, "standard input");
        if let Some(index) = index_of(&bytes) {
            let of_bytes = digest(&bytes);
            self.signatures.push((name.clone(), index, of_bytes));
            let message = path.to_str().and_then(|path| path.strip_suffix(".sig"));
            if let Some(message) = message.filter(|message| Path::new(message).is_file()) {
                let message = files::read(Path::new(message), files::LARGE_MAX)?;
                self.messages.push((name, index, digest(&message)));
            }
            return Ok(());
        }
        if bytes.first() == Some(&b'{') {
            return self.add_exported(&name, &bytes);
        }
        let around = Surroundings::real();
        let Ok(file) = KeyFile::read(&*around.disk, path) else {
            return Err(Failure::Usage(format!(
                "{name} is no signature of LMS or HSS, no private key of `gabion hbs keygen`, and nothing that \
                 `gabion hbs log --json` printed"
            )));
        };
        self.is_of(&name, hex::encode(file.public()))?;
        for line in log(&around, path)? {
            if let Line::Signed { index, digest, host, .. } = line {
                self.messages.push((format!("{name} on {host}"), index, digest));
            }
        }
        Ok(())
    }

    fn add_exported(&mut self, name: &str, bytes: &[u8]) -> Result<(), Failure> {
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        for (at, line) in lines.enumerate() {
            let expected = || {
                Failure::Usage(format!(
                    "line {} of {name} is none that `gabion hbs log --json` prints",
                    at + 1
                ))
            };
            let row: Value = serde_json::from_slice(line).map_err(|_| expected())?;
            self.is_of(name, row["key"].as_str().ok_or_else(expected)?.to_owned())?;
            if row["kind"] != "signed" {
                continue;
            }
            let index = row["index"].as_u64().ok_or_else(expected)?;
            let digest = row["digest"].as_str().and_then(|digest| hex::decode(digest).ok());
            let digest = digest.and_then(|digest| digest.try_into().ok()).ok_or_else(expected)?;
            let host = row["host"].as_str().unwrap_or("an unknown host");
            self.messages.push((format!("{name} on {host}"), index, digest));
        }
        Ok(())
    }

    /// Indexes of two keys say nothing about each other.
    fn is_of(&mut self, name: &str, key: String) -> Result<(), Failure> {
        match &self.key {
            Some((known, first)) if *known != key => Err(Failure::Usage(format!(
                "{first} and {name} are of two keys; expected logs of one"
            ))),
            Some(_) => Ok(()),
            None => {
                self.key = Some((key, name.to_owned()));
                Ok(())
            }
        }
    }
}

fn digest(bytes: &[u8]) -> [u8; 32] {
    let mut digest = [0; 32];
    digest.copy_from_slice(&Prehash::Sha2_256.digest(bytes));
    digest
}
