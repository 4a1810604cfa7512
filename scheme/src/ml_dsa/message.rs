//! From what a caller signs to the message representative mu (FIPS 204, Algorithms 2, 4 and 7).

use super::params::MU_LEN;
use crate::ct;
use crate::error::Error;
use crate::kernels::{Sponge, Xof};
use crate::prehash::Prehash;

/// Most bytes of a context string (FIPS 204, Algorithm 2, line 1).
pub const CONTEXT_MAX: usize = 255;

/// What is signed or verified.
#[derive(Clone, Copy)]
pub enum Message<'a> {
    /// ML-DSA.Sign and ML-DSA.Verify (Algorithms 2 and 3).
    Pure {
        /// The context string, 255 bytes at most.
        context: &'a [u8],
        /// The message.
        message: &'a [u8],
    },
    /// HashML-DSA.Sign and HashML-DSA.Verify (Algorithms 4 and 5), the digest already made.
    Prehash {
        /// The context string, 255 bytes at most.
        context: &'a [u8],
        /// Which function made the digest.
        hash: Prehash,
        /// The digest, `hash.digest_len()` bytes.
        digest: &'a [u8],
    },
    /// The representative mu itself, computed elsewhere (Algorithm 7, line 6, comment).
    Mu(&'a [u8; MU_LEN]),
    /// The formatted message M' itself: ML-DSA.Sign_internal and ML-DSA.Verify_internal
    /// (Algorithms 7 and 8).
    Internal(&'a [u8]),
}

impl Message<'_> {
    /// Says what is wrong with the form, if anything is.
    ///
    /// # Errors
    /// [`Error::ContextTooLong`] and [`Error::DigestLength`].
    pub fn check(&self) -> Result<(), Error> {
        match *self {
            Message::Pure { context, .. } | Message::Prehash { context, .. }
                if context.len() > CONTEXT_MAX =>
            {
                Err(Error::ContextTooLong(context.len()))
            }
            Message::Prehash { hash, digest, .. } if digest.len() != hash.digest_len() => {
                Err(Error::DigestLength {
                    hash: hash.name(),
                    expected: hash.digest_len(),
                    got: digest.len(),
                })
            }
            _ => Ok(()),
        }
    }
}

/// What stands before the message in M': domain byte, context length, object identifier.
#[derive(Clone, Copy, Default)]
pub(super) struct Header {
    domain: [u8; 2],
    oid: [u8; 11],
}

impl Header {
    /// The header of a message whose form was checked.
    pub(super) fn new(message: &Message<'_>) -> Self {
        match *message {
            Message::Pure { context, .. } => {
                Header { domain: [0, context.len() as u8], oid: [0; 11] }
            }
            Message::Prehash { context, hash, .. } => {
                Header { domain: [1, context.len() as u8], oid: hash.oid_der() }
            }
            Message::Mu(_) | Message::Internal(_) => Header::default(),
        }
    }
}

/// The sponge that computes mu = H(tr || M', 64) (Algorithm 7, line 6); none if mu was given,
/// which is then copied.
pub(super) fn mu_sponge<'a>(
    tr: &'a [u8; MU_LEN],
    message: &Message<'a>,
    header: &'a Header,
    mu: &'a mut [u8; MU_LEN],
) -> Option<Sponge<'a>> {
    let Header { domain, oid } = header;
    match *message {
        Message::Pure { context, message } => {
            Some(Sponge::new(Xof::Shake256, [&tr[..], domain, context, message], mu))
        }
        Message::Prehash { context, digest, .. } => {
            Some(Sponge::new(Xof::Shake256, [&tr[..], domain, context, oid, digest], mu))
        }
        Message::Internal(formatted) => Some(Sponge::new(Xof::Shake256, [&tr[..], formatted], mu)),
        Message::Mu(given) => {
            *mu = *given;
            // A representative is a hash of public data, whoever computed it.
            ct::declassify(&mu[..]);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn form_is_checked() {
        let long = [0u8; 256];
        let pure = |context| Message::Pure { context, message: b"m" };
        assert_eq!(pure(&long[..255]).check(), Ok(()));
        assert_eq!(pure(&long).check(), Err(Error::ContextTooLong(256)));
        for hash in Prehash::all() {
            let len = hash.digest_len();
            let of = |context, digest| Message::Prehash { context, hash, digest };
            assert_eq!(of(&[], &long[..len]).check(), Ok(()));
            assert!(of(&[], &long[..len - 1]).check().is_err());
            assert!(of(&[], &long[..len + 1]).check().is_err());
            assert_eq!(of(&long, &long[..len]).check(), Err(Error::ContextTooLong(256)));
        }
        assert_eq!(Message::Mu(&[0; 64]).check(), Ok(()));
        assert_eq!(Message::Internal(&long).check(), Ok(()));
    }
}
