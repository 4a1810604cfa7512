//! ML-KEM (FIPS 203): keys expanded once, batches as a backend takes them.

use std::sync::Arc;

use gabion_backend::{Batch, Keys, Operation};
use gabion_scheme::Algorithm;
use gabion_scheme::ml_kem::{DecapsKey, EncapsKey, Params, SECRET_LEN, SEED_LEN, params};

use super::{DecapsLanes, DecapsPart, Decoded, EncapsLanes, EncapsPart, decode_lanes};
use crate::error::{Error, check_length, unknown};
use crate::route::Engine;

/// A private key with its public key, expanded.
#[derive(Clone)]
pub(crate) struct PrivateKey(pub(crate) Arc<DecapsKey>);

/// A public key, expanded.
#[derive(Clone)]
pub(crate) enum PublicKey {
    Alone(Arc<EncapsKey>),
    OfPair(Arc<DecapsKey>),
}

impl PublicKey {
    pub(crate) fn expanded(&self) -> &EncapsKey {
        match self {
            PublicKey::Alone(key) => key,
            PublicKey::OfPair(key) => key.encaps_key(),
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
        PublicKey::OfPair(Arc::clone(&self.0))
    }

    fn public_bytes(&self) -> &[u8] {
        self.0.encaps_key().bytes()
    }

    /// ML-KEM.KeyGen_internal (FIPS 203, Algorithm 16) of each seed (d, z).
    fn from_seeds(engine: &Engine, algorithm: Algorithm, seeds: &[u8]) -> Result<Vec<Self>, Error> {
        let params = params_of(algorithm)?;
        let seeds = seeds.as_chunks::<SEED_LEN>().0;
        let mut keys = vec![DecapsKey::blank(params); seeds.len()];
        let operation = Operation::KemGenerate { params, seeds, keys: &mut keys };
        engine.run_all(operation, seeds.len())?;
        Ok(keys.into_iter().map(|key| PrivateKey(Arc::new(key))).collect())
    }

    /// With the checks of FIPS 203, section 7.3.
    fn decode(engine: &Engine, algorithm: Algorithm, bytes: &[u8]) -> Result<Self, Error> {
        let params = params_of(algorithm)?;
        check_length("an ML-KEM private key", params.dk_len(), bytes)?;
        let mut keys = [DecapsKey::blank(params)];
        engine.run_one(Operation::KemDecodePrivate { params, bytes, keys: &mut keys })?;
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
            operation: Operation::KemDecaps { params, keys, ct, shared },
            status,
        })
    }
}

/// What is decoded here, in errors.
const WHAT: &str = "an ML-KEM public key";

impl EncapsPart for PublicKey {
    fn algorithm(&self) -> Algorithm {
        self.expanded().params().algorithm
    }

    fn bytes(&self) -> &[u8] {
        self.expanded().bytes()
    }

    /// With the checks of FIPS 203, section 7.2.
    fn decode(engine: &Engine, algorithm: Algorithm, bytes: &[u8]) -> Result<Self, Error> {
        let params = params_of(algorithm)?;
        check_length(WHAT, params.ek_len(), bytes)?;
        let mut keys = [EncapsKey::blank(params)];
        engine.run_one(Operation::KemDecodePublic { params, bytes, keys: &mut keys })?;
        let [key] = keys;
        Ok(PublicKey::Alone(Arc::new(key)))
    }

    fn decode_many(engine: &Engine, algorithm: Algorithm, encoded: &[&[u8]]) -> Decoded<Self> {
        let params = params_of(algorithm)?;
        decode_lanes(algorithm, WHAT, params.ek_len(), encoded, |bytes, status| {
            let mut keys: Vec<_> = status.iter().map(|_| EncapsKey::blank(params)).collect();
            let operation = Operation::KemDecodePublic { params, bytes, keys: &mut keys };
            engine.run(&mut Batch { operation, status })?;
            Ok(keys.into_iter().map(|key| PublicKey::Alone(Arc::new(key))).collect())
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
            operation: Operation::KemEncaps { params, keys, m: &m, ct, shared },
            status,
        })
    }
}
