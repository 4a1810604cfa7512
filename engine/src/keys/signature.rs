//! Signature keys and operations of every family, one at a time and many together.

use gabion_backend::Task;
use gabion_scheme::algorithms::{AlgorithmInfo, Family, Size};
use gabion_scheme::message::Message;
use gabion_scheme::ml_dsa;
use gabion_scheme::prehash::Prehash;
use gabion_scheme::{Algorithm, Status, ct};

use crate::entropy::{Entropy, Randomness};
use crate::error::{Error, all_keys, check_batch, check_count, lane_result, wrong_kind};
use crate::family::{self, DecodedKeys, SignLanes, SigningPart, VerifyLanes, VerifyPart};
use crate::memory;
use crate::route::Engine;

/// The families of signatures: a line each, the variant of [`Family`] and the types of its file.
/// Families that only verify have no signing key. `others` are the families of other kinds.
macro_rules! families {
    (
        sign and verify { $($family:ident: $signing:path, $verify:path;)* }
        verify { $($only:ident: $only_verify:path;)* }
        others { $($other:ident)* }
    ) => {
        #[derive(Clone)]
        #[allow(clippy::enum_variant_names)] // They are the families' names.
        enum FamilySigningKey {
            $($family($signing),)*
        }

        #[derive(Clone)]
        #[allow(clippy::enum_variant_names)] // They are the families' names.
        enum FamilyVerifyKey {
            $($family($verify),)*
            $($only($only_verify),)*
        }

        impl SigningKey {
            /// Returns the parameter set.
            pub fn algorithm(&self) -> Algorithm {
                match &self.0 {
                    $(FamilySigningKey::$family(key) => SigningPart::algorithm(key),)*
                }
            }

            /// Returns the public key, which shares this key's memory.
            pub fn public(&self) -> VerifyKey {
                VerifyKey(match &self.0 {
                    $(FamilySigningKey::$family(key) => FamilyVerifyKey::$family(key.public()),)*
                })
            }

            /// Returns the encoded public key.
            pub fn public_bytes(&self) -> &[u8] {
                match &self.0 {
                    $(FamilySigningKey::$family(key) => key.public_bytes(),)*
                }
            }

            /// Returns the private key in the standard encoding. It is secret.
            pub fn bytes(&self) -> &[u8] {
                match &self.0 {
                    $(FamilySigningKey::$family(key) => SigningPart::bytes(key),)*
                }
            }

            /// Returns the maximum length of its signatures in bytes.
            pub fn signature_len_max(&self) -> usize {
                match &self.0 {
                    $(FamilySigningKey::$family(key) => SigningPart::signature_len_max(key),)*
                }
            }

            fn check_message(&self, message: &Message<'_>) -> Result<(), Error> {
                match &self.0 {
                    $(FamilySigningKey::$family(key) => SigningPart::check_message(key, message),)*
                }
            }

            /// Returns the seed, if it is known. It is secret.
            pub fn seed(&self) -> Option<&[u8]> {
                match &self.0 {
                    $(FamilySigningKey::$family(key) => key.seed(),)*
                }
            }
        }

        impl VerifyKey {
            /// Returns the maximum length in bytes of signatures that it can verify, which depends
            /// on the table or, for [`Size::OfKey`], on the key.
            pub fn signature_len_max(&self) -> usize {
                match &self.0 {
                    $(FamilyVerifyKey::$family(key) => VerifyPart::signature_len_max(key),)*
                    $(FamilyVerifyKey::$only(key) => VerifyPart::signature_len_max(key),)*
                }
            }

            /// Refuses a message whose form the algorithm does not support. The message's content
            /// is not checked.
            ///
            /// # Errors
            /// [`Error::Input`].
            pub fn check_message(&self, message: &Message<'_>) -> Result<(), Error> {
                match &self.0 {
                    $(FamilyVerifyKey::$family(key) => VerifyPart::check_message(key, message),)*
                    $(FamilyVerifyKey::$only(key) => VerifyPart::check_message(key, message),)*
                }
            }

            /// Returns the hash whose digest is equivalent to the message, so that
            /// [`Message::Prehash`] equals [`Message::Pure`]: that of ECDSA's curve or of a
            /// composite.
            pub fn own_hash(&self) -> Option<Prehash> {
                match &self.0 {
                    $(FamilyVerifyKey::$family(key) => VerifyPart::own_hash(key),)*
                    $(FamilyVerifyKey::$only(key) => VerifyPart::own_hash(key),)*
                }
            }

            /// Returns the parameter set.
            pub fn algorithm(&self) -> Algorithm {
                match &self.0 {
                    $(FamilyVerifyKey::$family(key) => VerifyPart::algorithm(key),)*
                    $(FamilyVerifyKey::$only(key) => VerifyPart::algorithm(key),)*
                }
            }

            /// Returns the encoded key.
            pub fn bytes(&self) -> &[u8] {
                match &self.0 {
                    $(FamilyVerifyKey::$family(key) => VerifyPart::bytes(key),)*
                    $(FamilyVerifyKey::$only(key) => VerifyPart::bytes(key),)*
                }
            }
        }

        fn generate(
            engine: &Engine,
            algorithm: Algorithm,
            entropy: &dyn Entropy,
        ) -> Result<FamilySigningKey, Error> {
            match algorithm.info().family {
                $(Family::$family if Family::$family.is_built() => {
                    SigningPart::generate(engine, algorithm, entropy).map(FamilySigningKey::$family)
                })*
                $(Family::$family)|* $(| Family::$only)* $(| Family::$other)* => {
                    Err(no_signing(algorithm, "generate signing keys"))
                }
            }
        }

        fn generate_many(
            engine: &Engine,
            algorithm: Algorithm,
            n: usize,
            entropy: &dyn Entropy,
        ) -> Result<Vec<FamilySigningKey>, Error> {
            match algorithm.info().family {
                $(Family::$family if Family::$family.is_built() => {
                    let keys = SigningPart::generate_many(engine, algorithm, n, entropy)?;
                    Ok(keys.into_iter().map(FamilySigningKey::$family).collect())
                })*
                $(Family::$family)|* $(| Family::$only)* $(| Family::$other)* => {
                    Err(no_signing(algorithm, "generate signing keys"))
                }
            }
        }

        fn from_seed(
            engine: &Engine,
            algorithm: Algorithm,
            seed: &[u8],
        ) -> Result<FamilySigningKey, Error> {
            match algorithm.info().family {
                $(Family::$family if Family::$family.is_built() => {
                    SigningPart::from_seed(engine, algorithm, seed).map(FamilySigningKey::$family)
                })*
                $(Family::$family)|* $(| Family::$only)* $(| Family::$other)* => {
                    Err(no_signing(algorithm, "generate signing keys"))
                }
            }
        }

        fn decode_private(
            engine: &Engine,
            algorithm: Algorithm,
            bytes: &[u8],
        ) -> Result<FamilySigningKey, Error> {
            match algorithm.info().family {
                $(Family::$family if Family::$family.is_built() => {
                    SigningPart::decode(engine, algorithm, bytes).map(FamilySigningKey::$family)
                })*
                $(Family::$family)|* $(| Family::$only)* $(| Family::$other)* => {
                    Err(no_signing(algorithm, "decode a signing key"))
                }
            }
        }

        fn decode_public(
            engine: &Engine,
            algorithm: Algorithm,
            bytes: &[u8],
        ) -> Result<FamilyVerifyKey, Error> {
            match algorithm.info().family {
                $(Family::$family if Family::$family.is_built() => {
                    VerifyPart::decode(engine, algorithm, bytes).map(FamilyVerifyKey::$family)
                })*
                $(Family::$only if Family::$only.is_built() => {
                    VerifyPart::decode(engine, algorithm, bytes).map(FamilyVerifyKey::$only)
                })*
                $(Family::$family)|* $(| Family::$only)* $(| Family::$other)* => {
                    Err(wrong_kind(algorithm, "decode a verification key", SIGNATURES))
                }
            }
        }

        fn decode_public_many(
            engine: &Engine,
            algorithm: Algorithm,
            encoded: &[&[u8]],
        ) -> DecodedKeys<FamilyVerifyKey> {
            match algorithm.info().family {
                $(Family::$family if Family::$family.is_built() => {
                    let keys = VerifyPart::decode_many(engine, algorithm, encoded)?;
                    Ok(keys.into_iter().map(|key| key.map(FamilyVerifyKey::$family)).collect())
                })*
                $(Family::$only if Family::$only.is_built() => {
                    let keys = VerifyPart::decode_many(engine, algorithm, encoded)?;
                    Ok(keys.into_iter().map(|key| key.map(FamilyVerifyKey::$only)).collect())
                })*
                $(Family::$family)|* $(| Family::$only)* $(| Family::$other)* => {
                    Err(wrong_kind(algorithm, "decode a verification key", SIGNATURES))
                }
            }
        }

        /// Signs lanes that were checked: keys of one algorithm, arrays that fit.
        fn sign_lanes(
            engine: &Engine,
            keys: &[&SigningKey],
            lanes: SignLanes<'_>,
        ) -> Result<(), Error> {
            match keys.first().map(|key| &key.0) {
                None => Ok(()),
                $(Some(FamilySigningKey::$family(_)) if Family::$family.is_built() => {
                    let known: Vec<_> = keys.iter().filter_map(|key| match &key.0 {
                        FamilySigningKey::$family(key) => Some(key),
                        _ => None,
                    }).collect();
                    SigningPart::sign_many(engine, &known, lanes)
                })*
                // No door makes a key of a family that is not in this build.
                Some(_) => Err(Error::NotBuilt(keys[0].algorithm())),
            }
        }

        /// Verifies lanes that were checked: keys of one algorithm, arrays that fit.
        fn verify_lanes(
            engine: &Engine,
            keys: &[&VerifyKey],
            lanes: VerifyLanes<'_>,
        ) -> Result<(), Error> {
            match keys.first().map(|key| &key.0) {
                None => Ok(()),
                $(Some(FamilyVerifyKey::$family(_)) if Family::$family.is_built() => {
                    let known: Vec<_> = keys.iter().filter_map(|key| match &key.0 {
                        FamilyVerifyKey::$family(key) => Some(key),
                        _ => None,
                    }).collect();
                    VerifyPart::verify_many(engine, &known, lanes)
                })*
                $(Some(FamilyVerifyKey::$only(_)) if Family::$only.is_built() => {
                    let known: Vec<_> = keys.iter().filter_map(|key| match &key.0 {
                        FamilyVerifyKey::$only(key) => Some(key),
                        _ => None,
                    }).collect();
                    VerifyPart::verify_many(engine, &known, lanes)
                })*
                // No door makes a key of a family that is not in this build.
                Some(_) => Err(Error::NotBuilt(keys[0].algorithm())),
            }
        }
    };
}

families! {
    sign and verify {
        MlDsa: family::ml_dsa::SigningKey, family::ml_dsa::VerifyKey;
        SlhDsa: family::slh_dsa::SigningKey, family::slh_dsa::VerifyKey;
        Ed25519: family::ed25519::SigningKey, family::ed25519::VerifyKey;
        FnDsa: family::fn_dsa::SigningKey, family::fn_dsa::VerifyKey;
        Ecdsa: family::ecdsa::SigningKey, family::ecdsa::VerifyKey;
        Composite: family::composite::SigningKey, family::composite::VerifyKey;
    }
    verify {
        Hss: family::hss::VerifyKey;
        Xmss: family::xmss::VerifyKey;
    }
    others { MlKem Ecdh Hybrid }
}

/// The algorithms accepted by the operations of this file, for error messages.
const SIGNATURES: &str = "a signature algorithm, such as ML-DSA-65";

/// The expected kind of algorithm in the error for stateful keys.
const STATELESS: &str = "an algorithm whose private keys stay what they are, such as SLH-DSA-SHA2-128s: \
                         every signature changes this one's, and here it is only verified";

/// The error of an algorithm that has no ordinary signing keys.
fn no_signing(algorithm: Algorithm, operation: &'static str) -> Error {
    let expected = if algorithm.info().stateful { STATELESS } else { SIGNATURES };
    wrong_kind(algorithm, operation, expected)
}

/// A private key of any signature algorithm with its public key, expanded once where the algorithm
/// gains by it. Immutable: any number of threads can sign with it. Clones share it, and the secrets
/// of ML-DSA, SLH-DSA, FN-DSA and Ed25519 are wiped when the last one is dropped.
///
/// HSS, LMS, XMSS and XMSS^MT have no such keys: see
/// [`sign_requests`](super::stateful::sign_requests).
#[derive(Clone)]
pub struct SigningKey(FamilySigningKey);

/// A public key of any signature algorithm, expanded once where the algorithm gains by it.
/// Immutable; clones share it.
#[derive(Clone)]
pub struct VerifyKey(FamilyVerifyKey);

impl SigningKey {
    /// Returns the key in the form for ML-DSA batches; `None` for another algorithm.
    pub fn ml_dsa(&self) -> Option<&ml_dsa::SigningKey> {
        match &self.0 {
            FamilySigningKey::MlDsa(key) => Some(&key.0),
            _ => None,
        }
    }
}

impl VerifyKey {
    /// Returns the slot size in bytes of each signature in a batch with these keys of one
    /// algorithm: the maximum length that one of them may verify.
    pub fn room(keys: &[&VerifyKey]) -> usize {
        let info = keys.first().map(|key| key.algorithm().info());
        info.map_or(0, |info| longest(info, keys.iter().map(|key| key.signature_len_max())))
    }

    /// Returns the key in the form for ML-DSA batches; `None` for another algorithm.
    pub fn ml_dsa(&self) -> Option<&ml_dsa::VerifyKey> {
        match &self.0 {
            FamilyVerifyKey::MlDsa(key) => Some(key.expanded()),
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
    /// let key = engine.signature_generate(Algorithm::SlhDsaSha2_128f, &OsEntropy)?;
    /// assert_eq!(key.public().bytes().len(), Algorithm::SlhDsaSha2_128f.info().public_key.max());
    /// # Ok::<(), gabion_engine::Error>(())
    /// ```
    ///
    /// # Errors
    /// Not a signature algorithm; no randomness; no healthy backend.
    pub fn signature_generate(
        &self,
        algorithm: Algorithm,
        entropy: &dyn Entropy,
    ) -> Result<SigningKey, Error> {
        generate(self, algorithm, entropy).map(SigningKey)
    }

    /// Makes `n` key pairs, with randomness drawn once for all of them.
    ///
    /// # Examples
    /// ```
    /// use gabion_engine::{Algorithm, Engine, OsEntropy};
    ///
    /// let engine = Engine::global()?;
    /// let keys = engine.signature_generate_many(Algorithm::MlDsa44, 16, &OsEntropy)?;
    /// assert_eq!(keys.len(), 16);
    /// # Ok::<(), gabion_engine::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Self::signature_generate`], and [`Error::TooMany`]; no key is returned then.
    pub fn signature_generate_many(
        &self,
        algorithm: Algorithm,
        n: usize,
        entropy: &dyn Entropy,
    ) -> Result<Vec<SigningKey>, Error> {
        check_count(n)?;
        memory::check_keys(algorithm.info(), n)?;
        let keys = all_keys(algorithm, n, generate_many(self, algorithm, n, entropy)?)?;
        Ok(keys.into_iter().map(SigningKey).collect())
    }

    /// Makes the key pair of a seed, whose length is a column of the table.
    ///
    /// # Examples
    /// ```
    /// use gabion_engine::{Algorithm, Engine};
    ///
    /// let engine = Engine::global()?;
    /// let key = engine.signature_from_seed(Algorithm::MlDsa65, &[7; 32])?;
    /// // The seed is known, so that the key can be kept as 32 bytes.
    /// assert_eq!(key.seed(), Some(&[7; 32][..]));
    /// # Ok::<(), gabion_engine::Error>(())
    /// ```
    ///
    /// # Errors
    /// Not a signature algorithm, or one without a seed form; a seed of another length; no healthy
    /// backend.
    pub fn signature_from_seed(
        &self,
        algorithm: Algorithm,
        seed: &[u8],
    ) -> Result<SigningKey, Error> {
        from_seed(self, algorithm, seed).map(SigningKey)
    }

    /// Decodes a private key and checks that its parts belong together.
    ///
    /// # Examples
    /// ```
    /// use gabion_engine::{Algorithm, Engine, OsEntropy};
    ///
    /// let engine = Engine::global()?;
    /// let key = engine.signature_generate(Algorithm::Ed25519, &OsEntropy)?;
    /// let again = engine.signature_private(Algorithm::Ed25519, key.bytes())?;
    /// assert_eq!(again.public_bytes(), key.public_bytes());
    /// # Ok::<(), gabion_engine::Error>(())
    /// ```
    ///
    /// # Errors
    /// Not a signature algorithm; a key that fails a check.
    pub fn signature_private(
        &self,
        algorithm: Algorithm,
        bytes: &[u8],
    ) -> Result<SigningKey, Error> {
        decode_private(self, algorithm, bytes).map(SigningKey)
    }

    /// Decodes a public key.
    ///
    /// # Examples
    /// ```
    /// use gabion_engine::{Algorithm, Engine, OsEntropy};
    ///
    /// let engine = Engine::global()?;
    /// let bytes = engine.signature_generate(Algorithm::MlDsa65, &OsEntropy)?.public().bytes().to_vec();
    /// let key = engine.signature_public(Algorithm::MlDsa65, &bytes)?;
    /// assert_eq!(key.algorithm(), Algorithm::MlDsa65);
    /// assert!(engine.signature_public(Algorithm::MlDsa65, &bytes[1..]).is_err());
    /// # Ok::<(), gabion_engine::Error>(())
    /// ```
    ///
    /// # Errors
    /// Not a signature algorithm; a wrong length; a key that fails a check.
    pub fn signature_public(&self, algorithm: Algorithm, bytes: &[u8]) -> Result<VerifyKey, Error> {
        decode_public(self, algorithm, bytes).map(VerifyKey)
    }

    /// Decodes many public keys of one algorithm, in parallel lanes if that is faster. The results
    /// are in the order of `encoded`; a rejected key does not affect the others.
    ///
    /// # Examples
    /// ```
    /// use gabion_engine::{Algorithm, Engine, OsEntropy};
    ///
    /// let engine = Engine::global()?;
    /// let pairs = engine.signature_generate_many(Algorithm::MlDsa44, 3, &OsEntropy)?;
    /// let mut encoded: Vec<&[u8]> = pairs.iter().map(|pair| pair.public_bytes()).collect();
    /// encoded[1] = b"no key";
    /// let keys = engine.signature_public_many(Algorithm::MlDsa44, &encoded)?;
    /// assert_eq!(keys.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true]);
    /// # Ok::<(), gabion_engine::Error>(())
    /// ```
    ///
    /// # Errors
    /// Not a signature algorithm; no healthy backend. Of a key: as [`Self::signature_public`].
    pub fn signature_public_many(
        &self,
        algorithm: Algorithm,
        encoded: &[&[u8]],
    ) -> Result<Vec<Result<VerifyKey, Error>>, Error> {
        let keys = decode_public_many(self, algorithm, encoded)?;
        Ok(keys.into_iter().map(|key| key.map(VerifyKey)).collect())
    }

    /// Signs a message, with fresh randomness if the algorithm uses any.
    ///
    /// # Examples
    /// ```
    /// use gabion_engine::{Algorithm, Engine, Message, OsEntropy};
    ///
    /// let engine = Engine::global()?;
    /// let key = engine.signature_generate(Algorithm::MlDsa65, &OsEntropy)?;
    /// let message = Message::Pure { context: b"", message: b"text" };
    /// let signature = engine.sign(&key, message, &OsEntropy)?;
    /// engine.verify(&key.public(), message, &signature)?;
    /// # Ok::<(), gabion_engine::Error>(())
    /// ```
    ///
    /// # Errors
    /// A message of the wrong form (a context above 255 bytes, a digest of the wrong length) or of
    /// a form that the algorithm does not have; no randomness; no healthy backend.
    pub fn sign(
        &self,
        key: &SigningKey,
        message: Message<'_>,
        entropy: &dyn Entropy,
    ) -> Result<Vec<u8>, Error> {
        self.sign_one(key, message, Randomness::Fresh(entropy))
    }

    /// Signs deterministically.
    ///
    /// # Examples
    /// ```
    /// use gabion_engine::{Algorithm, Engine, Message, Prehash};
    ///
    /// let engine = Engine::global()?;
    /// let key = engine.signature_from_seed(Algorithm::MlDsa44, &[7; 32])?;
    /// let digest = Prehash::Sha2_512.digest(b"text");
    /// let message = Message::Prehash { context: b"firmware", hash: Prehash::Sha2_512, digest: &digest };
    /// let signature = engine.sign_deterministic(&key, message)?;
    /// assert_eq!(engine.sign_deterministic(&key, message)?, signature);
    /// # Ok::<(), gabion_engine::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Self::sign`] except randomness; [`Error::WrongAlgorithm`] for FN-DSA, Falcon and
    /// composites, which have no deterministic variant.
    pub fn sign_deterministic(
        &self,
        key: &SigningKey,
        message: Message<'_>,
    ) -> Result<Vec<u8>, Error> {
        self.sign_one(key, message, Randomness::Deterministic)
    }

    /// Signs with the caller's randomness. For some algorithms, using it twice or revealing it
    /// reveals the private key.
    ///
    /// # Errors
    /// Those of [`Self::sign`]; randomness of a wrong length.
    pub fn sign_with_randomness(
        &self,
        key: &SigningKey,
        message: Message<'_>,
        randomness: &[u8],
    ) -> Result<Vec<u8>, Error> {
        self.sign_one(key, message, Randomness::Bytes(randomness))
    }

    fn sign_one(
        &self,
        key: &SigningKey,
        message: Message<'_>,
        randomness: Randomness<'_>,
    ) -> Result<Vec<u8>, Error> {
        message.check()?;
        key.check_message(&message)?;
        let mut signature = memory::filled(key.signature_len_max(), 0)?;
        let (mut length, mut status) = ([0], [Status::NotRun]);
        let lanes = SignLanes {
            messages: &[message],
            randomness,
            signatures: &mut signature,
            lengths: &mut length,
            status: &mut status,
        };
        sign_lanes(self, &[key], lanes)?;
        self.check_signed(&[key], &[message], &mut signature, &mut length, &mut status)?;
        lane_result(key.algorithm(), Task::Sign, status[0])?;
        signature.truncate(length[0]);
        Ok(signature)
    }

    /// Verifies a signature.
    ///
    /// # Examples
    /// ```
    /// use gabion_engine::{Algorithm, Engine, Error, Message, OsEntropy};
    ///
    /// let engine = Engine::global()?;
    /// let key = engine.signature_generate(Algorithm::MlDsa65, &OsEntropy)?;
    /// let message = Message::Pure { context: b"", message: b"text" };
    /// let mut signature = engine.sign(&key, message, &OsEntropy)?;
    /// engine.verify(&key.public(), message, &signature)?;
    /// signature[0] ^= 1;
    /// assert_eq!(engine.verify(&key.public(), message, &signature), Err(Error::BadSignature));
    /// # Ok::<(), gabion_engine::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::BadSignature`] if it does not verify, a signature of the wrong length included; a
    /// message of the wrong form; no healthy backend.
    pub fn verify(
        &self,
        key: &VerifyKey,
        message: Message<'_>,
        signature: &[u8],
    ) -> Result<(), Error> {
        message.check()?;
        key.check_message(&message)?;
        let room = key.signature_len_max();
        if signature.len() > room {
            return Err(Error::BadSignature);
        }
        let mut padded = Vec::new();
        if signature.len() < room {
            padded.extend_from_slice(signature);
            padded.resize(room, 0);
        }
        let mut status = [Status::NotRun];
        let lanes = VerifyLanes {
            messages: &[message],
            signatures: if padded.is_empty() { signature } else { &padded },
            lengths: &[signature.len()],
            status: &mut status,
        };
        verify_lanes(self, &[key], lanes)?;
        lane_result(key.algorithm(), Task::Verify, status[0])
    }

    /// Signs many messages, lane by lane: `n` keys of one algorithm (a key may stand in many
    /// lanes), `n` messages; `signatures[n][output]` with the output column of the table, and how
    /// long each came out. A bad lane, for example with a context above 255 bytes, fails alone: its
    /// status says why, its length is 0, and its output is all zero.
    ///
    /// Runs on the calling thread; [`Engine::parallel`] has the same function for several threads.
    /// [`Randomness::Deterministic`] signs like [`Self::sign_deterministic`].
    ///
    /// # Examples
    /// ```
    /// use gabion_engine::{Algorithm, Engine, Message, OsEntropy, Randomness, Status};
    ///
    /// let engine = Engine::global()?;
    /// let (n, room) = (8, Algorithm::MlDsa44.info().output.max());
    /// let key = engine.signature_generate(Algorithm::MlDsa44, &OsEntropy)?;
    /// let messages = vec![Message::Pure { context: b"", message: b"text" }; n];
    /// let (mut signatures, mut lengths) = (vec![0; n * room], vec![0; n]);
    /// let mut status = vec![Status::NotRun; n];
    /// let fresh = Randomness::Fresh(&OsEntropy);
    /// engine.sign_many(
    ///     &vec![&key; n],
    ///     &messages,
    ///     fresh,
    ///     &mut signatures,
    ///     &mut lengths,
    ///     &mut status,
    /// )?;
    /// assert!(status.iter().all(|&lane| lane == Status::Ok));
    /// let first = &signatures[..lengths[0]];
    /// engine.verify(&key.public(), messages[0], first)?;
    /// # Ok::<(), gabion_engine::Error>(())
    /// ```
    ///
    /// # Errors
    /// Misuse: keys of several algorithms, arrays that do not fit, randomness that the algorithm
    /// refuses. No randomness; no healthy backend. [`Error::NoMemory`] above 64 lanes; in smaller
    /// batches a failed allocation may abort the process, except in the shared libraries. After an
    /// error every status is [`Status::NotRun`], every length 0, and every output zero.
    pub fn sign_many(
        &self,
        keys: &[&SigningKey],
        messages: &[Message<'_>],
        randomness: Randomness<'_>,
        signatures: &mut [u8],
        lengths: &mut [usize],
        status: &mut [Status],
    ) -> Result<(), Error> {
        status.fill(Status::NotRun);
        let lanes = SignLanes {
            messages,
            randomness,
            signatures: &mut *signatures,
            lengths: &mut *lengths,
            status: &mut *status,
        };
        let ran = self.sign_fitting(keys, lanes);
        if ran.is_err() {
            status.fill(Status::NotRun);
            lengths.fill(0);
            ct::wipe(signatures);
        }
        ran
    }

    fn sign_fitting(&self, keys: &[&SigningKey], lanes: SignLanes<'_>) -> Result<(), Error> {
        let SignLanes { messages, randomness, signatures, lengths, status } = lanes;
        let algorithms = keys.iter().map(|key| key.algorithm());
        let lens = [messages.len(), lengths.len(), status.len()];
        let rooms = keys.iter().map(|key| key.signature_len_max());
        check_lanes(algorithms, rooms, keys.len(), lens, signatures.len())?;
        let lanes = SignLanes {
            messages,
            randomness,
            signatures: &mut *signatures,
            lengths: &mut *lengths,
            status: &mut *status,
        };
        sign_lanes(self, keys, lanes)?;
        self.check_signed(keys, messages, signatures, lengths, status)
    }

    /// Verifies many signatures, lane by lane, laid out as [`Self::sign_many`] leaves them, each in
    /// a place of [`VerifyKey::room`] bytes; where keys of one algorithm differ in that
    /// ([`Size::OfKey`]), of any one length up to the table's. Gives the verdict of
    /// [`Self::verify`] in every lane.
    ///
    /// # Examples
    /// ```
    /// use gabion_engine::{Algorithm, Engine, Message, OsEntropy, Randomness, Status};
    ///
    /// let engine = Engine::global()?;
    /// let (n, room) = (8, Algorithm::MlDsa44.info().output.max());
    /// let key = engine.signature_generate(Algorithm::MlDsa44, &OsEntropy)?;
    /// let messages = vec![Message::Pure { context: b"", message: b"text" }; n];
    /// let (mut signatures, mut lengths) = (vec![0; n * room], vec![0; n]);
    /// let mut status = vec![Status::NotRun; n];
    /// let fresh = Randomness::Fresh(&OsEntropy);
    /// # let keys = vec![&key; n];
    /// # engine.sign_many(&keys, &messages, fresh, &mut signatures, &mut lengths, &mut status)?;
    /// let public = key.public();
    /// signatures[3 * room] ^= 1;
    /// engine.verify_many(&vec![&public; n], &messages, &signatures, &lengths, &mut status)?;
    /// assert_eq!(status[3], Status::InvalidSignature);
    /// assert_eq!(status.iter().filter(|&&lane| lane == Status::Ok).count(), n - 1);
    /// # Ok::<(), gabion_engine::Error>(())
    /// ```
    ///
    /// # Errors
    /// Misuse: keys of several algorithms, arrays that do not fit. No healthy backend. A length
    /// above the table's is no misuse: it is what a peer sent, and its lane's signature is not
    /// valid.
    pub fn verify_many(
        &self,
        keys: &[&VerifyKey],
        messages: &[Message<'_>],
        signatures: &[u8],
        lengths: &[usize],
        status: &mut [Status],
    ) -> Result<(), Error> {
        status.fill(Status::NotRun);
        let room = check_signed_lanes(keys, messages, signatures, lengths, status)?;
        if lengths.iter().all(|&length| length <= room) {
            return verify_lanes(self, keys, VerifyLanes { messages, signatures, lengths, status });
        }
        // A signature that its place can't hold is not read: its lane verifies nothing. Only a
        // message that is refused comes first, as it does where there is one lane.
        let fitting = |&length: &usize| if length > room { 0 } else { length };
        let fitting: Vec<_> = lengths.iter().map(fitting).collect();
        let lanes = VerifyLanes { messages, signatures, lengths: &fitting, status: &mut *status };
        verify_lanes(self, keys, lanes)?;
        for (status, _) in status.iter_mut().zip(lengths).filter(|lane| *lane.1 > room) {
            if *status != Status::InvalidInput {
                *status = Status::InvalidSignature;
            }
        }
        Ok(())
    }
}

/// Returns the maximum signature length of keys of one algorithm. `rooms` are those of the keys,
/// used only if the table leaves the length to the key.
fn longest(info: &AlgorithmInfo, rooms: impl Iterator<Item = usize>) -> usize {
    match info.output {
        Size::Fixed(len) | Size::UpTo(len) => len,
        Size::OfKey(_) => rooms.max().unwrap_or(0),
    }
}

/// Refuses keys of several algorithms, and arrays that do not fit `n` lanes: `rooms` for the
/// signatures of the keys, `lens` of what has one place a lane, and that of the signatures. Gives
/// how many bytes a signature has room for.
pub(crate) fn check_lanes(
    algorithms: impl Iterator<Item = Algorithm>,
    rooms: impl Iterator<Item = usize>,
    n: usize,
    lens: [usize; 3],
    signatures: usize,
) -> Result<usize, Error> {
    let info = check_batch(n, algorithms)?;
    let room = info.map_or(0, |info| longest(info, rooms));
    if lens == [n; 3] && signatures == n * room {
        memory::check_operations(room, n)?;
        return Ok(room);
    }
    Err(Error::Input(gabion_scheme::Error::Batch { lanes: n }))
}

/// Checks the lanes of a verification with given lengths; any length is allowed, because a peer
/// chooses it. For algorithms whose signature length depends on the key, the slot size is the
/// buffer length divided by the number of lanes.
pub(crate) fn check_signed_lanes(
    keys: &[&VerifyKey],
    messages: &[Message<'_>],
    signatures: &[u8],
    lengths: &[usize],
    status: &[Status],
) -> Result<usize, Error> {
    let algorithms = keys.iter().map(|key| key.algorithm());
    let lens = [messages.len(), lengths.len(), status.len()];
    let most = keys.first().map_or(0, |key| key.algorithm().info().output.max());
    let place = most.min(signatures.len() / keys.len().max(1));
    check_lanes(algorithms, std::iter::once(place), keys.len(), lens, signatures.len())
}
