//! A key as OpenSSL holds it: empty when made, filled once, never changed again.

use std::ffi::c_int;
use std::sync::{Arc, OnceLock};

use gabion_engine::keys::{self, Forms, PrivateKey, PublicKey};
use gabion_engine::{
    Entropy, ExchangePrivateKey, ExchangePublicKey, Family, KemPrivateKey, KemPublicKey, Kind,
    SigningKey, VerifyKey, ct,
};
use zeroize::Zeroizing;

use crate::core::{ClampedEntropy, engine};
use crate::error::Failure;
use crate::ffi::select;
use crate::key_types::KeyType;
use crate::provider::{Provider, ProviderRef};
use crate::stateful::{OpenedKey, Signer};
use crate::stats::{self, Operation};

/// Imports a key from all its given forms, which must match. With `untested`, the pairwise test of
/// a KEM's expanded private key is skipped, as the configuration may request.
///
/// # Errors
/// No form at all; a form that has the wrong length or fails the standard's checks; forms that do
/// not belong together.
pub fn import(algorithm: KeyType, forms: Forms<'_>, untested: bool) -> Result<keys::Key, Failure> {
    let (engine, row) = (engine()?, algorithm.algorithm);
    let seed = forms.seed.zip(row.info().seed);
    if let Some((seed, expected)) = seed.filter(|(seed, expected)| seed.len() != *expected) {
        return Err(Failure::seed("the seed of the private key", expected, seed.len()));
    }
    if let Forms { seed: None, expanded: None, public: None } = forms {
        return Err(match algorithm.is_exchange() {
            true => Failure::Misuse("no key came in; expected `priv` or `pub`"),
            false => Failure::NothingCame,
        });
    }
    let joined = joined(algorithm, &forms);
    let expanded = joined.as_deref().map(Vec::as_slice).or(forms.expanded);
    let forms = Forms { expanded, ..forms };
    Ok(match untested {
        true => keys::Key::Private(PrivateKey::import_untested(engine, row, &forms)?),
        false => keys::Key::import(engine, row, &forms)?,
    })
}

/// An SLH-DSA private key of which only the secret half came, with the public key behind it (FIPS
/// 205, figure 15): a form that OpenSSL takes.
fn joined(algorithm: KeyType, forms: &Forms<'_>) -> Option<Zeroizing<Vec<u8>>> {
    let info = algorithm.info();
    let half =
        |bytes: &&[u8]| info.family == Family::SlhDsa && bytes.len() == info.private_key.max() / 2;
    let secret = forms.expanded.filter(half)?;
    Some(Zeroizing::new([secret, forms.public?].concat()))
}

/// Imports a public key; for signature algorithms through the provider's cache.
///
/// # Errors
/// See [`import`].
pub fn public_of(
    provider: &Provider,
    algorithm: KeyType,
    public: &[u8],
) -> Result<keys::Key, Failure> {
    let (engine, row) = (engine()?, algorithm.algorithm);
    Ok(keys::Key::Public(match row.info().kind {
        Kind::Kem | Kind::KeyExchange => PublicKey::import(engine, row, public)?,
        Kind::Signature => provider.public_keys.find(engine, row, public)?,
    }))
}

/// Makes a fresh key pair, or takes one for a key share that was made ahead.
///
/// # Errors
/// No randomness; no healthy backend.
pub fn generate(algorithm: KeyType, provider: ProviderRef) -> Result<keys::Key, Failure> {
    let (engine, row) = (engine()?, algorithm.algorithm);
    let clamped = ClampedEntropy(&provider.core);
    let (is_pooled, entropy): (_, &dyn Entropy) = match row.info().kind {
        Kind::Kem => (true, &provider.core),
        Kind::KeyExchange => (true, &clamped),
        Kind::Signature => (false, &provider.core),
    };
    if is_pooled && let Some(key) = provider.key_pools.take(engine, row, &provider.core) {
        stats::counter(algorithm, Operation::Pooled).call();
        return Ok(keys::Key::Private(key));
    }
    Ok(keys::Key::Private(PrivateKey::generate(engine, row, entropy)?))
}

/// Another handle of a key, which shares its memory.
pub fn shared(key: &keys::Key) -> keys::Key {
    match key {
        keys::Key::Public(key) => keys::Key::Public(key.clone()),
        keys::Key::Private(key) => keys::Key::Private(match key {
            PrivateKey::Kem(key) => PrivateKey::Kem(key.clone()),
            PrivateKey::Signature(key) => PrivateKey::Signature(key.clone()),
            PrivateKey::Exchange(key) => PrivateKey::Exchange(key.clone()),
        }),
    }
}

/// Returns whether both are the same key, as far as `private` asks for.
pub fn matches(one: &keys::Key, other: &keys::Key, private: bool) -> bool {
    if one.public_bytes() != other.public_bytes() {
        return false;
    }
    match (private, one.private(), other.private()) {
        (true, Some(a), Some(b)) => {
            a.bytes().len() == b.bytes().len() && ct::eq_mask(a.bytes(), b.bytes()) == u64::MAX
        }
        _ => true,
    }
}

const STAYS: &str = "signing uses this private key up: it is neither handed out nor copied";

/// The key data of OpenSSL.
///
/// Threads share it. Its material is set once, before OpenSSL makes the key available to other
/// code, and cannot change afterwards. Users take a clone, which shares the expanded key.
pub struct Key {
    /// The provider of the key.
    pub provider: ProviderRef,
    /// The algorithm.
    pub algorithm: KeyType,
    /// Whether libssl generated it for a key share.
    pub is_key_share: bool,
    material: OnceLock<Material>,
    /// The signer of a stateful key, whose material is only the public key.
    signer: Option<Arc<Signer>>,
}

/// The content of a key, set in one step.
struct Material {
    key: keys::Key,
    /// Whether it is a key of one tree that came in raw and without the word that counts trees:
    /// OpenSSL's own LMS has such ones, and signatures without that word.
    is_bare: bool,
}

/// Bytes of the word.
pub const WORD: usize = 4;

impl Key {
    /// A key without material.
    pub fn empty(provider: ProviderRef, algorithm: KeyType) -> Self {
        Key { provider, algorithm, is_key_share: false, material: OnceLock::new(), signer: None }
    }

    /// A key with material.
    pub fn with(provider: ProviderRef, algorithm: KeyType, material: keys::Key) -> Self {
        let material = Material { key: material, is_bare: false };
        Key { material: OnceLock::from(material), ..Key::empty(provider, algorithm) }
    }

    /// A key that signing uses up, or the public half of one.
    pub fn stateful(provider: ProviderRef, opened: OpenedKey) -> Self {
        let algorithm = KeyType { algorithm: opened.algorithm, hash: None };
        let material = keys::Key::Public(opened.public);
        Key { signer: opened.signer, ..Key::with(provider, algorithm, material) }
    }

    /// Sets whether libssl generated the key for a key share.
    pub fn for_key_share(mut self, is_key_share: bool) -> Self {
        self.is_key_share = is_key_share;
        self
    }

    /// Fills an empty key.
    ///
    /// # Errors
    /// The key is not empty.
    pub fn fill(&self, material: keys::Key) -> Result<(), Failure> {
        self.fill_as(material, false)
    }

    /// Sets a key that may have been imported as raw bytes.
    ///
    /// # Errors
    /// The key is not empty.
    pub fn fill_as(&self, key: keys::Key, is_bare: bool) -> Result<(), Failure> {
        self.material.set(Material { key, is_bare }).map_err(|_| {
            Failure::Misuse("the key already holds a key and cannot be changed; make a new one")
        })
    }

    /// Returns whether the key came in bare.
    pub fn is_bare(&self) -> bool {
        self.material.get().is_some_and(|material| material.is_bare)
    }

    /// The public key in the form that it came in.
    pub fn public_bytes(&self) -> Option<&[u8]> {
        let bytes = self.material()?.public_bytes();
        bytes.get(if self.is_bare() { WORD } else { 0 }..)
    }

    /// The material, if there is any.
    pub fn material(&self) -> Option<&keys::Key> {
        self.material.get().map(|material| &material.key)
    }

    /// Returns the signer of a stateful key.
    pub fn signer(&self) -> Option<&Arc<Signer>> {
        self.signer.as_ref()
    }

    /// Returns whether it supports the operations of a private key.
    pub fn is_private(&self) -> bool {
        self.signer.is_some() || self.private().is_some()
    }

    /// Rejects exporting or copying the private part of a stateful key, because the copy could use
    /// an index again.
    ///
    /// # Errors
    /// The selection includes the private part, and the key is stateful.
    pub fn check_stays(&self, selection: c_int) -> Result<(), Failure> {
        match selection & select::PRIVATE_KEY != 0 && self.signer.is_some() {
            true => Err(Failure::Misuse(STAYS)),
            false => Ok(()),
        }
    }

    fn public(&self) -> Option<PublicKey> {
        self.material().map(keys::Key::public)
    }

    fn private(&self) -> Option<&PrivateKey> {
        self.material().and_then(keys::Key::private)
    }

    fn missing(&self, part: &'static str, operation: &'static str) -> Failure {
        Failure::MissingKey { algorithm: self.algorithm, part, operation }
    }

    /// The key to encapsulate to.
    ///
    /// # Errors
    /// The key is empty.
    pub fn kem_public(&self) -> Result<KemPublicKey, Failure> {
        match self.public() {
            Some(PublicKey::Kem(key)) => Ok(key),
            _ => Err(self.missing("public key", "encapsulation")),
        }
    }

    /// The key to decapsulate with.
    ///
    /// # Errors
    /// The key is empty or public.
    pub fn kem_private(&self) -> Result<KemPrivateKey, Failure> {
        match self.private() {
            Some(PrivateKey::Kem(key)) => Ok(key.clone()),
            _ => Err(self.missing("private key", "decapsulation")),
        }
    }

    /// The key to derive with; none where the key is empty or public.
    pub fn exchange_private(&self) -> Option<&ExchangePrivateKey> {
        match self.private() {
            Some(PrivateKey::Exchange(key)) => Some(key),
            _ => None,
        }
    }

    /// The peer's key to derive with.
    ///
    /// # Errors
    /// The key is empty.
    pub fn exchange_public(&self) -> Result<ExchangePublicKey, Failure> {
        match self.public() {
            Some(PublicKey::Exchange(key)) => Ok(key),
            _ => Err(self.missing("public key", "key exchange")),
        }
    }

    /// The key to verify with.
    ///
    /// # Errors
    /// The key is empty.
    pub fn verify(&self) -> Result<VerifyKey, Failure> {
        match self.public() {
            Some(PublicKey::Signature(key)) => Ok(key),
            _ => Err(self.missing("public key", "verification")),
        }
    }

    /// The key to sign with.
    ///
    /// # Errors
    /// The key is empty or public.
    pub fn signing(&self) -> Result<SigningKey, Failure> {
        match self.private() {
            Some(PrivateKey::Signature(key)) => Ok(key.clone()),
            _ => Err(self.missing("private key", "signing")),
        }
    }
}
