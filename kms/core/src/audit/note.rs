//! Checkpoints: the size and root of the tree, signed (C2SP signed-note, tlog-checkpoint and
//! tlog-cosignature).
//!
//! ```text
//!   ORIGIN                                      the text, which Ed25519 signs as it is (type 0x01)
//!   SIZE
//!   BASE64 OF THE ROOT
//!
//!   - ORIGIN BASE64(id of the key (4), signature)
//!   - ORIGIN BASE64(id of the key (4), time (8), signature)      ML-DSA-44 (type 0x06), over another structure
//! ```

use gabion_engine::{
    Algorithm, Engine, Entropy, Error as EngineError, Message, OsEntropy, SigningKey, VerifyKey,
};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::tree::Hash;
use crate::error::AuditError;
use crate::text::{base64, hex, of_base64, of_hex};

/// A checkpoint with verified signatures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The number of records.
    pub size: u64,
    /// The root of their tree.
    pub root: Hash,
    /// The text of the note.
    pub note: String,
}

impl Checkpoint {
    /// Parses and verifies a checkpoint. Each of the keys, in the format of C2SP's signed-note, has
    /// to have signed it. Returns `None` if the text is not a checkpoint or a signature is missing
    /// or wrong.
    ///
    /// # Errors
    /// No keys, or malformed ones; errors of the engine.
    pub fn read<S: AsRef<str>>(vkeys: &[S], note: &str) -> Result<Option<Self>, AuditError> {
        verify(&Verifier::read(vkeys)?, note)
    }
}

/// The keys that sign checkpoints.
pub struct Keys {
    origin: String,
    engine: &'static Engine,
    ed25519: SigningKey,
    ml_dsa_44: SigningKey,
}

/// A key that verifies checkpoints. The text form is C2SP's signed-note: `NAME+ID+BASE64`.
pub struct Verifier {
    name: String,
    kind: Kind,
    id: [u8; 4],
    key: VerifyKey,
}

/// The algorithm of a signature line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Ed25519 = 0x01,
    MlDsa44 = 0x06,
}

/// The prefix of a signature line: an em dash and a space.
const DASH: &str = "\u{2014} ";

/// The maximum size of a note in bytes. Verifiers have to accept 16 signatures.
pub const NOTE_MAX: usize = 128 << 10;

/// The maximum length of an origin in bytes (tlog-cosignature).
const ORIGIN_MAX: usize = 255;

impl Keys {
    /// Generates keys for a log. `origin` is the log's name: a URL without its scheme, such as
    /// `kms.example.com/audit`. Returns the keys and their seed.
    ///
    /// # Errors
    /// Those of [`Self::of_seed`]; no randomness.
    pub fn drawn(origin: &str) -> Result<(Self, Zeroizing<[u8; 64]>), AuditError> {
        let mut seed = Zeroizing::new([0; 64]);
        OsEntropy.fill(&mut *seed).map_err(|error| AuditError::Engine(error.into()))?;
        Ok((Self::of_seed(origin, &seed)?, seed))
    }

    /// Derives the keys from a seed: 32 bytes for Ed25519, and 32 for ML-DSA-44.
    ///
    /// # Errors
    /// An origin that notes cannot contain; errors of the engine.
    pub fn of_seed(origin: &str, seed: &[u8; 64]) -> Result<Self, AuditError> {
        let is_name = |c: char| !c.is_whitespace() && !c.is_control() && c != '+';
        if !(1..=ORIGIN_MAX).contains(&origin.len()) || !origin.chars().all(is_name) {
            return Err(AuditError::Parameter(
                "invalid log name: expected 1 to 255 bytes without spaces and +",
            ));
        }
        let engine = engine()?;
        let (ed25519, ml_dsa_44) = seed.split_at(32);
        Ok(Keys {
            origin: origin.to_owned(),
            ed25519: engine.signature_from_seed(Algorithm::Ed25519, ed25519).map_err(failed)?,
            ml_dsa_44: engine.signature_from_seed(Algorithm::MlDsa44, ml_dsa_44).map_err(failed)?,
            engine,
        })
    }

    /// Returns the verification keys: Ed25519, then ML-DSA-44.
    pub fn vkeys(&self) -> [String; 2] {
        [(Kind::Ed25519, &self.ed25519), (Kind::MlDsa44, &self.ml_dsa_44)].map(|(kind, key)| {
            let public = [&[kind as u8], key.public_bytes()].concat();
            let id = key_id(&self.origin, kind, key.public_bytes());
            format!("{}+{}+{}", self.origin, hex(&id), base64(&public))
        })
    }

    /// Signs a checkpoint at `time`, in seconds since 1970.
    pub(super) fn sign(&self, size: u64, root: Hash, time: u64) -> Result<Checkpoint, AuditError> {
        let text = text_of(&self.origin, size, &root);
        let line = |kind, key: &SigningKey, time: &[u8], message: &[u8]| {
            let message = Message::Pure { context: &[], message };
            let signature = self.engine.sign(key, message, &OsEntropy).map_err(failed)?;
            self.engine.verify(&key.public(), message, &signature).map_err(failed)?;
            let id = key_id(&self.origin, kind, key.public_bytes());
            let signed = base64(&[&id[..], time, &signature].concat());
            Ok(format!("{DASH}{} {signed}\n", self.origin))
        };
        let subtree = subtree(&self.origin, time, &self.origin, size, &root);
        let classical = line(Kind::Ed25519, &self.ed25519, &[], text.as_bytes())?;
        let quantum_safe = line(Kind::MlDsa44, &self.ml_dsa_44, &time.to_be_bytes(), &subtree)?;
        Ok(Checkpoint { size, root, note: format!("{text}\n{classical}{quantum_safe}") })
    }
}

impl Verifier {
    /// Parses verification keys.
    ///
    /// # Errors
    /// An empty list; a malformed key.
    pub fn read<S: AsRef<str>>(vkeys: &[S]) -> Result<Vec<Self>, AuditError> {
        let engine = engine()?;
        let keys: Option<Vec<Self>> =
            vkeys.iter().map(|vkey| Self::of(engine, vkey.as_ref())).collect();
        keys.filter(|keys| !keys.is_empty()).ok_or(AuditError::Parameter(
            "expected keys of checkpoints: NAME+ID+BASE64, of Ed25519 (type 1) or of ML-DSA-44 (type 6)",
        ))
    }

    fn of(engine: &Engine, vkey: &str) -> Option<Self> {
        let mut parts = vkey.splitn(3, '+');
        let (name, id, key) = (parts.next()?, parts.next()?, parts.next()?);
        let key = of_base64(key)?;
        let (&kind, public) = key.split_first()?;
        let (kind, algorithm) = match kind {
            0x01 => (Kind::Ed25519, Algorithm::Ed25519),
            0x06 => (Kind::MlDsa44, Algorithm::MlDsa44),
            _ => return None,
        };
        let wanted = key_id(name, kind, public);
        if of_hex(id) != Some(wanted) || name.is_empty() {
            return None;
        }
        let key = engine.signature_public(algorithm, public).ok()?;
        Some(Verifier { name: name.to_owned(), kind, id: wanted, key })
    }
}

/// Parses and verifies a checkpoint that each of the keys has to have signed. Returns `None` if the
/// text is not a checkpoint or a signature is missing or wrong.
pub fn verify(keys: &[Verifier], note: &str) -> Result<Option<Checkpoint>, AuditError> {
    let Some(parsed) = ParsedNote::of(note) else { return Ok(None) };
    let engine = engine()?;
    for key in keys {
        let signed = parsed.lines.iter().filter(|line| line.name == key.name && line.id == key.id);
        let mut is_signed = false;
        for line in signed {
            let message = match key.kind {
                Kind::Ed25519 => Some((parsed.text.as_bytes().to_vec(), &line.signature[..])),
                Kind::MlDsa44 => line.signature.split_first_chunk().map(|(time, signature)| {
                    let time = u64::from_be_bytes(*time);
                    let ParsedNote { origin, size, root, .. } = &parsed;
                    (subtree(&key.name, time, origin, *size, root), signature)
                }),
            };
            let Some((message, signature)) = message else { return Ok(None) };
            let message = Message::Pure { context: &[], message: &message };
            match engine.verify(&key.key, message, signature) {
                Ok(()) => is_signed = true,
                Err(EngineError::BadSignature) => return Ok(None),
                Err(error) => return Err(AuditError::Engine(error)),
            }
        }
        if !is_signed {
            return Ok(None);
        }
    }
    let ParsedNote { size, root, .. } = parsed;
    Ok((!keys.is_empty()).then(|| Checkpoint { size, root, note: note.to_owned() }))
}

/// Returns whether a text has the form of a checkpoint.
pub fn is_checkpoint(note: &str) -> bool {
    ParsedNote::of(note).is_some()
}

struct ParsedNote<'n> {
    text: &'n str,
    origin: &'n str,
    size: u64,
    root: Hash,
    lines: Vec<Line<'n>>,
}

struct Line<'n> {
    name: &'n str,
    id: [u8; 4],
    signature: Vec<u8>,
}

impl<'n> ParsedNote<'n> {
    fn of(note: &'n str) -> Option<Self> {
        if note.len() > NOTE_MAX || note.chars().any(|c| c < ' ' && c != '\n') {
            return None;
        }
        let end = note.rfind("\n\n")?;
        let (text, signatures) = (&note[..end + 1], &note[end + 2..]);
        let mut lines = text.lines();
        let (origin, size, root) = (lines.next()?, lines.next()?, lines.next()?);
        let number: u64 = size.parse().ok()?;
        let root: Hash = of_base64(root)?.try_into().ok()?;
        // This log writes no extension lines, and the message that ML-DSA-44 signs could not
        // include them.
        if text_of(origin, number, &root) != text || origin.is_empty() {
            return None;
        }
        let lines: Option<Vec<Line<'n>>> = signatures
            .strip_suffix('\n')?
            .split('\n')
            .map(|line| {
                let (name, signed) = line.strip_prefix(DASH)?.split_once(' ')?;
                let signed = of_base64(signed)?;
                let (id, signature) = signed.split_first_chunk::<4>()?;
                Some(Line { name, id: *id, signature: signature.to_vec() })
            })
            .collect();
        Some(ParsedNote { text, origin, size: number, root, lines: lines? })
    }
}

fn text_of(origin: &str, size: u64, root: &Hash) -> String {
    format!("{origin}\n{size}\n{}\n", base64(root))
}

/// Returns the message that ML-DSA-44 signs (tlog-cosignature, `cosigned_message`).
fn subtree(name: &str, time: u64, origin: &str, size: u64, root: &Hash) -> Vec<u8> {
    let mut message = b"subtree/v1\n\0".to_vec();
    let text = |message: &mut Vec<u8>, text: &str| {
        // A name has at most 255 bytes. The message of a longer name differs from every signed one.
        message.push(text.len() as u8);
        message.extend_from_slice(text.as_bytes());
    };
    text(&mut message, name);
    message.extend_from_slice(&time.to_be_bytes());
    text(&mut message, origin);
    message.extend_from_slice(&0u64.to_be_bytes());
    message.extend_from_slice(&size.to_be_bytes());
    message.extend_from_slice(root);
    message
}

/// Returns the id of a key: the beginning of a SHA-256.
fn key_id(name: &str, kind: Kind, public: &[u8]) -> [u8; 4] {
    let hash = Sha256::new()
        .chain_update(name)
        .chain_update([b'\n', kind as u8])
        .chain_update(public)
        .finalize();
    let mut id = [0; 4];
    id.copy_from_slice(&hash[..4]);
    id
}

fn engine() -> Result<&'static Engine, AuditError> {
    Engine::global().map_err(failed)
}

fn failed(error: EngineError) -> AuditError {
    AuditError::Engine(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> Keys {
        let seed: [u8; 64] = std::array::from_fn(|n| n as u8);
        Keys::of_seed("example.com/audit", &seed).unwrap()
    }

    #[test]
    fn a_checkpoint_is_verified_and_no_other_text_is() {
        let keys = keys();
        let verifiers = Verifier::read(&keys.vkeys()).unwrap();
        let signed = keys.sign(7, [9; 32], 1_790_000_000).unwrap();
        assert_eq!(verify(&verifiers, &signed.note).unwrap().as_ref(), Some(&signed));
        let text = signed.note.split("\n\n").next().unwrap();
        let lines: Vec<&str> = signed.note.split("\n\n").nth(1).unwrap().lines().collect();
        for other in [
            signed.note.replace("\n7\n", "\n8\n"),
            signed.note.replace("\n7\n", "\n07\n"),
            signed.note.replace("CQkJ", "CQkK"),
            signed.note.replace("\n\n", "\nmore\n\n"),
            format!("{text}\n\n{}\n", lines[0]),
            format!("{text}\n\n{}\n", lines[1]),
            signed.note.trim_end().to_owned(),
            signed.note.replace(DASH, "- "),
            String::new(),
        ] {
            assert_ne!(other, signed.note);
            assert_eq!(verify(&verifiers, &other).unwrap(), None, "{other}");
        }
        // Signature lines of other signers are ignored.
        let more = format!("{}{DASH}witness.example.com AAAAAAEC\n", signed.note);
        assert!(verify(&verifiers, &more).unwrap().is_some());
        assert_eq!(verify(&[], &signed.note).unwrap(), None, "nobody signed it");
    }

    #[test]
    fn each_signature_counts() {
        let keys = keys();
        let verifiers = Verifier::read(&keys.vkeys()).unwrap();
        let signed = keys.sign(7, [9; 32], 5).unwrap();
        let lines: Vec<usize> = signed.note.match_indices(DASH).map(|(at, _)| at).collect();
        for start in lines {
            // A digit in the middle of the signature.
            let at = start + 60;
            let mut other = signed.note.clone();
            let digit = if &other[at..=at] == "A" { "B" } else { "A" };
            other.replace_range(at..=at, digit);
            assert_eq!(verify(&verifiers, &other).unwrap(), None);
        }
    }

    #[test]
    fn keys_are_read_as_they_are_written() {
        let vkeys = keys().vkeys();
        assert!(vkeys[0].starts_with("example.com/audit+"));
        for vkey in &vkeys {
            for place in 0..vkey.len() {
                assert!(Verifier::read(&[&vkey[..place]]).is_err());
            }
        }
        assert!(Verifier::read::<&str>(&[]).is_err());
        for bad in ["", "a b", "a+b", "a\n", &"x".repeat(256)] {
            assert!(Keys::of_seed(bad, &[1; 64]).is_err(), "{bad:?}");
        }
    }

    /// Compares with Go's golang.org/x/mod/sumdb/note for the same seed.
    #[test]
    fn checkpoint_signature_matches_the_go_note_format() {
        let note = keys().sign(7, [9; 32], 5).unwrap().note;
        let golden = include_str!("../../tests/golden/checkpoint.txt");
        let line = note.lines().find(|line| line.starts_with(DASH)).unwrap();
        assert_eq!(
            golden,
            format!("{}\n{}\n{line}\n", keys().vkeys()[0], note.split("\n\n").next().unwrap())
        );
    }
}
