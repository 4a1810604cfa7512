//! ML-KEM keys and operations, one at a time.

use std::sync::Arc;

use gabion_backend::{Keys, Operation};
use gabion_scheme::Algorithm;
use gabion_scheme::ml_kem::{DecapsKey, EncapsKey, Params, SECRET_LEN, SEED_LEN, params};
use zeroize::Zeroizing;

use crate::entropy::{Entropy, draw};
use crate::error::{Error, check_length, exact, same_key};
use crate::route::Engine;

/// A shared secret; wiped when dropped.
pub type SharedSecret = Zeroizing<[u8; SECRET_LEN]>;

/// An ML-KEM private key with its public key, expanded once. Immutable; clones share it.
#[derive(Clone)]
pub struct KemPrivateKey(Arc<DecapsKey>);

/// An ML-KEM public key, expanded once. Immutable; clones share it.
#[derive(Clone)]
pub struct KemPublicKey(PublicPart);

#[derive(Clone)]
enum PublicPart {
    Alone(Arc<EncapsKey>),
    OfPair(Arc<DecapsKey>),
}

impl KemPrivateKey {
    /// The parameter set.
    pub fn algorithm(&self) -> Algorithm {
        self.0.params().algorithm
    }

    /// The public key that belongs to it; shares this key's memory.
    pub fn public(&self) -> KemPublicKey {
        KemPublicKey(PublicPart::OfPair(Arc::clone(&self.0)))
    }

    /// The expanded form as FIPS 203 encodes it. Secret.
    pub fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }

    /// The seed (d, z), where it is known. Secret.
    pub fn seed(&self) -> Option<&[u8; SEED_LEN]> {
        self.0.seed()
    }

    /// The key as a batch takes it.
    pub fn expanded(&self) -> &DecapsKey {
        &self.0
    }
}

impl KemPublicKey {
    /// The parameter set.
    pub fn algorithm(&self) -> Algorithm {
        self.expanded().params().algorithm
    }

    /// The encoded key.
    pub fn bytes(&self) -> &[u8] {
        self.expanded().bytes()
    }

    /// The key as a batch takes it.
    pub fn expanded(&self) -> &EncapsKey {
        match &self.0 {
            PublicPart::Alone(key) => key,
            PublicPart::OfPair(key) => key.encaps_key(),
        }
    }
}

fn kem_params(algorithm: Algorithm, operation: &'static str) -> Result<&'static Params, Error> {
    let expected = "ML-KEM-512, ML-KEM-768 or ML-KEM-1024";
    params(algorithm).ok_or(Error::WrongAlgorithm { algorithm, operation, expected })
}

impl Engine {
    /// Makes a key pair: ML-KEM.KeyGen (FIPS 203, Algorithm 19).
    ///
    /// # Errors
    /// Not an ML-KEM; no randomness; no healthy backend.
    pub fn kem_generate(
        &self,
        algorithm: Algorithm,
        entropy: &dyn Entropy,
    ) -> Result<KemPrivateKey, Error> {
        kem_params(algorithm, "generate KEM keys")?;
        let seed = draw::<SEED_LEN>(entropy, 1)?;
        self.kem_from_seed(algorithm, &seed[0])
    }

    /// Makes the key pair of a seed (d, z): ML-KEM.KeyGen_internal (FIPS 203, Algorithm 16).
    ///
    /// # Errors
    /// Not an ML-KEM; a seed that is not 64 bytes; no healthy backend.
    pub fn kem_from_seed(&self, algorithm: Algorithm, seed: &[u8]) -> Result<KemPrivateKey, Error> {
        let params = kem_params(algorithm, "generate KEM keys")?;
        let seed: &[u8; SEED_LEN] = exact("an ML-KEM seed", seed)?;
        let mut keys = [DecapsKey::blank(params)];
        let seeds = std::slice::from_ref(seed);
        self.run_one(Operation::KemGenerate { params, seeds, keys: &mut keys })?;
        let [key] = keys;
        Ok(KemPrivateKey(Arc::new(key)))
    }

    /// Decodes an expanded private key, with the checks of FIPS 203, section 7.3.
    ///
    /// # Errors
    /// Not an ML-KEM; a key that fails a check.
    pub fn kem_private(&self, algorithm: Algorithm, bytes: &[u8]) -> Result<KemPrivateKey, Error> {
        let params = kem_params(algorithm, "decode a decapsulation key")?;
        check_length("an ML-KEM private key", params.dk_len(), bytes)?;
        let mut keys = [DecapsKey::blank(params)];
        self.run_one(Operation::KemDecodePrivate { params, bytes, keys: &mut keys })?;
        let [key] = keys;
        Ok(KemPrivateKey(Arc::new(key)))
    }

    /// Decodes a private key that came as seed and expanded key; they must belong together.
    ///
    /// # Errors
    /// As [`Self::kem_private`], and forms that disagree.
    pub fn kem_private_both(
        &self,
        algorithm: Algorithm,
        seed: &[u8],
        bytes: &[u8],
    ) -> Result<KemPrivateKey, Error> {
        let key = self.kem_from_seed(algorithm, seed)?;
        same_key(algorithm, key.bytes(), bytes)?;
        Ok(key)
    }

    /// Decodes a public key, with the checks of FIPS 203, section 7.2.
    ///
    /// # Errors
    /// Not an ML-KEM; a key that fails a check.
    pub fn kem_public(&self, algorithm: Algorithm, bytes: &[u8]) -> Result<KemPublicKey, Error> {
        let params = kem_params(algorithm, "decode an encapsulation key")?;
        check_length("an ML-KEM public key", params.ek_len(), bytes)?;
        let mut keys = [EncapsKey::blank(params)];
        self.run_one(Operation::KemDecodePublic { params, bytes, keys: &mut keys })?;
        let [key] = keys;
        Ok(KemPublicKey(PublicPart::Alone(Arc::new(key))))
    }

    /// Encapsulates to a key: ML-KEM.Encaps (FIPS 203, Algorithm 20). Gives the ciphertext and the
    /// shared secret.
    ///
    /// # Errors
    /// No randomness; no healthy backend.
    pub fn encaps(
        &self,
        key: &KemPublicKey,
        entropy: &dyn Entropy,
    ) -> Result<(Vec<u8>, SharedSecret), Error> {
        let m = draw::<SECRET_LEN>(entropy, 1)?;
        self.testing_only_encaps_with(key, &m[0])
    }

    /// Encapsulates with given randomness m: ML-KEM.Encaps_internal (FIPS 203, Algorithm 17). For
    /// test vectors only: an m used twice, or known to others, gives the shared secret away.
    ///
    /// # Errors
    /// No healthy backend.
    pub fn testing_only_encaps_with(
        &self,
        key: &KemPublicKey,
        m: &[u8; SECRET_LEN],
    ) -> Result<(Vec<u8>, SharedSecret), Error> {
        let params = key.expanded().params();
        let mut ct = vec![0; params.ct_len()];
        let mut shared = SharedSecret::default();
        self.run_one(Operation::KemEncaps {
            params,
            keys: Keys::Known(&[key.expanded()]),
            m: std::slice::from_ref(m),
            ct: &mut ct,
            shared: std::slice::from_mut(&mut *shared),
        })?;
        Ok((ct, shared))
    }

    /// Decapsulates: ML-KEM.Decaps (FIPS 203, Algorithm 21). A ciphertext that was not made for the
    /// key gives a pseudo-random secret; that is no error.
    ///
    /// # Errors
    /// A ciphertext of the wrong length; no healthy backend.
    pub fn decaps(&self, key: &KemPrivateKey, ciphertext: &[u8]) -> Result<SharedSecret, Error> {
        let params = key.expanded().params();
        check_length("the ciphertext", params.ct_len(), ciphertext)?;
        let mut shared = SharedSecret::default();
        self.run_one(Operation::KemDecaps {
            params,
            keys: Keys::Known(&[key.expanded()]),
            ct: ciphertext,
            shared: std::slice::from_mut(&mut *shared),
        })?;
        Ok(shared)
    }
}
