//! What became of a transaction whose outcome nobody knows.

use std::cmp::Ordering;

use super::contract::{Conflict, Outcome, Store};
use super::records::{Record, Transaction, Write};
use super::terms::StoreError;

/// How often a transaction is sent before its outcome stays unknown.
const TRIES: usize = 5;

/// The outcome of a transaction, as far as it can be determined.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a transaction is committed only if this says so"]
pub enum SettleOutcome {
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
/// back, so that a conflict stays one. What a conflict leaves open is whose writes there are. So at least one value has
/// to be one that nobody else writes: a sealed one has a random nonce. Burials look alike, whosever they are: a
/// transaction of nothing else may stay unknown.
///
/// # Errors
/// Those of a first try: then nothing of it is there, and never will be. [`StoreError::Buried`] of any.
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
            // The last try can't happen any more; the ones before may.
            Err(StoreError::Unavailable(_)) if is_open => {}
            // Nothing is ever written to a record that was buried when a try came, or before.
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
    /// Unknown: the record was replaced since, or is a tombstone as the transaction would have left it.
    Unknown,
}

/// Whether a conflict is with the transaction itself, which happened at an earlier try. None where the store does not
/// answer.
fn whose(
    store: &dyn Store,
    transaction: &Transaction,
    conflict: Conflict,
) -> Option<SettleOutcome> {
    let guards = transaction.guards().iter().map(|guard| (&guard.path, guard.generation));
    let mut expected =
        transaction.writes().iter().map(|write| (&write.path, write.before)).chain(guards);
    if expected.any(|(path, generation)| *path == conflict.path && generation > conflict.found) {
        // A generation that is to come: the transaction may still happen then.
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
        // All of it happened, or nothing.
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
