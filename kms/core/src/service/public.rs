//! Public information about keys, in pages, and operations that the server implements itself.

use super::lifecycle::{done, of};
use super::run::{Call, KeyRef, Service};
use super::sign_verify::with_items;
use crate::error::Error;
use crate::gate::{Action, Request};
use crate::model::{Key, KeyAlgorithm, KeyId, Label};
use crate::operations::Public;

impl Service {
    /// Describes a key without its versions, of which there may be many.
    ///
    /// # Errors
    /// Those of [`crate::operations::Kms::describe`]; the caller is not allowed; errors of the
    /// audit log.
    pub fn describe(&self, call: &Call<'_>, key: &KeyRef<'_>) -> Result<Key, Error> {
        let show = || self.kms.describe(&self.find(key)?);
        let audit_entry = |key: &Key| done(Some(key.id.to_string()));
        self.perform_use(call, &of(Action::Show, key), None, show, audit_entry, |_| Ok(()))
    }

    /// Returns a key's algorithm, for a server that needs it before it requests an action on
    /// `items` items. Fails if the caller may not do that action.
    ///
    /// # Errors
    /// A missing key; the caller is not allowed; errors of the audit log.
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

    /// Describes a key with at most `most` of its newest versions.
    ///
    /// # Errors
    /// Those of [`crate::operations::Kms::newest`]; the caller is not allowed; errors of the audit
    /// log.
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

    /// Returns at most `most` versions of a key after a number, with their public keys.
    ///
    /// # Errors
    /// Those of [`crate::operations::Kms::publics`]; the caller is not allowed; errors of the audit
    /// log.
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

    /// Returns the name of a key that a caller names by its id. This does not check whether the
    /// caller may see the key: the operation that uses the name does. The server must not reveal
    /// the name to the caller.
    ///
    /// # Errors
    /// A missing key; errors of the store. A destroyed key has no name: it is reported as missing
    /// unless the caller may see every key of its tenant.
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

    /// Runs an administrative operation of the server itself, such as sealing or making a backup.
    ///
    /// # Errors
    /// The caller is not allowed; errors of `run` and of the audit log.
    pub fn administer<T>(
        &self,
        call: &Call<'_>,
        action: Action,
        run: impl FnOnce() -> Result<T, Error>,
    ) -> Result<T, Error> {
        let request = Request { action, tenant: None, key: None, items: 1, makes: None };
        self.perform_change(call, &request, |_| run(), |_| None::<String>)
    }

    /// Completes an interrupted destruction of a key, by the key's id. Returns whether the key was
    /// destroyed. It has no name anymore, so callers that are limited to some names get
    /// `not_found`.
    ///
    /// # Errors
    /// The caller is not allowed; a missing key; errors of the store and of the audit log.
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
