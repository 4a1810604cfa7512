//! The jobs: what a caller asks, in a form that outlives the call, and how many run together.

use std::ops::Deref;

use gabion_backend::Task;
use gabion_scheme::algorithms::Size;
use gabion_scheme::message::Message;
use gabion_scheme::prehash::Prehash;
use gabion_scheme::{Algorithm, Status};

use super::gate::Job;
use super::long::Claim;
use crate::entropy::{Entropy, Randomness};
use crate::error::{Error, lane_result};
use crate::keys::exchange::{ExchangePrivateKey, ExchangePublicKey};
use crate::keys::kem::{KemPrivateKey, KemPublicKey, SharedSecret};
use crate::keys::signature::{SigningKey, VerifyKey};
use crate::route::Engine;

/// The context that all jobs of a queue share.
pub(super) struct QueueContext {
    pub(super) engine: Box<dyn Deref<Target = Engine> + Send + Sync>,
    pub(super) entropy: Box<dyn Entropy + Send + Sync>,
}

impl QueueContext {
    pub(super) fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(super) fn entropy(&self) -> &dyn Entropy {
        &*self.entropy
    }
}

/// A message that owns its bytes.
pub(super) struct OwnedMessage {
    form: Form,
    /// Context and message, or context and digest, or M'.
    bytes: Vec<u8>,
    context: usize,
    /// The claim of a long message, held as long as the copy.
    _claim: Option<Claim>,
}

enum Form {
    Pure,
    Prehash(Prehash),
    Mu([u8; 64]),
    Internal,
}

/// The two byte strings of a message.
fn parts<'a>(message: &Message<'a>) -> (&'a [u8], &'a [u8]) {
    match *message {
        Message::Pure { context, message } => (context, message),
        Message::Prehash { context, digest, .. } => (context, digest),
        Message::Mu(_) => (&[], &[]),
        Message::Internal(formatted) => (&[], formatted),
    }
}

/// Bytes that a copy of it takes.
pub(super) fn message_len(message: &Message<'_>) -> usize {
    let (context, message) = parts(message);
    context.len() + message.len()
}

impl OwnedMessage {
    pub(super) fn of(message: &Message<'_>) -> Self {
        let form = match *message {
            Message::Pure { .. } => Form::Pure,
            Message::Prehash { hash, .. } => Form::Prehash(hash),
            Message::Mu(mu) => Form::Mu(*mu),
            Message::Internal(_) => Form::Internal,
        };
        let (context, message) = parts(message);
        OwnedMessage {
            form,
            bytes: [context, message].concat(),
            context: context.len(),
            _claim: None,
        }
    }

    /// Attaches the claim on its memory.
    pub(super) fn with(self, claim: Claim) -> Self {
        OwnedMessage { _claim: Some(claim), ..self }
    }

    fn message(&self) -> Message<'_> {
        let (context, message) = self.bytes.split_at(self.context);
        match &self.form {
            Form::Pure => Message::Pure { context, message },
            Form::Prehash(hash) => Message::Prehash { context, hash: *hash, digest: message },
            Form::Mu(mu) => Message::Mu(mu),
            Form::Internal => Message::Internal(message),
        }
    }
}

/// Runs a batch. If one of its jobs may be the cause of a failure of the whole batch, runs each job
/// alone, so that only that job fails.
fn run_batch<J, T>(
    jobs: &[J],
    alone: impl Fn(&J) -> Result<T, Error>,
    batch: impl FnOnce() -> Result<Vec<Result<T, Error>>, Error>,
) -> Vec<Result<T, Error>> {
    if jobs.len() == 1 {
        return jobs.iter().map(alone).collect();
    }
    match batch() {
        Ok(results) => results,
        Err(error @ (Error::Entropy(_) | Error::NoBackend(_))) => {
            jobs.iter().map(|_| Err(error.clone())).collect()
        }
        Err(_) => jobs.iter().map(alone).collect(),
    }
}

/// The results of the lanes, `give` called where a lane succeeded.
fn results<T>(
    algorithm: Algorithm,
    task: Task,
    status: &[Status],
    mut give: impl FnMut(usize) -> T,
) -> Vec<Result<T, Error>> {
    let lanes = status.iter().enumerate();
    lanes.map(|(lane, &status)| lane_result(algorithm, task, status).map(|()| give(lane))).collect()
}

pub(super) struct Encaps {
    pub(super) key: KemPublicKey,
}

impl Job for Encaps {
    type Output = Result<(Vec<u8>, SharedSecret), Error>;
    type Context = QueueContext;

    fn run(context: &QueueContext, jobs: Vec<Self>) -> Vec<Self::Output> {
        let alone = |job: &Encaps| context.engine().encaps(&job.key, context.entropy());
        let batch = || {
            let keys: Vec<_> = jobs.iter().map(|job| &job.key).collect();
            let algorithm = keys[0].algorithm();
            let (room, secret) = (algorithm.info().output.max(), algorithm.info().shared_secret);
            let mut ct = vec![0; keys.len() * room];
            let mut shared = zeroize::Zeroizing::new(vec![0; keys.len() * secret]);
            let mut status = vec![Status::NotRun; keys.len()];
            let fresh = Randomness::Fresh(context.entropy());
            context.engine().encaps_many(&keys, fresh, &mut ct, &mut shared, &mut status)?;
            Ok(results(algorithm, Task::Encaps, &status, |lane| {
                let of_lane = SharedSecret::of(algorithm, &shared[lane * secret..][..secret]);
                (ct[lane * room..][..room].to_vec(), of_lane)
            }))
        };
        run_batch(&jobs, alone, batch)
    }

    fn lost() -> Self::Output {
        Err(Error::Lost)
    }
}

pub(super) struct Decaps {
    pub(super) key: KemPrivateKey,
    /// The ciphertext, of the length that the algorithm prescribes.
    pub(super) ct: Vec<u8>,
}

impl Job for Decaps {
    type Output = Result<SharedSecret, Error>;
    type Context = QueueContext;

    fn run(context: &QueueContext, jobs: Vec<Self>) -> Vec<Self::Output> {
        let alone = |job: &Decaps| context.engine().decaps(&job.key, &job.ct);
        let batch = || {
            let keys: Vec<_> = jobs.iter().map(|job| &job.key).collect();
            let algorithm = keys[0].algorithm();
            let secret = algorithm.info().shared_secret;
            let ct: Vec<u8> = jobs.iter().flat_map(|job| job.ct.iter().copied()).collect();
            let mut shared = zeroize::Zeroizing::new(vec![0; keys.len() * secret]);
            let mut status = vec![Status::NotRun; keys.len()];
            context.engine().decaps_many(&keys, &ct, &mut shared, &mut status)?;
            Ok(results(algorithm, Task::Decaps, &status, |lane| {
                SharedSecret::of(algorithm, &shared[lane * secret..][..secret])
            }))
        };
        run_batch(&jobs, alone, batch)
    }

    fn lost() -> Self::Output {
        Err(Error::Lost)
    }
}

pub(super) struct Sign {
    pub(super) key: SigningKey,
    pub(super) message: OwnedMessage,
}

impl Job for Sign {
    type Output = Result<Vec<u8>, Error>;
    type Context = QueueContext;

    fn run(context: &QueueContext, jobs: Vec<Self>) -> Vec<Self::Output> {
        let alone =
            |job: &Sign| context.engine().sign(&job.key, job.message.message(), context.entropy());
        let batch = || {
            let keys: Vec<_> = jobs.iter().map(|job| &job.key).collect();
            let messages: Vec<_> = jobs.iter().map(|job| job.message.message()).collect();
            let algorithm = keys[0].algorithm();
            let room = algorithm.info().output.max();
            let mut signatures = vec![0; keys.len() * room];
            let (mut lengths, mut status) = (vec![0; keys.len()], vec![Status::NotRun; keys.len()]);
            context.engine().sign_many(
                &keys,
                &messages,
                Randomness::Fresh(context.entropy()),
                &mut signatures,
                &mut lengths,
                &mut status,
            )?;
            Ok(results(algorithm, Task::Sign, &status, |lane| {
                signatures[lane * room..][..lengths[lane]].to_vec()
            }))
        };
        run_batch(&jobs, alone, batch)
    }

    fn lost() -> Self::Output {
        Err(Error::Lost)
    }
}

pub(super) struct Verify {
    pub(super) key: VerifyKey,
    pub(super) message: OwnedMessage,
    /// The signature, not longer than the key's longest.
    pub(super) signature: Vec<u8>,
}

impl Job for Verify {
    type Output = Result<(), Error>;
    type Context = QueueContext;

    fn run(context: &QueueContext, jobs: Vec<Self>) -> Vec<Self::Output> {
        let alone =
            |job: &Verify| context.engine().verify(&job.key, job.message.message(), &job.signature);
        let batch = || {
            let keys: Vec<_> = jobs.iter().map(|job| &job.key).collect();
            let messages: Vec<_> = jobs.iter().map(|job| job.message.message()).collect();
            let algorithm = keys[0].algorithm();
            let room = match algorithm.info().output {
                Size::Fixed(len) | Size::UpTo(len) => len,
                Size::OfKey(_) => {
                    jobs.iter().map(|job| job.signature.len()).max().unwrap_or_default()
                }
            };
            let mut signatures = vec![0; keys.len() * room];
            for (place, job) in signatures.chunks_exact_mut(room.max(1)).zip(&jobs) {
                place[..job.signature.len()].copy_from_slice(&job.signature);
            }
            let lengths: Vec<_> = jobs.iter().map(|job| job.signature.len()).collect();
            let mut status = vec![Status::NotRun; keys.len()];
            context.engine().verify_many(&keys, &messages, &signatures, &lengths, &mut status)?;
            Ok(results(algorithm, Task::Verify, &status, |_| ()))
        };
        run_batch(&jobs, alone, batch)
    }

    fn lost() -> Self::Output {
        Err(Error::Lost)
    }
}

pub(super) struct KemGenerate {
    pub(super) algorithm: Algorithm,
}

impl Job for KemGenerate {
    type Output = Result<KemPrivateKey, Error>;
    type Context = QueueContext;

    fn run(context: &QueueContext, jobs: Vec<Self>) -> Vec<Self::Output> {
        let (engine, entropy) = (context.engine(), context.entropy());
        let alone = |job: &KemGenerate| engine.kem_generate(job.algorithm, entropy);
        let batch = || {
            let keys = engine.kem_generate_many(jobs[0].algorithm, jobs.len(), entropy)?;
            Ok(keys.into_iter().map(Ok).collect())
        };
        run_batch(&jobs, alone, batch)
    }

    fn lost() -> Self::Output {
        Err(Error::Lost)
    }
}

pub(super) struct SignatureGenerate {
    pub(super) algorithm: Algorithm,
}

impl Job for SignatureGenerate {
    type Output = Result<SigningKey, Error>;
    type Context = QueueContext;

    fn run(context: &QueueContext, jobs: Vec<Self>) -> Vec<Self::Output> {
        let (engine, entropy) = (context.engine(), context.entropy());
        let alone = |job: &SignatureGenerate| engine.signature_generate(job.algorithm, entropy);
        let batch = || {
            let keys = engine.signature_generate_many(jobs[0].algorithm, jobs.len(), entropy)?;
            Ok(keys.into_iter().map(Ok).collect())
        };
        run_batch(&jobs, alone, batch)
    }

    fn lost() -> Self::Output {
        Err(Error::Lost)
    }
}

pub(super) struct ExchangeGenerate {
    pub(super) algorithm: Algorithm,
}

impl Job for ExchangeGenerate {
    type Output = Result<ExchangePrivateKey, Error>;
    type Context = QueueContext;

    fn run(context: &QueueContext, jobs: Vec<Self>) -> Vec<Self::Output> {
        let (engine, entropy) = (context.engine(), context.entropy());
        let alone = |job: &ExchangeGenerate| engine.exchange_generate(job.algorithm, entropy);
        let batch = || {
            let keys = engine.exchange_generate_many(jobs[0].algorithm, jobs.len(), entropy)?;
            Ok(keys.into_iter().map(Ok).collect())
        };
        run_batch(&jobs, alone, batch)
    }

    fn lost() -> Self::Output {
        Err(Error::Lost)
    }
}

pub(super) struct Derive {
    pub(super) key: ExchangePrivateKey,
    /// The peer's key, of the key's algorithm.
    pub(super) peer: ExchangePublicKey,
}

impl Job for Derive {
    type Output = Result<SharedSecret, Error>;
    type Context = QueueContext;

    fn run(context: &QueueContext, jobs: Vec<Self>) -> Vec<Self::Output> {
        let engine = context.engine();
        let alone = |job: &Derive| engine.derive(&job.key, &job.peer);
        let batch = || {
            let lanes: Vec<_> = jobs.iter().map(|job| (&job.key, &job.peer)).collect();
            engine.derive_many(&lanes)
        };
        run_batch(&jobs, alone, batch)
    }

    fn lost() -> Self::Output {
        Err(Error::Lost)
    }
}
