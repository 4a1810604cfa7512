//! Signing and verifying, alone and together.

use super::lifecycle::of;
use super::queue::Place;
use super::run::{AuditEntry, Call, KeyRef, Service, hide_existence};
use crate::Message;
use crate::audit::{Digest, Outcome, Record};
use crate::error::Error;
use crate::gate::{Action, Request};
use crate::model::{KeyId, Use, VersionId};
use crate::operations::{SignOutput, SignRequest, VerifyRequest};
use crate::rsa::Scheme;

/// A message to sign.
#[derive(Clone, Copy)]
pub struct SignItem<'a> {
    /// By which key.
    pub key: KeyRef<'a>,
    /// By which version; the newest one where none is named.
    pub version: Option<u32>,
    /// What.
    pub message: Message<'a>,
}

/// A signature to verify.
#[derive(Clone, Copy)]
pub struct VerifyItem<'a> {
    /// Whose it is said to be.
    pub key: KeyRef<'a>,
    /// Of which version.
    pub version: u32,
    /// What it is said to be of.
    pub message: Message<'a>,
    /// The signature.
    pub signature: &'a [u8],
}

/// Of a batch: one for each item, in their order.
type Answers<T> = Vec<Result<T, Error>>;

impl Service {
    /// Signs.
    ///
    /// # Errors
    /// As [`crate::operations::Kms::sign`]; not allowed, also meanwhile; the audit log's.
    pub fn sign(
        &self,
        call: &Call<'_>,
        key: &KeyRef<'_>,
        version: Option<u32>,
        message: Message<'_>,
    ) -> Result<SignOutput, Error> {
        let sign = || self.kms.sign(&self.find(key)?, version, message);
        let input = digest(&message);
        let audit_entry = |signed: &SignOutput| sign_entry(input, signed);
        let recheck = |signed: &SignOutput| self.recheck_sign(signed, version);
        self.perform_use(call, &of(Action::Sign, key), Some(input), sign, audit_entry, recheck)
    }

    /// Whether a signature is that version's.
    ///
    /// # Errors
    /// As [`crate::operations::Kms::verify`]; not allowed, also meanwhile; the audit log's.
    pub fn verify(
        &self,
        call: &Call<'_>,
        key: &KeyRef<'_>,
        version: u32,
        message: Message<'_>,
        signature: &[u8],
    ) -> Result<bool, Error> {
        let verify = || {
            let by = VersionId { key: self.find(key)?, version };
            Ok((self.kms.verify(&by, message, signature)?, by))
        };
        let input = digest(&message);
        let audit_entry =
            |(is_its, by): &(bool, VersionId)| verify_entry(input, signature, *is_its, by);
        let recheck = |(_, by): &(bool, VersionId)| self.recheck_verify(by);
        let request = of(Action::Verify, key);
        let (is_its, _) =
            self.perform_use(call, &request, Some(input), verify, audit_entry, recheck)?;
        Ok(is_its)
    }

    /// Signs a digest by RSA, in a way that is said.
    ///
    /// # Errors
    /// As [`crate::operations::Kms::sign_rsa`]; not allowed, also meanwhile; the audit log's.
    pub fn sign_rsa(
        &self,
        call: &Call<'_>,
        key: &KeyRef<'_>,
        version: Option<u32>,
        scheme: Scheme,
        digest: &[u8],
    ) -> Result<SignOutput, Error> {
        let sign = || self.kms.sign_rsa(&self.find(key)?, version, scheme, digest);
        let input = Digest::of(digest);
        let audit_entry = |signed: &SignOutput| sign_entry(input, signed);
        let recheck = |signed: &SignOutput| self.recheck_sign(signed, version);
        self.perform_use(call, &of(Action::Sign, key), Some(input), sign, audit_entry, recheck)
    }

    /// Whether an RSA signature of a digest is that version's.
    ///
    /// # Errors
    /// As [`crate::operations::Kms::verify_rsa`]; not allowed, also meanwhile; the audit log's.
    pub fn verify_rsa(
        &self,
        call: &Call<'_>,
        key: &KeyRef<'_>,
        version: u32,
        scheme: Scheme,
        (digest, signature): (&[u8], &[u8]),
    ) -> Result<bool, Error> {
        let verify = || {
            let by = VersionId { key: self.find(key)?, version };
            Ok((self.kms.verify_rsa(&by, scheme, digest, signature)?, by))
        };
        let input = Digest::of(digest);
        let audit_entry =
            |(is_its, by): &(bool, VersionId)| verify_entry(input, signature, *is_its, by);
        let recheck = |(_, by): &(bool, VersionId)| self.recheck_verify(by);
        let request = of(Action::Verify, key);
        let (is_its, _) =
            self.perform_use(call, &request, Some(input), verify, audit_entry, recheck)?;
        Ok(is_its)
    }

    /// Signs many messages, by any keys. Each has an answer of its own, in their order.
    pub fn sign_batch(
        &self,
        call: &Call<'_>,
        items: &[SignItem<'_>],
    ) -> Vec<Result<SignOutput, Error>> {
        self.sign_items(call, items.len(), items)
    }

    /// The same of a batch of so many items altogether.
    fn sign_items(
        &self,
        call: &Call<'_>,
        asked: usize,
        items: &[SignItem<'_>],
    ) -> Vec<Result<SignOutput, Error>> {
        let requests: Vec<Request<'_>> =
            items.iter().map(|item| with_items(asked, of(Action::Sign, &item.key))).collect();
        let (may, place) = self.admit_items(call, Action::Sign, &requests);
        let found: Vec<Result<KeyId, Error>> = items
            .iter()
            .zip(may)
            .map(|(item, may)| may.and_then(|()| self.find(&item.key)))
            .collect();
        let together: Vec<SignRequest<'_>> = found
            .iter()
            .zip(items)
            .filter_map(|(key, item)| {
                let (version, message) = (item.version, item.message);
                key.as_ref().ok().map(|key| SignRequest { key, version, message })
            })
            .collect();
        let takes_long = place.as_ref().is_some_and(Place::takes_long);
        let signed = call.run(takes_long, || Ok(self.kms.sign_batch(&together)));
        let mut signed = signed.unwrap_or_default().into_iter();
        drop(place);
        // There is one for each that was found.
        let answers = found
            .iter()
            .map(|key| key.clone().and_then(|_| signed.next().unwrap_or(Err(no_answer()))))
            .collect();
        let audit_entry =
            |place: usize, signed: &SignOutput| sign_entry(digest(&items[place].message), signed);
        let recheck =
            |place: usize, signed: &SignOutput| self.recheck_sign(signed, items[place].version);
        let input = |place: usize| digest(&items[place].message);
        self.release_results(call, &requests, answers, input, audit_entry, recheck)
    }

    /// Verifies many signatures, of any keys. Each has an answer of its own, in their order, which is that of
    /// [`Self::verify`].
    pub fn verify_batch(
        &self,
        call: &Call<'_>,
        items: &[VerifyItem<'_>],
    ) -> Vec<Result<bool, Error>> {
        self.verify_items(call, items.len(), items)
    }

    /// Signs many messages and verifies many signatures of one batch of `asked` items, of which some may have been left
    /// out already. Each has the answer of [`Self::sign_batch`] or [`Self::verify_batch`], and a token's limit is one of
    /// all together.
    pub fn batch(
        &self,
        call: &Call<'_>,
        asked: usize,
        sign: &[SignItem<'_>],
        verify: &[VerifyItem<'_>],
    ) -> (Answers<SignOutput>, Answers<bool>) {
        (self.sign_items(call, asked, sign), self.verify_items(call, asked, verify))
    }

    /// The same of a batch of so many items altogether.
    fn verify_items(
        &self,
        call: &Call<'_>,
        asked: usize,
        items: &[VerifyItem<'_>],
    ) -> Vec<Result<bool, Error>> {
        let requests: Vec<Request<'_>> =
            items.iter().map(|item| with_items(asked, of(Action::Verify, &item.key))).collect();
        let (may, place) = self.admit_items(call, Action::Verify, &requests);
        let named: Vec<Result<VersionId, Error>> = items
            .iter()
            .zip(may)
            .map(|(item, may)| {
                may?;
                Ok(VersionId { key: self.find(&item.key)?, version: item.version })
            })
            .collect();
        let together: Vec<VerifyRequest<'_>> = named
            .iter()
            .zip(items)
            .filter_map(|(by, item)| {
                let (message, signature) = (item.message, item.signature);
                by.as_ref().ok().map(|by| VerifyRequest { by, message, signature })
            })
            .collect();
        let takes_long = place.as_ref().is_some_and(Place::takes_long);
        let verdicts = call.run(takes_long, || Ok(self.kms.verify_batch(&together)));
        let mut verdicts = verdicts.unwrap_or_default().into_iter();
        drop(place);
        let answers = named
            .into_iter()
            .map(|by| {
                let by = by?;
                // There is one for each that was found.
                Ok((verdicts.next().unwrap_or(Err(no_answer()))?, by))
            })
            .collect();
        let input = |place: usize| digest(&items[place].message);
        let audit_entry = |place: usize, (is_its, by): &(bool, VersionId)| {
            verify_entry(input(place), items[place].signature, *is_its, by)
        };
        let recheck = |_: usize, (_, by): &(bool, VersionId)| self.recheck_verify(by);
        let answers = self.release_results(call, &requests, answers, input, audit_entry, recheck);
        answers.into_iter().map(|answer| answer.map(|(is_its, _)| is_its)).collect()
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
        // Of quotas and queues the log was told as far as it is told: a flood does not fill it.
        let is_told = |answer: &Result<T, Error>| {
            !matches!(answer, Err(Error::Quota { .. } | Error::Queue | Error::Sealed))
        };
        let mut records: Vec<Record> = Vec::new();
        for (place, answer) in (0..).zip(&answers).filter(|(_, answer)| is_told(answer)) {
            let record = self.record(call, &requests[place], entry_of(place, answer));
            match answer {
                Err(Error::Denied(_)) => records.extend(self.count_denied(record)),
                _ => records.push(record),
            }
        }
        // All together are told of as the most careful of them asks for.
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
        asked: Option<u32>,
    ) -> Result<(), Error> {
        let VersionId { key, version } = &signed.by;
        self.kms.still_may(key, *version, Use::Sign, asked.is_none())
    }

    pub(super) fn recheck_verify(&self, by: &VersionId) -> Result<(), Error> {
        self.kms.still_may(&by.key, by.version, Use::Verify, false)
    }
}

/// Returns the error for an answer that is missing.
pub(super) fn no_answer() -> Error {
    Error::Engine(gabion_engine::Error::Lost)
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
    is_its: bool,
    by: &VersionId,
) -> AuditEntry {
    AuditEntry {
        key: Some(by.to_string()),
        input: Some(input),
        output: Some(Digest::of(signature)),
        outcome: if is_its { Outcome::Done } else { Outcome::Wrong },
    }
}

/// Of what is signed: the message, or the digest or representative that came in its place.
pub(super) fn digest(message: &Message<'_>) -> Digest {
    Digest::of(match message {
        Message::Pure { message, .. } => message,
        Message::Prehash { digest, .. } => digest,
        Message::Mu(mu) => &mu[..],
        Message::Internal(message) => message,
    })
}
