//! RSA: signatures by PSS and PKCS#1 v1.5, and encryption by OAEP (RFC 8017).
//!
//! Where nothing is said, a signature is PSS with a salt as long as the digest, and OAEP's hash is SHA-256; what stands beside
//! a plaintext is OAEP's label.

use gabion_engine::{Message, Prehash};

use super::kms::Kms;
use super::metrics::Verb;
use super::sign::Signed;
use crate::error::Error;
use crate::model::{KeyId, Use, VersionId};
use crate::rsa::{Hash, PublicKey, Scheme};

impl Kms {
    /// Signs a digest by RSA in a way that is said.
    ///
    /// # Errors
    /// As [`Self::sign`]; a key that is none of RSA; a digest of another length than its hash makes; a salt that is too long.
    pub fn sign_rsa(
        &self,
        id: &KeyId,
        version: Option<u32>,
        scheme: Scheme,
        digest: &[u8],
    ) -> Result<Signed, Error> {
        self.counted(Verb::Sign, id.algorithm, || {
            let number = self.begun(id, Use::Sign, version)?;
            let may = || self.permitted(id, number, Use::Sign, version.is_none());
            let signature =
                self.used(may, |view| view.material.rsa_private()?.sign_digest(scheme, digest))?;
            Ok(Signed { by: VersionId { key: id.clone(), version: number }, signature })
        })
    }

    /// Whether an RSA signature of a digest is that version's.
    ///
    /// # Errors
    /// As [`Self::verify`] and [`Self::sign_rsa`].
    pub fn verify_rsa(
        &self,
        id: &VersionId,
        scheme: Scheme,
        digest: &[u8],
        signature: &[u8],
    ) -> Result<bool, Error> {
        self.counted(Verb::Verify, id.key.algorithm, || {
            let may = || self.permitted(&id.key, id.version, Use::Verify, false);
            self.used(may, |view| {
                let key = view.material.rsa_public().ok_or_else(no_rsa)?;
                verified(key, scheme, digest, signature)
            })
        })
    }
}

/// What a message is signed as where nothing is said, and its digest.
pub fn usual(message: &Message<'_>) -> Result<(Scheme, Vec<u8>), Error> {
    let (context, hash, digest) = match *message {
        Message::Pure { context, message } => (context, Hash::Sha256, Hash::Sha256.digest(message)),
        Message::Prehash { context, hash, digest } => (context, hash_of(hash)?, digest.to_vec()),
        Message::Mu(_) | Message::Internal(_) => {
            return Err(Error::Unsupported("RSA signs messages and their digests".to_owned()));
        }
    };
    if !context.is_empty() {
        return Err(Error::Unsupported("RSA signs no context string".to_owned()));
    }
    Ok((Scheme::Pss { hash, salt: Some(hash.digest_len()) }, digest))
}

/// The hash of digests that RSA signs.
///
/// # Errors
/// [`Error::Unsupported`].
pub fn hash_of(hash: Prehash) -> Result<Hash, Error> {
    match hash {
        Prehash::Sha2_256 => Ok(Hash::Sha256),
        Prehash::Sha2_384 => Ok(Hash::Sha384),
        Prehash::Sha2_512 => Ok(Hash::Sha512),
        other => Err(Error::Unsupported(format!(
            "RSA signs no digests by {} here; expected SHA2-256, SHA2-384 or SHA2-512",
            other.name()
        ))),
    }
}

/// Whether a signature is a key's.
pub fn verified(
    key: &PublicKey,
    scheme: Scheme,
    digest: &[u8],
    signature: &[u8],
) -> Result<bool, Error> {
    scheme.check(key.bits(), digest)?;
    if signature.len() != key.bits() / 8 {
        return Err(Error::Malformed("RSA"));
    }
    Ok(key.verify_digest(scheme, digest, signature))
}

fn no_rsa() -> Error {
    Error::Unsupported("padding and salts are of RSA keys alone".to_owned())
}
