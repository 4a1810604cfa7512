//! The key material of a version, expanded for use and encoded for storage.

use gabion_engine::keys::{Forms, PrivateKey, PublicKey};
use gabion_engine::{
    Engine, Entropy, Error as EngineError, KemPrivateKey, KemPublicKey, OsEntropy, SigningKey,
    VerifyKey,
};
use zeroize::Zeroizing;

use crate::error::Error;
use crate::model::{KeyAlgorithm, Rsa};
use crate::rsa;
use crate::symmetric::{Aead, Mac};

/// An expanded key.
pub enum Material {
    Signature {
        signing: SigningKey,
        verify: VerifyKey,
    },
    Kem {
        private: KemPrivateKey,
        public: KemPublicKey,
    },
    /// Only a public key, for verifying.
    Verify(VerifyKey),
    /// Only a public key of a KEM.
    Encapsulate(KemPublicKey),
    Aead(Aead),
    Mac(Mac),
    Rsa(Box<rsa::PrivateKey>),
    /// Only a public RSA key.
    RsaPublic(Box<rsa::PublicKey>),
}

/// A key to be stored.
pub enum New {
    Pair(PrivateKey),
    Public(PublicKey),
    Secret(Zeroizing<Vec<u8>>),
    Rsa(Box<rsa::PrivateKey>),
    RsaPublic(Box<rsa::PublicKey>),
}

/// An encoded key: the public key, the private key, and the form of the latter.
pub struct EncodedKey<'a> {
    pub public: &'a [u8],
    pub secret: &'a [u8],
    pub form: u8,
}

/// The private key is the seed.
const SEED: u8 = 1;
/// The private key is in the standard's encoding.
const EXPANDED: u8 = 2;
/// The key is symmetric and has no public half.
const SYMMETRIC: u8 = 3;
/// Only the public key is known.
const PUBLIC: u8 = 4;

/// The approximate maximum ratio of the size of an expanded key to that of the encoded one: 54 KiB
/// to 4 KiB for ML-DSA-65.
const EXPANSION: usize = 14;

/// The approximate ratio of the size of an expanded RSA key to that of the encoded one, with its
/// precomputed values.
const RSA_EXPANSION: usize = 6;

/// The approximate size of a symmetric key in bytes: round keys, tables, hash states.
const SYMMETRIC_BYTES: usize = 1024;

impl EncodedKey<'_> {
    /// Returns whether the private key is a seed.
    pub fn is_seed(&self) -> bool {
        self.form == SEED
    }
}

impl New {
    /// Generates a key and tests it.
    pub fn drawn(engine: &Engine, algorithm: KeyAlgorithm) -> Result<Self, Error> {
        if let Some(size) = algorithm.rsa() {
            return Ok(New::Rsa(Box::new(rsa::PrivateKey::drawn(size.bits())?)));
        }
        match (algorithm.algorithm(), algorithm.symmetric()) {
            (Some(algorithm), _) => {
                let pair = PrivateKey::generate(engine, algorithm, &OsEntropy)?;
                pair.pairwise_test(engine, &OsEntropy)?;
                Ok(New::Pair(pair))
            }
            (None, symmetric) => {
                let len = symmetric.map_or(0, |symmetric| symmetric.key_len());
                let mut bytes = Zeroizing::new(vec![0; len]);
                OsEntropy.fill(&mut bytes).map_err(EngineError::from)?;
                Ok(New::Secret(bytes))
            }
        }
    }

    /// Returns the encoded key.
    pub fn written(&self) -> EncodedKey<'_> {
        match self {
            New::Pair(pair) => {
                let (forms, public) = (pair.forms(), pair.public_bytes());
                match (forms.seed, forms.expanded) {
                    (Some(secret), _) => EncodedKey { public, secret, form: SEED },
                    (None, expanded) => {
                        EncodedKey { public, secret: expanded.unwrap_or_default(), form: EXPANDED }
                    }
                }
            }
            New::Public(public) => EncodedKey { public: public.bytes(), secret: &[], form: PUBLIC },
            New::Secret(secret) => EncodedKey { public: &[], secret, form: SYMMETRIC },
            New::Rsa(pair) => {
                EncodedKey { public: pair.public().bytes(), secret: pair.bytes(), form: EXPANDED }
            }
            New::RsaPublic(public) => {
                EncodedKey { public: public.bytes(), secret: &[], form: PUBLIC }
            }
        }
    }
}

impl Material {
    /// Decodes and expands a stored key. The inner error says why it is invalid.
    pub fn read(
        engine: &Engine,
        algorithm: KeyAlgorithm,
        written: EncodedKey<'_>,
    ) -> Result<Result<Self, String>, Error> {
        if let Some(size) = algorithm.rsa() {
            return Ok(Self::read_rsa(size, &written));
        }
        let EncodedKey { public, secret, form } = written;
        let made = match (algorithm.algorithm(), algorithm.symmetric(), form) {
            (Some(algorithm), _, SEED) => {
                let forms = Forms { seed: Some(secret), public: Some(public), expanded: None };
                PrivateKey::import(engine, algorithm, &forms).map(Self::of_pair)
            }
            (Some(algorithm), _, EXPANDED) => {
                let forms = Forms { expanded: Some(secret), public: Some(public), seed: None };
                PrivateKey::import(engine, algorithm, &forms).map(Self::of_pair)
            }
            (Some(algorithm), _, PUBLIC) => {
                PublicKey::import(engine, algorithm, public).map(Self::of_public)
            }
            (None, Some(symmetric), SYMMETRIC) => {
                let aead = Aead::new(symmetric, secret).map(Material::Aead);
                Ok(aead.or_else(|| Mac::new(symmetric, secret).map(Material::Mac)))
            }
            (_, _, form) => return Ok(Err(format!("a key of the form {form}"))),
        };
        match made {
            Ok(made) => Ok(made.ok_or_else(|| "a key of another kind or length".to_owned())),
            Err(
                error @ (EngineError::Input(_)
                | EngineError::KeyFile(_)
                | EngineError::WrongAlgorithm { .. }),
            ) => Ok(Err(error.to_string())),
            // Out of memory or no backend: the key itself is fine.
            Err(error) => Err(error.into()),
        }
    }

    fn read_rsa(size: Rsa, written: &EncodedKey<'_>) -> Result<Self, String> {
        let damaged = |error: Error| error.to_string();
        let public = rsa::PublicKey::of_pkcs1(written.public).map_err(damaged)?;
        if public.bits() != size.bits() {
            return Err("a key of another size".to_owned());
        }
        match written.form {
            PUBLIC => Ok(Material::RsaPublic(Box::new(public))),
            EXPANDED => {
                let pair =
                    rsa::PrivateKey::of_pkcs1(size.bits(), written.secret).map_err(damaged)?;
                match pair.public().bytes() == written.public {
                    true => Ok(Material::Rsa(Box::new(pair))),
                    false => Err("its halves do not belong together".to_owned()),
                }
            }
            form => Err(format!("a key of the form {form}")),
        }
    }

    fn of_pair(pair: PrivateKey) -> Option<Self> {
        match pair {
            PrivateKey::Signature(signing) => {
                let verify = signing.public();
                Some(Material::Signature { signing, verify })
            }
            PrivateKey::Kem(private) => {
                let public = private.public();
                Some(Material::Kem { private, public })
            }
            PrivateKey::Exchange(_) => None,
        }
    }

    fn of_public(public: PublicKey) -> Option<Self> {
        match public {
            PublicKey::Signature(key) => Some(Material::Verify(key)),
            PublicKey::Kem(key) => Some(Material::Encapsulate(key)),
            PublicKey::Exchange(_) => None,
        }
    }

    /// Returns whether only the public key is known.
    pub fn is_public(&self) -> bool {
        matches!(self, Material::Verify(_) | Material::Encapsulate(_) | Material::RsaPublic(_))
    }

    /// Returns the signing key.
    pub fn signing(&self) -> Result<&SigningKey, Error> {
        match self {
            Material::Signature { signing, .. } => Ok(signing),
            Material::Verify(_) => Err(no_private_half()),
            Material::Kem { .. }
            | Material::Encapsulate(_)
            | Material::Aead(_)
            | Material::Mac(_)
            | Material::Rsa(_)
            | Material::RsaPublic(_) => Err(no("sign")),
        }
    }

    /// Returns the verification key.
    pub fn verify(&self) -> Result<&VerifyKey, Error> {
        match self {
            Material::Signature { verify, .. } | Material::Verify(verify) => Ok(verify),
            Material::Kem { .. }
            | Material::Encapsulate(_)
            | Material::Aead(_)
            | Material::Mac(_)
            | Material::Rsa(_)
            | Material::RsaPublic(_) => Err(no("verify signatures")),
        }
    }

    /// Returns the public key for encapsulation.
    pub fn encapsulating(&self) -> Result<&KemPublicKey, Error> {
        match self {
            Material::Kem { public, .. } | Material::Encapsulate(public) => Ok(public),
            Material::Signature { .. }
            | Material::Verify(_)
            | Material::Aead(_)
            | Material::Mac(_)
            | Material::Rsa(_)
            | Material::RsaPublic(_) => Err(no("encapsulate")),
        }
    }

    /// Returns the private key for decapsulation.
    pub fn decapsulating(&self) -> Result<&KemPrivateKey, Error> {
        match self {
            Material::Kem { private, .. } => Ok(private),
            Material::Encapsulate(_) => Err(no_private_half()),
            Material::Signature { .. }
            | Material::Verify(_)
            | Material::Aead(_)
            | Material::Mac(_)
            | Material::Rsa(_)
            | Material::RsaPublic(_) => Err(no("decapsulate")),
        }
    }

    /// Returns the key for encryption and decryption.
    pub fn aead(&self) -> Result<&Aead, Error> {
        match self {
            Material::Aead(aead) => Ok(aead),
            Material::Signature { .. }
            | Material::Verify(_)
            | Material::Kem { .. }
            | Material::Encapsulate(_)
            | Material::Mac(_)
            | Material::Rsa(_)
            | Material::RsaPublic(_) => Err(no("encrypt or decrypt")),
        }
    }

    /// Returns the HMAC key.
    pub fn mac(&self) -> Result<&Mac, Error> {
        match self {
            Material::Mac(mac) => Ok(mac),
            Material::Signature { .. }
            | Material::Verify(_)
            | Material::Kem { .. }
            | Material::Encapsulate(_)
            | Material::Aead(_)
            | Material::Rsa(_)
            | Material::RsaPublic(_) => Err(no("make or verify tags")),
        }
    }

    /// Returns the private RSA key.
    pub fn rsa_private(&self) -> Result<&rsa::PrivateKey, Error> {
        match self {
            Material::Rsa(pair) => Ok(pair),
            Material::RsaPublic(_) => Err(no_private_half()),
            Material::Signature { .. }
            | Material::Verify(_)
            | Material::Kem { .. }
            | Material::Encapsulate(_)
            | Material::Aead(_)
            | Material::Mac(_) => Err(no("have RSA's paddings and salts")),
        }
    }

    /// Returns the public RSA key, if it is an RSA key.
    pub fn rsa_public(&self) -> Option<&rsa::PublicKey> {
        match self {
            Material::Rsa(pair) => Some(pair.public()),
            Material::RsaPublic(public) => Some(public),
            Material::Signature { .. }
            | Material::Verify(_)
            | Material::Kem { .. }
            | Material::Encapsulate(_)
            | Material::Aead(_)
            | Material::Mac(_) => None,
        }
    }

    /// Returns the approximate size in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Material::Signature { signing, verify } => {
                EXPANSION * (signing.bytes().len() + verify.bytes().len())
            }
            Material::Kem { private, public } => {
                EXPANSION * (private.bytes().len() + public.bytes().len())
            }
            Material::Verify(key) => EXPANSION * key.bytes().len(),
            Material::Encapsulate(key) => EXPANSION * key.bytes().len(),
            Material::Aead(_) | Material::Mac(_) => SYMMETRIC_BYTES,
            Material::Rsa(pair) => {
                RSA_EXPANSION * (pair.bytes().len() + pair.public().bytes().len())
            }
            Material::RsaPublic(public) => RSA_EXPANSION * public.bytes().len(),
        }
    }
}

fn no(verb: &str) -> Error {
    Error::Unsupported(format!("keys of this algorithm don't {verb}"))
}

pub fn no_private_half() -> Error {
    Error::Unsupported("the service has no private half of this key".to_owned())
}
