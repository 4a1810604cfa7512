//! Tags: HMAC (FIPS 198-1).

use hmac::{Hmac, KeyInit, Mac as _};
use sha2_hmac::{Sha256, Sha384, Sha512};

use crate::model::Symmetric;

/// Fewest bytes of a key (NIST SP 800-224, section 4: 128 bits).
pub const MAC_KEY_MIN: usize = 16;

/// Most bytes of a key: what is longer was hashed by whoever made it.
pub const MAC_KEY_MAX: usize = 512;

/// A key that makes tags, expanded.
pub enum Mac {
    Sha256(Box<Hmac<Sha256>>),
    Sha384(Box<Hmac<Sha384>>),
    Sha512(Box<Hmac<Sha512>>),
}

/// What the pieces of a message have come to, under a key.
pub struct MacPieces(Mac);

impl Mac {
    /// None for an algorithm that makes no tags, and for a key that is too short or too long.
    pub fn new(algorithm: Symmetric, key: &[u8]) -> Option<Self> {
        if !(MAC_KEY_MIN..=MAC_KEY_MAX).contains(&key.len()) {
            return None;
        }
        match algorithm {
            Symmetric::HmacSha256 => Some(Mac::Sha256(Box::new(Hmac::new_from_slice(key).ok()?))),
            Symmetric::HmacSha384 => Some(Mac::Sha384(Box::new(Hmac::new_from_slice(key).ok()?))),
            Symmetric::HmacSha512 => Some(Mac::Sha512(Box::new(Hmac::new_from_slice(key).ok()?))),
            Symmetric::Xaes256Gcm | Symmetric::Aes256Gcm96 | Symmetric::ChaCha20Poly1305 => None,
        }
    }

    /// The tag of a message.
    pub fn tag(&self, message: &[u8]) -> Vec<u8> {
        let mut pieces = self.pieces();
        pieces.add(message);
        pieces.tag()
    }

    /// A message of which nothing came.
    pub fn pieces(&self) -> MacPieces {
        MacPieces(match self {
            Mac::Sha256(key) => Mac::Sha256(key.clone()),
            Mac::Sha384(key) => Mac::Sha384(key.clone()),
            Mac::Sha512(key) => Mac::Sha512(key.clone()),
        })
    }

    /// Bytes of a tag.
    pub fn tag_len(&self) -> usize {
        match self {
            Mac::Sha256(_) => 32,
            Mac::Sha384(_) => 48,
            Mac::Sha512(_) => 64,
        }
    }
}

impl MacPieces {
    /// Takes the next piece.
    pub fn add(&mut self, piece: &[u8]) {
        match &mut self.0 {
            Mac::Sha256(state) => state.update(piece),
            Mac::Sha384(state) => state.update(piece),
            Mac::Sha512(state) => state.update(piece),
        }
    }

    /// The tag of all that came.
    pub fn tag(&self) -> Vec<u8> {
        match &self.0 {
            Mac::Sha256(state) => made(&**state),
            Mac::Sha384(state) => made(&**state),
            Mac::Sha512(state) => made(&**state),
        }
    }
}

fn made<M: hmac::Mac + Clone>(state: &M) -> Vec<u8> {
    state.clone().finalize().into_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4231, section 4.2.
    #[test]
    fn tags_are_the_standards() {
        for (algorithm, tag) in [
            (
                Symmetric::HmacSha256,
                "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
            ),
            (
                Symmetric::HmacSha384,
                "afd03944d84895626b0825f4ab46907f15f9dadbe4101ec682aa034c7cebc59cfaea9ea9076ede7f4af152e8b2fa9cb6",
            ),
            (
                Symmetric::HmacSha512,
                "87aa7cdea5ef619d4ff0b4241a1d6cb02379f4e2ce4ec2787ad0b30545e17cdedaa833b7d6b8a702038b274eaea3f4e4be9d914eeb61f1702e696c203a126854",
            ),
        ] {
            let mac = Mac::new(algorithm, &[0x0b; 20]).unwrap();
            assert_eq!(hex::encode(mac.tag(b"Hi There")), tag);
            assert_eq!(mac.tag_len() * 2, tag.len());
            assert!(Mac::new(algorithm, &[0; 15]).is_none());
        }
        assert!(Mac::new(Symmetric::Xaes256Gcm, &[0; 32]).is_none());
    }
}
