//! Signing batches of messages with any keys.

use std::time::Instant;

use gabion_engine::{Error as EngineError, Message, OsEntropy, SigningKey, Status};

use super::batch::{Lane, Plan};
use super::kms::Kms;
use super::metrics::Verb;
use super::rsa;
use super::sign::SignOutput;
use crate::error::Error;
use crate::model::{KeyId, Use, VersionId};
use crate::signable::Signable;

/// A message or a digest to sign.
#[derive(Clone, Copy)]
pub struct SignRequest<'a> {
    /// The key.
    pub key: &'a KeyId,
    /// The version. `None` for the newest one.
    pub version: Option<u32>,
    /// The message or digest to sign.
    pub signable: Signable<'a>,
}

impl Kms {
    /// Signs with any keys and algorithms. Returns the result of [`Self::sign`] for each item, in
    /// their order. Items of one algorithm are signed together, to fill the engine's lanes.
    pub fn sign_batch(&self, items: &[SignRequest<'_>]) -> Vec<Result<SignOutput, Error>> {
        self.metrics().batch(items.len());
        self.sign_as(Verb::SignBatch, items)
    }

    /// Signs coalesced single requests. Metrics count them as single requests.
    pub(crate) fn sign_coalesced(
        &self,
        items: &[SignRequest<'_>],
    ) -> Vec<Result<SignOutput, Error>> {
        self.metrics().together(items.len());
        self.sign_as(Verb::Sign, items)
    }

    fn sign_as(&self, verb: Verb, items: &[SignRequest<'_>]) -> Vec<Result<SignOutput, Error>> {
        let start = Instant::now();
        let before = self.state.cache.epoch();
        let mut numbers: Vec<u32> = vec![0; items.len()];
        let mut answers: Vec<Option<Result<Vec<u8>, Error>>> = items.iter().map(|_| None).collect();
        let mut plan = Plan::new(self.threads);
        for (place, item) in items.iter().enumerate() {
            let answer = self.plan_or_sign(place, item, &mut numbers[place], &mut plan);
            answers[place] = answer.transpose();
        }
        for group in plan.groups() {
            for (lane, answer) in group.iter().zip(self.sign_group(&group)) {
                answers[lane.place] = Some(answer);
            }
        }
        let is_changed = self.state.cache.epoch() != before;
        let numbered = items.iter().zip(numbers).zip(answers);
        numbered
            .map(|((item, version), answer)| {
                // Each item has an answer by now.
                let answer = answer.unwrap_or(Err(Error::Engine(EngineError::Lost)));
                let answer = answer.and_then(|signature| {
                    if is_changed {
                        self.check_use(item.key, version, Use::Sign, item.version.is_none())?;
                    }
                    Ok(SignOutput { by: VersionId { key: item.key.clone(), version }, signature })
                });
                self.told(verb, item.key.algorithm, start, &answer);
                answer
            })
            .collect()
    }

    /// Adds an item to the plan if its key may sign. RSA has no lanes: it signs at once, and the
    /// signature is returned. The version that signs is written to `number`.
    fn plan_or_sign<'a>(
        &self,
        place: usize,
        item: &SignRequest<'a>,
        number: &mut u32,
        plan: &mut Plan<'a>,
    ) -> Result<Option<Vec<u8>>, Error> {
        let signable;
        (*number, signable) = self.resolve_sign(item.key, item.version, item.signable)?;
        let (_, view) = self.check_use(item.key, *number, Use::Sign, item.version.is_none())?;
        match signable {
            Signable::Message(message) if view.material.rsa_public().is_none() => {
                let algorithm = view.material.signing()?.algorithm();
                plan.add(algorithm, *item.key.uuid.bytes(), Lane { place, view, message });
                Ok(None)
            }
            Signable::Message(_) | Signable::Digest { .. } => {
                rsa::sign(&view.material, &signable).map(Some)
            }
        }
    }

    /// Signs items of one algorithm.
    fn sign_group(&self, group: &[Lane<'_>]) -> Vec<Result<Vec<u8>, Error>> {
        if let [lane] = group {
            return vec![self.sign_lane(lane)];
        }
        let keys: Result<Vec<&SigningKey>, Error> =
            group.iter().map(|lane| lane.view.material.signing()).collect();
        let keys = match keys {
            Ok(keys) => keys,
            Err(error) => return group.iter().map(|_| Err(error.clone())).collect(),
        };
        let messages: Vec<Message<'_>> = group.iter().map(|lane| lane.message).collect();
        let room = keys.iter().map(|key| key.signature_len_max()).max().unwrap_or(0);
        let mut signatures = vec![0; room * keys.len()];
        let (mut lengths, mut status) = (vec![0; keys.len()], vec![Status::NotRun; keys.len()]);
        let engine = self.context.engine.parallel(self.threads);
        let fresh = Some(&OsEntropy as _);
        let ran =
            engine.sign_many(&keys, &messages, fresh, &mut signatures, &mut lengths, &mut status);
        if ran.is_err() {
            // An error of the group may be caused by one item: sign each by itself to get its own
            // error.
            return group.iter().map(|lane| self.sign_lane(lane)).collect();
        }
        let lanes = group.iter().zip(signatures.chunks_exact(room.max(1)));
        lanes
            .zip(lengths.iter().zip(&status))
            .map(|((lane, signature), (&length, status))| match status {
                Status::Ok => Ok(signature[..length].to_vec()),
                // Sign it by itself to get its own error.
                _ => self.sign_lane(lane),
            })
            .collect()
    }

    fn sign_lane(&self, lane: &Lane<'_>) -> Result<Vec<u8>, Error> {
        Ok(self.context.engine.sign(lane.view.material.signing()?, lane.message, &OsEntropy)?)
    }
}
