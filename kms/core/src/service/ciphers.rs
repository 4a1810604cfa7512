//! Batches of encryptions and decryptions. Expanded keys are cached, so the items run one after the
//! other. They share a slot, a write to the audit log, and the wait for the disk.

use zeroize::Zeroizing;

use super::lifecycle::{done, of};
use super::queue::Place;
use super::run::{AuditEntry, Call, KeyRef, Service};
use super::sign_verify::{no_answer, with_items};
use crate::audit::Digest;
use crate::error::Error;
use crate::gate::{Action, Request};
use crate::model::{Use, VersionId};
use crate::operations::EncryptOutput;

/// A message to encrypt.
#[derive(Clone, Copy)]
pub struct EncryptItem<'a> {
    /// The key.
    pub key: KeyRef<'a>,
    /// The version; `None` for the newest one.
    pub version: Option<u32>,
    /// The plaintext.
    pub plain: &'a [u8],
    /// The associated data.
    pub beside: &'a [u8],
}

/// A ciphertext to decrypt.
#[derive(Clone, Copy)]
pub struct DecryptItem<'a> {
    /// The key.
    pub key: KeyRef<'a>,
    /// The version.
    pub version: u32,
    /// The ciphertext.
    pub ciphertext: &'a [u8],
    /// The associated data.
    pub beside: &'a [u8],
}

/// A plaintext, and the version that decrypted it.
type DecryptedItem = (Zeroizing<Vec<u8>>, VersionId);

impl Service {
    /// Encrypts many messages with any keys. Returns the result of [`Self::encrypt`] for each item,
    /// in their order.
    pub fn encrypt_batch(
        &self,
        call: &Call<'_>,
        items: &[EncryptItem<'_>],
    ) -> Vec<Result<EncryptOutput, Error>> {
        let requests: Vec<Request<'_>> = items
            .iter()
            .map(|item| with_items(items.len(), of(Action::Encrypt, &item.key)))
            .collect();
        let answers = self.each(call, &requests, |place| {
            let EncryptItem { key, version, plain, beside } = &items[place];
            self.kms.encrypt(&self.find(key)?, *version, plain, beside)
        });
        let input = |place: usize| self.keyed(items[place].plain);
        let audit_entry = |place: usize, made: &EncryptOutput| AuditEntry {
            input: Some(input(place)),
            output: Some(Digest::of(&made.ciphertext)),
            ..done(Some(made.by.to_string()))
        };
        let recheck = |place: usize, made: &EncryptOutput| {
            let was_newest = items[place].version.is_none();
            self.kms.still_may(&made.by.key, made.by.version, Use::Encrypt, was_newest)
        };
        self.release_results(call, &requests, answers, input, audit_entry, recheck)
    }

    /// Decrypts many ciphertexts with any keys. Returns the result of [`Self::decrypt`] for each
    /// item, in their order.
    pub fn decrypt_batch(
        &self,
        call: &Call<'_>,
        items: &[DecryptItem<'_>],
    ) -> Vec<Result<Zeroizing<Vec<u8>>, Error>> {
        let requests: Vec<Request<'_>> = items
            .iter()
            .map(|item| with_items(items.len(), of(Action::Decrypt, &item.key)))
            .collect();
        let answers = self.each(call, &requests, |place| {
            let DecryptItem { key, version, ciphertext, beside } = &items[place];
            let by = VersionId { key: self.find(key)?, version: *version };
            Ok((self.kms.decrypt(&by, ciphertext, beside)?, by))
        });
        let input = |place: usize| Digest::of(items[place].ciphertext);
        let audit_entry = |place: usize, (plain, by): &DecryptedItem| AuditEntry {
            input: Some(input(place)),
            output: Some(self.keyed(plain)),
            ..done(Some(by.to_string()))
        };
        let recheck = |_: usize, (_, by): &DecryptedItem| {
            self.kms.still_may(&by.key, by.version, Use::Decrypt, false)
        };
        let answers = self.release_results(call, &requests, answers, input, audit_entry, recheck);
        answers.into_iter().map(|answer| answer.map(|(plain, _)| plain)).collect()
    }

    /// Runs all allowed items in one slot.
    fn each<T>(
        &self,
        call: &Call<'_>,
        requests: &[Request<'_>],
        act: impl Fn(usize) -> Result<T, Error>,
    ) -> Vec<Result<T, Error>> {
        let Some(action) = requests.first().map(|request| request.action) else {
            return Vec::new();
        };
        let (may, place) = self.admit_items(call, action, requests);
        let takes_long = place.as_ref().is_some_and(Place::takes_long);
        let all = || {
            let one = |(place, may): (usize, Result<(), Error>)| may.and_then(|()| act(place));
            Ok(may.into_iter().enumerate().map(one).collect())
        };
        let answers = call.run(takes_long, all);
        drop(place);
        // There is one answer for each request.
        answers.unwrap_or_else(|_| requests.iter().map(|_| Err(no_answer())).collect())
    }
}
