//! What is left of the messages that versions of short nonces were reserved; lost with the process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::model::{Uuid, VersionId};

/// Versions whose blocks are kept in mind.
const KNOWN_MAX: usize = 1 << 16;

/// The reserved nonces that are left, by version.
#[derive(Default)]
pub struct NonceBlocks {
    by_version: Mutex<HashMap<(Uuid, u32), NonceBlock>>,
}

/// The reserved nonces that one version has left.
type NonceBlock = Arc<Mutex<u64>>;

impl NonceBlocks {
    /// What is left of one version. Where nothing is known of it, nothing is left.
    pub fn of(&self, id: &VersionId) -> NonceBlock {
        let mut known = self.by_version.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KNOWN_MAX {
            // What goes is lost, as at the end of the process.
            known.clear();
        }
        Arc::clone(known.entry((id.key.uuid, id.version)).or_default())
    }
}
