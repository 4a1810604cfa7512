//! A cache of expanded public keys, looked up by their encoding.
//!
//! ```text
//!   algorithm, bytes --SipHash, keyed at random--> 64 bits --> shard --> entry --whole key equal?--+
//!                                                                |                                  |
//!          hit: a clone of the handle <--------------------------|------------------------- yes ---+
//!          miss: expand outside the lock; who asks for the same key meanwhile waits for it
//! ```
//!
//! For callers that repeatedly get the same peer's key as bytes. A caller that can keep a
//! [`KemPublicKey`] or [`VerifyKey`] needs no cache: keys are expanded when they are decoded, and
//! clones share the memory.
//!
//! - The complete bytes are compared, so a hit never returns another key, whatever the hash.
//! - The hash has a random key, so an attacker cannot choose colliding keys. If two keys collide,
//!   the second is expanded for its caller but not cached.
//! - Memory is bounded: each shard evicts by CLOCK (a key that was used since the hand last passed
//!   stays) until the new key fits. Keys that fail the standard's checks, and keys larger than a
//!   shard, are not cached.
//! - The timing depends on the keys, which are public. It reveals to all callers of a cache whether
//!   a key was used recently; do not share a cache between callers that must not learn that.
//! - A forked child creates a new cache: a thread of its parent may have held a lock.

#[cfg(all(test, loom))]
mod loom;
mod shard;

use std::hash::{BuildHasher, Hasher, RandomState};

use gabion_scheme::algorithms::Family;
use gabion_scheme::kernels::ed25519::ROWS_LEN;
use gabion_scheme::{Algorithm, ml_dsa, ml_kem};

use crate::error::Error;
use crate::keys::{KemPublicKey, PublicKey, VerifyKey};
use crate::route::Engine;
use shard::{CacheValue, Shard};

/// Most shards. More would only help more threads than machines have.
const SHARDS_MAX: usize = 16;
/// Fewest bytes of a shard where there is more than one: room for some keys of the largest kind.
const SHARD_LEN_MIN: usize = 1 << 20;
/// Size of an entry without its key: its place in the index and in the list.
const ENTRY_LEN: usize = 128;

/// A bounded cache of expanded public keys. Share it by reference.
///
/// # Examples
/// ```
/// use gabion_engine::{Algorithm, Engine, KeyCache, OsEntropy};
///
/// let engine = Engine::global()?;
/// let cache = KeyCache::new(16 << 20);
/// let pair = engine.kem_generate(Algorithm::MlKem768, &OsEntropy)?;
/// let bytes = pair.public().bytes().to_vec();
/// for _ in 0..3 {
///     let key = cache.kem_public(engine, Algorithm::MlKem768, &bytes)?;
///     engine.encaps(&key, &OsEntropy)?;
/// }
/// assert_eq!((cache.stats().hits, cache.stats().misses), (2, 1));
/// # Ok::<(), gabion_engine::Error>(())
/// ```
pub struct KeyCache {
    random: RandomState,
    shards: Vec<Shard<PublicKey>>,
}

/// The statistics of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheStats {
    /// Keys that were found, those included that another thread was just expanding.
    pub hits: u64,
    /// Keys that had to be expanded, or were refused.
    pub misses: u64,
    /// Keys that made room for others.
    pub evictions: u64,
    /// Keys that are held.
    pub keys: usize,
    /// About how many bytes they take.
    pub bytes: usize,
}

impl CacheValue for PublicKey {
    fn is_of(&self, algorithm: Algorithm, bytes: &[u8]) -> bool {
        self.algorithm() == algorithm && self.bytes() == bytes
    }

    fn len(&self) -> usize {
        expanded_len(self.algorithm(), self.bytes().len())
    }
}

/// Returns the size of an expanded public key in a cache: the encoding, its lattice, an upper bound
/// for other derived data, and the multiples of an Ed25519 point. The multiples are computed only
/// after some uses but counted from the start, since a key that grew within a full cache would
/// exceed its limit.
fn expanded_len(algorithm: Algorithm, len: usize) -> usize {
    let derived = match lattice_len(algorithm) {
        // Hybrids and composites expand the lattice of a part, and have its encoding twice.
        0 => {
            let whole_and_parts = parts_of(algorithm).chain([algorithm]);
            let expanded = whole_and_parts.map(|part| lattice_len(part) + rows_len(part));
            4 * len + 1024 + expanded.sum::<usize>()
        }
        own => own,
    };
    ENTRY_LEN + len + derived
}

/// Multiples of the point of an Ed25519 key; nothing for any other algorithm.
fn rows_len(algorithm: Algorithm) -> usize {
    if algorithm.info().family == Family::Ed25519 { ROWS_LEN } else { 0 }
}

/// Returns the size of matrix and vector of ML-KEM (FIPS 203: 256 coefficients of 2 bytes) and
/// ML-DSA (FIPS 204: of 4 bytes); 0 for other algorithms.
fn lattice_len(algorithm: Algorithm) -> usize {
    if let Some(p) = ml_kem::params(algorithm) {
        (p.k * p.k + p.k) * 512
    } else if let Some(p) = ml_dsa::params(algorithm) {
        (p.k * p.l + p.k) * 1024
    } else {
        0
    }
}

/// Returns the components of a hybrid or composite that are separate algorithms.
fn parts_of(algorithm: Algorithm) -> impl Iterator<Item = Algorithm> {
    algorithm.info().part_algorithms()
}

impl KeyCache {
    /// Returns a cache for expanded keys of at most `capacity` bytes in total: an ML-KEM-768 key
    /// needs 7 KiB, an ML-DSA-65 key 39 KiB.
    pub fn new(capacity: usize) -> Self {
        let count = (capacity / SHARD_LEN_MIN).clamp(1, SHARDS_MAX);
        let shards = (0..count).map(|_| Shard::new(capacity / count)).collect();
        KeyCache { random: RandomState::new(), shards }
    }

    /// Returns the public key with these bytes, like [`PublicKey::import`].
    ///
    /// # Errors
    /// See [`PublicKey::import`].
    pub fn public(
        &self,
        engine: &Engine,
        algorithm: Algorithm,
        bytes: &[u8],
    ) -> Result<PublicKey, Error> {
        self.find(algorithm, bytes, || PublicKey::import(engine, algorithm, bytes))
    }

    /// Returns the KEM public key with these bytes, like [`Engine::kem_public`].
    ///
    /// # Errors
    /// See [`Engine::kem_public`].
    pub fn kem_public(
        &self,
        engine: &Engine,
        algorithm: Algorithm,
        bytes: &[u8],
    ) -> Result<KemPublicKey, Error> {
        let make = || engine.kem_public(algorithm, bytes);
        match self.find(algorithm, bytes, || make().map(PublicKey::Kem))? {
            PublicKey::Kem(key) => Ok(key),
            // A key of another kind was found: this one is not of the kind, and the engine says so.
            PublicKey::Signature(_) | PublicKey::Exchange(_) => make(),
        }
    }

    /// Returns the verification key with these bytes, like [`Engine::signature_public`].
    ///
    /// # Errors
    /// See [`Engine::signature_public`].
    pub fn signature_public(
        &self,
        engine: &Engine,
        algorithm: Algorithm,
        bytes: &[u8],
    ) -> Result<VerifyKey, Error> {
        let make = || engine.signature_public(algorithm, bytes);
        match self.find(algorithm, bytes, || make().map(PublicKey::Signature))? {
            PublicKey::Signature(key) => Ok(key),
            PublicKey::Kem(_) | PublicKey::Exchange(_) => make(),
        }
    }

    fn find(
        &self,
        algorithm: Algorithm,
        bytes: &[u8],
        make: impl FnOnce() -> Result<PublicKey, Error>,
    ) -> Result<PublicKey, Error> {
        self.shard(algorithm, bytes).find_or_make(algorithm, bytes, make)
    }

    /// Returns the statistics of the cache.
    pub fn stats(&self) -> CacheStats {
        let mut sum = CacheStats::default();
        for stats in self.shards.iter().map(Shard::stats) {
            sum.hits += stats.hits;
            sum.misses += stats.misses;
            sum.evictions += stats.evictions;
            sum.keys += stats.keys;
            sum.bytes += stats.bytes;
        }
        sum
    }

    /// Forgets every key. Statistics stay.
    pub fn clear(&self) {
        self.shards.iter().for_each(Shard::clear);
    }

    fn shard(&self, algorithm: Algorithm, bytes: &[u8]) -> shard::HashSlot<'_, PublicKey> {
        let mut hasher = self.random.build_hasher();
        hasher.write_u8(algorithm as u8);
        hasher.write(bytes);
        let hash = hasher.finish();
        // The high half chooses the shard, so that its index still sees all of the low half.
        self.shards[(hash >> 32) as usize % self.shards.len()].slot(hash)
    }
}

#[cfg(all(test, not(loom)))]
#[allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.
mod tests {
    use super::*;
    use crate::entropy::OsEntropy;

    #[test]
    fn keys_are_found_again_by_their_bytes_and_no_others() {
        let engine = Engine::global().unwrap();
        let cache = KeyCache::new(1 << 20);
        let pairs: Vec<_> =
            (0..3).map(|_| engine.kem_generate(Algorithm::MlKem512, &OsEntropy).unwrap()).collect();
        let bytes: Vec<_> = pairs.iter().map(|pair| pair.public().bytes().to_vec()).collect();
        let signing = engine.signature_generate(Algorithm::MlDsa44, &OsEntropy).unwrap();
        for round in 0..3 {
            for bytes in &bytes {
                let key = cache.kem_public(engine, Algorithm::MlKem512, bytes).unwrap();
                assert_eq!((key.bytes(), key.algorithm()), (&bytes[..], Algorithm::MlKem512));
            }
            let public = signing.public();
            let key = cache.signature_public(engine, Algorithm::MlDsa44, public.bytes()).unwrap();
            assert_eq!(key.bytes(), public.bytes());
            let stats = cache.stats();
            assert_eq!((stats.hits, stats.misses, stats.keys), (4 * round, 4, 4));
            // The components of the estimate: 6 polynomials of 512 B, 20 of 1 KiB.
            let expected = 3 * (128 + 800 + 6 * 512) + 128 + 1312 + 20 * 1024;
            assert_eq!((stats.bytes, stats.evictions), (expected, 0));
        }
        cache.clear();
        assert_eq!((cache.stats().keys, cache.stats().bytes), (0, 0));
    }

    #[test]
    fn shards_share_the_capacity_and_each_has_room_for_large_keys() {
        for (capacity, count) in
            [(0, 1), (1 << 20, 1), ((2 << 20) - 1, 1), (2 << 20, 2), (40 << 20, 16)]
        {
            let cache = KeyCache::new(capacity);
            assert_eq!(cache.shards.len(), count, "{capacity}");
            let each = cache.shards[0].capacity();
            assert!(cache.shards.iter().all(|shard| shard.capacity() == each));
            assert!(each * count <= capacity && capacity - each * count < count);
        }
    }

    #[test]
    fn expanded_key_length_covers_matrix_or_family_bound() {
        let of = |algorithm: Algorithm| expanded_len(algorithm, algorithm.info().public_key.max());
        assert_eq!(of(Algorithm::MlKem1024), 128 + 1568 + (16 + 4) * 512);
        assert_eq!(of(Algorithm::MlDsa87), 128 + 2592 + (56 + 8) * 1024);
        assert_eq!(of(Algorithm::SlhDsaSha2_128s), 128 + 32 + 4 * 32 + 1024);
        // With 4 pieces of 16 multiples of the point, 128 bytes each.
        assert_eq!(of(Algorithm::Ed25519), 128 + 32 + 4 * 32 + 1024 + 8192);
        assert_eq!(of(Algorithm::Ed25519Zip215), of(Algorithm::Ed25519));
        let of_parts = 128 + 5 * (1952 + 32) + 1024 + (30 + 6) * 1024 + 8192;
        assert_eq!(of(Algorithm::MlDsa65Ed25519Sha512), of_parts);
        assert_eq!(of(Algorithm::MlDsa65EcdsaP256Sha512), 128 + 5 * (1952 + 65) + 1024 + 36 * 1024);
        // The lattice component of a hybrid or composite is counted like the component alone.
        for (whole, part) in [
            (Algorithm::X25519MlKem768, Algorithm::MlKem768),
            (Algorithm::SecP521r1MlKem1024, Algorithm::MlKem1024),
            (Algorithm::XWing, Algorithm::MlKem768),
            (Algorithm::MlDsa65Ed25519Sha512, Algorithm::MlDsa65),
            (Algorithm::MlDsa87Rsa4096PssSha512, Algorithm::MlDsa87),
        ] {
            assert!(of(whole) > of(part), "{whole}");
        }
    }

    #[test]
    fn bad_keys_are_refused_each_time_and_not_kept() {
        let engine = Engine::global().unwrap();
        let cache = KeyCache::new(1 << 20);
        let bad = vec![0xff; 1184];
        for bytes in [&bad[..], &bad[1..], &[]] {
            for _ in 0..2 {
                let expected = engine.kem_public(Algorithm::MlKem768, bytes).err();
                assert!(expected.is_some());
                assert_eq!(cache.kem_public(engine, Algorithm::MlKem768, bytes).err(), expected);
            }
        }
        let wrong_kind = engine.kem_public(Algorithm::MlDsa65, &bad).err();
        assert_eq!(cache.kem_public(engine, Algorithm::MlDsa65, &bad).err(), wrong_kind);
        let stats = cache.stats();
        assert_eq!((stats.hits, stats.misses, stats.keys, stats.bytes), (0, 7, 0, 0));
    }

    /// Two algorithms with equal key lengths: one of them rejects these bytes, and the cache must
    /// not return them for it.
    #[test]
    fn a_key_of_another_algorithm_is_another_key() {
        let engine = Engine::global().unwrap();
        let cache = KeyCache::new(1 << 20);
        let pair = engine.kem_generate(Algorithm::MlKem768, &OsEntropy).unwrap();
        let bytes = pair.public().bytes().to_vec();
        assert!(cache.kem_public(engine, Algorithm::MlKem768, &bytes).is_ok());
        assert!(cache.kem_public(engine, Algorithm::MlKem512, &bytes).is_err());
        assert!(cache.signature_public(engine, Algorithm::MlKem768, &bytes).is_err());
    }
}
