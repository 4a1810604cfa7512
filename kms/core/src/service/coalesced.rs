//! Single requests of many callers, run together.
//!
//! ```text
//!   sign  sign  sign      each: allow, quota   --> those that may: one place, one call of the engine
//!                                                --> each of them: a record; those of a class are appended at once
//!                                                --> each: allow, may it still? --> its answer
//! ```
//!
//! What one of them is answered, and what the audit log has of it, is what it would be alone. Those that are answered once
//! written do not wait for the disk that others wait for.

use super::lifecycle::of;
use super::queue::Place;
use super::run::{Call, Service, Told};
use super::sign_verify::{SignItem, VerifyItem, digest, lost, signed_as, verified_as};
use crate::audit::{Class, Digest};
use crate::error::Error;
use crate::gate::{Action, Request};
use crate::model::VersionId;
use crate::operations::{Item, Signed, ToSign};

/// One request among others.
struct One<'a> {
    call: &'a Call<'a>,
    request: Request<'a>,
    class: Class,
    input: Digest,
}

/// What was done for one of them: which one it is, what came of it, and what is told of that.
type Done<T> = (usize, T, Told);

impl Service {
    /// Signs for many callers. `answer` gets the place of each and what [`Self::sign`] would have given it, in any order.
    pub fn sign_together(
        &self,
        asked: &[(Call<'_>, SignItem<'_>)],
        mut answer: impl FnMut(usize, Result<Signed, Error>),
    ) {
        let all = asked
            .iter()
            .map(|(call, item)| self.one(call, of(Action::Sign, &item.key), digest(&item.message)));
        let sign = |places: &[usize]| {
            let items = || places.iter().map(|&place| &asked[place].1);
            let found: Vec<_> = items().map(|item| self.find(&item.key)).collect();
            let together = found.iter().zip(items()).filter_map(|(key, item)| {
                let (version, message) = (item.version, item.message);
                key.as_ref().ok().map(|key| ToSign { key, version, message })
            });
            let signed = self.kms.sign_together(&together.collect::<Vec<_>>());
            let mut signed = signed.into_iter();
            let each = found.into_iter();
            each.map(|key| key.and_then(|_| signed.next().unwrap_or(Err(lost())))).collect()
        };
        let told = |one: &One<'_>, _: usize, signed: &Signed| signed_as(one.input, signed);
        let again =
            |place: usize, signed: &Signed| self.may_still_sign(signed, asked[place].1.version);
        self.together(all.collect(), sign, told, again, &mut answer);
    }

    /// Verifies for many callers. `answer` gets the place of each and what [`Self::verify`] would have given it, in any
    /// order.
    pub fn verify_together(
        &self,
        asked: &[(Call<'_>, VerifyItem<'_>)],
        mut answer: impl FnMut(usize, Result<bool, Error>),
    ) {
        let all = asked.iter().map(|(call, item)| {
            self.one(call, of(Action::Verify, &item.key), digest(&item.message))
        });
        let verify = |places: &[usize]| {
            let items = || places.iter().map(|&place| &asked[place].1);
            let named = |item: &VerifyItem<'_>| {
                Ok(VersionId { key: self.find(&item.key)?, version: item.version })
            };
            let named: Vec<Result<VersionId, Error>> = items().map(named).collect();
            let together = named.iter().zip(items()).filter_map(|(by, item)| {
                let (message, signature) = (item.message, item.signature);
                by.as_ref().ok().map(|by| Item { by, message, signature })
            });
            let verdicts = self.kms.verify_together(&together.collect::<Vec<_>>());
            let mut verdicts = verdicts.into_iter();
            let each = named.into_iter();
            each.map(|by| {
                let by = by?;
                Ok((verdicts.next().unwrap_or(Err(lost()))?, by))
            })
            .collect()
        };
        let told = |one: &One<'_>, place: usize, (is_its, by): &(bool, VersionId)| {
            verified_as(one.input, asked[place].1.signature, *is_its, by)
        };
        let again = |_: usize, (_, by): &(bool, VersionId)| self.may_still_verify(by);
        let mut answer = |place: usize, answered: Result<(bool, VersionId), Error>| {
            answer(place, answered.map(|(is_its, _)| is_its));
        };
        self.together(all.collect(), verify, told, again, &mut answer);
    }

    /// Whether somebody who comes now finds a place for what is quick.
    pub fn has_place(&self, action: Action) -> bool {
        !self.queues.is_full(action, 0)
    }

    fn one<'a>(&self, call: &'a Call<'a>, request: Request<'a>, input: Digest) -> One<'a> {
        let class = self.class_of(&request);
        One { call, request, class, input }
    }

    /// Runs uses together, each as [`Self::used`] would run it alone.
    fn together<T>(
        &self,
        all: Vec<One<'_>>,
        operate: impl FnOnce(&[usize]) -> Vec<Result<T, Error>>,
        told: impl Fn(&One<'_>, usize, &T) -> Told,
        again: impl Fn(usize, &T) -> Result<(), Error>,
        answer: &mut impl FnMut(usize, Result<T, Error>),
    ) {
        let (mut may, mut all_us) = (Vec::new(), None);
        for (place, one) in all.iter().enumerate() {
            let permitted = self.permit(one.call, &one.request, Some(one.input));
            match permitted.and_then(|()| self.charged(one.call, &one.request)) {
                Ok(cost_us) => {
                    all_us = cost_us.map(|cost_us| all_us.unwrap_or(0) + cost_us).or(all_us);
                    may.push(place);
                }
                Err(error) => answer(place, Err(error)),
            }
        }
        let Some(first) = may.first().map(|&place| &all[place]) else { return };
        let held = all_us.map(|all_us| self.placed(first.call, &first.request, all_us)).transpose();
        let held = match held {
            Ok(held) => held.flatten(),
            Err(error) => return may.iter().for_each(|&place| answer(place, Err(error.clone()))),
        };
        let takes_long = held.as_ref().is_some_and(Place::takes_long);
        let done = first.call.run(takes_long, || Ok(operate(&may)));
        drop(held);
        let mut done = done.unwrap_or_default().into_iter();
        let mut by_class: [Vec<Done<T>>; 2] = [Vec::new(), Vec::new()];
        for place in may {
            let one = &all[place];
            // There is one for each.
            match done.next().unwrap_or(Err(lost())) {
                Ok(made) => {
                    let told = told(one, place, &made);
                    by_class[one.class as usize].push((place, made, told));
                }
                Err(error) => {
                    answer(place, self.failed(one.call, &one.request, Some(one.input), error));
                }
            }
        }
        // Written first: durable ones wait for the disk.
        for (class, done) in [Class::Written, Class::Durable].into_iter().zip(by_class) {
            self.told_together(class, &all, done, &again, answer);
        }
    }

    /// Tells of what was done, of all at once, and gives out what is still allowed.
    fn told_together<T>(
        &self,
        class: Class,
        all: &[One<'_>],
        done: Vec<Done<T>>,
        again: &impl Fn(usize, &T) -> Result<(), Error>,
        answer: &mut impl FnMut(usize, Result<T, Error>),
    ) {
        let Some(first) = done.first().map(|(place, ..)| &all[*place]) else { return };
        let told_of = |(place, _, told): &Done<T>| {
            let one = &all[*place];
            self.record(one.call, &one.request, told.clone())
        };
        let records: Vec<_> = done.iter().map(told_of).collect();
        let at_once = self.tell(first.call, &records, class);
        for ((place, made, told), record) in done.into_iter().zip(records) {
            let One { call, request, .. } = &all[place];
            // What is too much for the log together may not be by itself.
            let is_told = match &at_once {
                Ok(()) => Ok(()),
                Err(_) => self.tell(call, &[record], class),
            };
            let still = || self.released(class, call, request, || told, || again(place, &made));
            answer(place, is_told.and_then(|()| still()).map(|()| made));
        }
    }
}
