//! Messages in the form that ML-DSA and SLH-DSA have in common.

use crate::error::Error;
use crate::prehash::Prehash;

/// Most bytes of a context string (FIPS 204, Algorithm 2, line 1; FIPS 205, Algorithm 22, line 1).
pub const CONTEXT_MAX: usize = 255;

/// A message to sign or verify.
#[derive(Clone, Copy)]
pub enum Message<'a> {
    /// ML-DSA.Sign and ML-DSA.Verify (FIPS 204, Algorithms 2 and 3), slh_sign and slh_verify
    /// (FIPS 205, Algorithms 22 and 24).
    Pure {
        /// The context string, 255 bytes at most.
        context: &'a [u8],
        /// The message.
        message: &'a [u8],
    },
    /// HashML-DSA.Sign and HashML-DSA.Verify (FIPS 204, Algorithms 4 and 5), hash_slh_sign and
    /// hash_slh_verify (FIPS 205, Algorithms 23 and 25), the digest already made.
    Prehash {
        /// The context string, 255 bytes at most.
        context: &'a [u8],
        /// The hash function of the digest.
        hash: Prehash,
        /// The digest, `hash.digest_len()` bytes.
        digest: &'a [u8],
    },
    /// The representative mu itself, computed elsewhere (FIPS 204, Algorithm 7, line 6, comment).
    /// ML-DSA only.
    Mu(&'a [u8; 64]),
    /// The formatted message M' itself: ML-DSA.Sign_internal and ML-DSA.Verify_internal (FIPS 204,
    /// Algorithms 7 and 8), slh_sign_internal and slh_verify_internal (FIPS 205, Algorithms 19
    /// and 20).
    Internal(&'a [u8]),
}

impl Message<'_> {
    /// Checks the form of a message.
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

/// The bytes before the message in M': domain byte, context length, object identifier.
#[derive(Clone, Copy, Default)]
pub struct Header {
    domain: [u8; 2],
    oid: [u8; 11],
}

impl Header {
    /// The header of a message whose form was checked.
    pub fn new(message: &Message<'_>) -> Self {
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

    /// Returns the formatted message M' of `message` in pieces; unused ones are empty, as all are
    /// for mu.
    pub fn formatted<'a>(&'a self, message: &Message<'a>) -> [&'a [u8]; 4] {
        let Header { domain, oid } = self;
        match *message {
            Message::Pure { context, message } => [domain, context, message, &[]],
            Message::Prehash { context, digest, .. } => [domain, context, oid, digest],
            Message::Internal(formatted) => [formatted, &[], &[], &[]],
            Message::Mu(_) => [&[]; 4],
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
