//! What of keys is public, a page at a time, and what a front does itself.

use super::lifecycle::{done, of};
use super::run::{Call, KeyRef, Service};
use super::sign_verify::with_items;
use crate::error::Error;
use crate::gate::{Action, Request};
use crate::model::{Key, KeyAlgorithm, KeyId, Label};
use crate::operations::Public;

impl Service {
    /// What a key is, without its versions, of which there may be many.
    ///
    /// # Errors
    /// As [`crate::operations::Kms::describe`]; not allowed; the audit log's.
    pub fn describe(&self, call: &Call<'_>, key: &KeyRef<'_>) -> Result<Key, Error> {
        let show = || self.kms.describe(&self.find(key)?);
        let audit_entry = |key: &Key| done(Some(key.id.to_string()));
        self.perform_use(call, &of(Action::Show, key), None, show, audit_entry, |_| Ok(()))
    }

    /// What algorithm a key is of, for a front that has to know it before it asks for an action on so many items. Who may not
    /// do that does not learn it.
    ///
    /// # Errors
    /// No such key; not allowed; the audit log's.
    pub fn algorithm(
        &self,
        call: &Call<'_>,
        action: Action,
        key: &KeyRef<'_>,
        items: usize,
    ) -> Result<KeyAlgorithm, Error> {
        self.authorize(call, &with_items(items, of(action, key)), None)?;
        Ok(self.find(key)?.algorithm)
    }

    /// Describes a key with its newest versions, at most `most` of them.
    ///
    /// # Errors
    /// As [`crate::operations::Kms::newest`]; not allowed; the audit log's.
    pub fn newest(
        &self,
        call: &Call<'_>,
        key: &KeyRef<'_>,
        most: u32,
    ) -> Result<(Key, Vec<Public>), Error> {
        let show = || self.kms.newest(&self.find(key)?, most);
        let audit_entry = |(key, _): &(Key, Vec<Public>)| done(Some(key.id.to_string()));
        self.perform_use(call, &of(Action::Show, key), None, show, audit_entry, |_| Ok(()))
    }

    /// Versions of a key with their public keys, at most `most` that come after a number.
    ///
    /// # Errors
    /// As [`crate::operations::Kms::publics`]; not allowed; the audit log's.
    pub fn publics(
        &self,
        call: &Call<'_>,
        key: &KeyRef<'_>,
        after: u32,
        most: usize,
    ) -> Result<(KeyId, Vec<Public>), Error> {
        let show = || {
            let id = self.find(key)?;
            let publics = self.kms.publics(&id, after, most)?;
            Ok((id, publics))
        };
        let audit_entry = |(id, _): &(KeyId, Vec<Public>)| done(Some(id.to_string()));
        self.perform_use(call, &of(Action::Show, key), None, show, audit_entry, |_| Ok(()))
    }

    /// The name of a key that a caller names by its id. Whether they may see the key says each verb that the name is for; a
    /// front tells them of the id alone, which they have already.
    ///
    /// # Errors
    /// No such key; the store's. One that was destroyed has no name any more: whoever may not see every key of its tenant
    /// hears that there is none.
    pub fn named(&self, call: &Call<'_>, id: &KeyId) -> Result<Label, Error> {
        match self.kms.describe(id) {
            Ok(key) => Ok(key.name),
            Err(Error::Destroyed) => {
                let tenant = Some(&id.tenant);
                let list =
                    Request { action: Action::List, tenant, key: Some(""), items: 1, makes: None };
                let seen = self.check_allowed(call, &list);
                Err(if seen.is_ok() { Error::Destroyed } else { Error::NoKey(id.to_string()) })
            }
            Err(error) => Err(error),
        }
    }

    /// Runs something of administration that the front does: closing the seal, making a copy.
    ///
    /// # Errors
    /// Not allowed; what `run` says; the audit log's.
    pub fn administer<T>(
        &self,
        call: &Call<'_>,
        action: Action,
        run: impl FnOnce() -> Result<T, Error>,
    ) -> Result<T, Error> {
        let request = Request { action, tenant: None, key: None, items: 1, makes: None };
        self.perform_change(call, &request, |_| run(), |_| None::<String>)
    }

    /// Goes on where the destroying of a key was interrupted, by its id; whether it was destroyed. It has no name any more:
    /// whoever may see or destroy keys of some names alone hears of none.
    ///
    /// # Errors
    /// Not allowed; no such key; the store's; the audit log's.
    pub fn destroy_on(&self, call: &Call<'_>, id: &KeyId) -> Result<bool, Error> {
        if !self.kms.is_destroyed(id)? {
            return Ok(false);
        }
        let about = |action, key| {
            let tenant = Some(&id.tenant);
            Request { action, tenant, key, items: 1, makes: None }
        };
        if self.check_allowed(call, &about(Action::List, Some(""))).is_err() {
            return Err(Error::NoKey(id.to_string()));
        }
        let request = about(Action::Destroy, None);
        self.perform_change(
            call,
            &request,
            |kms| kms.resume_destruction(id),
            |()| Some(id.to_string()),
        )?;
        Ok(true)
    }
}
