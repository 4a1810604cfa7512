//! RSA: signatures by PSS and PKCS#1 v1.5, and encryption by OAEP (RFC 8017).
//!
//! Where nothing is said, a signature is PSS with a salt as long as the digest, and OAEP's hash is SHA-256; what stands beside
//! a plaintext is OAEP's label.

use super::kms::Kms;
use super::metrics::Verb;
use super::sign::{SignOutput, Signable};
use crate::error::Error;
use crate::model::{KeyId, Use, VersionId};
use crate::rsa::Scheme;

impl Kms {
    /// Signs a digest by RSA in a way that is said.
    ///
    /// # Errors
    /// As [`Self::sign`]; a key that is none of RSA; a digest of another length than its hash makes; a salt that is too long, for the
    /// key or its labels. If the labels limit the salt and `scheme` names no length, the salt is as long as the digest.
    pub fn sign_rsa(
        &self,
        id: &KeyId,
        version: Option<u32>,
        scheme: Scheme,
        digest: &[u8],
    ) -> Result<SignOutput, Error> {
        self.counted(Verb::Sign, id.algorithm, || {
            let by = self.resolve_version(id, Use::Sign, version)?;
            let scheme = self.key(id)?.key.conforming_scheme(scheme)?;
            self.sign_version(by, version.is_none(), (Use::Sign, Signable::Rsa(scheme, digest)))
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
        let verify = || self.is_signed(id, Signable::Rsa(scheme, digest), signature);
        self.counted(Verb::Verify, id.key.algorithm, verify)
    }
}
