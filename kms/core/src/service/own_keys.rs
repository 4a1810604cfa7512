//! Making the service's own keys, which the audit log is told of.

use std::sync::PoisonError;

use super::administration::of;
use super::run::{Call, Service};
use crate::audit::Change;
use crate::error::Error;
use crate::gate::{Action, Principal};
use crate::operations::{Kms, OwnKey};
use crate::rsa;

/// As whom the service makes its own keys, and what it calls such a request.
pub const OWN_KEYS: &str = "own-keys";

/// What the log calls a key of the service itself.
pub(super) const OF_SYSTEM: &str = "system:";

impl Service {
    /// Makes one of the service's own keys if it is missing. The audit log has a record of that by [`OWN_KEYS`].
    ///
    /// # Errors
    /// The engine's, the store's, the audit log's.
    pub fn make_own(&self, key: OwnKey) -> Result<(), Error> {
        self.made_own(key, |kms| kms.make_own(key))
    }

    /// Keeps a pair as the service's RSA key, unless it has one by now.
    ///
    /// # Errors
    /// A pair of another size; the store's; the audit log's.
    pub fn keep_own_rsa(&self, pair: &rsa::PrivateKey) -> Result<(), Error> {
        self.made_own(OwnKey::WrappingRsa, |kms| kms.keep_wrapping_key(pair))
    }

    /// Makes one of the service's own keys for a caller who asks for its public half. If it is missing the caller has to be one who
    /// may use it.
    ///
    /// # Errors
    /// Not allowed; as [`Self::make_own`].
    pub fn own_for(&self, call: &Call<'_>, key: OwnKey) -> Result<(), Error> {
        self.may_make_own(call, key)?;
        self.make_own(key)
    }

    /// Refuses a caller for whom one of the service's own keys would have to be made, and who may not use it.
    ///
    /// # Errors
    /// Not allowed; the store's; the audit log's.
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
        // One record for each key.
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
