//! Secrets by KEMs.

use gabion_engine::{OsEntropy, SharedSecret};

use super::kms::Kms;
use super::metrics::Verb;
use crate::error::Error;
use crate::model::{KeyId, Use, VersionId};

/// A shared secret, its ciphertext, and the version that decapsulates it.
pub struct EncapsOutput {
    /// The version.
    pub by: VersionId,
    /// What the other side gets.
    pub ciphertext: Vec<u8>,
    /// The secret.
    pub secret: SharedSecret,
}

impl Kms {
    /// Makes a secret for whoever has a version, or the newest one.
    ///
    /// # Errors
    /// No such key or version; one that may not encapsulate.
    pub fn encaps(&self, id: &KeyId, version: Option<u32>) -> Result<EncapsOutput, Error> {
        self.counted(Verb::Encaps, id.algorithm, || {
            let by = self.resolve_version(id, Use::Encrypt, version)?;
            let (ciphertext, secret) = self.used(&by, Use::Encrypt, version.is_none(), |view| {
                Ok(self.context.engine.encaps(view.material.encapsulating()?, &OsEntropy)?)
            })?;
            Ok(EncapsOutput { by, ciphertext, secret })
        })
    }

    /// The secret inside of a ciphertext. Of one that was made for another key, or changed, ML-KEM gives another
    /// secret, which nobody else has.
    ///
    /// # Errors
    /// [`Error::Malformed`] for another length; no such key or version; one that may not decapsulate; of hybrids, a
    /// ciphertext whose part can't be one.
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
