//! Lists a tenant's public keys, for clients that verify without the service.

use std::ops::ControlFlow;
use std::time::Instant;

use super::lifecycle::{done, of};
use super::run::{Call, KeyRef, Service};
use crate::error::Error;
use crate::gate::{Action, Method, Request};
use crate::model::{Capability, KeyAlgorithm, KeyId, Label, State, VersionId};

/// The public key of a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyingKey {
    /// The key's name.
    pub name: Label,
    /// The version.
    pub by: VersionId,
    /// The public key, in the encoding of its standard.
    pub bytes: Vec<u8>,
}

/// A query for the public keys of a tenant.
#[derive(Clone, Copy)]
pub struct VerifyingKeys<'a> {
    /// The tenant.
    pub tenant: &'a Label,
    /// The prefix of the keys' names.
    pub prefix: &'a str,
    /// The only key to return, instead of those with the prefix.
    pub name: Option<&'a Label>,
    /// Returns whether keys of an algorithm are wanted.
    pub is_wanted: &'a dyn Fn(KeyAlgorithm) -> bool,
    /// The name and the version after which to begin.
    pub after: Option<(&'a Label, u32)>,
    /// The maximum number of keys, up to [`VERIFYING_KEYS_MAX`]. `None`: return all keys, and fail
    /// if there are more than that.
    pub most: Option<usize>,
}

/// The maximum number of public keys in one answer.
pub const VERIFYING_KEYS_MAX: usize = 1000;

/// The number of versions of a key that are read at once.
const READ_TOGETHER: usize = 100;

/// The approximate cost of reading a record, in microseconds.
const READ_US: u64 = 20;

impl Service {
    /// Returns the public keys that verify a tenant's signatures, in the order of names and
    /// versions, and whether there are more. Only versions that may verify, of keys that the caller
    /// may see, are included.
    ///
    /// # Errors
    /// The caller is not allowed; there are more than [`VERIFYING_KEYS_MAX`] keys and all are
    /// wanted; errors of the store and of the audit log.
    pub fn verifying_keys(
        &self,
        call: &Call<'_>,
        wanted: &VerifyingKeys<'_>,
    ) -> Result<(Vec<VerifyingKey>, bool), Error> {
        let VerifyingKeys { tenant, prefix, name, after, .. } = *wanted;
        let request = Request {
            action: Action::List,
            tenant: Some(tenant),
            key: Some(name.map_or(prefix, Label::as_str)),
            items: 1,
            makes: None,
        };
        let most = wanted.most.map_or(VERIFYING_KEYS_MAX, |most| most.min(VERIFYING_KEYS_MAX));
        let read = || {
            let mut found = Vec::new();
            // The key at which the last page ended may have more versions.
            let begun = after.filter(|(after, _)| match name {
                Some(name) => name == *after,
                None => after.as_str().starts_with(prefix),
            });
            for (name, after) in
                begun.into_iter().chain(name.map(|name| (name, 0)).filter(|_| begun.is_none()))
            {
                match self.kms.find(tenant, name) {
                    Ok(id) => {
                        self.verifying_keys_of(call, wanted, (name, &id, after), most, &mut found)?
                    }
                    Err(Error::NoKey(_) | Error::Destroyed) => {}
                    Err(error) => return Err(error),
                }
            }
            let mut names = 0;
            if name.is_none() && found.len() <= most {
                let after = after.map(|(name, _)| name);
                names = self.kms.walk_names(tenant, prefix, after, |name, id| {
                    self.verifying_keys_of(call, wanted, (&name, &id, 0), most, &mut found)?;
                    Ok(match found.len() > most {
                        true => ControlFlow::Break(()),
                        false => ControlFlow::Continue(()),
                    })
                })?;
            }
            self.owe(call, tenant, names + found.len() as u64);
            let are_more = found.len() > most;
            if are_more && wanted.most.is_none() {
                let (what, got) = ("public keys of one tenant", found.len());
                return Err(Error::TooLarge { what, most, got });
            }
            found.truncate(most);
            Ok((found, are_more))
        };
        self.perform_use(call, &request, None, read, |_| done(None), |_| Ok(()))
    }

    /// Charges a tenant for the records that were read. Their number is not known in advance, so
    /// the tenant may get into debt.
    pub(super) fn owe(&self, call: &Call<'_>, tenant: &Label, records: u64) {
        if call.who.method() != Method::Local {
            let _ = self.quota.take(Some(tenant), READ_US * records, Instant::now);
        }
    }

    /// Adds the public keys of one key's versions after a number, until there is one more than
    /// `most` in total.
    fn verifying_keys_of(
        &self,
        call: &Call<'_>,
        wanted: &VerifyingKeys<'_>,
        (name, id, after): (&Label, &KeyId, u32),
        most: usize,
        found: &mut Vec<VerifyingKey>,
    ) -> Result<(), Error> {
        let show = of(Action::Show, &KeyRef { tenant: wanted.tenant, name });
        let signs = matches!(id.algorithm.does(), Capability::Sign | Capability::SignAndEncrypt);
        let is_wanted = signs && (wanted.is_wanted)(id.algorithm);
        if found.len() > most || !is_wanted || self.check_allowed(call, &show).is_err() {
            return Ok(());
        }
        let key = self.kms.describe(id)?;
        if key.deleted_ms.is_some() {
            return Ok(());
        }
        let mut after = after.max(key.min_verify.max(1) - 1);
        loop {
            let page = self.kms.publics(id, after, READ_TOGETHER)?;
            let Some(last) = page.last() else { return Ok(()) };
            after = last.version.version;
            for public in page.into_iter().filter(|of| of.version.state == State::Enabled) {
                if found.len() > most {
                    return Ok(());
                }
                let by = VersionId { key: id.clone(), version: public.version.version };
                found.push(VerifyingKey { name: name.clone(), by, bytes: public.bytes });
            }
        }
    }
}
