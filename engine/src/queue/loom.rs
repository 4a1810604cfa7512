//! Every interleaving of a few threads at a gate and at a board, by loom.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.

use std::num::NonZero;
use std::sync::Arc;

use ::loom::sync::atomic::{AtomicUsize, Ordering};
use ::loom::thread;

use super::Limits;
use super::board::Board;
use super::gate::{Gate, Job, Refusal};
use super::ticket::Ticket;
use crate::error::Error;

/// A job that counts running jobs; job 0 panics.
struct CountedJob(usize);

impl Job for CountedJob {
    type Output = Result<usize, Error>;
    type Context = AtomicUsize;

    fn run(context: &AtomicUsize, jobs: Vec<Self>) -> Vec<Self::Output> {
        context.fetch_add(jobs.len(), Ordering::Relaxed);
        jobs.into_iter().map(|job| Ok(job.0)).collect()
    }

    fn lost() -> Self::Output {
        Err(Error::Lost)
    }
}

fn limits(depth: usize, lanes_max: usize, leaders_max: usize) -> Limits {
    let some = |n| NonZero::new(n).unwrap();
    Limits {
        depth,
        lanes_max: some(lanes_max),
        leaders_max: some(leaders_max),
        message_max: 0,
        long_max: 0,
    }
}

/// A model whose preemptions are bounded, which keeps the suite within seconds.
fn model(f: impl Fn() + Send + Sync + 'static) {
    let mut builder = ::loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(f);
}

fn call(gate: &Gate<CountedJob>, number: usize) -> Result<usize, Refusal> {
    let alone = |context: &AtomicUsize| {
        context.fetch_add(1, Ordering::Relaxed);
        Ok(number)
    };
    gate.call(alone, || CountedJob(number)).map(|output| output.unwrap())
}

#[test]
fn every_waiting_thread_is_served() {
    for (lanes_max, leaders_max) in [(1, 1), (2, 1), (4, 1), (2, 2)] {
        model(move || {
            let gate = Gate::new(limits(4, lanes_max, leaders_max), Arc::new(AtomicUsize::new(0)));
            let others: Vec<_> = (1..3)
                .map(|number| {
                    let gate = Arc::clone(&gate);
                    thread::spawn(move || assert_eq!(call(&gate, number), Ok(number)))
                })
                .collect();
            assert_eq!(call(&gate, 0), Ok(0));
            others.into_iter().for_each(|other| other.join().unwrap());
            assert_eq!((gate.len(), gate.leaders()), (0, 0));
            assert_eq!(gate.context().load(Ordering::Relaxed), 3);
        });
    }
}

#[test]
fn a_full_line_says_busy_and_serves_those_that_wait() {
    model(|| {
        let gate = Gate::new(limits(1, 2, 1), Arc::new(AtomicUsize::new(0)));
        let others: Vec<_> = (1..3)
            .map(|number| {
                let gate = Arc::clone(&gate);
                thread::spawn(move || call(&gate, number))
            })
            .collect();
        let mut ends = vec![call(&gate, 0)];
        ends.extend(others.into_iter().map(|other| other.join().unwrap()));
        let served = ends.iter().filter(|end| end.is_ok()).count();
        assert!(ends.iter().all(|end| end.is_ok() || *end == Err(Refusal::Busy)));
        assert!(served >= 2, "one leads and one may wait");
        assert_eq!(gate.context().load(Ordering::Relaxed), served);
        assert_eq!((gate.len(), gate.leaders()), (0, 0));
    });
}

#[test]
fn tickets_are_completed_beside_a_thread_that_waits_and_through_a_close() {
    model(|| {
        let gate = Gate::new(limits(4, 2, 1), Arc::new(AtomicUsize::new(0)));
        let board = Board::new();
        let worker = {
            let board = Arc::clone(&board);
            thread::spawn(move || board.work())
        };
        let caller = {
            let gate = Arc::clone(&gate);
            thread::spawn(move || assert_eq!(call(&gate, 1), Ok(1)))
        };
        let ticket = Ticket::new(gate.submit(&board, CountedJob(2)).unwrap());
        board.close();
        assert_eq!(gate.submit(&board, CountedJob(3)).err(), Some(Refusal::Closed));
        assert_eq!(ticket.wait(), Ok(2));
        caller.join().unwrap();
        worker.join().unwrap();
        assert_eq!((gate.len(), gate.leaders()), (0, 0));
    });
}

#[test]
fn two_workers_share_one_line_and_both_end() {
    model(|| {
        let gate = Gate::new(limits(4, 2, 1), Arc::new(AtomicUsize::new(0)));
        let board = Board::new();
        let workers: Vec<_> = (0..2)
            .map(|_| {
                let board = Arc::clone(&board);
                thread::spawn(move || board.work())
            })
            .collect();
        let tickets =
            [0, 1].map(|number| Ticket::new(gate.submit(&board, CountedJob(number)).unwrap()));
        board.close();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        for (number, mut ticket) in tickets.into_iter().enumerate() {
            assert_eq!(ticket.poll(), Some(Ok(number)));
            assert_eq!(ticket.poll(), None);
        }
    });
}
