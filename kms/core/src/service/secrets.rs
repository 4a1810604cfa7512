//! What makes, takes or gives out secrets: encryption, tags, encapsulation, and keys on their way in and out.
//!
//! What is secret is told of by a keyed digest: a plain one of what is easily guessed tells it.

use zeroize::Zeroizing;

use super::changes::{done, of};
use super::run::{Call, KeyRef, Service, Told};
use crate::SharedSecret;
use crate::audit::{Class, Digest, Outcome};
use crate::error::Error;
use crate::gate::{Action, Request};
use crate::model::{KeyId, Use, VersionId};
use crate::operations::{Datakey, Encapsulated, Encrypted, ExportForm, Import, NewKey, Tagged};

impl Service {
    /// Encrypts.
    ///
    /// # Errors
    /// As [`crate::operations::Kms::encrypt`]; not allowed, also meanwhile; the audit log's. So it is with every verb
    /// here.
    pub fn encrypt(
        &self,
        call: &Call<'_>,
        key: &KeyRef<'_>,
        version: Option<u32>,
        plain: &[u8],
        beside: &[u8],
    ) -> Result<Encrypted, Error> {
        let input = self.keyed(plain);
        let encrypt = || self.kms.encrypt(&self.find(key)?, version, plain, beside);
        let told = |made: &Encrypted| made_of(&made.by, Some(input), &made.ciphertext);
        let again = |made: &Encrypted| self.still(&made.by, Use::Encrypt, version.is_none());
        self.used(call, &of(Action::Encrypt, key), Some(input), encrypt, told, again)
    }

    /// Decrypts.
    ///
    /// # Errors
    /// As [`crate::operations::Kms::decrypt`].
    pub fn decrypt(
        &self,
        call: &Call<'_>,
        key: &KeyRef<'_>,
        version: u32,
        ciphertext: &[u8],
        beside: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, Error> {
        let input = Digest::of(ciphertext);
        let decrypt = || {
            let by = self.version_of(key, version)?;
            Ok((self.kms.decrypt(&by, ciphertext, beside)?, by))
        };
        let told = |(plain, by): &(Zeroizing<Vec<u8>>, VersionId)| Told {
            input: Some(input),
            output: Some(self.keyed(plain)),
            ..done(Some(by.to_string()))
        };
        let again = |(_, by): &(Zeroizing<Vec<u8>>, VersionId)| self.still(by, Use::Decrypt, false);
        let request = of(Action::Decrypt, key);
        Ok(self.used(call, &request, Some(input), decrypt, told, again)?.0)
    }

    /// Encrypts anew, by another version, what one encrypted.
    ///
    /// # Errors
    /// As [`crate::operations::Kms::rewrap`].
    pub fn rewrap(
        &self,
        call: &Call<'_>,
        key: &KeyRef<'_>,
        version: u32,
        ciphertext: &[u8],
        beside: &[u8],
        to: Option<u32>,
    ) -> Result<Encrypted, Error> {
        let input = Digest::of(ciphertext);
        let rewrap = || self.kms.rewrap(&self.version_of(key, version)?, ciphertext, beside, to);
        let told = |made: &Encrypted| made_of(&made.by, Some(input), &made.ciphertext);
        let again = |made: &Encrypted| self.still(&made.by, Use::Encrypt, to.is_none());
        self.used(call, &of(Action::Rewrap, key), Some(input), rewrap, told, again)
    }

    /// Makes a key for data, and encrypts it.
    ///
    /// # Errors
    /// As [`crate::operations::Kms::datakey`].
    pub fn datakey(
        &self,
        call: &Call<'_>,
        key: &KeyRef<'_>,
        len: usize,
        beside: &[u8],
    ) -> Result<Datakey, Error> {
        let make = || self.kms.datakey(&self.find(key)?, len, beside);
        let told = |made: &Datakey| made_of(&made.encrypted.by, None, &made.encrypted.ciphertext);
        let again = |made: &Datakey| self.still(&made.encrypted.by, Use::Encrypt, true);
        self.used(call, &of(Action::Datakey, key), None, make, told, again)
    }

    /// Makes a tag.
    ///
    /// # Errors
    /// As [`crate::operations::Kms::hmac`].
    pub fn hmac(
        &self,
        call: &Call<'_>,
        key: &KeyRef<'_>,
        version: Option<u32>,
        message: &[u8],
    ) -> Result<Tagged, Error> {
        let input = self.keyed(message);
        let make = || self.kms.hmac(&self.find(key)?, version, message);
        let told = |made: &Tagged| Told {
            input: Some(input),
            output: Some(self.keyed(&made.tag)),
            ..done(Some(made.by.to_string()))
        };
        let again = |made: &Tagged| self.still(&made.by, Use::Sign, version.is_none());
        self.used(call, &of(Action::Hmac, key), Some(input), make, told, again)
    }

    /// Whether a tag is that version's.
    ///
    /// # Errors
    /// As [`crate::operations::Kms::verify_hmac`].
    pub fn verify_hmac(
        &self,
        call: &Call<'_>,
        key: &KeyRef<'_>,
        version: u32,
        message: &[u8],
        tag: &[u8],
    ) -> Result<bool, Error> {
        let input = self.keyed(message);
        let verify = || {
            let by = self.version_of(key, version)?;
            Ok((self.kms.verify_hmac(&by, message, tag)?, by))
        };
        let told = |(is_its, by): &(bool, VersionId)| Told {
            key: Some(by.to_string()),
            input: Some(input),
            output: Some(self.keyed(tag)),
            outcome: if *is_its { Outcome::Done } else { Outcome::Wrong },
        };
        let again = |(_, by): &(bool, VersionId)| self.still(by, Use::Verify, false);
        let request = of(Action::Verify, key);
        Ok(self.used(call, &request, Some(input), verify, told, again)?.0)
    }

    /// Makes a secret for whoever has a key.
    ///
    /// # Errors
    /// As [`crate::operations::Kms::encaps`].
    pub fn encaps(
        &self,
        call: &Call<'_>,
        key: &KeyRef<'_>,
        version: Option<u32>,
    ) -> Result<Encapsulated, Error> {
        let make = || self.kms.encaps(&self.find(key)?, version);
        let told = |made: &Encapsulated| made_of(&made.by, None, &made.ciphertext);
        let again = |made: &Encapsulated| self.still(&made.by, Use::Encrypt, version.is_none());
        self.used(call, &of(Action::Encaps, key), None, make, told, again)
    }

    /// The secret that somebody made for a version.
    ///
    /// # Errors
    /// As [`crate::operations::Kms::decaps`].
    pub fn decaps(
        &self,
        call: &Call<'_>,
        key: &KeyRef<'_>,
        version: u32,
        ciphertext: &[u8],
    ) -> Result<SharedSecret, Error> {
        let input = Digest::of(ciphertext);
        let decaps = || {
            let by = self.version_of(key, version)?;
            Ok((self.kms.decaps(&by, ciphertext)?, by))
        };
        let told = |(_, by): &(SharedSecret, VersionId)| Told {
            input: Some(input),
            ..done(Some(by.to_string()))
        };
        let again = |(_, by): &(SharedSecret, VersionId)| self.still(by, Use::Decrypt, false);
        let request = of(Action::Decaps, key);
        Ok(self.used(call, &request, Some(input), decaps, told, again)?.0)
    }

    /// Random bytes.
    ///
    /// # Errors
    /// As [`crate::operations::Kms::random`].
    pub fn random(&self, call: &Call<'_>, len: usize) -> Result<Zeroizing<Vec<u8>>, Error> {
        let request = Request { action: Action::Random, tenant: None, key: None, items: 1 };
        let draw = || self.kms.random(len);
        self.used(call, &request, None, draw, |_| done(None), |_| Ok(()))
    }

    /// Makes a key of what somebody brings.
    ///
    /// # Errors
    /// As [`crate::operations::Kms::import`].
    pub fn import(
        &self,
        call: &Call<'_>,
        new: &NewKey,
        import: Import<'_>,
    ) -> Result<VersionId, Error> {
        let key = KeyRef { tenant: &new.tenant, name: &new.name };
        let take = || self.kms.import(new, import);
        self.changed(call, &of(Action::Import, &key), take, |id| Some(id.to_string()))
    }

    /// Gives a key one version more, of what somebody brings.
    ///
    /// # Errors
    /// As [`crate::operations::Kms::import_version`].
    pub fn import_version(
        &self,
        call: &Call<'_>,
        key: &KeyRef<'_>,
        import: Import<'_>,
    ) -> Result<VersionId, Error> {
        let take = || self.kms.import_version(&self.find(key)?, import);
        self.changed(call, &of(Action::Import, key), take, |id| Some(id.to_string()))
    }

    /// Gives out the private half of a version. The disk has the record before that.
    ///
    /// # Errors
    /// As [`crate::operations::Kms::export`].
    pub fn export(
        &self,
        call: &Call<'_>,
        key: &KeyRef<'_>,
        version: u32,
        form: ExportForm,
    ) -> Result<Zeroizing<Vec<u8>>, Error> {
        let give = || {
            let by = self.version_of(key, version)?;
            Ok((self.kms.export(&by, form)?, by))
        };
        let told = |(_, by): &(Zeroizing<Vec<u8>>, VersionId)| done(Some(by.to_string()));
        let request = of(Action::Export, key);
        let given = self.used_as(Class::Durable, call, &request, None, give, told, |_| Ok(()))?;
        Ok(given.0)
    }

    /// Allows a key's private half to be given out, for good.
    ///
    /// # Errors
    /// As [`crate::operations::Kms::allow_export`].
    pub fn allow_export(&self, call: &Call<'_>, key: &KeyRef<'_>) -> Result<(), Error> {
        self.change(call, Action::Config, key, |id: &KeyId| self.kms.allow_export(id))
    }

    /// Sets from when on a key makes nothing new.
    ///
    /// # Errors
    /// As [`crate::operations::Kms::set_expiry`].
    pub fn set_expiry(
        &self,
        call: &Call<'_>,
        key: &KeyRef<'_>,
        expires_ms: Option<u64>,
    ) -> Result<(), Error> {
        self.change(call, Action::Config, key, |id: &KeyId| self.kms.set_expiry(id, expires_ms))
    }

    fn version_of(&self, key: &KeyRef<'_>, version: u32) -> Result<VersionId, Error> {
        Ok(VersionId { key: self.find(key)?, version })
    }

    fn still(&self, by: &VersionId, what: Use, was_newest: bool) -> Result<(), Error> {
        self.kms.still_may(&by.key, by.version, what, was_newest)
    }
}

/// What is told of something that a version made.
fn made_of(by: &VersionId, input: Option<Digest>, output: &[u8]) -> Told {
    Told { input, output: Some(Digest::of(output)), ..done(Some(by.to_string())) }
}
