//! Keys of the seal, and the wrapping of the root key.

use aes_gcm_siv::aead::{Aead, Payload};
use aes_gcm_siv::{Aes256GcmSiv, KeyInit, Nonce};
use argon2::{Algorithm, Argon2, Params, Version};
use gabion_engine::{Entropy, OsEntropy};
use zeroize::Zeroizing;

use crate::error::{Error, SealError};
use crate::memory::{Pages, Place};

/// A secret key of 32 bytes, in pages that are excluded from core dumps and from forked processes.
pub struct Key(Pages);

impl Key {
    /// Draws a random key.
    ///
    /// # Errors
    /// No randomness.
    pub fn drawn() -> Result<Self, Error> {
        Self::filled(|bytes| OsEntropy.fill(bytes).map_err(|error| Error::Engine(error.into())))
    }

    /// Creates a key in place, so that no copy of it stays on the stack.
    pub(super) fn filled<E: From<SealError>>(
        fill: impl FnOnce(&mut [u8; 32]) -> Result<(), E>,
    ) -> Result<Self, E> {
        let no_memory = || SealError::Resource("no memory for a key".to_owned());
        let mut key = Key(Pages::new(32).ok_or_else(no_memory)?);
        let bytes = key.0.bytes_mut().and_then(|bytes| bytes.first_chunk_mut());
        fill(bytes.ok_or_else(no_memory)?)?;
        Ok(key)
    }

    /// Copies a key from bytes; fails if their number is wrong.
    pub(crate) fn of(bytes: &[u8]) -> Result<Self, SealError> {
        let bytes: &[u8; 32] = bytes.try_into().map_err(|_| broken())?;
        Self::filled(|key| {
            key.copy_from_slice(bytes);
            Ok(())
        })
    }

    /// Returns the secret bytes.
    ///
    /// # Errors
    /// [`SealError::Forked`].
    pub fn bytes(&self) -> Result<&[u8; 32], SealError> {
        self.0.bytes().and_then(|bytes| bytes.first_chunk()).ok_or(SealError::Forked)
    }

    /// Returns the kind of memory that holds the key.
    pub fn place(&self) -> Place {
        self.0.place()
    }
}

/// The cost of guessing a passphrase (Argon2id, RFC 9106).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// The memory, in KiB.
    pub memory_kib: u32,
    /// The number of passes over the memory.
    pub passes: u32,
}

impl Default for Cost {
    /// Returns the second recommended option of RFC 9106, section 4, with one lane instead of four.
    fn default() -> Self {
        Cost { memory_kib: 64 << 10, passes: 3 }
    }
}

/// The maximum that a stored configuration may request, so that a manipulated file cannot exhaust
/// the memory.
const MEMORY_KIB_MAX: u32 = 1 << 20;
const PASSES_MAX: u32 = 64;

impl Cost {
    /// Rejects costs that are out of range.
    pub(super) fn check(&self) -> Result<(), SealError> {
        let can_be = (8..=MEMORY_KIB_MAX).contains(&self.memory_kib)
            && (1..=PASSES_MAX).contains(&self.passes);
        match can_be {
            true => Ok(()),
            false => {
                Err(SealError::Parameter("a passphrase costs 8 KiB to 1 GiB and 1 to 64 passes"))
            }
        }
    }
}

/// Derives the wrapping key from a passphrase.
pub fn of_passphrase(passphrase: &str, salt: &[u8], cost: Cost) -> Result<Key, SealError> {
    cost.check()?;
    let resource = |error: argon2::Error| SealError::Resource(error.to_string());
    let params = Params::new(cost.memory_kib, cost.passes, 1, Some(32)).map_err(resource)?;
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    Key::filled(|bytes| {
        argon2.hash_password_into(passphrase.as_bytes(), salt, bytes).map_err(resource)
    })
}

/// Wraps the root key. Each wrapping key wraps only one key, so the nonce may be zero.
pub fn wrap(with: &Key, root: &Key, beside: &[u8]) -> Result<Vec<u8>, SealError> {
    let payload = Payload { msg: &root.bytes()?[..], aad: beside };
    cipher(with)?.encrypt(&Nonce::from([0; 12]), payload).map_err(|_| broken())
}

/// Unwraps the root key. Returns `None` if the wrapping key or the associated data does not match.
pub fn unwrap(with: &Key, wrapped: &[u8], beside: &[u8]) -> Result<Option<Key>, SealError> {
    let payload = Payload { msg: wrapped, aad: beside };
    let opened = cipher(with)?.decrypt(&Nonce::from([0; 12]), payload).map(Zeroizing::new);
    opened.ok().map(|opened| Key::of(&opened)).transpose()
}

fn cipher(key: &Key) -> Result<Aes256GcmSiv, SealError> {
    Aes256GcmSiv::new_from_slice(key.bytes()?).map_err(|_| broken())
}

fn broken() -> SealError {
    SealError::Damaged("a key of another length".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_passphrase_uses_the_given_cost() {
        let cost = Cost { memory_kib: 64, passes: 1 };
        let key = of_passphrase("correct horse", &[1; 16], cost).unwrap();
        for (text, salt, other) in [
            ("correct horsf", [1; 16], cost),
            ("correct horse", [2; 16], cost),
            ("correct horse", [1; 16], Cost { passes: 2, ..cost }),
        ] {
            assert_ne!(
                of_passphrase(text, &salt, other).unwrap().bytes().unwrap(),
                key.bytes().unwrap()
            );
        }
        for cost in [Cost { memory_kib: 7, passes: 1 }, Cost { memory_kib: u32::MAX, passes: 1 }] {
            assert!(matches!(of_passphrase("x", &[1; 16], cost), Err(SealError::Parameter(_))));
        }
    }

    #[test]
    fn a_wrapped_key_opens_with_its_own_only() {
        let [with, other, root] = [1, 2, 3].map(|byte| Key::of(&[byte; 32]).unwrap());
        let wrapped = wrap(&with, &root, b"beside").unwrap();
        assert_eq!(unwrap(&with, &wrapped, b"beside").unwrap().unwrap().bytes().unwrap(), &[3; 32]);
        assert!(unwrap(&other, &wrapped, b"beside").unwrap().is_none());
        assert!(unwrap(&with, &wrapped, b"besid").unwrap().is_none());
    }
}
