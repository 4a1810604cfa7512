//! What is noted of changes that may be asked for again.

use std::collections::HashMap;
use std::sync::Mutex;

use serde::{Deserialize, Serialize};

use crate::model::Label;

/// How long an answer is kept, in milliseconds: 24 hours.
pub const KEPT_MS: u64 = 24 * 60 * 60 * 1000;

/// What is known of changes, a tenant each.
#[derive(Default)]
pub struct Ops(pub Mutex<HashMap<Label, Vec<Slot>>>);

/// A record, as it is in memory.
pub struct Slot {
    pub generation: u64,
    pub noted: Option<Noted>,
    pub is_running: bool,
}

/// A record, as it is written; `null` where it is free.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Noted {
    /// Whose, and under which name: a digest.
    pub id: String,
    /// SHA-256 of what was asked for.
    pub request: String,
    /// When.
    pub at_ms: u64,
    /// What was answered, in base64. None: the end was never noted.
    pub answer: Option<String>,
}

impl Noted {
    /// Whether it counts still, by a clock that may be wrong.
    pub fn is_kept(&self, now_ms: u64) -> bool {
        self.at_ms.saturating_add(KEPT_MS) > now_ms
    }
}
