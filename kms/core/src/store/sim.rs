//! Fault injection for any store. The same seed and the same calls give the same faults.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::contract::{Outcome, Store, Visit};
use super::records::{Page, ReadResult, RecordPath, Transaction};
use super::terms::{Caps, Identity, Revision, StoreError};

/// The rates of faults, per thousand calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// The store is unavailable, and did nothing.
    pub unavailable: u32,
    /// The outcome is unknown, and the transaction was not applied.
    pub request_lost: u32,
    /// The outcome is unknown, and the transaction was applied.
    pub answer_lost: u32,
    /// The outcome is unknown, and the transaction is applied later, between other calls.
    pub late: u32,
    /// The store is full, and the transaction was not applied.
    pub full: u32,
}

/// A store whose calls fail at random.
#[derive(Debug)]
pub struct Sim<S> {
    store: S,
    faults: Faults,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    seed: u64,
    late: Vec<Transaction>,
}

impl<S: Store> Sim<S> {
    /// Wraps a store.
    pub fn new(store: S, seed: u64, faults: Faults) -> Self {
        Sim { store, faults, state: Mutex::new(State { seed, late: Vec::new() }) }
    }

    /// Returns the wrapped store.
    pub fn below(&self) -> &S {
        &self.store
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies some of the late transactions, and fails if the store is to be unavailable.
    fn begin(&self, state: &mut State) -> Result<(), StoreError> {
        while !state.late.is_empty() && state.draw(2) == 0 {
            let which = state.draw(state.late.len() as u32) as usize;
            let late = state.late.swap_remove(which);
            // Ignore the outcome: the caller was told that it is unknown.
            match self.store.commit(&late) {
                Ok(Outcome::Committed(_) | Outcome::Conflict(_) | Outcome::Unknown) | Err(_) => {}
            }
        }
        match state.draw(1000) < self.faults.unavailable {
            true => Err(StoreError::Unavailable("a simulated fault".to_owned())),
            false => Ok(()),
        }
    }
}

impl State {
    /// Returns a number below `n` (splitmix64).
    fn draw(&mut self, n: u32) -> u32 {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.seed;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (((z ^ (z >> 31)) >> 32) % u64::from(n.max(1))) as u32
    }
}

impl<S: Store> Store for Sim<S> {
    fn caps(&self) -> Caps {
        self.store.caps()
    }

    fn identity(&self) -> Identity {
        self.store.identity()
    }

    fn read(&self, paths: &[RecordPath]) -> Result<ReadResult, StoreError> {
        self.begin(&mut self.state())?;
        self.store.read(paths)
    }

    fn list(
        &self,
        under: &RecordPath,
        after: Option<&RecordPath>,
        most: usize,
    ) -> Result<Page, StoreError> {
        self.begin(&mut self.state())?;
        self.store.list(under, after, most)
    }

    fn scan(&self, with_values: bool, visit: &mut Visit<'_>) -> Result<Revision, StoreError> {
        self.begin(&mut self.state())?;
        self.store.scan(with_values, visit)
    }

    fn format(&self) -> u64 {
        self.store.format()
    }

    fn upgrade(&self) -> Result<Option<PathBuf>, StoreError> {
        self.begin(&mut self.state())?;
        self.store.upgrade()
    }

    fn commit(&self, transaction: &Transaction) -> Result<Outcome, StoreError> {
        transaction.check(&self.store.caps())?;
        let mut state = self.state();
        self.begin(&mut state)?;
        let drawn = state.draw(1000);
        let Faults { request_lost, answer_lost, late, full, .. } = self.faults;
        if drawn < request_lost {
            return Ok(Outcome::Unknown);
        }
        if drawn < request_lost + answer_lost {
            // The caller does not see errors either.
            return Ok(self
                .store
                .commit(transaction)
                .map_or(Outcome::Unknown, |_| Outcome::Unknown));
        }
        if drawn < request_lost + answer_lost + late {
            state.late.push(transaction.clone());
            return Ok(Outcome::Unknown);
        }
        if drawn < request_lost + answer_lost + late + full {
            return Err(StoreError::Full);
        }
        self.store.commit(transaction)
    }
}
