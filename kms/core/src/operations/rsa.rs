//! RSA: signatures by PSS and PKCS#1 v1.5, and encryption by OAEP (RFC 8017).
//!
//! Where nothing is said, a signature is PSS with a salt as long as the digest, and OAEP's hash is SHA-256; what stands beside
//! a plaintext is OAEP's label.

use super::kms::Kms;
use super::metrics::Verb;
use super::sign::Signed;
use crate::error::Error;
use crate::model::{KeyId, Use, VersionId};
use crate::rsa::{Scheme, no_rsa, verified};

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
