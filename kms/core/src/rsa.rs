//! RSA (RFC 8017), compatible with Vault's Transit: signatures of digests with any hash and salt,
//! and OAEP encryption.
//!
//! ```text
//!   digest --Scheme--> signature, verified before it is released
//!   plain  --OAEP----> ciphertext --OAEP--> plain, or an error without the cause
//! ```
//!
//! The engine has RSA only within composites. Keys are PKCS#1 (RFC 8017, A.1) in DER, and their
//! public exponent is 65537. PKCS#1 v1.5 decryption is not supported, because its padding leaks too
//! much (RFC 8017, section 7.2). Operations with the private key run in constant time and are
//! blinded.

use std::convert::Infallible;

use gabion_engine::{Entropy, Error as EngineError, OsEntropy, Prehash, ct, with_room};
use rsa::pkcs1::{
    DecodeRsaPrivateKey, DecodeRsaPublicKey, EncodeRsaPrivateKey, EncodeRsaPublicKey,
};
use rsa::pkcs8::{
    DecodePublicKey, EncodePrivateKey, EncodePublicKey, LineEnding, PrivateKeyInfoRef,
};
use rsa::rand_core::utils::next_word_via_fill;
use rsa::rand_core::{TryCryptoRng, TryRng};
use rsa::sha2::digest::FixedOutputReset;
use rsa::sha2::{Digest, Sha224, Sha256, Sha384, Sha512};
use rsa::traits::{PrivateKeyParts, PublicKeyParts};
use rsa::{BoxedUint, Oaep, Pkcs1v15Sign, Pss, RsaPrivateKey, RsaPublicKey};
use sha3::{Sha3_224, Sha3_256, Sha3_384, Sha3_512};
use zeroize::Zeroizing;

use crate::error::Error;

/// The supported sizes of moduli in bits.
pub const BITS: [usize; 3] = [2048, 3072, 4096];

/// The only supported public exponent.
const E: u32 = 65537;

/// The algorithm identifier of RSA keys for all purposes (RFC 8017, A.1).
const RSA_ENCRYPTION: &str = "1.2.840.113549.1.1.1";

/// The primes of a modulus of 2n bits have to differ by more than 2^(n - CLOSE) (FIPS 186-5,
/// A.1.1).
const CLOSE: u32 = 100;

/// 2^64 / sqrt(2), rounded up: the minimum of the first 64 bits of a prime.
const HALF_OF_SQRT_2: u64 = 0xb504_f333_f9de_6485;

/// The rounds of a primality test: a composite number passes all of them with a probability of at
/// most 2^-128.
const ROUNDS: usize = 64;

/// The size of the seed of a key's or an operation's randomness in bytes.
const SEED: usize = 32;

/// A private key with its public key.
pub struct PrivateKey {
    key: RsaPrivateKey,
    bytes: Zeroizing<Vec<u8>>,
    public: PublicKey,
}

/// A public key.
#[derive(Clone, Debug)]
pub struct PublicKey {
    key: RsaPublicKey,
    bytes: Vec<u8>,
}

/// A hash, for the message and for the mask generation function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hash {
    /// SHA-224.
    Sha224,
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
    /// SHA3-224.
    Sha3_224,
    /// SHA3-256.
    Sha3_256,
    /// SHA3-384.
    Sha3_384,
    /// SHA3-512.
    Sha3_512,
}

/// A signature scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// RSASSA-PSS (RFC 8017, section 8.1), with MGF1 of the same hash.
    Pss {
        /// The hash that made the digest.
        hash: Hash,
        /// The length of the salt in bytes. `None`: the maximum when signing, and any length when
        /// verifying.
        salt: Option<usize>,
    },
    /// RSASSA-PKCS1-v1_5 (RFC 8017, section 8.2).
    Pkcs1 {
        /// The hash that made the digest.
        hash: Hash,
    },
}

/// Evaluates an expression with `$D` as the hash type.
macro_rules! with_hash {
    ($hash:expr, $D:ident => $run:expr) => {
        with_hash!(
            $hash, $D => $run, Sha224 Sha256 Sha384 Sha512 Sha3_224 Sha3_256 Sha3_384 Sha3_512
        )
    };
    ($hash:expr, $D:ident => $run:expr, $($name:ident)+) => {
        match $hash {
            $(Hash::$name => {
                type $D = $name;
                $run
            })+
        }
    };
}

impl Hash {
    /// All hashes.
    pub const ALL: [Hash; 8] = [
        Hash::Sha224,
        Hash::Sha256,
        Hash::Sha384,
        Hash::Sha512,
        Hash::Sha3_224,
        Hash::Sha3_256,
        Hash::Sha3_384,
        Hash::Sha3_512,
    ];

    /// Returns the size of a digest in bytes.
    pub const fn digest_len(self) -> usize {
        match self {
            Hash::Sha224 | Hash::Sha3_224 => 28,
            Hash::Sha256 | Hash::Sha3_256 => 32,
            Hash::Sha384 | Hash::Sha3_384 => 48,
            Hash::Sha512 | Hash::Sha3_512 => 64,
        }
    }

    /// Returns the hash as pre-hash forms name it.
    pub const fn prehash(self) -> Prehash {
        match self {
            Hash::Sha224 => Prehash::Sha2_224,
            Hash::Sha256 => Prehash::Sha2_256,
            Hash::Sha384 => Prehash::Sha2_384,
            Hash::Sha512 => Prehash::Sha2_512,
            Hash::Sha3_224 => Prehash::Sha3_224,
            Hash::Sha3_256 => Prehash::Sha3_256,
            Hash::Sha3_384 => Prehash::Sha3_384,
            Hash::Sha3_512 => Prehash::Sha3_512,
        }
    }

    /// Returns the digest of a message.
    pub fn digest(self, message: &[u8]) -> Vec<u8> {
        with_hash!(self, D => D::digest(message).to_vec())
    }
}

impl Scheme {
    /// Returns the hash of the digests that it signs.
    pub fn hash(self) -> Hash {
        match self {
            Scheme::Pss { hash, .. } | Scheme::Pkcs1 { hash } => hash,
        }
    }

    /// Rejects a digest whose length is wrong for its hash, and a salt that is too long for the
    /// key.
    ///
    /// # Errors
    /// [`Error::Parameter`].
    pub fn check(self, bits: usize, digest: &[u8]) -> Result<(), Error> {
        let (wanted, got) = (self.hash().digest_len(), digest.len());
        if wanted != got {
            return Err(Error::Parameter(format!("the digest has {got} bytes; expected {wanted}")));
        }
        match self.fits(bits) {
            true => Ok(()),
            false => {
                Err(Error::Parameter("the salt is longer than the key has room for".to_owned()))
            }
        }
    }

    /// Returns whether a key of this size has room for the salt.
    fn fits(self, bits: usize) -> bool {
        match self {
            Scheme::Pss { hash, salt: Some(salt) } => salt <= salt_len_max(bits, hash),
            Scheme::Pss { salt: None, .. } | Scheme::Pkcs1 { .. } => true,
        }
    }
}

/// Returns the maximum length of a salt (RFC 8017, section 9.1.1, step 3).
const fn salt_len_max(bits: usize, hash: Hash) -> usize {
    bits / 8 - hash.digest_len() - 2
}

/// Returns the maximum length of a message that OAEP encrypts (RFC 8017, section 7.1.1, step 1).
pub const fn plain_len_max(bits: usize, hash: Hash) -> usize {
    bits / 8 - 2 * hash.digest_len() - 2
}

fn pss<D: Digest>(salt: Option<usize>) -> Pss<D> {
    Pss { blinded: true, digest: D::new(), salt_len: salt }
}

fn oaep<D: Digest + FixedOutputReset>(label: &[u8]) -> Oaep<D, D> {
    Oaep::new_with_label(label.to_vec())
}

impl PublicKey {
    /// Decodes an RSAPublicKey of any supported size.
    ///
    /// # Errors
    /// [`Error::Parameter`].
    pub fn of_pkcs1(bytes: &[u8]) -> Result<Self, Error> {
        let key = RsaPublicKey::from_pkcs1_der(bytes).map_err(|_| refuse("no RSAPublicKey"))?;
        let key = Self::new(key)?;
        match key.bytes == bytes {
            true => Ok(key),
            false => Err(refuse("it is not encoded as DER prescribes")),
        }
    }

    /// Decodes a DER-encoded SubjectPublicKeyInfo.
    ///
    /// # Errors
    /// [`Error::Parameter`].
    pub fn of_spki(der: &[u8]) -> Result<Self, Error> {
        let key = RsaPublicKey::from_public_key_der(der)
            .map_err(|_| refuse("no SubjectPublicKeyInfo of RSA"))?;
        let key = Self::new(key)?;
        match key.spki()? == der {
            true => Ok(key),
            false => Err(refuse("it is not encoded as DER prescribes")),
        }
    }

    fn new(key: RsaPublicKey) -> Result<Self, Error> {
        if !BITS.contains(&(key.n().bits() as usize)) {
            return Err(refuse("its modulus has neither 2048, 3072 nor 4096 bits"));
        }
        if *key.e() != BoxedUint::from(E) {
            return Err(refuse("its exponent is not 65537"));
        }
        let bytes = key.to_pkcs1_der().map_err(|_| refuse("it can't be encoded"))?.into_vec();
        Ok(PublicKey { key, bytes })
    }

    /// Returns the RSAPublicKey.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the size of the modulus in bits.
    pub fn bits(&self) -> usize {
        self.key.n().bits() as usize
    }

    /// Returns the modulus and the exponent, each big-endian without leading zeros.
    pub fn modulus_and_exponent(&self) -> (Vec<u8>, Vec<u8>) {
        let trimmed = |bytes: &[u8]| {
            let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
            bytes[zeros..].to_vec()
        };
        (trimmed(&self.key.n().to_be_bytes()), trimmed(&E.to_be_bytes()))
    }

    /// Returns the SubjectPublicKeyInfo in DER.
    ///
    /// # Errors
    /// Does not fail for valid keys.
    pub fn spki(&self) -> Result<Vec<u8>, Error> {
        let der = self.key.to_public_key_der().map_err(|_| refuse("it can't be encoded"))?;
        Ok(der.into_vec())
    }

    /// Returns the SubjectPublicKeyInfo in PEM.
    ///
    /// # Errors
    /// Does not fail for valid keys.
    pub fn pem(&self) -> Result<String, Error> {
        self.key.to_public_key_pem(LineEnding::LF).map_err(|_| refuse("it can't be encoded"))
    }

    /// Verifies a signature of a digest.
    pub fn verify_digest(&self, scheme: Scheme, digest: &[u8], sig: &[u8]) -> bool {
        if sig.len() != self.bits() / 8
            || digest.len() != scheme.hash().digest_len()
            || !scheme.fits(self.bits())
        {
            return false;
        }
        let verified = match scheme {
            Scheme::Pss { hash, salt } => {
                with_hash!(hash, D => self.key.verify(pss::<D>(salt), digest, sig))
            }
            Scheme::Pkcs1 { hash } => {
                with_hash!(hash, D => self.key.verify(Pkcs1v15Sign::new::<D>(), digest, sig))
            }
        };
        verified.is_ok()
    }

    /// Encrypts by RSAES-OAEP (RFC 8017, section 7.1), with MGF1 of the same hash.
    ///
    /// # Errors
    /// [`Error::TooLarge`]; no randomness.
    pub fn encrypt(&self, hash: Hash, plain: &[u8], label: &[u8]) -> Result<Vec<u8>, Error> {
        let (most, got) = (plain_len_max(self.bits(), hash), plain.len());
        let too_large = || Error::TooLarge { what: "bytes to encrypt", most, got };
        let mut rng = Randomness::drawn()?;
        let sealed = with_hash!(hash, D => self.key.encrypt(&mut rng, oaep::<D>(label), plain));
        sealed.map_err(|_| too_large())
    }
}

impl PrivateKey {
    /// Generates and tests a key pair. Takes seconds.
    ///
    /// # Errors
    /// No randomness; no memory.
    pub fn drawn(bits: usize) -> Result<Self, Error> {
        let pair = Self::of_randomness(bits, Randomness::drawn()?)?;
        pair.check_pair()?;
        Ok(pair)
    }

    /// Generates a key pair from a seed, deterministically, for tests.
    ///
    /// # Errors
    /// Those of [`Self::drawn`].
    pub fn testing_only_of_seed(bits: usize, seed: [u8; 32]) -> Result<Self, Error> {
        Self::of_randomness(bits, Randomness::of_seed(Zeroizing::new(seed)))
    }

    /// Runs with a large stack, because generating a key needs more than some callers have.
    fn of_randomness(bits: usize, mut rng: Randomness) -> Result<Self, Error> {
        let made = with_room(|| RsaPrivateKey::new(&mut rng, bits)).map_err(EngineError::from)?;
        Self::new(bits, made.map_err(|_| Error::Engine(EngineError::Lost))?)
    }

    /// Decodes an RSAPrivateKey of a size, with two primes and the CRT parameters.
    ///
    /// # Errors
    /// [`Error::Parameter`].
    pub fn of_pkcs1(bits: usize, bytes: &[u8]) -> Result<Self, Error> {
        let key = RsaPrivateKey::from_pkcs1_der(bytes)
            .map_err(|_| refuse("no RSAPrivateKey of two primes that belong together"))?;
        let key = Self::new(bits, key)?;
        // Fields that the crate ignores would be encoded differently.
        let is_same = key.bytes.len() == bytes.len() && ct::eq_mask(&key.bytes, bytes) == u64::MAX;
        match is_same {
            true => Ok(key),
            false => Err(refuse("its parts do not belong together, or it is not DER")),
        }
    }

    /// Decodes an unencrypted, DER-encoded PrivateKeyInfo (PKCS#8, RFC 5958) of a size.
    ///
    /// # Errors
    /// [`Error::Parameter`].
    pub fn of_pkcs8(bits: usize, der: &[u8]) -> Result<Self, Error> {
        let info = PrivateKeyInfoRef::try_from(der).map_err(|_| refuse("no PKCS#8"))?;
        if info.algorithm.oid.to_string() != RSA_ENCRYPTION {
            return Err(refuse("the PKCS#8 is of another algorithm"));
        }
        if info.algorithm.parameters.is_some_and(|parameters| !parameters.is_null()) {
            return Err(refuse("its algorithm identifier has parameters"));
        }
        Self::of_pkcs1(bits, info.private_key.as_bytes())
    }

    fn new(bits: usize, mut key: RsaPrivateKey) -> Result<Self, Error> {
        let public = PublicKey::new(key.to_public_key())?;
        if public.bits() != bits {
            return Err(refuse("its modulus has another size than the algorithm's"));
        }
        key.precompute().map_err(|_| refuse("its parts do not belong together"))?;
        let bytes = key.to_pkcs1_der().map_err(|_| refuse("it can't be encoded"))?.to_bytes();
        Ok(PrivateKey { key, bytes, public })
    }

    /// Returns the RSAPrivateKey. Secret.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the public key.
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// Returns the PrivateKeyInfo (PKCS#8) in DER. Secret.
    ///
    /// # Errors
    /// Does not fail for valid keys.
    pub fn pkcs8(&self) -> Result<Zeroizing<Vec<u8>>, Error> {
        Ok(self.key.to_pkcs8_der().map_err(|_| refuse("it can't be encoded"))?.to_bytes())
    }

    /// Tests that the two halves belong together, by signing and verifying.
    ///
    /// # Errors
    /// Halves that do not match; no randomness.
    pub fn check_pair(&self) -> Result<(), Error> {
        let sealed = self.public.encrypt(Hash::Sha256, b"pairwise test", b"")?;
        match self.decrypt(Hash::Sha256, &sealed, b"").is_ok_and(|it| **it == *b"pairwise test") {
            true => Ok(()),
            false => Err(Error::Engine(EngineError::Lost)),
        }
    }

    /// Rejects a key whose modulus is easily factored: primes that are too close to each other
    /// (FIPS 186-5, A.1.1) or much too small, composite factors, or a small private exponent.
    /// Generated keys are free of these weaknesses.
    ///
    /// # Errors
    /// [`Error::Parameter`].
    pub fn check_strength(&self) -> Result<(), Error> {
        let half = (self.public.bits() / 2) as u32;
        let [p, q] = self.key.primes() else { return Err(refuse("it does not have two primes")) };
        let (p, q): (&BoxedUint, &BoxedUint) = (p.as_ref(), q.as_ref());
        let (larger, smaller) = if p > q { (p, q) } else { (q, p) };
        if smaller.bits() < half - CLOSE {
            return Err(refuse("one of its primes is much too small; make a new key"));
        }
        let distance = Zeroizing::new(larger.wrapping_sub(smaller));
        if distance.bits() <= half - CLOSE {
            return Err(refuse(
                "its primes are too close to each other (FIPS 186-5, A.1.1); make a new key",
            ));
        }
        if self.key.d().bits() <= half {
            return Err(refuse(
                "its private exponent is too small (FIPS 186-5, A.1.1); make a new key",
            ));
        }
        match is_prime(p)? && is_prime(q)? {
            true => Ok(()),
            false => Err(refuse("its factors are not prime; make a new key")),
        }
    }

    /// Rejects primes smaller than 2^(bits/2) / sqrt(2) (FIPS 186-5, A.1.1).
    ///
    /// # Errors
    /// [`Error::Unsupported`].
    pub fn check_prime_sizes(&self) -> Result<(), Error> {
        let half = (self.public.bits() / 2) as u32;
        let least = BoxedUint::from(HALF_OF_SQRT_2);
        let fits = |prime: &BoxedUint| {
            prime.bits() == half && *Zeroizing::new(prime.shr(half - u64::BITS)) >= least
        };
        match self.key.primes().iter().all(|prime| fits(prime.as_ref())) {
            true => Ok(()),
            false => Err(Error::Unsupported(
                "the RSA key does not conform to `fips-alg`: one of its primes is too small (FIPS 186-5, A.1.1)".to_owned(),
            )),
        }
    }

    /// Signs a digest, and verifies the signature.
    ///
    /// # Errors
    /// A digest whose length is wrong for its hash; a salt that is too long for the key; no
    /// randomness; a computation that failed a check.
    pub fn sign_digest(&self, scheme: Scheme, digest: &[u8]) -> Result<Vec<u8>, Error> {
        let bits = self.public.bits();
        scheme.check(bits, digest)?;
        let mut rng = Randomness::drawn()?;
        let sig = match scheme {
            Scheme::Pss { hash, salt } => {
                let salt = Some(salt.unwrap_or(salt_len_max(bits, hash)));
                with_hash!(hash, D => self.key.sign_with_rng(&mut rng, pss::<D>(salt), digest))
            }
            Scheme::Pkcs1 { hash } => {
                let of = with_hash!(hash, D => Pkcs1v15Sign::new::<D>());
                self.key.sign_with_rng(&mut rng, of, digest)
            }
        };
        let sig = sig.ok().filter(|sig| self.public.verify_digest(scheme, digest, sig));
        sig.ok_or(Error::Engine(EngineError::Lost))
    }

    /// Decrypts the output of [`PublicKey::encrypt`].
    ///
    /// # Errors
    /// [`Error::DecryptFailed`] for anything else, without the cause; no randomness.
    pub fn decrypt(
        &self,
        hash: Hash,
        sealed: &[u8],
        label: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, Error> {
        if sealed.len() != self.public.bits() / 8 {
            return Err(Error::DecryptFailed);
        }
        let mut rng = Randomness::drawn()?;
        let plain = with_hash!(
            hash, D => self.key.decrypt_blinded(&mut rng, oaep::<D>(label), sealed)
        );
        plain.map(Zeroizing::new).map_err(|_| Error::DecryptFailed)
    }
}

/// Tests whether a large number is prime, by Miller-Rabin with random bases (FIPS 186-5, B.3.1). A
/// composite number passes with a probability of at most 4^-ROUNDS.
fn is_prime(number: &BoxedUint) -> Result<bool, Error> {
    let Some(modulus) = number.to_odd().into_option() else { return Ok(false) };
    let (bits, one) = (number.bits(), BoxedUint::one_with_precision(number.bits_precision()));
    let before = Zeroizing::new(number.wrapping_sub(&one));
    let twos = before.trailing_zeros();
    let odd_part = Zeroizing::new(before.shr(twos));
    let mut bytes = vec![0; bits.div_ceil(8) as usize];
    'rounds: for _ in 0..ROUNDS {
        let base = loop {
            OsEntropy.fill(&mut bytes).map_err(EngineError::from)?;
            bytes[0] &= 0xff >> (8 * bytes.len() as u32 - bits);
            let base = BoxedUint::from_be_slice(&bytes, number.bits_precision());
            let base = base.map_err(|_| refuse("its factors can't be tested"))?;
            if base > one && base < *before {
                break base;
            }
        };
        let mut power = base.pow_mod(&odd_part, &modulus);
        if power == one || power == *before {
            continue;
        }
        for _ in 1..twos {
            power = power.pow_mod(&BoxedUint::from(2u32), &modulus);
            if power == *before {
                continue 'rounds;
            }
        }
        return Ok(false);
    }
    Ok(true)
}

fn refuse(reason: &str) -> Error {
    Error::Parameter(format!("the RSA key: {reason}"))
}

/// An infallible random generator, as the crate requires it: SHA-256 of a seed from the operating
/// system and a counter.
struct Randomness {
    seed: Zeroizing<[u8; SEED]>,
    counter: u64,
}

impl Randomness {
    fn drawn() -> Result<Self, Error> {
        let mut seed = Zeroizing::new([0; SEED]);
        OsEntropy.fill(&mut seed[..]).map_err(EngineError::from)?;
        Ok(Self::of_seed(seed))
    }

    fn of_seed(seed: Zeroizing<[u8; SEED]>) -> Self {
        Randomness { seed, counter: 0 }
    }
}

impl TryCryptoRng for Randomness {}

impl TryRng for Randomness {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        next_word_via_fill(self)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        next_word_via_fill(self)
    }

    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), Infallible> {
        for piece in out.chunks_mut(SEED) {
            let mut sha = Sha256::new();
            sha.update(&self.seed[..]);
            sha.update(self.counter.to_be_bytes());
            self.counter += 1;
            piece.copy_from_slice(&sha.finalize()[..piece.len()]);
        }
        Ok(())
    }
}

/// Returns the default scheme for a message, optionally with the hash of its digest.
pub fn usual_scheme(context: &[u8], hash: Option<Prehash>) -> Result<Scheme, Error> {
    let hash = hash.map_or(Ok(Hash::Sha256), hash_of)?;
    if !context.is_empty() {
        return Err(Error::Unsupported("RSA signs no context string".to_owned()));
    }
    Ok(Scheme::Pss { hash, salt: Some(hash.digest_len()) })
}

/// The error for RSA options with a key of another algorithm.
pub fn no_rsa() -> Error {
    Error::Unsupported("padding and salts are of RSA keys alone".to_owned())
}

/// Returns the RSA hash for a pre-hash.
///
/// # Errors
/// [`Error::Unsupported`].
pub fn hash_of(hash: Prehash) -> Result<Hash, Error> {
    Hash::ALL.into_iter().find(|of| of.prehash() == hash).ok_or_else(|| {
        Error::Unsupported(format!(
            "RSA does not sign digests by {}; expected SHA2-224, SHA2-256, SHA2-384, SHA2-512, SHA3-224, SHA3-256, SHA3-384 or SHA3-512",
            hash.name()
        ))
    })
}

/// Verifies a signature with a key.
pub fn verified(
    key: &PublicKey,
    scheme: Scheme,
    digest: &[u8],
    signature: &[u8],
) -> Result<bool, Error> {
    scheme.check(key.bits(), digest)?;
    if signature.len() != key.bits() / 8 {
        return Err(Error::Malformed("RSA"));
    }
    Ok(key.verify_digest(scheme, digest, signature))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> PrivateKey {
        PrivateKey::testing_only_of_seed(2048, [6; 32]).unwrap()
    }

    #[test]
    fn digests_are_signed_under_every_hash_and_salt() {
        let key = key();
        for hash in Hash::ALL {
            let digest = hash.digest(b"m");
            let longest = salt_len_max(2048, hash);
            let salts = [None, Some(0), Some(20), Some(hash.digest_len()), Some(longest)];
            for salt in salts {
                let scheme = Scheme::Pss { hash, salt };
                let sig = key.sign_digest(scheme, &digest).unwrap();
                let is_its = |scheme| key.public().verify_digest(scheme, &digest, &sig);
                // Without a salt length any salt is accepted; with one, only that.
                assert!(is_its(scheme) && is_its(Scheme::Pss { hash, salt: None }), "{salt:?}");
                assert!(!is_its(Scheme::Pss { hash, salt: Some(21) }));
                assert!(!is_its(Scheme::Pkcs1 { hash }));
                assert!(!key.public().verify_digest(scheme, &hash.digest(b"n"), &sig));
                assert!(!key.public().verify_digest(scheme, &digest, &sig[1..]));
            }
            let too_long = Scheme::Pss { hash, salt: Some(longest + 1) };
            assert!(key.sign_digest(too_long, &digest).is_err());
            assert!(!key.public().verify_digest(too_long, &digest, &[0; 256]));
            let scheme = Scheme::Pkcs1 { hash };
            let sig = key.sign_digest(scheme, &digest).unwrap();
            assert!(key.public().verify_digest(scheme, &digest, &sig));
            assert!(key.sign_digest(scheme, &digest[1..]).is_err());
            for other in Hash::ALL.into_iter().filter(|other| *other != hash) {
                let scheme = Scheme::Pkcs1 { hash: other };
                assert!(!key.public().verify_digest(scheme, &other.digest(b"m"), &sig));
            }
        }
    }

    #[test]
    fn oaep_decrypts_only_its_own_ciphertexts() {
        let key = key();
        for hash in Hash::ALL {
            let most = plain_len_max(2048, hash);
            for len in [0, 1, most] {
                let plain = vec![5; len];
                let sealed = key.public().encrypt(hash, &plain, b"l").unwrap();
                let open = |hash, sealed: &[u8], label: &[u8]| key.decrypt(hash, sealed, label);
                assert_eq!(**open(hash, &sealed, b"l").unwrap(), *plain);
                assert_eq!(open(hash, &sealed, b"").err(), Some(Error::DecryptFailed));
                assert_eq!(open(hash, &sealed[1..], b"l").err(), Some(Error::DecryptFailed));
                assert_eq!(
                    open(hash, &[&[0], &sealed[..]].concat(), b"l").err(),
                    Some(Error::DecryptFailed)
                );
                assert_eq!(open(hash, &[0xff; 256], b"l").err(), Some(Error::DecryptFailed));
                for place in [0, 100, 255] {
                    let mut other = sealed.clone();
                    other[place] ^= 1;
                    assert_eq!(
                        open(hash, &other, b"l").err(),
                        Some(Error::DecryptFailed),
                        "{place}"
                    );
                }
                for other in Hash::ALL.into_iter().filter(|other| *other != hash) {
                    assert_eq!(open(other, &sealed, b"l").err(), Some(Error::DecryptFailed));
                }
            }
            let longer = vec![5; most + 1];
            assert!(key.public().encrypt(hash, &longer, b"").is_err());
        }
    }

    #[test]
    fn files_are_read_as_they_are_written_and_others_are_refused() {
        let key = key();
        let der = key.pkcs8().unwrap();
        assert_eq!(PrivateKey::of_pkcs8(2048, &der).unwrap().bytes(), key.bytes());
        assert!(PrivateKey::of_pkcs8(3072, &der).is_err());
        let spki = key.public().spki().unwrap();
        assert_eq!(PublicKey::of_spki(&spki).unwrap().bytes(), key.public().bytes());
        assert_eq!(PublicKey::of_pkcs1(key.public().bytes()).unwrap().bits(), 2048);
        assert!(PublicKey::of_pkcs1(&spki).is_err());
        assert!(key.public().pem().unwrap().starts_with("-----BEGIN PUBLIC KEY-----\n"));
        for len in (0..der.len()).step_by(13) {
            assert!(PrivateKey::of_pkcs8(2048, &der[..len]).is_err());
        }
        for len in (0..spki.len()).step_by(7) {
            assert!(PublicKey::of_spki(&spki[..len]).is_err());
        }
        // The algorithm identifier of PSS-only keys is different.
        let mut other = der.to_vec();
        let at = der.windows(9).position(|it| it == b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01");
        other[at.unwrap() + 8] = 10;
        assert!(PrivateKey::of_pkcs8(2048, &other).is_err());
        assert!(PublicKey::of_spki(&[&spki[..], &[0]].concat()).is_err());
    }
}
