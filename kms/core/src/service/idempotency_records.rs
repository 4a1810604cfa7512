//! What is noted of changes that may be asked for again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};

use crate::model::Label;
use crate::operations::Companion;
use crate::text::base64;

/// How long an answer is kept, in milliseconds: 24 hours.
pub const KEPT_MS: u64 = 24 * 60 * 60 * 1000;

/// What is known of changes, a tenant each.
#[derive(Default)]
pub struct IdempotencyRecords(pub Mutex<HashMap<Label, Vec<Slot>>>);

/// A record, as far as it is in memory: answers stay in the store.
#[derive(Default)]
pub struct Slot {
    pub generation: u64,
    pub known: Option<CompletedOp>,
    /// The change that is under way and is to be noted here, and what is asked for.
    pub running: Option<(String, String)>,
    /// The change that may have happened, and may still happen, with its note here.
    pub doubtful: Option<String>,
    /// Whose change it is or was.
    pub holder: Option<String>,
}

/// A completed change.
#[derive(Clone)]
pub struct CompletedOp {
    pub id: String,
    /// How old it was, and when, by a clock that never jumps.
    pub age_ms: u64,
    pub steady_ms: u64,
}

/// A record as it is stored; `null` if the slot is free. It contains no secret.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredOp {
    /// Whose, and under which name: a digest.
    pub id: String,
    /// SHA-256 of what was asked for.
    pub request: String,
    /// When.
    pub at_ms: u64,
    /// Who is limited to a number of notes. None in notes of older programs, and of the process itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// What the change made: the note is in the transaction of the change. None in notes of older programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made: Option<String>,
    /// What was answered, in base64. None: that was not noted.
    pub answer: Option<String>,
}

impl Slot {
    /// Whether another change may be noted here, at a time of the clock that never jumps.
    pub fn is_free(&self, steady_ms: u64) -> bool {
        self.running.is_none()
            && self.doubtful.is_none()
            && self.known.as_ref().is_none_or(|known| !known.is_kept(steady_ms))
    }
}

impl StoredOp {
    /// The note of the same change with what it made and answered.
    pub fn completed(&self, made: Option<&str>, answer: Option<&[u8]>) -> Self {
        let (made, answer) = (made.map(str::to_owned), answer.map(base64));
        StoredOp { made, answer, ..self.clone() }
    }
}

impl CompletedOp {
    /// Of a note that is read, or was written just now.
    pub fn of(noted: &StoredOp, now_ms: u64, steady_ms: u64) -> Self {
        let age_ms = now_ms.saturating_sub(noted.at_ms);
        CompletedOp { id: noted.id.clone(), age_ms, steady_ms }
    }

    /// Whether it counts still. A clock that jumps while the process runs changes nothing.
    pub fn is_kept(&self, steady_ms: u64) -> bool {
        self.age_ms.saturating_add(steady_ms.saturating_sub(self.steady_ms)) < KEPT_MS
    }
}

/// A change that is under way. Its note is committed by the first transaction of the calls that carry it ([`super::Call::op`]).
#[derive(Debug)]
#[must_use = "what came of it is noted by `op_end`"]
pub struct Op {
    pub(super) tenant: Label,
    pub(super) place: usize,
    /// The note, without what the change made and answered.
    pub(super) note: StoredOp,
    /// The generation of the record that the note replaces.
    pub(super) before: u64,
    /// Whether the same was begun before, and may still happen.
    pub(super) was_doubtful: bool,
    pub(super) is_secret: bool,
    /// The note, to be committed with the change.
    pub(super) companion: Arc<Companion>,
}

impl Op {
    /// Returns the note, for the handle that runs the change.
    pub(super) fn companion(&self) -> Arc<Companion> {
        self.companion.clone()
    }
}
