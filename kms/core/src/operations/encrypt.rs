//! Encryption and decryption.

use zeroize::Zeroizing;

use super::kms::Kms;
use super::metrics::Verb;
use crate::error::Error;
use crate::model::{KeyId, Use, VersionId};
use crate::rsa::Hash;

/// A ciphertext, and the version that encrypted it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncryptOutput {
    /// The version.
    pub by: VersionId,
    /// The nonce, the ciphertext and the tag.
    pub ciphertext: Vec<u8>,
}

/// The prefix of a wrapped key's associated data. Callers may not use it for encryption.
pub const WRAPPED: &[u8] = b"gabion-kms wrap 1\0";

impl Kms {
    /// Encrypts with a version, or with the newest one. `beside` is associated data: it is not
    /// encrypted, and decryption needs the same bytes.
    ///
    /// # Errors
    /// A missing key or version; one that may not encrypt; one that reached its encryption limit.
    pub fn encrypt(
        &self,
        id: &KeyId,
        version: Option<u32>,
        plain: &[u8],
        beside: &[u8],
    ) -> Result<EncryptOutput, Error> {
        self.counted(Verb::Encrypt, id.algorithm, || {
            check_beside(beside)?;
            self.encrypted(id, version, plain, beside)
        })
    }

    /// Encrypts as part of another operation.
    pub(super) fn encrypted(
        &self,
        id: &KeyId,
        version: Option<u32>,
        plain: &[u8],
        beside: &[u8],
    ) -> Result<EncryptOutput, Error> {
        let by = self.resolve_version(id, Use::Encrypt, version)?;
        let ciphertext = self.used(&by, Use::Encrypt, version.is_none(), |view| {
            if let Some(key) = view.material.rsa_public() {
                return key.encrypt(Hash::Sha256, plain, beside);
            }
            let aead = view.material.aead()?;
            if id.algorithm.symmetric().is_some_and(|symmetric| symmetric.is_counted()) {
                self.reserved(&by)?;
            }
            aead.seal(plain, beside)
        })?;
        Ok(EncryptOutput { by, ciphertext })
    }

    /// Decrypts a ciphertext of a version.
    ///
    /// # Errors
    /// [`Error::DecryptFailed`], without the cause; a missing key or version; one that may not
    /// decrypt.
    pub fn decrypt(
        &self,
        id: &VersionId,
        ciphertext: &[u8],
        beside: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, Error> {
        self.counted(Verb::Decrypt, id.key.algorithm, || {
            check_beside(beside)?;
            self.decrypted(id, ciphertext, beside)
        })
    }

    /// Decrypts as part of another operation.
    pub(super) fn decrypted(
        &self,
        id: &VersionId,
        ciphertext: &[u8],
        beside: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, Error> {
        self.used(id, Use::Decrypt, false, |view| {
            if view.material.rsa_public().is_some() {
                return view.material.rsa_private()?.decrypt(Hash::Sha256, ciphertext, beside);
            }
            view.material.aead()?.open(ciphertext, beside).ok_or(Error::DecryptFailed)
        })
    }

    /// Decrypts, and encrypts with another version, or with the newest one. The plaintext does not
    /// leave the service.
    ///
    /// # Errors
    /// Those of [`Self::decrypt`] and [`Self::encrypt`].
    pub fn rewrap(
        &self,
        id: &VersionId,
        ciphertext: &[u8],
        beside: &[u8],
        to: Option<u32>,
    ) -> Result<EncryptOutput, Error> {
        self.counted(Verb::Rewrap, id.key.algorithm, || {
            check_beside(beside)?;
            let plain = self.decrypted(id, ciphertext, beside)?;
            self.encrypted(&id.key, to, &plain, beside)
        })
    }
}

/// Rejects associated data that would make a ciphertext a wrapped key, or decrypt one.
pub(super) fn check_beside(beside: &[u8]) -> Result<(), Error> {
    match beside.starts_with(WRAPPED) {
        true => {
            let why =
                "the associated data has the prefix of wrapped keys; use `unwrap` for wrapped keys";
            Err(Error::Parameter(why.to_owned()))
        }
        false => Ok(()),
    }
}
