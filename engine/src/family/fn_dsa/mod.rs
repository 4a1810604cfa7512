//! FN-DSA as drafted and Falcon of round 3: keys decoded once, batches as a backend takes them.

pub(crate) mod self_test;

use std::sync::Arc;

use gabion_backend::{Batch, FnDsa, Keys, Operation, Task};
use gabion_scheme::fn_dsa::{self, Params, RANDOM_LEN, SEED_LEN, params};
use gabion_scheme::message::Message;
use gabion_scheme::{Algorithm, Status};

use super::{SignLanes, SigningPart, VerifyLanes, VerifyPart};
use crate::entropy::{Entropy, Randomness};
use crate::error::{Error, check_length, lane_error, unknown};
use crate::route::Engine;

/// A private key with its public key.
#[derive(Clone)]
pub(crate) struct SigningKey(Arc<fn_dsa::SigningKey>);

/// A public key.
#[derive(Clone)]
pub(crate) enum VerifyKey {
    PublicOnly(Arc<fn_dsa::VerifyKey>),
    Pair(Arc<fn_dsa::SigningKey>),
}

impl VerifyKey {
    fn decoded(&self) -> &fn_dsa::VerifyKey {
        match self {
            VerifyKey::PublicOnly(key) => key,
            VerifyKey::Pair(key) => key.verify_key(),
        }
    }
}

fn params_of(algorithm: Algorithm) -> Result<&'static Params, Error> {
    params(algorithm).ok_or_else(|| unknown(algorithm))
}

/// Runs an operation over one lane, which makes a key; its verdict.
fn run_one(engine: &Engine, operation: FnDsa<'_>) -> Result<Status, Error> {
    let mut status = [Status::NotRun];
    engine.run(&mut Batch { operation: Operation::FnDsa(operation), status: &mut status })?;
    Ok(status[0])
}

/// The key of a good lane. A refused key says why when it is decoded once more.
fn key_of<T>(
    (algorithm, task): (Algorithm, Task),
    (key, status): (Option<T>, Status),
    why: impl FnOnce() -> Result<T, gabion_scheme::Error>,
) -> Result<T, Error> {
    match (key, status) {
        (Some(key), Status::Ok) => Ok(key),
        (_, Status::InvalidKey) => match why() {
            Err(error) => Err(error.into()),
            Ok(_) => Err(Error::Lane { algorithm, task, status: Status::Fault }),
        },
        (_, status) => Err(lane_error(algorithm, task, status)),
    }
}

impl SigningPart for SigningKey {
    type Public = VerifyKey;

    fn algorithm(&self) -> Algorithm {
        self.0.params().algorithm
    }

    fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }

    /// The draft has no seed form.
    fn seed(&self) -> Option<&[u8]> {
        None
    }

    fn public(&self) -> VerifyKey {
        VerifyKey::Pair(Arc::clone(&self.0))
    }

    fn public_bytes(&self) -> &[u8] {
        self.0.verify_key().bytes()
    }

    fn generate_many(
        engine: &Engine,
        algorithm: Algorithm,
        n: usize,
        entropy: &dyn Entropy,
    ) -> Result<Vec<Self>, Error> {
        let params = params_of(algorithm)?;
        let seeds = Randomness::Fresh(entropy).fresh::<SEED_LEN>(algorithm, n)?;
        let mut keys: Vec<_> = (0..n).map(|_| None).collect();
        let generate = FnDsa::Generate { params, seeds: &seeds, keys: &mut keys };
        engine.run_all(Operation::FnDsa(generate), n)?;
        let fault = || Error::Lane { algorithm, task: Task::Keygen, status: Status::Fault };
        keys.into_iter()
            .map(|key| key.map(|key| SigningKey(Arc::new(key))).ok_or_else(fault))
            .collect()
    }

    fn decode(engine: &Engine, algorithm: Algorithm, bytes: &[u8]) -> Result<Self, Error> {
        let params = params_of(algorithm)?;
        check_length("an FN-DSA or Falcon private key", params.sk_len(), bytes)?;
        let mut keys = [None];
        let status = run_one(engine, FnDsa::DecodePrivate { params, bytes, keys: &mut keys })?;
        let ([key], what) = (keys, (algorithm, Task::DecodePrivate));
        key_of(what, (key, status), || fn_dsa::SigningKey::decode(params, bytes))
            .map(|key| SigningKey(Arc::new(key)))
    }

    fn sign_many(engine: &Engine, keys: &[&Self], lanes: SignLanes<'_>) -> Result<(), Error> {
        let Some(params) = keys.first().map(|key| key.0.params()) else { return Ok(()) };
        let SignLanes { messages, randomness, signatures, lengths, status } = lanes;
        let random = randomness.fresh::<RANDOM_LEN>(params.algorithm, keys.len())?;
        let known: Vec<_> = keys.iter().map(|key| &*key.0).collect();
        let keys = Keys::Known(&known);
        let sign = FnDsa::Sign { params, keys, messages, random: &random, sig: signatures };
        engine.run(&mut Batch { operation: Operation::FnDsa(sign), status })?;
        let made = signatures.chunks_exact(params.sig_len_max());
        for ((length, signature), status) in lengths.iter_mut().zip(made).zip(status) {
            *length = if status.is_ok() { fn_dsa::made_len(params, signature) } else { 0 };
        }
        Ok(())
    }
}

impl VerifyPart for VerifyKey {
    fn algorithm(&self) -> Algorithm {
        self.decoded().params().algorithm
    }

    fn bytes(&self) -> &[u8] {
        self.decoded().bytes()
    }

    fn decode(engine: &Engine, algorithm: Algorithm, bytes: &[u8]) -> Result<Self, Error> {
        let params = params_of(algorithm)?;
        check_length("an FN-DSA or Falcon public key", params.pk_len(), bytes)?;
        let mut keys = [None];
        let status = run_one(engine, FnDsa::DecodePublic { params, bytes, keys: &mut keys })?;
        let ([key], what) = (keys, (algorithm, Task::DecodePublic));
        key_of(what, (key, status), || fn_dsa::VerifyKey::decode(params, bytes))
            .map(|key| VerifyKey::PublicOnly(Arc::new(key)))
    }

    fn check_message(&self, message: &Message<'_>) -> Result<(), Error> {
        Ok(fn_dsa::check_message(self.decoded().params(), message)?)
    }

    fn verify_many(engine: &Engine, keys: &[&Self], lanes: VerifyLanes<'_>) -> Result<(), Error> {
        let Some(params) = keys.first().map(|key| key.decoded().params()) else { return Ok(()) };
        let VerifyLanes { messages, signatures, lengths, status } = lanes;
        let known: Vec<_> = keys.iter().map(|key| key.decoded()).collect();
        let keys = Keys::Known(&known);
        let verify = FnDsa::Verify { params, keys, messages, sig: signatures, lengths };
        engine.run(&mut Batch { operation: Operation::FnDsa(verify), status })
    }
}
