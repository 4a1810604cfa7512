//! KEM keys and operations of every family, one at a time and many together.

use std::fmt;
use std::ops::{Deref, DerefMut};

use gabion_backend::Task;
use gabion_scheme::algorithms::Family;
use gabion_scheme::ml_kem::{DecapsKey, EncapsKey};
use gabion_scheme::{Algorithm, Status, ct};
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::entropy::{Entropy, Randomness};
use crate::error::{
    Error, all_keys, check_batch, check_count, check_length, lane_result, wrong_kind,
};
use crate::family::{self, DecapsLanes, DecapsPart, DecodedKeys, EncapsLanes, EncapsPart};
use crate::memory;
use crate::route::Engine;

/// A shared secret, as long as the table says; wiped when dropped. Compares in constant time.
/// Boxed, so that moving it, as queues do from thread to thread, leaves no copy behind.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct SharedSecret(Box<[u8]>);

impl SharedSecret {
    /// Returns a zeroed secret of the length of an algorithm.
    pub(crate) fn blank(algorithm: Algorithm) -> Self {
        SharedSecret(vec![0; algorithm.info().shared_secret].into())
    }

    /// Returns a secret with these bytes, which must have the length of the algorithm's secrets.
    pub(crate) fn of(algorithm: Algorithm, bytes: &[u8]) -> Self {
        debug_assert_eq!(bytes.len(), algorithm.info().shared_secret, "{algorithm}");
        SharedSecret(bytes.into())
    }
}

impl Deref for SharedSecret {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for SharedSecret {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl PartialEq for SharedSecret {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && ct::eq_mask(self, other) == u64::MAX
    }
}

impl Eq for SharedSecret {}

impl fmt::Debug for SharedSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedSecret({} bytes)", self.len())
    }
}

/// The families of KEMs: a line each, the variant of [`Family`] and the two types of its file.
macro_rules! families {
    (
        kem { $($family:ident: $private:path, $public:path;)* }
        others { $($other:ident)* }
    ) => {
        #[derive(Clone)]
        enum Private {
            $($family($private),)*
        }

        #[derive(Clone)]
        enum Public {
            $($family($public),)*
        }

        impl KemPrivateKey {
            /// Returns the parameter set.
            pub fn algorithm(&self) -> Algorithm {
                match &self.0 {
                    $(Private::$family(key) => DecapsPart::algorithm(key),)*
                }
            }

            /// Returns the public key, which shares this key's memory.
            pub fn public(&self) -> KemPublicKey {
                KemPublicKey(match &self.0 {
                    $(Private::$family(key) => Public::$family(key.public()),)*
                })
            }

            /// Returns the encoded public key.
            pub fn public_bytes(&self) -> &[u8] {
                match &self.0 {
                    $(Private::$family(key) => key.public_bytes(),)*
                }
            }

            /// Returns the private key in the standard encoding. It is secret.
            pub fn bytes(&self) -> &[u8] {
                match &self.0 {
                    $(Private::$family(key) => DecapsPart::bytes(key),)*
                }
            }

            /// Returns the seed, if it is known. It is secret.
            pub fn seed(&self) -> Option<&[u8]> {
                match &self.0 {
                    $(Private::$family(key) => key.seed(),)*
                }
            }
        }

        impl KemPublicKey {
            /// Returns the parameter set.
            pub fn algorithm(&self) -> Algorithm {
                match &self.0 {
                    $(Public::$family(key) => EncapsPart::algorithm(key),)*
                }
            }

            /// Returns the encoded key.
            pub fn bytes(&self) -> &[u8] {
                match &self.0 {
                    $(Public::$family(key) => EncapsPart::bytes(key),)*
                }
            }
        }

        fn generate(
            engine: &Engine,
            algorithm: Algorithm,
            entropy: &dyn Entropy,
        ) -> Result<Private, Error> {
            match algorithm.info().family {
                $(Family::$family if Family::$family.is_built() => {
                    DecapsPart::generate(engine, algorithm, entropy).map(Private::$family)
                })*
                $(Family::$family)|* | $(Family::$other)|* => {
                    Err(wrong_kind(algorithm, "generate KEM keys", KEMS))
                }
            }
        }

        fn generate_many(
            engine: &Engine,
            algorithm: Algorithm,
            n: usize,
            entropy: &dyn Entropy,
        ) -> Result<Vec<Private>, Error> {
            match algorithm.info().family {
                $(Family::$family if Family::$family.is_built() => {
                    let keys = DecapsPart::generate_many(engine, algorithm, n, entropy)?;
                    Ok(keys.into_iter().map(Private::$family).collect())
                })*
                $(Family::$family)|* | $(Family::$other)|* => {
                    Err(wrong_kind(algorithm, "generate KEM keys", KEMS))
                }
            }
        }

        fn from_seed(
            engine: &Engine,
            algorithm: Algorithm,
            seed: &[u8],
        ) -> Result<Private, Error> {
            match algorithm.info().family {
                $(Family::$family if Family::$family.is_built() => {
                    DecapsPart::from_seed(engine, algorithm, seed).map(Private::$family)
                })*
                $(Family::$family)|* | $(Family::$other)|* => {
                    Err(wrong_kind(algorithm, "generate KEM keys", KEMS))
                }
            }
        }

        fn decode_private(
            engine: &Engine,
            algorithm: Algorithm,
            bytes: &[u8],
            is_tested: bool,
        ) -> Result<Private, Error> {
            match algorithm.info().family {
                $(Family::$family if Family::$family.is_built() => {
                    let key = match is_tested {
                        true => DecapsPart::decode(engine, algorithm, bytes),
                        false => DecapsPart::decode_untested(engine, algorithm, bytes),
                    };
                    key.map(Private::$family)
                })*
                $(Family::$family)|* | $(Family::$other)|* => {
                    Err(wrong_kind(algorithm, "decode a decapsulation key", KEMS))
                }
            }
        }

        fn decode_public(
            engine: &Engine,
            algorithm: Algorithm,
            bytes: &[u8],
        ) -> Result<Public, Error> {
            match algorithm.info().family {
                $(Family::$family if Family::$family.is_built() => {
                    EncapsPart::decode(engine, algorithm, bytes).map(Public::$family)
                })*
                $(Family::$family)|* | $(Family::$other)|* => {
                    Err(wrong_kind(algorithm, "decode an encapsulation key", KEMS))
                }
            }
        }

        fn decode_public_many(
            engine: &Engine,
            algorithm: Algorithm,
            encoded: &[&[u8]],
        ) -> DecodedKeys<Public> {
            match algorithm.info().family {
                $(Family::$family if Family::$family.is_built() => {
                    let keys = EncapsPart::decode_many(engine, algorithm, encoded)?;
                    Ok(keys.into_iter().map(|key| key.map(Public::$family)).collect())
                })*
                $(Family::$family)|* | $(Family::$other)|* => {
                    Err(wrong_kind(algorithm, "decode an encapsulation key", KEMS))
                }
            }
        }

        /// Encapsulates in lanes that were checked: keys of one algorithm, arrays that fit.
        fn encaps_lanes(
            engine: &Engine,
            keys: &[&KemPublicKey],
            lanes: EncapsLanes<'_>,
        ) -> Result<(), Error> {
            match keys.first().map(|key| &key.0) {
                None => Ok(()),
                $(Some(Public::$family(_)) if Family::$family.is_built() => {
                    let known: Vec<_> = keys.iter().filter_map(|key| match &key.0 {
                        Public::$family(key) => Some(key),
                        _ => None,
                    }).collect();
                    EncapsPart::encaps_many(engine, &known, lanes)
                })*
                // No door makes a key of a family that is not in this build.
                Some(_) => Err(Error::NotBuilt(keys[0].algorithm())),
            }
        }

        /// Decapsulates in lanes that were checked: keys of one algorithm, arrays that fit.
        fn decaps_lanes(
            engine: &Engine,
            keys: &[&KemPrivateKey],
            lanes: DecapsLanes<'_>,
        ) -> Result<(), Error> {
            match keys.first().map(|key| &key.0) {
                None => Ok(()),
                $(Some(Private::$family(_)) if Family::$family.is_built() => {
                    let known: Vec<_> = keys.iter().filter_map(|key| match &key.0 {
                        Private::$family(key) => Some(key),
                        _ => None,
                    }).collect();
                    DecapsPart::decaps_many(engine, &known, lanes)
                })*
                // No door makes a key of a family that is not in this build.
                Some(_) => Err(Error::NotBuilt(keys[0].algorithm())),
            }
        }
    };
}

families! {
    kem {
        MlKem: family::ml_kem::PrivateKey, family::ml_kem::PublicKey;
        Hybrid: family::hybrid::PrivateKey, family::hybrid::PublicKey;
    }
    others { MlDsa SlhDsa Ed25519 FnDsa Hss Xmss Ecdh Ecdsa Composite }
}

/// The algorithms accepted by the operations of this file, for error messages.
const KEMS: &str = "a KEM, such as ML-KEM-768";

/// A private key of any KEM with its public key, expanded once where the algorithm gains by it.
/// Immutable; clones share it.
#[derive(Clone)]
pub struct KemPrivateKey(Private);

/// A public key of any KEM, expanded once where the algorithm gains by it. Immutable; clones share
/// it.
#[derive(Clone)]
pub struct KemPublicKey(Public);

impl KemPrivateKey {
    /// Returns the key in the form for ML-KEM batches; `None` for another algorithm.
    pub fn ml_kem(&self) -> Option<&DecapsKey> {
        match &self.0 {
            Private::MlKem(key) => Some(&key.0),
            _ => None,
        }
    }
}

impl KemPublicKey {
    /// Returns the key in the form for ML-KEM batches; `None` for another algorithm.
    pub fn ml_kem(&self) -> Option<&EncapsKey> {
        match &self.0 {
            Public::MlKem(key) => Some(key.expanded()),
            _ => None,
        }
    }
}

impl Engine {
    /// Makes a key pair.
    ///
    /// # Examples
    /// ```
    /// use gabion_engine::{Algorithm, Engine, OsEntropy};
    ///
    /// let engine = Engine::global()?;
    /// let key = engine.kem_generate(Algorithm::X25519MlKem768, &OsEntropy)?;
    /// assert_eq!(key.public().bytes().len(), 1216);
    /// # Ok::<(), gabion_engine::Error>(())
    /// ```
    ///
    /// # Errors
    /// Not a KEM; no randomness; no healthy backend.
    pub fn kem_generate(
        &self,
        algorithm: Algorithm,
        entropy: &dyn Entropy,
    ) -> Result<KemPrivateKey, Error> {
        generate(self, algorithm, entropy).map(KemPrivateKey)
    }

    /// Makes `n` key pairs, with randomness drawn once for all of them.
    ///
    /// # Examples
    /// ```
    /// use gabion_engine::{Algorithm, Engine, OsEntropy};
    ///
    /// let engine = Engine::global()?;
    /// let keys = engine.kem_generate_many(Algorithm::MlKem768, 16, &OsEntropy)?;
    /// assert_eq!(keys.len(), 16);
    /// # Ok::<(), gabion_engine::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Self::kem_generate`], and [`Error::TooMany`]; no key is returned then.
    pub fn kem_generate_many(
        &self,
        algorithm: Algorithm,
        n: usize,
        entropy: &dyn Entropy,
    ) -> Result<Vec<KemPrivateKey>, Error> {
        check_count(n)?;
        memory::check_keys(algorithm.info(), n)?;
        let keys = all_keys(algorithm, n, generate_many(self, algorithm, n, entropy)?)?;
        Ok(keys.into_iter().map(KemPrivateKey).collect())
    }

    /// Makes the key pair of a seed, whose length is a column of the table.
    ///
    /// # Examples
    /// ```
    /// use gabion_engine::{Algorithm, Engine};
    ///
    /// let engine = Engine::global()?;
    /// let key = engine.kem_from_seed(Algorithm::MlKem768, &[7; 64])?;
    /// assert_eq!(key.seed(), Some(&[7; 64][..]));
    /// # Ok::<(), gabion_engine::Error>(())
    /// ```
    ///
    /// # Errors
    /// Not a KEM, or one without a seed form; a seed of another length; no healthy backend.
    pub fn kem_from_seed(&self, algorithm: Algorithm, seed: &[u8]) -> Result<KemPrivateKey, Error> {
        from_seed(self, algorithm, seed).map(KemPrivateKey)
    }

    /// Decodes a private key with the checks of its standard (for ML-KEM: FIPS 203, section 7.3)
    /// and a pairwise test. The standard's checks do not detect a private part of another key, with
    /// which no secret could be agreed. The test costs an ML-KEM encapsulation and decapsulation.
    ///
    /// # Examples
    /// ```
    /// use gabion_engine::{Algorithm, Engine, OsEntropy};
    ///
    /// let engine = Engine::global()?;
    /// let keys = engine.kem_generate_many(Algorithm::MlKem768, 2, &OsEntropy)?;
    /// assert!(engine.kem_private(Algorithm::MlKem768, keys[0].bytes()).is_ok());
    /// let mixed = [&keys[0].bytes()[..1152], &keys[1].bytes()[1152..]].concat();
    /// assert!(engine.kem_private(Algorithm::MlKem768, &mixed).is_err());
    /// # Ok::<(), gabion_engine::Error>(())
    /// ```
    ///
    /// # Errors
    /// Not a KEM; a key that fails a check.
    pub fn kem_private(&self, algorithm: Algorithm, bytes: &[u8]) -> Result<KemPrivateKey, Error> {
        decode_private(self, algorithm, bytes, true).map(KemPrivateKey)
    }

    /// Decodes a private key like [`Self::kem_private`], but with only the checks of the standard,
    /// for callers that have already tested the key.
    ///
    /// # Errors
    /// Fails like [`Self::kem_private`].
    pub fn kem_private_untested(
        &self,
        algorithm: Algorithm,
        bytes: &[u8],
    ) -> Result<KemPrivateKey, Error> {
        decode_private(self, algorithm, bytes, false).map(KemPrivateKey)
    }

    /// Decodes a public key, with the checks of its standard (for ML-KEM: FIPS 203, section 7.2).
    ///
    /// # Examples
    /// ```
    /// use gabion_engine::{Algorithm, Engine, OsEntropy};
    ///
    /// let engine = Engine::global()?;
    /// let pair = engine.kem_generate(Algorithm::MlKem768, &OsEntropy)?;
    /// let received = pair.public().bytes().to_vec();
    /// let key = engine.kem_public(Algorithm::MlKem768, &received)?;
    /// let (ciphertext, shared) = engine.encaps(&key, &OsEntropy)?;
    /// assert_eq!(engine.decaps(&pair, &ciphertext)?, shared);
    /// # Ok::<(), gabion_engine::Error>(())
    /// ```
    ///
    /// # Errors
    /// Not a KEM; a key that fails a check.
    pub fn kem_public(&self, algorithm: Algorithm, bytes: &[u8]) -> Result<KemPublicKey, Error> {
        decode_public(self, algorithm, bytes).map(KemPublicKey)
    }

    /// Decodes many public keys of one algorithm, in parallel lanes if that is faster. The results
    /// are in the order of `encoded`; a rejected key does not affect the others.
    ///
    /// # Examples
    /// ```
    /// use gabion_engine::{Algorithm, Engine, OsEntropy};
    ///
    /// let engine = Engine::global()?;
    /// let pairs = engine.kem_generate_many(Algorithm::MlKem768, 3, &OsEntropy)?;
    /// let mut encoded: Vec<&[u8]> = pairs.iter().map(|pair| pair.public_bytes()).collect();
    /// encoded[1] = b"no key";
    /// let keys = engine.kem_public_many(Algorithm::MlKem768, &encoded)?;
    /// assert_eq!(keys.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true]);
    /// # Ok::<(), gabion_engine::Error>(())
    /// ```
    ///
    /// # Errors
    /// Not a KEM; no healthy backend. Of a key: as [`Self::kem_public`].
    pub fn kem_public_many(
        &self,
        algorithm: Algorithm,
        encoded: &[&[u8]],
    ) -> Result<Vec<Result<KemPublicKey, Error>>, Error> {
        let keys = decode_public_many(self, algorithm, encoded)?;
        Ok(keys.into_iter().map(|key| key.map(KemPublicKey)).collect())
    }

    /// Encapsulates to a key. Gives the ciphertext and the shared secret.
    ///
    /// # Examples
    /// ```
    /// use gabion_engine::{Algorithm, Engine, OsEntropy};
    ///
    /// let engine = Engine::global()?;
    /// let pair = engine.kem_generate(Algorithm::MlKem768, &OsEntropy)?;
    /// let (ciphertext, shared) = engine.encaps(&pair.public(), &OsEntropy)?;
    /// assert_eq!((ciphertext.len(), shared.len()), (1088, 32));
    /// # Ok::<(), gabion_engine::Error>(())
    /// ```
    ///
    /// # Errors
    /// No randomness; no healthy backend.
    pub fn encaps(
        &self,
        key: &KemPublicKey,
        entropy: &dyn Entropy,
    ) -> Result<(Vec<u8>, SharedSecret), Error> {
        self.encaps_one(key, Randomness::Fresh(entropy))
    }

    /// Encapsulates with randomness that the caller brings (of ML-KEM: the 32 bytes m). Used twice,
    /// or known to others, it gives the shared secret away.
    ///
    /// # Errors
    /// Randomness of another length than the algorithm takes; no healthy backend.
    pub fn encaps_with_randomness(
        &self,
        key: &KemPublicKey,
        randomness: &[u8],
    ) -> Result<(Vec<u8>, SharedSecret), Error> {
        self.encaps_one(key, Randomness::Bytes(randomness))
    }

    fn encaps_one(
        &self,
        key: &KemPublicKey,
        randomness: Randomness<'_>,
    ) -> Result<(Vec<u8>, SharedSecret), Error> {
        let algorithm = key.algorithm();
        let mut ct = memory::filled(algorithm.info().output.max(), 0)?;
        let mut shared = SharedSecret::blank(algorithm);
        let mut status = [Status::NotRun];
        let lanes =
            EncapsLanes { randomness, ct: &mut ct, shared: &mut shared, status: &mut status };
        encaps_lanes(self, &[key], lanes)?;
        lane_result(algorithm, Task::Encaps, status[0])?;
        Ok((ct, shared))
    }

    /// Decapsulates. A ciphertext that was not made for the key gives a pseudo-random secret where
    /// the algorithm rejects implicitly, as ML-KEM does; that is no error.
    ///
    /// # Examples
    /// ```
    /// use gabion_engine::{Algorithm, Engine, OsEntropy};
    ///
    /// let engine = Engine::global()?;
    /// let pair = engine.kem_generate(Algorithm::MlKem768, &OsEntropy)?;
    /// let (mut ciphertext, shared) = engine.encaps(&pair.public(), &OsEntropy)?;
    /// assert_eq!(engine.decaps(&pair, &ciphertext)?, shared);
    /// ciphertext[0] ^= 1;
    /// assert_ne!(engine.decaps(&pair, &ciphertext)?, shared, "another secret, and no error");
    /// # Ok::<(), gabion_engine::Error>(())
    /// ```
    ///
    /// # Errors
    /// A ciphertext of the wrong length, or one that the algorithm refuses; no healthy backend.
    pub fn decaps(&self, key: &KemPrivateKey, ciphertext: &[u8]) -> Result<SharedSecret, Error> {
        let algorithm = key.algorithm();
        check_length("the ciphertext", algorithm.info().output.max(), ciphertext)?;
        let mut shared = SharedSecret::blank(algorithm);
        let mut status = [Status::NotRun];
        let lanes = DecapsLanes { ct: ciphertext, shared: &mut shared, status: &mut status };
        decaps_lanes(self, &[key], lanes)?;
        lane_result(algorithm, Task::Decaps, status[0])?;
        Ok(shared)
    }

    /// Encapsulates many times, lane by lane: `n` keys of one algorithm (a key may stand in many
    /// lanes); `ct[n][output]` and `shared[n][shared_secret]` with the columns of the table. A
    /// failed lane says why in its status, and its outputs are all zero.
    ///
    /// # Examples
    /// ```
    /// use gabion_engine::{Algorithm, Engine, OsEntropy, Randomness, Status};
    ///
    /// let engine = Engine::global()?;
    /// let (n, info) = (8, Algorithm::MlKem768.info());
    /// let pair = engine.kem_generate(Algorithm::MlKem768, &OsEntropy)?;
    /// let (mut ct, mut sent) = (vec![0; n * info.output.max()], vec![0; n * info.shared_secret]);
    /// let mut status = vec![Status::NotRun; n];
    /// let fresh = Randomness::Fresh(&OsEntropy);
    /// engine.encaps_many(&vec![&pair.public(); n], fresh, &mut ct, &mut sent, &mut status)?;
    /// assert!(status.iter().all(|&lane| lane == Status::Ok));
    /// # Ok::<(), gabion_engine::Error>(())
    /// ```
    ///
    /// # Errors
    /// Misuse: keys of several algorithms, arrays that do not fit. No randomness; no healthy
    /// backend. Then no lane has run, and every output is zero.
    pub fn encaps_many(
        &self,
        keys: &[&KemPublicKey],
        randomness: Randomness<'_>,
        ct: &mut [u8],
        shared: &mut [u8],
        status: &mut [Status],
    ) -> Result<(), Error> {
        status.fill(Status::NotRun);
        let lens = (ct.len(), shared.len(), status.len());
        let algorithms = keys.iter().map(|key| key.algorithm());
        let ran = check_lanes(algorithms, keys.len(), lens).and_then(|()| {
            let (ct, shared, status) = (&mut *ct, &mut *shared, &mut *status);
            encaps_lanes(self, keys, EncapsLanes { randomness, ct, shared, status })
        });
        if ran.is_err() {
            status.fill(Status::NotRun);
            ct.fill(0);
            ct::wipe(shared);
        }
        ran
    }

    /// Decapsulates many ciphertexts, lane by lane, laid out as [`Self::encaps_many`] leaves them.
    ///
    /// # Examples
    /// ```
    /// use gabion_engine::{Algorithm, Engine, OsEntropy, Randomness, Status};
    ///
    /// let engine = Engine::global()?;
    /// let (n, info) = (8, Algorithm::MlKem768.info());
    /// let pair = engine.kem_generate(Algorithm::MlKem768, &OsEntropy)?;
    /// let (mut ct, mut sent) = (vec![0; n * info.output.max()], vec![0; n * info.shared_secret]);
    /// let mut status = vec![Status::NotRun; n];
    /// let fresh = Randomness::Fresh(&OsEntropy);
    /// engine.encaps_many(&vec![&pair.public(); n], fresh, &mut ct, &mut sent, &mut status)?;
    /// assert!(status.iter().all(|&lane| lane == Status::Ok));
    ///
    /// let mut got = vec![0; n * info.shared_secret];
    /// engine.decaps_many(&vec![&pair; n], &ct, &mut got, &mut status)?;
    /// assert_eq!(got, sent);
    /// # Ok::<(), gabion_engine::Error>(())
    /// ```
    ///
    /// # Errors
    /// Misuse: keys of several algorithms, arrays that do not fit. No healthy backend. Then no lane
    /// has run, and every output is zero.
    pub fn decaps_many(
        &self,
        keys: &[&KemPrivateKey],
        ct: &[u8],
        shared: &mut [u8],
        status: &mut [Status],
    ) -> Result<(), Error> {
        status.fill(Status::NotRun);
        let lens = (ct.len(), shared.len(), status.len());
        let algorithms = keys.iter().map(|key| key.algorithm());
        let ran = check_lanes(algorithms, keys.len(), lens).and_then(|()| {
            let (shared, status) = (&mut *shared, &mut *status);
            decaps_lanes(self, keys, DecapsLanes { ct, shared, status })
        });
        if ran.is_err() {
            status.fill(Status::NotRun);
            ct::wipe(shared);
        }
        ran
    }
}

/// Refuses keys of several algorithms, and arrays `(ct, shared, status)` that do not fit `n` lanes.
pub(crate) fn check_lanes(
    algorithms: impl Iterator<Item = Algorithm>,
    n: usize,
    lens: (usize, usize, usize),
) -> Result<(), Error> {
    let info = check_batch(n, algorithms)?;
    let [ct, shared] = info.map_or([0; 2], |info| [info.output.max(), info.shared_secret]);
    if lens == (n * ct, n * shared, n) {
        return memory::check_operations(ct + shared, n);
    }
    Err(Error::Input(gabion_scheme::Error::Batch { lanes: n }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_compare_by_content_and_do_not_print() {
        let mut a = SharedSecret::blank(Algorithm::MlKem768);
        let b = a.clone();
        assert_eq!((a.len(), &a), (32, &b));
        a[31] = 1;
        assert_ne!(a, b);
        assert_eq!(format!("{a:?}"), "SharedSecret(32 bytes)");
    }
}
