//! The rules of a line of jobs (run, wait or reject), without locks or threads.
//!
//! ```text
//!   arrive --a role is free--> Lead ----run----> leave --no one waits----> the role is free again
//!      |                                           |
//!      +--all roles taken--> Wait (at most `depth`)+--others wait-------> the first leads next,
//!      +--the line is full-> Busy                       and takes those behind it along
//! ```
//!
//! Jobs wait only while all roles are taken, and a released role goes to the first waiting job. No
//! job is forgotten, and a job that finds a free role overtakes none.

use std::collections::VecDeque;

use super::Limits;

/// Jobs of one operation of one algorithm.
pub(super) struct Line<E> {
    waiting: VecDeque<E>,
    leaders: usize,
    is_closed: bool,
    limits: Limits,
}

/// The decision for an arriving job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// It has a role: it runs immediately, and [`Line::leave`] must be called afterwards.
    Lead,
    /// It may wait, by [`Line::push`].
    Wait,
    /// The maximum number of jobs is waiting.
    Busy,
    /// The line is closed.
    Closed,
}

impl<E> Line<E> {
    pub(super) fn new(limits: Limits) -> Self {
        Line { waiting: VecDeque::new(), leaders: 0, is_closed: false, limits }
    }

    /// Determines how an arriving job is handled.
    pub(super) fn arrive(&mut self) -> Arrival {
        if self.is_closed {
            Arrival::Closed
        } else if self.leaders < self.limits.leaders_max.get() {
            debug_assert!(self.waiting.is_empty(), "who waits takes a free role first");
            self.leaders += 1;
            Arrival::Lead
        } else if self.waiting.len() < self.limits.depth {
            Arrival::Wait
        } else {
            Arrival::Busy
        }
    }

    /// Enters a job to which [`Line::arrive`] said [`Arrival::Wait`], under the same lock.
    pub(super) fn push(&mut self, entry: E) {
        debug_assert!(self.leaders > 0 && self.waiting.len() < self.limits.depth);
        self.waiting.push_back(entry);
    }

    /// Takes the jobs that waited longest: as many as a leader takes in addition to its own.
    pub(super) fn gather(&mut self) -> impl Iterator<Item = E> + '_ {
        let many = self.waiting.len().min(self.limits.lanes_max.get() - 1);
        self.waiting.drain(..many)
    }

    /// Releases a role. The first waiting job gets it and is returned; without one, the role
    /// becomes free.
    pub(super) fn leave(&mut self) -> Option<E> {
        debug_assert!(self.leaders > 0);
        let next = self.waiting.pop_front();
        if next.is_none() {
            self.leaders -= 1;
        }
        next
    }

    /// Closes the line. Waiting jobs are still served.
    pub(super) fn close(&mut self) {
        self.is_closed = true;
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Returns how many wait.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Returns how many roles are taken.
    #[cfg(any(test, fuzzing))]
    pub(super) fn leaders(&self) -> usize {
        self.leaders
    }
}
