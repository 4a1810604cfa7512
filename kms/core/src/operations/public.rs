//! The public part of versions.

use gabion_engine::VerifyKey;
use gabion_engine::key_file::{self, FileForm};

use super::kms::Kms;
use super::records::{read_public, version_path, versions_path};
use crate::error::Error;
use crate::model::{Key, KeyId, Version, VersionId};
use crate::rsa;

/// A version, and its public key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Public {
    /// The version.
    pub version: Version,
    /// The public key, in its standard's encoding. Empty for a symmetric key.
    pub bytes: Vec<u8>,
}

impl Public {
    /// Returns the public key as a SubjectPublicKeyInfo in PEM; `None` if no standard defines that
    /// for the algorithm.
    pub fn pem(&self, of: &KeyId) -> Option<String> {
        if of.algorithm.rsa().is_some() {
            return rsa::PublicKey::of_pkcs1(&self.bytes).ok()?.pem().ok();
        }
        let form = FileForm::of(of.algorithm.algorithm()?)?;
        String::from_utf8(key_file::encode_public(form, &self.bytes, false).ok()?).ok()
    }
}

impl Kms {
    /// Returns at most `most` versions of a key after a number, in their order, without destroyed
    /// ones.
    ///
    /// # Errors
    /// A missing key; errors of the store.
    pub fn publics(&self, id: &KeyId, after: u32, most: usize) -> Result<Vec<Public>, Error> {
        self.key(id)?;
        let (under, mut after) = (versions_path(id)?, version_path(id, after)?);
        let mut found = Vec::new();
        while found.len() < most {
            let page = self.context.store.list(&under, Some(&after), most - found.len())?;
            let Some((last, _)) = page.records.last() else { break };
            after = last.clone();
            for (path, record) in &page.records {
                let Some(value) = &record.value else { continue };
                let bytes = self.context.sealer.open(path, record.generation, value)?;
                let (version, public) = read_public(path, &bytes)?;
                found.push(Public { version, bytes: public });
            }
        }
        Ok(found)
    }

    /// Describes a key with at most `most` of its newest versions that may verify or decrypt, in
    /// their order.
    ///
    /// # Errors
    /// A missing key; errors of the store.
    pub fn newest(&self, id: &KeyId, most: u32) -> Result<(Key, Vec<Public>), Error> {
        let key = self.describe(id)?;
        let oldest = key.min_verify.max(key.min_available);
        let after = (oldest - 1).max(key.latest.saturating_sub(most));
        let publics = self.publics(id, after, most as usize)?;
        Ok((key, publics))
    }

    /// Returns the public key of a version.
    ///
    /// # Errors
    /// A missing key or version; one that does not sign; errors of the store.
    pub fn public(&self, id: &VersionId) -> Result<VerifyKey, Error> {
        self.key(&id.key)?.key.existing(id.version)?;
        Ok(self.version(&id.key, id.version)?.material.verify()?.clone())
    }
}
