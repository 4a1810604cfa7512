//! Verifying many signatures of any keys together.

use std::collections::HashMap;
use std::time::Instant;

use gabion_engine::{Algorithm, Message, Status, VerifyKey};

use super::cache::VersionView;
use super::kms::Kms;
use super::metrics::Verb;
use super::verify::check_form;
use crate::error::Error;
use crate::model::{Use, VersionId};

/// Most signatures that are verified together: more fill no lane more, and take memory.
const LANES_MAX: usize = 256;

/// A signature to verify.
#[derive(Clone, Copy)]
pub struct Item<'a> {
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
    pub fn verify_batch(&self, items: &[Item<'_>]) -> Vec<Result<bool, Error>> {
        let start = Instant::now();
        self.metrics().batch(items.len());
        let before = self.cache.epoch();
        let mut answers: Vec<Option<Result<bool, Error>>> = items.iter().map(|_| None).collect();
        let mut groups: HashMap<&'static str, Vec<(usize, VersionView)>> = HashMap::new();
        for (place, item) in items.iter().enumerate() {
            match self.admitted(item) {
                // A form that the algorithm may not have would refuse all that it is verified with.
                Ok(view) if !matches!(item.message, Message::Pure { context: [], .. }) => {
                    answers[place] = Some(self.alone(item, &view));
                }
                Ok(view) => {
                    let name = item.by.key.algorithm.algorithm().name();
                    groups.entry(name).or_default().push((place, view));
                }
                Err(error) => answers[place] = Some(Err(error)),
            }
        }
        for group in groups.values().flat_map(|group| group.chunks(LANES_MAX)) {
            for (&(place, _), answer) in group.iter().zip(self.verified(items, group)) {
                answers[place] = Some(answer);
            }
        }
        let is_changed = self.cache.epoch() != before;
        items
            .iter()
            .zip(answers)
            .map(|(item, answer)| {
                // An item that neither a group nor a refusal answered has none.
                let answer = answer.unwrap_or(Err(Error::Engine(gabion_engine::Error::Lost)));
                let answer = match is_changed {
                    true => answer.and_then(|answer| self.admitted(item).map(|_| answer)),
                    false => answer,
                };
                self.told(Verb::VerifyBatch, item.by.key.algorithm, start, &answer);
                answer
            })
            .collect()
    }

    /// An item's key, if it may be used and the rest of the item is one.
    fn admitted(&self, item: &Item<'_>) -> Result<VersionView, Error> {
        let (_, view) = self.permitted(&item.by.key, item.by.version, Use::Verify, false)?;
        check_form(&view.verify, item.signature)?;
        Ok(view)
    }

    /// Verifies items of one algorithm.
    fn verified(
        &self,
        items: &[Item<'_>],
        group: &[(usize, VersionView)],
    ) -> Vec<Result<bool, Error>> {
        if let [(place, view)] = group {
            return vec![self.alone(&items[*place], view)];
        }
        let keys: Vec<&VerifyKey> = group.iter().map(|(_, view)| &view.verify).collect();
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
        let ran =
            self.kept.engine.verify_many(&keys, &messages, &signatures, &lengths, &mut status);
        let algorithm = keys.first().map(|key| key.algorithm());
        status
            .iter()
            .map(|&lane| match (&ran, lane) {
                (Err(error), _) => Err(Error::Engine(error.clone())),
                (Ok(()), Status::Ok) => Ok(true),
                (Ok(()), Status::InvalidSignature) => Ok(false),
                (Ok(()), lane) => Err(failed(algorithm, lane)),
            })
            .collect()
    }

    fn alone(&self, item: &Item<'_>, view: &VersionView) -> Result<bool, Error> {
        match self.kept.engine.verify(&view.verify, item.message, item.signature) {
            Ok(()) => Ok(true),
            Err(gabion_engine::Error::BadSignature) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

fn failed(algorithm: Option<Algorithm>, status: Status) -> Error {
    let lost = gabion_engine::Error::Lost;
    Error::Engine(algorithm.map_or(lost, |algorithm| gabion_engine::Error::Lane {
        algorithm,
        task: gabion_engine::Task::Verify,
        status,
    }))
}
