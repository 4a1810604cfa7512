//! A record that a change commits in its own transaction: the record exists if and only if the
//! change was applied.
//!
//! [`super::Kms::with`] returns a handle whose first transaction includes the record. No other
//! handle can reach it.

use std::fmt::{self, Debug, Display};
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};

use zeroize::Zeroizing;

use crate::error::Error;
use crate::seal::Sealer;
use crate::store::{RecordPath, SettleOutcome, Store, Transaction, settle};

/// Computes the payload of a companion record from the result of its change. The payload may be
/// secret.
pub type Payload = Box<dyn Fn(&str) -> Result<Zeroizing<Vec<u8>>, Error> + Send>;

/// A record to commit with a change.
pub struct CompanionRecord {
    /// The path of the record.
    pub path: RecordPath,
    /// The generation that the record replaces.
    pub before: u64,
    /// Computes the payload.
    pub payload: Payload,
}

/// The outcome of a companion record.
#[derive(Debug)]
pub enum CompanionOutcome {
    /// No transaction has included it.
    Unused,
    /// It was committed with a change. Has the change's result.
    Committed(String),
    /// The store does not know whether the record and its change were committed. Both may still be.
    Unknown,
}

/// A companion record and its outcome, shared between a change and the handle that runs it.
pub struct Companion(Mutex<State>);

enum State {
    Pending(CompanionRecord),
    Committed(String),
    Unknown,
}

impl Companion {
    /// Wraps a record that no transaction has included.
    pub fn new(record: CompanionRecord) -> Self {
        Companion(Mutex::new(State::Pending(record)))
    }

    /// Returns the record's current outcome.
    pub fn outcome(&self) -> CompanionOutcome {
        match &*self.state() {
            State::Pending(_) => CompanionOutcome::Unused,
            State::Committed(made) => CompanionOutcome::Committed(made.clone()),
            State::Unknown => CompanionOutcome::Unknown,
        }
    }

    pub(super) fn is_pending(&self) -> bool {
        matches!(*self.state(), State::Pending(_))
    }

    /// Commits a transaction, together with the record if it is pending.
    pub(super) fn settle_with(
        &self,
        store: &dyn Store,
        sealer: &Sealer,
        transaction: &Transaction,
        made: &dyn Display,
    ) -> Result<SettleOutcome, Error> {
        let mut state = self.state();
        let State::Pending(record) = &*state else {
            return Ok(settle(store, transaction)?);
        };
        let made = made.to_string();
        let payload = (record.payload)(&made)?;
        let sealed = sealer.seal(&record.path, record.before + 1, &payload)?;
        let both = transaction.clone().put(record.path.clone(), record.before, sealed);
        // If a panic interrupts the store, the outcome is unknown.
        let pending = mem::replace(&mut *state, State::Unknown);
        let settled = settle(store, &both);
        match &settled {
            Ok(SettleOutcome::Committed) => *state = State::Committed(made),
            Ok(SettleOutcome::Unknown) => {}
            // Nothing was written: the next transaction of this change may include the record.
            Ok(SettleOutcome::Conflict(_)) | Err(_) => *state = pending,
        }
        Ok(settled?)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Debug for Companion {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("Companion").field(&self.outcome()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::super::{Kms, NewKey, settle_companion, settle_with};
    use super::*;
    use crate::model::Label;

    fn key(name: &str) -> NewKey {
        let [tenant, purpose, name] =
            ["default", "transit", name].map(|text| Label::new("label", text).unwrap());
        NewKey { tenant, purpose, name, algorithm: "ed25519".parse().unwrap() }
    }

    /// A failed transaction leaves the record to the next one, and later transactions do not find
    /// it.
    #[test]
    fn one_transaction_takes_the_record() {
        let kms = Kms::in_memory().unwrap();
        let is_refused = Arc::new(AtomicBool::new(true));
        let refused = is_refused.clone();
        let path = RecordPath::new("ops/default/000000").unwrap();
        let payload = move |made: &str| match refused.load(Ordering::Relaxed) {
            true => Err(Error::Conflict),
            false => Ok(Zeroizing::new(made.as_bytes().to_vec())),
        };
        let record = CompanionRecord { path: path.clone(), before: 0, payload: Box::new(payload) };
        let companion = Arc::new(Companion::new(record));
        let handle = kms.with(companion.clone());
        let written = || super::super::opened_bytes(kms.context(), &path).unwrap();
        // Another handle does not find it.
        kms.create(&key("a")).unwrap();
        assert_eq!(handle.create(&key("b")), Err(Error::Conflict), "its payload is refused");
        is_refused.store(false, Ordering::Relaxed);
        let stale = Transaction::new().put(RecordPath::new("system/x").unwrap(), 7, vec![1]);
        let settled = settle_with(handle.context(), &stale, &"stale").unwrap();
        assert!(matches!(settled, SettleOutcome::Conflict(_)), "{settled:?}");
        assert!(written().is_none() && matches!(companion.outcome(), CompanionOutcome::Unused));
        let made = handle.create(&key("b")).unwrap().to_string();
        handle.create(&key("c")).unwrap();
        settle_companion(handle.context(), &"nothing").unwrap();
        let (plain, generation) = written().unwrap();
        assert_eq!((plain.as_slice(), generation), (made.as_bytes(), 1));
        assert!(matches!(companion.outcome(), CompanionOutcome::Committed(by) if by == made));
    }

    /// A change that writes nothing else commits the record in its own transaction.
    #[test]
    fn a_record_is_committed_by_itself() {
        let kms = Kms::in_memory().unwrap();
        let path = RecordPath::new("ops/default/000000").unwrap();
        let payload = |made: &str| Ok(Zeroizing::new(made.as_bytes().to_vec()));
        let record = CompanionRecord { path: path.clone(), before: 0, payload: Box::new(payload) };
        let handle = kms.with(Arc::new(Companion::new(record)));
        let revision = || kms.context().store.read(&[]).unwrap().revision;
        let before = revision();
        settle_companion(kms.context(), &"other").unwrap();
        assert_eq!(revision(), before);
        settle_companion(handle.context(), &"token").unwrap();
        let (plain, _) = super::super::opened_bytes(kms.context(), &path).unwrap().unwrap();
        assert_eq!(plain.as_slice(), b"token");
    }
}
