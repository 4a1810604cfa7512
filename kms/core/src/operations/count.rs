//! How often versions of short nonces have encrypted.
//!
//! ```text
//!   versions/TENANT/UUID/NUMBER   how many messages were reserved: a block is, before its first message is encrypted
//!   memory                        how many of the block are left; lost with the process
//! ```
//!
//! Random nonces of 96 bits meet with a chance of 2^-33 after 2^32 messages (NIST SP 800-38D, section 8.3): at that
//! number a version stops. A number that is lost is one message less.
//!
//! The number stands in the record of the version itself: a version without a number encrypts nothing, and versions of
//! several keys have no record in common.

use std::sync::PoisonError;

use super::kms::Kms;
use super::records::{
    count_path, opened, opened_bytes, read_reserved, rewrite_reserved, version_path,
};
use crate::error::Error;
use crate::model::VersionId;
use crate::store::{SettleOutcome, StoreError, Transaction, settle};

/// Messages that are reserved together: a commit's milliseconds are little beside them, and a block that is lost is
/// little of all.
const BLOCK: u64 = 1 << 14;

/// Messages of a version.
const MESSAGES_MAX: u64 = 1 << 32;

impl Kms {
    /// Takes one message of those that a version may encrypt.
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
            // An older program made the version. Without a record it encrypted nothing: none is ever removed unnoticed.
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
            // The block may be reserved, and then nobody has it.
            SettleOutcome::Unknown => {
                let why = "nobody knows whether messages were reserved; try again".to_owned();
                Err(StoreError::Unavailable(why).into())
            }
        }
    }
}
