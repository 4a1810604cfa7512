//! The context of operations: the store, its sealer, the engine, and the companion record of a
//! change.

use std::fmt::Display;
use std::sync::Arc;

use gabion_engine::Engine;

use super::companion::Companion;
use crate::error::Error;
use crate::seal::{AuthenticatedStore, Sealer};
use crate::store::{SettleOutcome, Store, Transaction, settle};

/// The store, the sealer of its records, the engine of their keys, and the companion record of a
/// change. Cheap to clone.
#[derive(Clone)]
pub struct StoreContext {
    pub engine: Arc<Engine>,
    /// The store of `records`, for code that only reads and commits.
    pub store: Arc<dyn Store>,
    pub records: Arc<AuthenticatedStore<Arc<dyn Store>>>,
    pub sealer: Arc<Sealer>,
    /// The record that the next change commits ([`super::companion`]).
    pub companion: Option<Arc<Companion>>,
}

/// Commits the pending companion record in its own transaction, for a change that writes nothing
/// else. Does nothing if no record is pending.
///
/// # Errors
/// Those of [`settle()`]; [`Error::Conflict`]; [`Error::OutcomeUnknown`].
pub fn settle_companion(context: &StoreContext, made: &dyn Display) -> Result<(), Error> {
    if !context.companion.as_ref().is_some_and(|companion| companion.is_pending()) {
        return Ok(());
    }
    match settle_with(context, &Transaction::new(), made)? {
        SettleOutcome::Committed => Ok(()),
        SettleOutcome::Conflict(_) => Err(Error::Conflict),
        SettleOutcome::Unknown => Err(Error::OutcomeUnknown),
    }
}

/// Commits a change with the result `made`, together with the pending companion record of its
/// handle.
///
/// # Errors
/// Those of [`settle()`]; then the companion record is still pending.
pub fn settle_with(
    context: &StoreContext,
    transaction: &Transaction,
    made: &dyn Display,
) -> Result<SettleOutcome, Error> {
    match &context.companion {
        Some(companion) => {
            companion.settle_with(&*context.store, &context.sealer, transaction, made)
        }
        None => Ok(settle(&*context.store, transaction)?),
    }
}
