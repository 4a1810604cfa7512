//! A key as OpenSSL holds it: empty when made, filled once, never changed again.

use std::sync::OnceLock;

use gabion_engine::{
    ExchangePrivateKey, ExchangePublicKey, Family, KemPrivateKey, KemPublicKey, Kind, Message,
    SigningKey, VerifyKey, ct, key_file,
};

use zeroize::Zeroizing;

use crate::core::{Provider, ProviderRef, engine};
use crate::error::Failure;
use crate::exchange;
use crate::served::Served;
use crate::stats::{self, Operation};

/// What a key holds. Clones share the memory of the expanded key.
#[derive(Clone)]
pub enum Material {
    /// A key to encapsulate to.
    KemPublic(KemPublicKey),
    /// A key to decapsulate with.
    KemPrivate(KemPrivateKey),
    /// A peer's key of a key exchange.
    ExchangePublic(ExchangePublicKey),
    /// A key to derive with.
    ExchangePrivate(ExchangePrivateKey),
    /// A key to verify with.
    Verify(VerifyKey),
    /// A key to sign with.
    Signing(SigningKey),
}

/// The forms in which a key came in, any mix of them; at least one.
#[derive(Clone, Copy, Default)]
pub struct Forms<'a> {
    /// The seed. Secret.
    pub seed: Option<&'a [u8]>,
    /// The expanded private key. Secret.
    pub private: Option<&'a [u8]>,
    /// The public key.
    pub public: Option<&'a [u8]>,
    /// Whether somebody has said that a KEM's expanded private key is not tried out.
    pub untested: bool,
}

impl Forms<'_> {
    /// An SLH-DSA private key of which only the secret half came, with the public key behind it
    /// (FIPS 205, figure 15): a form that OpenSSL takes.
    fn joined(&self, algorithm: Served) -> Option<Zeroizing<Vec<u8>>> {
        let info = algorithm.info();
        let half =
            |bytes: &&[u8]| info.family == Family::SlhDsa && bytes.len() == info.private_key / 2;
        let secret = self.private.filter(half)?;
        Some(Zeroizing::new([secret, self.public?].concat()))
    }
}

impl Material {
    /// Makes the material of whatever forms there are, which must belong together.
    ///
    /// # Errors
    /// No form at all; a form of the wrong length or that fails the standard's checks; forms that
    /// do not belong together.
    pub fn import(algorithm: Served, forms: Forms<'_>) -> Result<Self, Failure> {
        if algorithm.is_exchange() {
            return exchange::import(algorithm, forms);
        }
        let (engine, row) = (engine()?, algorithm.algorithm);
        let kem = row.info().kind == Kind::Kem;
        let seed = forms.seed.zip(row.info().seed);
        if let Some((seed, expected)) = seed.filter(|(seed, expected)| seed.len() != *expected) {
            return Err(Failure::seed("the seed of the private key", expected, seed.len()));
        }
        let joined = forms.joined(algorithm);
        let private = joined.as_deref().map(Vec::as_slice).or(forms.private);
        let material = match (kem, forms.seed, private, forms.public) {
            (true, Some(seed), Some(private), _) => {
                Material::KemPrivate(engine.kem_private_both(row, seed, private)?)
            }
            (true, Some(seed), None, _) => Material::KemPrivate(engine.kem_from_seed(row, seed)?),
            (true, None, Some(private), _) if forms.untested => {
                Material::KemPrivate(engine.kem_private_untested(row, private)?)
            }
            (true, None, Some(private), _) => {
                Material::KemPrivate(engine.kem_private(row, private)?)
            }
            (true, None, None, Some(public)) => {
                Material::KemPublic(engine.kem_public(row, public)?)
            }
            (false, Some(seed), Some(private), _) => {
                Material::Signing(engine.signature_private_both(row, seed, private)?)
            }
            (false, Some(seed), None, _) => {
                Material::Signing(engine.signature_from_seed(row, seed)?)
            }
            (false, None, Some(private), _) => {
                Material::Signing(engine.signature_private(row, private)?)
            }
            (false, None, None, Some(public)) => {
                Material::Verify(engine.signature_public(row, public)?)
            }
            (_, None, None, None) => {
                return Err(Failure::NothingCame);
            }
        };
        material.belongs_to(algorithm, forms.public)
    }

    /// Refuses a public key that came with the material and is another one's.
    ///
    /// # Errors
    /// [`Failure::KeysDiffer`].
    pub fn belongs_to(self, algorithm: Served, public: Option<&[u8]>) -> Result<Self, Failure> {
        match public {
            Some(public) if public != self.public() => Err(Failure::KeysDiffer { algorithm }),
            _ => Ok(self),
        }
    }

    /// Makes the material of a public key, one of a signature by way of the provider's cache.
    ///
    /// # Errors
    /// As [`Self::import`].
    pub fn public_of(
        provider: &Provider,
        algorithm: Served,
        public: &[u8],
    ) -> Result<Self, Failure> {
        let (engine, row) = (engine()?, algorithm.algorithm);
        Ok(match row.info().kind {
            Kind::Kem => Material::KemPublic(engine.kem_public(row, public)?),
            Kind::KeyExchange => Material::ExchangePublic(engine.exchange_public(row, public)?),
            _ => Material::Verify(provider.public_keys.verify_key(engine, row, public)?),
        })
    }

    /// The material that a key file holds.
    pub fn of_file(key: key_file::Key) -> Self {
        match key {
            key_file::Key::KemPublic(key) => Material::KemPublic(key),
            key_file::Key::KemPrivate(key) => Material::KemPrivate(key),
            key_file::Key::Verify(key) => Material::Verify(key),
            key_file::Key::Signing(key) => Material::Signing(key),
            key_file::Key::ExchangePublic(key) => Material::ExchangePublic(key),
            key_file::Key::ExchangePrivate(key) => Material::ExchangePrivate(key),
        }
    }

    /// Makes a fresh key pair, or takes one for a key share that was made ahead.
    ///
    /// # Errors
    /// No randomness; no healthy backend.
    pub fn generate(algorithm: Served, provider: ProviderRef) -> Result<Self, Failure> {
        let (engine, row) = (engine()?, algorithm.algorithm);
        if row.info().kind == Kind::Signature {
            return Ok(Material::Signing(engine.signature_generate(row, &provider)?));
        }
        if let Some(key) = provider.key_pools.take(engine, row, &provider) {
            stats::counter(algorithm, Operation::Pooled).call();
            return Ok(key);
        }
        Ok(match row.info().kind {
            Kind::KeyExchange => Material::ExchangePrivate(
                engine.exchange_generate(row, &exchange::Clamped(&provider))?,
            ),
            _ => Material::KemPrivate(engine.kem_generate(row, &provider)?),
        })
    }

    /// The encoded public key.
    pub fn public(&self) -> &[u8] {
        match self {
            Material::KemPublic(key) => key.bytes(),
            Material::KemPrivate(key) => key.public_bytes(),
            Material::ExchangePublic(key) => key.bytes(),
            Material::ExchangePrivate(key) => key.public_bytes(),
            Material::Verify(key) => key.bytes(),
            Material::Signing(key) => key.public_bytes(),
        }
    }

    /// The encoded private key, where this is one. Secret.
    pub fn private(&self) -> Option<&[u8]> {
        match self {
            Material::KemPublic(_) | Material::ExchangePublic(_) | Material::Verify(_) => None,
            Material::KemPrivate(key) => Some(key.bytes()),
            Material::ExchangePrivate(key) => Some(key.bytes()),
            Material::Signing(key) => Some(key.bytes()),
        }
    }

    /// The seed, where it is known. Secret.
    pub fn seed(&self) -> Option<&[u8]> {
        match self {
            Material::KemPrivate(key) => key.seed(),
            Material::Signing(key) => key.seed(),
            _ => None,
        }
    }

    /// The public part alone; shares the memory.
    pub fn public_part(&self) -> Material {
        match self {
            Material::KemPrivate(key) => Material::KemPublic(key.public()),
            Material::ExchangePrivate(key) => Material::ExchangePublic(key.public()),
            Material::Signing(key) => Material::Verify(key.public()),
            public => public.clone(),
        }
    }

    /// Whether both are the same key, as far as `private` asks for.
    pub fn matches(&self, other: &Material, private: bool) -> bool {
        if self.public() != other.public() {
            return false;
        }
        match (private, self.private(), other.private()) {
            (true, Some(a), Some(b)) => a.len() == b.len() && ct::eq_mask(a, b) == u64::MAX,
            _ => true,
        }
    }

    /// Uses both halves of a key pair and checks that they belong together.
    ///
    /// # Errors
    /// [`Failure::Pairwise`] if they do not; no randomness; no healthy backend.
    pub fn pairwise_test(&self, algorithm: Served, provider: ProviderRef) -> Result<(), Failure> {
        let engine = engine()?;
        match self {
            Material::KemPublic(_) | Material::ExchangePublic(_) | Material::Verify(_) => Ok(()),
            Material::ExchangePrivate(key) => {
                let again = engine.exchange_private(key.algorithm(), key.bytes())?;
                if again.public_bytes() != key.public_bytes() {
                    return Err(Failure::Pairwise(algorithm));
                }
                Ok(())
            }
            Material::KemPrivate(key) => {
                let (ciphertext, shared) = engine.encaps(&key.public(), &provider)?;
                let opened = engine.decaps(key, &ciphertext)?;
                if shared != opened {
                    return Err(Failure::Pairwise(algorithm));
                }
                Ok(())
            }
            Material::Signing(key) => {
                let message = Message::Pure { context: &[], message: b"pairwise test" };
                let signature = engine.sign(key, message, &provider)?;
                engine
                    .verify(&key.public(), message, &signature)
                    .map_err(|_| Failure::Pairwise(algorithm))
            }
        }
    }
}

/// What OpenSSL calls key data.
///
/// Threads share it. Its material is set once, before OpenSSL shows the key to anybody else, and
/// cannot be changed afterwards; whoever uses it takes a clone, which shares the expanded key.
pub struct Key {
    /// Where it came from.
    pub provider: ProviderRef,
    /// Its algorithm.
    pub algorithm: Served,
    material: OnceLock<Material>,
}

impl Key {
    /// A key without material.
    pub fn empty(provider: ProviderRef, algorithm: Served) -> Self {
        Key { provider, algorithm, material: OnceLock::new() }
    }

    /// A key with material.
    pub fn with(provider: ProviderRef, algorithm: Served, material: Material) -> Self {
        Key { provider, algorithm, material: OnceLock::from(material) }
    }

    /// Fills an empty key.
    ///
    /// # Errors
    /// The key is not empty.
    pub fn fill(&self, material: Material) -> Result<(), Failure> {
        self.material.set(material).map_err(|_| {
            Failure::Misuse("the key already holds a key and cannot be changed; make a new one")
        })
    }

    /// The material, if there is any.
    pub fn material(&self) -> Option<&Material> {
        self.material.get()
    }

    fn missing(&self, part: &'static str, operation: &'static str) -> Failure {
        Failure::MissingKey { algorithm: self.algorithm, part, operation }
    }

    /// The key to encapsulate to.
    ///
    /// # Errors
    /// The key is empty.
    pub fn kem_public(&self) -> Result<KemPublicKey, Failure> {
        match self.material() {
            Some(Material::KemPublic(key)) => Ok(key.clone()),
            Some(Material::KemPrivate(key)) => Ok(key.public()),
            _ => Err(self.missing("public key", "encapsulation")),
        }
    }

    /// The key to decapsulate with.
    ///
    /// # Errors
    /// The key is empty or public.
    pub fn kem_private(&self) -> Result<KemPrivateKey, Failure> {
        match self.material() {
            Some(Material::KemPrivate(key)) => Ok(key.clone()),
            _ => Err(self.missing("private key", "decapsulation")),
        }
    }

    /// The peer's key to derive with.
    ///
    /// # Errors
    /// The key is empty.
    pub fn exchange_public(&self) -> Result<ExchangePublicKey, Failure> {
        match self.material() {
            Some(Material::ExchangePublic(key)) => Ok(key.clone()),
            Some(Material::ExchangePrivate(key)) => Ok(key.public()),
            _ => Err(self.missing("public key", "key exchange")),
        }
    }

    /// The key to verify with.
    ///
    /// # Errors
    /// The key is empty.
    pub fn verify(&self) -> Result<VerifyKey, Failure> {
        match self.material() {
            Some(Material::Verify(key)) => Ok(key.clone()),
            Some(Material::Signing(key)) => Ok(key.public()),
            _ => Err(self.missing("public key", "verification")),
        }
    }

    /// The key to sign with.
    ///
    /// # Errors
    /// The key is empty or public.
    pub fn signing(&self) -> Result<SigningKey, Failure> {
        match self.material() {
            Some(Material::Signing(key)) => Ok(key.clone()),
            _ => Err(self.missing("private key", "signing")),
        }
    }
}
