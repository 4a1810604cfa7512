//! Digests that the caller made by BLAKE3, which no standard of signatures takes.

use gabion_engine::Message;

use super::kms::Kms;
use super::sign::SignOutput;
use crate::error::Error;
use crate::model::{KeyId, VersionId};

/// What stands before a digest when it is signed, so that its signature is no signature of the digest's bytes alone.
const TAG: &[u8; 24] = b"gabion-kms blake3 v1\0\0\0\0";

/// A digest by BLAKE3 of 32 bytes, which the caller made: a long message is read once, and its bytes stay where they are.
///
/// What is signed is a tag of 24 bytes and the digest, in the algorithm's pure form with no context. **No standard
/// has that**: whoever verifies must be told, by [`Self::LABEL`]. FIPS 204, section 5.4, and FIPS 205, section 10.2, have
/// forms of their own for digests, by SHA-2 and SHA-3, which others verify: take those where that matters.
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
    /// What to write beside a signature of such a digest.
    pub const LABEL: &str = "nonstandard-blake3";

    /// The form in which a digest is signed.
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
    /// As [`Self::sign`]; [`Error::Unsupported`] for a key whose labels of conformance ask for standard forms.
    pub fn sign_blake3(
        &self,
        id: &KeyId,
        version: Option<u32>,
        digest: &Blake3,
    ) -> Result<SignOutput, Error> {
        self.key(id)?.key.check_form(Blake3::LABEL)?;
        self.sign(id, version, digest.message())
    }

    /// Whether a signature is that version's of a digest.
    ///
    /// # Errors
    /// As [`Self::verify`].
    pub fn verify_blake3(
        &self,
        id: &VersionId,
        digest: &Blake3,
        signature: &[u8],
    ) -> Result<bool, Error> {
        self.verify(id, digest.message(), signature)
    }
}
