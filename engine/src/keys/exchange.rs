//! Key exchange: X25519 and ECDH on P-256, P-384 and P-521.

use std::sync::Arc;

use gabion_scheme::{Algorithm, ct};
use zeroize::Zeroizing;

use crate::ecc::{self, Curve};
use crate::entropy::Entropy;
use crate::error::{
    Error, all_keys, check_count, check_length, private_key, public_key, wrong_kind,
};
use crate::key_schedule;
use crate::keys::kem::SharedSecret;
use crate::memory;
use crate::route::Engine;

/// A private key of a key exchange with its public key. Immutable; clones share it.
#[derive(Clone)]
pub struct ExchangePrivateKey(Arc<Pair>);

struct Pair {
    private: Zeroizing<Vec<u8>>,
    public: ExchangePublicKey,
}

/// A public key of a key exchange that was found to be one. Immutable; clones share it.
#[derive(Clone)]
pub struct ExchangePublicKey {
    algorithm: Algorithm,
    bytes: Arc<[u8]>,
}

impl ExchangePrivateKey {
    /// Returns the algorithm.
    pub fn algorithm(&self) -> Algorithm {
        self.0.public.algorithm
    }

    /// Returns the public key.
    pub fn public(&self) -> ExchangePublicKey {
        self.0.public.clone()
    }

    /// Returns the private scalar, little-endian for X25519 and big-endian for the others. It is
    /// secret.
    pub fn bytes(&self) -> &[u8] {
        &self.0.private
    }

    /// Returns the encoded public key.
    pub fn public_bytes(&self) -> &[u8] {
        &self.0.public.bytes
    }
}

impl ExchangePublicKey {
    /// Returns the algorithm.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Returns the key in the encoding of TLS: 32 bytes for X25519, the uncompressed point for the
    /// others.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Returns the curve of a key exchange after running its self-test.
fn curve_of(
    engine: &Engine,
    algorithm: Algorithm,
    operation: &'static str,
) -> Result<Curve, Error> {
    use gabion_scheme::algorithms::Kind;
    let expected = "a key exchange, such as X25519";
    match Curve::of(algorithm) {
        Some(curve) if algorithm.info().kind == Kind::KeyExchange => {
            engine.backend_for(algorithm)?;
            Ok(curve)
        }
        _ => Err(wrong_kind(algorithm, operation, expected)),
    }
}

/// Bytes of keying material at least: as many as the private key has (RFC 9180, section 7.1.3).
const IKM_MIN: usize = 32;

/// Clamps 32 bytes as X25519 does with every private key before it uses it (RFC 7748, section 5),
/// so that implementations that store the bytes and those that store the number write the same key.
pub fn clamp(private: &mut [u8; 32]) {
    private[0] &= 248;
    private[31] &= 127;
    private[31] |= 64;
}

const SCALAR: &str = "it is not a scalar from 1 to the order of the curve minus one";

impl Engine {
    /// Makes a key pair.
    ///
    /// # Examples
    /// ```
    /// use gabion_engine::{Algorithm, Engine, OsEntropy};
    ///
    /// let engine = Engine::global()?;
    /// let key = engine.exchange_generate(Algorithm::EcdhP256, &OsEntropy)?;
    /// assert_eq!(key.public_bytes().len(), 65);
    /// # Ok::<(), gabion_engine::Error>(())
    /// ```
    ///
    /// # Errors
    /// Not a key exchange; no randomness; no healthy backend.
    pub fn exchange_generate(
        &self,
        algorithm: Algorithm,
        entropy: &dyn Entropy,
    ) -> Result<ExchangePrivateKey, Error> {
        let curve = curve_of(self, algorithm, "generate exchange keys")?;
        pair(algorithm, curve, ecc::generate(curve, entropy)?)
    }

    /// Makes `n` key pairs, X25519 in the lanes of a backend that supports it. For pools of
    /// ephemeral keys.
    ///
    /// # Errors
    /// Those of [`Self::exchange_generate`], and [`Error::TooMany`]; no key is returned then.
    pub fn exchange_generate_many(
        &self,
        algorithm: Algorithm,
        n: usize,
        entropy: &dyn Entropy,
    ) -> Result<Vec<ExchangePrivateKey>, Error> {
        let curve = curve_of(self, algorithm, "generate exchange keys")?;
        check_count(n)?;
        memory::check_keys(algorithm.info(), n)?;
        let mut scalars = Zeroizing::new(vec![0; n * curve.scalar_len()]);
        ecc::fill(curve, entropy, &mut scalars)?;
        let lanes: Vec<_> = scalars.chunks_exact(curve.scalar_len()).collect();
        let points = ecc::lanes::public_keys(self, curve, &lanes)?;
        let keys = lanes.into_iter().zip(points);
        let keys = keys
            .map(|(scalar, point)| paired(algorithm, Zeroizing::new(scalar.to_vec()), point))
            .collect::<Result<_, _>>()?;
        all_keys(algorithm, n, keys)
    }

    /// Imports a private scalar and computes its public key. Any 32 bytes are a key of X25519.
    ///
    /// # Errors
    /// Not a key exchange; a wrong length; a number that is not a valid scalar of the curve.
    pub fn exchange_private(
        &self,
        algorithm: Algorithm,
        bytes: &[u8],
    ) -> Result<ExchangePrivateKey, Error> {
        let curve = curve_of(self, algorithm, "decode an exchange key")?;
        check_length("the private key", curve.scalar_len(), bytes)?;
        if !ecc::is_private(curve, bytes) {
            return Err(private_key(algorithm, SCALAR));
        }
        pair(algorithm, curve, Zeroizing::new(bytes.to_vec()))
    }

    /// Derives an HPKE key pair for X25519 from keying material: DeriveKeyPair of DHKEM(X25519,
    /// HKDF-SHA256) (RFC 9180, section 7.1.3), clamped.
    ///
    /// # Errors
    /// Not X25519; keying material of less than 32 bytes.
    pub fn exchange_from_ikm(
        &self,
        algorithm: Algorithm,
        ikm: &[u8],
    ) -> Result<ExchangePrivateKey, Error> {
        let operation = "derive a key pair from keying material";
        if curve_of(self, algorithm, operation)? != Curve::X25519 {
            return Err(wrong_kind(algorithm, operation, Algorithm::X25519.name()));
        }
        if ikm.len() < IKM_MIN {
            check_length("the keying material", IKM_MIN, ikm)?;
        }
        let mut private = key_schedule::dhkem_x25519(ikm)?;
        clamp(&mut private);
        pair(algorithm, Curve::X25519, Zeroizing::new(private.to_vec()))
    }

    /// Imports a peer's public key and validates it (SP 800-56A, section 5.6.2.3.3). Any 32 bytes
    /// are a key of X25519.
    ///
    /// # Examples
    /// ```
    /// use gabion_engine::{Algorithm, Engine, OsEntropy};
    ///
    /// let engine = Engine::global()?;
    /// let theirs = engine.exchange_generate(Algorithm::EcdhP256, &OsEntropy)?;
    /// let peer = engine.exchange_public(Algorithm::EcdhP256, theirs.public_bytes())?;
    /// let ours = engine.exchange_generate(Algorithm::EcdhP256, &OsEntropy)?;
    /// assert_eq!(engine.derive(&ours, &peer)?, engine.derive(&theirs, &ours.public())?);
    /// # Ok::<(), gabion_engine::Error>(())
    /// ```
    ///
    /// # Errors
    /// Not a key exchange; a wrong length; bytes that are not an uncompressed point of the curve.
    pub fn exchange_public(
        &self,
        algorithm: Algorithm,
        bytes: &[u8],
    ) -> Result<ExchangePublicKey, Error> {
        let curve = curve_of(self, algorithm, "decode an exchange key")?;
        check_length("the public key", curve.public_len(), bytes)?;
        if !ecc::is_public(curve, bytes) {
            return Err(public_key(algorithm, "it is not an uncompressed point of the curve"));
        }
        Ok(ExchangePublicKey { algorithm, bytes: bytes.into() })
    }

    /// Derives the shared secret: X25519 (RFC 7748, section 6.1), or the x coordinate of ECDH (SP
    /// 800-56A, section 5.7.1.2).
    ///
    /// # Examples
    /// ```
    /// use gabion_engine::{Algorithm, Engine, OsEntropy};
    ///
    /// let engine = Engine::global()?;
    /// let ours = engine.exchange_generate(Algorithm::X25519, &OsEntropy)?;
    /// let theirs = engine.exchange_generate(Algorithm::X25519, &OsEntropy)?;
    /// let secret = engine.derive(&ours, &theirs.public())?;
    /// assert_eq!(engine.derive(&theirs, &ours.public())?, secret);
    /// # Ok::<(), gabion_engine::Error>(())
    /// ```
    ///
    /// # Errors
    /// Keys of two algorithms; a peer's key of small order, which gives an all-zero secret; no
    /// healthy backend.
    pub fn derive(
        &self,
        key: &ExchangePrivateKey,
        peer: &ExchangePublicKey,
    ) -> Result<SharedSecret, Error> {
        check_pair(key, peer)?;
        let algorithm = key.algorithm();
        let curve = curve_of(self, algorithm, "derive")?;
        let mut shared = SharedSecret::blank(algorithm);
        let (private, public) = ([key.bytes()], [ecc::PeerKey::Encoded(peer.bytes())]);
        if ecc::lanes::derive_many(self, curve, &private, &public, &mut shared)? == [true] {
            return Ok(shared);
        }
        Err(public_key(algorithm, "the secret with it is all zero"))
    }

    /// Derives the shared secrets of pairs of private and public keys of one algorithm, for X25519
    /// in the lanes of a backend that supports it. A failed lane has the error of [`Self::derive`]
    /// and does not affect the others.
    ///
    /// # Examples
    /// ```
    /// use gabion_engine::{Algorithm, Engine, OsEntropy};
    ///
    /// let engine = Engine::global()?;
    /// let ours = engine.exchange_generate_many(Algorithm::X25519, 8, &OsEntropy)?;
    /// let theirs = engine.exchange_generate(Algorithm::X25519, &OsEntropy)?.public();
    /// let lanes: Vec<_> = ours.iter().map(|key| (key, &theirs)).collect();
    /// let secrets = engine.derive_many(&lanes)?;
    /// assert!(secrets.iter().all(Result::is_ok));
    /// # Ok::<(), gabion_engine::Error>(())
    /// ```
    ///
    /// # Errors
    /// Keys of two algorithms; no healthy backend.
    pub fn derive_many(
        &self,
        lanes: &[(&ExchangePrivateKey, &ExchangePublicKey)],
    ) -> Result<Vec<Result<SharedSecret, Error>>, Error> {
        let Some((key, _)) = lanes.first() else { return Ok(Vec::new()) };
        let algorithm = key.algorithm();
        let curve = curve_of(self, algorithm, "derive")?;
        for (key, peer) in lanes {
            for other in [key.algorithm(), peer.algorithm] {
                if other != algorithm {
                    return Err(wrong_kind(other, "derive in this batch", algorithm.name()));
                }
            }
        }
        let private: Vec<_> = lanes.iter().map(|lane| lane.0.bytes()).collect();
        let public: Vec<_> =
            lanes.iter().map(|lane| ecc::PeerKey::Encoded(lane.1.bytes())).collect();
        let mut shared = Zeroizing::new(vec![0; lanes.len() * curve.scalar_len()]);
        let good = ecc::lanes::derive_many(self, curve, &private, &public, &mut shared)?;
        let secrets = shared.chunks_exact(curve.scalar_len()).zip(good);
        let secret = |(bytes, is_good): (&[u8], bool)| match is_good {
            true => Ok(SharedSecret::of(algorithm, bytes)),
            false => Err(public_key(algorithm, "the secret with it is all zero")),
        };
        Ok(secrets.map(secret).collect())
    }
}

/// Refuses keys of two algorithms.
pub(crate) fn check_pair(key: &ExchangePrivateKey, peer: &ExchangePublicKey) -> Result<(), Error> {
    let algorithm = key.algorithm();
    if peer.algorithm == algorithm {
        return Ok(());
    }
    Err(wrong_kind(peer.algorithm, "derive with this key", algorithm.name()))
}

fn pair(
    algorithm: Algorithm,
    curve: Curve,
    private: Zeroizing<Vec<u8>>,
) -> Result<ExchangePrivateKey, Error> {
    let public = ecc::public_key(curve, &private);
    paired(algorithm, private, public)
}

/// Combines a private key with its public key, which is `None` for an invalid scalar.
fn paired(
    algorithm: Algorithm,
    private: Zeroizing<Vec<u8>>,
    public: Option<Vec<u8>>,
) -> Result<ExchangePrivateKey, Error> {
    let public = public.ok_or_else(|| private_key(algorithm, SCALAR))?;
    ct::declassify(&public); // A public key.
    let public = ExchangePublicKey { algorithm, bytes: public.into() };
    Ok(ExchangePrivateKey(Arc::new(Pair { private, public })))
}
