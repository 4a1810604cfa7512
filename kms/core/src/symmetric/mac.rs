//! HMAC tags (FIPS 198-1).

use gabion_engine::Prehash;
use hmac::{Hmac, KeyInit, Mac as _};
use sha2::{Sha224, Sha256, Sha384, Sha512};
use sha3::{Sha3_224, Sha3_256, Sha3_384, Sha3_512};

use crate::model::Symmetric;

/// The minimum size of a key in bytes (NIST SP 800-224, section 4: 128 bits).
pub const MAC_KEY_MIN: usize = 16;

/// The maximum size of a key in bytes. Longer keys should be hashed first.
pub const MAC_KEY_MAX: usize = 512;

/// The HMAC state of a message that arrives in pieces.
pub struct MacPieces(Mac);

/// Defines [`Mac`] and its methods from one list of hashes.
macro_rules! hashes {
    ($($hash:ident = $prehash:ident;)*) => {
        /// An expanded HMAC key.
        pub enum Mac {
            $($hash(Box<Hmac<$hash>>),)*
        }

        impl Mac {
            /// Expands a key for a hash. Returns `None` if there is no HMAC with the hash, or the
            /// key is too short or too long.
            pub fn of_hash(hash: Prehash, key: &[u8]) -> Option<Self> {
                if !(MAC_KEY_MIN..=MAC_KEY_MAX).contains(&key.len()) {
                    return None;
                }
                match hash {
                    $(Prehash::$prehash => {
                        Some(Mac::$hash(Box::new(Hmac::new_from_slice(key).ok()?)))
                    })*
                    _ => None,
                }
            }

            /// Returns the hash.
            pub fn hash(&self) -> Prehash {
                match self {
                    $(Mac::$hash(_) => Prehash::$prehash,)*
                }
            }

            /// Begins a message that arrives in pieces.
            pub fn pieces(&self) -> MacPieces {
                MacPieces(match self {
                    $(Mac::$hash(key) => Mac::$hash(key.clone()),)*
                })
            }
        }

        impl MacPieces {
            /// Adds the next piece.
            pub fn add(&mut self, piece: &[u8]) {
                match &mut self.0 {
                    $(Mac::$hash(state) => state.update(piece),)*
                }
            }

            /// Returns the tag of all pieces.
            pub fn tag(&self) -> Vec<u8> {
                match &self.0 {
                    $(Mac::$hash(state) => made(&**state),)*
                }
            }
        }
    };
}

hashes! {
    Sha224 = Sha2_224;
    Sha256 = Sha2_256;
    Sha384 = Sha2_384;
    Sha512 = Sha2_512;
    Sha3_224 = Sha3_224;
    Sha3_256 = Sha3_256;
    Sha3_384 = Sha3_384;
    Sha3_512 = Sha3_512;
}

impl Mac {
    /// Expands a key; `None` if the algorithm makes no tags, or the key is too short or too long.
    pub fn new(algorithm: Symmetric, key: &[u8]) -> Option<Self> {
        let hash = match algorithm {
            Symmetric::HmacSha256 => Prehash::Sha2_256,
            Symmetric::HmacSha384 => Prehash::Sha2_384,
            Symmetric::HmacSha512 => Prehash::Sha2_512,
            Symmetric::Xaes256Gcm | Symmetric::Aes256Gcm96 | Symmetric::ChaCha20Poly1305 => {
                return None;
            }
        };
        Mac::of_hash(hash, key)
    }

    /// Returns the tag of a message.
    pub fn tag(&self, message: &[u8]) -> Vec<u8> {
        let mut pieces = self.pieces();
        pieces.add(message);
        pieces.tag()
    }

    /// Returns the size of a tag in bytes.
    pub fn tag_len(&self) -> usize {
        self.hash().digest_len()
    }
}

fn made<M: hmac::Mac + Clone>(state: &M) -> Vec<u8> {
    state.clone().finalize().into_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4231, section 4.2, for SHA-2. NIST's example values of HMAC-SHA3 use other keys, so the
    /// expected SHA-3 tags were computed by OpenSSL for the same input.
    #[test]
    fn tags_are_the_standards() {
        for (hash, tag) in [
            (Prehash::Sha2_224, "896fb1128abbdf196832107cd49df33f47b4b1169912ba4f53684b22"),
            (Prehash::Sha2_256, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"),
            (
                Prehash::Sha2_384,
                "afd03944d84895626b0825f4ab46907f15f9dadbe4101ec682aa034c7cebc59cfaea9ea9076ede7f4af152e8b2fa9cb6",
            ),
            (
                Prehash::Sha2_512,
                "87aa7cdea5ef619d4ff0b4241a1d6cb02379f4e2ce4ec2787ad0b30545e17cdedaa833b7d6b8a702038b274eaea3f4e4be9d914eeb61f1702e696c203a126854",
            ),
            (Prehash::Sha3_224, "3b16546bbc7be2706a031dcafd56373d9884367641d8c59af3c860f7"),
            (Prehash::Sha3_256, "ba85192310dffa96e2a3a40e69774351140bb7185e1202cdcc917589f95e16bb"),
            (
                Prehash::Sha3_384,
                "68d2dcf7fd4ddd0a2240c8a437305f61fb7334cfb5d0226e1bc27dc10a2e723a20d370b47743130e26ac7e3d532886bd",
            ),
            (
                Prehash::Sha3_512,
                "eb3fbd4b2eaab8f5c504bd3a41465aacec15770a7cabac531e482f860b5ec7ba47ccb2c6f2afce8f88d22b6dc61380f23a668fd3888bb80537c0a0b86407689e",
            ),
        ] {
            let mac = Mac::of_hash(hash, &[0x0b; 20]).unwrap();
            assert_eq!(base16ct::lower::encode_string(&mac.tag(b"Hi There")), tag, "{hash:?}");
            assert_eq!((mac.hash(), mac.tag_len() * 2), (hash, tag.len()));
            assert!(Mac::of_hash(hash, &[0; 15]).is_none());
        }
        for hash in [Prehash::Shake128, Prehash::Sha2_512_224] {
            assert!(Mac::of_hash(hash, &[0; 32]).is_none());
        }
        let own = Mac::new(Symmetric::HmacSha384, &[0; 48]).unwrap();
        assert_eq!(own.hash(), Prehash::Sha2_384);
        assert!(Mac::new(Symmetric::Xaes256Gcm, &[0; 32]).is_none());
    }
}
