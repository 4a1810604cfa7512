//! Signing and verifying, single and in batches.
//!
//! Audit records have plain SHA-256 digests of messages and signatures, so a reader of the log can
//! guess a message from a small set.

use super::lifecycle::of;
use super::queue::Place;
use super::run::{AuditEntry, Call, KeyRef, Service, hide_existence};
use crate::audit::{Digest, Outcome, Record};
use crate::error::Error;
use crate::gate::{Action, Request};
use crate::model::{KeyId, Use, VersionId};
use crate::operations::{SignOutput, SignRequest, VerifyRequest};
use crate::signable::Signable;

/// A message or a digest to sign.
#[derive(Clone, Copy)]
pub struct SignItem<'a> {
    /// The key.
    pub key: KeyRef<'a>,
    /// The version. `None` for the newest one.
    pub version: Option<u32>,
    /// The message or digest.
    pub signable: Signable<'a>,
}

/// A signature to verify.
#[derive(Clone, Copy)]
pub struct VerifyItem<'a> {
    /// The claimed key.
    pub key: KeyRef<'a>,
    /// The claimed version.
    pub version: u32,
    /// The signed message or digest.
    pub signable: Signable<'a>,
    /// The signature.
    pub signature: &'a [u8],
}

/// The results of a batch, one for each item, in their order.
pub(super) type Answers<T> = Vec<Result<T, Error>>;

impl<'a> SignItem<'a> {
    /// The item as a request for the key that its name was resolved to.
    pub(super) fn request(&self, key: &'a KeyId) -> SignRequest<'a> {
        SignRequest { key, version: self.version, signable: self.signable }
    }
}

impl<'a> VerifyItem<'a> {
    /// The item as a request for the version that its names were resolved to.
    pub(super) fn request(&self, by: &'a VersionId) -> VerifyRequest<'a> {
        VerifyRequest { by, signable: self.signable, signature: self.signature }
    }
}

impl Service {
    /// Signs a message or a digest.
    ///
    /// # Errors
    /// Those of [`crate::operations::Kms::sign`]; the caller is not allowed, or no longer; errors
    /// of the audit log.
    pub fn sign<'a>(
        &self,
        call: &Call<'_>,
        key: &KeyRef<'_>,
        version: Option<u32>,
        signable: impl Into<Signable<'a>>,
    ) -> Result<SignOutput, Error> {
        let signable = signable.into();
        let sign = || self.kms.sign(&self.find(key)?, version, signable);
        let input = Digest::of(signable.bytes());
        let audit_entry = |signed: &SignOutput| sign_entry(input, signed);
        let recheck = |signed: &SignOutput| self.recheck_sign(signed, version);
        self.perform_use(call, &of(Action::Sign, key), Some(input), sign, audit_entry, recheck)
    }

    /// Verifies a signature by one version of a key.
    ///
    /// # Errors
    /// Those of [`crate::operations::Kms::verify`]; the caller is not allowed, or no longer; errors
    /// of the audit log.
    pub fn verify<'a>(
        &self,
        call: &Call<'_>,
        key: &KeyRef<'_>,
        version: u32,
        signable: impl Into<Signable<'a>>,
        signature: &[u8],
    ) -> Result<bool, Error> {
        let signable = signable.into();
        let verify = || {
            let by = VersionId { key: self.find(key)?, version };
            Ok((self.kms.verify(&by, signable, signature)?, by))
        };
        let input = Digest::of(signable.bytes());
        let audit_entry =
            |(valid, by): &(bool, VersionId)| verify_entry(input, signature, *valid, by);
        let recheck = |(_, by): &(bool, VersionId)| self.recheck_verify(by);
        let request = of(Action::Verify, key);
        let (valid, _) =
            self.perform_use(call, &request, Some(input), verify, audit_entry, recheck)?;
        Ok(valid)
    }

    /// Signs with any keys. Returns a result for each item, in their order. Each item is
    /// authorized, charged and recorded by itself, and a refused one does not stop the others.
    ///
    /// All items fail if two or more cost more than 10 s by estimate, if the queue is full, if the
    /// service is sealed, or if the records cannot be appended, which is done for all at once.
    pub fn sign_batch(
        &self,
        call: &Call<'_>,
        items: &[SignItem<'_>],
    ) -> Vec<Result<SignOutput, Error>> {
        self.sign_items(call, items.len(), items)
    }

    /// Verifies signatures of any keys. Returns the result of [`Self::verify`] for each item, in
    /// their order.
    pub fn verify_batch(
        &self,
        call: &Call<'_>,
        items: &[VerifyItem<'_>],
    ) -> Vec<Result<bool, Error>> {
        self.verify_items(call, items.len(), items)
    }

    /// Signs and verifies the items of one batch. The batch has `batch_len` items, some of which
    /// may have been rejected already: a token's limit counts all of them. Returns the results of
    /// [`Self::sign_batch`] and [`Self::verify_batch`].
    pub fn batch(
        &self,
        call: &Call<'_>,
        batch_len: usize,
        sign: &[SignItem<'_>],
        verify: &[VerifyItem<'_>],
    ) -> (Answers<SignOutput>, Answers<bool>) {
        (self.sign_items(call, batch_len, sign), self.verify_items(call, batch_len, verify))
    }

    /// Signs the items of a batch that has `batch_len` items altogether.
    fn sign_items(
        &self,
        call: &Call<'_>,
        batch_len: usize,
        items: &[SignItem<'_>],
    ) -> Answers<SignOutput> {
        let requests: Vec<Request<'_>> =
            items.iter().map(|item| with_items(batch_len, of(Action::Sign, &item.key))).collect();
        let (permitted, slot) = self.admit_items(call, Action::Sign, &requests);
        let found = items
            .iter()
            .zip(permitted)
            .map(|(item, permitted)| permitted.and_then(|()| self.find(&item.key)));
        let found: Vec<Result<KeyId, Error>> = found.collect();
        let takes_long = slot.as_ref().is_some_and(Place::takes_long);
        let answers = run_found(items, &found, SignItem::request, |requests| {
            call.run(takes_long, || Ok(self.kms.sign_batch(requests))).unwrap_or_default()
        });
        drop(slot);
        let input = |place: usize| Digest::of(items[place].signable.bytes());
        let audit_entry = |place: usize, signed: &SignOutput| sign_entry(input(place), signed);
        let recheck =
            |place: usize, signed: &SignOutput| self.recheck_sign(signed, items[place].version);
        self.release_results(call, &requests, answers, input, audit_entry, recheck)
    }

    /// Verifies the items of a batch that has `batch_len` items altogether.
    fn verify_items(
        &self,
        call: &Call<'_>,
        batch_len: usize,
        items: &[VerifyItem<'_>],
    ) -> Answers<bool> {
        let requests: Vec<Request<'_>> =
            items.iter().map(|item| with_items(batch_len, of(Action::Verify, &item.key))).collect();
        let (permitted, slot) = self.admit_items(call, Action::Verify, &requests);
        let found = items
            .iter()
            .zip(permitted)
            .map(|(item, permitted)| permitted.and_then(|()| self.find_by(item)));
        let found: Vec<Result<VersionId, Error>> = found.collect();
        let takes_long = slot.as_ref().is_some_and(Place::takes_long);
        let verdicts = run_found(items, &found, VerifyItem::request, |requests| {
            call.run(takes_long, || Ok(self.kms.verify_batch(requests))).unwrap_or_default()
        });
        drop(slot);
        let answers = with_versions(verdicts, found);
        let input = |place: usize| Digest::of(items[place].signable.bytes());
        let audit_entry = |place: usize, (valid, by): &(bool, VersionId)| {
            verify_entry(input(place), items[place].signature, *valid, by)
        };
        let recheck = |_: usize, (_, by): &(bool, VersionId)| self.recheck_verify(by);
        let answers = self.release_results(call, &requests, answers, input, audit_entry, recheck);
        answers.into_iter().map(|answer| answer.map(|(valid, _)| valid)).collect()
    }

    /// Returns the version that an item names.
    pub(super) fn find_by(&self, item: &VerifyItem<'_>) -> Result<VersionId, Error> {
        Ok(VersionId { key: self.find(&item.key)?, version: item.version })
    }

    /// Appends the audit records of all answers at once, and releases those that are still allowed.
    pub(super) fn release_results<T>(
        &self,
        call: &Call<'_>,
        requests: &[Request<'_>],
        answers: Vec<Result<T, Error>>,
        input: impl Fn(usize) -> Digest,
        audit_entry: impl Fn(usize, &T) -> AuditEntry,
        recheck: impl Fn(usize, &T) -> Result<(), Error>,
    ) -> Vec<Result<T, Error>> {
        let entry_of = |place: usize, answer: &Result<T, Error>| match answer {
            Ok(done) => audit_entry(place, done),
            Err(error) => {
                let outcome = Outcome::Failed(error.code());
                AuditEntry { key: None, input: Some(input(place)), output: None, outcome }
            }
        };
        // Rejections by quotas and queues were recorded already, or deliberately not: a flood does
        // not fill the log.
        let is_recorded = |answer: &Result<T, Error>| {
            !matches!(answer, Err(Error::Quota { .. } | Error::Queue | Error::Sealed))
        };
        let mut records: Vec<Record> = Vec::new();
        for (place, answer) in (0..).zip(&answers).filter(|(_, answer)| is_recorded(answer)) {
            let record = self.record(call, &requests[place], entry_of(place, answer));
            match answer {
                Err(Error::Denied(_)) => records.extend(self.count_denied(record)),
                _ => records.push(record),
            }
        }
        // The strictest class of all items applies to all of them.
        let class =
            requests.iter().map(|request| self.class_of(request)).max().unwrap_or(self.class);
        if let Err(error) = self.append_audit(call, &records, class) {
            self.denials.take_back(records);
            return answers.iter().map(|_| Err(error.clone())).collect();
        }
        let release = |(place, answer): (usize, Result<T, Error>)| {
            let done = answer.map_err(|error| hide_existence(error, &requests[place]))?;
            let recheck = || recheck(place, &done);
            let audit_entry = || audit_entry(place, &done);
            self.release_result(class, call, &requests[place], audit_entry, recheck)?;
            Ok(done)
        };
        answers.into_iter().enumerate().map(release).collect()
    }

    pub(super) fn recheck_sign(
        &self,
        signed: &SignOutput,
        version: Option<u32>,
    ) -> Result<(), Error> {
        let by = &signed.by;
        self.kms.still_may(&by.key, by.version, Use::Sign, version.is_none())
    }

    pub(super) fn recheck_verify(&self, by: &VersionId) -> Result<(), Error> {
        self.kms.still_may(&by.key, by.version, Use::Verify, false)
    }
}

/// Returns the error for an answer that is missing.
pub(super) fn no_answer() -> Error {
    Error::Engine(gabion_engine::Error::Lost)
}

/// Runs one operation for all items whose keys were found. Returns an answer for each item: that of
/// the operation, or why its key was not found.
pub(super) fn run_found<'a, I, K, R, T>(
    items: impl IntoIterator<Item = I>,
    found: &'a [Result<K, Error>],
    request: impl Fn(I, &'a K) -> R,
    run: impl FnOnce(&[R]) -> Answers<T>,
) -> Answers<T> {
    let with_keys = items.into_iter().zip(found);
    let requests: Vec<R> = with_keys
        .filter_map(|(item, key)| key.as_ref().ok().map(|key| request(item, key)))
        .collect();
    let mut answers = run(&requests).into_iter();
    // There is one answer for each found key.
    let mut answer = || answers.next().unwrap_or(Err(no_answer()));
    found.iter().map(|key| key.as_ref().map_err(Error::clone).and_then(|_| answer())).collect()
}

/// Returns each verdict with the version that it is about.
pub(super) fn with_versions(
    verdicts: Answers<bool>,
    found: Answers<VersionId>,
) -> Answers<(bool, VersionId)> {
    verdicts.into_iter().zip(found).map(|(verdict, by)| Ok((verdict?, by?))).collect()
}

/// Sets the number of items of a request.
pub(super) fn with_items(items: usize, request: Request<'_>) -> Request<'_> {
    Request { items: u32::try_from(items).unwrap_or(u32::MAX), ..request }
}

pub(super) fn sign_entry(input: Digest, signed: &SignOutput) -> AuditEntry {
    AuditEntry {
        key: Some(signed.by.to_string()),
        input: Some(input),
        output: Some(Digest::of(&signed.signature)),
        outcome: Outcome::Done,
    }
}

pub(super) fn verify_entry(
    input: Digest,
    signature: &[u8],
    valid: bool,
    by: &VersionId,
) -> AuditEntry {
    AuditEntry {
        key: Some(by.to_string()),
        input: Some(input),
        output: Some(Digest::of(signature)),
        outcome: if valid { Outcome::Done } else { Outcome::Wrong },
    }
}
