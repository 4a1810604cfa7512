//! Export of private keys that allow it.

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
    /// Makes a key exportable. This cannot be undone.
    ///
    /// # Errors
    /// A missing or deleted key; errors of the store.
    pub fn allow_export(&self, id: &KeyId) -> Result<(), Error> {
        self.change(id, |key| key.exportable())
    }

    /// Sets when a key expires, in milliseconds since 1970; `None` for never. An expired key still
    /// verifies and decrypts.
    ///
    /// # Errors
    /// A missing or deleted key; errors of the store.
    pub fn set_expiry(&self, id: &KeyId, expires_ms: Option<u64>) -> Result<(), Error> {
        self.change(id, |key| key.expiring(expires_ms))
    }

    /// Sets whether the audit record of each use of a key is synced to the disk before the answer;
    /// `None` for the service's default.
    ///
    /// # Errors
    /// A missing or deleted key; errors of the store.
    pub fn set_durable(&self, id: &KeyId, is_durable: Option<bool>) -> Result<(), Error> {
        self.change(id, |key| key.durable(is_durable))
    }

    /// Exports the private key of a version.
    ///
    /// # Errors
    /// [`Error::NotExportable`]; a missing key or version; a disabled version; a form that the
    /// algorithm does not have.
    pub fn export(&self, id: &VersionId, form: Form) -> Result<Zeroizing<Vec<u8>>, Error> {
        self.counted(Verb::Export, id.key.algorithm, || Ok(self.given(id, form)?.0))
    }

    /// Exports the private key of a version, wrapped for a recipient. The wrapping is bound to the
    /// key's tenant and name.
    ///
    /// # Errors
    /// Those of [`Self::export`].
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

    /// Returns the private key of a version, and its key's name.
    fn given(&self, id: &VersionId, form: Form) -> Result<(Zeroizing<Vec<u8>>, Label), Error> {
        // No change that withdraws the key comes in between.
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

    /// Checks that the private key of a version may still be exported.
    ///
    /// # Errors
    /// Those of [`Self::export`].
    pub(crate) fn still_exportable(&self, id: &VersionId) -> Result<(), Error> {
        self.exportable(id)?;
        self.version(&id.key, id.version)?.version.check_enabled()
    }

    /// Returns the key of a version, if the key is exportable and has that version.
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
