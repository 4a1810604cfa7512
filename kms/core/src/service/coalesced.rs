//! Coalesced requests: single requests of many callers that run as one engine batch.
//!
//! ```text
//!   sign  sign  sign      each: allow, quota   --> the allowed ones: one slot, one call of the engine
//!                                                --> each: a record; the records of a class are appended together
//!                                                --> each: allow, still? --> its answer
//! ```
//!
//! The answer and the audit record of each request are the same as without coalescing. Requests
//! that do not wait for the disk are not delayed by those that do.

use super::lifecycle::of;
use super::queue::Place;
use super::run::{AuditEntry, Call, Service};
use super::sign_verify::{
    SignItem, VerifyItem, no_answer, run_found, sign_entry, verify_entry, with_versions,
};
use crate::audit::{Class, Digest};
use crate::error::Error;
use crate::gate::{Action, Request};
use crate::model::VersionId;
use crate::operations::SignOutput;

/// One of several coalesced requests.
struct CoalescedRequest<'a> {
    call: &'a Call<'a>,
    request: Request<'a>,
    class: Class,
    input: Digest,
}

/// The result of one coalesced request: its index, its value and its audit entry.
type CoalescedResult<T> = (usize, T, AuditEntry);

impl Service {
    /// Signs for many callers. Calls `answer` once for each request, in any order, with its index
    /// and the result of [`Self::sign`].
    pub fn sign_coalesced(
        &self,
        asked: &[(Call<'_>, SignItem<'_>)],
        mut answer: impl FnMut(usize, Result<SignOutput, Error>),
    ) {
        let all = asked.iter().map(|(call, item)| {
            let input = Digest::of(item.signable.bytes());
            self.coalesced_request(call, of(Action::Sign, &item.key), input)
        });
        let sign = |places: &[usize]| {
            let items = || places.iter().map(|&place| &asked[place].1);
            let found: Vec<_> = items().map(|item| self.find(&item.key)).collect();
            run_found(items(), &found, SignItem::request, |requests| {
                self.kms.sign_coalesced(requests)
            })
        };
        let audit_entry = |one: &CoalescedRequest<'_>, _: usize, signed: &SignOutput| {
            sign_entry(one.input, signed)
        };
        let recheck =
            |place: usize, signed: &SignOutput| self.recheck_sign(signed, asked[place].1.version);
        self.run_coalesced(all.collect(), sign, audit_entry, recheck, &mut answer);
    }

    /// Verifies for many callers. Calls `answer` once for each request, in any order, with its
    /// index and the result of [`Self::verify`].
    pub fn verify_coalesced(
        &self,
        asked: &[(Call<'_>, VerifyItem<'_>)],
        mut answer: impl FnMut(usize, Result<bool, Error>),
    ) {
        let all = asked.iter().map(|(call, item)| {
            let input = Digest::of(item.signable.bytes());
            self.coalesced_request(call, of(Action::Verify, &item.key), input)
        });
        let verify = |places: &[usize]| {
            let items = || places.iter().map(|&place| &asked[place].1);
            let found: Vec<_> = items().map(|item| self.find_by(item)).collect();
            let verdicts = run_found(items(), &found, VerifyItem::request, |requests| {
                self.kms.verify_coalesced(requests)
            });
            with_versions(verdicts, found)
        };
        let audit_entry =
            |one: &CoalescedRequest<'_>, place: usize, (valid, by): &(bool, VersionId)| {
                verify_entry(one.input, asked[place].1.signature, *valid, by)
            };
        let recheck = |_: usize, (_, by): &(bool, VersionId)| self.recheck_verify(by);
        let mut answer = |place: usize, answered: Result<(bool, VersionId), Error>| {
            answer(place, answered.map(|(valid, _)| valid));
        };
        self.run_coalesced(all.collect(), verify, audit_entry, recheck, &mut answer);
    }

    /// Returns whether a quick request would find a slot now.
    pub fn has_capacity(&self, action: Action) -> bool {
        !self.queues.is_full(action, 0)
    }

    fn coalesced_request<'a>(
        &self,
        call: &'a Call<'a>,
        request: Request<'a>,
        input: Digest,
    ) -> CoalescedRequest<'a> {
        let class = self.class_of(&request);
        CoalescedRequest { call, request, class, input }
    }

    /// Runs uses together, each as [`Self::perform_use`] would run it alone.
    fn run_coalesced<T>(
        &self,
        all: Vec<CoalescedRequest<'_>>,
        operate: impl FnOnce(&[usize]) -> Vec<Result<T, Error>>,
        audit_entry: impl Fn(&CoalescedRequest<'_>, usize, &T) -> AuditEntry,
        recheck: impl Fn(usize, &T) -> Result<(), Error>,
        answer: &mut impl FnMut(usize, Result<T, Error>),
    ) {
        let (mut permitted, mut all_us) = (Vec::new(), None);
        for (place, one) in all.iter().enumerate() {
            let authorized = self.authorize(one.call, &one.request, Some(one.input));
            match authorized.and_then(|()| self.charge_request(one.call, &one.request)) {
                Ok(cost_us) => {
                    all_us = cost_us.map(|cost_us| all_us.unwrap_or(0) + cost_us).or(all_us);
                    permitted.push(place);
                }
                Err(error) => answer(place, Err(error)),
            }
        }
        let Some(first) = permitted.first().map(|&place| &all[place]) else { return };
        let held =
            all_us.map(|all_us| self.wait_for_slot(first.call, &first.request, all_us)).transpose();
        let held = match held {
            Ok(held) => held.flatten(),
            Err(error) => {
                return permitted.iter().for_each(|&place| answer(place, Err(error.clone())));
            }
        };
        let takes_long = held.as_ref().is_some_and(Place::takes_long);
        let done = first.call.run(takes_long, || Ok(operate(&permitted)));
        drop(held);
        let mut done = done.unwrap_or_default().into_iter();
        let mut by_class: [Vec<CoalescedResult<T>>; 2] = [Vec::new(), Vec::new()];
        for place in permitted {
            let one = &all[place];
            // There is one result for each request.
            match done.next().unwrap_or(Err(no_answer())) {
                Ok(made) => {
                    let audit_entry = audit_entry(one, place, &made);
                    by_class[one.class as usize].push((place, made, audit_entry));
                }
                Err(error) => {
                    answer(place, self.failed(one.call, &one.request, Some(one.input), error));
                }
            }
        }
        // `Written` first, because `Durable` waits for the disk.
        for (class, done) in [Class::Written, Class::Durable].into_iter().zip(by_class) {
            self.release_coalesced(class, &all, done, &recheck, answer);
        }
    }

    /// Appends the audit records of all requests at once, and releases the results that are still
    /// allowed.
    fn release_coalesced<T>(
        &self,
        class: Class,
        all: &[CoalescedRequest<'_>],
        done: Vec<CoalescedResult<T>>,
        recheck: &impl Fn(usize, &T) -> Result<(), Error>,
        answer: &mut impl FnMut(usize, Result<T, Error>),
    ) {
        let Some(first) = done.first().map(|(place, ..)| &all[*place]) else { return };
        let record_of = |(place, _, audit_entry): &CoalescedResult<T>| {
            let one = &all[*place];
            self.record(one.call, &one.request, audit_entry.clone())
        };
        let records: Vec<_> = done.iter().map(record_of).collect();
        let at_once = self.append_audit(first.call, &records, class);
        for ((place, made, audit_entry), record) in done.into_iter().zip(records) {
            let CoalescedRequest { call, request, .. } = &all[place];
            // Records that are too large for the log together may fit one by one.
            let recorded = match &at_once {
                Ok(()) => Ok(()),
                Err(_) => self.append_audit(call, &[record], class),
            };
            let still = || {
                self.release_result(class, call, request, || audit_entry, || recheck(place, &made))
            };
            answer(place, recorded.and_then(|()| still()).map(|()| made));
        }
    }
}
