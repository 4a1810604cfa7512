//! Operations that make, take or return secrets: encryption, tags, encapsulation, import and
//! export.
//!
//! The audit log gets keyed digests of secrets, because a plain digest of an easily guessed value
//! reveals it.

use gabion_engine::Prehash;
use zeroize::Zeroizing;

use super::lifecycle::{done, of};
use super::run::{AuditEntry, Call, KeyRef, Service};
use crate::SharedSecret;
use crate::audit::{Change, Class, Digest, Outcome, Setting};
use crate::error::Error;
use crate::gate::{Action, Request};
use crate::model::{Conformances, KeyId, Use, VersionId};
use crate::operations::{
    Datakey, EncapsOutput, EncryptOutput, HmacOutput, Import, KeyChange, Kms, NewKey, Terms,
};
use crate::transport::{Form, Recipient};

impl Service {
    /// Encrypts.
    ///
    /// # Errors
    /// Those of [`crate::operations::Kms::encrypt`]; the caller is not allowed, or no longer;
    /// errors of the audit log. The other operations here add the same errors.
    pub fn encrypt(
        &self,
        call: &Call<'_>,
        key: &KeyRef<'_>,
        version: Option<u32>,
        plain: &[u8],
        beside: &[u8],
    ) -> Result<EncryptOutput, Error> {
        let encrypt = || self.kms.encrypt(&self.find(key)?, version, plain, beside);
        let what = (Action::Encrypt, Use::Encrypt, version.is_none());
        self.produce(call, key, what, Some(self.keyed(plain)), encrypt, encrypted_output)
    }

    /// Decrypts.
    ///
    /// # Errors
    /// Those of [`crate::operations::Kms::decrypt`].
    pub fn decrypt(
        &self,
        call: &Call<'_>,
        key: &KeyRef<'_>,
        version: u32,
        ciphertext: &[u8],
        beside: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, Error> {
        let decrypt = |by: &VersionId| self.kms.decrypt(by, ciphertext, beside);
        let output = |plain: &Zeroizing<Vec<u8>>| Some(self.keyed(plain));
        self.open_ciphertext(call, (key, version), Action::Decrypt, ciphertext, decrypt, output)
    }

    /// Decrypts a ciphertext of one version and encrypts it with another.
    ///
    /// # Errors
    /// Those of [`crate::operations::Kms::rewrap`].
    pub fn rewrap(
        &self,
        call: &Call<'_>,
        key: &KeyRef<'_>,
        version: u32,
        ciphertext: &[u8],
        beside: &[u8],
        to: Option<u32>,
    ) -> Result<EncryptOutput, Error> {
        let rewrap = || self.kms.rewrap(&self.version_of(key, version)?, ciphertext, beside, to);
        let what = (Action::Rewrap, Use::Encrypt, to.is_none());
        self.produce(call, key, what, Some(Digest::of(ciphertext)), rewrap, encrypted_output)
    }

    /// Unwraps a key that one version wrapped, and wraps it with another.
    ///
    /// # Errors
    /// Those of [`crate::operations::Kms::rewrap_key`].
    pub fn rewrap_key(
        &self,
        call: &Call<'_>,
        key: &KeyRef<'_>,
        version: u32,
        wrapped: &[u8],
        beside: &[u8],
        to: Option<u32>,
    ) -> Result<EncryptOutput, Error> {
        let rewrap = || self.kms.rewrap_key(&self.version_of(key, version)?, wrapped, beside, to);
        let what = (Action::Rewrap, Use::Encrypt, to.is_none());
        self.produce(call, key, what, Some(Digest::of(wrapped)), rewrap, encrypted_output)
    }

    /// Generates a data key, and encrypts it.
    ///
    /// # Errors
    /// Those of [`crate::operations::Kms::datakey`].
    pub fn datakey(
        &self,
        call: &Call<'_>,
        key: &KeyRef<'_>,
        len: usize,
        beside: &[u8],
    ) -> Result<Datakey, Error> {
        let make = || self.kms.datakey(&self.find(key)?, len, beside);
        let what = (Action::Datakey, Use::Encrypt, true);
        self.produce(call, key, what, None, make, |made| encrypted_output(&made.encrypted))
    }

    /// Wraps a key.
    ///
    /// # Errors
    /// Those of [`crate::operations::Kms::wrap`].
    pub fn wrap(
        &self,
        call: &Call<'_>,
        key: &KeyRef<'_>,
        version: Option<u32>,
        plain: &[u8],
        beside: &[u8],
    ) -> Result<EncryptOutput, Error> {
        let wrap = || self.kms.wrap(&self.find(key)?, version, plain, beside);
        let what = (Action::Wrap, Use::Encrypt, version.is_none());
        self.produce(call, key, what, Some(self.keyed(plain)), wrap, encrypted_output)
    }

    /// Unwraps a key.
    ///
    /// # Errors
    /// Those of [`crate::operations::Kms::unwrap`].
    pub fn unwrap(
        &self,
        call: &Call<'_>,
        key: &KeyRef<'_>,
        version: u32,
        wrapped: &[u8],
        beside: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, Error> {
        let unwrap = |by: &VersionId| self.kms.unwrap(by, wrapped, beside);
        let output = |plain: &Zeroizing<Vec<u8>>| Some(self.keyed(plain));
        self.open_ciphertext(call, (key, version), Action::Unwrap, wrapped, unwrap, output)
    }

    /// Makes a tag.
    ///
    /// # Errors
    /// Those of [`crate::operations::Kms::hmac`].
    pub fn hmac(
        &self,
        call: &Call<'_>,
        key: &KeyRef<'_>,
        version: Option<u32>,
        message: &[u8],
    ) -> Result<HmacOutput, Error> {
        self.hmac_with(call, key, version, message, |id| self.kms.hmac(id, version, message))
    }

    /// Makes a tag with a hash, by any key.
    ///
    /// # Errors
    /// Those of [`crate::operations::Kms::hmac_by`].
    pub fn hmac_by(
        &self,
        call: &Call<'_>,
        key: &KeyRef<'_>,
        version: Option<u32>,
        hash: Prehash,
        message: &[u8],
    ) -> Result<HmacOutput, Error> {
        let make = |id: &KeyId| self.kms.hmac_by(id, version, hash, message);
        self.hmac_with(call, key, version, message, make)
    }

    fn hmac_with(
        &self,
        call: &Call<'_>,
        key: &KeyRef<'_>,
        version: Option<u32>,
        message: &[u8],
        make: impl FnOnce(&KeyId) -> Result<HmacOutput, Error>,
    ) -> Result<HmacOutput, Error> {
        let make = || make(&self.find(key)?);
        let what = (Action::Hmac, Use::Sign, version.is_none());
        let of = |made: &HmacOutput| (made.by.clone(), self.keyed(&made.tag));
        self.produce(call, key, what, Some(self.keyed(message)), make, of)
    }

    /// Verifies a tag of a version.
    ///
    /// # Errors
    /// Those of [`crate::operations::Kms::verify_hmac`].
    pub fn verify_hmac(
        &self,
        call: &Call<'_>,
        key: &KeyRef<'_>,
        version: u32,
        message: &[u8],
        tag: &[u8],
    ) -> Result<bool, Error> {
        let verify = |by: &VersionId| self.kms.verify_hmac(by, message, tag);
        self.verify_hmac_with(call, (key, version), (message, tag), verify)
    }

    /// Verifies a tag with a hash, of a version of any key.
    ///
    /// # Errors
    /// Those of [`crate::operations::Kms::verify_hmac_by`].
    pub fn verify_hmac_by(
        &self,
        call: &Call<'_>,
        (key, version): (&KeyRef<'_>, u32),
        hash: Prehash,
        message: &[u8],
        tag: &[u8],
    ) -> Result<bool, Error> {
        let verify = |by: &VersionId| self.kms.verify_hmac_by(by, hash, message, tag);
        self.verify_hmac_with(call, (key, version), (message, tag), verify)
    }

    fn verify_hmac_with(
        &self,
        call: &Call<'_>,
        (key, version): (&KeyRef<'_>, u32),
        (message, tag): (&[u8], &[u8]),
        verify: impl FnOnce(&VersionId) -> Result<bool, Error>,
    ) -> Result<bool, Error> {
        let input = self.keyed(message);
        let verify = || {
            let by = self.version_of(key, version)?;
            Ok((verify(&by)?, by))
        };
        let audit_entry = |(is_its, by): &(bool, VersionId)| AuditEntry {
            key: Some(by.to_string()),
            input: Some(input),
            output: Some(self.keyed(tag)),
            outcome: if *is_its { Outcome::Done } else { Outcome::Wrong },
        };
        let recheck = |(_, by): &(bool, VersionId)| self.recheck_version(by, Use::Verify, false);
        let request = of(Action::Verify, key);
        Ok(self.perform_use(call, &request, Some(input), verify, audit_entry, recheck)?.0)
    }

    /// Encapsulates: generates a shared secret for the holder of a key.
    ///
    /// # Errors
    /// Those of [`crate::operations::Kms::encaps`].
    pub fn encaps(
        &self,
        call: &Call<'_>,
        key: &KeyRef<'_>,
        version: Option<u32>,
    ) -> Result<EncapsOutput, Error> {
        let make = || self.kms.encaps(&self.find(key)?, version);
        let what = (Action::Encaps, Use::Encrypt, version.is_none());
        let of = |made: &EncapsOutput| (made.by.clone(), Digest::of(&made.ciphertext));
        self.produce(call, key, what, None, make, of)
    }

    /// Decapsulates a shared secret with a version.
    ///
    /// # Errors
    /// Those of [`crate::operations::Kms::decaps`].
    pub fn decaps(
        &self,
        call: &Call<'_>,
        key: &KeyRef<'_>,
        version: u32,
        ciphertext: &[u8],
    ) -> Result<SharedSecret, Error> {
        let decaps = |by: &VersionId| self.kms.decaps(by, ciphertext);
        self.open_ciphertext(call, (key, version), Action::Decaps, ciphertext, decaps, |_| None)
    }

    /// Returns random bytes.
    ///
    /// # Errors
    /// Those of [`crate::operations::Kms::random`].
    pub fn random(&self, call: &Call<'_>, len: usize) -> Result<Zeroizing<Vec<u8>>, Error> {
        let request =
            Request { action: Action::Random, tenant: None, key: None, items: 1, makes: None };
        let draw = || self.kms.random(len);
        self.perform_use(call, &request, None, draw, |_| done(None), |_| Ok(()))
    }

    /// Imports a key.
    ///
    /// # Errors
    /// Those of [`crate::operations::Kms::import`].
    pub fn import(
        &self,
        call: &Call<'_>,
        new: &NewKey,
        import: Import<'_>,
    ) -> Result<VersionId, Error> {
        self.import_as(call, new, import, true)
    }

    /// Imports a key, which either may be rotated here or gets all its versions by import.
    ///
    /// # Errors
    /// Those of [`crate::operations::Kms::import_as`].
    pub fn import_as(
        &self,
        call: &Call<'_>,
        new: &NewKey,
        import: Import<'_>,
        rotates: bool,
    ) -> Result<VersionId, Error> {
        self.import_conforming(call, new, import, rotates, &Conformances::new())
    }

    /// Imports a key that conforms to a standard.
    ///
    /// # Errors
    /// Those of [`crate::operations::Kms::import_conforming`].
    pub fn import_conforming(
        &self,
        call: &Call<'_>,
        new: &NewKey,
        import: Import<'_>,
        rotates: bool,
        to: &Conformances,
    ) -> Result<VersionId, Error> {
        let terms = Terms { conformance: to.clone(), ..Terms::default() };
        self.import_on(call, new, import, rotates, &terms)
    }

    /// Imports a key with restrictions.
    ///
    /// # Errors
    /// Those of [`crate::operations::Kms::import_on`].
    pub fn import_on(
        &self,
        call: &Call<'_>,
        new: &NewKey,
        import: Import<'_>,
        rotates: bool,
        terms: &Terms,
    ) -> Result<VersionId, Error> {
        let key = KeyRef { tenant: &new.tenant, name: &new.name };
        let take = |kms: &Kms| {
            let taken = kms.import_on(new, import, rotates, terms);
            taken.map_err(|error| self.hide_id(call, error))
        };
        let request = Request { makes: Some(new), ..of(Action::Import, &key) };
        self.perform_change(call, &request, take, |id| Some(id.to_string()))
    }

    /// Removes the id of a key that the caller may not see from an error.
    fn hide_id(&self, call: &Call<'_>, error: Error) -> Error {
        let Error::Duplicate(Some(owner)) = error else { return error };
        let is_seen = owner.parse().is_ok_and(|VersionId { key, .. }| {
            self.kms.describe(&key).is_ok_and(|of| {
                let (tenant, now_ms) = (&key.tenant, self.kms.now_ms());
                self.gate.may_see(&self.kms, call.who, tenant, of.name.as_str(), now_ms)
            })
        });
        Error::Duplicate(Some(owner).filter(|_| is_seen))
    }

    /// Adds an imported version to a key.
    ///
    /// # Errors
    /// Those of [`crate::operations::Kms::import_version`].
    pub fn import_version(
        &self,
        call: &Call<'_>,
        key: &KeyRef<'_>,
        import: Import<'_>,
    ) -> Result<VersionId, Error> {
        let take = |kms: &Kms| {
            let taken = kms.import_version(&self.find(key)?, import);
            taken.map_err(|error| self.hide_id(call, error))
        };
        self.perform_change(call, &of(Action::Import, key), take, |id| Some(id.to_string()))
    }

    /// Exports the private key of a version. The audit record is on the disk before that.
    ///
    /// # Errors
    /// Those of [`crate::operations::Kms::export`].
    pub fn export(
        &self,
        call: &Call<'_>,
        key: &KeyRef<'_>,
        version: u32,
        form: Form,
    ) -> Result<Zeroizing<Vec<u8>>, Error> {
        let give = || {
            let by = self.version_of(key, version)?;
            Ok((self.kms.export(&by, form)?, by))
        };
        let audit_entry = |(_, by): &(Zeroizing<Vec<u8>>, VersionId)| done(Some(by.to_string()));
        let request = of(Action::Export, key);
        let recheck = |(_, by): &(Zeroizing<Vec<u8>>, VersionId)| self.kms.still_exportable(by);
        let given = self.perform_use_in_class(
            Class::Durable,
            call,
            &request,
            None,
            give,
            audit_entry,
            recheck,
        )?;
        Ok(given.0)
    }

    /// Exports the private key of a version, wrapped for a recipient. The audit record names the
    /// recipient: its input is the digest of the recipient's SubjectPublicKeyInfo. It is on the
    /// disk before the export.
    ///
    /// # Errors
    /// Those of [`crate::operations::Kms::export_wrapped`].
    pub fn export_wrapped(
        &self,
        call: &Call<'_>,
        key: &KeyRef<'_>,
        version: u32,
        form: Form,
        to: &Recipient,
    ) -> Result<Vec<u8>, Error> {
        let input = Some(Digest::of(to.spki()));
        let give = || {
            let by = self.version_of(key, version)?;
            Ok((self.kms.export_wrapped(&by, form, to)?, by))
        };
        let audit_entry = |(wrapped, by): &(Vec<u8>, VersionId)| AuditEntry {
            input,
            output: Some(Digest::of(wrapped)),
            ..done(Some(by.to_string()))
        };
        let request = of(Action::Export, key);
        let recheck = |(_, by): &(Vec<u8>, VersionId)| self.kms.still_exportable(by);
        let given = self.perform_use_in_class(
            Class::Durable,
            call,
            &request,
            input,
            give,
            audit_entry,
            recheck,
        )?;
        Ok(given.0)
    }

    /// Makes a key exportable. This cannot be undone.
    ///
    /// # Errors
    /// Those of [`crate::operations::Kms::allow_export`].
    pub fn allow_export(&self, call: &Call<'_>, key: &KeyRef<'_>) -> Result<(), Error> {
        self.change_with_details(
            call,
            Action::Config,
            key,
            Change::Settings(Vec::new()),
            |kms, id| kms.allow_export(id),
        )
        .map(drop)
    }

    /// Sets whether Vault's API may delete a key.
    ///
    /// # Errors
    /// Those of [`Self::configure`].
    pub fn set_deletable(
        &self,
        call: &Call<'_>,
        key: &KeyRef<'_>,
        is_deletable: bool,
    ) -> Result<(), Error> {
        self.configure(call, key, &[KeyChange::Deletable(is_deletable)]).map(drop)
    }

    /// Sets the durability class of the audit records of a key's uses; `None` for the service's
    /// default.
    ///
    /// # Errors
    /// Those of [`crate::operations::Kms::set_durable`].
    pub fn set_class(
        &self,
        call: &Call<'_>,
        key: &KeyRef<'_>,
        class: Option<Class>,
    ) -> Result<(), Error> {
        let is_durable = class.map(|class| class == Class::Durable);
        self.change_with_details(
            call,
            Action::Config,
            key,
            Change::Settings(Vec::new()),
            |kms, id| kms.set_durable(id, is_durable),
        )
        .map(drop)
    }

    /// Sets when a key expires.
    ///
    /// # Errors
    /// Those of [`crate::operations::Kms::set_expiry`].
    pub fn set_expiry(
        &self,
        call: &Call<'_>,
        key: &KeyRef<'_>,
        expires_ms: Option<u64>,
    ) -> Result<(), Error> {
        let to = Change::Settings(vec![Setting::ExpiresMs(expires_ms)]);
        self.change_with_details(call, Action::Config, key, to, |kms, id| {
            kms.set_expiry(id, expires_ms)
        })
        .map(drop)
    }

    /// Runs a use that produces something with a version. `of` returns that version and the digest
    /// of the output. The request may have named the version or not.
    fn produce<T>(
        &self,
        call: &Call<'_>,
        key: &KeyRef<'_>,
        (action, what, is_newest): (Action, Use, bool),
        input: Option<Digest>,
        make: impl FnOnce() -> Result<T, Error>,
        made_of: impl Fn(&T) -> (VersionId, Digest),
    ) -> Result<T, Error> {
        let make = || {
            let made = make()?;
            let (by, output) = made_of(&made);
            Ok((made, by, output))
        };
        let audit_entry = |(_, by, output): &(T, VersionId, Digest)| AuditEntry {
            input,
            output: Some(*output),
            ..done(Some(by.to_string()))
        };
        let recheck =
            |(_, by, _): &(T, VersionId, Digest)| self.recheck_version(by, what, is_newest);
        Ok(self.perform_use(call, &of(action, key), input, make, audit_entry, recheck)?.0)
    }

    /// Runs a use that decrypts with a version.
    fn open_ciphertext<T>(
        &self,
        call: &Call<'_>,
        (key, version): (&KeyRef<'_>, u32),
        action: Action,
        ciphertext: &[u8],
        open: impl FnOnce(&VersionId) -> Result<T, Error>,
        output: impl FnOnce(&T) -> Option<Digest>,
    ) -> Result<T, Error> {
        let input = Some(Digest::of(ciphertext));
        let open = || {
            let by = self.version_of(key, version)?;
            Ok((open(&by)?, by))
        };
        let audit_entry = |(opened, by): &(T, VersionId)| AuditEntry {
            input,
            output: output(opened),
            ..done(Some(by.to_string()))
        };
        let recheck = |(_, by): &(T, VersionId)| self.recheck_version(by, Use::Decrypt, false);
        Ok(self.perform_use(call, &of(action, key), input, open, audit_entry, recheck)?.0)
    }

    fn version_of(&self, key: &KeyRef<'_>, version: u32) -> Result<VersionId, Error> {
        Ok(VersionId { key: self.find(key)?, version })
    }

    fn recheck_version(&self, by: &VersionId, what: Use, was_newest: bool) -> Result<(), Error> {
        self.kms.still_may(&by.key, by.version, what, was_newest)
    }
}

/// Returns the version that encrypted, and the digest of its output for the audit log.
fn encrypted_output(made: &EncryptOutput) -> (VersionId, Digest) {
    (made.by.clone(), Digest::of(&made.ciphertext))
}
