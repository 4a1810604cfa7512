//! Key encapsulation.

use gabion_engine::{OsEntropy, SharedSecret};

use super::kms::Kms;
use super::metrics::Verb;
use crate::error::Error;
use crate::model::{KeyId, Use, VersionId};

/// A shared secret, its ciphertext, and the version that decapsulates it.
pub struct EncapsOutput {
    /// The version.
    pub by: VersionId,
    /// The ciphertext, which the other side decapsulates.
    pub ciphertext: Vec<u8>,
    /// The shared secret.
    pub secret: SharedSecret,
}

impl Kms {
    /// Encapsulates: generates a shared secret for the holder of a version, or of the newest one.
    ///
    /// # Errors
    /// A missing key or version; one that may not encapsulate.
    pub fn encaps(&self, id: &KeyId, version: Option<u32>) -> Result<EncapsOutput, Error> {
        self.counted(Verb::Encaps, id.algorithm, || {
            let by = self.resolve_version(id, Use::Encrypt, version)?;
            let (ciphertext, secret) = self.used(&by, Use::Encrypt, version.is_none(), |view| {
                Ok(self.context.engine.encaps(view.material.encapsulating()?, &OsEntropy)?)
            })?;
            Ok(EncapsOutput { by, ciphertext, secret })
        })
    }

    /// Decapsulates a ciphertext. For a modified ciphertext or one for another key, ML-KEM returns
    /// a different, pseudorandom secret (implicit rejection).
    ///
    /// # Errors
    /// [`Error::Malformed`] for another length; a missing key or version; one that may not
    /// decapsulate; for hybrids, an invalid part of the ciphertext.
    pub fn decaps(&self, id: &VersionId, ciphertext: &[u8]) -> Result<SharedSecret, Error> {
        self.counted(Verb::Decaps, id.key.algorithm, || {
            self.used(id, Use::Decrypt, false, |view| {
                let key = view.material.decapsulating()?;
                if ciphertext.len() != key.algorithm().info().output.max() {
                    return Err(Error::Malformed(id.key.algorithm.name()));
                }
                Ok(self.context.engine.decaps(key, ciphertext)?)
            })
        })
    }
}
