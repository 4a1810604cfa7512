//! The steps that all operations share: authentication, authorization, quotas, queueing and audit.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Instant;

use hmac::Hmac;
use sha2::Sha256;

use super::cost::{REQUEST_US, bytes_us, item_us};
use super::denials::Denials;
use super::generation::Generation;
use super::idempotency_records::{IdempotencyRecords, Op};
use super::queue::{Place, Queues};
use super::quota::Quota;
use super::reconcile_report::ReconcileReport;
use crate::audit::{Change, Class, Digest, Log, Outcome, Record};
use crate::error::{DenialReason, Error};
use crate::gate::{Action, Caller, Gate, Method, Peer, Principal, Request};
use crate::model::{KeyId, Label};
use crate::operations::Kms;
use crate::seal::Key;

/// A key management service: keys, a gate and an audit log.
///
/// # Examples
/// ```
/// use gabion_kms::Message;
/// use gabion_kms::gate::{Peer, Principal};
/// use gabion_kms::model::Label;
/// use gabion_kms::operations::{Kms, NewKey};
/// use gabion_kms::service::{AuditAt, Call, KeyRef, Options, Service};
///
/// let service = Service::open(Kms::in_memory()?, &AuditAt::Memory, Options::default())?;
/// let token = service.first_token(&Principal::new("me")?)?.to_string();
///
/// let who = service.authenticate(&token, &Peer::default())?;
/// let call = Call::new(&who, "r-1");
/// let [tenant, purpose, name] = ["default", "transit", "web"].map(|text| Label::new("key", text));
/// let (tenant, purpose, name) = (tenant?, purpose?, name?);
/// let key = KeyRef { tenant: &tenant, name: &name };
/// let algorithm = "ed25519".parse()?;
/// let new = NewKey { tenant: tenant.clone(), purpose, name: name.clone(), algorithm };
/// service.create(&call, &new)?;
/// let message = Message::Pure { context: b"", message: b"text" };
/// let signed = service.sign(&call, &key, None, message)?;
/// assert!(service.verify(&call, &key, signed.by.version, message, &signed.signature)?);
/// # Ok::<(), gabion_kms::Error>(())
/// ```
pub struct Service {
    pub(super) kms: Kms,
    pub(super) gate: Gate,
    pub(super) log: Log,
    pub(super) class: Class,
    /// The number of failed authentications.
    pub(super) strangers: AtomicU64,
    /// The key of the digests of secrets in the audit log.
    pub(super) digests: Key,
    /// The log's size as the store notes it.
    pub(super) known: Mutex<u64>,
    pub(super) quota: Quota,
    /// The buckets of credentials for refused requests.
    pub(super) refusals: Quota,
    /// Denials that are counted and not recorded yet.
    pub(super) denials: Denials,
    pub(super) queues: Queues,
    /// The notes of changes with an `op_id`.
    pub(super) ops: IdempotencyRecords,
    /// The report about a store that was older than its log.
    pub(super) reconciled: ReconcileReport,
    /// Held while one of the service's own keys is made.
    pub(super) making_own: Mutex<()>,
    /// Whether the seal is still open under which the service was opened.
    pub(super) generation: Generation,
    /// Dropped last, after the log's lock.
    pub(super) alive: Arc<()>,
}

/// A request and its caller.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The caller.
    pub who: &'a Caller,
    /// The request id, given by the server. The log records up to 128 bytes of it.
    pub request_id: &'a str,
    /// The traceparent (W3C Trace Context), which the server has validated.
    pub trace: Option<&'a str>,
    /// The size of the request in bytes. The first operation is charged for it and sets it to 0.
    pub bytes: Option<&'a AtomicUsize>,
    /// Whether the tenant was charged already, when the message began to arrive.
    pub is_charged: bool,
    /// The op that the call runs; its note is committed with the change.
    pub op: Option<&'a Op>,
    /// How the calling thread runs work that takes long.
    pub run_blocking: RunBlocking,
}

/// Runs work that takes long, such as milliseconds of computing or a wait for the disk, on behalf
/// of a thread that has other work. It calls the function exactly once before it returns.
pub type RunBlocking = fn(&mut dyn FnMut());

impl<'a> Call<'a> {
    /// Creates a call without further properties.
    pub fn new(who: &'a Caller, request_id: &'a str) -> Self {
        Call {
            who,
            request_id,
            trace: None,
            bytes: None,
            is_charged: false,
            op: None,
            run_blocking: |act| act(),
        }
    }

    /// Runs a function, with `run_blocking` if it takes long.
    pub(super) fn run<T>(
        &self,
        takes_long: bool,
        act: impl FnOnce() -> Result<T, Error>,
    ) -> Result<T, Error> {
        if !takes_long {
            return act();
        }
        let (mut act, mut done) = (Some(act), None);
        (self.run_blocking)(&mut || {
            if let Some(act) = act.take() {
                done = Some(act());
            }
        });
        done.unwrap_or(Err(Error::Engine(gabion_engine::Error::Lost)))
    }

    /// Estimates the overhead of the request in microseconds, without its operation.
    fn overhead_us(&self) -> u64 {
        let bytes = self.bytes.map_or(0, |bytes| bytes.swap(0, Ordering::Relaxed));
        REQUEST_US + bytes_us(bytes)
    }
}

/// A key, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRef<'a> {
    /// The tenant.
    pub tenant: &'a Label,
    /// The name.
    pub name: &'a Label,
}

/// The part of an audit record that depends on the outcome of an operation.
#[derive(Clone)]
pub(super) struct AuditEntry {
    pub key: Option<String>,
    pub input: Option<Digest>,
    pub output: Option<Digest>,
    pub outcome: Outcome,
}

/// The part of an audit record that depends on a change: its key, and details in addition to its
/// action.
pub(super) struct ChangeEntry {
    pub key: Option<String>,
    pub change: Option<Change>,
}

impl From<Option<String>> for ChangeEntry {
    fn from(key: Option<String>) -> Self {
        ChangeEntry { key, change: None }
    }
}

impl From<(String, Change)> for ChangeEntry {
    fn from((key, change): (String, Change)) -> Self {
        ChangeEntry { key: Some(key), change: Some(change) }
    }
}

/// The maximum cost of a batch in microseconds, as [`item_us`] estimates it. A batch has one slot,
/// for which others wait, and a server that shuts down waits about as long for running operations.
const BATCH_US_MAX: u64 = 10_000_000;

/// Fails if a batch would hold its slot for too long. Single operations have no such limit.
fn check_batch_cost(costs_us: &[u64]) -> Result<(), Error> {
    let all_us = costs_us.iter().fold(0, |all: u64, cost_us| all.saturating_add(*cost_us));
    if costs_us.len() < 2 || all_us <= BATCH_US_MAX {
        return Ok(());
    }
    let of_us = |us: u64| usize::try_from(us / 1000).unwrap_or(usize::MAX);
    let (most, got) = (of_us(BATCH_US_MAX), of_us(all_us));
    Err(Error::TooLarge { what: "milliseconds of work of one batch", most, got })
}

/// The maximum number of characters of a request id and of a traceparent in the audit log.
const REQUEST_ID_MAX: usize = 128;

impl Service {
    /// Authenticates the holder of a token.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`].
    pub fn authenticate(&self, token: &str, peer: &Peer) -> Result<Caller, Error> {
        Ok(self.gate.authenticate(token, peer, self.kms.now_ms()).inspect_err(|_| {
            self.strangers.fetch_add(1, Ordering::Relaxed);
        })?)
    }

    /// Returns the caller that a client certificate names. The certificate has to be verified
    /// already.
    pub fn of_certificate(&self, principal: Principal, peer: &Peer) -> Caller {
        self.gate.of_certificate(principal, peer)
    }

    /// Returns the number of failed authentications.
    pub fn unauthenticated_count(&self) -> u64 {
        self.strangers.load(Ordering::Relaxed)
    }

    /// Returns the audit log.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Returns the keys, for uses without a caller: metrics and the cache.
    pub fn kms(&self) -> &Kms {
        &self.kms
    }

    /// Returns a reference that is dead once the service is dropped and its log's lock is released.
    pub fn alive(&self) -> Weak<()> {
        Arc::downgrade(&self.alive)
    }

    /// Returns the service's generation.
    pub fn generation(&self) -> &Generation {
        &self.generation
    }

    /// Returns the gate.
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Runs a use: an operation that changes nothing, apart from its audit record.
    pub(super) fn perform_use<T>(
        &self,
        call: &Call<'_>,
        request: &Request<'_>,
        input: Option<Digest>,
        operate: impl FnOnce() -> Result<T, Error>,
        audit_entry: impl FnOnce(&T) -> AuditEntry,
        recheck: impl FnOnce(&T) -> Result<(), Error>,
    ) -> Result<T, Error> {
        let class = self.class_of(request);
        self.perform_use_in_class(class, call, request, input, operate, audit_entry, recheck)
    }

    /// Returns the durability class of a request's record: the key's own, or the service's.
    pub(super) fn class_of(&self, request: &Request<'_>) -> Class {
        let (Some(tenant), Some(name)) = (request.tenant, request.key) else { return self.class };
        match self.kms.about(tenant, name) {
            Ok(Some(view)) => match view.key.is_durable {
                Some(true) => Class::Durable,
                Some(false) => Class::Written,
                None => self.class,
            },
            // The use itself reports the error.
            Ok(None) | Err(_) => self.class,
        }
    }

    /// Runs a use whose audit record has the class `class`.
    #[allow(clippy::too_many_arguments, reason = "each is one step of a use")]
    pub(super) fn perform_use_in_class<T>(
        &self,
        class: Class,
        call: &Call<'_>,
        request: &Request<'_>,
        input: Option<Digest>,
        operate: impl FnOnce() -> Result<T, Error>,
        audit_entry: impl FnOnce(&T) -> AuditEntry,
        recheck: impl FnOnce(&T) -> Result<(), Error>,
    ) -> Result<T, Error> {
        self.authorize(call, request, input)?;
        let place = self.charge_and_wait(call, request)?;
        let done = call.run(place.as_ref().is_some_and(Place::takes_long), operate);
        drop(place);
        let done = done.or_else(|error| self.failed(call, request, input, error))?;
        let audit_entry = audit_entry(&done);
        self.append_audit(call, &[self.record(call, request, audit_entry.clone())], class)?;
        self.release_result(class, call, request, || audit_entry, || recheck(&done))?;
        Ok(done)
    }

    /// Checks whether a recorded result may still be released. If not, that is recorded, too.
    pub(super) fn release_result(
        &self,
        class: Class,
        call: &Call<'_>,
        request: &Request<'_>,
        audit_entry: impl FnOnce() -> AuditEntry,
        recheck: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.check_allowed(call, request).and_then(|()| recheck()).or_else(|error| {
            let withheld = AuditEntry { outcome: Outcome::Withheld, ..audit_entry() };
            self.append_audit_from_reserve(call, self.record(call, request, withheld), class)?;
            Err(hide_existence(error, request))
        })
    }

    /// Appends records to the audit log.
    pub(super) fn append_audit(
        &self,
        call: &Call<'_>,
        records: &[Record],
        class: Class,
    ) -> Result<(), Error> {
        self.append_pending_denials(records)?;
        let append = || Ok(self.log.append(records, class).map(drop)?);
        call.run(class == Class::Durable, append)
    }

    /// Appends a record of something that has happened already, even if only the reserve is left.
    pub(super) fn append_audit_from_reserve(
        &self,
        call: &Call<'_>,
        record: Record,
        class: Class,
    ) -> Result<(), Error> {
        // If there is no room now, earlier denials are recorded later.
        let _ = self.append_pending_denials(std::slice::from_ref(&record));
        let append = || Ok(self.log.append_at_last(&[record], class).map(drop)?);
        // A wait for the disk must not delay the other requests of the same thread.
        call.run(class == Class::Durable, append)
    }

    /// Runs a change, with an audit record before it begins and one of its outcome. `operate` has
    /// to write through the handle that it gets, which carries the note of an `op_id`.
    pub(super) fn perform_change<T, C: Into<ChangeEntry>>(
        &self,
        call: &Call<'_>,
        request: &Request<'_>,
        operate: impl FnOnce(&Kms) -> Result<T, Error>,
        audit_entry: impl FnOnce(&T) -> C,
    ) -> Result<T, Error> {
        self.authorize(call, request, None)?;
        let recheck = || self.check_allowed(call, request);
        self.perform_rechecked_change(call, request, recheck, operate, audit_entry)
            .map_err(|error| hide_existence(error, request))
    }

    /// Runs a change that needs no permission, like [`Self::perform_change`].
    pub(super) fn perform_unchecked_change<T, C: Into<ChangeEntry>>(
        &self,
        call: &Call<'_>,
        request: &Request<'_>,
        operate: impl FnOnce(&Kms) -> Result<T, Error>,
        audit_entry: impl FnOnce(&T) -> C,
    ) -> Result<T, Error> {
        self.perform_rechecked_change(call, request, || Ok(()), operate, audit_entry)
    }

    /// Runs a change. `recheck` runs right before it: while it waited for its slot and for the disk,
    /// the token may have been revoked, or a policy changed.
    fn perform_rechecked_change<T, C: Into<ChangeEntry>>(
        &self,
        call: &Call<'_>,
        request: &Request<'_>,
        recheck: impl FnOnce() -> Result<(), Error>,
        operate: impl FnOnce(&Kms) -> Result<T, Error>,
        audit_entry: impl FnOnce(&T) -> C,
    ) -> Result<T, Error> {
        call.run(true, || {
            let place = self.charge_and_wait(call, request)?;
            // The service may have been sealed while the change waited for its slot.
            self.generation.check()?;
            let of = |key, outcome| AuditEntry { key, input: None, output: None, outcome };
            let begun = self.record(call, request, of(None, Outcome::Begun));
            let _ = self.append_pending_denials(std::slice::from_ref(&begun));
            match request.action {
                // Archiving frees space, so it may use the reserve.
                Action::Audit => self.log.append_at_last(&[begun], Class::Durable)?,
                _ => self.log.append(&[begun], Class::Durable)?,
            };
            let done = recheck().and_then(|()| match call.op {
                Some(op) => operate(&self.kms.with(op.companion())),
                None => operate(&self.kms),
            });
            drop(place);
            let record = match &done {
                Ok(done) => {
                    let ChangeEntry { key, change } = audit_entry(done).into();
                    let record = self.record(call, request, of(key, Outcome::Done));
                    // The stored state is of this revision or an earlier one.
                    let read = self.kms.context().store.read(&[]);
                    Record { change, revision: read.ok().map(|read| read.revision.0), ..record }
                }
                Err(error) => self.record(call, request, of(None, Outcome::Failed(error.code()))),
            };
            self.log.append_at_last(&[record], Class::Durable)?;
            done
        })
    }

    /// Checks that the caller may do something. A denial is recorded.
    pub(super) fn authorize(
        &self,
        call: &Call<'_>,
        request: &Request<'_>,
        input: Option<Digest>,
    ) -> Result<(), Error> {
        self.check_allowed(call, request)
            .or_else(|error| self.failed(call, request, input, error))
            .map_err(|error| hide_existence(error, request))
    }

    pub(super) fn check_allowed(
        &self,
        call: &Call<'_>,
        request: &Request<'_>,
    ) -> Result<(), Error> {
        self.generation.check()?;
        Ok(self.gate.allow(&self.kms, call.who, request, self.kms.now_ms())?)
    }

    /// Charges a tenant for a request and waits for a slot to run it. The process itself is not
    /// charged and does not wait.
    fn charge_and_wait(
        &self,
        call: &Call<'_>,
        request: &Request<'_>,
    ) -> Result<Option<Place<'_>>, Error> {
        match self.charge_request(call, request)? {
            None => Ok(None),
            Some(cost_us) => self.wait_for_slot(call, request, cost_us),
        }
    }

    /// Charges a tenant for an operation that is about to run, by its approximate cost. The process
    /// itself is not charged.
    pub(super) fn charge_request(
        &self,
        call: &Call<'_>,
        request: &Request<'_>,
    ) -> Result<Option<u64>, Error> {
        if call.who.method() == Method::Local {
            return Ok(None);
        }
        let cost_us = call.overhead_us() + self.item_us(request);
        if !call.is_charged {
            self.charge(call, request, cost_us)?;
        }
        Ok(Some(cost_us))
    }

    /// Waits for a slot for work of this cost.
    pub(super) fn wait_for_slot(
        &self,
        call: &Call<'_>,
        request: &Request<'_>,
        cost_us: u64,
    ) -> Result<Option<Place<'_>>, Error> {
        let waits = self.queues.is_full(request.action, cost_us);
        let place =
            call.run(waits, || self.queues.place(request.action, request.tenant, cost_us))?;
        self.generation.check()?;
        Ok(place)
    }

    /// Returns which items of a batch may run, and a slot for all of them. Each is charged by
    /// itself, and the first one for the request, too.
    pub(super) fn admit_items(
        &self,
        call: &Call<'_>,
        action: Action,
        requests: &[Request<'_>],
    ) -> (Vec<Result<(), Error>>, Option<Place<'_>>) {
        let is_local = call.who.method() == Method::Local;
        let allowed: Vec<Result<(), Error>> =
            requests.iter().map(|request| self.check_allowed(call, request)).collect();
        // For a denied item nothing may be revealed, not even its cost.
        let cost_us = |(request, allowed): (&Request<'_>, &Result<(), Error>)| match allowed {
            Ok(()) if !is_local => self.item_us(request),
            Ok(()) | Err(_) => 0,
        };
        let costs_us: Vec<u64> = requests.iter().zip(&allowed).map(cost_us).collect();
        let bounded = check_batch_cost(&costs_us);
        let mut all_us = 0;
        let mut admit = |request: &Request<'_>, allowed: Result<(), Error>, cost_us: u64| {
            allowed.and(bounded.clone())?;
            if !is_local {
                let of_request = if all_us == 0 { call.overhead_us() } else { 0 };
                let cost_us = of_request + cost_us;
                self.charge(call, request, cost_us)?;
                all_us += cost_us;
            }
            Ok(())
        };
        let each = requests.iter().zip(allowed).zip(costs_us);
        let may: Vec<Result<(), Error>> =
            each.map(|((request, allowed), cost_us)| admit(request, allowed, cost_us)).collect();
        if all_us == 0 {
            return (may, None);
        }
        let tenant = requests.first().and_then(|request| request.tenant);
        let waits = self.queues.is_full(action, all_us);
        let place = call.run(waits, || self.queues.place(action, tenant, all_us));
        match place.and_then(|place| self.generation.check().map(|()| place)) {
            Ok(place) => (may, place),
            Err(error) => (may.into_iter().map(|may| may.and(Err(error.clone()))).collect(), None),
        }
    }

    /// Returns the approximate cost of an item in microseconds.
    fn item_us(&self, request: &Request<'_>) -> u64 {
        let algorithm = match (request.makes, request.tenant, request.key) {
            (Some(new), ..) => Some(new.algorithm),
            (None, Some(tenant), Some(name)) if request.action != Action::List => {
                // A failed lookup is reported where the key is used.
                let name = Label::new("key", name);
                let found = name.and_then(|name| self.kms.find(tenant, &name));
                found.ok().map(|id| id.algorithm)
            }
            (None, ..) => None,
        };
        item_us(algorithm, request.action)
    }

    /// Charges a tenant's quota. Only the first of consecutive rejections is recorded, so that a
    /// flood does not fill the log.
    fn charge(&self, call: &Call<'_>, request: &Request<'_>, cost_us: u64) -> Result<(), Error> {
        let is_charged = item_us(None, request.action) > 0;
        let cost_us = if is_charged { cost_us } else { 0 };
        self.quota.take(request.tenant, cost_us, Instant::now).or_else(|exceeded| {
            match exceeded.is_first {
                true => self.failed(call, request, None, exceeded.into()),
                false => Err(exceeded.into()),
            }
        })
    }

    /// Returns a revision of the store that includes every change that was answered, also those of
    /// tokens and policies.
    pub fn revision(&self) -> u64 {
        self.kms.raise_revision();
        self.kms.revision()
    }

    /// Returns the counters of quotas, queues and automatic rotations in the Prometheus text
    /// format.
    pub fn load_text(&self) -> String {
        let refused = self.quota.refused();
        let of_quota =
            format!("# TYPE kms_quota_refused_total counter\nkms_quota_refused_total {refused}\n");
        self.queues.text() + &of_quota + &self.kms.rotations().text() + &self.administrators_text()
    }

    /// Records a failed operation.
    pub(super) fn failed<T>(
        &self,
        call: &Call<'_>,
        request: &Request<'_>,
        input: Option<Digest>,
        error: Error,
    ) -> Result<T, Error> {
        if error == Error::Sealed {
            // Treated like a request that arrives while the service is sealed.
            return Err(error);
        }
        let outcome = Outcome::Failed(error.code());
        let audit_entry = AuditEntry { key: None, input, output: None, outcome };
        let record = self.record(call, request, audit_entry);
        match error {
            Error::Denied(_) => self.audit_denial(call, record)?,
            _ => self.append_audit(call, &[record], self.class)?,
        }
        Err(error)
    }

    /// Builds an audit record.
    pub(super) fn record(
        &self,
        call: &Call<'_>,
        request: &Request<'_>,
        audit_entry: AuditEntry,
    ) -> Record {
        let AuditEntry { key, input, output, outcome } = audit_entry;
        Record {
            time_ms: self.kms.now_ms(),
            request_id: call.request_id.chars().take(REQUEST_ID_MAX).collect(),
            trace: call.trace.map(|trace| trace.chars().take(REQUEST_ID_MAX).collect()),
            principal: call.who.principal().clone(),
            method: call.who.credential_text(),
            action: request.action,
            tenant: request.tenant.cloned(),
            key: key.or_else(|| request.key.map(str::to_owned)),
            input,
            output,
            change: None,
            outcome,
            count: None,
            revision: None,
        }
    }

    /// Returns the keyed digest of a secret for the audit log.
    pub(super) fn keyed(&self, secret: &[u8]) -> Digest {
        // A forked process has no key, but its log accepts no records either.
        let key = self.digests.bytes();
        key.map_or(Digest::Keyed([0; 32]), |key| Digest::keyed(key, secret))
    }

    /// Returns the state of the keyed digest, for secrets that arrive in pieces.
    pub(super) fn keyed_state(&self) -> Hmac<Sha256> {
        self.digests.bytes().map_or_else(|_| Digest::keyed_state(&[0; 32]), Digest::keyed_state)
    }

    /// Finds a key by its name.
    pub(super) fn find(&self, key: &KeyRef<'_>) -> Result<KeyId, Error> {
        self.kms.find(key.tenant, key.name)
    }
}

/// Turns an error about a key that the caller may not see into that of a missing key.
pub(super) fn hide_existence(error: Error, request: &Request<'_>) -> Error {
    match (error, request.key) {
        (
            Error::Denied(DenialReason::Tenant | DenialReason::Key | DenialReason::Unseen),
            Some(name),
        ) => Error::NoKey(name.to_owned()),
        (error, _) => error,
    }
}
