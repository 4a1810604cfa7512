//! Public keys of a tenant, for whoever verifies without the service.

use std::time::Instant;

use super::changes::{done, of};
use super::run::{Call, KeyRef, Service};
use crate::error::Error;
use crate::gate::{Action, Request};
use crate::model::{Does, KeyId, Label, State, VersionId};

/// A version's public key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyingKey {
    /// Which version.
    pub by: VersionId,
    /// Its bytes, as its standard has them.
    pub bytes: Vec<u8>,
}

/// Most public keys of one answer.
const KEYS_MAX: usize = 1000;

/// Keys, or versions of one, that are read together.
const READ_TOGETHER: usize = 100;

/// Microseconds of a public key that is read, about.
const READ_US: u64 = 20;

impl Service {
    /// The public keys that verify a tenant's signatures: of versions that may verify, of keys that the caller may see.
    ///
    /// # Errors
    /// Not allowed; more than 1000 of them; the store's; the audit log's.
    pub fn verifying_keys(
        &self,
        call: &Call<'_>,
        tenant: &Label,
    ) -> Result<Vec<VerifyingKey>, Error> {
        let request = Request {
            action: Action::List,
            tenant: Some(tenant),
            key: Some(""),
            items: 1,
            makes: None,
        };
        let read = || {
            let (mut found, mut after) = (Vec::new(), None);
            loop {
                let page = self.kms.list(tenant, after.as_ref(), READ_TOGETHER)?;
                let Some((last, _)) = page.last() else { break };
                after = Some(last.clone());
                for (name, id) in &page {
                    let show = of(Action::Show, &KeyRef { tenant, name });
                    if id.algorithm.does() == Does::Sign && self.allowed(call, &show).is_ok() {
                        self.verifying_keys_of(id, &mut found)?;
                    }
                }
            }
            // Nobody knows before how many there are: that is owed.
            let _ = self.quota.take(Some(tenant), READ_US * found.len() as u64, Instant::now);
            Ok(found)
        };
        self.used(call, &request, None, read, |_| done(None), |_| Ok(()))
    }

    fn verifying_keys_of(&self, id: &KeyId, found: &mut Vec<VerifyingKey>) -> Result<(), Error> {
        let key = self.kms.describe(id)?;
        if key.deleted_ms.is_some() {
            return Ok(());
        }
        let mut after = key.min_verify.max(1) - 1;
        loop {
            let page = self.kms.publics(id, after, READ_TOGETHER)?;
            let Some(last) = page.last() else { return Ok(()) };
            after = last.version.version;
            for public in page.into_iter().filter(|of| of.version.state == State::Enabled) {
                if found.len() == KEYS_MAX {
                    let (what, most) = ("public keys of one tenant", KEYS_MAX);
                    return Err(Error::TooLarge { what, most, got: most + 1 });
                }
                let by = VersionId { key: id.clone(), version: public.version.version };
                found.push(VerifyingKey { by, bytes: public.bytes });
            }
        }
    }
}
