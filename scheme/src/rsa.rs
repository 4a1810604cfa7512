//! RSA signatures (RFC 8017) as the classical part of composite signatures.
//!
//! There is no algorithm of this name in the table: RSA alone is nothing that Gabion adds to. Keys
//! are PKCS#1 (RFC 8017, A.1), with e = 65537, and in the one encoding that DER allows. The hash is
//! the composite drafts' choice: SHA-256 up to 3072 bits, SHA-384 above; PSS takes it for its mask
//! too, and a salt of its length.
//!
//! The crate computes with the private key in constant time, uses blinding, and verifies each
//! signature before it returns it.

use core::convert::Infallible;
use core::fmt;

use rsa::pkcs1::{
    DecodeRsaPrivateKey, DecodeRsaPublicKey, EncodeRsaPrivateKey, EncodeRsaPublicKey,
};
use rsa::rand_core::{TryCryptoRng, TryRng};
use rsa::sha2::{Digest, Sha256, Sha384};
use rsa::traits::PublicKeyParts;
use rsa::{BoxedUint, Pkcs1v15Sign, Pss, RsaPrivateKey, RsaPublicKey};
use sha3::digest::{ExtendableOutput, Update, XofReader};
use sha3::{Shake256, Shake256Reader};
use zeroize::Zeroizing;

use crate::error::Error;
use crate::room::with_room;

/// The only public exponent.
const E: u32 = 65537;
/// Bytes of randomness that a key or a signature takes.
pub const RANDOM_LEN: usize = 32;

/// The padding of a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Padding {
    /// RSASSA-PSS (RFC 8017, section 8.1).
    Pss,
    /// RSASSA-PKCS1-v1_5 (RFC 8017, section 8.2).
    Pkcs1,
}

/// The size of a modulus and the padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// Bits of the modulus: 2048, 3072 or 4096.
    pub bits: usize,
    /// The padding.
    pub padding: Padding,
}

/// Formats as `RSA-2048 PSS` or `RSA-2048 PKCS#1 v1.5`.
impl fmt::Display for Params {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let padding = match self.padding {
            Padding::Pss => "PSS",
            Padding::Pkcs1 => "PKCS#1 v1.5",
        };
        write!(f, "RSA-{} {padding}", self.bits)
    }
}

impl Params {
    /// Bytes of a signature.
    pub const fn sig_len(&self) -> usize {
        self.bits / 8
    }

    /// Bytes of an encoded public key: a sequence of the modulus and e.
    pub const fn pk_len(&self) -> usize {
        // 4 for the sequence, 5 for e, 4 and a leading zero for the modulus.
        4 + 5 + 5 + self.bits / 8
    }

    /// Bytes of the longest encoded private key.
    pub const fn sk_len_max(&self) -> usize {
        // The sequence, the version, e; n and d; the primes, their exponents and the coefficient:
        // each with a leading zero, and a length of two digits more than one from 128 bytes on.
        4 + 3 + 5 + 2 * (5 + self.bits / 8) + 5 * (integer_head(self.bits / 16) + self.bits / 16)
    }

    /// The hash of a message.
    fn hash(&self, message: &[u8]) -> Vec<u8> {
        if self.bits > 3072 {
            Sha384::digest(message).to_vec()
        } else {
            Sha256::digest(message).to_vec()
        }
    }
}

/// Returns the length of the bytes before an integer of `len` bytes with a leading zero.
const fn integer_head(len: usize) -> usize {
    if len + 1 < 256 { 4 } else { 5 }
}

/// A private key with its public key.
pub struct PrivateKey {
    key: RsaPrivateKey,
    bytes: Zeroizing<Vec<u8>>,
    public: PublicKey,
}

/// A public key.
#[derive(Clone)]
pub struct PublicKey {
    key: RsaPublicKey,
    bytes: Vec<u8>,
}

impl PublicKey {
    /// Decodes an RSAPublicKey of this size.
    ///
    /// # Errors
    /// [`Error::PublicKey`].
    pub fn decode(params: Params, bytes: &[u8]) -> Result<Self, Error> {
        let refuse = |reason| Error::PublicKey { algorithm: "RSA", reason };
        let key = RsaPublicKey::from_pkcs1_der(bytes).map_err(|_| refuse("no RSAPublicKey"))?;
        check_size(params, &key).map_err(refuse)?;
        let again = key.to_pkcs1_der().map_err(|_| refuse("no RSAPublicKey"))?;
        if again.as_bytes() != bytes {
            return Err(refuse("it is not encoded as DER prescribes"));
        }
        Ok(PublicKey { key, bytes: bytes.to_vec() })
    }

    /// The encoding.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns whether a signature verifies.
    pub fn verify(&self, params: Params, message: &[u8], sig: &[u8]) -> bool {
        let hash = params.hash(message);
        let verified = match (params.padding, params.bits > 3072) {
            (Padding::Pss, false) => self.key.verify(Pss::<Sha256>::new(), &hash, sig),
            (Padding::Pss, true) => self.key.verify(Pss::<Sha384>::new(), &hash, sig),
            (Padding::Pkcs1, false) => self.key.verify(Pkcs1v15Sign::new::<Sha256>(), &hash, sig),
            (Padding::Pkcs1, true) => self.key.verify(Pkcs1v15Sign::new::<Sha384>(), &hash, sig),
        };
        verified.is_ok()
    }
}

impl PrivateKey {
    /// Makes a key pair from random bytes, which takes seconds, and more stack than some callers have.
    ///
    /// # Errors
    /// [`Error::NoMemory`]; [`Error::PrivateKey`] if the crate finds no primes, which does not happen.
    pub fn generate(params: Params, random: &[u8; RANDOM_LEN]) -> Result<Self, Error> {
        with_room(|| Self::generate_here(params, random))?
    }

    fn generate_here(params: Params, random: &[u8; RANDOM_LEN]) -> Result<Self, Error> {
        let mut rng = Randomness::new(random);
        let key = RsaPrivateKey::new(&mut rng, params.bits).map_err(|_| refuse("no primes"))?;
        Self::new(params, key)
    }

    /// Decodes an RSAPrivateKey of this size, with the parts that the Chinese remainder theorem
    /// needs and two primes.
    ///
    /// # Errors
    /// [`Error::PrivateKey`].
    pub fn decode(params: Params, bytes: &[u8]) -> Result<Self, Error> {
        let key = RsaPrivateKey::from_pkcs1_der(bytes)
            .map_err(|_| refuse("no RSAPrivateKey of two primes that belong together"))?;
        let key = Self::new(params, key)?;
        // Fields that the crate ignores would be encoded differently here.
        if crate::ct::eq_mask(&key.bytes, bytes) != u64::MAX {
            return Err(refuse("its parts do not belong together, or it is not DER"));
        }
        Ok(key)
    }

    fn new(params: Params, mut key: RsaPrivateKey) -> Result<Self, Error> {
        let public = key.to_public_key();
        check_size(params, &public).map_err(refuse)?;
        key.precompute().map_err(|_| refuse("its parts do not belong together"))?;
        let bytes = key.to_pkcs1_der().map_err(|_| refuse("it can't be encoded"))?.to_bytes();
        let encoded = public.to_pkcs1_der().map_err(|_| refuse("it can't be encoded"))?;
        let public = PublicKey { key: public, bytes: encoded.as_bytes().to_vec() };
        Ok(PrivateKey { key, bytes, public })
    }

    /// The encoding. Secret.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The public key that belongs to it.
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// Signs a message. Returns `None` if the computation failed its self-check. The salt and the
    /// blinding come from `random`.
    pub fn sign(
        &self,
        params: Params,
        message: &[u8],
        random: &[u8; RANDOM_LEN],
    ) -> Option<Vec<u8>> {
        let hash = params.hash(message);
        let mut rng = Randomness::new(random);
        let made = match (params.padding, params.bits > 3072) {
            (Padding::Pss, false) => self.key.sign_with_rng(&mut rng, Pss::<Sha256>::new(), &hash),
            (Padding::Pss, true) => self.key.sign_with_rng(&mut rng, Pss::<Sha384>::new(), &hash),
            (Padding::Pkcs1, false) => {
                self.key.sign_with_rng(&mut rng, Pkcs1v15Sign::new::<Sha256>(), &hash)
            }
            (Padding::Pkcs1, true) => {
                self.key.sign_with_rng(&mut rng, Pkcs1v15Sign::new::<Sha384>(), &hash)
            }
        };
        made.ok()
    }
}

fn refuse(reason: &'static str) -> Error {
    Error::PrivateKey { algorithm: "RSA", reason }
}

fn check_size(params: Params, key: &RsaPublicKey) -> Result<(), &'static str> {
    if key.n().bits() as usize != params.bits {
        return Err("its modulus has another size than the algorithm's");
    }
    if *key.e() != BoxedUint::from(E) {
        return Err("its exponent is not 65537");
    }
    Ok(())
}

/// SHAKE256 of the random bytes of one lane, in the form in which the crate draws.
struct Randomness(Shake256Reader);

impl Randomness {
    fn new(random: &[u8; RANDOM_LEN]) -> Self {
        let mut sponge = Shake256::default();
        sponge.update(random);
        Randomness(sponge.finalize_xof())
    }
}

impl TryCryptoRng for Randomness {}

impl TryRng for Randomness {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        let mut bytes = [0; 4];
        self.0.read(&mut bytes);
        Ok(u32::from_le_bytes(bytes))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        let mut bytes = [0; 8];
        self.0.read(&mut bytes);
        Ok(u64::from_le_bytes(bytes))
    }

    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), Infallible> {
        self.0.read(out);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rsa_verifies_only_its_own_signatures() {
        for bits in [2048, 3072, 4096] {
            let of = |padding| Params { bits, padding };
            let (pss, pkcs1) = (of(Padding::Pss), of(Padding::Pkcs1));
            let key = PrivateKey::generate(pss, &[3; 32]).unwrap();
            assert_eq!(key.public().bytes().len(), pss.pk_len());
            assert!(key.bytes().len() <= pss.sk_len_max());
            assert!(key.bytes().len() + 8 > pss.sk_len_max());
            let again = PrivateKey::decode(pss, key.bytes()).unwrap();
            let public = PublicKey::decode(pss, again.public().bytes()).unwrap();
            let (a, b) = (again.sign(pss, b"m", &[1; 32]), key.sign(pkcs1, b"m", &[2; 32]));
            let (a, b) = (a.unwrap(), b.unwrap());
            assert_eq!((a.len(), b.len()), (pss.sig_len(), pss.sig_len()));
            // PKCS#1 v1.5 is deterministic, PSS by its salt.
            assert_eq!(key.sign(pkcs1, b"m", &[9; 32]).unwrap(), b);
            assert_ne!(key.sign(pss, b"m", &[9; 32]).unwrap(), a);
            for (params, sig, other) in [(pss, &a, &b), (pkcs1, &b, &a)] {
                assert!(public.verify(params, b"m", sig));
                assert!(!public.verify(params, b"n", sig));
                assert!(!public.verify(params, b"m", other));
                assert!(!public.verify(params, b"m", &sig[1..]));
                let mut longer = vec![0];
                longer.extend_from_slice(sig);
                assert!(!public.verify(params, b"m", &longer));
                let mut bad = sig.clone();
                bad[5] ^= 1;
                assert!(!public.verify(params, b"m", &bad));
            }
        }
    }

    #[test]
    fn keys_of_another_size_or_form_are_refused() {
        let params = Params { bits: 2048, padding: Padding::Pss };
        let larger = Params { bits: 3072, ..params };
        let key = PrivateKey::generate(params, &[4; 32]).unwrap();
        assert!(PrivateKey::decode(larger, key.bytes()).is_err());
        assert!(PublicKey::decode(larger, key.public().bytes()).is_err());
        for byte in 0..key.public().bytes().len() {
            let mut bad = key.public().bytes().to_vec();
            // A changed modulus is another modulus, unless its top or lowest bit went.
            bad[byte] ^= 0x81;
            let modulus = 9..9 + 256;
            let decoded = PublicKey::decode(params, &bad);
            assert!(decoded.is_err() || modulus.contains(&byte), "byte {byte}");
        }
        let len = key.bytes().len();
        for byte in (0..len).step_by(11).chain([4, 5, 6, len - 1]) {
            let mut bad = key.bytes().to_vec();
            bad[byte] ^= 1;
            assert!(PrivateKey::decode(params, &bad).is_err(), "byte {byte}");
        }
        let mut longer = key.bytes().to_vec();
        longer.push(0);
        assert!(PrivateKey::decode(params, &longer).is_err());
        let mut longer = key.public().bytes().to_vec();
        longer.push(0);
        assert!(PublicKey::decode(params, &longer).is_err());
    }
}
