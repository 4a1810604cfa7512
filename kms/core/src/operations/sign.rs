//! Signing.

use gabion_engine::{Message, OsEntropy};

use super::cache::{KeyView, VersionView};
use super::kms::Kms;
use super::material::Material;
use super::metrics::Verb;
use crate::error::Error;
use crate::model::{KeyId, Use, VersionId};
use crate::rsa::{self, Scheme};

/// A signature, and the version that made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignOutput {
    /// The version.
    pub by: VersionId,
    /// The signature.
    pub signature: Vec<u8>,
}

/// What is signed.
#[derive(Clone, Copy)]
pub enum Signable<'a> {
    /// A message. RSA signs it as it does where nothing is said.
    Message(Message<'a>),
    /// A digest, by RSA.
    Rsa(Scheme, &'a [u8]),
}

impl Kms {
    /// Signs with a version, or with the newest one.
    ///
    /// # Errors
    /// No such key or version; one that may not sign; a message that the algorithm does not take.
    pub fn sign(
        &self,
        id: &KeyId,
        version: Option<u32>,
        message: Message<'_>,
    ) -> Result<SignOutput, Error> {
        self.counted(Verb::Sign, id.algorithm, || {
            let number = self.resolve_version_for(id, version, &message)?;
            let by = VersionId { key: id.clone(), version: number };
            self.sign_version(by, version.is_none(), (Use::Sign, Signable::Message(message)))
        })
    }

    /// Signs with a version, within another verb.
    pub(super) fn sign_version(
        &self,
        by: VersionId,
        was_newest: bool,
        (of, what): (Use, Signable<'_>),
    ) -> Result<SignOutput, Error> {
        let signature = self.used(&by, of, was_newest, |view| match what {
            Signable::Rsa(scheme, digest) => {
                view.material.rsa_private()?.sign_digest(scheme, digest)
            }
            Signable::Message(message) if view.material.rsa_public().is_some() => {
                rsa_signed(&view.material, &message)
            }
            Signable::Message(message) => {
                Ok(self.kept.engine.sign(view.material.signing()?, message, &OsEntropy)?)
            }
        })?;
        Ok(SignOutput { by, signature })
    }

    /// Returns the requested version, or the newest one. It stays the same if the key is rotated meanwhile.
    pub(super) fn resolve_version(
        &self,
        id: &KeyId,
        what: Use,
        version: Option<u32>,
    ) -> Result<VersionId, Error> {
        let version = self.key(id)?.key.version_for(what, version)?;
        Ok(VersionId { key: id.clone(), version })
    }

    /// Returns the requested version, and checks that its algorithm takes the message.
    pub(super) fn resolve_version_for(
        &self,
        id: &KeyId,
        version: Option<u32>,
        message: &Message<'_>,
    ) -> Result<u32, Error> {
        let key = self.key(id)?.key;
        let number = key.version_for(Use::Sign, version)?;
        key.check_message(message)?;
        Ok(number)
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
            // It was the newest when the request came, and a rotation withdraws nothing.
            Err(Error::NotAllowed { .. }) if was_newest && key.key.min_sign == 0 => {}
            allowed => drop(allowed?),
        }
        let version = self.version(id, number)?;
        version.version.check_enabled()?;
        Ok((key, version))
    }
}

/// Signs by RSA as it does where nothing is said.
pub fn rsa_signed(material: &Material, message: &Message<'_>) -> Result<Vec<u8>, Error> {
    let (scheme, digest) = rsa::usual(message)?;
    material.rsa_private()?.sign_digest(scheme, &digest)
}
