//! Verifying many signatures of any keys together.

use std::time::Instant;

use gabion_engine::{Error as EngineError, Message, Status, VerifyKey};

use super::batch::{Lane, Plan};
use super::cache::VersionView;
use super::kms::Kms;
use super::metrics::Verb;
use super::verify::check_form;
use crate::error::Error;
use crate::model::{Use, VersionId};
use crate::rsa;

/// A signature to verify.
#[derive(Clone, Copy)]
pub struct VerifyRequest<'a> {
    /// Whose it is said to be.
    pub by: &'a VersionId,
    /// What it is said to be of.
    pub message: Message<'a>,
    /// The signature.
    pub signature: &'a [u8],
}

impl Kms {
    /// Verifies signatures of any keys and algorithms. Each has an answer of its own, in their order, which is that of
    /// [`Self::verify`]; those of one algorithm are verified together, so that lanes fill.
    pub fn verify_batch(&self, items: &[VerifyRequest<'_>]) -> Vec<Result<bool, Error>> {
        self.metrics().batch(items.len());
        self.verify_as(Verb::VerifyBatch, items)
    }

    /// The same of requests that came one by one, and are counted so.
    pub(crate) fn verify_coalesced(&self, items: &[VerifyRequest<'_>]) -> Vec<Result<bool, Error>> {
        self.metrics().together(items.len());
        self.verify_as(Verb::Verify, items)
    }

    fn verify_as(&self, verb: Verb, items: &[VerifyRequest<'_>]) -> Vec<Result<bool, Error>> {
        let start = Instant::now();
        let before = self.cache.epoch();
        let mut answers: Vec<Option<Result<bool, Error>>> = items.iter().map(|_| None).collect();
        let mut plan = Plan::new(self.threads);
        for (place, item) in items.iter().enumerate() {
            match self.admit(item) {
                Ok((Some(algorithm), view)) => {
                    plan.add(algorithm, *item.by.key.uuid.bytes(), (place, view));
                }
                // RSA, which has no lanes.
                Ok((None, view)) => answers[place] = Some(rsa_verified(&view, item)),
                Err(error) => answers[place] = Some(Err(error)),
            }
        }
        for group in plan.groups() {
            for ((place, _), answer) in group.iter().zip(self.verify_group(items, &group)) {
                answers[*place] = Some(answer);
            }
        }
        let is_changed = self.cache.epoch() != before;
        items
            .iter()
            .zip(answers)
            .map(|(item, answer)| {
                // An item that neither a group nor a refusal answered has none.
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

    /// An item's key, if it may be used and the rest of the item is one; its algorithm, if that has lanes.
    fn admit(
        &self,
        item: &VerifyRequest<'_>,
    ) -> Result<(Option<gabion_engine::Algorithm>, VersionView), Error> {
        let (key, view) = self.check_use(&item.by.key, item.by.version, Use::Verify, false)?;
        key.key.check_mu(&item.message)?;
        if view.material.rsa_public().is_some() {
            return Ok((None, view));
        }
        let key = view.material.verify()?;
        check_form(key, item.signature)?;
        Ok((Some(key.algorithm()), view))
    }

    /// Verifies items of one algorithm.
    fn verify_group(
        &self,
        items: &[VerifyRequest<'_>],
        group: &[Lane],
    ) -> Vec<Result<bool, Error>> {
        if let [lane] = group {
            return vec![self.verify_one(items, lane)];
        }
        let keys: Result<Vec<&VerifyKey>, Error> =
            group.iter().map(|(_, view)| view.material.verify()).collect();
        let keys = match keys {
            Ok(keys) => keys,
            Err(error) => return group.iter().map(|_| Err(error.clone())).collect(),
        };
        let messages: Vec<Message<'_>> =
            group.iter().map(|&(place, _)| items[place].message).collect();
        let room = VerifyKey::room(&keys);
        let mut signatures = vec![0; room * group.len()];
        for (&(place, _), lane) in group.iter().zip(signatures.chunks_exact_mut(room.max(1))) {
            let signature = items[place].signature;
            lane[..signature.len()].copy_from_slice(signature);
        }
        let lengths: Vec<usize> =
            group.iter().map(|&(place, _)| items[place].signature.len()).collect();
        let mut status = vec![Status::NotRun; group.len()];
        let engine = self.kept.engine.parallel(self.threads);
        match engine.verify_many(&keys, &messages, &signatures, &lengths, &mut status) {
            // What fails for all of them may be one's: by itself each says what is wrong with it.
            Err(_) => group.iter().map(|lane| self.verify_one(items, lane)).collect(),
            Ok(()) => group
                .iter()
                .zip(&status)
                .map(|(lane, status)| match status {
                    Status::Ok => Ok(true),
                    Status::InvalidSignature => Ok(false),
                    // By itself it says what is wrong with it.
                    _ => self.verify_one(items, lane),
                })
                .collect(),
        }
    }

    fn verify_one(&self, items: &[VerifyRequest<'_>], (place, view): &Lane) -> Result<bool, Error> {
        let item = &items[*place];
        match self.kept.engine.verify(view.material.verify()?, item.message, item.signature) {
            Ok(()) => Ok(true),
            Err(EngineError::BadSignature) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

fn rsa_verified(view: &VersionView, item: &VerifyRequest<'_>) -> Result<bool, Error> {
    let (scheme, digest) = rsa::usual(&item.message)?;
    let key = view.material.rsa_public().ok_or(Error::Engine(EngineError::Lost))?;
    rsa::verified(key, scheme, &digest, item.signature)
}
