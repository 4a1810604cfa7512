//! ML-DSA keys and operations, one at a time.

use std::sync::Arc;

use gabion_backend::{Keys, Operation};
use gabion_scheme::Algorithm;
use gabion_scheme::ml_dsa::{self, Message, Params, SEED_LEN, params};

use crate::entropy::{Entropy, draw};
use crate::error::{Error, check_length, exact, same_key};
use crate::route::Engine;

/// An ML-DSA private key with its public key, expanded once. Immutable; clones share it.
#[derive(Clone)]
pub struct SigningKey(Arc<ml_dsa::SigningKey>);

/// An ML-DSA public key, expanded once. Immutable; clones share it.
#[derive(Clone)]
pub struct VerifyKey(PublicPart);

#[derive(Clone)]
enum PublicPart {
    Alone(Arc<ml_dsa::VerifyKey>),
    OfPair(Arc<ml_dsa::SigningKey>),
}

impl SigningKey {
    /// The parameter set.
    pub fn algorithm(&self) -> Algorithm {
        self.0.params().algorithm
    }

    /// The public key that belongs to it; shares this key's memory.
    pub fn public(&self) -> VerifyKey {
        VerifyKey(PublicPart::OfPair(Arc::clone(&self.0)))
    }

    /// The expanded form as FIPS 204 encodes it. Secret.
    pub fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }

    /// The seed xi, where it is known. Secret.
    pub fn seed(&self) -> Option<&[u8; SEED_LEN]> {
        self.0.seed()
    }

    /// The key as a batch takes it.
    pub fn expanded(&self) -> &ml_dsa::SigningKey {
        &self.0
    }
}

impl VerifyKey {
    /// The parameter set.
    pub fn algorithm(&self) -> Algorithm {
        self.expanded().params().algorithm
    }

    /// The encoded key.
    pub fn bytes(&self) -> &[u8] {
        self.expanded().bytes()
    }

    /// The key as a batch takes it.
    pub fn expanded(&self) -> &ml_dsa::VerifyKey {
        match &self.0 {
            PublicPart::Alone(key) => key,
            PublicPart::OfPair(key) => key.verify_key(),
        }
    }
}

fn dsa_params(algorithm: Algorithm, operation: &'static str) -> Result<&'static Params, Error> {
    let expected = "ML-DSA-44, ML-DSA-65 or ML-DSA-87";
    params(algorithm).ok_or(Error::WrongAlgorithm { algorithm, operation, expected })
}

impl Engine {
    /// Makes a key pair: ML-DSA.KeyGen (FIPS 204, Algorithm 1).
    ///
    /// # Errors
    /// Not an ML-DSA; no randomness; no healthy backend.
    pub fn dsa_generate(
        &self,
        algorithm: Algorithm,
        entropy: &dyn Entropy,
    ) -> Result<SigningKey, Error> {
        dsa_params(algorithm, "generate signing keys")?;
        let seed = draw::<SEED_LEN>(entropy, 1)?;
        self.dsa_from_seed(algorithm, &seed[0])
    }

    /// Makes the key pair of a seed xi: ML-DSA.KeyGen_internal (FIPS 204, Algorithm 6).
    ///
    /// # Errors
    /// Not an ML-DSA; a seed that is not 32 bytes; no healthy backend.
    pub fn dsa_from_seed(&self, algorithm: Algorithm, seed: &[u8]) -> Result<SigningKey, Error> {
        let params = dsa_params(algorithm, "generate signing keys")?;
        let seed: &[u8; SEED_LEN] = exact("an ML-DSA seed", seed)?;
        let mut keys = [ml_dsa::SigningKey::blank(params)];
        let seeds = std::slice::from_ref(seed);
        self.run_one(Operation::DsaGenerate { params, seeds, keys: &mut keys })?;
        let [key] = keys;
        Ok(SigningKey(Arc::new(key)))
    }

    /// Decodes an expanded private key and checks that its parts belong together.
    ///
    /// # Errors
    /// Not an ML-DSA; a key that fails a check.
    pub fn dsa_private(&self, algorithm: Algorithm, bytes: &[u8]) -> Result<SigningKey, Error> {
        let params = dsa_params(algorithm, "decode a signing key")?;
        check_length("an ML-DSA private key", params.sk_len(), bytes)?;
        let mut keys = [ml_dsa::SigningKey::blank(params)];
        self.run_one(Operation::DsaDecodePrivate { params, bytes, keys: &mut keys })?;
        let [key] = keys;
        Ok(SigningKey(Arc::new(key)))
    }

    /// Decodes a private key that came as seed and expanded key; they must belong together.
    ///
    /// # Errors
    /// As [`Self::dsa_private`], and forms that disagree.
    pub fn dsa_private_both(
        &self,
        algorithm: Algorithm,
        seed: &[u8],
        bytes: &[u8],
    ) -> Result<SigningKey, Error> {
        let key = self.dsa_from_seed(algorithm, seed)?;
        same_key(algorithm, key.bytes(), bytes)?;
        Ok(key)
    }

    /// Decodes a public key.
    ///
    /// # Errors
    /// Not an ML-DSA; a wrong length.
    pub fn dsa_public(&self, algorithm: Algorithm, bytes: &[u8]) -> Result<VerifyKey, Error> {
        let params = dsa_params(algorithm, "decode a verification key")?;
        check_length("an ML-DSA public key", params.pk_len(), bytes)?;
        let mut keys = [ml_dsa::VerifyKey::blank(params)];
        self.run_one(Operation::DsaDecodePublic { params, bytes, keys: &mut keys })?;
        let [key] = keys;
        Ok(VerifyKey(PublicPart::Alone(Arc::new(key))))
    }

    /// Signs, hedged with fresh randomness: ML-DSA.Sign and HashML-DSA.Sign (FIPS 204,
    /// Algorithms 2 and 4), by the kind of message.
    ///
    /// # Errors
    /// A context above 255 bytes, a digest of the wrong length; no randomness; no healthy backend.
    pub fn sign(
        &self,
        key: &SigningKey,
        message: Message<'_>,
        entropy: &dyn Entropy,
    ) -> Result<Vec<u8>, Error> {
        let rnd = draw::<32>(entropy, 1)?;
        self.sign_with(key, message, &rnd[0])
    }

    /// Signs deterministically: the optional variant of FIPS 204 with rnd all zero.
    ///
    /// # Errors
    /// As [`Self::sign`], but for randomness.
    pub fn sign_deterministic(
        &self,
        key: &SigningKey,
        message: Message<'_>,
    ) -> Result<Vec<u8>, Error> {
        self.sign_with(key, message, &[0; 32])
    }

    /// Signs with given randomness rnd: for test vectors only.
    ///
    /// # Errors
    /// As [`Self::sign`], but for randomness.
    pub fn testing_only_sign_with(
        &self,
        key: &SigningKey,
        message: Message<'_>,
        rnd: &[u8; 32],
    ) -> Result<Vec<u8>, Error> {
        self.sign_with(key, message, rnd)
    }

    fn sign_with(
        &self,
        key: &SigningKey,
        message: Message<'_>,
        rnd: &[u8; 32],
    ) -> Result<Vec<u8>, Error> {
        message.check()?;
        let params = key.expanded().params();
        let mut sig = vec![0; params.sig_len()];
        self.run_one(Operation::DsaSign {
            params,
            keys: Keys::Known(&[key.expanded()]),
            messages: &[message],
            rnd: std::slice::from_ref(rnd),
            sig: &mut sig,
        })?;
        Ok(sig)
    }

    /// Verifies: ML-DSA.Verify and HashML-DSA.Verify (FIPS 204, Algorithms 3 and 5).
    ///
    /// # Errors
    /// [`Error::BadSignature`] if it does not verify, a signature of the wrong length included; a
    /// context above 255 bytes or a digest of the wrong length; no healthy backend.
    pub fn verify(
        &self,
        key: &VerifyKey,
        message: Message<'_>,
        signature: &[u8],
    ) -> Result<(), Error> {
        message.check()?;
        let params = key.expanded().params();
        if signature.len() != params.sig_len() {
            return Err(Error::BadSignature);
        }
        self.run_one(Operation::DsaVerify {
            params,
            keys: Keys::Known(&[key.expanded()]),
            messages: &[message],
            sig: signature,
        })
    }
}
