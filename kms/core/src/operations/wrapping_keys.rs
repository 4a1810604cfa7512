//! The service's own keys, for which clients wrap imported keys. They are generated on first use
//! and sealed. Their private keys never leave the process.

use std::sync::PoisonError;

use gabion_engine::keys::PrivateKey;
use gabion_engine::{Algorithm, KemPrivateKey, OsEntropy};
use zeroize::Zeroizing;

use super::kms::Kms;
use super::records::{damaged, opened_bytes};
use super::wrappers::OwnKey;
use crate::error::Error;
use crate::model::Rsa;
use crate::rsa;
use crate::store::{RecordPath, SettleOutcome, Transaction, settle};
use crate::transport::{
    Place, Recipient, UnwrappedKey, WrapMethod, Wrapper, open_by_rsa, open_by_x_wing,
};

impl Kms {
    /// Returns the public key for which clients wrap imported keys.
    ///
    /// # Errors
    /// Errors of the engine and of the store.
    pub fn wrapping_key(&self, of: Wrapper) -> Result<Recipient, Error> {
        match of {
            Wrapper::XWing => Recipient::of_x_wing(self.own_x_wing()?.public()),
            Wrapper::Rsa => Recipient::of_rsa(self.own_rsa()?.public().clone()),
        }
    }

    /// Returns whether a key of the service itself exists.
    ///
    /// # Errors
    /// If the store fails.
    pub fn has_own(&self, key: OwnKey) -> Result<bool, Error> {
        let is_opened = match key {
            OwnKey::WrappingXWing => self.state.wrappers.x_wing.get().is_some(),
            OwnKey::WrappingRsa => self.state.wrappers.rsa.get().is_some(),
            OwnKey::Attestation => self.state.attestation.get().is_some(),
        };
        Ok(is_opened || opened_bytes(&self.context, &key.path()?)?.is_some())
    }

    /// Generates one of the service's own keys if it is missing.
    ///
    /// # Errors
    /// Errors of the engine and of the store.
    pub fn make_own(&self, key: OwnKey) -> Result<(), Error> {
        match key {
            OwnKey::WrappingXWing => self.own_x_wing().map(drop),
            OwnKey::WrappingRsa => self.own_rsa().map(drop),
            OwnKey::Attestation => self.attestation().map(drop),
        }
    }

    /// Returns the service's RSA key if it exists. Generating it takes seconds. Callers that cannot
    /// wait generate it elsewhere, and store it with [`Self::keep_wrapping_key`].
    ///
    /// # Errors
    /// Errors of the store.
    pub fn made_rsa_wrapping_key(&self) -> Result<Option<Recipient>, Error> {
        let key = self.own_rsa_if_made()?;
        key.map(|key| Recipient::of_rsa(key.public().clone())).transpose()
    }

    /// Stores a key pair as the service's RSA key, unless there is one by now.
    ///
    /// # Errors
    /// A pair of another size; errors of the store.
    pub fn keep_wrapping_key(&self, pair: &rsa::PrivateKey) -> Result<(), Error> {
        let bits = pair.public().bits();
        if bits != Self::RSA_BITS {
            return Err(Error::Parameter(format!(
                "a pair of {bits} bits; expected {}",
                Self::RSA_BITS
            )));
        }
        self.kept_rsa(|| Ok(Zeroizing::new(pair.bytes().to_vec()))).map(drop)
    }

    /// The size of the service's RSA key in bits.
    pub const RSA_BITS: usize = Rsa::Rsa4096.bits();

    /// Unwraps a key that was wrapped for the service.
    pub(super) fn unwrapped(
        &self,
        place: &Place<'_>,
        wrapping: WrapMethod,
        wrapped: &[u8],
    ) -> Result<UnwrappedKey, Error> {
        match wrapping {
            // If the key was never generated, nothing can have been wrapped for it.
            WrapMethod::XWing if !self.has_own(OwnKey::WrappingXWing)? => Err(Error::DecryptFailed),
            WrapMethod::XWing => {
                open_by_x_wing(&self.context.engine, self.own_x_wing()?, &place.info(), wrapped)
            }
            WrapMethod::RsaOaep(hash) => match self.own_rsa_if_made()? {
                Some(own) => open_by_rsa(own, hash, wrapped),
                None => Err(Error::DecryptFailed),
            },
        }
    }

    fn own_x_wing(&self) -> Result<&KemPrivateKey, Error> {
        if let Some(known) = self.state.wrappers.x_wing.get() {
            return Ok(known);
        }
        let (engine, algorithm) = (&self.context.engine, Algorithm::XWing);
        let draw = || {
            let pair = PrivateKey::generate(engine, algorithm, &OsEntropy)?;
            pair.pairwise_test(engine, &OsEntropy)?;
            let seed = pair.seed().ok_or(gabion_engine::Error::Lost)?;
            Ok(Zeroizing::new(seed.to_vec()))
        };
        let (path, seed) = self.own(OwnKey::WrappingXWing, draw)?;
        let key = engine.kem_from_seed(algorithm, &seed);
        let key = key.map_err(|error| damaged(&path, &error.to_string()))?;
        Ok(self.state.wrappers.x_wing.get_or_init(|| key))
    }

    fn own_rsa(&self) -> Result<&rsa::PrivateKey, Error> {
        self.kept_rsa(|| {
            let pair = rsa::PrivateKey::drawn(Self::RSA_BITS)?;
            Ok(Zeroizing::new(pair.bytes().to_vec()))
        })
    }

    /// Returns the service's RSA key. If it is missing, `drawn` generates it.
    fn kept_rsa(
        &self,
        draw: impl FnOnce() -> Result<Zeroizing<Vec<u8>>, Error>,
    ) -> Result<&rsa::PrivateKey, Error> {
        if let Some(known) = self.state.wrappers.rsa.get() {
            return Ok(known);
        }
        let (path, bytes) = self.own(OwnKey::WrappingRsa, draw)?;
        self.opened_rsa(&path, &bytes)
    }

    fn own_rsa_if_made(&self) -> Result<Option<&rsa::PrivateKey>, Error> {
        if let Some(known) = self.state.wrappers.rsa.get() {
            return Ok(Some(known));
        }
        let path = OwnKey::WrappingRsa.path()?;
        let found = opened_bytes(&self.context, &path)?;
        found.map(|(bytes, _)| self.opened_rsa(&path, &bytes)).transpose()
    }

    fn opened_rsa(&self, path: &RecordPath, bytes: &[u8]) -> Result<&rsa::PrivateKey, Error> {
        let key = rsa::PrivateKey::of_pkcs1(Self::RSA_BITS, bytes);
        let key = key.map_err(|error| damaged(path, &error.to_string()))?;
        Ok(self.state.wrappers.rsa.get_or_init(|| key))
    }

    /// Reads a record of the service itself. If it is missing, it is created.
    fn own(
        &self,
        key: OwnKey,
        draw: impl FnOnce() -> Result<Zeroizing<Vec<u8>>, Error>,
    ) -> Result<(RecordPath, Zeroizing<Vec<u8>>), Error> {
        let path = key.path()?;
        let _drawing = self.state.wrappers.drawing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((bytes, _)) = opened_bytes(&self.context, &path)? {
            return Ok((path, bytes));
        }
        let new = draw()?;
        let _changing = self.changing();
        let sealed = self.context.sealer.seal(&path, 1, &new)?;
        match settle(&*self.context.store, &Transaction::new().put(path.clone(), 0, sealed))? {
            // The record is read below, whether this process or another one wrote it.
            SettleOutcome::Committed | SettleOutcome::Conflict(_) => {}
            SettleOutcome::Unknown => return Err(Error::OutcomeUnknown),
        }
        match opened_bytes(&self.context, &path)? {
            Some((bytes, _)) => Ok((path, bytes)),
            None => Err(damaged(&path, "it is missing")),
        }
    }
}
