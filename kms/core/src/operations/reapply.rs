//! Reapplies changes from the audit log to a store that was rolled back: those that remove
//! permissions, and no others.

use std::collections::BTreeMap;

use super::kms::Kms;
use super::records::read_key;
use crate::error::Error;
use crate::model::{Key, KeyId, State};

/// The state of a key according to the audit log. If a setting was changed several times, the last
/// value counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoggedKeyState {
    pub is_destroyed: bool,
    /// Whether it was deleted and not restored.
    pub is_deleted: bool,
    /// The versions before this one were destroyed.
    pub before: u32,
    /// The newest version.
    pub newest: u32,
    pub min_sign: Option<u32>,
    pub min_verify: Option<u32>,
    pub min_decrypt: Option<u32>,
    pub expires_ms: Option<u64>,
    /// Whether Vault's API may no longer delete it.
    pub is_kept: bool,
    /// Whether it signs and verifies only by `mu`.
    pub requires_mu: bool,
    /// The maximum lifetime in seconds of the JSON Web Tokens that it signs.
    pub jwt_max_lifetime_s: Option<u64>,
    pub states: BTreeMap<u32, State>,
}

/// The restrictions that were reapplied to a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReappliedRestrictions {
    pub is_destroyed: bool,
    /// Whether the store has no record of the key.
    pub is_missing: bool,
    /// The key before and after.
    pub key: Option<(Key, Key)>,
    /// The versions that were disabled.
    pub disabled: Vec<u32>,
    /// The newest version in the store, if the log has newer ones.
    pub newest: Option<u32>,
}

impl LoggedKeyState {
    /// Returns the key with the logged restrictions added to its own.
    fn narrowed(&self, key: &Key, now_ms: u64) -> Key {
        let (key, before) = (key.clone(), self.before);
        let least = |own: u32, told: Option<u32>| own.max(told.unwrap_or(0)).max(before);
        Key {
            min_available: key.min_available.max(before),
            min_verify: least(key.min_verify, self.min_verify),
            min_decrypt: least(key.min_decrypt, self.min_decrypt),
            // 0 means only the newest version.
            min_sign: match (key.min_sign, self.min_sign) {
                (0, _) | (_, Some(0)) => 0,
                (own, told) => least(own, told),
            },
            expires_ms: [key.expires_ms, self.expires_ms].into_iter().flatten().min(),
            is_deletable: key.is_deletable && !self.is_kept,
            requires_mu: key.requires_mu || self.requires_mu,
            jwt_max_lifetime_s: [key.jwt_max_lifetime_s, self.jwt_max_lifetime_s]
                .into_iter()
                .flatten()
                .min(),
            deleted_ms: key.deleted_ms.or(self.is_deleted.then_some(now_ms)),
            ..key
        }
    }
}

impl Kms {
    /// Applies the restrictions in the audit log to a key, after the store was rolled back. Reports
    /// a key that the store does not have as missing. Another call continues an interrupted one.
    ///
    /// # Errors
    /// Errors of the store.
    pub(crate) fn reapply_restrictions(
        &self,
        id: &KeyId,
        told: &LoggedKeyState,
    ) -> Result<ReappliedRestrictions, Error> {
        let mut narrower = ReappliedRestrictions::default();
        let key = match read_key(&self.context, id) {
            Err(Error::NoKey(_)) => {
                return Ok(ReappliedRestrictions { is_missing: true, ..narrower });
            }
            Err(Error::Destroyed) => {
                self.bury(id, None)?;
                return Ok(narrower);
            }
            found => found?.key,
        };
        if told.is_destroyed {
            let changing = self.changing();
            self.bury_found(id, &read_key(&self.context, id)?)?;
            drop(changing);
            self.bury(id, None)?;
            return Ok(ReappliedRestrictions { is_destroyed: true, ..narrower });
        }
        // Do this first, because destroyed versions have no state.
        let after = told.narrowed(&key, self.now_ms());
        if after != *key {
            self.change(id, |key| Ok(told.narrowed(key, after.deleted_ms.unwrap_or(0))))?;
            narrower.key = Some(((*key).clone(), after));
        }
        self.bury(id, Some(told.before))?;
        // Versions after the newest one in the store are lost.
        for (&version, &state) in told.states.range(..=key.latest) {
            if state == State::Disabled && self.reapply_disabled(id, version)? {
                narrower.disabled.push(version);
            }
        }
        narrower.newest = (told.newest > key.latest).then_some(key.latest);
        Ok(narrower)
    }

    /// Disables a version if it exists and is enabled.
    fn reapply_disabled(&self, id: &KeyId, version: u32) -> Result<bool, Error> {
        let state = match self.version(id, version) {
            Ok(view) => view.version.state,
            Err(Error::VersionDestroyed(_)) => return Ok(false),
            Err(error) => return Err(error),
        };
        match state {
            State::Disabled => Ok(false),
            State::Enabled => self.set_state(id, version, State::Disabled).map(|()| true),
        }
    }
}
