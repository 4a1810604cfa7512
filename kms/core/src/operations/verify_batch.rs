//! Verifying batches of signatures with any keys.

use std::time::Instant;

use gabion_engine::{Error as EngineError, Message, Status, VerifyKey};

use super::batch::{Lane, Plan};
use super::cache::VersionView;
use super::kms::Kms;
use super::metrics::Verb;
use super::rsa;
use super::verify::check_form;
use crate::error::Error;
use crate::model::{Use, VersionId};
use crate::signable::Signable;

/// A signature to verify.
#[derive(Clone, Copy)]
pub struct VerifyRequest<'a> {
    /// The claimed version.
    pub by: &'a VersionId,
    /// The signed message or digest.
    pub signable: Signable<'a>,
    /// The signature.
    pub signature: &'a [u8],
}

impl Kms {
    /// Verifies signatures of any keys and algorithms. Returns the result of [`Self::verify`] for
    /// each item, in their order. Items of one algorithm are verified together, to fill the
    /// engine's lanes.
    pub fn verify_batch(&self, items: &[VerifyRequest<'_>]) -> Vec<Result<bool, Error>> {
        self.metrics().batch(items.len());
        self.verify_as(Verb::VerifyBatch, items)
    }

    /// Verifies coalesced single requests. Metrics count them as single requests.
    pub(crate) fn verify_coalesced(&self, items: &[VerifyRequest<'_>]) -> Vec<Result<bool, Error>> {
        self.metrics().together(items.len());
        self.verify_as(Verb::Verify, items)
    }

    fn verify_as(&self, verb: Verb, items: &[VerifyRequest<'_>]) -> Vec<Result<bool, Error>> {
        let start = Instant::now();
        let before = self.state.cache.epoch();
        let mut answers: Vec<Option<Result<bool, Error>>> = items.iter().map(|_| None).collect();
        let mut plan = Plan::new(self.threads);
        for (place, item) in items.iter().enumerate() {
            answers[place] = self.plan_or_verify(place, item, &mut plan).transpose();
        }
        for group in plan.groups() {
            for (lane, answer) in group.iter().zip(self.verify_group(items, &group)) {
                answers[lane.place] = Some(answer);
            }
        }
        let is_changed = self.state.cache.epoch() != before;
        items
            .iter()
            .zip(answers)
            .map(|(item, answer)| {
                // Each item has an answer by now.
                let answer = answer.unwrap_or(Err(Error::Engine(EngineError::Lost)));
                let answer = match is_changed {
                    true => answer.and_then(|answer| self.admit(item).map(|_| answer)),
                    false => answer,
                };
                self.told(verb, item.by.key.algorithm, start, &answer);
                answer
            })
            .collect()
    }

    /// Adds an item to the plan if its key may verify. RSA has no lanes: it verifies at once, and
    /// the verdict is returned.
    fn plan_or_verify<'a>(
        &self,
        place: usize,
        item: &VerifyRequest<'a>,
        plan: &mut Plan<'a>,
    ) -> Result<Option<bool>, Error> {
        let view = self.admit(item)?;
        match item.signable {
            Signable::Message(message) if view.material.rsa_public().is_none() => {
                let algorithm = view.material.verify()?.algorithm();
                plan.add(algorithm, *item.by.key.uuid.bytes(), Lane { place, view, message });
                Ok(None)
            }
            Signable::Message(_) | Signable::Digest { .. } => {
                rsa::verify(&view.material, &item.signable, item.signature).map(Some)
            }
        }
    }

    /// Returns an item's key if it may verify now and supports the message, and the signature's
    /// length is right for the algorithm.
    fn admit(&self, item: &VerifyRequest<'_>) -> Result<VersionView, Error> {
        let (key, view) = self.check_use(&item.by.key, item.by.version, Use::Verify, false)?;
        if let Signable::Message(message) = &item.signable {
            key.key.check_mu(message)?;
            if view.material.rsa_public().is_none() {
                check_form(view.material.verify()?, item.signature)?;
            }
        }
        Ok(view)
    }

    /// Verifies items of one algorithm.
    fn verify_group(
        &self,
        items: &[VerifyRequest<'_>],
        group: &[Lane<'_>],
    ) -> Vec<Result<bool, Error>> {
        if let [lane] = group {
            return vec![self.verify_lane(items, lane)];
        }
        let keys: Result<Vec<&VerifyKey>, Error> =
            group.iter().map(|lane| lane.view.material.verify()).collect();
        let keys = match keys {
            Ok(keys) => keys,
            Err(error) => return group.iter().map(|_| Err(error.clone())).collect(),
        };
        let messages: Vec<Message<'_>> = group.iter().map(|lane| lane.message).collect();
        let room = VerifyKey::room(&keys);
        let mut signatures = vec![0; room * group.len()];
        for (lane, padded) in group.iter().zip(signatures.chunks_exact_mut(room.max(1))) {
            let signature = items[lane.place].signature;
            padded[..signature.len()].copy_from_slice(signature);
        }
        let lengths: Vec<usize> =
            group.iter().map(|lane| items[lane.place].signature.len()).collect();
        let mut status = vec![Status::NotRun; group.len()];
        let engine = self.context.engine.parallel(self.threads);
        match engine.verify_many(&keys, &messages, &signatures, &lengths, &mut status) {
            // An error of the group may be caused by one item: verify each by itself to get its own
            // error.
            Err(_) => group.iter().map(|lane| self.verify_lane(items, lane)).collect(),
            Ok(()) => group
                .iter()
                .zip(&status)
                .map(|(lane, status)| match status {
                    Status::Ok => Ok(true),
                    Status::InvalidSignature => Ok(false),
                    // Verify it by itself to get its own error.
                    _ => self.verify_lane(items, lane),
                })
                .collect(),
        }
    }

    fn verify_lane(&self, items: &[VerifyRequest<'_>], lane: &Lane<'_>) -> Result<bool, Error> {
        let (key, signature) = (lane.view.material.verify()?, items[lane.place].signature);
        match self.context.engine.verify(key, lane.message, signature) {
            Ok(()) => Ok(true),
            Err(EngineError::BadSignature) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}
