//! Thousands of schedules in virtual time, each from a seed: callers come, jobs take as long as dice
//! say, batches fail, panic or come back short, the queue fills and closes. The real gate decides;
//! only the blocking is played, by callers that are events.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::Arc;

use super::Limits;
use super::gate::{Gate, Job, Place, Promise, Refused, Role, keep_all, run_caught};
use super::ticket::{Call, Seat};

/// xorshift64*: dice that fall the same way for the same seed.
struct Dice(Cell<u64>);

impl Dice {
    fn below(&self, n: u64) -> u64 {
        let mut x = self.0.get();
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.0.set(x);
        x.wrapping_mul(0x2545_f491_4f6c_dd1d) % n
    }
}

/// A job says what its batch does.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Good,
    /// The batch panics.
    Panics,
    /// The batch gives one output less.
    Short,
}

struct Played {
    number: usize,
    fate: Fate,
}

/// The number of the job, or that it was lost.
type Output = Result<usize, ()>;

impl Job for Played {
    type Output = Output;
    type Context = ();

    fn run((): &(), jobs: Vec<Self>) -> Vec<Output> {
        let mut outputs: Vec<Output> = jobs.iter().map(|job| Ok(job.number)).collect();
        assert!(jobs.iter().all(|job| job.fate != Fate::Panics), "played");
        if jobs.iter().any(|job| job.fate == Fate::Short) {
            outputs.pop();
        }
        outputs
    }

    fn lost() -> Output {
        Err(())
    }
}

/// What a caller does when its time comes.
enum Event<'g> {
    Comes(Played),
    /// Its own job, run alone, is over.
    EndsAlone(usize, Role<'g, Played>),
    /// The batch that it leads is over.
    EndsRound(usize, Role<'g, Played>, Vec<Output>, Vec<Promise<Played>>),
    Closes,
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Done,
    Lost,
    Refused(Refused),
}

struct World<'g> {
    gate: &'g Gate<Played>,
    limits: Limits,
    dice: &'g Dice,
    now: u64,
    /// By time; the second number keeps events of one time apart.
    events: BTreeMap<(u64, u64), Event<'g>>,
    seated: Vec<(usize, Arc<Seat<Played, Output>>)>,
    ends: Vec<Option<End>>,
    /// The jobs in the order in which they began.
    begun: Vec<usize>,
    /// Those that waited, in the order in which they sat down.
    sat: Vec<usize>,
    is_closed: bool,
}

impl<'g> World<'g> {
    fn at(&mut self, delay: u64, event: Event<'g>) {
        let key = (self.now + delay, self.events.len() as u64 + (self.dice.below(1 << 40) << 20));
        self.events.insert(key, event);
    }

    fn end(&mut self, number: usize, end: End) {
        assert_eq!(self.ends[number].replace(end), None, "job {number} ended twice");
    }

    fn lead(&mut self, role: Role<'g, Played>, job: Played) {
        let number = job.number;
        let (jobs, promises) = role.gather(job);
        assert!(jobs.len() <= self.limits.lanes_max.get());
        self.begun.extend(jobs.iter().map(|job| job.number));
        let outputs = run_caught(&(), jobs);
        let delay = 1 + self.dice.below(50);
        self.at(delay, Event::EndsRound(number, role, outputs, promises));
    }

    fn step(&mut self, event: Event<'g>) {
        match event {
            Event::Comes(job) => {
                let number = job.number;
                if self.dice.below(2) == 0
                    && let Some(role) = self.gate.enter()
                {
                    return self.alone(number, role);
                }
                match self.gate.queue(job) {
                    Ok(Place::Role(role, _)) => self.alone(number, role),
                    Ok(Place::Seat(seat)) => {
                        self.sat.push(number);
                        self.seated.push((number, seat));
                    }
                    Err(refused) => {
                        let room = self.gate.len() < self.limits.depth;
                        assert_eq!(refused == Refused::Closed, self.is_closed);
                        assert!(self.is_closed || !room, "refused though there is room");
                        self.end(number, End::Refused(refused));
                    }
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
            Event::Closes => {
                self.gate.close();
                self.is_closed = true;
            }
        }
    }

    fn alone(&mut self, number: usize, role: Role<'g, Played>) {
        self.begun.push(number);
        let delay = 1 + self.dice.below(50);
        self.at(delay, Event::EndsAlone(number, role));
    }

    /// Wakes the callers that were called, as the operating system would.
    fn wake(&mut self) {
        for (number, seat) in std::mem::take(&mut self.seated) {
            match seat.poll() {
                None => self.seated.push((number, seat)),
                Some(Call::Done(output)) => {
                    assert!(output.is_err() || output == Ok(number), "somebody else's output");
                    self.end(number, if output.is_ok() { End::Done } else { End::Lost });
                }
                Some(Call::Lead(job)) => {
                    assert_eq!(job.number, number, "somebody else's job");
                    let role = self.gate.resume();
                    self.lead(role, job);
                }
            }
        }
    }

    /// What holds after every event.
    fn check(&self) {
        assert!(self.gate.len() <= self.limits.depth, "the line grows");
        assert!(self.gate.leaders() <= self.limits.leaders_max.get(), "too many lead");
        let all_roles = self.gate.leaders() == self.limits.leaders_max.get();
        assert!(self.gate.len() == 0 || all_roles, "somebody waits though a role is free");
    }
}

fn play(seed: u64) -> Vec<End> {
    let dice = Dice(Cell::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1));
    let some = |n: u64| NonZero::new(1 + dice.below(n) as usize).unwrap();
    let limits = Limits {
        depth: dice.below(12) as usize,
        lanes_max: some(9),
        leaders_max: some(3),
        message_max: 0,
    };
    let gate = Gate::<Played>::new(limits, Arc::new(()));
    let jobs = 1 + dice.below(60) as usize;
    // From a caller every now and then to all of them at once.
    let span = 1 + dice.below(20) * jobs as u64;
    let mut world = World {
        gate: &gate,
        limits,
        dice: &dice,
        now: 0,
        events: BTreeMap::new(),
        seated: Vec::new(),
        ends: vec![None; jobs],
        begun: Vec::new(),
        sat: Vec::new(),
        is_closed: false,
    };
    let faults = dice.below(3) == 0;
    for number in 0..jobs {
        let fate = match dice.below(12) {
            0 if faults => Fate::Panics,
            1 if faults => Fate::Short,
            _ => Fate::Good,
        };
        world.at(dice.below(span), Event::Comes(Played { number, fate }));
    }
    if dice.below(4) == 0 {
        world.at(dice.below(2 * span), Event::Closes);
    }
    while let Some(((now, _), event)) = world.events.pop_first() {
        world.now = now;
        world.step(event);
        world.wake();
        world.check();
    }
    assert!(world.seated.is_empty() && gate.len() == 0, "somebody waits for ever");
    assert_eq!(gate.leaders(), 0, "a role was not given back");
    let ends: Vec<End> = world.ends.iter().map(|end| end.expect("every job ends")).collect();
    if !faults {
        assert!(!ends.contains(&End::Lost));
    }
    let begun_seated: Vec<_> = world.begun.iter().filter(|n| world.sat.contains(n)).collect();
    assert_eq!(begun_seated, world.sat.iter().collect::<Vec<_>>(), "out of order");
    ends
}

#[test]
fn every_job_ends_once_and_in_order_in_thousands_of_schedules() {
    std::panic::set_hook(Box::new(|info| {
        // The panics that are played would fill the screen.
        if !info.to_string().contains("played") {
            eprintln!("{info}");
        }
    }));
    let mut seen = [0usize; 4];
    for seed in 0..5_000 {
        for end in play(seed) {
            let kind = match end {
                End::Done => 0,
                End::Lost => 1,
                End::Refused(Refused::Busy) => 2,
                End::Refused(Refused::Closed) => 3,
            };
            seen[kind] += 1;
        }
    }
    let _ = std::panic::take_hook();
    // The schedules reach what they are for.
    assert!(seen.iter().all(|&count| count > 500), "{seen:?}");
}
