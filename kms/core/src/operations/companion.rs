//! What goes with a change, in the change's own transaction: then it is there if and only if the change is.
//!
//! A change runs on one thread from its beginning to its end, so that what goes with it waits there.

use std::cell::RefCell;
use std::fmt::Display;

use zeroize::Zeroizing;

use super::records::Kept;
use crate::error::Error;
use crate::store::{RecordPath, Settled, Transaction, settle};

/// What a record says, by what a change made. It may be secret.
pub type Says = Box<dyn Fn(&str) -> Result<Zeroizing<Vec<u8>>, Error>>;

/// A record that goes with the next change of this thread.
pub struct Rider {
    /// Where.
    pub path: RecordPath,
    /// The generation that it replaces.
    pub before: u64,
    /// What it says, by what the change made.
    pub says: Says,
}

/// What became of a rider.
#[derive(Debug)]
pub enum Rode {
    /// No change took it.
    Not,
    /// It is there, with a change that made this.
    There(String),
    /// Nobody knows, and both may still happen.
    Unknown,
}

struct State {
    waits: Option<Rider>,
    rode: Rode,
}

thread_local! {
    static NEXT: RefCell<Option<State>> = const { RefCell::new(None) };
}

/// Runs something whose first change takes a rider with it.
pub fn riding<T>(rider: Rider, run: impl FnOnce() -> T) -> (T, Rode) {
    /// Also after a panic no other change of this thread finds it.
    struct Gone;

    impl Drop for Gone {
        fn drop(&mut self) {
            NEXT.with_borrow_mut(|next| *next = None);
        }
    }

    NEXT.with_borrow_mut(|next| *next = Some(State { waits: Some(rider), rode: Rode::Not }));
    let gone = Gone;
    let ran = run();
    let rode = NEXT.with_borrow_mut(|next| next.take().map_or(Rode::Not, |state| state.rode));
    drop(gone);
    (ran, rode)
}

/// Commits the record that waits on this thread by itself, for a change that writes nothing else. Does nothing if no record waits.
///
/// # Errors
/// As [`settle()`]; [`Error::Conflict`]; [`Error::OutcomeUnknown`].
pub fn settle_rider(kept: &Kept, made: &dyn Display) -> Result<(), Error> {
    if !NEXT.with_borrow(|next| next.as_ref().is_some_and(|state| state.waits.is_some())) {
        return Ok(());
    }
    match settle_with(kept, &Transaction::new(), made)? {
        Settled::Committed => Ok(()),
        Settled::Conflict(_) => Err(Error::Conflict),
        Settled::Unknown => Err(Error::OutcomeUnknown),
    }
}

/// Commits a change that makes something, with what rides on this thread.
///
/// # Errors
/// As [`settle()`]; then nothing rode.
pub fn settle_with(
    kept: &Kept,
    transaction: &Transaction,
    made: &dyn Display,
) -> Result<Settled, Error> {
    let rider = NEXT.with_borrow_mut(|next| next.as_mut().and_then(|state| state.waits.take()));
    let Some(rider) = rider else { return Ok(settle(&*kept.store, transaction)?) };
    let made = made.to_string();
    let says = (rider.says)(&made)?;
    let sealed = kept.sealer.seal(&rider.path, rider.before + 1, &says)?;
    let both = transaction.clone().put(rider.path.clone(), rider.before, sealed);
    let settled = settle(&*kept.store, &both);
    NEXT.with_borrow_mut(|next| {
        let Some(state) = next else { return };
        match &settled {
            Ok(Settled::Committed) => state.rode = Rode::There(made),
            Ok(Settled::Unknown) => state.rode = Rode::Unknown,
            // It did not happen: another change may take it.
            Ok(Settled::Conflict(_)) | Err(_) => state.waits = Some(rider),
        }
    });
    Ok(settled?)
}
