//! Random bytes, and data keys: random bytes with their ciphertext.

use gabion_engine::{Entropy, Error as EngineError, OsEntropy};
use zeroize::Zeroizing;

use super::encrypt::{EncryptOutput, check_beside};
use super::kms::Kms;
use super::metrics::Verb;
use crate::error::Error;
use crate::model::{KeyAlgorithm, KeyId};

/// The maximum number of random bytes per request.
const RANDOM_MAX: usize = 128 << 10;

/// The lengths of data keys in bytes.
const DATAKEYS: [usize; 3] = [16, 32, 64];

/// A data key. Store the ciphertext with the encrypted data, and decrypt it to get the key back.
pub struct Datakey {
    /// The key. Secret.
    pub plain: Zeroizing<Vec<u8>>,
    /// The encrypted key.
    pub encrypted: EncryptOutput,
}

impl Kms {
    /// Generates a key of 16, 32 or 64 bytes, and encrypts it with the newest version.
    ///
    /// # Errors
    /// Another length; those of [`Self::encrypt`].
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

    /// Returns bytes of the operating system's randomness.
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
