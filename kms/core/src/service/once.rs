//! Changes that are asked for again and done once: `op_id`.
//!
//! ```text
//!   op_id, request --may they?--> new:     noted, durably --> the change --> its answer is noted
//!                            \--> known:   is the key still there? --> the answer of before
//!                            \--> another request under it, or one whose end nobody noted: refused
//! ```
//!
//! What is noted belongs to a tenant and a principal, and is sealed. A record is used again when a day has passed, so that
//! the store does not grow with each change.

use std::sync::PoisonError;

use sha2_hmac::{Digest as _, Sha256};

use super::changes::of;
use super::ops::{Noted, Slot};
use super::run::{Call, KeyRef, Service, now_ms};
use crate::error::Error;
use crate::gate::Action;
use crate::model::Label;
use crate::operations::{Kept, damaged};
use crate::store::{RecordPath, Settled, Transaction, settle};
use crate::text::{base64, hex, of_base64, of_hex};

/// Most answers that are kept of a tenant.
pub const OPS_MAX: usize = 1024;

/// Most bytes of an op_id.
pub const OP_ID_MAX: usize = 128;

/// Most bytes of an answer that is kept.
const ANSWER_MAX: usize = 64 << 10;

/// Records that are read together.
const PAGE: usize = 100;

/// A change under a caller's own name for it.
#[derive(Clone, Copy, Debug)]
pub struct OpRequest<'a> {
    /// The name.
    pub op_id: &'a str,
    /// SHA-256 of all that is asked for, in one form.
    pub request: [u8; 32],
    /// Which kind of change it is.
    pub action: Action,
    /// Whose keys it is about.
    pub tenant: &'a Label,
    /// About which key.
    pub key: &'a Label,
}

/// What is to be done with a change.
#[derive(Debug)]
pub enum Begun {
    /// It is new: do it, and note what came of it.
    New(Op),
    /// It was done before, with this answer.
    Done(Vec<u8>),
}

/// A change that is under way.
#[derive(Debug)]
#[must_use = "what came of it is noted by `op_end`"]
pub struct Op {
    tenant: Label,
    place: usize,
}

/// What came of a change.
#[derive(Clone, Copy, Debug)]
pub enum Ended<'a> {
    /// It was done, and this was answered.
    Done(&'a [u8]),
    /// It was not done: who asks again is new.
    Not,
    /// Nobody knows.
    Unknown,
}

impl Service {
    /// Begins a change under a caller's name for it, or finds that it was done.
    ///
    /// # Errors
    /// [`Error::OpReused`]; [`Error::OpRunning`]; [`Error::OutcomeUnknown`] of a change whose end nobody noted;
    /// [`Error::TooLarge`] where as many are kept as may be; a name that can't be one; not allowed; of a change that was
    /// done: there is no such key any more, or it is deleted.
    pub fn op_begin(&self, call: &Call<'_>, asked: &OpRequest<'_>) -> Result<Begun, Error> {
        let is_name = !asked.op_id.is_empty()
            && asked.op_id.len() <= OP_ID_MAX
            && asked.op_id.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_name {
            let why = format!("an op_id has 1 to {OP_ID_MAX} visible characters of ASCII");
            return Err(Error::Parameter(why));
        }
        let key = KeyRef { tenant: asked.tenant, name: asked.key };
        self.permit(call, &of(asked.action, &key), None)?;
        let (id, now) = (id_of(call, asked.op_id), now_ms());
        let mut all = self.ops.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !all.contains_key(asked.tenant) {
            let read = read(self.kms.kept(), asked.tenant)?;
            all.insert(asked.tenant.clone(), read);
        }
        let slots = all.entry(asked.tenant.clone()).or_default();
        let known = slots.iter().find_map(|slot| {
            let noted = slot.noted.as_ref()?;
            (noted.id == id && noted.is_kept(now)).then_some((noted.clone(), slot.is_running))
        });
        if let Some((noted, is_running)) = known {
            drop(all);
            return self.again(asked, &noted, is_running).map(Begun::Done);
        }
        let is_free = |slot: &Slot| {
            !slot.is_running && slot.noted.as_ref().is_none_or(|noted| !noted.is_kept(now))
        };
        let place = slots.iter().position(is_free).unwrap_or(slots.len());
        if place >= OPS_MAX {
            let what = "changes with an op_id a tenant and day";
            return Err(Error::TooLarge { what, most: OPS_MAX, got: place + 1 });
        }
        let noted = Noted { id, request: hex(&asked.request), at_ms: now, answer: None };
        if place == slots.len() {
            slots.push(Slot { generation: 0, noted: None, is_running: false });
        }
        let written = slots.get_mut(place).map_or(Ok(()), |slot| {
            slot.is_running = true;
            write(self.kms.kept(), asked.tenant, place, slot, Some(noted))
        });
        // What the store has now is read when somebody asks next.
        if let Err(error) = written {
            all.remove(asked.tenant);
            return Err(error);
        }
        Ok(Begun::New(Op { tenant: asked.tenant.clone(), place }))
    }

    /// Notes what came of a change.
    ///
    /// # Errors
    /// The store's: then the change stays one whose end nobody knows.
    pub fn op_end(&self, op: Op, ended: Ended<'_>) -> Result<(), Error> {
        let mut all = self.ops.0.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = all.get_mut(&op.tenant).and_then(|slots| slots.get_mut(op.place));
        let Some(slot) = slot else { return Ok(()) };
        slot.is_running = false;
        let noted = match (ended, slot.noted.clone()) {
            (Ended::Not, _) => None,
            (Ended::Done(answer), Some(noted)) if answer.len() <= ANSWER_MAX => {
                Some(Noted { answer: Some(base64(answer)), ..noted })
            }
            (Ended::Done(_) | Ended::Unknown, _) => return Ok(()),
        };
        let written = write(self.kms.kept(), &op.tenant, op.place, slot, noted);
        if written.is_err() {
            all.remove(&op.tenant);
        }
        written
    }

    /// The answer of a change that was done, for who may still have it done.
    fn again(
        &self,
        asked: &OpRequest<'_>,
        noted: &Noted,
        is_running: bool,
    ) -> Result<Vec<u8>, Error> {
        if noted.request != hex(&asked.request) {
            return Err(Error::OpReused);
        }
        if is_running {
            return Err(Error::OpRunning);
        }
        let answer = noted.answer.as_ref().ok_or(Error::OutcomeUnknown)?;
        // What is gone meanwhile is no longer there to be told of, unless that was what was asked for.
        if !matches!(asked.action, Action::Delete | Action::Destroy) {
            let key = KeyRef { tenant: asked.tenant, name: asked.key };
            self.kms.describe(&self.find(&key)?)?.check_not_deleted()?;
        }
        of_base64(answer).ok_or(Error::OutcomeUnknown)
    }
}

/// Who asks under which name: one digest of both.
fn id_of(call: &Call<'_>, op_id: &str) -> String {
    let principal = call.who.principal().to_string();
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

/// All that is noted of a tenant, in the order of its places.
fn read(kept: &Kept, tenant: &Label) -> Result<Vec<Slot>, Error> {
    let under = RecordPath::new(format!("ops/{tenant}"))?;
    let (mut slots, mut after) = (Vec::new(), None);
    loop {
        let page = kept.store.list(&under, after.as_ref(), PAGE)?;
        let Some((last, _)) = page.records.last() else { return Ok(slots) };
        after = Some(last.clone());
        for (at, record) in &page.records {
            if *at != path(tenant, slots.len())? {
                return Err(damaged(at, "one before it is missing"));
            }
            let Some(value) = &record.value else { return Err(damaged(at, "it was buried")) };
            let plain = kept.sealer.open(at, record.generation, value)?;
            let noted: Option<Noted> =
                serde_json::from_slice(&plain).map_err(|error| damaged(at, &error.to_string()))?;
            if noted.as_ref().is_some_and(|noted| of_hex::<32>(&noted.id).is_none()) {
                return Err(damaged(at, "it has no id"));
            }
            slots.push(Slot { generation: record.generation, noted, is_running: false });
        }
    }
}

/// Writes a record, and what is known of it.
fn write(
    kept: &Kept,
    tenant: &Label,
    place: usize,
    slot: &mut Slot,
    noted: Option<Noted>,
) -> Result<(), Error> {
    let path = path(tenant, place)?;
    let text = serde_json::to_vec(&noted).map_err(|error| damaged(&path, &error.to_string()))?;
    let sealed = kept.sealer.seal(&path, slot.generation + 1, &text)?;
    match settle(&*kept.store, &Transaction::new().put(path, slot.generation, sealed))? {
        Settled::Committed => {
            slot.generation += 1;
            slot.noted = noted;
            Ok(())
        }
        Settled::Conflict(_) => Err(Error::Conflict),
        Settled::Unknown => Err(Error::OutcomeUnknown),
    }
}
