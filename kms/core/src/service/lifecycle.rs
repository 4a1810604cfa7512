//! Creating, changing and describing keys.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use super::run::{AuditEntry, Call, KeyRef, Service};
use crate::audit::{Change, Digest, Outcome, Setting};
use crate::error::Error;
use crate::gate::{Action, Request};
use crate::model::{Conformances, Key, KeyId, Label, Minimum, State, Version, VersionId};
use crate::operations::{KeyChange, Kms, NewKey, OwnKey, SignedAttestation, Terms};

/// A key and its versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyDetails {
    /// The key.
    pub key: Key,
    /// The versions that were not destroyed.
    pub versions: Vec<Version>,
}

/// The summary of a key in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySummary {
    /// The key's name.
    pub name: Label,
    /// The key's id.
    pub id: KeyId,
    /// The key's labels.
    pub labels: BTreeMap<String, String>,
}

/// A page of a list of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPage {
    /// The keys, in the order of their names.
    pub keys: Vec<KeySummary>,
    /// The name after which the next page begins. `None` on the last page.
    pub next: Option<Label>,
}

/// The approximate maximum size of the labels on a page of a list, in bytes.
const LABELS_BYTES_MAX: usize = 1 << 20;

impl Service {
    /// Creates a key.
    ///
    /// # Errors
    /// Those of [`crate::operations::Kms::create`]; the caller is not allowed; errors of the audit
    /// log. The other operations here add the same errors.
    pub fn create(&self, call: &Call<'_>, new: &NewKey) -> Result<VersionId, Error> {
        let key = KeyRef { tenant: &new.tenant, name: &new.name };
        let request = Request { makes: Some(new), ..of(Action::Create, &key) };
        self.perform_change(call, &request, |kms| kms.create(new), |id| Some(id.to_string()))
    }

    /// Creates a key that conforms to a standard.
    ///
    /// # Errors
    /// Those of [`crate::operations::Kms::create_conforming`].
    pub fn create_conforming(
        &self,
        call: &Call<'_>,
        new: &NewKey,
        to: &Conformances,
    ) -> Result<VersionId, Error> {
        self.create_on(call, new, &Terms { conformance: to.clone(), ..Terms::default() })
    }

    /// Creates a key with restrictions.
    ///
    /// # Errors
    /// Those of [`crate::operations::Kms::create_on`].
    pub fn create_on(
        &self,
        call: &Call<'_>,
        new: &NewKey,
        terms: &Terms,
    ) -> Result<VersionId, Error> {
        let key = KeyRef { tenant: &new.tenant, name: &new.name };
        let create = |kms: &Kms| kms.create_on(new, terms);
        // Policies decide by the new key's properties, because its name does not exist yet.
        let request = Request { makes: Some(new), ..of(Action::Create, &key) };
        self.perform_change(call, &request, create, |id| Some(id.to_string()))
    }

    /// Adds a version to a key.
    ///
    /// # Errors
    /// Those of [`crate::operations::Kms::rotate`].
    pub fn rotate(&self, call: &Call<'_>, key: &KeyRef<'_>) -> Result<VersionId, Error> {
        let rotate = |kms: &Kms| kms.rotate(&self.find(key)?);
        self.perform_change(call, &of(Action::Rotate, key), rotate, |id| Some(id.to_string()))
    }

    /// Applies several changes to a key, all or none. Returns the key's id.
    ///
    /// # Errors
    /// Those of [`crate::operations::Kms::configure`].
    pub fn configure(
        &self,
        call: &Call<'_>,
        key: &KeyRef<'_>,
        changes: &[KeyChange],
    ) -> Result<KeyId, Error> {
        let settings = changes.iter().filter_map(setting).collect();
        self.change_with_details(
            call,
            Action::Config,
            key,
            Change::Settings(settings),
            |kms, id| kms.configure(id, changes),
        )
    }

    /// Sets the oldest version that may be used for an operation.
    ///
    /// # Errors
    /// Those of [`crate::operations::Kms::set_minimum`].
    pub fn set_minimum(
        &self,
        call: &Call<'_>,
        key: &KeyRef<'_>,
        which: Minimum,
        version: u32,
    ) -> Result<(), Error> {
        self.configure(call, key, &[KeyChange::Minimum(which, version)]).map(drop)
    }

    /// Replaces a key's labels.
    ///
    /// # Errors
    /// Those of [`crate::operations::Kms::set_labels`].
    pub fn set_labels(
        &self,
        call: &Call<'_>,
        key: &KeyRef<'_>,
        labels: &BTreeMap<String, String>,
    ) -> Result<(), Error> {
        self.configure(call, key, &[KeyChange::Labels(labels.clone())]).map(drop)
    }

    /// Disables or enables a version.
    ///
    /// # Errors
    /// Those of [`crate::operations::Kms::set_state`].
    pub fn set_state(
        &self,
        call: &Call<'_>,
        key: &KeyRef<'_>,
        version: u32,
        state: State,
    ) -> Result<(), Error> {
        let action = match state {
            State::Enabled => Action::Enable,
            State::Disabled => Action::Disable,
        };
        self.change_with_details(call, action, key, Change::Version(version), |kms, id| {
            kms.set_state(id, version, state)
        })
        .map(drop)
    }

    /// Destroys the versions before `before`. Returns the key's id.
    ///
    /// # Errors
    /// Those of [`crate::operations::Kms::trim`].
    pub fn trim(&self, call: &Call<'_>, key: &KeyRef<'_>, before: u32) -> Result<KeyId, Error> {
        self.change_with_details(
            call,
            Action::Trim,
            key,
            Change::TrimmedBefore(before),
            |kms, id| kms.trim(id, before),
        )
    }

    /// Deletes a key.
    ///
    /// # Errors
    /// Those of [`crate::operations::Kms::delete`].
    pub fn delete(&self, call: &Call<'_>, key: &KeyRef<'_>) -> Result<(), Error> {
        self.change(call, Action::Delete, key, |kms, id| kms.delete(id)).map(drop)
    }

    /// Restores a deleted key. Returns the key's id.
    ///
    /// # Errors
    /// Those of [`crate::operations::Kms::restore`].
    pub fn restore(&self, call: &Call<'_>, key: &KeyRef<'_>) -> Result<KeyId, Error> {
        self.change(call, Action::Restore, key, |kms, id| kms.restore(id))
    }

    /// Destroys a deleted key. Returns its id, because its name becomes free.
    ///
    /// # Errors
    /// Those of [`crate::operations::Kms::destroy`].
    pub fn destroy(&self, call: &Call<'_>, key: &KeyRef<'_>) -> Result<KeyId, Error> {
        let destroy = |kms: &Kms| {
            let id = self.find(key)?;
            kms.destroy(&id).map(|()| id)
        };
        self.perform_change(call, &of(Action::Destroy, key), destroy, |id| Some(id.to_string()))
    }

    /// Describes a key and its versions.
    ///
    /// # Errors
    /// Those of [`crate::operations::Kms::describe`].
    pub fn show(&self, call: &Call<'_>, key: &KeyRef<'_>) -> Result<KeyDetails, Error> {
        let show = || {
            let id = self.find(key)?;
            Ok(KeyDetails { key: self.kms.describe(&id)?, versions: self.kms.versions(&id)? })
        };
        let audit_entry = |shown: &KeyDetails| done(Some(shown.key.id.to_string()));
        self.perform_use(call, &of(Action::Show, key), None, show, audit_entry, |_| Ok(()))
    }

    /// Lists the keys of a tenant with a name prefix that the caller may see, in the order of their
    /// names: at most `most` after a name.
    ///
    /// # Errors
    /// Those of [`crate::operations::Kms::list`].
    pub fn list(
        &self,
        call: &Call<'_>,
        tenant: &Label,
        prefix: &str,
        after: Option<&Label>,
        most: usize,
    ) -> Result<Vec<(Label, KeyId)>, Error> {
        let mut keys = Vec::new();
        let walk = (tenant, prefix, after);
        self.visit_listed(call, walk, most, |name, id| {
            keys.push((name, id));
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(keys)
    }

    /// Lists keys like [`Self::list`], with their labels. A page has fewer than `most` keys if
    /// their labels take more than 1 MiB.
    ///
    /// # Errors
    /// Those of [`Self::list`].
    pub fn list_labelled(
        &self,
        call: &Call<'_>,
        tenant: &Label,
        prefix: &str,
        after: Option<&Label>,
        most: usize,
    ) -> Result<KeyPage, Error> {
        let (mut keys, mut bytes): (Vec<KeySummary>, usize) = (Vec::new(), 0);
        let walk = (tenant, prefix, after);
        let is_cut = self.visit_listed(call, walk, most, |name, id| {
            let labels = match self.kms.describe(&id) {
                Ok(key) => key.labels,
                // The key was destroyed meanwhile, and is listed without labels.
                Err(Error::Destroyed) => BTreeMap::new(),
                Err(error) => return Err(error),
            };
            bytes += labels.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
            keys.push(KeySummary { name, id, labels });
            Ok(match bytes > LABELS_BYTES_MAX {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            })
        })?;
        let next = keys.last().filter(|_| is_cut).map(|last| last.name.clone());
        Ok(KeyPage { keys, next })
    }

    /// Visits at most `most` keys that the caller may see. Returns whether it stopped before the
    /// end of the names.
    fn visit_listed(
        &self,
        call: &Call<'_>,
        (tenant, prefix, after): (&Label, &str, Option<&Label>),
        most: usize,
        mut visit: impl FnMut(Label, KeyId) -> Result<ControlFlow<()>, Error>,
    ) -> Result<bool, Error> {
        let request = Request {
            action: Action::List,
            tenant: Some(tenant),
            key: Some(prefix),
            items: 1,
            makes: None,
        };
        let list = || {
            let (mut seen, mut is_cut) = (0, most == 0);
            if is_cut {
                return Ok(true);
            }
            let now_ms = self.kms.now_ms();
            let read = self.kms.walk_names(tenant, prefix, after, |name, id| {
                if !self.gate.may_see(&self.kms, call.who, tenant, name.as_str(), now_ms) {
                    return Ok(ControlFlow::Continue(()));
                }
                seen += 1;
                let next = visit(name, id)?;
                is_cut = seen == most || next.is_break();
                Ok(if is_cut { ControlFlow::Break(()) } else { next })
            })?;
            self.owe(call, tenant, read);
            Ok(is_cut)
        };
        self.perform_use(call, &request, None, list, |_| done(None), |_| Ok(()))
    }

    /// Describes a key and signs the description.
    ///
    /// # Errors
    /// Those of [`crate::operations::Kms::attest`].
    pub fn attest(
        &self,
        call: &Call<'_>,
        key: &KeyRef<'_>,
        nonce: &str,
    ) -> Result<SignedAttestation, Error> {
        let attest = || {
            let id = self.find(key)?;
            self.make_own(OwnKey::Attestation)?;
            self.kms.attest(&id, nonce)
        };
        let audit_entry = |attested: &SignedAttestation| AuditEntry {
            output: Some(Digest::of(attested.jws.as_bytes())),
            ..done(Some(attested.attest.key.to_string()))
        };
        let input = Some(Digest::of(nonce.as_bytes()));
        self.perform_use(call, &of(Action::Attest, key), input, attest, audit_entry, |_| Ok(()))
    }

    fn change(
        &self,
        call: &Call<'_>,
        action: Action,
        key: &KeyRef<'_>,
        change: impl FnOnce(&Kms, &KeyId) -> Result<(), Error>,
    ) -> Result<KeyId, Error> {
        let change = |kms: &Kms| {
            let id = self.find(key)?;
            change(kms, &id).map(|()| id)
        };
        self.perform_change(call, &of(action, key), change, |id| Some(id.to_string()))
    }

    /// Runs a change whose audit record has details in addition to its action.
    pub(super) fn change_with_details(
        &self,
        call: &Call<'_>,
        action: Action,
        key: &KeyRef<'_>,
        to: Change,
        change: impl FnOnce(&Kms, &KeyId) -> Result<(), Error>,
    ) -> Result<KeyId, Error> {
        let change = |kms: &Kms| {
            let id = self.find(key)?;
            change(kms, &id).map(|()| id)
        };
        self.perform_change(call, &of(action, key), change, |id| (id.to_string(), to))
    }
}

/// Returns the audit record's form of a change that may remove permissions.
fn setting(change: &KeyChange) -> Option<Setting> {
    match change {
        KeyChange::Minimum(Minimum::Sign, version) => Some(Setting::MinSign(*version)),
        KeyChange::Minimum(Minimum::Verify, version) => Some(Setting::MinVerify(*version)),
        KeyChange::Minimum(Minimum::Decrypt, version) => Some(Setting::MinDecrypt(*version)),
        KeyChange::Labels(_) => Some(Setting::Labels),
        KeyChange::Expiry(expires_ms) => Some(Setting::ExpiresMs(*expires_ms)),
        KeyChange::RequireMu => Some(Setting::MuRequired),
        KeyChange::LimitJwt(lifetime_s) => Some(Setting::JwtMaxLifetimeS(*lifetime_s)),
        KeyChange::Deletable(is_deletable) => Some(Setting::Deletable(*is_deletable)),
        KeyChange::Durable(_) | KeyChange::Exportable | KeyChange::Rotation(_) => None,
    }
}

/// Returns a request about one key.
pub(super) fn of<'a>(action: Action, key: &KeyRef<'a>) -> Request<'a> {
    Request {
        action,
        tenant: Some(key.tenant),
        key: Some(key.name.as_str()),
        items: 1,
        makes: None,
    }
}

/// Returns the audit entry of a successful operation without digests.
pub(super) fn done(key: Option<String>) -> AuditEntry {
    AuditEntry { key, input: None, output: None, outcome: Outcome::Done }
}
