//! Creation of the service's own keys, with audit records.

use std::sync::PoisonError;

use super::administration::of;
use super::run::{Call, Service};
use crate::audit::Change;
use crate::error::Error;
use crate::gate::{Action, Principal};
use crate::operations::{Kms, OwnKey};
use crate::rsa;

/// The principal and the request id in the audit records of the creation of the service's own keys.
pub const OWN_KEYS: &str = "own-keys";

/// The prefix of the service's own keys in the audit log.
pub(super) const OF_SYSTEM: &str = "system:";

impl Service {
    /// Creates one of the service's own keys if it is missing. The audit log gets a record by
    /// [`OWN_KEYS`].
    ///
    /// # Errors
    /// Errors of the engine, of the store and of the audit log.
    pub fn make_own(&self, key: OwnKey) -> Result<(), Error> {
        self.made_own(key, |kms| kms.make_own(key))
    }

    /// Stores a key pair as the service's RSA key, unless it has one by now.
    ///
    /// # Errors
    /// A pair of another size; errors of the store and of the audit log.
    pub fn keep_own_rsa(&self, pair: &rsa::PrivateKey) -> Result<(), Error> {
        self.made_own(OwnKey::WrappingRsa, |kms| kms.keep_wrapping_key(pair))
    }

    /// Creates one of the service's own keys for a caller who requests its public half. If the key
    /// is missing, the caller needs the permission to use it.
    ///
    /// # Errors
    /// The caller is not allowed; those of [`Self::make_own`].
    pub fn own_for(&self, call: &Call<'_>, key: OwnKey) -> Result<(), Error> {
        self.may_make_own(call, key)?;
        self.make_own(key)
    }

    /// Rejects a caller if one of the service's own keys is missing and the caller may not use it.
    ///
    /// # Errors
    /// The caller is not allowed; errors of the store and of the audit log.
    pub fn may_make_own(&self, call: &Call<'_>, key: OwnKey) -> Result<(), Error> {
        let action = match key {
            OwnKey::WrappingXWing | OwnKey::WrappingRsa => Action::Import,
            OwnKey::Attestation => Action::Attest,
        };
        match self.kms.has_own(key)? {
            true => Ok(()),
            false => self.may_begin(call, &[action], None),
        }
    }

    fn made_own(
        &self,
        key: OwnKey,
        make: impl FnOnce(&Kms) -> Result<(), Error>,
    ) -> Result<(), Error> {
        // Serialized, so that each key gets one record.
        let _one = self.making_own.lock().unwrap_or_else(PoisonError::into_inner);
        if self.kms.has_own(key)? {
            return Ok(());
        }
        let who = self.gate.local(Principal::new(OWN_KEYS)?);
        let audit_entry = |(): &()| (format!("{OF_SYSTEM}{}", key.as_str()), Change::Made);
        self.perform_unchecked_change(
            &Call::new(&who, OWN_KEYS),
            &of(Action::Create),
            make,
            audit_entry,
        )
    }
}
