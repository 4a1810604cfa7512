//! What goes with a change, in the change's own transaction: then it is there if and only if the change is.
//!
//! A change runs on one thread from its beginning to its end, so that what goes with it waits there.

use std::cell::RefCell;
use std::fmt::Display;

use zeroize::Zeroizing;

use super::records::StoreContext;
use crate::error::Error;
use crate::store::{RecordPath, SettleOutcome, Transaction, settle};

/// The payload of a companion record, from what its change made. It may be secret.
pub type Payload = Box<dyn Fn(&str) -> Result<Zeroizing<Vec<u8>>, Error>>;

/// A record that is committed with the next change of this thread.
pub struct CompanionRecord {
    /// Where.
    pub path: RecordPath,
    /// The generation that it replaces.
    pub before: u64,
    /// What it says, by what the change made.
    pub payload: Payload,
}

/// The outcome of a companion record.
#[derive(Debug)]
pub enum CompanionOutcome {
    /// No change took it.
    Unused,
    /// It is there, with a change that made this.
    Committed(String),
    /// Nobody knows, and both may still happen.
    Unknown,
}

struct State {
    pending: Option<CompanionRecord>,
    outcome: CompanionOutcome,
}

thread_local! {
    static NEXT: RefCell<Option<State>> = const { RefCell::new(None) };
}

/// Runs `run`, whose first change commits the companion record with it.
pub fn commit_with<T>(
    companion: CompanionRecord,
    run: impl FnOnce() -> T,
) -> (T, CompanionOutcome) {
    /// Also after a panic no other change of this thread finds it.
    struct ClearOnDrop;

    impl Drop for ClearOnDrop {
        fn drop(&mut self) {
            NEXT.with_borrow_mut(|next| *next = None);
        }
    }

    NEXT.with_borrow_mut(|next| {
        *next = Some(State { pending: Some(companion), outcome: CompanionOutcome::Unused })
    });
    let guard = ClearOnDrop;
    let ran = run();
    let outcome = NEXT.with_borrow_mut(|next| {
        next.take().map_or(CompanionOutcome::Unused, |state| state.outcome)
    });
    drop(guard);
    (ran, outcome)
}

/// Commits the record that waits on this thread by itself, for a change that writes nothing else. Does nothing if no record waits.
///
/// # Errors
/// As [`settle()`]; [`Error::Conflict`]; [`Error::OutcomeUnknown`].
pub fn settle_companion(kept: &StoreContext, made: &dyn Display) -> Result<(), Error> {
    if !NEXT.with_borrow(|next| next.as_ref().is_some_and(|state| state.pending.is_some())) {
        return Ok(());
    }
    match settle_with(kept, &Transaction::new(), made)? {
        SettleOutcome::Committed => Ok(()),
        SettleOutcome::Conflict(_) => Err(Error::Conflict),
        SettleOutcome::Unknown => Err(Error::OutcomeUnknown),
    }
}

/// Commits a change that makes something, with what rides on this thread.
///
/// # Errors
/// As [`settle()`]; then nothing rode.
pub fn settle_with(
    kept: &StoreContext,
    transaction: &Transaction,
    made: &dyn Display,
) -> Result<SettleOutcome, Error> {
    let companion =
        NEXT.with_borrow_mut(|next| next.as_mut().and_then(|state| state.pending.take()));
    let Some(companion) = companion else { return Ok(settle(&*kept.store, transaction)?) };
    let made = made.to_string();
    let payload = (companion.payload)(&made)?;
    let sealed = kept.sealer.seal(&companion.path, companion.before + 1, &payload)?;
    let both = transaction.clone().put(companion.path.clone(), companion.before, sealed);
    let settled = settle(&*kept.store, &both);
    NEXT.with_borrow_mut(|next| {
        let Some(state) = next else { return };
        match &settled {
            Ok(SettleOutcome::Committed) => state.outcome = CompanionOutcome::Committed(made),
            Ok(SettleOutcome::Unknown) => state.outcome = CompanionOutcome::Unknown,
            // It did not happen: another change may take it.
            Ok(SettleOutcome::Conflict(_)) | Err(_) => state.pending = Some(companion),
        }
    });
    Ok(settled?)
}
