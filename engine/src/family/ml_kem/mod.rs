//! ML-KEM (FIPS 203): keys expanded once, batches as a backend takes them.

pub(crate) mod self_test;

use std::sync::Arc;

use gabion_backend::{Batch, Kem, Keys, Operation, Task};
use gabion_scheme::ml_kem::{DecapsKey, EncapsKey, Params, SECRET_LEN, SEED_LEN, params};
use gabion_scheme::{Algorithm, Status, ct};
use sha3::{Digest, Sha3_256};
use zeroize::Zeroizing;

use super::{DecapsLanes, DecapsPart, DecodedKeys, EncapsLanes, EncapsPart, decode_lanes};
use crate::entropy::Randomness;
use crate::error::{Error, check_length, lane_result, private_key, unknown};
use crate::route::Engine;

/// A private key with its public key, expanded.
#[derive(Clone)]
pub(crate) struct PrivateKey(pub(crate) Arc<DecapsKey>);

/// A public key, expanded.
#[derive(Clone)]
pub(crate) enum PublicKey {
    PublicOnly(Arc<EncapsKey>),
    Pair(Arc<DecapsKey>),
}

impl PublicKey {
    pub(crate) fn expanded(&self) -> &EncapsKey {
        match self {
            PublicKey::PublicOnly(key) => key,
            PublicKey::Pair(key) => key.encaps_key(),
        }
    }
}

fn params_of(algorithm: Algorithm) -> Result<&'static Params, Error> {
    params(algorithm).ok_or_else(|| unknown(algorithm))
}

/// The secrets of a batch as a backend takes them: 32 bytes a lane.
fn secrets(shared: &mut [u8]) -> &mut [[u8; SECRET_LEN]] {
    shared.as_chunks_mut::<SECRET_LEN>().0
}

impl PrivateKey {
    /// Encapsulates to the public part and decapsulates with the private one.
    ///
    /// The checks of FIPS 203, section 7.3, do not detect a secret vector of another key (RFC 9935,
    /// appendix C, contains such a key), with which no secret could ever be agreed.
    fn try_pair(&self, engine: &Engine) -> Result<(), Error> {
        let algorithm = self.algorithm();
        // The secret does not leave this function. m is derived from the key itself, so no
        // randomness is needed, and an attacker cannot find one for which mismatched parts agree.
        let m = Zeroizing::new(<[u8; SECRET_LEN]>::from(Sha3_256::digest(self.bytes())));
        let mut ct = Zeroizing::new(vec![0; self.0.params().ct_len()]);
        let mut secrets = Zeroizing::new([[0; SECRET_LEN]; 2]);
        let [sent, opened] = &mut *secrets;
        let mut status = [Status::NotRun];
        let randomness = Randomness::Bytes(&m[..]);
        let lanes = EncapsLanes { randomness, ct: &mut ct, shared: sent, status: &mut status };
        PublicKey::encaps_many(engine, &[&self.public()], lanes)?;
        lane_result(algorithm, Task::Encaps, status[0])?;
        let lanes = DecapsLanes { ct: &ct, shared: opened, status: &mut status };
        Self::decaps_many(engine, &[self], lanes)?;
        lane_result(algorithm, Task::Decaps, status[0])?;
        // Whether a key is refused is no secret.
        if ct::declassified(ct::eq_mask(sent, opened) == u64::MAX) {
            return Ok(());
        }
        Err(private_key(algorithm, "its private and public parts do not belong together"))
    }
}

impl DecapsPart for PrivateKey {
    type Public = PublicKey;

    fn algorithm(&self) -> Algorithm {
        self.0.params().algorithm
    }

    fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }

    fn seed(&self) -> Option<&[u8]> {
        self.0.seed().map(|seed| &seed[..])
    }

    fn public(&self) -> PublicKey {
        PublicKey::Pair(Arc::clone(&self.0))
    }

    fn public_bytes(&self) -> &[u8] {
        self.0.encaps_key().bytes()
    }

    /// ML-KEM.KeyGen_internal (FIPS 203, Algorithm 16) of each seed (d, z).
    fn from_seeds(engine: &Engine, algorithm: Algorithm, seeds: &[u8]) -> Result<Vec<Self>, Error> {
        let params = params_of(algorithm)?;
        let seeds = seeds.as_chunks::<SEED_LEN>().0;
        let mut keys = vec![DecapsKey::blank(params); seeds.len()];
        let operation = Operation::Kem(Kem::Generate { params, seeds, keys: &mut keys });
        engine.run_all(operation, seeds.len())?;
        Ok(keys.into_iter().map(|key| PrivateKey(Arc::new(key))).collect())
    }

    fn decode(engine: &Engine, algorithm: Algorithm, bytes: &[u8]) -> Result<Self, Error> {
        let key = Self::decode_untested(engine, algorithm, bytes)?;
        key.try_pair(engine)?;
        Ok(key)
    }

    /// Decodes with the checks of FIPS 203, section 7.3.
    fn decode_untested(engine: &Engine, algorithm: Algorithm, bytes: &[u8]) -> Result<Self, Error> {
        let params = params_of(algorithm)?;
        check_length("an ML-KEM private key", params.dk_len(), bytes)?;
        let mut keys = [DecapsKey::blank(params)];
        engine.run_one(Operation::Kem(Kem::DecodePrivate { params, bytes, keys: &mut keys }))?;
        let [key] = keys;
        Ok(PrivateKey(Arc::new(key)))
    }

    /// ML-KEM.Decaps (FIPS 203, Algorithm 21).
    fn decaps_many(engine: &Engine, keys: &[&Self], lanes: DecapsLanes<'_>) -> Result<(), Error> {
        let Some(params) = keys.first().map(|key| key.0.params()) else { return Ok(()) };
        let DecapsLanes { ct, shared, status } = lanes;
        let known: Vec<_> = keys.iter().map(|key| &*key.0).collect();
        let (keys, shared) = (Keys::Known(&known[..]), secrets(shared));
        engine.run(&mut Batch {
            operation: Operation::Kem(Kem::Decaps { params, keys, ct, shared }),
            status,
        })
    }
}

/// The name of the decoded data in errors.
const WHAT: &str = "an ML-KEM public key";

impl EncapsPart for PublicKey {
    fn algorithm(&self) -> Algorithm {
        self.expanded().params().algorithm
    }

    fn bytes(&self) -> &[u8] {
        self.expanded().bytes()
    }

    /// Decodes with the checks of FIPS 203, section 7.2.
    fn decode(engine: &Engine, algorithm: Algorithm, bytes: &[u8]) -> Result<Self, Error> {
        let params = params_of(algorithm)?;
        check_length(WHAT, params.ek_len(), bytes)?;
        let mut keys = [EncapsKey::blank(params)];
        engine.run_one(Operation::Kem(Kem::DecodePublic { params, bytes, keys: &mut keys }))?;
        let [key] = keys;
        Ok(PublicKey::PublicOnly(Arc::new(key)))
    }

    fn decode_many(engine: &Engine, algorithm: Algorithm, encoded: &[&[u8]]) -> DecodedKeys<Self> {
        let params = params_of(algorithm)?;
        decode_lanes(algorithm, WHAT, params.ek_len(), encoded, |bytes, status| {
            let mut keys: Vec<_> = status.iter().map(|_| EncapsKey::blank(params)).collect();
            let operation = Operation::Kem(Kem::DecodePublic { params, bytes, keys: &mut keys });
            engine.run(&mut Batch { operation, status })?;
            Ok(keys.into_iter().map(|key| PublicKey::PublicOnly(Arc::new(key))).collect())
        })
    }

    /// ML-KEM.Encaps (FIPS 203, Algorithm 20).
    fn encaps_many(engine: &Engine, keys: &[&Self], lanes: EncapsLanes<'_>) -> Result<(), Error> {
        let Some(params) = keys.first().map(|key| key.expanded().params()) else { return Ok(()) };
        let EncapsLanes { randomness, ct, shared, status } = lanes;
        let m = randomness.fresh::<SECRET_LEN>(params.algorithm, keys.len())?;
        let known: Vec<_> = keys.iter().map(|key| key.expanded()).collect();
        let (keys, shared) = (Keys::Known(&known[..]), secrets(shared));
        engine.run(&mut Batch {
            operation: Operation::Kem(Kem::Encaps { params, keys, m: &m, ct, shared }),
            status,
        })
    }
}
