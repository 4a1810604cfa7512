//! The message to sign, in the form that the crates take.

use super::params::{Design, Params};
use crate::error::Error;
use crate::message::Message;

/// The crates' identifiers of the signed content.
const RAW: &[u8] = &[0x00];
const MU: &[u8] = &[0xFE];
const ORIGINAL: &[u8] = &[0xFF];

/// A message taken apart for a crate.
pub(super) struct Parts<'a> {
    /// The context string, 255 bytes at most.
    pub(super) context: &'a [u8],
    /// The crate's identifier of the kind of `data`.
    pub(super) hash: &'a [u8],
    /// The message, the digest, or mu.
    pub(super) data: &'a [u8],
}

/// Checks a message for this parameter set. Falcon signs messages directly; FN-DSA has contexts,
/// digests and mu like ML-DSA.
///
/// # Errors
/// Those of [`Message::check`], and [`Error::Unsupported`].
pub fn check_message(params: &Params, message: &Message<'_>) -> Result<(), Error> {
    message.check()?;
    let refuse =
        |operation| Err(Error::Unsupported { algorithm: params.algorithm.name(), operation });
    match (params.design, message) {
        (_, Message::Internal(_)) => refuse("sign a formatted message"),
        (Design::FnDsaDraft, _) => Ok(()),
        (Design::Falcon, Message::Pure { context: [], .. }) => Ok(()),
        (Design::Falcon, Message::Pure { .. }) => refuse("sign with a context"),
        (Design::Falcon, Message::Prehash { .. }) => refuse("sign a digest"),
        (Design::Falcon, _) => refuse("sign a representative mu"),
    }
}

/// Splits a message and calls `then` with the parts; `None` if [`check_message`] rejects it.
pub(super) fn with_parts<T>(
    params: &Params,
    message: &Message<'_>,
    then: impl FnOnce(&Parts<'_>) -> T,
) -> Option<T> {
    check_message(params, message).ok()?;
    Some(match (params.design, *message) {
        (Design::Falcon, Message::Pure { message, .. }) => {
            then(&Parts { context: &[], hash: ORIGINAL, data: message })
        }
        (_, Message::Pure { context, message }) => {
            then(&Parts { context, hash: RAW, data: message })
        }
        (_, Message::Prehash { context, hash, digest }) => {
            then(&Parts { context, hash: &hash.oid_der(), data: digest })
        }
        (_, Message::Mu(mu)) => then(&Parts { context: &[], hash: MU, data: mu }),
        (_, Message::Internal(_)) => return None,
    })
}
