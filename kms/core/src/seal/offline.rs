//! Functions for wrapped shares that need no server.

use gabion_engine::{Engine, KemPrivateKey};
use zeroize::Zeroizing;

use super::holder::{Holder, WrappedShare};
use crate::error::{Error, SealError};

/// Parses the X-Wing public key (DER) of a share holder.
///
/// # Errors
/// A key that is not a valid X-Wing public key.
pub fn parse_holder(spki: &[u8]) -> Result<Holder, Error> {
    Holder::of_spki(Engine::global()?, spki)
}

/// Unwraps a share with its holder's X-Wing private key.
///
/// # Errors
/// A text that is not a wrapped share; a share that was wrapped for another key.
pub fn open_share(own: &KemPrivateKey, text: &str) -> Result<Zeroizing<String>, Error> {
    let of_share = |error| Error::Seal(SealError::Share(error));
    let wrapped: WrappedShare = text.parse().map_err(of_share)?;
    let share = wrapped.open(Engine::global()?, own)?;
    Ok(Zeroizing::new(share.to_string()))
}
