//! The notes of changes with an `op_id`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};

use crate::model::Label;
use crate::operations::Companion;
use crate::text::base64;

/// How long an answer is kept, in milliseconds: 24 hours.
pub const KEPT_MS: u64 = 24 * 60 * 60 * 1000;

/// The notes of each tenant.
#[derive(Default)]
pub struct IdempotencyRecords(pub Mutex<HashMap<Label, Vec<Slot>>>);

/// A note as it is kept in memory, without the answer, which stays in the store.
#[derive(Default)]
pub struct Slot {
    pub generation: u64,
    pub known: Option<CompletedOp>,
    /// The running change that will be noted here: its id and its request.
    pub running: Option<(String, String)>,
    /// A change with an unknown outcome that may still be applied, with its note here.
    pub doubtful: Option<String>,
    /// The caller of the change.
    pub holder: Option<String>,
}

/// A completed change.
#[derive(Clone)]
pub struct CompletedOp {
    pub id: String,
    /// The age of the change when it was read, and the time of that by a monotonic clock.
    pub age_ms: u64,
    pub steady_ms: u64,
}

/// A record as it is stored; `null` if the slot is free. It contains no secret.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredOp {
    /// A digest of the credential and the `op_id`.
    pub id: String,
    /// The SHA-256 of the request.
    pub request: String,
    /// The time.
    pub at_ms: u64,
    /// The caller that the limit counts. `None` in notes of older programs and of the process
    /// itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// The result of the change; the note is part of the change's transaction. `None` in notes of
    /// older programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made: Option<String>,
    /// The answer, in base64. `None` if it was not stored.
    pub answer: Option<String>,
}

impl Slot {
    /// Returns whether another change may be noted here, at a time of the monotonic clock.
    pub fn is_free(&self, steady_ms: u64) -> bool {
        self.running.is_none()
            && self.doubtful.is_none()
            && self.known.as_ref().is_none_or(|known| !known.is_kept(steady_ms))
    }
}

impl StoredOp {
    /// Returns the note of the same change with its result and answer.
    pub fn completed(&self, made: Option<&str>, answer: Option<&[u8]>) -> Self {
        let (made, answer) = (made.map(str::to_owned), answer.map(base64));
        StoredOp { made, answer, ..self.clone() }
    }
}

impl CompletedOp {
    /// Creates the state of a note that was read or written just now.
    pub fn of(noted: &StoredOp, now_ms: u64, steady_ms: u64) -> Self {
        let age_ms = now_ms.saturating_sub(noted.at_ms);
        CompletedOp { id: noted.id.clone(), age_ms, steady_ms }
    }

    /// Returns whether the note is still valid. Jumps of the wall clock while the process runs have
    /// no effect.
    pub fn is_kept(&self, steady_ms: u64) -> bool {
        self.age_ms.saturating_add(steady_ms.saturating_sub(self.steady_ms)) < KEPT_MS
    }
}

/// A running change. Its note is committed by the first transaction of the calls that carry it
/// ([`super::Call::op`]).
#[derive(Debug)]
#[must_use = "what came of it is noted by `op_end`"]
pub struct Op {
    pub(super) tenant: Label,
    pub(super) place: usize,
    /// The note, without the result and the answer.
    pub(super) note: StoredOp,
    /// The generation of the record that the note replaces.
    pub(super) before: u64,
    /// Whether the same change was begun before, and may still be applied.
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
