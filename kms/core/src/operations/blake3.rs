//! Signing of BLAKE3 digests, a form that no signature standard defines.

use gabion_engine::Message;

use super::kms::Kms;
use super::sign::SignOutput;
use crate::error::Error;
use crate::model::{KeyId, VersionId};

/// The prefix of a digest when it is signed. It separates the signature from one of the digest's
/// bytes.
const TAG: &[u8; 24] = b"gabion-kms blake3 v1\0\0\0\0";

/// A BLAKE3 digest of 32 bytes that the caller computed, so that a long message need not be sent.
///
/// The signature is over a tag of 24 bytes and the digest, in the algorithm's pure form with an
/// empty context. **No standard defines this form**: verifiers have to be told by [`Self::LABEL`].
/// FIPS 204, section 5.4, and FIPS 205, section 10.2, define pre-hash forms for SHA-2 and SHA-3
/// digests, which other software verifies. Prefer those where interoperability matters.
///
/// # Examples
/// ```
/// use gabion_kms::model::Label;
/// use gabion_kms::operations::{Blake3, Kms, NewKey};
///
/// let kms = Kms::in_memory()?;
/// let [tenant, purpose, name] = ["default", "transit", "images"].map(|text| Label::new("key", text));
/// let (tenant, purpose, name, algorithm) = (tenant?, purpose?, name?, "ed25519".parse()?);
/// let id = kms.create(&NewKey { tenant, purpose, name, algorithm })?;
/// // In place of blake3::hash(image).
/// let digest = Blake3::new([0xaf; 32]);
/// let signed = kms.sign_blake3(&id.key, None, &digest)?;
/// assert!(kms.verify_blake3(&signed.by, &digest, &signed.signature)?);
/// # Ok::<(), gabion_kms::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blake3 {
    text: [u8; TAG.len() + 32],
}

impl Blake3 {
    /// The label to store with signatures of this form.
    pub const LABEL: &str = "nonstandard-blake3";

    /// Wraps a digest.
    pub fn new(digest: [u8; 32]) -> Self {
        let mut text = [0; TAG.len() + 32];
        text[..TAG.len()].copy_from_slice(TAG);
        text[TAG.len()..].copy_from_slice(&digest);
        Blake3 { text }
    }

    fn message(&self) -> Message<'_> {
        Message::Pure { context: b"", message: &self.text }
    }
}

impl Kms {
    /// Signs a digest with a version, or with the newest one.
    ///
    /// # Errors
    /// Those of [`Self::sign`]; [`Error::Unsupported`] if the key's conformance labels require
    /// standard forms.
    pub fn sign_blake3(
        &self,
        id: &KeyId,
        version: Option<u32>,
        digest: &Blake3,
    ) -> Result<SignOutput, Error> {
        self.key(id)?.key.check_form(Blake3::LABEL)?;
        self.sign(id, version, digest.message())
    }

    /// Verifies a version's signature of a digest.
    ///
    /// # Errors
    /// Those of [`Self::verify`].
    pub fn verify_blake3(
        &self,
        id: &VersionId,
        digest: &Blake3,
        signature: &[u8],
    ) -> Result<bool, Error> {
        self.verify(id, digest.message(), signature)
    }
}
