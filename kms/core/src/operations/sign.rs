//! Signing.

use gabion_engine::OsEntropy;

use super::cache::{KeyView, VersionView};
use super::kms::Kms;
use super::metrics::Verb;
use super::rsa;
use crate::error::Error;
use crate::model::{KeyId, Use, VersionId};
use crate::signable::Signable;

/// A signature, and the version that made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignOutput {
    /// The version.
    pub by: VersionId,
    /// The signature.
    pub signature: Vec<u8>,
}

impl Kms {
    /// Signs a message or a digest with a version, or with the newest one.
    ///
    /// # Errors
    /// A missing key or version; one that may not sign; a message that the algorithm does not
    /// support. For a digest: a key of another algorithm than RSA, a digest whose length is wrong
    /// for its hash, or a salt that is too long for the key or its labels. If the labels limit the
    /// salt and the scheme names no length, the salt is as long as the digest.
    pub fn sign<'a>(
        &self,
        id: &KeyId,
        version: Option<u32>,
        signable: impl Into<Signable<'a>>,
    ) -> Result<SignOutput, Error> {
        let signable = signable.into();
        self.counted(Verb::Sign, id.algorithm, || {
            let (number, signable) = self.resolve_sign(id, version, signable)?;
            let by = VersionId { key: id.clone(), version: number };
            self.sign_version(by, version.is_none(), (Use::Sign, signable))
        })
    }

    /// Signs with a version, as part of another operation.
    pub(super) fn sign_version(
        &self,
        by: VersionId,
        was_newest: bool,
        (of, signable): (Use, Signable<'_>),
    ) -> Result<SignOutput, Error> {
        let signature = self.used(&by, of, was_newest, |view| match signable {
            Signable::Message(message) if view.material.rsa_public().is_none() => {
                Ok(self.context.engine.sign(view.material.signing()?, message, &OsEntropy)?)
            }
            Signable::Message(_) | Signable::Digest { .. } => rsa::sign(&view.material, &signable),
        })?;
        Ok(SignOutput { by, signature })
    }

    /// Returns the requested version, or the newest one. It stays the same if the key is rotated
    /// meanwhile.
    pub(super) fn resolve_version(
        &self,
        id: &KeyId,
        what: Use,
        version: Option<u32>,
    ) -> Result<VersionId, Error> {
        let version = self.key(id)?.key.version_for(what, version)?;
        Ok(VersionId { key: id.clone(), version })
    }

    /// Returns the requested version, and what the key signs with it.
    pub(super) fn resolve_sign<'a>(
        &self,
        id: &KeyId,
        version: Option<u32>,
        signable: Signable<'a>,
    ) -> Result<(u32, Signable<'a>), Error> {
        let key = self.key(id)?.key;
        let number = key.version_for(Use::Sign, version)?;
        Ok((number, key.conforming(signable)?))
    }

    /// Returns a version if it may be used in this way now.
    pub(super) fn check_use(
        &self,
        id: &KeyId,
        number: u32,
        what: Use,
        was_newest: bool,
    ) -> Result<(KeyView, VersionView), Error> {
        let key = self.key(id)?;
        if matches!(what, Use::Sign | Use::Jwt | Use::Encrypt) && key.key.expires_ms.is_some() {
            key.key.check_not_expired(self.now_ms())?;
        }
        match key.key.version_for(what, Some(number)) {
            // It was the newest version when the request arrived, and a rotation withdraws nothing.
            Err(Error::NotAllowed { .. }) if was_newest && key.key.min_sign == 0 => {}
            allowed => drop(allowed?),
        }
        let version = self.version(id, number)?;
        version.version.check_enabled()?;
        Ok((key, version))
    }
}
