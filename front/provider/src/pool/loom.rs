//! Every interleaving of takers and the thread at a shelf, by loom. Loom has no clock, so the tests
//! of the pool cover the wiping of expired entries.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.

use std::sync::Arc;
use std::time::Duration;

use ::loom::sync::Notify;
use ::loom::sync::atomic::{AtomicUsize, Ordering};
use ::loom::thread;
use zeroize::Zeroizing;

use super::shelves::{Shelves, Sizes};

const BATCH: usize = 2;

/// A model whose preemptions are bounded, which keeps the suite within seconds.
fn model(f: impl Fn() + Send + Sync + 'static) {
    let mut builder = ::loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(f);
}

/// One shelf, its thread, and what both count.
struct Bench {
    shelves: Arc<Shelves<usize>>,
    thread: thread::JoinHandle<()>,
    ordered: AtomicUsize,
    /// Batches that the thread has made.
    made: Arc<AtomicUsize>,
}

impl Bench {
    /// `begun` is notified of every batch that the thread begins.
    fn new(begun: Option<Arc<Notify>>) -> Self {
        let idle = Duration::from_secs(3600);
        let shelves = Arc::new(Shelves::new(1, Sizes { batch: BATCH, uses_min: 1, idle }));
        let made = Arc::new(AtomicUsize::new(0));
        let thread = {
            let (shelves, made) = (Arc::clone(&shelves), Arc::clone(&made));
            let make = move |_, _| {
                let batch = made.fetch_add(1, Ordering::Relaxed);
                if let Some(begun) = &begun {
                    begun.notify();
                }
                (0..BATCH).map(|number| BATCH * batch + number).collect()
            };
            thread::spawn(move || shelves.work(make))
        };
        Bench { shelves, thread, ordered: AtomicUsize::new(0), made }
    }

    /// Takes a number, and orders where it has to; with `bytes`, or without.
    fn take(&self, can_order: bool) -> Option<usize> {
        let (number, orders) = self.shelves.take(0);
        if orders {
            self.ordered.fetch_add(usize::from(can_order), Ordering::Relaxed);
            self.shelves.order(0, can_order.then(|| Zeroizing::new(Vec::new())));
        }
        assert!(self.shelves.stock(0) <= 2 * BATCH);
        number
    }

    /// Ends the thread; what was ordered was made, but for the last batch, and nothing stands in
    /// the way of the next order.
    fn end(self, mut taken: Vec<usize>) {
        self.shelves.close();
        self.thread.join().unwrap();
        let (ordered, made) =
            (self.ordered.load(Ordering::Relaxed), self.made.load(Ordering::Relaxed));
        assert!(made <= ordered && ordered <= made + 1, "{ordered} ordered, {made} made");
        let mut can_order = false;
        taken.extend(std::iter::from_fn(|| {
            let (number, orders) = self.shelves.take(0);
            can_order |= orders;
            number
        }));
        assert_eq!(can_order, made == ordered, "{ordered} ordered, {made} made");
        taken.sort_unstable();
        assert_eq!(taken, (0..BATCH * made).collect::<Vec<_>>(), "each once, and none is lost");
    }
}

/// Takes so often on each of two threads, of which the first cannot order.
fn take_on_two_threads(times: usize, first_orders: bool) {
    model(move || {
        let bench = Arc::new(Bench::new(None));
        let take = |can_order| {
            let bench = Arc::clone(&bench);
            move || (0..times).filter_map(|_| bench.take(can_order)).collect::<Vec<_>>()
        };
        let other = thread::spawn(take(first_orders));
        let mut taken = take(true)();
        taken.extend(other.join().unwrap());
        taken.extend(bench.take(true));
        assert!(bench.ordered.load(Ordering::Relaxed) > 0, "the last one orders, if no other did");
        Arc::into_inner(bench).unwrap().end(taken);
    });
}

#[test]
fn everything_is_taken_once() {
    take_on_two_threads(2, true);
}

#[test]
fn a_taker_without_randomness_leaves_the_order_to_others() {
    take_on_two_threads(2, false);
}

/// If a wake-up were lost, the test would deadlock.
#[test]
fn requested_keys_are_generated() {
    model(|| {
        let begun = Arc::new(Notify::new());
        let bench = Bench::new(Some(Arc::clone(&begun)));
        assert_eq!(bench.take(true), None);
        begun.wait();
        bench.end(Vec::new());
    });
}
