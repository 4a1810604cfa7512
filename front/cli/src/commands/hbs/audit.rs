//! `gabion hbs audit`: looks for an index that signed two messages, over logs and signatures from wherever.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use gabion_engine::xmss::Set;
use gabion_engine::{Algorithm, Error, Message, Prehash, lms, xmss};
use gabion_state::{KeyFile, Line, Reuse, Surroundings, audit, log};
use serde_json::Value;
use zeroize::Zeroizing;

use super::verify::as_hss;
use crate::failure::Failure;
use crate::files;
use crate::keys;

/// Look for an index that signed two messages
///
/// Example:
///   gabion hbs keygen LMS_SHA256_M32_H5_W4 --out key
///   echo one > a && echo two > b && gabion hbs sign --key key a b
///   gabion hbs log key --json > host-a.ndjson
///   gabion hbs audit key host-a.ndjson a.sig b.sig
///
/// LOG is a private key, whose log is read, or what `gabion hbs log --json` printed on another host. SIG is a signature: its
/// index stands in it. Beside its message, without .sig, which it verifies, it is compared with logs too, else with other
/// signatures. All have to be of one key. Exits 1 where an index was used twice: that key must not be trusted any more.
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
    /// What may be signatures. How the index stands in one, the key says.
    signatures: Vec<Signature>,
    key: Option<Key>,
}

/// What may be a signature.
struct Signature {
    path: PathBuf,
    bytes: Zeroizing<Vec<u8>>,
}

/// The key that logs name, and which log did first.
struct Key {
    algorithm: Algorithm,
    public: Vec<u8>,
    first: String,
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    let mut seen = Seen::default();
    for path in &args.sources {
        seen.add(path)?;
    }
    let (messages, signatures) = seen.uses()?;
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
        if bytes.first() == Some(&b'{') {
            return self.add_exported(&name, &bytes);
        }
        let around = Surroundings::real();
        let Ok(file) = KeyFile::read(&*around.disk, path) else {
            self.signatures.push(Signature { path: path.to_owned(), bytes });
            return Ok(());
        };
        self.is_of(&name, file.sets().algorithm(), file.public())?;
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
            // Those that were printed before there were keys of XMSS do not say it.
            let algorithm = row["algorithm"].as_str().unwrap_or("HSS");
            let algorithm = Algorithm::from_str(algorithm).map_err(|_| expected())?;
            let public = row["key"].as_str().and_then(|key| hex::decode(key).ok());
            self.is_of(name, algorithm, &public.ok_or_else(expected)?)?;
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
    fn is_of(&mut self, name: &str, algorithm: Algorithm, public: &[u8]) -> Result<(), Failure> {
        match &self.key {
            Some(key) if (key.algorithm, &*key.public) != (algorithm, public) => {
                Err(Failure::Usage(format!(
                    "{} and {name} are of two keys; expected logs of one",
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

    /// Uses by messages, and by signatures: one index and message have one of these.
    fn uses(self) -> Result<(Vec<Use>, Vec<Use>), Failure> {
        let Seen { mut messages, signatures, key } = self;
        let mut uses = Vec::new();
        for signature in signatures {
            let name = files::shown(&signature.path, "standard input");
            let index = match &key {
                Some(key) => key.index_of(&signature.bytes),
                None => lms::index_of(&signature.bytes),
            };
            let index = index.ok_or_else(|| {
                Failure::Usage(format!(
                    "{name} is no signature of LMS or HSS, no private key of `gabion hbs keygen`, and nothing that \
                     `gabion hbs log --json` printed; a signature of XMSS is read beside one of these alone"
                ))
            })?;
            if let Some(key) = &key
                && let Some(digest) = key.message_of(&signature)?
            {
                messages.push((name.clone(), index, digest));
            }
            uses.push((name, index, digest(&signature.bytes)));
        }
        Ok((messages, uses))
    }
}

impl Key {
    fn index_of(&self, signature: &[u8]) -> Option<u64> {
        let Some(scheme) = self.algorithm.xmss() else { return lms::index_of(signature) };
        let number = u32::from_be_bytes(*self.public.first_chunk()?);
        xmss::index_of(Set::of_number(scheme, number)?, signature)
    }

    /// The digest of what was signed, where that is beside the signature; what lies there may have changed since.
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
                    "note: {} is not what {} signs, which is compared with signatures alone",
                    files::shown(path, "-"),
                    files::shown(&signature.path, "-")
                );
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }
}

fn digest(bytes: &[u8]) -> [u8; 32] {
    let mut digest = [0; 32];
    digest.copy_from_slice(&Prehash::Sha2_256.digest(bytes));
    digest
}
