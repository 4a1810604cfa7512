//! Verifying.

use gabion_engine::{Engine, Error as EngineError, Message, Size, VerifyKey};

use super::kms::Kms;
use super::metrics::Verb;
use super::rsa;
use crate::error::Error;
use crate::model::{Use, VersionId};
use crate::signable::Signable;

impl Kms {
    /// Verifies a signature of a version. Returns `false` for a wrong signature.
    ///
    /// # Errors
    /// [`Error::Malformed`] for bytes that cannot be a signature; a missing key or version; one
    /// that may not verify; a message that the algorithm does not support. For a digest: those of
    /// [`Self::sign`], except that labels restrict nothing.
    pub fn verify<'a>(
        &self,
        id: &VersionId,
        signable: impl Into<Signable<'a>>,
        signature: &[u8],
    ) -> Result<bool, Error> {
        let signable = signable.into();
        let verify = || {
            if let Signable::Message(message) = &signable {
                self.key(&id.key)?.key.check_mu(message)?;
            }
            self.is_signed(id, signable, signature)
        };
        self.counted(Verb::Verify, id.key.algorithm, verify)
    }

    /// Verifies a signature as part of an operation.
    pub(super) fn is_signed(
        &self,
        by: &VersionId,
        signable: Signable<'_>,
        signature: &[u8],
    ) -> Result<bool, Error> {
        self.used(by, Use::Verify, false, |view| match signable {
            Signable::Message(message) if view.material.rsa_public().is_none() => {
                verdict(&self.context.engine, view.material.verify()?, message, signature)
            }
            Signable::Message(_) | Signable::Digest { .. } => {
                rsa::verify(&view.material, &signable, signature)
            }
        })
    }
}

/// Verifies a signature with a key.
pub fn verdict(
    engine: &Engine,
    key: &VerifyKey,
    message: Message<'_>,
    signature: &[u8],
) -> Result<bool, Error> {
    check_form(key, signature)?;
    match engine.verify(key, message, signature) {
        Ok(()) => Ok(true),
        Err(EngineError::BadSignature) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Rejects bytes whose length is wrong for a signature.
pub fn check_form(key: &VerifyKey, signature: &[u8]) -> Result<(), Error> {
    check_len(key, signature.len())
}

/// Rejects a length that is wrong for a signature.
pub fn check_len(key: &VerifyKey, len: usize) -> Result<(), Error> {
    let algorithm = key.algorithm();
    let can_be = match algorithm.info().output {
        Size::Fixed(exact) => len == exact,
        Size::UpTo(_) | Size::OfKey(_) => (1..=key.signature_len_max()).contains(&len),
    };
    if can_be { Ok(()) } else { Err(Error::Malformed(algorithm.name())) }
}
