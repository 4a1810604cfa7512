//! Slots for computations, and fair queueing of the operations that wait for them.
//!
//! ```text
//!   a request --> quick: less than 2 ms in total          four slots for each processor: some wait for reads
//!             --> slow: more than that                    one for two processors
//!             --> change: creates or changes a key        two: changes of the store run one after the other
//!
//!   tenant a   [ 20 ][ 20 ][ 20 ][ 20 ] ...    each tag is where its tenant's earlier work ends
//!   tenant b   [ 50 ]                          the least tag is next (start-time fair queueing)
//! ```
//!
//! - Waiting tenants get equal shares of the slots, by the cost of their work. A tenant with
//!   nothing else waiting waits for about one operation, regardless of how much others have queued.
//! - If too many operations wait, the youngest operation of the tenant with the most waiting ones
//!   is rejected. So no tenant takes another's place in the queue.
//! - A slot is held during the computation, but not while the audit log is written: records are
//!   written together.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::gate::Action;
use crate::model::Label;
use crate::operations::Histogram;

/// Requests that cost more microseconds than this are slow.
const SLOW_US: u64 = 2_000;

/// The maximum number of operations that wait for each lane. All of them together have fewer
/// threads than a server.
const WAITING_MAX: [usize; 3] = [96, 32, 32];

/// The maximum number of tenants whose use is remembered while others wait.
const FLOWS_MAX: usize = 4096;

/// A lane: a class of operations with its own slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lane {
    Quick,
    Slow,
    Change,
}

/// All lanes.
pub struct Queues([Queue; 3]);

/// The queue of a lane.
struct Queue {
    turns: Mutex<Turns<Arc<Seat>>>,
    /// The waiting times of operations with no earlier operation of the same tenant in the queue,
    /// and of the others.
    waited: [Histogram; 2],
    refused: AtomicU64,
}

/// A slot, which is released when this is dropped.
pub struct Place<'a> {
    queue: &'a Queue,
    takes_long: bool,
}

/// The scheduling state. It uses no clock and no threads.
struct Turns<W> {
    places: usize,
    waiting_max: usize,
    taken: usize,
    /// The tag of the operation that started last.
    now: u64,
    flows: HashMap<Box<str>, Flow>,
    /// The waiting operations, by tag and then in the order of their arrival.
    waiting: BTreeMap<(u64, u64), Waiter<W>>,
    came: u64,
}

/// The state of a tenant.
#[derive(Default)]
struct Flow {
    /// The minimum tag of the tenant's next operation.
    next: u64,
    waiting: usize,
}

struct Waiter<W> {
    flow: Box<str>,
    who: W,
}

/// The result of the arrival of an operation.
enum Arrival<W> {
    Start,
    /// It waits. Has whether others of its tenant wait before it, and the operation that was
    /// rejected in its favor.
    Queued(bool, Option<W>),
    Rejected,
}

/// A waiting thread.
struct Seat {
    said: AtomicU8,
    thread: Thread,
}

const NOTHING: u8 = 0;
const TAKES: u8 = 1;
const SENT_AWAY: u8 = 2;

impl Queues {
    /// Creates the lanes for this machine.
    pub fn new() -> Self {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        Self::of(processors)
    }

    fn of(processors: usize) -> Self {
        let places = [4 * processors, (processors / 2).max(1), 2];
        Queues(std::array::from_fn(|lane| Queue {
            turns: Mutex::new(Turns::new(places[lane], WAITING_MAX[lane])),
            waited: [Histogram::new(), Histogram::new()],
            refused: AtomicU64::new(0),
        }))
    }

    /// Waits for a slot. Returns `None` if the action needs no slot.
    ///
    /// # Errors
    /// [`Error::Queue`] if too many operations wait.
    pub fn place(
        &self,
        action: Action,
        tenant: Option<&Label>,
        cost_us: u64,
    ) -> Result<Option<Place<'_>>, Error> {
        let Some(lane) = Lane::of(action, cost_us) else { return Ok(None) };
        let queue = &self.0[lane as usize];
        queue.wait(tenant, cost_us)?;
        Ok(Some(Place { queue, takes_long: lane != Lane::Quick }))
    }

    /// Returns whether an operation would have to wait for a slot now.
    pub fn is_full(&self, action: Action, cost_us: u64) -> bool {
        Lane::of(action, cost_us).is_some_and(|lane| self.0[lane as usize].turns().is_full())
    }

    /// Returns the counters in the Prometheus text format.
    pub fn text(&self) -> String {
        let (name, mut out) = ("kms_queue_wait_seconds", String::new());
        out.push_str(&format!("# TYPE {name} histogram\n"));
        let each = || [Lane::Quick, Lane::Slow, Lane::Change].into_iter().zip(&self.0);
        for (lane, queue) in each() {
            for (waited, behind) in queue.waited.iter().zip(["others", "own"]) {
                let labels = format!("lane=\"{}\",behind=\"{behind}\"", lane.name());
                waited.lines(name, &labels, &mut out);
            }
        }
        out.push_str("# TYPE kms_queue_refused_total counter\n");
        for (lane, queue) in each() {
            let refused = queue.refused.load(Ordering::Relaxed);
            let lane = lane.name();
            out.push_str(&format!("kms_queue_refused_total{{lane=\"{lane}\"}} {refused}\n"));
        }
        out
    }
}

impl Lane {
    /// Returns the lane of an action. `None` for actions that withdraw use, so that load does not
    /// delay them, and for administration.
    fn of(action: Action, cost_us: u64) -> Option<Self> {
        match action {
            Action::Create
            | Action::Rotate
            | Action::Import
            | Action::Config
            | Action::Enable
            | Action::Restore => Some(Lane::Change),
            Action::Disable | Action::Trim | Action::Delete | Action::Destroy => None,
            action if action.is_administration() => None,
            _ if cost_us > SLOW_US => Some(Lane::Slow),
            _ => Some(Lane::Quick),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Lane::Quick => "quick",
            Lane::Slow => "slow",
            Lane::Change => "change",
        }
    }
}

impl Queue {
    /// Waits for a slot and takes it.
    fn wait(&self, tenant: Option<&Label>, cost_us: u64) -> Result<(), Error> {
        let seat = || Arc::new(Seat { said: AtomicU8::new(NOTHING), thread: thread::current() });
        let (flow, mut mine) = (tenant.map_or("", Label::as_str), None);
        let came = self.turns().arrive(flow, cost_us, || mine.insert(seat()).clone());
        let (has_own, sent_away) = match came {
            Arrival::Start => {
                self.waited[0].note(Duration::ZERO);
                return Ok(());
            }
            Arrival::Rejected => return Err(self.refuse()),
            Arrival::Queued(has_own, sent_away) => (has_own, sent_away),
        };
        if let Some(other) = sent_away {
            other.notify(SENT_AWAY);
        }
        let start = Instant::now();
        match mine.map(|seat| seat.wait()) {
            Some(TAKES) => {
                self.waited[usize::from(has_own)].note(start.elapsed());
                Ok(())
            }
            _ => Err(self.refuse()),
        }
    }

    fn refuse(&self) -> Error {
        self.refused.fetch_add(1, Ordering::Relaxed);
        Error::Queue
    }

    fn turns(&self) -> MutexGuard<'_, Turns<Arc<Seat>>> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place<'_> {
    /// Returns whether the operations of the lane take more than [`SLOW_US`], or change the store.
    pub fn takes_long(&self) -> bool {
        self.takes_long
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let next = self.queue.turns().done();
        if let Some(next) = next {
            next.notify(TAKES);
        }
    }
}

impl Seat {
    fn notify(&self, what: u8) {
        self.said.store(what, Ordering::Release);
        self.thread.unpark();
    }

    fn wait(&self) -> u8 {
        loop {
            match self.said.load(Ordering::Acquire) {
                NOTHING => thread::park(),
                said => return said,
            }
        }
    }
}

impl<W> Turns<W> {
    fn new(places: usize, waiting_max: usize) -> Self {
        let (flows, waiting) = (HashMap::new(), BTreeMap::new());
        Turns { places, waiting_max, taken: 0, now: 0, flows, waiting, came: 0 }
    }

    /// Returns whether no slot is free.
    fn is_full(&self) -> bool {
        self.taken >= self.places
    }

    /// Handles the arrival of an operation of a tenant. `who` is called only if it waits.
    fn arrive(&mut self, flow: &str, cost: u64, who: impl FnOnce() -> W) -> Arrival<W> {
        // If a slot is free, no operation waits.
        if !self.is_full() {
            self.taken += 1;
            return Arrival::Start;
        }
        let own = self.flows.get(flow).map_or(0, |flow| flow.waiting);
        let mut sent_away = None;
        if self.waiting.len() >= self.waiting_max {
            let longest = self.flows.iter().max_by_key(|(name, flow)| (flow.waiting, *name));
            match longest.map(|(name, flow)| (name.clone(), flow.waiting)) {
                Some((name, waiting)) if own + 1 < waiting => sent_away = self.youngest_of(&name),
                Some(_) | None => return Arrival::Rejected,
            }
        }
        if self.flows.len() >= FLOWS_MAX && !self.flows.contains_key(flow) {
            self.flows.retain(|_, flow| flow.waiting > 0);
        }
        let of = self.flows.entry(flow.into()).or_default();
        let tag = of.next.max(self.now);
        of.next = tag.saturating_add(cost.max(1));
        of.waiting += 1;
        self.came += 1;
        self.waiting.insert((tag, self.came), Waiter { flow: flow.into(), who: who() });
        Arrival::Queued(own > 0, sent_away)
    }

    /// Handles the release of a slot, which the next operation takes.
    fn done(&mut self) -> Option<W> {
        let Some(((tag, _), next)) = self.waiting.pop_first() else {
            self.taken -= 1;
            return None;
        };
        self.now = tag;
        if let Some(flow) = self.flows.get_mut(&next.flow) {
            flow.waiting -= 1;
        }
        if self.waiting.is_empty() {
            // No operations wait, so tenants need not yield to others anymore.
            self.flows.clear();
            self.now = 0;
        }
        Some(next.who)
    }

    /// Removes the youngest operation of a tenant, as if it had never arrived.
    fn youngest_of(&mut self, flow: &str) -> Option<W> {
        let found = self.waiting.iter().rev().find(|(_, waiter)| &*waiter.flow == flow);
        let key = found.map(|(key, _)| *key)?;
        if let Some(flow) = self.flows.get_mut(flow) {
            flow.waiting -= 1;
            flow.next = key.0;
        }
        self.waiting.remove(&key).map(|waiter| waiter.who)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BinaryHeap;
    use std::sync::mpsc;

    use super::*;

    fn label(text: &str) -> Label {
        Label::new("tenant", text).unwrap()
    }

    /// A scheduled arrival: its time, its tenant and its duration.
    type ScheduledArrival = (u64, &'static str, u64);

    /// Simulates arrivals on a virtual clock. Returns how long each operation waited, in the order
    /// of arrival; `None` for rejected ones.
    fn played(places: usize, waiting_max: usize, coming: &[ScheduledArrival]) -> Vec<Option<u64>> {
        let mut turns = Turns::new(places, waiting_max);
        let mut ends: BinaryHeap<std::cmp::Reverse<u64>> = BinaryHeap::new();
        let mut waited = vec![None; coming.len()];
        let end = |now: u64,
                   ends: &mut BinaryHeap<std::cmp::Reverse<u64>>,
                   turns: &mut Turns<usize>,
                   waited: &mut Vec<Option<u64>>| {
            if let Some(next) = turns.done() {
                waited[next] = Some(now - coming[next].0);
                ends.push(std::cmp::Reverse(now + coming[next].2));
            }
        };
        for (at, &(now, flow, cost)) in coming.iter().enumerate() {
            while let Some(&std::cmp::Reverse(ended)) = ends.peek().filter(|end| end.0 <= now) {
                ends.pop();
                end(ended, &mut ends, &mut turns, &mut waited);
            }
            match turns.arrive(flow, cost, || at) {
                Arrival::Start => {
                    waited[at] = Some(0);
                    ends.push(std::cmp::Reverse(now + cost));
                }
                Arrival::Queued(..) | Arrival::Rejected => {}
            }
        }
        while let Some(std::cmp::Reverse(ended)) = ends.pop() {
            end(ended, &mut ends, &mut turns, &mut waited);
        }
        assert_eq!((turns.taken, turns.waiting.len(), turns.flows.len()), (0, 0, 0));
        waited
    }

    /// Returns a tenant's waiting times and their histogram.
    fn waits(
        coming: &[ScheduledArrival],
        played: &[Option<u64>],
        whose: &str,
    ) -> (Vec<u64>, String) {
        let of = coming.iter().zip(played).filter(|((_, flow, _), _)| *flow == whose);
        let waits: Vec<u64> = of.map(|(_, wait)| wait.unwrap()).collect();
        let (histogram, mut text) = (Histogram::new(), String::new());
        waits.iter().for_each(|&wait| histogram.note(Duration::from_micros(wait)));
        histogram.lines("kms_queue_wait_seconds", "", &mut text);
        (waits, text)
    }

    /// A tenant waits about equally long whether or not another tenant floods the queue.
    #[test]
    fn a_flood_of_one_tenant_does_not_delay_others() {
        for places in [1, 2, 8] {
            // One each millisecond, of 100 us.
            let quiet: Vec<ScheduledArrival> = (0..1000).map(|at| (1000 * at, "b", 100)).collect();
            let alone = played(places, 96, &quiet);
            let (_, before) = waits(&quiet, &alone, "b");
            // In addition, a tenant with 50 operations of 80 us per millisecond and slot: four
            // times the capacity.
            let mut both = quiet.clone();
            for at in 0..1000 {
                both.extend((0..50 * places as u64).map(|n| (1000 * at + n, "a", 80)));
            }
            both.sort_by_key(|(at, flow, _)| (*at, *flow == "b"));
            let together = played(places, 96, &both);
            let (waited, after) = waits(&both, &together, "b");
            // It waits at most for the running operation: only operations of a with smaller tags
            // come first.
            assert!(
                waited.iter().all(|&wait| wait <= 2 * 80),
                "{places}: {:?}",
                waited.iter().max()
            );
            let below = |text: &str| {
                let line = text.lines().find(|line| line.contains("le=\"0.0002\"")).unwrap();
                line.rsplit(' ').next().unwrap().to_owned()
            };
            assert_eq!(
                (below(&before).as_str(), below(&after).as_str()),
                ("1000", "1000"),
                "{after}"
            );
            // The flood gets the remaining capacity, and the rest of it is rejected.
            let served =
                both.iter().zip(&together).filter(|(of, wait)| of.1 == "a" && wait.is_some());
            let served = served.count();
            assert!(served > 10_000 * places && served < 13_000 * places, "{places}: {served}");
        }
    }

    #[test]
    fn longer_work_gets_no_more_of_the_time() {
        // Both always have operations waiting; those of a take ten times as long.
        let mut coming: Vec<ScheduledArrival> = (0..2000).map(|_| (0, "b", 100)).collect();
        coming.extend((0..200).map(|_| (0, "a", 1000)));
        let played = played(1, 10_000, &coming);
        let mut done: Vec<(u64, &str, u64)> = coming
            .iter()
            .zip(&played)
            .map(|(&(_, flow, cost), wait)| (wait.unwrap(), flow, cost))
            .collect();
        done.sort_unstable();
        let (mut of_a, mut of_b) = (0i64, 0i64);
        for (_, flow, cost) in done.iter().skip(1).take(1000) {
            *(if *flow == "a" { &mut of_a } else { &mut of_b }) += *cost as i64;
            assert!((of_a - of_b).abs() <= 2000, "{of_a} {of_b}");
        }
        assert!(of_a > 40_000 && of_b > 40_000);
    }

    #[test]
    fn the_newest_request_of_the_busiest_tenant_is_rejected() {
        let mut turns = Turns::new(1, 4);
        let mut arrive = |flow: &str, who: u32| match turns.arrive(flow, 10, || who) {
            Arrival::Start => "takes".to_owned(),
            Arrival::Queued(own, None) => format!("waits {own}"),
            Arrival::Queued(own, Some(other)) => format!("waits {own}, not {other}"),
            Arrival::Rejected => "sent away".to_owned(),
        };
        assert_eq!(arrive("a", 0), "takes");
        assert_eq!(arrive("a", 1), "waits false");
        for who in 2..5 {
            assert_eq!(arrive("a", who), "waits true");
        }
        assert_eq!(arrive("a", 5), "sent away");
        assert_eq!(arrive("b", 6), "waits false, not 4");
        assert_eq!(arrive("b", 7), "waits true, not 3");
        assert_eq!(arrive("b", 8), "sent away");
        assert_eq!(arrive("a", 9), "sent away");
        assert_eq!(arrive("c", 10), "waits false, not 7");
        let order: Vec<u32> = std::iter::from_fn(|| turns.done()).collect();
        assert_eq!(order, [1, 6, 10, 2]);
        assert_eq!((turns.taken, turns.flows.len()), (0, 0));
    }

    /// A client that names many tenants does not exhaust memory.
    #[test]
    fn a_million_names_take_no_memory() {
        let mut turns = Turns::new(1, 96);
        let held = turns.arrive("held", 1, || 0);
        assert!(matches!(held, Arrival::Start));
        for who in 0..1_000_000u32 {
            assert!(matches!(turns.arrive(&format!("t{who}"), 10, || who), Arrival::Queued(..)));
            if turns.waiting.len() == 90 {
                turns.done().unwrap();
            }
            assert!(turns.flows.len() <= FLOWS_MAX);
        }
        assert!(turns.flows.capacity() <= 4 * FLOWS_MAX);
    }

    #[test]
    fn threads_wait_by_turns_of_tenants() {
        let queues = Queues::of(1);
        let (a, b) = (label("a"), label("b"));
        let place = |tenant| queues.place(Action::Sign, Some(tenant), 9_000);
        let held = place(&a).unwrap();
        assert!(held.is_some());
        // Quick operations, changes and operations that withdraw use get slots of their own.
        assert!(queues.place(Action::Sign, Some(&a), 2_000).unwrap().is_some());
        assert!(queues.place(Action::Create, Some(&a), 9_000).unwrap().is_some());
        assert!(queues.place(Action::Disable, Some(&a), 9_000).unwrap().is_none());
        assert!(queues.place(Action::Token, None, 9_000).unwrap().is_none());
        let slow = &queues.0[Lane::Slow as usize];
        let (sent, got) = mpsc::channel();
        thread::scope(|scope| {
            for (at, tenant) in [&a, &a, &b, &a, &b].into_iter().enumerate() {
                let (place, sent) = (&place, sent.clone());
                scope.spawn(move || {
                    let place = place(tenant).unwrap();
                    sent.send(at).unwrap();
                    drop(place);
                });
                while slow.turns().waiting.len() <= at {
                    thread::yield_now();
                }
            }
            drop(held);
            let next = || got.recv_timeout(Duration::from_secs(60)).unwrap();
            let order: Vec<usize> = (0..5).map(|_| next()).collect();
            assert_eq!(order, [0, 2, 1, 4, 3]);
        });
        assert_eq!(slow.turns().taken, 0);
        let text = queues.text();
        let counted = |labels: &str| {
            let line = format!("kms_queue_wait_seconds_count{{{labels}}} ");
            let found = text.lines().find_map(|at| at.strip_prefix(&line)).unwrap_or("0");
            found.parse::<u32>().unwrap()
        };
        assert_eq!(counted("lane=\"slow\",behind=\"others\""), 3);
        assert_eq!(counted("lane=\"slow\",behind=\"own\""), 3);
        assert_eq!(counted("lane=\"quick\",behind=\"others\""), 1);
    }

    #[test]
    fn no_tenant_fills_the_queue() {
        let queues = Queues::of(1);
        let (a, b) = (label("a"), label("b"));
        let place = |tenant| queues.place(Action::Sign, Some(tenant), 9_000).map(drop);
        let held = queues.place(Action::Sign, Some(&a), 9_000).unwrap();
        let slow = &queues.0[Lane::Slow as usize];
        thread::scope(|scope| {
            let of_a: Vec<_> = (0..WAITING_MAX[1]).map(|_| scope.spawn(|| place(&a))).collect();
            while slow.turns().waiting.len() < WAITING_MAX[1] {
                thread::yield_now();
            }
            assert_eq!(place(&a), Err(Error::Queue));
            let of_b = scope.spawn(|| place(&b));
            // One of a's operations was rejected in its favor.
            while slow.refused.load(Ordering::Relaxed) < 2 {
                thread::yield_now();
            }
            drop(held);
            assert_eq!(of_b.join().unwrap(), Ok(()));
            let refused = of_a.into_iter().map(|one| one.join().unwrap());
            assert_eq!(refused.filter(|got| *got == Err(Error::Queue)).count(), 1);
        });
    }
}
