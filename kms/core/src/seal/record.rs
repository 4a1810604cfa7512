//! The root key, and the records that are sealed under it.

use aes_gcm_siv::aead::{Aead, Payload};
use aes_gcm_siv::{Aes256GcmSiv, KeyInit, Nonce};
use gabion_engine::{Entropy, OsEntropy};
use hkdf::Hkdf;
use hmac::{Hmac, Mac};
use sha2::Sha256;
use zeroize::{Zeroize, Zeroizing};

use super::slot::Key;
use crate::error::{Error, SealError};
use crate::memory::Place;
use crate::store::{Durability, RecordPath, Store};

/// The format of a sealed record. It is part of the associated data, so that a record of one format
/// is not accepted as another.
const FORMAT: u8 = 2;

/// The format of records in stores that have no manifest.
const WITHOUT_MANIFEST: u8 = 1;

/// The number of bytes before the ciphertext: format, version of the root key, nonce.
const HEAD: usize = 1 + 4 + NONCE;

const NONCE: usize = 12;

/// The number of bytes that sealing adds.
#[cfg(test)]
const OVERHEAD: usize = HEAD + 16;

/// The version of a root key that is never stored.
const VOLATILE: u32 = 0;

/// Seals and opens the records of one store.
pub struct Sealer {
    /// The pseudorandom key that HKDF extracts from the root key, with the store's id as the salt
    /// (RFC 5869, section 2.2).
    extracted: Key,
    root_version: u32,
    store: [u8; 16],
    /// Whether the seal requires the store to have a manifest.
    needs_manifest: bool,
}

impl Sealer {
    /// Creates a sealer with a random root key that is never stored. Records sealed by it cannot be
    /// opened after it is dropped.
    ///
    /// # Errors
    /// No randomness.
    pub fn volatile(store: [u8; 16]) -> Result<Self, Error> {
        Self::new(&Key::drawn()?, VOLATILE, store)
    }

    pub(super) fn new(root: &Key, root_version: u32, store: [u8; 16]) -> Result<Self, Error> {
        let (mut extracted, _) = Hkdf::<Sha256>::extract(Some(&store), root.bytes()?);
        let key = Key::of(&extracted);
        extracted.as_mut_slice().zeroize();
        Ok(Sealer { extracted: key?, root_version, store, needs_manifest: false })
    }

    /// Returns the sealer with the given requirement of a manifest.
    pub(super) fn needing_manifest(self, needs_manifest: bool) -> Self {
        Sealer { needs_manifest, ..self }
    }

    /// Returns whether the seal requires the store to have a manifest.
    pub(super) fn needs_manifest(&self) -> bool {
        self.needs_manifest
    }

    /// Returns the key of the manifest's hashes.
    pub(super) fn manifest_key(&self) -> Result<Key, Error> {
        Key::filled(|key| self.expand(&[b"gabion kms manifest"], key))
    }

    /// Returns a keyed digest of a symmetric key, which finds other keys with the same bytes. A
    /// plain digest would let a reader of the store test guesses.
    pub(crate) fn secret_digest(&self, secret: &[u8]) -> Result<[u8; 32], Error> {
        let key = Key::filled(|key| self.expand(&[b"gabion kms secret digests"], key))?;
        let mac = Hmac::<Sha256>::new_from_slice(key.bytes()?);
        let mac =
            mac.map_err(|_| Error::Parameter("the digest's key has a wrong length".to_owned()))?;
        Ok(mac.chain_update(secret).finalize().into_bytes().into())
    }

    /// Returns the kind of memory that holds the root key.
    pub fn place(&self) -> Place {
        self.extracted.place()
    }

    /// Rejects another store, and a store that outlives the root key.
    pub(crate) fn check_fits(&self, store: &dyn Store) -> Result<(), SealError> {
        let is_lost = self.root_version == VOLATILE
            && !matches!(store.caps().durability, Durability::Volatile);
        match store.identity().id == self.store {
            false => Err(SealError::Parameter("the seal is that of another store")),
            true if is_lost => Err(SealError::Parameter(
                "the store outlives the process, so a root key in memory is not enough; give it a seal",
            )),
            true => Ok(()),
        }
    }

    /// Seals the value of a record at a generation.
    ///
    /// # Errors
    /// No randomness.
    pub fn seal(&self, path: &RecordPath, generation: u64, plain: &[u8]) -> Result<Vec<u8>, Error> {
        let mut nonce = [0; NONCE];
        OsEntropy.fill(&mut nonce).map_err(|error| Error::Engine(error.into()))?;
        let beside = self.beside(FORMAT, path, self.root_version, generation);
        let payload = Payload { msg: plain, aad: &beside };
        let sealed = self.cipher(path)?.encrypt(&Nonce::from(nonce), payload);
        let sealed = sealed.map_err(|_| too_long(plain.len()))?;
        let mut record = Vec::with_capacity(HEAD + sealed.len());
        record.push(FORMAT);
        record.extend_from_slice(&self.root_version.to_le_bytes());
        record.extend_from_slice(&nonce);
        record.extend_from_slice(&sealed);
        Ok(record)
    }

    /// Opens the value of a record at a generation.
    ///
    /// # Errors
    /// [`Error::Integrity`] if the bytes were not sealed for this path and generation.
    pub fn open(
        &self,
        path: &RecordPath,
        generation: u64,
        record: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, Error> {
        let refused =
            |reason: &str| Error::Integrity { path: path.to_string(), reason: reason.to_owned() };
        let Some((head, sealed)) = record.split_at_checked(HEAD) else {
            return Err(refused("it is too short"));
        };
        let mut version = [0; 4];
        version.copy_from_slice(&head[1..5]);
        let version = u32::from_le_bytes(version);
        let format = head[0];
        if format > FORMAT {
            return Err(refused("a newer program sealed it"));
        }
        if format < WITHOUT_MANIFEST || version != self.root_version {
            return Err(refused("its format is unknown, or it is sealed under another root key"));
        }
        let mut nonce = [0; NONCE];
        nonce.copy_from_slice(&head[5..]);
        let beside = self.beside(format, path, version, generation);
        let payload = Payload { msg: sealed, aad: &beside };
        match self.cipher(path)?.decrypt(&Nonce::from(nonce), payload) {
            Ok(plain) => Ok(Zeroizing::new(plain)),
            Err(_) => {
                Err(refused("it was sealed for another place, another time or another store"))
            }
        }
    }

    /// Opens the value of a record in a store that never had a manifest.
    ///
    /// # Errors
    /// [`Error::Integrity`] if the bytes were not sealed for this path and generation, or were
    /// sealed in a store with a manifest.
    pub(super) fn open_without_manifest(
        &self,
        path: &RecordPath,
        generation: u64,
        record: &[u8],
    ) -> Result<(), Error> {
        self.open(path, generation, record)?;
        match record.first() {
            Some(&WITHOUT_MANIFEST) => Ok(()),
            Some(_) | None => Err(Error::Integrity {
                path: path.to_string(),
                reason:
                    "it was written in a store with a manifest, which was removed; restore a backup"
                        .to_owned(),
            }),
        }
    }

    /// Derives a key for each record, so that one key encrypts only the versions of one record.
    fn cipher(&self, path: &RecordPath) -> Result<Aes256GcmSiv, Error> {
        let mut key = Zeroizing::new([0; 32]);
        self.expand(&[b"gabion kms record ", path.as_str().as_bytes()], &mut key)?;
        Aes256GcmSiv::new_from_slice(&*key).map_err(|_| too_long(key.len()))
    }

    fn expand(&self, info: &[&[u8]], key: &mut [u8; 32]) -> Result<(), Error> {
        Hkdf::<Sha256>::from_prk(self.extracted.bytes()?)
            .map_err(|_| too_long(key.len()))?
            .expand_multi_info(info, key)
            .map_err(|_| too_long(key.len()))
    }

    /// Returns the associated data. Each part has a fixed length, except the path, which comes
    /// last.
    fn beside(&self, format: u8, path: &RecordPath, root_version: u32, generation: u64) -> Vec<u8> {
        let mut beside = vec![format];
        beside.extend_from_slice(&self.store);
        beside.extend_from_slice(&root_version.to_le_bytes());
        beside.extend_from_slice(&generation.to_le_bytes());
        beside.extend_from_slice(path.as_str().as_bytes());
        beside
    }
}

/// An error for lengths that no record has, because the store rejects longer values first.
fn too_long(got: usize) -> Error {
    Error::TooLarge { what: "bytes to seal", most: 1 << 36, got }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> RecordPath {
        RecordPath::new(text).unwrap()
    }

    #[test]
    fn a_record_opens_where_and_when_it_was_sealed_only() {
        let of = |version, store| Sealer::new(&Key::of(&[5; 32]).unwrap(), version, store).unwrap();
        let sealer = of(1, [7; 16]);
        let sealed = sealer.seal(&path("keys/a"), 3, b"secret").unwrap();
        assert_eq!(sealed.len(), b"secret".len() + OVERHEAD);
        assert_eq!(&**sealer.open(&path("keys/a"), 3, &sealed).unwrap(), b"secret");
        assert!(sealer.open(&path("keys/b"), 3, &sealed).is_err());
        assert!(sealer.open(&path("keys/a"), 2, &sealed).is_err());
        assert!(of(1, [8; 16]).open(&path("keys/a"), 3, &sealed).is_err());
        assert!(of(2, [7; 16]).open(&path("keys/a"), 3, &sealed).is_err());
        assert!(Sealer::volatile([7; 16]).unwrap().open(&path("keys/a"), 3, &sealed).is_err());
        for place in 0..sealed.len() {
            let mut other = sealed.clone();
            other[place] ^= 1;
            assert!(sealer.open(&path("keys/a"), 3, &other).is_err(), "byte {place}");
            assert!(sealer.open(&path("keys/a"), 3, &sealed[..place]).is_err(), "{place} bytes");
        }
    }

    #[test]
    fn the_same_is_never_sealed_the_same() {
        let sealer = Sealer::volatile([7; 16]).unwrap();
        let seal = || sealer.seal(&path("a"), 1, b"x").unwrap();
        assert_ne!(seal(), seal());
    }
}
