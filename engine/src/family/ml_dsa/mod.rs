//! ML-DSA (FIPS 204): keys expanded once, batches as a backend takes them.

pub(crate) mod self_test;

use std::sync::Arc;

use gabion_backend::{Batch, Dsa, Keys, Operation};
use gabion_scheme::ml_dsa::{self, Params, SEED_LEN, params};
use gabion_scheme::{Algorithm, Status};

use super::{DecodedKeys, SignLanes, SigningPart, VerifyLanes, VerifyPart, decode_lanes};
use crate::error::{Error, check_length, unknown};
use crate::route::Engine;

/// A private key with its public key, expanded.
#[derive(Clone)]
pub(crate) struct SigningKey(pub(crate) Arc<ml_dsa::SigningKey>);

/// A public key, expanded.
#[derive(Clone)]
pub(crate) enum VerifyKey {
    PublicOnly(Arc<ml_dsa::VerifyKey>),
    Pair(Arc<ml_dsa::SigningKey>),
}

impl VerifyKey {
    pub(crate) fn expanded(&self) -> &ml_dsa::VerifyKey {
        match self {
            VerifyKey::PublicOnly(key) => key,
            VerifyKey::Pair(key) => key.verify_key(),
        }
    }
}

fn params_of(algorithm: Algorithm) -> Result<&'static Params, Error> {
    params(algorithm).ok_or_else(|| unknown(algorithm))
}

impl SigningPart for SigningKey {
    type Public = VerifyKey;

    fn algorithm(&self) -> Algorithm {
        self.0.params().algorithm
    }

    fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }

    fn seed(&self) -> Option<&[u8]> {
        self.0.seed().map(|seed| &seed[..])
    }

    fn public(&self) -> VerifyKey {
        VerifyKey::Pair(Arc::clone(&self.0))
    }

    fn public_bytes(&self) -> &[u8] {
        self.0.verify_key().bytes()
    }

    /// ML-DSA.KeyGen_internal (FIPS 204, Algorithm 6) of each seed xi.
    fn from_seeds(engine: &Engine, algorithm: Algorithm, seeds: &[u8]) -> Result<Vec<Self>, Error> {
        let params = params_of(algorithm)?;
        let seeds = seeds.as_chunks::<SEED_LEN>().0;
        let mut keys: Vec<_> = seeds.iter().map(|_| ml_dsa::SigningKey::blank(params)).collect();
        let operation = Operation::Dsa(Dsa::Generate { params, seeds, keys: &mut keys });
        engine.run_all(operation, seeds.len())?;
        Ok(keys.into_iter().map(|key| SigningKey(Arc::new(key))).collect())
    }

    fn decode(engine: &Engine, algorithm: Algorithm, bytes: &[u8]) -> Result<Self, Error> {
        let params = params_of(algorithm)?;
        check_length("an ML-DSA private key", params.sk_len(), bytes)?;
        let mut keys = [ml_dsa::SigningKey::blank(params)];
        engine.run_one(Operation::Dsa(Dsa::DecodePrivate { params, bytes, keys: &mut keys }))?;
        let [key] = keys;
        Ok(SigningKey(Arc::new(key)))
    }

    /// ML-DSA.Sign and HashML-DSA.Sign (FIPS 204, Algorithms 2 and 4), by the kind of message.
    fn sign_many(engine: &Engine, keys: &[&Self], lanes: SignLanes<'_>) -> Result<(), Error> {
        let Some(params) = keys.first().map(|key| key.0.params()) else { return Ok(()) };
        let SignLanes { messages, randomness, signatures, lengths, status } = lanes;
        let rnd = randomness.hedge::<32>(keys.len())?;
        let known: Vec<_> = keys.iter().map(|key| &*key.0).collect();
        let keys = Keys::Known(&known);
        let operation =
            Operation::Dsa(Dsa::Sign { params, keys, messages, rnd: &rnd, sig: signatures });
        engine.run(&mut Batch { operation, status })?;
        for (length, status) in lengths.iter_mut().zip(status) {
            *length = if status.is_ok() { params.sig_len() } else { 0 };
        }
        Ok(())
    }
}

/// The name of the decoded data in errors.
const WHAT: &str = "an ML-DSA public key";

impl VerifyPart for VerifyKey {
    fn algorithm(&self) -> Algorithm {
        self.expanded().params().algorithm
    }

    fn bytes(&self) -> &[u8] {
        self.expanded().bytes()
    }

    fn decode(engine: &Engine, algorithm: Algorithm, bytes: &[u8]) -> Result<Self, Error> {
        let params = params_of(algorithm)?;
        check_length(WHAT, params.pk_len(), bytes)?;
        let mut keys = [ml_dsa::VerifyKey::blank(params)];
        engine.run_one(Operation::Dsa(Dsa::DecodePublic { params, bytes, keys: &mut keys }))?;
        let [key] = keys;
        Ok(VerifyKey::PublicOnly(Arc::new(key)))
    }

    fn decode_many(engine: &Engine, algorithm: Algorithm, encoded: &[&[u8]]) -> DecodedKeys<Self> {
        let params = params_of(algorithm)?;
        decode_lanes(algorithm, WHAT, params.pk_len(), encoded, |bytes, status| {
            let mut keys: Vec<_> =
                status.iter().map(|_| ml_dsa::VerifyKey::blank(params)).collect();
            let operation = Operation::Dsa(Dsa::DecodePublic { params, bytes, keys: &mut keys });
            engine.run(&mut Batch { operation, status })?;
            Ok(keys.into_iter().map(|key| VerifyKey::PublicOnly(Arc::new(key))).collect())
        })
    }

    /// ML-DSA.Verify and HashML-DSA.Verify (FIPS 204, Algorithms 3 and 5).
    fn verify_many(engine: &Engine, keys: &[&Self], lanes: VerifyLanes<'_>) -> Result<(), Error> {
        let Some(params) = keys.first().map(|key| key.expanded().params()) else { return Ok(()) };
        let VerifyLanes { messages, signatures, lengths, status } = lanes;
        let known: Vec<_> = keys.iter().map(|key| key.expanded()).collect();
        let keys = Keys::Known(&known);
        let operation = Operation::Dsa(Dsa::Verify { params, keys, messages, sig: signatures });
        engine.run(&mut Batch { operation, status })?;
        for (length, status) in lengths.iter().zip(status) {
            // The padded input was verified, so the actual length must be checked too.
            if *length != params.sig_len() && status.is_ok() {
                *status = Status::InvalidSignature;
            }
        }
        Ok(())
    }
}
