//! Idempotency: a change with an `op_id` is applied once, even if it is requested again.
//!
//! ```text
//!   op_id, request --allowed?--> new:     the change, and its result in the same transaction --> the answer is noted
//!                           \--> known:   does the key still exist? --> the stored answer, or the result
//!                           \--> a different request under it, or one with an unknown outcome: refused
//! ```
//!
//! A note belongs to a tenant and a credential ([`crate::gate::Caller::credential`]), and is
//! sealed. A change and its note are one transaction. If the process ends, the store has either
//! both or neither, so a repeated change is applied once. A record is reused after a day, so the
//! store does not grow with each change.
//!
//! Only the note shows whether an interrupted change was done. The audit log has `begun` alone if
//! the process was killed before the outcome was recorded, or if the outcome could not be recorded.
//! In the second case the caller gets the log's error although the change may be done. Nothing
//! completes the log later.
//!
//! A note never contains a secret. If the answer of a change is secret, it is not stored, and a
//! replay fails with `op_id_done`, which names the result. A replay is authorized like the change
//! itself, checks the key's state, and appends an audit record.

use std::sync::{Arc, PoisonError};

use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use super::administration;
use super::idempotency_records::{CompletedOp, Op, Slot, StoredOp};
use super::lifecycle::of;
use super::run::{AuditEntry, Call, KeyRef, Service};
use crate::audit::Outcome;
use crate::error::Error;
use crate::gate::{Action, Request};
use crate::model::{KeyId, Label, VersionId};
use crate::operations::{
    Companion, CompanionOutcome, CompanionRecord, Kms, NewKey, StoreContext, damaged, opened_bytes,
};
use crate::store::{RecordPath, SettleOutcome, Transaction, settle};
use crate::text::{hex, of_base64, of_hex};

/// The maximum number of stored answers per tenant.
pub const OPS_MAX: usize = 4096;

/// The maximum number of these per caller: the holders of a token and its attenuations, or of
/// certificates with one name.
pub const OPS_OF_CALLER_MAX: usize = 1024;

/// The number of these that are reserved for changes of tokens and policies.
pub const OPS_RESERVED: usize = 512;

/// The maximum length of an `op_id` in bytes.
pub const OP_ID_MAX: usize = 128;

/// The maximum size of a stored answer in bytes.
const ANSWER_MAX: usize = 64 << 10;

/// The number of records that are read at once.
const PAGE: usize = 100;

/// A change with an `op_id`, which the client chose.
#[derive(Clone, Copy, Debug)]
pub struct IdempotentRequest<'a> {
    /// The `op_id`.
    pub op_id: &'a str,
    /// The SHA-256 of the request in canonical form.
    pub request: [u8; 32],
    /// The requested action.
    pub action: Action,
    /// The tenant of the key, or the tenant whose limit counts the note.
    pub tenant: &'a Label,
    /// The key; `None` for changes of tokens and policies.
    pub key: Option<&'a Label>,
    /// Whether the answer is secret, as that of a new token is.
    pub is_secret: bool,
}

/// The next step for a change that has an `op_id`.
#[derive(Debug)]
pub enum OpStart {
    /// It is new: run it with calls that carry the op ([`Call::op`]), then pass its result to
    /// `op_end`.
    New(Op),
    /// It withdraws use, and the number of notes is at its limit: run it without a note. A limit
    /// refuses no revocation.
    Untracked,
    /// It was done before; replay this answer.
    Replayed(Zeroizing<Vec<u8>>),
    /// It was done before, and the process ended before its answer was noted. Has the result: the
    /// id of a version, key or token, or the version of a set of policies.
    Completed(String),
}

/// The result of a change.
#[derive(Clone, Copy, Debug)]
pub enum OpResult<'a> {
    /// It was done, with this answer.
    Done(&'a [u8]),
    /// It was refused, or failed.
    Failed,
}

impl Service {
    /// Begins a change under an `op_id`, or finds that it was done before.
    ///
    /// # Errors
    /// - [`Error::OpReused`], [`Error::OpOfName`], [`Error::OpRunning`].
    /// - [`Error::OutcomeUnknown`] if the outcome of the earlier change is unknown.
    /// - [`Error::TooLarge`] if the number of notes is at its limit, unless the change withdraws
    ///   use.
    /// - A malformed `op_id`; the caller is not allowed; errors of the audit log.
    /// - If the change was done before: [`Error::OpDone`] if its answer is secret; the key is
    ///   missing, replaced or deleted.
    pub fn op_begin(
        &self,
        call: &Call<'_>,
        asked: &IdempotentRequest<'_>,
    ) -> Result<OpStart, Error> {
        self.op_begin_making(call, asked, None)
    }

    /// Begins a change that creates a key, which policies are asked about.
    ///
    /// # Errors
    /// Those of [`Self::op_begin`].
    pub fn op_begin_making(
        &self,
        call: &Call<'_>,
        asked: &IdempotentRequest<'_>,
        makes: Option<&NewKey>,
    ) -> Result<OpStart, Error> {
        let is_name = !asked.op_id.is_empty()
            && asked.op_id.len() <= OP_ID_MAX
            && asked.op_id.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_name {
            let why = format!("an op_id has 1 to {OP_ID_MAX} visible characters of ASCII");
            return Err(Error::Parameter(why));
        }
        let caveats = call.who.inherited();
        let key = asked.key.map(|name| KeyRef { tenant: asked.tenant, name });
        let request = match (&key, asked.action, asked.is_secret) {
            (Some(key), ..) => of(asked.action, key),
            (None, Action::Token, true) => administration::token_request(&caveats),
            (None, ..) => administration::of(asked.action),
        };
        let request = Request { makes, ..request };
        self.authorize(call, &request, None)?;
        match self.look_up(call, asked) {
            Ok(Lookup::New(op)) => Ok(OpStart::New(op)),
            Ok(Lookup::Found(place)) => self.replay(call, asked, &request, place),
            Err(Error::TooLarge { .. }) if withdraws_use(asked) => Ok(OpStart::Untracked),
            Err(error) => self.failed(call, &request, None, error),
        }
    }

    /// Finds the note of a change, or reserves a place for it.
    fn look_up(&self, call: &Call<'_>, asked: &IdempotentRequest<'_>) -> Result<Lookup, Error> {
        let (id, request) = (id_of(call, asked.op_id), hex(&asked.request));
        let holder = call.who.holder();
        let (kms, tenant) = (&self.kms, asked.tenant);
        let steady_ms = kms.clock().steady_ms();
        let mut all = self.ops.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !all.contains_key(tenant) {
            all.insert(tenant.clone(), read_all(kms, tenant)?);
        }
        let slots = all.entry(tenant.clone()).or_default();
        let running = slots.iter().find_map(|slot| slot.running.as_ref().filter(|of| of.0 == id));
        if let Some((_, other)) = running {
            return Err(if *other == request { Error::OpRunning } else { Error::OpReused });
        }
        let doubtful = slots.iter().position(|slot| slot.doubtful.as_ref() == Some(&id));
        if let Some(place) = doubtful {
            // The earlier change has been applied by now, or it cannot be applied after this one:
            // both replace the same generation.
            slots[place] = read_one(kms, tenant, place)?;
        }
        let at = |id: &str| {
            let is_it = |known: &CompletedOp| known.id == id && known.is_kept(steady_ms);
            slots.iter().position(|slot| slot.known.as_ref().is_some_and(is_it))
        };
        if let Some(place) = at(&id) {
            return Ok(Lookup::Found(place));
        }
        if at(&id_by_name(call, asked.op_id)).is_some() {
            return Err(Error::OpOfName);
        }
        let place = match doubtful {
            Some(place) => place,
            None => {
                check_share(slots, holder.as_deref(), steady_ms)?;
                let is_reserved = asked.action.is_administration();
                let most = if is_reserved { OPS_MAX } else { OPS_MAX - OPS_RESERVED };
                free(kms, tenant, slots, steady_ms, most)?
            }
        };
        let path = path(tenant, place)?;
        let slot = &mut slots[place];
        (slot.running, slot.holder) = (Some((id.clone(), request.clone())), holder.clone());
        let (before, at_ms) = (slot.generation, kms.now_ms());
        let note = StoredOp { id, request, at_ms, holder, made: None, answer: None };
        let of = note.clone();
        let payload = move |made: &str| written(Some(&of.completed(Some(made), None)));
        let record = CompanionRecord { path, before, payload: Box::new(payload) };
        Ok(Lookup::New(Op {
            tenant: tenant.clone(),
            place,
            note,
            before,
            was_doubtful: doubtful.is_some(),
            is_secret: asked.is_secret,
            companion: Arc::new(Companion::new(record)),
        }))
    }

    /// Stores the answer. Even without it, the store knows that the change was done.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn op_end(&self, op: Op, ended: OpResult<'_>) -> Result<(), Error> {
        let mut all = self.ops.0.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = all.get_mut(&op.tenant).and_then(|slots| slots.get_mut(op.place));
        let Some(slot) = slot else { return Ok(()) };
        slot.running = None;
        let kms = &self.kms;
        let known =
            |noted: &StoredOp| Some(CompletedOp::of(noted, noted.at_ms, kms.clock().steady_ms()));
        let made = match op.companion.outcome() {
            CompanionOutcome::Unused => {
                slot.doubtful = op.was_doubtful.then(|| op.note.id.clone());
                None
            }
            CompanionOutcome::Committed(made) => {
                (slot.generation, slot.doubtful) = (op.before + 1, None);
                slot.known = known(&op.note);
                Some(made)
            }
            CompanionOutcome::Unknown => {
                slot.doubtful = Some(op.note.id);
                return Ok(());
            }
        };
        let OpResult::Done(answer) = ended else { return Ok(()) };
        let is_stored = !op.is_secret && answer.len() <= ANSWER_MAX;
        if !is_stored && made.is_some() {
            return Ok(());
        }
        // If the change had nothing to do, as with a token that was revoked before, this is the
        // only note.
        let noted = op.note.completed(made.as_deref(), Some(answer).filter(|_| is_stored));
        match write(kms.context(), &op.tenant, op.place, slot.generation, &noted) {
            Ok(()) => {
                slot.generation += 1;
                (slot.known, slot.doubtful) = (known(&noted), None);
                Ok(())
            }
            Err(error) => {
                // The content of the store is read on the next request with this `op_id`.
                slot.doubtful = Some(op.note.id);
                Err(error)
            }
        }
    }

    /// Answers a change that was done before: checks the key, appends an audit record, and checks
    /// the permission and the key again before it releases the answer.
    fn replay(
        &self,
        call: &Call<'_>,
        asked: &IdempotentRequest<'_>,
        request: &Request<'_>,
        place: usize,
    ) -> Result<OpStart, Error> {
        let class = self.class_of(request);
        let (noted, begun) = self
            .load_replay(asked, place)
            .or_else(|error| self.failed(call, request, None, error))?;
        let key = noted.made.clone().map(|made| match asked.action {
            Action::Token => administration::token_name(&made),
            _ => made,
        });
        let told = AuditEntry { key, input: None, output: None, outcome: Outcome::Replayed };
        self.append_audit(call, &[self.record(call, request, told.clone())], class)?;
        self.release_result(class, call, request, || told, || self.check_same_key(asked, &noted))?;
        Ok(begun)
    }

    /// Reads the note of a change that was done, and decides what to answer.
    fn load_replay(
        &self,
        asked: &IdempotentRequest<'_>,
        place: usize,
    ) -> Result<(StoredOp, OpStart), Error> {
        let mut noted =
            stored_op(self.kms.context(), asked.tenant, place)?.1.ok_or(Error::OutcomeUnknown)?;
        if noted.request != hex(&asked.request) {
            return Err(Error::OpReused);
        }
        self.check_same_key(asked, &noted)?;
        if let (Action::Destroy | Action::Trim, None, Some(made)) =
            (asked.action, &noted.answer, &noted.made)
        {
            // Steps after the first transaction may be missing.
            self.kms.resume_destruction(&made.parse::<KeyId>()?)?;
        }
        let begun = match (noted.answer.take().map(Zeroizing::new), noted.made.clone()) {
            (_, Some(made)) if asked.is_secret => return Err(Error::OpDone { made }),
            (Some(_), None) if asked.is_secret => return Err(Error::OutcomeUnknown),
            (Some(answer), _) => {
                let answer = of_base64(&answer).ok_or(Error::OutcomeUnknown)?;
                OpStart::Replayed(Zeroizing::new(answer))
            }
            (None, Some(made)) => OpStart::Completed(made),
            // Older programs noted changes before they began them.
            (None, None) => return Err(Error::OutcomeUnknown),
        };
        Ok((noted, begun))
    }

    /// Refuses a replay if the key is missing or deleted, or if another key has its name now.
    fn check_same_key(&self, asked: &IdempotentRequest<'_>, noted: &StoredOp) -> Result<(), Error> {
        let (Some(name), false) =
            (asked.key, matches!(asked.action, Action::Delete | Action::Destroy))
        else {
            // This change itself deleted or destroyed the key.
            return Ok(());
        };
        let id = self.find(&KeyRef { tenant: asked.tenant, name })?;
        match noted.made.as_deref().and_then(key_of) {
            Some(made) if made != id => Err(Error::NoKey(name.to_string())),
            Some(_) | None => self.kms.describe(&id)?.check_not_deleted(),
        }
    }
}

/// Returns whether a change can withdraw the use of a key, a version, a token or a permission.
/// Repeating such a change has no further effect.
fn withdraws_use(asked: &IdempotentRequest<'_>) -> bool {
    match asked.action {
        Action::Disable | Action::Delete | Action::Destroy | Action::Trim => true,
        // Minimum versions, and policies that forbid.
        Action::Config | Action::Policy => true,
        Action::Token => !asked.is_secret,
        _ => false,
    }
}

/// The result of looking up an `op_id`.
enum Lookup {
    /// The change is new.
    New(Op),
    /// The change was done before; its note is at this place.
    Found(usize),
}

/// Parses the id of a key or of a version, and returns the key's id.
fn key_of(made: &str) -> Option<KeyId> {
    let of_version = made.parse::<VersionId>().ok().map(|id| id.key);
    of_version.or_else(|| made.parse().ok())
}

/// Separates these digests from those of older programs.
const OP_ID: &[u8] = b"gabion kms op_id 2\0";

/// Returns a digest of the caller's credential and an `op_id`.
fn id_of(call: &Call<'_>, op_id: &str) -> String {
    let digest = Sha256::new_with_prefix(OP_ID).chain_update(call.who.credential());
    hex(&digest.chain_update(op_id).finalize())
}

/// Returns the digest that older programs used: of the principal's name and an `op_id`. Different
/// callers may have the same name, so such a note is never replayed.
fn id_by_name(call: &Call<'_>, op_id: &str) -> String {
    let principal = call.who.principal().as_str();
    let digest = Sha256::new()
        .chain_update((principal.len() as u64).to_be_bytes())
        .chain_update(principal)
        .chain_update(op_id)
        .finalize();
    hex(&digest)
}

fn path(tenant: &Label, place: usize) -> Result<RecordPath, Error> {
    Ok(RecordPath::new(format!("ops/{tenant}/{place:06}"))?)
}

/// Reads all notes of a tenant, in the order of their places.
fn read_all(kms: &Kms, tenant: &Label) -> Result<Vec<Slot>, Error> {
    let (context, under) = (kms.context(), RecordPath::new(format!("ops/{tenant}"))?);
    let (mut slots, mut after) = (Vec::new(), None);
    loop {
        let page = context.store.list(&under, after.as_ref(), PAGE)?;
        let Some((last, _)) = page.records.last() else { return Ok(slots) };
        after = Some(last.clone());
        for (at, record) in &page.records {
            let place = at.as_str().rsplit('/').next().and_then(|place| place.parse().ok());
            let place = place.filter(|&place: &usize| place < OPS_MAX);
            let place = place.ok_or_else(|| damaged(at, "it has no place among others"))?;
            // A change without a note never happened.
            slots.resize_with(place, Slot::default);
            let Some(value) = &record.value else { return Err(damaged(at, "it was buried")) };
            let plain = context.sealer.open(at, record.generation, value)?;
            slots.push(slot(kms, record.generation, understood(at, &plain)?.as_ref()));
        }
    }
}

/// Rejects a caller whose share of a tenant's notes is used up, so that one caller cannot use up
/// the others' share.
fn check_share(slots: &[Slot], holder: Option<&str>, steady_ms: u64) -> Result<(), Error> {
    let Some(holder) = holder else { return Ok(()) };
    let is_theirs =
        |slot: &&Slot| slot.holder.as_deref() == Some(holder) && !slot.is_free(steady_ms);
    match slots.iter().filter(is_theirs).count() {
        got if got < OPS_OF_CALLER_MAX => Ok(()),
        got => {
            let what = "changes with an op_id a caller, tenant and day";
            Err(Error::TooLarge { what, most: OPS_OF_CALLER_MAX, got: got + 1 })
        }
    }
}

/// Finds a free place for a note among the first `most`. The store decides whether it is free.
fn free(
    kms: &Kms,
    tenant: &Label,
    slots: &mut Vec<Slot>,
    steady_ms: u64,
    most: usize,
) -> Result<usize, Error> {
    loop {
        let place = slots.iter().position(|slot| slot.is_free(steady_ms)).unwrap_or(slots.len());
        if place >= most {
            let what = "changes with an op_id a tenant and day";
            return Err(Error::TooLarge { what, most, got: place + 1 });
        }
        slots.resize_with(slots.len().max(place + 1), Slot::default);
        let found = read_one(kms, tenant, place)?;
        if found.generation == slots[place].generation {
            return Ok(place);
        }
        slots[place] = found;
    }
}

/// Reads the note at a place from the store.
fn read_one(kms: &Kms, tenant: &Label, place: usize) -> Result<Slot, Error> {
    let (generation, noted) = stored_op(kms.context(), tenant, place)?;
    Ok(slot(kms, generation, noted.as_ref()))
}

fn slot(kms: &Kms, generation: u64, noted: Option<&StoredOp>) -> Slot {
    let (now_ms, steady_ms) = (kms.now_ms(), kms.clock().steady_ms());
    let known = noted.map(|noted| CompletedOp::of(noted, now_ms, steady_ms));
    let holder = noted.and_then(|noted| noted.holder.clone());
    Slot { generation, known, holder, ..Slot::default() }
}

/// Reads a record and its generation; 0 if it is missing.
fn stored_op(
    context: &StoreContext,
    tenant: &Label,
    place: usize,
) -> Result<(u64, Option<StoredOp>), Error> {
    let at = path(tenant, place)?;
    let Some((plain, generation)) = opened_bytes(context, &at)? else { return Ok((0, None)) };
    Ok((generation, understood(&at, &plain)?))
}

fn understood(at: &RecordPath, plain: &[u8]) -> Result<Option<StoredOp>, Error> {
    let noted: Option<StoredOp> =
        serde_json::from_slice(plain).map_err(|error| damaged(at, &error.to_string()))?;
    match noted.as_ref().is_some_and(|noted| of_hex::<32>(&noted.id).is_none()) {
        true => Err(damaged(at, "it has no id")),
        false => Ok(noted),
    }
}

fn written(noted: Option<&StoredOp>) -> Result<Zeroizing<Vec<u8>>, Error> {
    let text = serde_json::to_vec(&noted);
    text.map(Zeroizing::new).map_err(|error| Error::Parameter(error.to_string()))
}

/// Writes a record in its own transaction.
fn write(
    context: &StoreContext,
    tenant: &Label,
    place: usize,
    before: u64,
    noted: &StoredOp,
) -> Result<(), Error> {
    let path = path(tenant, place)?;
    let sealed = context.sealer.seal(&path, before + 1, &written(Some(noted))?)?;
    match settle(&*context.store, &Transaction::new().put(path, before, sealed))? {
        SettleOutcome::Committed => Ok(()),
        SettleOutcome::Conflict(_) => Err(Error::Conflict),
        SettleOutcome::Unknown => Err(Error::OutcomeUnknown),
    }
}
