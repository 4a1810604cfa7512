//! Keys of all kinds, as stored in key files and caches and passed between crates.
//!
//! ```text
//!   Forms { seed, expanded, public } --import----> Key --+-- Private --+-- Kem        KemPrivateKey
//!   nothing but an algorithm ---------generate--->       |     |       +-- Signature  SigningKey
//!                                                        |     |       +-- Exchange   ExchangePrivateKey
//!                                                        |     | public()
//!                                                        |     v
//!   bytes of a public key ------------import----->       +-- Public ---+-- Kem        KemPublicKey
//!                                                                      +-- Signature  VerifyKey
//!   Key --forms(), bytes()--> Forms, bytes                             +-- Exchange   ExchangePublicKey
//! ```
//!
//! Callers that know the kind of a key use the typed functions of [`Engine`] (`kem_generate`,
//! `signature_private`, `exchange_public` and so on). Callers that learn the algorithm at run time
//! use the functions of this file, which dispatch to them by kind.
//!
//! [`PrivateKey::import`] checks that parts of a key match, and all sources of keys go through it:
//! files, the provider's parameters, C, raw bytes. The rules are:
//! - The seed must derive the expanded key.
//! - An expanded key must pass the checks of its standard. That of a KEM is also tested with an
//!   encapsulation, since those checks do not detect a secret of another key.
//! - The public key must belong to the private key.

pub(crate) mod exchange;
mod forms;
pub(crate) mod kem;
pub(crate) mod signature;
pub mod stateful;

use gabion_scheme::Algorithm;
use gabion_scheme::algorithms::{Family, Kind};
use gabion_scheme::message::Message;

use crate::entropy::Entropy;
use crate::error::{self, Error, missing_seed, same_key};
use crate::route::Engine;

pub use exchange::{ExchangePrivateKey, ExchangePublicKey};
pub use forms::Forms;
pub use kem::{KemPrivateKey, KemPublicKey};
pub use signature::{SigningKey, VerifyKey};

/// A private key of any kind, with its public key. It is not `Clone`: the keys of a kind are, where
/// they never change, and a key that signing uses up must not be.
pub enum PrivateKey {
    /// A decapsulation key.
    Kem(KemPrivateKey),
    /// A signing key.
    Signature(SigningKey),
    /// A private key of a key exchange.
    Exchange(ExchangePrivateKey),
}

/// A public key of any kind. Immutable; clones share it.
#[derive(Clone)]
pub enum PublicKey {
    /// An encapsulation key.
    Kem(KemPublicKey),
    /// A verification key.
    Signature(VerifyKey),
    /// A peer's key of a key exchange.
    Exchange(ExchangePublicKey),
}

/// A key of either half, as a key file holds one.
pub enum Key {
    /// A private key.
    Private(PrivateKey),
    /// A public key.
    Public(PublicKey),
}

/// Asks the key that an enum of this file holds, whatever its kind.
macro_rules! ask {
    ($of:expr, $key:ident => $answer:expr) => {
        match $of {
            Self::Kem($key) => $answer,
            Self::Signature($key) => $answer,
            Self::Exchange($key) => $answer,
        }
    };
}

impl PrivateKey {
    /// Makes a key pair of any algorithm.
    ///
    /// # Examples
    /// ```
    /// use gabion_engine::keys::PrivateKey;
    /// use gabion_engine::{Algorithm, Engine, OsEntropy};
    ///
    /// let engine = Engine::global()?;
    /// let key = PrivateKey::generate(engine, "ML-DSA-65".parse()?, &OsEntropy)?;
    /// assert_eq!(key.public_bytes().len(), Algorithm::MlDsa65.info().public_key.max());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// No randomness; no healthy backend.
    pub fn generate(
        engine: &Engine,
        algorithm: Algorithm,
        entropy: &dyn Entropy,
    ) -> Result<Self, Error> {
        match algorithm.info().kind {
            Kind::Kem => engine.kem_generate(algorithm, entropy).map(Self::Kem),
            Kind::Signature => engine.signature_generate(algorithm, entropy).map(Self::Signature),
            Kind::KeyExchange => engine.exchange_generate(algorithm, entropy).map(Self::Exchange),
        }
    }

    /// Makes `n` key pairs, with randomness drawn once for all of them.
    ///
    /// # Errors
    /// Those of [`Self::generate`], and [`Error::TooMany`]; no key is returned then.
    pub fn generate_many(
        engine: &Engine,
        algorithm: Algorithm,
        n: usize,
        entropy: &dyn Entropy,
    ) -> Result<Vec<Self>, Error> {
        Ok(match algorithm.info().kind {
            Kind::Kem => each(engine.kem_generate_many(algorithm, n, entropy)?, Self::Kem),
            Kind::Signature => {
                each(engine.signature_generate_many(algorithm, n, entropy)?, Self::Signature)
            }
            Kind::KeyExchange => {
                each(engine.exchange_generate_many(algorithm, n, entropy)?, Self::Exchange)
            }
        })
    }

    /// Imports a private key in the formats in which it was received, which must belong together:
    /// the rule is at the head of this file.
    ///
    /// # Examples
    /// ```
    /// use gabion_engine::keys::{Forms, PrivateKey};
    /// use gabion_engine::{Algorithm, Engine, OsEntropy};
    ///
    /// let engine = Engine::global()?;
    /// let make = || PrivateKey::generate(engine, Algorithm::MlDsa44, &OsEntropy);
    /// let (ours, other) = (make()?, make()?);
    /// let again = PrivateKey::import(engine, Algorithm::MlDsa44, &ours.forms())?;
    /// assert_eq!(again.public_bytes(), ours.public_bytes());
    /// let mixed = Forms { public: Some(other.public_bytes()), ..ours.forms() };
    /// assert!(PrivateKey::import(engine, Algorithm::MlDsa44, &mixed).is_err());
    /// # Ok::<(), gabion_engine::Error>(())
    /// ```
    ///
    /// # Errors
    /// A format that the algorithm does not have, or that a check rejects; formats that do not
    /// belong together; no healthy backend.
    pub fn import(engine: &Engine, algorithm: Algorithm, forms: &Forms<'_>) -> Result<Self, Error> {
        Self::import_with(engine, algorithm, forms, true)
    }

    /// Imports a key like [`Self::import`], but without the pairwise test of a KEM's expanded key,
    /// for callers that have already done it.
    ///
    /// # Errors
    /// Fails like [`Self::import`].
    pub fn import_untested(
        engine: &Engine,
        algorithm: Algorithm,
        forms: &Forms<'_>,
    ) -> Result<Self, Error> {
        Self::import_with(engine, algorithm, forms, false)
    }

    fn import_with(
        engine: &Engine,
        algorithm: Algorithm,
        forms: &Forms<'_>,
        is_tested: bool,
    ) -> Result<Self, Error> {
        let key = match (forms.seed, forms.expanded) {
            (Some(seed), None) => Self::of_seed(engine, algorithm, seed)?,
            (Some(seed), Some(expanded)) => {
                let key = Self::of_seed(engine, algorithm, seed)?;
                same_key(algorithm, key.bytes(), expanded)?;
                key
            }
            // A key of no form is one of no bytes: its length is refused.
            (None, expanded) => {
                Self::of_expanded(engine, algorithm, expanded.unwrap_or_default(), is_tested)?
            }
        };
        key.check_public(forms.public)?;
        Ok(key)
    }

    fn of_seed(engine: &Engine, algorithm: Algorithm, seed: &[u8]) -> Result<Self, Error> {
        match algorithm.info().kind {
            Kind::Kem => engine.kem_from_seed(algorithm, seed).map(Self::Kem),
            Kind::Signature => engine.signature_from_seed(algorithm, seed).map(Self::Signature),
            Kind::KeyExchange => Err(missing_seed(algorithm)),
        }
    }

    fn of_expanded(
        engine: &Engine,
        algorithm: Algorithm,
        bytes: &[u8],
        is_tested: bool,
    ) -> Result<Self, Error> {
        match (algorithm.info().kind, is_tested) {
            (Kind::Kem, true) => engine.kem_private(algorithm, bytes).map(Self::Kem),
            (Kind::Kem, false) => engine.kem_private_untested(algorithm, bytes).map(Self::Kem),
            (Kind::Signature, _) => engine.signature_private(algorithm, bytes).map(Self::Signature),
            (Kind::KeyExchange, _) => engine.exchange_private(algorithm, bytes).map(Self::Exchange),
        }
    }

    /// Refuses a public key that came with this one and is another one's.
    pub(crate) fn check_public(&self, public: Option<&[u8]>) -> Result<(), Error> {
        match public {
            Some(public) if !is_same_public(self.algorithm(), public, self.public_bytes()) => {
                let reason = "the public key that came with it does not belong to it";
                Err(error::private_key(self.algorithm(), reason))
            }
            _ => Ok(()),
        }
    }

    /// Returns the parameter set.
    pub fn algorithm(&self) -> Algorithm {
        ask!(self, key => key.algorithm())
    }

    /// Returns the public key, which shares this key's memory.
    pub fn public(&self) -> PublicKey {
        match self {
            PrivateKey::Kem(key) => PublicKey::Kem(key.public()),
            PrivateKey::Signature(key) => PublicKey::Signature(key.public()),
            PrivateKey::Exchange(key) => PublicKey::Exchange(key.public()),
        }
    }

    /// Returns the encoded public key.
    pub fn public_bytes(&self) -> &[u8] {
        ask!(self, key => key.public_bytes())
    }

    /// Returns the private key in the standard encoding; its expanded form if there are several. It
    /// is secret.
    pub fn bytes(&self) -> &[u8] {
        ask!(self, key => key.bytes())
    }

    /// Returns the seed, if it is known. It is secret.
    pub fn seed(&self) -> Option<&[u8]> {
        match self {
            PrivateKey::Kem(key) => key.seed(),
            PrivateKey::Signature(key) => key.seed(),
            PrivateKey::Exchange(_) => None,
        }
    }

    /// Returns the forms of the key, as [`Self::import`] accepts them. They are secret.
    pub fn forms(&self) -> Forms<'_> {
        // The private key of Ed25519 is its seed, and has no other form (RFC 8410, section 7).
        let is_seed = self.algorithm().info().family == Family::Ed25519;
        let seed = self.seed().filter(|_| !is_seed);
        Forms { seed, expanded: Some(self.bytes()), public: Some(self.public_bytes()) }
    }

    /// Uses both halves and compares: encapsulates and decapsulates, signs and verifies, or makes
    /// the public key again.
    ///
    /// # Errors
    /// [`Error::Pairwise`] if they do not belong together; no randomness; no healthy backend.
    pub fn pairwise_test(&self, engine: &Engine, entropy: &dyn Entropy) -> Result<(), Error> {
        let is_pair = match self {
            PrivateKey::Kem(key) => {
                let (ciphertext, shared) = engine.encaps(&key.public(), entropy)?;
                engine.decaps(key, &ciphertext)? == shared
            }
            PrivateKey::Signature(key) => {
                let message = Message::Pure { context: &[], message: b"pairwise test" };
                let signature = engine.sign(key, message, entropy)?;
                match engine.verify(&key.public(), message, &signature) {
                    Err(Error::BadSignature) => false,
                    verdict => verdict.map(|()| true)?,
                }
            }
            PrivateKey::Exchange(key) => {
                let again = engine.exchange_private(key.algorithm(), key.bytes())?;
                again.public_bytes() == key.public_bytes()
            }
        };
        if is_pair { Ok(()) } else { Err(Error::Pairwise(self.algorithm())) }
    }
}

/// Returns whether a public key equals `own`, the encoding that the engine writes. A point on a
/// curve may also be compressed or hybrid (SEC 1, section 2.3.3; X9.62), as OpenSSL writes it for
/// `-conv_form`.
fn is_same_public(algorithm: Algorithm, public: &[u8], own: &[u8]) -> bool {
    let is_point = algorithm.info().parameters_oid.is_some();
    let (Some((form, coordinates)), Some((_, own_coordinates)), Some(last)) =
        (public.split_first(), own.split_first(), own.last())
    else {
        return public == own;
    };
    let parity = last & 1;
    let own_x = &own_coordinates[..own_coordinates.len() / 2];
    let is_compressed = *form == (2 | parity) && coordinates == own_x;
    let is_hybrid = *form == (6 | parity) && coordinates == own_coordinates;
    public == own || (is_point && (is_compressed || is_hybrid))
}

impl PublicKey {
    /// Imports a public key of any algorithm, with the checks of its standard.
    ///
    /// # Errors
    /// A wrong length; a key that fails a check.
    pub fn import(engine: &Engine, algorithm: Algorithm, bytes: &[u8]) -> Result<Self, Error> {
        match algorithm.info().kind {
            Kind::Kem => engine.kem_public(algorithm, bytes).map(Self::Kem),
            Kind::Signature => engine.signature_public(algorithm, bytes).map(Self::Signature),
            Kind::KeyExchange => engine.exchange_public(algorithm, bytes).map(Self::Exchange),
        }
    }

    /// Imports many public keys of one algorithm, in parallel lanes if that is faster. The results
    /// are in the order of `encoded`.
    ///
    /// # Errors
    /// No healthy backend. For each key: as for [`Self::import`].
    pub fn import_many(
        engine: &Engine,
        algorithm: Algorithm,
        encoded: &[&[u8]],
    ) -> Result<Vec<Result<Self, Error>>, Error> {
        Ok(match algorithm.info().kind {
            Kind::Kem => {
                each(engine.kem_public_many(algorithm, encoded)?, |key| key.map(Self::Kem))
            }
            Kind::Signature => each(engine.signature_public_many(algorithm, encoded)?, |key| {
                key.map(Self::Signature)
            }),
            Kind::KeyExchange => {
                encoded.iter().map(|bytes| Self::import(engine, algorithm, bytes)).collect()
            }
        })
    }

    /// Returns the parameter set.
    pub fn algorithm(&self) -> Algorithm {
        ask!(self, key => key.algorithm())
    }

    /// Returns the encoded key.
    pub fn bytes(&self) -> &[u8] {
        ask!(self, key => key.bytes())
    }
}

impl Key {
    /// Imports a key in the formats in which it was received: a private key if any private format
    /// is present, otherwise a public key.
    ///
    /// # Errors
    /// Those of [`PrivateKey::import`] and [`PublicKey::import`].
    pub fn import(engine: &Engine, algorithm: Algorithm, forms: &Forms<'_>) -> Result<Self, Error> {
        match forms {
            Forms { seed: None, expanded: None, public: Some(public) } => {
                PublicKey::import(engine, algorithm, public).map(Key::Public)
            }
            forms => PrivateKey::import(engine, algorithm, forms).map(Key::Private),
        }
    }

    /// Returns the parameter set.
    pub fn algorithm(&self) -> Algorithm {
        match self {
            Key::Private(key) => key.algorithm(),
            Key::Public(key) => key.algorithm(),
        }
    }

    /// Returns the public key, which shares this key's memory.
    pub fn public(&self) -> PublicKey {
        match self {
            Key::Private(key) => key.public(),
            Key::Public(key) => key.clone(),
        }
    }

    /// Returns the encoded public key.
    pub fn public_bytes(&self) -> &[u8] {
        match self {
            Key::Private(key) => key.public_bytes(),
            Key::Public(key) => key.bytes(),
        }
    }

    /// Returns the private key, if this is one.
    pub fn private(&self) -> Option<&PrivateKey> {
        match self {
            Key::Private(key) => Some(key),
            Key::Public(_) => None,
        }
    }
}

fn each<A, B>(keys: Vec<A>, wrap: impl Fn(A) -> B) -> Vec<B> {
    keys.into_iter().map(wrap).collect()
}
