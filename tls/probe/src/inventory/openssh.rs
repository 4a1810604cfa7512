//! OpenSSH keys: public keys on a line of a text file, and the unencrypted header of private keys
//! (OpenSSH's PROTOCOL.key).

use base64ct::{Base64, Encoding};

use crate::algorithm::KeyKind;
use crate::certificate::hex;
use crate::ssh::is_host_key_post_quantum;
use sha2::{Digest, Sha256};

/// An OpenSSH key.
pub(super) struct SshKey {
    /// The algorithm.
    pub(super) algorithm: KeyKind,
    /// The SHA-256 of the public key, in lower-case hex.
    pub(super) sha256: String,
    /// Whether the file is an encrypted private key.
    pub(super) is_encrypted: bool,
}

/// The start of a private key.
const MAGIC: &[u8] = b"openssh-key-v1\0";
/// The end of the type of an SSH certificate.
const CERTIFICATE: &str = "-cert-v01@openssh.com";

/// Finds the public key on a line of a `.pub`, `authorized_keys` or `known_hosts` file.
pub(super) fn public_key(line: &str) -> Option<SshKey> {
    let line = line.trim_start();
    if line.starts_with('#') {
        return None;
    }
    let mut words = line.split_ascii_whitespace();
    let is_type = |word: &&str| {
        ["ssh-", "ecdsa-sha2-", "sk-ssh-", "sk-ecdsa-"].iter().any(|start| word.starts_with(start))
    };
    let name = words.find(is_type)?;
    let encoded = words.next()?;
    let blob = Base64::decode_vec(encoded).ok()?;
    (Blob(&blob).string() == Some(name.as_bytes())).then(|| of_blob(&blob))?
}

/// Reads the header of a private key: its cipher and its public key.
pub(super) fn private_key(bytes: &[u8]) -> Option<SshKey> {
    let mut fields = Blob(bytes.strip_prefix(MAGIC)?);
    let cipher = fields.string()?;
    fields.string()?; // key derivation
    fields.string()?; // its options
    if fields.take(4)? != [0, 0, 0, 1] {
        return None;
    }
    let mut found = of_blob(fields.string()?)?;
    found.is_encrypted = cipher != b"none";
    Some(found)
}

/// Describes the key in a public key blob (RFC 4253, section 6.6).
fn of_blob(blob: &[u8]) -> Option<SshKey> {
    let mut fields = Blob(blob);
    let name = std::str::from_utf8(fields.string()?).ok()?;
    let base = name.strip_suffix(CERTIFICATE);
    if base.is_some() {
        fields.string()?; // nonce
    }
    let base = base.unwrap_or(name);
    let base = base.strip_suffix("@openssh.com").unwrap_or(base);
    let base = base.strip_prefix("sk-").unwrap_or(base);
    let algorithm = match base {
        "ssh-rsa" => {
            fields.string()?; // exponent
            KeyKind::rsa(fields.integer_bits()?)
        }
        "ssh-dss" => KeyKind::classical(format!("DSA-{}", fields.integer_bits()?), 1024),
        "ssh-ed25519" => KeyKind::classical("Ed25519", 256),
        "ssh-ed448" => KeyKind::classical("Ed448", 456),
        "ecdsa-sha2-nistp256" => KeyKind::classical("ECDSA P-256", 256),
        "ecdsa-sha2-nistp384" => KeyKind::classical("ECDSA P-384", 384),
        "ecdsa-sha2-nistp521" => KeyKind::classical("ECDSA P-521", 521),
        _ if is_host_key_post_quantum(base) => {
            KeyKind { name: name.to_owned(), is_post_quantum: true, bits: 0 }
        }
        _ => KeyKind::classical(name, 0),
    };
    Some(SshKey { algorithm, sha256: hex(&Sha256::digest(blob)), is_encrypted: false })
}

/// A reader of SSH's strings and numbers (RFC 4251, section 5).
struct Blob<'a>(&'a [u8]);

impl<'a> Blob<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn string(&mut self) -> Option<&'a [u8]> {
        let len = u32::from_be_bytes(self.take(4)?.try_into().ok()?);
        self.take(usize::try_from(len).ok()?)
    }

    /// Reads an integer and returns its size.
    fn integer_bits(&mut self) -> Option<usize> {
        let bytes = self.string()?;
        let bytes = bytes.strip_prefix(&[0]).unwrap_or(bytes);
        Some(8 * bytes.len() - bytes.first()?.leading_zeros() as usize)
    }
}
