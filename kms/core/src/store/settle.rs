//! Resolves transactions whose outcome is unknown.

use std::cmp::Ordering;

use super::contract::{Conflict, Outcome, Store};
use super::records::{Record, Transaction, Write};
use super::terms::StoreError;

/// The maximum number of attempts before the outcome stays unknown.
const TRIES: usize = 5;

/// The outcome of a transaction, as far as it can be determined.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a transaction is committed only if this says so"]
pub enum SettleOutcome {
    /// The transaction was applied.
    Committed,
    /// The transaction was not applied, and never will be.
    Conflict(Conflict),
    /// The outcome is unknown, and the transaction may still be applied.
    Unknown,
}

/// Commits a transaction, and finds out its outcome if the store does not know it.
///
/// The transaction is sent again: each write replaces one generation, so it cannot be applied
/// twice, and generations never go back, so a conflict stays a conflict. A conflict alone does not
/// say whose write is in the store. Therefore at least one value has to be unique to this
/// transaction, such as a sealed value with a random nonce. Tombstones all look alike: a
/// transaction that only writes tombstones may stay unknown.
///
/// # Errors
/// An error of the first attempt: then nothing was applied, and never will be.
/// [`StoreError::Buried`] of any attempt.
pub fn settle(store: &dyn Store, transaction: &Transaction) -> Result<SettleOutcome, StoreError> {
    let mut is_open = false;
    for _ in 0..TRIES {
        match store.commit(transaction) {
            Ok(Outcome::Committed(_)) => return Ok(SettleOutcome::Committed),
            Ok(Outcome::Conflict(conflict)) if !is_open => {
                return Ok(SettleOutcome::Conflict(conflict));
            }
            Ok(Outcome::Conflict(conflict)) => {
                if let Some(settled) = whose(store, transaction, conflict) {
                    return Ok(settled);
                }
            }
            Ok(Outcome::Unknown) => is_open = true,
            // The last attempt cannot be applied anymore, but earlier ones may be.
            Err(StoreError::Unavailable(_)) if is_open => {}
            // A tombstone that exists when an attempt arrives rejects this and all later attempts.
            Err(error @ StoreError::Buried(_)) => return Err(error),
            Err(error) if !is_open => return Err(error),
            Err(_) => return Ok(SettleOutcome::Unknown),
        }
    }
    Ok(SettleOutcome::Unknown)
}

/// The writer of a record that a transaction was to write.
enum WriteOwner {
    /// This transaction.
    Own,
    /// Another transaction.
    Foreign,
    /// Unknown: the record was replaced since, or is a tombstone as the transaction would have left
    /// it.
    Unknown,
}

/// Finds out whether a conflict is with the transaction itself, applied by an earlier attempt.
/// Returns `None` if the store is unavailable.
fn whose(
    store: &dyn Store,
    transaction: &Transaction,
    conflict: Conflict,
) -> Option<SettleOutcome> {
    let guards = transaction.guards().iter().map(|guard| (&guard.path, guard.generation));
    let mut expected =
        transaction.writes().iter().map(|write| (&write.path, write.before)).chain(guards);
    if expected.any(|(path, generation)| *path == conflict.path && generation > conflict.found) {
        // A generation in the future: the transaction may still be applied.
        return None;
    }
    let paths: Vec<_> = transaction.writes().iter().map(|write| write.path.clone()).collect();
    let found = store.read(&paths).ok()?.records;
    let (mut is_own, mut is_foreign) = (false, false);
    for (write, found) in transaction.writes().iter().zip(&found) {
        match whose_record(write, found.as_ref()) {
            WriteOwner::Own => is_own = true,
            WriteOwner::Foreign => is_foreign = true,
            WriteOwner::Unknown => {}
        }
    }
    Some(match (is_foreign, is_own) {
        (true, _) => SettleOutcome::Conflict(conflict),
        // A transaction is applied as a whole or not at all.
        (false, true) => SettleOutcome::Committed,
        (false, false) => SettleOutcome::Unknown,
    })
}

fn whose_record(write: &Write, found: Option<&Record>) -> WriteOwner {
    let generation = found.map_or(0, |record| record.generation);
    let value = found.and_then(|record| record.value.as_ref());
    match (generation.cmp(&(write.before + 1)), &write.value) {
        (Ordering::Less, _) => WriteOwner::Foreign,
        (Ordering::Greater, _) => WriteOwner::Unknown,
        (Ordering::Equal, None) if value.is_none() => WriteOwner::Unknown,
        (Ordering::Equal, wanted) if wanted.as_ref() == value => WriteOwner::Own,
        (Ordering::Equal, _) => WriteOwner::Foreign,
    }
}
