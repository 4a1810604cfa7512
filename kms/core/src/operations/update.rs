//! Changes of keys and versions that create no new versions.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use super::cache::KeyView;
use super::kms::Kms;
use super::metrics::Verb;
use super::records::{
    count_path, counts_path, key_path, name_path, opened, opened_bytes, read_key, read_state,
    rewrite_version, sealed, version_path, versions_path,
};
use crate::error::Error;
use crate::model::{Key, KeyId, Label, Minimum, NAME_MAX, State, Version};
use crate::store::{RecordPath, Transaction};

/// A change of one setting of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyChange {
    /// Sets the oldest version that may be used for an operation.
    Minimum(Minimum, u32),
    /// Replaces all labels.
    Labels(BTreeMap<String, String>),
    /// Sets the expiry time in milliseconds since 1970; `None` for never.
    Expiry(Option<u64>),
    /// Sets whether audit records of uses are durable; `None` for the service's default.
    Durable(Option<bool>),
    /// Makes the private key exportable. Cannot be undone.
    Exportable,
    /// Restricts the key to signing and verifying by `mu`. Cannot be undone.
    RequireMu,
    /// Restricts the key to signing JSON Web Tokens with this maximum lifetime in seconds. Cannot
    /// be undone.
    LimitJwt(u64),
    /// Sets whether Vault's API may delete the key.
    Deletable(bool),
    /// Sets the rotation period in seconds; `None` to disable automatic rotation.
    Rotation(Option<u64>),
}

impl KeyChange {
    fn of(&self, kms: &Kms, key: &Key) -> Result<Key, Error> {
        match self {
            KeyChange::Rotation(period_s) => kms.rotating(key, *period_s),
            KeyChange::Minimum(of, version) => key.with_minimum(*of, *version),
            KeyChange::Labels(labels) => key.labelled(labels.clone()),
            KeyChange::Expiry(expires_ms) => key.expiring(*expires_ms),
            KeyChange::Durable(is_durable) => key.durable(*is_durable),
            KeyChange::Exportable => key.exportable(),
            KeyChange::RequireMu => key.requiring_mu(),
            KeyChange::LimitJwt(lifetime_s) => key.limiting_jwt(*lifetime_s),
            KeyChange::Deletable(is_deletable) => key.deletable(*is_deletable),
        }
    }
}

/// The number of names that are read at once. Names of destroyed keys stay in the store, and may
/// fill a page.
const NAMES_TOGETHER: usize = 256;

/// The number of records that are destroyed at once.
const BURIED_TOGETHER: usize = 100;

impl Kms {
    /// Returns a key's state.
    ///
    /// # Errors
    /// A missing key; errors of the store.
    pub fn describe(&self, id: &KeyId) -> Result<Key, Error> {
        Ok((*self.key(id)?.key).clone())
    }

    /// Lists at most `most` keys of a tenant after a name, in the order of their names.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn list(
        &self,
        tenant: &Label,
        after: Option<&Label>,
        most: usize,
    ) -> Result<Vec<(Label, KeyId)>, Error> {
        self.list_prefixed(tenant, "", after, most)
    }

    /// Lists keys like [`Self::list`], limited to a name prefix.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn list_prefixed(
        &self,
        tenant: &Label,
        prefix: &str,
        after: Option<&Label>,
        most: usize,
    ) -> Result<Vec<(Label, KeyId)>, Error> {
        let mut keys = Vec::new();
        if most > 0 {
            self.walk_names(tenant, prefix, after, |name, id| {
                keys.push((name, id));
                Ok(if keys.len() < most {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                })
            })?;
        }
        Ok(keys)
    }

    /// Visits the keys of a tenant whose names begin with a prefix and come after a name, in the
    /// order of their names, until the visitor breaks. Returns how many names were read, including
    /// those of destroyed keys.
    ///
    /// # Errors
    /// The visitor's; errors of the store.
    pub(crate) fn walk_names(
        &self,
        tenant: &Label,
        prefix: &str,
        after: Option<&Label>,
        mut visit: impl FnMut(Label, KeyId) -> Result<ControlFlow<()>, Error>,
    ) -> Result<u64, Error> {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        if prefix.len() > NAME_MAX || !prefix.bytes().all(is_part) {
            // No name has this prefix.
            return Ok(0);
        }
        let under = RecordPath::new(format!("names/{tenant}"))?;
        let mut after = after.map(|name| name_path(tenant, name)).transpose()?;
        let mut read = 0;
        if !prefix.is_empty() {
            // Names are sorted: all names with the prefix come after the name that equals the
            // prefix.
            let start = RecordPath::new(format!("names/{tenant}/{prefix}"))?;
            if after.as_ref().is_none_or(|after| after.as_str() < start.as_str()) {
                read += 1;
                match opened::<Option<KeyId>>(&self.context, &start) {
                    Ok(Some((Some(id), _))) => {
                        if visit(Label::new("key", prefix)?, id)?.is_break() {
                            return Ok(read);
                        }
                    }
                    Ok(Some((None, _)) | None) | Err(Error::Destroyed) => {}
                    Err(error) => return Err(error),
                }
                after = Some(start);
            }
        }
        loop {
            let page = self.context.store.list(&under, after.as_ref(), NAMES_TOGETHER)?;
            let Some((last, _)) = page.records.last() else { return Ok(read) };
            after = Some(last.clone());
            for (path, record) in &page.records {
                let name = path.as_str().rsplit('/').next().unwrap_or_default();
                if !name.starts_with(prefix) {
                    return Ok(read);
                }
                read += 1;
                let Some(value) = &record.value else { continue };
                let plain = self.context.sealer.open(path, record.generation, value)?;
                let id: Option<KeyId> = serde_json::from_slice(&plain).map_err(|error| {
                    Error::Integrity { path: path.to_string(), reason: error.to_string() }
                })?;
                if let Some(id) = id
                    && visit(Label::new("key", name)?, id)?.is_break()
                {
                    return Ok(read);
                }
            }
        }
    }

    /// Applies several changes to a key, all or none.
    ///
    /// # Errors
    /// Those of the corresponding methods of [`Key`]; errors of the store.
    pub fn configure(&self, id: &KeyId, changes: &[KeyChange]) -> Result<(), Error> {
        self.change(id, |key| {
            changes.iter().try_fold(key.clone(), |key, change| change.of(self, &key))
        })
    }

    /// Sets the rotation period: the age in seconds of the newest version at which the key is
    /// rotated automatically. `None` disables automatic rotation.
    ///
    /// # Errors
    /// A period that is out of range; a key that [`Self::rotate`] rejects; errors of the store.
    pub fn set_rotation(&self, id: &KeyId, period_s: Option<u64>) -> Result<(), Error> {
        self.configure(id, &[KeyChange::Rotation(period_s)])
    }

    /// Returns the key with another rotation period.
    fn rotating(&self, key: &Key, period_s: Option<u64>) -> Result<Key, Error> {
        let now_ms = self.now_ms();
        if period_s.is_none() {
            return key.rotating(None, now_ms, now_ms);
        }
        // Check the key itself first: a deleted one has no version to look at.
        key.rotating(period_s, now_ms, now_ms)?;
        let newest = self.check_has_private(&key.id, key.latest)?;
        key.rotating(period_s, newest.map_or(now_ms, |newest| newest.created_ms), now_ms)
    }

    /// Sets the oldest version that may be used for an operation.
    ///
    /// # Errors
    /// Those of [`Key::with_minimum`]; errors of the store.
    pub fn set_minimum(&self, id: &KeyId, of: Minimum, version: u32) -> Result<(), Error> {
        self.change(id, |key| key.with_minimum(of, version))
    }

    /// Replaces a key's labels.
    ///
    /// # Errors
    /// Those of [`Key::labelled`]; errors of the store.
    pub fn set_labels(&self, id: &KeyId, labels: &BTreeMap<String, String>) -> Result<(), Error> {
        self.change(id, |key| key.labelled(labels.clone()))
    }

    /// Deletes a key. It cannot be used until it is restored; its name stays taken.
    ///
    /// # Errors
    /// A key that is already deleted; errors of the store.
    pub fn delete(&self, id: &KeyId) -> Result<(), Error> {
        self.change(id, |key| key.deleted(self.now_ms()))
    }

    /// Restores a deleted key.
    ///
    /// # Errors
    /// A key that is not deleted; errors of the store.
    pub fn restore(&self, id: &KeyId) -> Result<(), Error> {
        self.change(id, Key::restored)
    }

    /// Disables or enables a version.
    ///
    /// # Errors
    /// A missing key or version; errors of the store.
    pub fn set_state(&self, id: &KeyId, number: u32, state: State) -> Result<(), Error> {
        self.counted(Verb::Change, id.algorithm, || {
            let _changing = self.changing();
            let view = self.key(id)?;
            view.key.existing(number)?;
            let path = version_path(id, number)?;
            let (bytes, before) = match opened_bytes(&self.context, &path) {
                Err(Error::Destroyed) => return Err(Error::VersionDestroyed(number)),
                found => found?.ok_or(Error::VersionDestroyed(number))?,
            };
            // Only the state is decoded, so a version whose key no backend supports can be
            // disabled, too.
            let version = Version { state, ..read_state(&path, &bytes)? };
            let bytes = rewrite_version(&path, &version, &bytes)?;
            let sealed = self.context.sealer.seal(&path, before + 1, &bytes)?;
            self.commit(id, &Transaction::new().put(path, before, sealed))
        })
    }

    /// Destroys the versions before `before` permanently. They must not be usable anymore. Another
    /// call continues an interrupted one.
    ///
    /// # Errors
    /// Those of [`Key::trimmed`]; errors of the store.
    pub fn trim(&self, id: &KeyId, before: u32) -> Result<(), Error> {
        self.change(id, |key| key.trimmed(before))?;
        self.bury(id, Some(before))
    }

    /// Completes an interrupted [`Self::destroy`] or [`Self::trim`], by the key's id.
    ///
    /// # Errors
    /// Errors of the store.
    pub(crate) fn resume_destruction(&self, id: &KeyId) -> Result<(), Error> {
        match read_key(&self.context, id) {
            Err(Error::Destroyed) => self.bury(id, None),
            found => self.bury(id, Some(found?.key.min_available)),
        }
    }

    /// Destroys a deleted key permanently, with all its versions. Its name becomes free. Another
    /// call continues an interrupted one.
    ///
    /// # Errors
    /// A key that is not deleted; errors of the store.
    pub fn destroy(&self, id: &KeyId) -> Result<(), Error> {
        self.counted(Verb::Change, id.algorithm, || {
            let changing = self.changing();
            match read_key(&self.context, id) {
                // An interrupted call had destroyed the key's record already.
                Err(Error::Destroyed) => {}
                found => self.bury_key(id, &found?)?,
            }
            drop(changing);
            self.bury(id, None)
        })
    }

    /// Returns whether a key was destroyed.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn is_destroyed(&self, id: &KeyId) -> Result<bool, Error> {
        match read_key(&self.context, id) {
            Ok(_) | Err(Error::NoKey(_)) => Ok(false),
            Err(Error::Destroyed) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Replaces a key's record by a tombstone and frees its name. From here on its versions cannot
    /// be found.
    fn bury_key(&self, id: &KeyId, view: &KeyView) -> Result<(), Error> {
        if view.key.id != *id {
            return Err(Error::NoKey(id.to_string()));
        }
        if view.key.deleted_ms.is_none() {
            return Err(Error::Parameter("delete the key before it is destroyed".to_owned()));
        }
        self.bury_found(id, view)
    }

    pub(super) fn bury_found(&self, id: &KeyId, view: &KeyView) -> Result<(), Error> {
        let name = name_path(&id.tenant, &view.key.name)?;
        let taken = opened::<Option<KeyId>>(&self.context, &name)?;
        let mut transaction = Transaction::new().bury(key_path(id)?, view.generation);
        if let Some((Some(owner), before)) = taken
            && owner == *id
        {
            let free = sealed(&self.context, &name, before + 1, &None::<KeyId>)?;
            transaction = transaction.put(name, before, free);
        }
        self.commit_key((Some(&view.key), None), transaction, id)
    }

    /// Replaces the versions of a key before a number, or all of them, and their message counters
    /// by tombstones.
    pub(super) fn bury(&self, id: &KeyId, before: Option<u32>) -> Result<(), Error> {
        for (under, end) in [
            (versions_path(id)?, before.map(|number| version_path(id, number)).transpose()?),
            (counts_path(id)?, before.map(|number| count_path(id, number)).transpose()?),
        ] {
            self.bury_under(id, &under, end.as_ref())?;
        }
        Ok(())
    }

    fn bury_under(
        &self,
        id: &KeyId,
        under: &RecordPath,
        end: Option<&RecordPath>,
    ) -> Result<(), Error> {
        let is_doomed = |path: &RecordPath| end.is_none_or(|end| path < end);
        let mut after = None;
        loop {
            let page = self.context.store.list(under, after.as_ref(), BURIED_TOGETHER)?;
            let Some((last, _)) = page.records.last() else { return Ok(()) };
            after = Some(last.clone());
            let doomed = page
                .records
                .iter()
                .filter(|(path, record)| is_doomed(path) && record.value.is_some());
            let transaction = doomed.fold(Transaction::new(), |transaction, (path, record)| {
                transaction.bury(path.clone(), record.generation)
            });
            if !transaction.writes().is_empty() {
                let _changing = self.changing();
                self.commit(id, &transaction)?;
            }
            if !is_doomed(last) {
                return Ok(());
            }
        }
    }

    /// Replaces a key's state.
    pub(super) fn change(
        &self,
        id: &KeyId,
        change: impl FnOnce(&Key) -> Result<Key, Error>,
    ) -> Result<(), Error> {
        self.counted(Verb::Change, id.algorithm, || {
            let _changing = self.changing();
            let view = self.key(id)?;
            let (key, path) = (change(&view.key)?, key_path(id)?);
            let sealed = sealed(&self.context, &path, view.generation + 1, &key)?;
            let transaction = Transaction::new().put(path, view.generation, sealed);
            self.commit_key((Some(&view.key), Some(&key)), transaction, id)
        })
    }
}
