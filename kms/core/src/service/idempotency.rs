//! Changes that are asked for again and done once: `op_id`.
//!
//! ```text
//!   op_id, request --may they?--> new:     the change, and in its transaction what it made --> its answer is noted
//!                            \--> known:   is the key still there? --> the answer of before, or what it made
//!                            \--> another request under it, or one whose end nobody knows: refused
//! ```
//!
//! A note belongs to a tenant and a credential ([`crate::gate::Caller::credential`]), and is sealed. A change and its note
//! are one transaction: whenever the process ends, either both are there or neither is, and a change that is sent again is done once. A
//! record is reused after a day, so that the store does not grow with each change.
//!
//! A note never contains a secret. If the answer of a change is secret, it is not stored, and a replay fails with `op_id_done`, which
//! names what was made. A replay is authorised like the change itself, checks the key's state, and appends an audit record.

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

/// Most answers that are kept of a tenant.
pub const OPS_MAX: usize = 4096;

/// Most of these that one caller takes: the holders of a token and its attenuations, or of a certificate's name.
pub const OPS_OF_CALLER_MAX: usize = 1024;

/// How many are kept free for changes of tokens and policies.
pub const OPS_RESERVED: usize = 512;

/// Most bytes of an op_id.
pub const OP_ID_MAX: usize = 128;

/// Most bytes of an answer that is kept.
const ANSWER_MAX: usize = 64 << 10;

/// Records that are read together.
const PAGE: usize = 100;

/// A change with an `op_id`, the caller's own name for it.
#[derive(Clone, Copy, Debug)]
pub struct IdempotentRequest<'a> {
    /// The name.
    pub op_id: &'a str,
    /// SHA-256 of all that is asked for, in one form.
    pub request: [u8; 32],
    /// Which kind of change it is.
    pub action: Action,
    /// Whose keys it is about, or who counts it.
    pub tenant: &'a Label,
    /// About which key; none where it is about no key, as tokens and policies are.
    pub key: Option<&'a Label>,
    /// Whether the answer is secret, as that of a new token is.
    pub is_secret: bool,
}

/// How to go on with a change that has an `op_id`.
#[derive(Debug)]
pub enum OpStart {
    /// It is new: run it with calls that carry the op ([`Call::op`]), then pass its result to `op_end`.
    New(Op),
    /// It withdraws use, and as many notes are kept as may be: do it without a note. A limit refuses no revocation.
    Untracked,
    /// It was done before; replay this answer.
    Replayed(Zeroizing<Vec<u8>>),
    /// It was done before, and the process ended before its answer was noted: what it made, which is the id of a version
    /// or key, or of a token, or the version of a set of policies.
    Completed(String),
}

/// The result of a change.
#[derive(Clone, Copy, Debug)]
pub enum OpResult<'a> {
    /// It was done, and this was answered.
    Done(&'a [u8]),
    /// It was refused, or failed.
    Failed,
}

impl Service {
    /// Begins a change under a caller's name for it, or finds that it was done.
    ///
    /// # Errors
    /// [`Error::OpReused`]; [`Error::OpOfName`]; [`Error::OpRunning`]; [`Error::OutcomeUnknown`] of a change whose end nobody
    /// knows; [`Error::TooLarge`] if as many are kept as may be, unless the change withdraws use; a name that can't be one; not allowed; of a change that was
    /// done: [`Error::OpDone`] if its answer is secret; the key is missing, another one or deleted; the audit log's.
    pub fn op_begin(
        &self,
        call: &Call<'_>,
        asked: &IdempotentRequest<'_>,
    ) -> Result<OpStart, Error> {
        self.op_begin_making(call, asked, None)
    }

    /// The same of a change that makes a key, which policies are asked about.
    ///
    /// # Errors
    /// As [`Self::op_begin`].
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
            // It has happened by now, or it never will once this one has: they replace the same generation.
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

    /// Notes what was answered. What was done is known without that, too.
    ///
    /// # Errors
    /// The store's.
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
        // Where nothing was to be changed, as with a token that was revoked before, this is all that is noted.
        let noted = op.note.completed(made.as_deref(), Some(answer).filter(|_| is_stored));
        match write(kms.context(), &op.tenant, op.place, slot.generation, &noted) {
            Ok(()) => {
                slot.generation += 1;
                (slot.known, slot.doubtful) = (known(&noted), None);
                Ok(())
            }
            Err(error) => {
                // What the store has now is read when somebody asks for it again.
                slot.doubtful = Some(op.note.id);
                Err(error)
            }
        }
    }

    /// Answers a change that was done before: checks the key, appends an audit record, and checks authority and key again before it
    /// releases the answer.
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
            // What comes behind the first transaction may be missing.
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
            // A program of before noted changes before it began them.
            (None, None) => return Err(Error::OutcomeUnknown),
        };
        Ok((noted, begun))
    }

    /// Refuses a replay if the key is missing or deleted, or if another key has its name now.
    fn check_same_key(&self, asked: &IdempotentRequest<'_>, noted: &StoredOp) -> Result<(), Error> {
        let (Some(name), false) =
            (asked.key, matches!(asked.action, Action::Delete | Action::Destroy))
        else {
            // A key that was deleted or destroyed by this change is gone.
            return Ok(());
        };
        let id = self.find(&KeyRef { tenant: asked.tenant, name })?;
        match noted.made.as_deref().and_then(key_of) {
            Some(made) if made != id => Err(Error::NoKey(name.to_string())),
            Some(_) | None => self.kms.describe(&id)?.check_not_deleted(),
        }
    }
}

/// Whether a change can take a key, a version, a token or a permission out of use. Done twice, it is the same.
fn withdraws_use(asked: &IdempotentRequest<'_>) -> bool {
    match asked.action {
        Action::Disable | Action::Delete | Action::Destroy | Action::Trim => true,
        // Limits of versions, and policies that forbid.
        Action::Config | Action::Policy => true,
        Action::Token => !asked.is_secret,
        _ => false,
    }
}

/// The result of looking up an op_id.
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

/// A digest of the caller's credential and an op_id.
fn id_of(call: &Call<'_>, op_id: &str) -> String {
    let digest = Sha256::new_with_prefix(OP_ID).chain_update(call.who.credential());
    hex(&digest.chain_update(op_id).finalize())
}

/// The digest that older programs used: of the principal's name and an op_id. A name identifies nobody, so such a note is never
/// replayed.
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

/// All that is known of a tenant, in the order of its places.
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
            // Of one that is missing the change never happened.
            slots.resize_with(place, Slot::default);
            let Some(value) = &record.value else { return Err(damaged(at, "it was buried")) };
            let plain = context.sealer.open(at, record.generation, value)?;
            slots.push(slot(kms, record.generation, understood(at, &plain)?.as_ref()));
        }
    }
}

/// Refuses a caller whose share of a tenant's notes is used up, so that nobody uses up those of others.
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

/// A place for a note, of the first `most`. The store has the last word of what is there.
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

/// What the store has at a place.
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

/// A record and its generation; 0 where there is none.
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

/// Writes a record by itself.
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
