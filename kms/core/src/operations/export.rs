//! Private halves that are given out, of keys that allow it.

use std::sync::Arc;

use gabion_engine::key_file::{self, FileForm};
use gabion_engine::keys::{Forms, PrivateKey};
use zeroize::Zeroizing;

use super::kms::Kms;
use super::metrics::Verb;
use super::records::{opened_bytes, read_written, version_path};
use crate::error::Error;
use crate::model::{Key, KeyId, Label, VersionId};
use crate::rsa;
use crate::transport::{Form, Place, Recipient};

impl Kms {
    /// Allows a key's private half to be given out, for good.
    ///
    /// # Errors
    /// No such key; one that is deleted; the store's.
    pub fn allow_export(&self, id: &KeyId) -> Result<(), Error> {
        self.change(id, |key| key.exportable())
    }

    /// Sets from when on a key makes nothing new, in milliseconds since 1970; or that it does so for ever. What it made
    /// goes on to be verified and decrypted.
    ///
    /// # Errors
    /// No such key; one that is deleted; the store's.
    pub fn set_expiry(&self, id: &KeyId, expires_ms: Option<u64>) -> Result<(), Error> {
        self.change(id, |key| key.expiring(expires_ms))
    }

    /// Sets whether the disk has the record of each use of a key before its answer; none: as the service is set up.
    ///
    /// # Errors
    /// No such key; one that is deleted; the store's.
    pub fn set_durable(&self, id: &KeyId, is_durable: Option<bool>) -> Result<(), Error> {
        self.change(id, |key| key.durable(is_durable))
    }

    /// Gives out the private half of a version.
    ///
    /// # Errors
    /// [`Error::NotExportable`]; no such key or version; one that is disabled; a form that the algorithm does not have.
    pub fn export(&self, id: &VersionId, form: Form) -> Result<Zeroizing<Vec<u8>>, Error> {
        self.counted(Verb::Export, id.key.algorithm, || Ok(self.given(id, form)?.0))
    }

    /// Gives out the private half of a version, wrapped for somebody: as that of a key of the same tenant and name.
    ///
    /// # Errors
    /// As [`Self::export`].
    pub fn export_wrapped(
        &self,
        id: &VersionId,
        form: Form,
        to: &Recipient,
    ) -> Result<Vec<u8>, Error> {
        self.counted(Verb::Export, id.key.algorithm, || {
            let (secret, name) = self.given(id, form)?;
            let KeyId { tenant, algorithm, .. } = &id.key;
            let place = Place { tenant, name: &name, algorithm: *algorithm, form };
            to.wrap(&self.context.engine, &place, &secret)
        })
    }

    /// The private half of a version, and its key's name.
    fn given(&self, id: &VersionId, form: Form) -> Result<(Zeroizing<Vec<u8>>, Label), Error> {
        // Nothing that withdraws the key comes between.
        let _changing = self.changing();
        let key = self.exportable(id)?;
        let path = version_path(&id.key, id.version)?;
        let found = match opened_bytes(&self.context, &path) {
            Err(Error::Destroyed) => None,
            found => found?,
        };
        let (bytes, _) = found.ok_or(Error::VersionDestroyed(id.version))?;
        let (version, written) = read_written(&path, &bytes)?;
        version.check_enabled()?;
        if written.secret.is_empty() {
            let why = "the service has no private half of this key";
            return Err(Error::Unsupported(why.to_owned()));
        }
        let secret = match form {
            Form::Raw => Zeroizing::new(written.secret.to_vec()),
            Form::Pkcs8 => self.pkcs8(id, &written)?,
        };
        Ok((secret, key.name.clone()))
    }

    /// Whether the private half of a version may still be given out.
    ///
    /// # Errors
    /// As [`Self::export`].
    pub(crate) fn still_exportable(&self, id: &VersionId) -> Result<(), Error> {
        self.exportable(id)?;
        self.version(&id.key, id.version)?.version.check_enabled()
    }

    /// The key of a version, if it allows its private halves to be given out and has that version.
    fn exportable(&self, id: &VersionId) -> Result<Arc<Key>, Error> {
        let key = self.key(&id.key)?.key;
        key.check_not_deleted()?;
        if !key.is_exportable {
            return Err(Error::NotExportable);
        }
        key.existing(id.version)?;
        Ok(key)
    }

    fn pkcs8(
        &self,
        id: &VersionId,
        written: &super::material::EncodedKey<'_>,
    ) -> Result<Zeroizing<Vec<u8>>, Error> {
        let no_form =
            || Error::Unsupported(format!("no standard has key files of {}", id.key.algorithm));
        if let Some(size) = id.key.algorithm.rsa() {
            let pair = rsa::PrivateKey::of_pkcs1(size.bits(), written.secret);
            return pair.and_then(|pair| pair.pkcs8());
        }
        let algorithm = id.key.algorithm.algorithm().ok_or_else(no_form)?;
        let form = FileForm::of(algorithm).ok_or_else(no_form)?;
        let forms = match written.is_seed() {
            true => Forms { seed: Some(written.secret), ..Forms::default() },
            false => Forms { expanded: Some(written.secret), ..Forms::default() },
        };
        let pair = PrivateKey::import(&self.context.engine, algorithm, &forms)?;
        key_file::encode_private(form, &pair.forms(), true).map_err(Error::Parameter)
    }
}
