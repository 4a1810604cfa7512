//! What became of a transaction whose outcome nobody knows.

use super::contract::{Conflict, Outcome, Store};
use super::records::Transaction;
use super::terms::StoreError;

/// How often a transaction is sent before its outcome stays unknown.
const TRIES: usize = 5;

/// What became of a transaction, as far as that can be found out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a transaction is committed only if this says so"]
pub enum Settled {
    /// It happened.
    Committed,
    /// It did not happen, and never will.
    Conflict(Conflict),
    /// Nobody knows, and it may still happen.
    Unknown,
}

/// Commits a transaction, and finds out what became of it where the store does not know.
///
/// It is sent again: each write replaces one generation, so that it can't happen twice, and generations never come
/// back, so that a conflict stays one. What a conflict leaves open is whose write it was. So the first value has to be
/// one that nobody else writes: a sealed one has a random nonce.
///
/// # Errors
/// Those of a first try: then nothing of it is there, and never will be.
pub fn settle(store: &dyn Store, transaction: &Transaction) -> Result<Settled, StoreError> {
    let mut is_open = false;
    for _ in 0..TRIES {
        match store.commit(transaction) {
            Ok(Outcome::Committed(_)) => return Ok(Settled::Committed),
            Ok(Outcome::Conflict(conflict)) if !is_open => return Ok(Settled::Conflict(conflict)),
            Ok(Outcome::Conflict(conflict)) => {
                if let Some(settled) = whose(store, transaction, conflict) {
                    return Ok(settled);
                }
            }
            Ok(Outcome::Unknown) => is_open = true,
            // The last try can't happen any more; the ones before may.
            Err(StoreError::Buried(_)) | Err(StoreError::Unavailable(_)) if is_open => {}
            Err(error) if !is_open => return Err(error),
            Err(_) => return Ok(Settled::Unknown),
        }
    }
    Ok(Settled::Unknown)
}

/// Whether a conflict is with the transaction itself, which happened at an earlier try.
fn whose(store: &dyn Store, transaction: &Transaction, conflict: Conflict) -> Option<Settled> {
    let first = transaction.writes().first()?;
    let read = store.read(std::slice::from_ref(&first.path)).ok()?;
    let found = read.records.first()?.as_ref();
    match found.map_or(0, |record| record.generation) {
        // It was there and was replaced, or it was never there: the record does not say.
        generation if generation > first.before + 1 => Some(Settled::Unknown),
        generation if generation == first.before + 1 => {
            let is_ours = found.is_some_and(|record| record.value == first.value);
            Some(if is_ours { Settled::Committed } else { Settled::Conflict(conflict) })
        }
        _ => Some(Settled::Conflict(conflict)),
    }
}
