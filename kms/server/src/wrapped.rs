//! Wrapping keys, for whoever is no server.

use gabion_kms::Error;
use gabion_kms::model::Label;
use gabion_kms::transport::{Form, Place, Recipient};

/// Wraps the bytes of a key for a service, whose public key comes as DER, so that it can be imported there by X-Wing under
/// this tenant, name and algorithm, in this form.
///
/// # Errors
/// No name, algorithm or public key; no randomness.
pub fn wrapped(
    service: &[u8],
    [tenant, name, algorithm, form]: [&str; 4],
    key: &[u8],
) -> Result<Vec<u8>, Error> {
    let engine = gabion_engine::Engine::global()?;
    let (tenant, name) = (Label::new("tenant", tenant)?, Label::new("key", name)?);
    let algorithm = algorithm.to_ascii_lowercase().parse()?;
    let form: Form = form.parse()?;
    let place = Place { tenant: &tenant, name: &name, algorithm, form };
    Recipient::of_spki(engine, service)?.wrap(engine, &place, key)
}
