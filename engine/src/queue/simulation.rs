//! Thousands of schedules in virtual time, each from a seed or from a fuzzer's bytes: callers come
//! and wait or leave a ticket, jobs take as long as dice say, batches fail, panic or come back
//! short, tickets are dropped or called back, the queue fills and closes. The real gate and the
//! real board decide; only the blocking is played, by callers and workers that are events.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.
#![cfg_attr(not(test), allow(dead_code))] // A fuzzer brings bytes and no seeds.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::Arc;

use super::Limits;
use super::board::Board;
use super::gate::{Admission, Gate, Job, Promise, Refusal, Role, keep_all, run_caught};
use super::ticket::{Call, Ticket, Waiter};
use crate::error::Error;
use crate::sync::{Mutex, lock};

/// The source of decisions.
enum Dice {
    /// xorshift64*: dice that fall the same way for the same seed.
    Seed(Cell<u64>),
    /// Bytes, then zeros.
    Bytes(Vec<u8>, Cell<usize>),
}

impl Dice {
    fn of_seed(seed: u64) -> Self {
        Dice::Seed(Cell::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1))
    }

    fn of_bytes(bytes: &[u8]) -> Self {
        Dice::Bytes(bytes.to_vec(), Cell::new(0))
    }

    fn below(&self, n: u64) -> u64 {
        let number = match self {
            Dice::Seed(state) => {
                let mut x = state.get();
                x ^= x >> 12;
                x ^= x << 25;
                x ^= x >> 27;
                state.set(x);
                x.wrapping_mul(0x2545_f491_4f6c_dd1d)
            }
            Dice::Bytes(bytes, at) => {
                let next = || u64::from(bytes.get(at.replace(at.get() + 1)).copied().unwrap_or(0));
                if n > 256 { next() << 8 | next() } else { next() }
            }
        };
        number % n
    }
}

/// A job determines the result of its batch.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Good,
    /// The batch panics.
    Panics,
    /// The batch gives one output less.
    Short,
}

struct SimulatedJob {
    number: usize,
    fate: Fate,
}

/// The number of the job, or that it was lost.
type Output = Result<usize, Error>;

/// The numbers of the jobs in the order in which they started.
type StartOrder = Mutex<Vec<usize>>;

impl Job for SimulatedJob {
    type Output = Output;
    type Context = StartOrder;

    fn run(begun: &StartOrder, jobs: Vec<Self>) -> Vec<Output> {
        lock(begun).extend(jobs.iter().map(|job| job.number));
        let mut outputs: Vec<Output> = jobs.iter().map(|job| Ok(job.number)).collect();
        if jobs.iter().any(|job| job.fate == Fate::Panics) {
            // Not a panic!, whose hook would print it, or end a fuzzer.
            resume_unwind(Box::new("played"));
        }
        if jobs.iter().any(|job| job.fate == Fate::Short) {
            outputs.pop();
        }
        outputs
    }

    fn lost() -> Output {
        Err(Error::Lost)
    }
}

/// The next action of a caller.
enum Event<'g> {
    Comes(SimulatedJob),
    /// A job that ran alone is over.
    EndsAlone(usize, Role<'g, SimulatedJob>),
    /// The batch that it leads is over.
    EndsRound(usize, Role<'g, SimulatedJob>, Vec<Output>, Vec<Promise<SimulatedJob>>),
    /// A worker takes the turn that waited longest; its batch takes no time, its way to it did.
    Works,
    Closes,
    /// The workers are told to go when all is done.
    Stops,
}

/// The end of a job.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Done,
    Lost,
    Refused(Refusal),
}

struct World<'g> {
    gate: &'g Gate<SimulatedJob>,
    board: Arc<Board>,
    limits: Limits,
    dice: &'g Dice,
    now: u64,
    /// The events by time; those of one time are in random order; a count distinguishes them.
    events: BTreeMap<(u64, u64, u64), Event<'g>>,
    count: u64,
    waiters: Vec<(usize, Arc<Waiter<SimulatedJob, Output>>)>,
    tickets: Vec<(usize, Ticket<usize>)>,
    /// The outputs that callbacks received.
    told: Arc<Mutex<Vec<(usize, Output)>>>,
    /// Jobs whose ticket was dropped, so that their result is not observed.
    dropped: Vec<usize>,
    /// Events [`Event::Works`] that are still to come.
    working: usize,
    ends: Vec<Option<End>>,
    /// Those that waited, in the order in which they sat down.
    sat: Vec<usize>,
    is_closed: bool,
    is_stopped: bool,
}

impl<'g> World<'g> {
    fn at(&mut self, delay: u64, event: Event<'g>) {
        self.count += 1;
        let key = (self.now + delay, self.dice.below(256), self.count);
        self.events.insert(key, event);
    }

    fn end(&mut self, number: usize, end: End) {
        assert_eq!(self.ends[number].replace(end), None, "job {number} ended twice");
    }

    fn lead(&mut self, role: Role<'g, SimulatedJob>, job: SimulatedJob) {
        let number = job.number;
        let (jobs, promises) = role.gather(job);
        assert!(jobs.len() <= self.limits.lanes_max.get());
        let outputs = run_caught(self.gate.context(), jobs);
        let delay = 1 + self.dice.below(50);
        self.at(delay, Event::EndsRound(number, role, outputs, promises));
    }

    fn step(&mut self, event: Event<'g>) {
        match event {
            Event::Comes(job) => {
                let number = job.number;
                if self.dice.below(3) == 0 {
                    return self.submit(job);
                }
                if self.dice.below(2) == 0
                    && let Some(role) = self.gate.enter()
                {
                    return self.alone(number, role);
                }
                match self.gate.queue(job) {
                    Ok(Admission::Role(role, _)) => self.alone(number, role),
                    Ok(Admission::Waiter(waiter)) => {
                        self.sat.push(number);
                        self.waiters.push((number, waiter));
                    }
                    Err(refused) => self.refuse(number, refused, self.is_closed),
                }
            }
            Event::EndsAlone(number, role) => {
                drop(role);
                self.end(number, End::Done);
            }
            Event::EndsRound(number, role, outputs, promises) => {
                drop(role);
                let own = keep_all(outputs, promises);
                self.end(number, if own == Ok(number) { End::Done } else { End::Lost });
            }
            Event::Works => {
                self.working -= 1;
                self.board.try_next().expect("a turn for each worker that comes").run();
            }
            Event::Closes => {
                self.gate.close();
                self.is_closed = true;
            }
            Event::Stops => {
                self.board.close();
                self.is_stopped = true;
            }
        }
    }

    fn refuse(&mut self, number: usize, refused: Refusal, is_closed: bool) {
        let room = self.gate.len() < self.limits.depth;
        assert_eq!(refused == Refusal::Closed, is_closed);
        assert!(is_closed || !room, "refused though there is room");
        self.end(number, End::Refused(refused));
    }

    /// Submits a job, and then polls its ticket, registers a callback, or drops it.
    fn submit(&mut self, job: SimulatedJob) {
        let number = job.number;
        let ticket = match self.gate.submit(&self.board, job) {
            Ok(result_slot) => Ticket::new(result_slot),
            Err(refused) => {
                return self.refuse(number, refused, self.is_closed || self.is_stopped);
            }
        };
        match self.dice.below(4) {
            0 => self.dropped.push(number),
            1 => {
                let (told, panics) = (Arc::clone(&self.told), self.dice.below(8) == 0);
                ticket.then(move |output| {
                    lock(&told).push((number, output));
                    if panics {
                        resume_unwind(Box::new("played"));
                    }
                });
            }
            _ => self.tickets.push((number, ticket)),
        }
    }

    /// Collects the results of tickets and callbacks, and starts a worker for each new turn.
    fn collect(&mut self) {
        let told = std::mem::take(&mut *lock(&self.told));
        let mut outputs = told;
        self.tickets.retain_mut(|(number, ticket)| match ticket.poll() {
            Some(output) => {
                outputs.push((*number, output));
                assert!(ticket.poll().is_none(), "a result twice");
                false
            }
            None => true,
        });
        for (number, output) in outputs {
            assert!(output.is_err() || output == Ok(number), "another job's output");
            self.end(number, if output.is_ok() { End::Done } else { End::Lost });
        }
        while self.working < self.board.turns() {
            self.working += 1;
            let delay = self.dice.below(50);
            self.at(delay, Event::Works);
        }
    }

    fn alone(&mut self, number: usize, role: Role<'g, SimulatedJob>) {
        lock(self.gate.context()).push(number);
        let delay = 1 + self.dice.below(50);
        self.at(delay, Event::EndsAlone(number, role));
    }

    /// Wakes the callers that were called, as the operating system would.
    fn wake(&mut self) {
        for (number, waiter) in std::mem::take(&mut self.waiters) {
            match waiter.poll() {
                None => self.waiters.push((number, waiter)),
                Some(Call::Done(output)) => {
                    assert!(output.is_err() || output == Ok(number), "another job's output");
                    self.end(number, if output.is_ok() { End::Done } else { End::Lost });
                }
                Some(Call::Lead(job)) => {
                    assert_eq!(job.number, number, "another job");
                    let role = self.gate.resume();
                    self.lead(role, job);
                }
            }
        }
    }

    /// Checks the invariants after every event.
    fn check(&self) {
        assert!(self.gate.len() <= self.limits.depth, "the line grows");
        assert!(self.gate.leaders() <= self.limits.leaders_max.get(), "too many lead");
        let all_roles = self.gate.leaders() == self.limits.leaders_max.get();
        assert!(self.gate.len() == 0 || all_roles, "a job waits though a role is free");
    }
}

/// Plays one schedule; returns the ends of its jobs, except those whose ticket was dropped.
fn play(dice: &Dice) -> Vec<End> {
    let some = |n: u64| NonZero::new(1 + dice.below(n) as usize).unwrap();
    let limits = Limits {
        depth: dice.below(12) as usize,
        lanes_max: some(9),
        leaders_max: some(3),
        message_max: 0,
        long_max: 0,
    };
    let gate = Gate::<SimulatedJob>::new(limits, Arc::default());
    let jobs = 1 + dice.below(60) as usize;
    // From a caller every now and then to all of them at once.
    let span = 1 + dice.below(20) * jobs as u64;
    let mut world = World {
        gate: &gate,
        board: Board::new(),
        limits,
        dice,
        now: 0,
        events: BTreeMap::new(),
        count: 0,
        waiters: Vec::new(),
        tickets: Vec::new(),
        told: Arc::default(),
        dropped: Vec::new(),
        working: 0,
        ends: vec![None; jobs],
        sat: Vec::new(),
        is_closed: false,
        is_stopped: false,
    };
    let faults = dice.below(3) == 0;
    for number in 0..jobs {
        let fate = match dice.below(12) {
            0 if faults => Fate::Panics,
            1 if faults => Fate::Short,
            _ => Fate::Good,
        };
        world.at(dice.below(span), Event::Comes(SimulatedJob { number, fate }));
    }
    if dice.below(4) == 0 {
        world.at(dice.below(2 * span), Event::Closes);
    }
    if dice.below(4) == 0 {
        world.at(dice.below(2 * span), Event::Stops);
    }
    while let Some(((now, ..), event)) = world.events.pop_first() {
        world.now = now;
        world.step(event);
        world.wake();
        world.collect();
        world.check();
    }
    let nobody = world.waiters.is_empty() && world.tickets.is_empty();
    assert!(nobody && gate.len() == 0, "a job waits for ever");
    assert_eq!(gate.leaders(), 0, "a role was not given back");
    assert_eq!((world.board.turns(), world.board.pending()), (0, 0), "the workers never go");
    world.dropped.iter().for_each(|&job| assert_eq!(world.ends[job], None, "who told it?"));
    let told = (0..jobs).filter(|job| !world.dropped.contains(job));
    let ends: Vec<End> = told.map(|job| world.ends[job].expect("every job ends")).collect();
    if !faults {
        assert!(!ends.contains(&End::Lost));
    }
    let begun = lock(gate.context());
    let begun_seated: Vec<_> = begun.iter().filter(|n| world.sat.contains(n)).collect();
    assert_eq!(begun_seated, world.sat.iter().collect::<Vec<_>>(), "out of order");
    ends
}

/// Plays the schedule that the bytes describe; panics where a rule of the queue is broken.
#[cfg(fuzzing)]
pub fn testing_only_schedule(bytes: &[u8]) {
    play(&Dice::of_bytes(bytes));
}

#[cfg(test)]
#[test]
fn every_job_ends_once_and_in_order_in_thousands_of_schedules() {
    let mut seen = [0usize; 4];
    for seed in 0..5_000 {
        for end in play(&Dice::of_seed(seed)) {
            let kind = match end {
                End::Done => 0,
                End::Lost => 1,
                End::Refused(Refusal::Busy) => 2,
                End::Refused(Refusal::Closed) => 3,
            };
            seen[kind] += 1;
        }
    }
    // The schedules reach every event that they are meant to reach.
    assert!(seen.iter().all(|&count| count > 500), "{seen:?}");
}

/// Arbitrary bytes of every length, as from a fuzzer.
#[cfg(test)]
#[test]
fn arbitrary_bytes_are_a_valid_schedule() {
    let dice = Dice::of_seed(0);
    for round in 0..2_000 {
        let bytes: Vec<u8> = (0..round % 400).map(|_| dice.below(256) as u8).collect();
        assert!(play(&Dice::of_bytes(&bytes)).len() <= 60);
    }
}
