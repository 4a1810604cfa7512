//! The service's verbs for a caller who is known.

use std::collections::BTreeMap;
use std::sync::Arc;

use gabion_kms::Message;
use gabion_kms::model::{Key, KeyId, Label, Minimum, State, VersionId};
use gabion_kms::operations::{Attested, Kms, NewKey, Public, Signed};
use sha2_hmac::{Digest, Sha256};

use crate::problem::Problem;

/// Keys, and who may use them: whoever has the one token may do everything.
pub struct Verbs {
    kms: Arc<Kms>,
    /// The digest of the token, so that comparing tells nothing of the token itself.
    token: [u8; 32],
}

/// Whoever was authenticated.
pub struct Caller(());

/// A key, by its tenant and name.
pub struct KeyRef<'a> {
    pub tenant: &'a Label,
    pub name: &'a Label,
}

impl Verbs {
    pub fn new(kms: Arc<Kms>, token: &str) -> Self {
        Verbs { kms, token: Sha256::digest(token.as_bytes()).into() }
    }

    pub fn authenticate(&self, token: &str) -> Result<Caller, Problem> {
        match self.token == <[u8; 32]>::from(Sha256::digest(token.as_bytes())) {
            true => Ok(Caller(())),
            false => Err(Problem::unauthenticated("the token is not valid")),
        }
    }

    pub fn kms(&self) -> &Kms {
        &self.kms
    }

    pub fn create(&self, _: &Caller, new: &NewKey) -> Result<VersionId, Problem> {
        Ok(self.kms.create(new)?)
    }

    pub fn rotate(&self, _: &Caller, key: &KeyRef<'_>) -> Result<VersionId, Problem> {
        Ok(self.kms.rotate(&self.id(key)?)?)
    }

    pub fn show(&self, _: &Caller, key: &KeyRef<'_>) -> Result<Key, Problem> {
        Ok(self.kms.describe(&self.id(key)?)?)
    }

    pub fn publics(
        &self,
        _: &Caller,
        key: &KeyRef<'_>,
        after: u32,
        most: usize,
    ) -> Result<(KeyId, Vec<Public>), Problem> {
        let id = self.id(key)?;
        let publics = self.kms.publics(&id, after, most)?;
        Ok((id, publics))
    }

    pub fn list(
        &self,
        _: &Caller,
        tenant: &Label,
        after: Option<&Label>,
        most: usize,
    ) -> Result<Vec<(Label, KeyId)>, Problem> {
        Ok(self.kms.list(tenant, after, most)?)
    }

    pub fn set_minimum(
        &self,
        _: &Caller,
        key: &KeyRef<'_>,
        of: Minimum,
        version: u32,
    ) -> Result<(), Problem> {
        Ok(self.kms.set_minimum(&self.id(key)?, of, version)?)
    }

    pub fn set_labels(
        &self,
        _: &Caller,
        key: &KeyRef<'_>,
        labels: &BTreeMap<String, String>,
    ) -> Result<(), Problem> {
        Ok(self.kms.set_labels(&self.id(key)?, labels)?)
    }

    pub fn set_state(
        &self,
        _: &Caller,
        key: &KeyRef<'_>,
        version: u32,
        state: State,
    ) -> Result<(), Problem> {
        Ok(self.kms.set_state(&self.id(key)?, version, state)?)
    }

    pub fn trim(&self, _: &Caller, key: &KeyRef<'_>, before: u32) -> Result<(), Problem> {
        Ok(self.kms.trim(&self.id(key)?, before)?)
    }

    pub fn delete(&self, _: &Caller, key: &KeyRef<'_>) -> Result<(), Problem> {
        Ok(self.kms.delete(&self.id(key)?)?)
    }

    pub fn restore(&self, _: &Caller, key: &KeyRef<'_>) -> Result<(), Problem> {
        Ok(self.kms.restore(&self.id(key)?)?)
    }

    pub fn destroy(&self, _: &Caller, key: &KeyRef<'_>) -> Result<(), Problem> {
        Ok(self.kms.destroy(&self.id(key)?)?)
    }

    pub fn sign(
        &self,
        _: &Caller,
        key: &KeyRef<'_>,
        version: Option<u32>,
        message: Message<'_>,
    ) -> Result<Signed, Problem> {
        Ok(self.kms.sign(&self.id(key)?, version, message)?)
    }

    pub fn verify(
        &self,
        _: &Caller,
        key: &KeyRef<'_>,
        version: Option<u32>,
        message: Message<'_>,
        signature: &[u8],
    ) -> Result<(bool, VersionId), Problem> {
        let key = self.id(key)?;
        let version = match version {
            Some(version) => version,
            None => self.kms.describe(&key)?.latest,
        };
        let by = VersionId { key, version };
        Ok((self.kms.verify(&by, message, signature)?, by))
    }

    pub fn attest(&self, _: &Caller, key: &KeyRef<'_>, nonce: &str) -> Result<Attested, Problem> {
        Ok(self.kms.attest(&self.id(key)?, nonce)?)
    }

    fn id(&self, key: &KeyRef<'_>) -> Result<KeyId, Problem> {
        Ok(self.kms.find(key.tenant, key.name)?)
    }
}
