//! `gabion hbs audit`: finds indexes that signed two messages, across logs and signatures of any
//! origin.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use gabion_engine::xmss::Set;
use gabion_engine::{Algorithm, Error, Message, lms, xmss};
use gabion_state::{Environment, KeyFile, LABEL, Line, Reuse, audit, read_log};
use serde_json::Value;
use zeroize::Zeroizing;

use super::export::{Section, digest};
use super::verify::as_hss;
use crate::failure::Failure;
use crate::files;
use crate::keys;

/// Check logs and signatures for an index that signed two messages
///
/// Example:
///   gabion hbs keygen LMS_SHA256_M32_H5_W4 --out key
///   echo one > a && echo two > b && gabion hbs sign --key key a b
///   gabion hbs log key --json > host-a.ndjson
///   gabion hbs audit key host-a.ndjson a.sig b.sig
///
/// LOG is a private key (its log is read) or the output of `gabion hbs log --json` on another host.
/// SIG is a signature file; it contains its index. If FILE lies next to FILE.sig and the signature
/// verifies over it, the signature is also compared with the logs; otherwise only with other
/// signatures. All sources must belong to one key.
///
/// Exits 1 if an index was used twice: the key must no longer be trusted. Exits 4 if a log is
/// damaged, incomplete or unreadable, or was exported by a program that did not write an end
/// record: uses may be missing.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Logs (or private keys) and signature files
    #[arg(value_name = "LOG|SIG", required = true)]
    sources: Vec<PathBuf>,
}

/// One use of an index: the source that reports it, the index, and the message or signature digest.
type Use = (String, u64, [u8; 32]);

/// The evidence collected from all sources.
#[derive(Default)]
struct Evidence {
    /// Uses by message digest.
    messages: Vec<Use>,
    /// Files that may be signatures. The position of the index depends on the key.
    signatures: Vec<Signature>,
    key: Option<Key>,
    /// The reasons why uses may be missing.
    problems: Vec<Failure>,
}

/// A file that may be a signature.
struct Signature {
    path: PathBuf,
    bytes: Zeroizing<Vec<u8>>,
}

/// The key that the logs name, and the first log that named it.
struct Key {
    algorithm: Algorithm,
    public: Vec<u8>,
    first: String,
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    let mut seen = Evidence::default();
    for path in &args.sources {
        // The remaining sources count even if one is unusable.
        if let Err(problem) = seen.add(path) {
            seen.problems.push(problem);
        }
    }
    let (messages, signatures, problems) = seen.uses();
    let uses = messages.len().max(signatures.len());
    let mut reused = audit(messages);
    for reuse in audit(signatures) {
        if reused.iter().all(|known| known.index != reuse.index) {
            reused.push(reuse);
        }
    }
    for Reuse { index, sources: [one, other] } in &reused {
        say!("index {index} signed two messages: {one}, {other}");
    }
    if reused.is_empty() && problems.is_empty() {
        say!("no index signed two messages; {uses} uses were seen");
    } else if reused.is_empty() && uses > 0 {
        say!("no index signed two messages in the readable part; {uses} uses were seen");
    }
    let indexes: BTreeSet<u64> = reused.iter().map(|reuse| reuse.index).collect();
    verdict(indexes.len(), problems)
}

/// Returns the exit code. Reuse takes precedence over damaged logs, and those over files of another
/// type; problems that do not decide the outcome are printed as warnings.
fn verdict(reused: usize, mut problems: Vec<Failure>) -> Result<u8, Failure> {
    if reused > 0 {
        problems.push(Failure::No(format!(
            "{reused} indexes signed two messages, which lets others forge signatures: replace the key"
        )));
    }
    let rank = |problem: &Failure| match problem.exit_code() {
        1 => 0,
        4 => 1,
        _ => 2,
    };
    problems.sort_by_key(rank);
    let mut problems = problems.into_iter();
    let Some(worst) = problems.next() else { return Ok(0) };
    for problem in problems {
        eprintln!("warning: {problem}");
    }
    Err(worst)
}

/// Returns whether the bytes are an exported log, possibly damaged.
fn is_exported(bytes: &[u8]) -> bool {
    let (begins, name) = (&bytes[..bytes.len().min(4096)], b"\"kind\":");
    bytes.starts_with(b"{") || begins.windows(name.len()).any(|part| part == name)
}

/// Returns the failure for evidence that cannot be read completely.
fn incomplete(name: &str, why: impl Display) -> Failure {
    Failure::Refused(format!("{name}: {why}; uses may be missing from this audit"))
}

impl Evidence {
    fn add(&mut self, path: &Path) -> Result<(), Failure> {
        let name = files::shown(path, "standard input");
        let bytes = files::read(path, files::LARGE_MAX).map_err(|why| incomplete(&name, why))?;
        match bytes.first() {
            None => return Err(incomplete(&name, "it is empty")),
            Some(_) if is_exported(&bytes) => return self.add_exported(&name, &bytes),
            Some(_) => {}
        }
        let around = Environment::real();
        let file = match KeyFile::read(&*around.disk, path) {
            Ok(file) => file,
            Err(why) if bytes.starts_with(format!("-----BEGIN {LABEL}").as_bytes()) => {
                return Err(incomplete(&name, why));
            }
            Err(_) => {
                self.signatures.push(Signature { path: path.to_owned(), bytes });
                return Ok(());
            }
        };
        self.is_of(&name, file.sets().algorithm(), file.public())?;
        let mut signed = 0;
        let history = read_log(&around, path, |line| {
            if let Line::Signed { index, digest, host, .. } = line {
                signed += 1;
                self.messages.push((format!("{name} on {host}"), index, digest));
            }
        });
        let history = history.map_err(|why| incomplete(&name, why))?;
        let unlogged = (history.next - history.first).saturating_sub(signed);
        if unlogged > 0 {
            eprintln!(
                "note: {name}: {unlogged} indexes below {} are not in its log: burnt, or lost from it with the power or a \
                 damage",
                history.next
            );
        }
        history.damage.map_or(Ok(()), |damage| Err(incomplete(&name, damage)))
    }

    fn add_exported(&mut self, name: &str, bytes: &[u8]) -> Result<(), Failure> {
        let (mut section, mut of, mut problems) = (Section::default(), None, Vec::new());
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        for (at, line) in lines.enumerate() {
            let number = at + 1;
            let row: Option<Value> = serde_json::from_slice(line).ok();
            match row.as_ref().and_then(|row| Some((row, Row::of(row)?))) {
                Some((row, Row { key, used })) => {
                    if section.is_empty() {
                        self.is_of(name, key.0, &key.1)?;
                        of = Some(key);
                    } else if of.as_ref() != Some(&key) {
                        // Its indexes belong to another key.
                        problems.push(format!("line {number} names another key"));
                        continue;
                    }
                    problems.extend(section.read(row));
                    if let Some((host, index, digest)) = used {
                        self.messages.push((format!("{name} on {host}"), index, digest));
                    }
                }
                None if at == 0
                    && row
                        .as_ref()
                        .is_some_and(|row| row["kind"].is_null() && row["key"].is_null()) =>
                {
                    return Err(Failure::Usage(format!(
                        "{name} is not a log: `gabion hbs log --json` prints no such object"
                    )));
                }
                None => problems.push(format!("line {number} is damaged or cut short")),
            }
        }
        problems.extend(section.unfinished());
        self.problems.extend(problems.into_iter().map(|problem| incomplete(name, problem)));
        Ok(())
    }

    /// Fails if a source belongs to another key: indexes of two keys cannot be compared.
    fn is_of(&mut self, name: &str, algorithm: Algorithm, public: &[u8]) -> Result<(), Failure> {
        match &self.key {
            Some(key) if (key.algorithm, &*key.public) != (algorithm, public) => {
                Err(Failure::Usage(format!(
                    "{} and {name} belong to different keys; expected logs of one key",
                    key.first
                )))
            }
            Some(_) => Ok(()),
            None => {
                let (public, first) = (public.to_vec(), name.to_owned());
                self.key = Some(Key { algorithm, public, first });
                Ok(())
            }
        }
    }

    /// Returns the uses by message digest, the uses by signature digest, and the reasons why uses
    /// may be missing. A pair of index and message appears in only one of the two lists.
    fn uses(self) -> (Vec<Use>, Vec<Use>, Vec<Failure>) {
        let Evidence { mut messages, signatures, key, mut problems } = self;
        let mut uses = Vec::new();
        for signature in signatures {
            let name = files::shown(&signature.path, "standard input");
            let index = match &key {
                Some(key) => key.index_of(&signature.bytes),
                None => lms::index_of(&signature.bytes),
            };
            let Some(index) = index else {
                problems.push(Failure::Usage(format!(
                    "{name} is neither an LMS or HSS signature nor a private key of `gabion hbs keygen` nor anything that \
                     `gabion hbs log --json` printed; an XMSS signature also needs one of these two"
                )));
                continue;
            };
            match key.as_ref().map_or(Ok(None), |key| key.message_of(&signature)) {
                Ok(digest) => messages.extend(digest.map(|digest| (name.clone(), index, digest))),
                Err(problem) => problems.push(problem),
            }
            uses.push((name, index, digest(&signature.bytes)));
        }
        (messages, uses, problems)
    }
}

/// An object of an exported log.
struct Row {
    key: (Algorithm, Vec<u8>),
    /// The host, the index and the digest of the message; `None` unless the object records a
    /// signature.
    used: Option<Use>,
}

impl Row {
    /// Parses an object. Returns `None` if `gabion hbs log --json` does not print such an object.
    fn of(row: &Value) -> Option<Self> {
        // Exports that predate XMSS support have no `algorithm`.
        let algorithm = Algorithm::from_str(row["algorithm"].as_str().unwrap_or("HSS")).ok()?;
        let public = base16ct::mixed::decode_vec(row["key"].as_str()?).ok()?;
        let used = match row["kind"].as_str()? {
            "signed" => {
                let digest =
                    base16ct::mixed::decode_vec(row["digest"].as_str()?).ok()?.try_into().ok()?;
                let host = row["host"].as_str().unwrap_or("an unknown host");
                Some((host.to_owned(), row["index"].as_u64()?, digest))
            }
            _ => None,
        };
        Some(Row { key: (algorithm, public), used })
    }
}

impl Key {
    fn index_of(&self, signature: &[u8]) -> Option<u64> {
        let Some(scheme) = self.algorithm.xmss() else { return lms::index_of(signature) };
        let number = u32::from_be_bytes(*self.public.first_chunk()?);
        xmss::index_of(Set::from_number(scheme, number)?, signature)
    }

    /// Returns the digest of the message next to the signature file, or `None` if that file is
    /// missing or the signature does not verify over it (it may have changed since).
    fn message_of(&self, signature: &Signature) -> Result<Option<[u8; 32]>, Failure> {
        let path = signature.path.to_str().and_then(|path| path.strip_suffix(".sig"));
        let Some(path) = path.map(Path::new).filter(|path| path.is_file()) else { return Ok(None) };
        let bytes = files::read(path, files::LARGE_MAX)?;
        let engine = keys::engine()?;
        let key = engine.signature_public(self.algorithm, &self.public)?;
        let message = Message::Pure { context: b"", message: &bytes };
        match engine.verify(&key, message, &as_hss(&key, &signature.bytes)) {
            Ok(()) => Ok(Some(digest(&bytes))),
            Err(Error::BadSignature) => {
                eprintln!(
                    "note: {} is not the message of {}, which is compared only with other signatures",
                    files::shown(path, "-"),
                    files::shown(&signature.path, "-")
                );
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }
}
