//! Tokens without a server.

use gabion_kms::gate::{Caveat, Token};
use zeroize::Zeroizing;

use crate::error::Error;

/// A token that may less: with caveats besides, which nobody takes away again. It needs no key and asks nobody.
///
/// # Errors
/// What is no token, or no caveat.
pub fn attenuated(token: &str, caveats: &[String]) -> Result<Zeroizing<String>, Error> {
    let mut token: Token = token.parse()?;
    for caveat in caveats {
        token = token.attenuate(caveat.parse::<Caveat>()?)?;
    }
    Ok(Zeroizing::new(token.to_string()))
}
