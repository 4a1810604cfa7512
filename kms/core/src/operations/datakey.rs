//! Random bytes, and keys for data: random bytes with their ciphertext.

use gabion_engine::{Entropy, Error as EngineError, OsEntropy};
use zeroize::Zeroizing;

use super::encrypt::{EncryptOutput, check_beside};
use super::kms::Kms;
use super::metrics::Verb;
use crate::error::Error;
use crate::model::{KeyAlgorithm, KeyId};

/// Most bytes that are drawn at once.
const RANDOM_MAX: usize = 128 << 10;

/// Lengths of a key for data, in bytes.
const DATAKEYS: [usize; 3] = [16, 32, 64];

/// A key for data. Whoever keeps the data keeps its ciphertext, and gets the key by decrypting that.
pub struct Datakey {
    /// The key. Secret.
    pub plain: Zeroizing<Vec<u8>>,
    /// The same, encrypted.
    pub encrypted: EncryptOutput,
}

impl Kms {
    /// Draws a key of 16, 32 or 64 bytes, and encrypts it by the newest version.
    ///
    /// # Errors
    /// Another length; as [`Self::encrypt`].
    pub fn datakey(&self, id: &KeyId, len: usize, beside: &[u8]) -> Result<Datakey, Error> {
        self.counted(Verb::Datakey, id.algorithm, || {
            if !DATAKEYS.contains(&len) {
                return Err(Error::Parameter("a key for data has 16, 32 or 64 bytes".to_owned()));
            }
            check_beside(beside)?;
            let plain = drawn(len)?;
            let encrypted = self.encrypted(id, None, &plain, beside)?;
            Ok(Datakey { plain, encrypted })
        })
    }

    /// Draws bytes of the operating system's randomness.
    ///
    /// # Errors
    /// More than 128 KiB; no randomness.
    pub fn random(&self, len: usize) -> Result<Zeroizing<Vec<u8>>, Error> {
        self.counted(Verb::Random, None::<KeyAlgorithm>, || match len <= RANDOM_MAX {
            true => drawn(len),
            false => Err(Error::TooLarge { what: "random bytes", most: RANDOM_MAX, got: len }),
        })
    }
}

fn drawn(len: usize) -> Result<Zeroizing<Vec<u8>>, Error> {
    let mut bytes = Zeroizing::new(vec![0; len]);
    OsEntropy.fill(&mut bytes).map_err(EngineError::from)?;
    Ok(bytes)
}
