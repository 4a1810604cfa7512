//! The unused rest of the messages that were reserved for versions with short nonces. Lost with the
//! process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::model::{Uuid, VersionId};

/// The maximum number of versions that are tracked.
const KNOWN_MAX: usize = 1 << 16;

/// The unused messages by version.
#[derive(Default)]
pub struct NonceBlocks {
    by_version: Mutex<HashMap<(Uuid, u32), NonceBlock>>,
}

/// The number of unused messages of a version.
type NonceBlock = Arc<Mutex<u64>>;

impl NonceBlocks {
    /// Returns the unused messages of a version; 0 if it is not tracked.
    pub fn of(&self, id: &VersionId) -> NonceBlock {
        let mut known = self.by_version.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KNOWN_MAX {
            // The dropped messages are lost, as at the end of the process.
            known.clear();
        }
        Arc::clone(known.entry((id.key.uuid, id.version)).or_default())
    }
}
