//! An AES-256 key by RSAES-OAEP (RFC 8017, section 7.1), followed by the key wrapped by AES-KWP
//! (RFC 5649). This is the import format of Vault's Transit, and CKM_RSA_AES_KEY_WRAP of PKCS#11.

use aes_kw::{KeyInit, KwpAes256};
use gabion_engine::{Entropy, Error as EngineError, OsEntropy};
use zeroize::Zeroizing;

use super::KEY_MAX;
use crate::error::Error;
use crate::rsa::{self, Hash};

/// The size of the AES key in bytes.
const AES: usize = 32;

/// The block size of AES-KWP, and the size of its prefix, in bytes.
const SEMIBLOCK: usize = 8;

/// Wraps a key for the holder of a private key.
///
/// # Errors
/// No randomness.
pub fn seal(public: &rsa::PublicKey, hash: Hash, key: &[u8]) -> Result<Vec<u8>, Error> {
    let mut aes = Zeroizing::new([0; AES]);
    OsEntropy.fill(&mut aes[..]).map_err(EngineError::from)?;
    let of_aes = public.encrypt(hash, &aes[..], b"")?;
    let mut wrapped = vec![0; key.len().div_ceil(SEMIBLOCK) * SEMIBLOCK + SEMIBLOCK];
    kwp(&aes)?.wrap_key(key, &mut wrapped).map_err(|_| internal())?;
    Ok([of_aes, wrapped].concat())
}

/// Unwraps a key.
///
/// # Errors
/// [`Error::DecryptFailed`], without the cause; no randomness.
pub fn open(
    private: &rsa::PrivateKey,
    hash: Hash,
    wrapped: &[u8],
) -> Result<Zeroizing<Vec<u8>>, Error> {
    let modulus = private.public().bits() / 8;
    let (of_aes, wrapped) = wrapped.split_at_checked(modulus).ok_or(Error::DecryptFailed)?;
    // A single semiblock would not be decrypted at all: it could be forged from the standard's
    // fixed first eight bytes.
    if !(2 * SEMIBLOCK..=KEY_MAX + 2 * SEMIBLOCK).contains(&wrapped.len()) {
        return Err(Error::DecryptFailed);
    }
    let aes = private.decrypt(hash, of_aes, b"")?;
    let aes: &[u8; AES] =
        aes.first_chunk().filter(|_| aes.len() == AES).ok_or(Error::DecryptFailed)?;
    let mut room = Zeroizing::new(vec![0; wrapped.len() - SEMIBLOCK]);
    let key = kwp(aes)?.unwrap_key(wrapped, &mut room).map_err(|_| Error::DecryptFailed)?;
    Ok(Zeroizing::new(key.to_vec()))
}

fn kwp(key: &[u8; AES]) -> Result<KwpAes256, Error> {
    KwpAes256::new_from_slice(key).map_err(|_| internal())
}

/// The error for lengths that cannot happen.
fn internal() -> Error {
    Error::Engine(EngineError::Lost)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 5649, section 6, uses a key of 192 bits, and is tested by the crate itself. This tests
    /// the form of wrapped keys, and that nothing else unwraps.
    #[test]
    fn oaep_key_wrap_opens_only_its_own_output() {
        let private = rsa::PrivateKey::testing_only_of_seed(2048, [8; 32]).unwrap();
        for (hash, len) in [(Hash::Sha256, 1), (Hash::Sha384, 8), (Hash::Sha512, 33)] {
            let key = vec![7; len];
            let wrapped = seal(private.public(), hash, &key).unwrap();
            assert_eq!(wrapped.len(), 256 + 8 + len.div_ceil(8) * 8);
            assert_eq!(**open(&private, hash, &wrapped).unwrap(), *key);
            let refused = |hash, wrapped: &[u8]| {
                assert_eq!(open(&private, hash, wrapped).err(), Some(Error::DecryptFailed));
            };
            let other = Hash::ALL.into_iter().find(|other| *other != hash).unwrap();
            refused(other, &wrapped);
            for at in [0, 1, 255, 256, 264, wrapped.len() - 1] {
                refused(hash, &wrapped[..at]);
            }
            refused(hash, &[&wrapped[..], &[0; 8]].concat());
            refused(hash, &vec![0; 256 + KEY_MAX + 24]);
            for place in [0, 100, 255, 256, 263, wrapped.len() - 1] {
                let mut damaged = wrapped.clone();
                damaged[place] ^= 1;
                refused(hash, &damaged);
            }
            // The first bytes of RFC 5649, section 3, for an empty key.
            let empty = [&wrapped[..256], b"\xa6\x59\x59\xa6\0\0\0\0"].concat();
            refused(hash, &empty);
        }
    }

    #[test]
    fn an_aes_key_of_another_length_is_none() {
        let private = rsa::PrivateKey::testing_only_of_seed(2048, [8; 32]).unwrap();
        let short = private.public().encrypt(Hash::Sha256, &[1; 16], b"").unwrap();
        let wrapped = [short, vec![0; 16]].concat();
        assert_eq!(open(&private, Hash::Sha256, &wrapped).err(), Some(Error::DecryptFailed));
    }
}
