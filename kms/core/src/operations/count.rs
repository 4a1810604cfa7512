//! The encryption counters of versions with short random nonces.
//!
//! ```text
//!   versions/TENANT/UUID/NUMBER   the number of reserved messages: a block is reserved before its first message is encrypted
//!   memory                        the rest of the block; lost with the process
//! ```
//!
//! After 2^32 messages, random nonces of 96 bits collide with a probability of 2^-33 (NIST SP
//! 800-38D, section 8.3). At that number a version stops encrypting. A lost block only reduces the
//! number of messages.
//!
//! The counter is part of the version's own record. So a version without a counter encrypts
//! nothing, and versions of different keys share no record.

use std::sync::PoisonError;

use super::kms::Kms;
use super::records::{
    count_path, opened, opened_bytes, read_reserved, rewrite_reserved, version_path,
};
use crate::error::Error;
use crate::model::VersionId;
use crate::store::{SettleOutcome, StoreError, Transaction, settle};

/// The number of messages that are reserved at once. It makes the cost of the commit per message
/// small, and a lost block a small part of the total.
const BLOCK: u64 = 1 << 14;

/// The maximum number of messages of a version.
const MESSAGES_MAX: u64 = 1 << 32;

impl Kms {
    /// Takes one message from the version's limit.
    pub(super) fn reserved(&self, id: &VersionId) -> Result<(), Error> {
        let left = self.state.left.of(id);
        let mut left = left.lock().unwrap_or_else(PoisonError::into_inner);
        if *left == 0 {
            *left = self.block(id)?;
        }
        *left -= 1;
        Ok(())
    }

    /// Reserves a block in the store.
    fn block(&self, id: &VersionId) -> Result<u64, Error> {
        let _changing = self.changing();
        let path = version_path(&id.key, id.version)?;
        let found = match opened_bytes(&self.context, &path) {
            Err(Error::Destroyed) => None,
            found => found?,
        };
        let (bytes, before) = found.ok_or(Error::VersionDestroyed(id.version))?;
        let reserved = match read_reserved(&path, &bytes)? {
            Some(reserved) => reserved,
            // An older program made the version. If it has no counter record, it encrypted nothing,
            // because records cannot be removed unnoticed.
            None => {
                let counted = opened::<u64>(&self.context, &count_path(&id.key, id.version)?)?;
                counted.map_or(0, |(reserved, _)| reserved)
            }
        };
        let next = u64::saturating_add(reserved, BLOCK);
        if next >= MESSAGES_MAX {
            return Err(Error::Exhausted(id.version));
        }
        let bytes = rewrite_reserved(&path, &bytes, next)?;
        let next = self.context.sealer.seal(&path, before + 1, &bytes)?;
        match settle(&*self.context.store, &Transaction::new().put(path, before, next))? {
            SettleOutcome::Committed => Ok(BLOCK),
            SettleOutcome::Conflict(_) => Err(Error::Conflict),
            // If the block was reserved, it is lost.
            SettleOutcome::Unknown => {
                let why = "the outcome of reserving messages is unknown; try again".to_owned();
                Err(StoreError::Unavailable(why).into())
            }
        }
    }
}
