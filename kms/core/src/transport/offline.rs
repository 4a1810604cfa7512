//! Functions for wrapped keys that need no server.

use gabion_engine::{Engine, KemPrivateKey};
use zeroize::Zeroizing;

use super::{Form, Place, Recipient, open_by_x_wing};
use crate::error::Error;
use crate::model::{KeyAlgorithm, Label};

/// The tenant, name, algorithm and form that a wrapped key is bound to.
struct ImportTarget {
    tenant: Label,
    name: Label,
    algorithm: KeyAlgorithm,
    form: Form,
}

impl ImportTarget {
    fn parse([tenant, name, algorithm, form]: [&str; 4]) -> Result<Self, Error> {
        Ok(ImportTarget {
            tenant: Label::new("tenant", tenant)?,
            name: Label::new("key", name)?,
            algorithm: KeyAlgorithm::named(algorithm)?,
            form: form.parse()?,
        })
    }

    fn place(&self) -> Place<'_> {
        let ImportTarget { tenant, name, algorithm, form } = self;
        Place { tenant, name, algorithm: *algorithm, form: *form }
    }
}

/// Wraps the bytes of a key for a service's public key (DER), for an X-Wing import under this
/// tenant, name and algorithm, in this form.
///
/// # Errors
/// An invalid name, algorithm or public key; no randomness.
pub fn wrap_key(service: &[u8], of: [&str; 4], key: &[u8]) -> Result<Vec<u8>, Error> {
    let engine = Engine::global()?;
    let target = ImportTarget::parse(of)?;
    Recipient::of_spki(engine, service)?.wrap(engine, &target.place(), key)
}

/// Unwraps a key that a service exported for an X-Wing public key, under this tenant, name and
/// algorithm, in this form. Wrapping does not authenticate the sender, because the public key is
/// not secret.
///
/// # Errors
/// An invalid name or algorithm; [`Error::DecryptFailed`], without the cause.
pub fn unwrap_key(
    own: &KemPrivateKey,
    of: [&str; 4],
    wrapped: &[u8],
) -> Result<Zeroizing<Vec<u8>>, Error> {
    let target = ImportTarget::parse(of)?;
    open_by_x_wing(Engine::global()?, own, &target.place().info(), wrapped)
}

/// Returns the form in which a service exports keys of an algorithm by default: `pkcs8` or `raw`.
///
/// # Errors
/// An invalid algorithm.
pub fn default_form(algorithm: &str) -> Result<&'static str, Error> {
    Ok(Form::usual(KeyAlgorithm::named(algorithm)?).as_str())
}
