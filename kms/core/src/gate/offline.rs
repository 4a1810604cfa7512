//! Functions for tokens that need no server.

use zeroize::Zeroizing;

use super::caveat::Caveat;
use super::token::Token;
use crate::clock::{now_ms, rfc3339};
use crate::error::Error;

/// Appends caveats to a token. They cannot be removed again. This needs no key and no server.
///
/// # Errors
/// A malformed token or caveat; an `expires` caveat in the past, or after the token's own expiry.
pub fn attenuate_token(token: &str, caveats: &[String]) -> Result<Zeroizing<String>, Error> {
    let mut token: Token = token.parse()?;
    for caveat in caveats {
        let caveat = caveat.parse::<Caveat>()?;
        if let Caveat::Expires(ms) = caveat {
            check_end(ms, token.expires_ms())?;
        }
        token = token.attenuate(caveat)?;
    }
    Ok(Zeroizing::new(token.to_string()))
}

/// Rejects an expiry in the past, or after the token's own expiry.
fn check_end(ms: u64, own: Option<u64>) -> Result<(), Error> {
    let why = match own {
        _ if ms <= now_ms() => format!("expires={ms} is {}, which has passed", rfc3339(ms)),
        Some(own) if own < ms => {
            let (own, ms) = (rfc3339(own), rfc3339(ms));
            format!(
                "the token expires at {own}, and a caveat cannot extend it to {ms}; request a new token"
            )
        }
        Some(_) | None => return Ok(()),
    };
    Err(Error::Parameter(why))
}

/// Returns when a token expires, in milliseconds since 1970; `None` if the text is not a token or
/// the token does not expire.
pub fn expires_ms(token: &str) -> Option<u64> {
    token.parse::<Token>().ok()?.expires_ms()
}

/// Returns the id of a token; `None` if the text is not a token.
pub fn token_id(token: &str) -> Option<String> {
    Some(token.parse::<Token>().ok()?.id().to_string())
}
