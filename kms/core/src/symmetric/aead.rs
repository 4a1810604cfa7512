//! Authenticated encryption.

use aes_gcm::aead::{AeadInOut, KeyInit};
use aes_gcm::{Aes256Gcm, Nonce, Tag};
use chacha20poly1305::ChaCha20Poly1305;
use gabion_engine::{Entropy, Error as EngineError, OsEntropy};
use zeroize::{Zeroize, Zeroizing};

use super::xaes::{self, Xaes256Gcm};
use crate::error::Error;
use crate::model::Symmetric;

/// The size of a tag in bytes.
const TAG: usize = 16;

/// The size of a short nonce in bytes.
const SHORT: usize = 12;

/// The maximum size of a message in bytes. AES-GCM would allow 64 GiB (NIST SP 800-38D, section
/// 5.2.1.1), but that takes too long.
pub const MESSAGE_MAX: usize = 1 << 30;

/// An expanded encryption key.
pub enum Aead {
    Xaes(Box<Xaes256Gcm>),
    Gcm(Box<Aes256Gcm>),
    ChaCha(Box<ChaCha20Poly1305>),
}

impl Aead {
    /// Expands a key; `None` if the algorithm does not encrypt or the key's size is wrong.
    pub fn new(algorithm: Symmetric, key: &[u8]) -> Option<Self> {
        let key: &[u8; 32] = key.try_into().ok()?;
        match algorithm {
            Symmetric::Xaes256Gcm => Some(Aead::Xaes(Box::new(Xaes256Gcm::new(key)))),
            Symmetric::Aes256Gcm96 => Some(Aead::Gcm(Box::new(Aes256Gcm::new(key.into())))),
            Symmetric::ChaCha20Poly1305 => {
                Some(Aead::ChaCha(Box::new(ChaCha20Poly1305::new(key.into()))))
            }
            Symmetric::HmacSha256 | Symmetric::HmacSha384 | Symmetric::HmacSha512 => None,
        }
    }

    /// Encrypts with a random nonce. Returns nonce, ciphertext and tag, concatenated.
    ///
    /// # Errors
    /// A message that is too long; no randomness.
    pub fn seal(&self, plain: &[u8], beside: &[u8]) -> Result<Vec<u8>, Error> {
        let mut nonce = [0; xaes::NONCE];
        let nonce = &mut nonce[..self.nonce_len()];
        OsEntropy.fill(nonce).map_err(EngineError::from)?;
        self.seal_with(nonce, plain, beside)
    }

    /// Encrypts with a nonce, which must be unique for this key. Returns nonce, ciphertext and tag,
    /// concatenated.
    pub fn seal_with(&self, nonce: &[u8], plain: &[u8], beside: &[u8]) -> Result<Vec<u8>, Error> {
        let too_large =
            || Error::TooLarge { what: "bytes to encrypt", most: MESSAGE_MAX, got: plain.len() };
        if plain.len() > MESSAGE_MAX {
            return Err(too_large());
        }
        let mut sealed = Vec::with_capacity(nonce.len() + plain.len() + TAG);
        sealed.extend_from_slice(nonce);
        sealed.extend_from_slice(plain);
        let bytes = &mut sealed[nonce.len()..];
        let tag = match self.keyed(nonce) {
            Some(KeyedCipher::Gcm(cipher, nonce)) => {
                cipher.encrypt_inout_detached(&Nonce::from(nonce), beside, bytes.into())
            }
            Some(KeyedCipher::Derived(cipher, nonce)) => {
                cipher.encrypt_inout_detached(&Nonce::from(nonce), beside, bytes.into())
            }
            Some(KeyedCipher::ChaCha(cipher, nonce)) => {
                cipher.encrypt_inout_detached(&Nonce::from(nonce), beside, bytes.into())
            }
            None => Err(aes_gcm::Error),
        };
        match tag {
            Ok(tag) => {
                sealed.extend_from_slice(&tag);
                Ok(sealed)
            }
            Err(_) => {
                sealed.zeroize();
                Err(too_large())
            }
        }
    }

    /// Decrypts the output of [`Self::seal`]; `None` for anything else, without the cause.
    pub fn open(&self, sealed: &[u8], beside: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let (nonce, rest) = sealed.split_at_checked(self.nonce_len())?;
        let (bytes, tag) = rest.split_last_chunk::<TAG>()?;
        let tag = Tag::from(*tag);
        let mut plain = Zeroizing::new(bytes.to_vec());
        let bytes = (&mut plain[..]).into();
        let opened = match self.keyed(nonce)? {
            KeyedCipher::Gcm(cipher, nonce) => {
                cipher.decrypt_inout_detached(&Nonce::from(nonce), beside, bytes, &tag)
            }
            KeyedCipher::Derived(cipher, nonce) => {
                cipher.decrypt_inout_detached(&Nonce::from(nonce), beside, bytes, &tag)
            }
            KeyedCipher::ChaCha(cipher, nonce) => {
                cipher.decrypt_inout_detached(&Nonce::from(nonce), beside, bytes, &tag)
            }
        };
        opened.ok().map(|()| plain)
    }

    fn nonce_len(&self) -> usize {
        match self {
            Aead::Xaes(_) => xaes::NONCE,
            Aead::Gcm(_) | Aead::ChaCha(_) => SHORT,
        }
    }

    /// Returns the cipher for a nonce of the right length.
    fn keyed(&self, nonce: &[u8]) -> Option<KeyedCipher<'_>> {
        Some(match self {
            Aead::Xaes(key) => {
                let (cipher, nonce) = key.derived(nonce.try_into().ok()?);
                KeyedCipher::Derived(Box::new(cipher), nonce)
            }
            Aead::Gcm(cipher) => KeyedCipher::Gcm(cipher, nonce.try_into().ok()?),
            Aead::ChaCha(cipher) => KeyedCipher::ChaCha(cipher, nonce.try_into().ok()?),
        })
    }
}

/// A cipher and its nonce.
enum KeyedCipher<'a> {
    Gcm(&'a Aes256Gcm, [u8; SHORT]),
    Derived(Box<Aes256Gcm>, [u8; SHORT]),
    ChaCha(&'a ChaCha20Poly1305, [u8; SHORT]),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Vec<u8> {
        base16ct::mixed::decode_vec(text).unwrap()
    }

    /// C2SP, XAES-256-GCM, "Test vectors".
    #[test]
    fn xaes_is_c2sps() {
        let nonce = b"ABCDEFGHIJKLMNOPQRSTUVWX";
        for (key, beside, wanted) in [
            ([1; 32], &b""[..], "ce546ef63c9cc60765923609b33a9a1974e96e52daf2fcf7075e2271"),
            (
                [3; 32],
                b"c2sp.org/XAES-256-GCM",
                "986ec1832593df5443a179437fd083bf3fdb41abd740a21f71eb769d",
            ),
        ] {
            let aead = Aead::new(Symmetric::Xaes256Gcm, &key).unwrap();
            let sealed = aead.seal_with(nonce, b"XAES-256-GCM", beside).unwrap();
            assert_eq!(sealed, [&nonce[..], &bytes(wanted)].concat());
            assert_eq!(&**aead.open(&sealed, beside).unwrap(), b"XAES-256-GCM");
        }
    }

    /// The GCM specification of McGrew and Viega, test case 16; RFC 8439, section 2.8.2.
    #[test]
    fn short_nonces_are_the_standards() {
        let key = "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308";
        let aead = Aead::new(Symmetric::Aes256Gcm96, &bytes(key)).unwrap();
        let plain = bytes(
            "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
        );
        let beside = bytes("feedfacedeadbeeffeedfacedeadbeefabaddad2");
        let sealed = aead.seal_with(&bytes("cafebabefacedbaddecaf888"), &plain, &beside).unwrap();
        assert_eq!(
            base16ct::lower::encode_string(&sealed[12..]),
            "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f66276fc6ece0f4e1768cddf8853bb2d551b"
        );
        let key: Vec<u8> = (0x80..0xa0).collect();
        let aead = Aead::new(Symmetric::ChaCha20Poly1305, &key).unwrap();
        let plain = b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, sunscreen would be it.";
        let beside = bytes("50515253c0c1c2c3c4c5c6c7");
        let sealed = aead.seal_with(&bytes("070000004041424344454647"), plain, &beside).unwrap();
        assert_eq!(base16ct::lower::encode_string(&sealed[12..20]), "d31a8d34648e60db");
        assert_eq!(
            base16ct::lower::encode_string(&sealed[sealed.len() - 16..]),
            "1ae10b594f09e26a7e902ecbd0600691"
        );
    }

    #[test]
    fn modified_ciphertext_does_not_open() {
        for algorithm in Symmetric::ALL.into_iter().filter(|algorithm| algorithm.is_aead()) {
            let aead = Aead::new(algorithm, &[7; 32]).unwrap();
            let sealed = aead.seal(b"secret", b"beside").unwrap();
            assert_ne!(aead.seal(b"secret", b"beside").unwrap(), sealed);
            assert_eq!(&**aead.open(&sealed, b"beside").unwrap(), b"secret");
            assert!(aead.open(&sealed, b"besid").is_none());
            assert!(Aead::new(algorithm, &[8; 32]).unwrap().open(&sealed, b"beside").is_none());
            for place in 0..sealed.len() {
                let mut other = sealed.clone();
                other[place] ^= 1;
                assert!(aead.open(&other, b"beside").is_none(), "{algorithm:?} {place}");
                assert!(aead.open(&sealed[..place], b"beside").is_none());
            }
            assert!(Aead::new(algorithm, &[7; 31]).is_none());
        }
        assert!(Aead::new(Symmetric::HmacSha256, &[7; 32]).is_none());
    }
}
