//! RSA signatures: PSS and PKCS#1 v1.5 (RFC 8017).
//!
//! A message without a scheme is signed by PSS, with a salt as long as the digest.

use std::borrow::Cow;

use gabion_engine::Message;

use super::material::Material;
use crate::error::Error;
use crate::rsa::{self, Scheme};
use crate::signable::Signable;

/// Signs with an RSA key.
///
/// # Errors
/// [`Error::Unsupported`] for other keys and for messages that RSA does not sign; a digest whose
/// length is wrong for its hash; a salt that is too long for the key.
pub fn sign(material: &Material, signable: &Signable<'_>) -> Result<Vec<u8>, Error> {
    let (scheme, digest) = scheme_and_digest(signable)?;
    material.rsa_private()?.sign_digest(scheme, &digest)
}

/// Verifies a signature with an RSA key.
///
/// # Errors
/// Those of [`sign`]; [`Error::Malformed`].
pub fn verify(
    material: &Material,
    signable: &Signable<'_>,
    signature: &[u8],
) -> Result<bool, Error> {
    let public = material.rsa_public().ok_or_else(rsa::no_rsa)?;
    let (scheme, digest) = scheme_and_digest(signable)?;
    rsa::verified(public, scheme, &digest, signature)
}

/// Returns the scheme and the digest that RSA signs.
fn scheme_and_digest<'a>(signable: &Signable<'a>) -> Result<(Scheme, Cow<'a, [u8]>), Error> {
    match *signable {
        Signable::Digest { scheme, digest } => Ok((scheme, digest.into())),
        Signable::Message(Message::Prehash { context, hash, digest }) => {
            Ok((rsa::usual_scheme(context, Some(hash))?, digest.into()))
        }
        Signable::Message(Message::Pure { context, message }) => {
            let scheme = rsa::usual_scheme(context, None)?;
            Ok((scheme, scheme.hash().digest(message).into()))
        }
        Signable::Message(Message::Mu(_) | Message::Internal(_)) => {
            Err(Error::Unsupported("RSA signs messages and their digests".to_owned()))
        }
    }
}
