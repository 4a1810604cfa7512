//! Shelves of what is made ahead, one thread for all of them: the lock, the orders and the waiting.
//! There are no keys here, no engine and no OpenSSL, so that loom can go through every interleaving
//! of takers and the thread (`--cfg loom`).

#[cfg(not(loom))]
use std::sync::{Condvar, Mutex, MutexGuard};

#[cfg(loom)]
use loom::sync::{Condvar, Mutex, MutexGuard};

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use zeroize::Zeroizing;

/// The numbers of all shelves.
#[derive(Clone, Copy)]
pub struct Sizes {
    /// Batch size. A shelf holds two batches, one of which is used while the next one is made.
    pub batch: usize,
    /// Uses of a shelf within `idle` that show that it will be used.
    pub uses_min: u32,
    /// The minimum time for which unused items are kept; the maximum is twice this.
    pub idle: Duration,
}

/// The state shared by callers and the thread.
pub struct Shelves<T> {
    sizes: Sizes,
    state: Mutex<State<T>>,
    changed: Condvar,
}

struct State<T> {
    shelves: Vec<Shelf<T>>,
    is_over: bool,
}

/// The keys that are ready, and those on order.
pub struct Shelf<T> {
    things: Vec<T>,
    order: Order,
    /// Uses since `since`; once there were enough, the shelf is filled until it is unused for long.
    uses: u32,
    since: Option<Instant>,
    is_filled: bool,
}

/// The next batch of a shelf.
enum Order {
    None,
    /// A taker draws its randomness.
    AwaitingRandomness,
    /// The thread can begin.
    Ready(Zeroizing<Vec<u8>>),
    /// The thread has begun.
    InProgress,
}

impl<T> Shelf<T> {
    fn empty() -> Self {
        Shelf { things: Vec::new(), order: Order::None, uses: 0, since: None, is_filled: false }
    }

    fn take(&mut self, sizes: &Sizes) -> (Option<T>, bool) {
        if !self.is_filled {
            let now = Instant::now();
            if self.since.is_none_or(|since| now.duration_since(since) > sizes.idle) {
                (self.since, self.uses) = (Some(now), 0);
            }
        }
        self.uses = self.uses.saturating_add(1);
        self.is_filled |= self.uses >= sizes.uses_min;
        let thing = self.things.pop();
        let orders =
            self.is_filled && self.things.len() <= sizes.batch && matches!(self.order, Order::None);
        if orders {
            self.order = Order::AwaitingRandomness;
        }
        (thing, orders)
    }

    /// Wipes shelves that were not used since the last call.
    fn rest(&mut self) {
        if self.uses == 0 {
            // Dropping a key wipes it.
            self.things.clear();
            self.give_up();
        }
        self.uses = 0;
    }

    /// Fills it no more, until it has been used as often as before the first time.
    fn give_up(&mut self) {
        (self.is_filled, self.since) = (false, None);
    }
}

impl<T> Shelves<T> {
    /// So many empty shelves.
    pub fn new(count: usize, sizes: Sizes) -> Self {
        let shelves = std::iter::repeat_with(Shelf::empty).take(count).collect();
        let state = Mutex::new(State { shelves, is_over: false });
        Shelves { sizes, state, changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // Every critical section here leaves its data whole before it calls anything that could
        // panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an item, if there is one, and returns whether the caller has to [`Self::order`] more.
    pub fn take(&self, place: usize) -> (Option<T>, bool) {
        self.lock().shelves[place].take(&self.sizes)
    }

    /// Orders a batch, of these bytes, and wakes the thread; or says that there will be none.
    pub fn order(&self, place: usize, bytes: Option<Zeroizing<Vec<u8>>>) {
        let mut state = self.lock();
        let shelf = &mut state.shelves[place];
        match bytes {
            Some(bytes) => {
                shelf.order = Order::Ready(bytes);
                drop(state);
                self.changed.notify_one();
            }
            None => {
                shelf.order = Order::None;
                shelf.give_up();
            }
        }
    }

    /// The loop of the thread until [`Self::close`]: `make` makes a batch for a shelf. It must not
    /// panic.
    pub fn work(&self, make: impl Fn(usize, Zeroizing<Vec<u8>>) -> Vec<T>) {
        let mut state = self.lock();
        let mut rests_at = Instant::now() + self.sizes.idle;
        while !state.is_over {
            if let Some((place, bytes)) = state.next() {
                drop(state);
                let things = make(place, bytes);
                state = self.lock();
                let shelf = &mut state.shelves[place];
                shelf.order = Order::None;
                if things.is_empty() {
                    // If the engine cannot make keys, the callers make their own and get its error.
                    shelf.give_up();
                }
                shelf.things.extend(things);
            } else if state.shelves.iter().any(|shelf| shelf.is_filled) {
                let left = rests_at.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    state.shelves.iter_mut().for_each(Shelf::rest);
                    rests_at = Instant::now() + self.sizes.idle;
                } else {
                    let waited = self.changed.wait_timeout(state, left);
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
            } else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// Ends the thread, which finishes its batch first.
    pub fn close(&self) {
        self.lock().is_over = true;
        self.changed.notify_one();
    }

    /// Wipes every shelf, unless the lock is held.
    pub fn try_clear(&self) {
        if let Ok(mut state) = self.state.try_lock() {
            state.shelves.iter_mut().for_each(|shelf| *shelf = Shelf::empty());
        }
    }
}

impl<T> State<T> {
    /// Takes the order that the thread can begin with.
    fn next(&mut self) -> Option<(usize, Zeroizing<Vec<u8>>)> {
        let is_ready = |shelf: &Shelf<T>| matches!(shelf.order, Order::Ready(_));
        let place = self.shelves.iter().position(is_ready)?;
        match std::mem::replace(&mut self.shelves[place].order, Order::InProgress) {
            Order::Ready(bytes) => Some((place, bytes)),
            _ => None,
        }
    }
}

#[cfg(test)]
impl<T> Shelves<T> {
    /// Returns how many lie on a shelf.
    pub fn stock(&self, place: usize) -> usize {
        self.lock().shelves[place].things.len()
    }

    /// Returns whether a shelf is filled when it is half empty.
    #[cfg(not(loom))]
    pub fn is_filled(&self, place: usize) -> bool {
        self.lock().shelves[place].is_filled
    }

    /// Returns when counting of uses began.
    #[cfg(not(loom))]
    pub fn since(&self, place: usize) -> Option<Instant> {
        self.lock().shelves[place].since
    }
}
