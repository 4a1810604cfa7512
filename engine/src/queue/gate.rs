//! The way into one line: run at once, or wait and be run together with others.
//!
//! ```text
//!   enter --> Role ---------------> the caller runs its job alone, borrowed, and drops the role
//!     |
//!   queue --> Seat --Done(output)-> another thread ran it
//!               |
//!               +----Lead(job)----> Role::round: its own job and those behind it, as one batch
//!   submit -> Slip                  the same, but a worker thread of the [`Board`] leads
//! ```
//!
//! A leader runs one batch, of which its own job is the first, and then the role passes on: nobody
//! works for others longer than its own job takes beside others.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};

use super::Limits;
use super::board::{Board, Turn};
use super::line::{Arrival, Line};
use super::ticket::{Call, Seat, Slip};
use crate::sync::{Mutex, lock};

/// A kind of job that can be run many at a time.
pub(super) trait Job: Send + Sized + 'static {
    /// What a job gives.
    type Output: Send + 'static;
    /// What all jobs share.
    type Context: Send + Sync + 'static;

    /// Runs them together: one output for each, in their order.
    fn run(context: &Self::Context, jobs: Vec<Self>) -> Vec<Self::Output>;

    /// The output of a job that nobody ran to its end.
    fn lost() -> Self::Output;
}

/// Why a job was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// The line is full.
    Busy,
    /// The queue was shut down.
    Closed,
}

/// A job that waits, and who wants its output.
struct Entry<J: Job> {
    job: J,
    promise: Promise<J>,
}

/// An output that is owed. One that is dropped unkept is kept with [`Job::lost`].
pub(super) struct Promise<J: Job>(Option<To<J>>);

enum To<J: Job> {
    Seat(Arc<Seat<J, J::Output>>),
    Slip(Arc<Slip<J::Output>>, Arc<Board>),
}

impl<J: Job> Promise<J> {
    fn keep(mut self, output: J::Output) {
        self.keep_with(|| output);
    }

    fn keep_with(&mut self, output: impl FnOnce() -> J::Output) {
        match self.0.take() {
            Some(To::Seat(seat)) => seat.call(Call::Done(output())),
            Some(To::Slip(slip, board)) => {
                slip.complete(output());
                board.finish();
            }
            None => {}
        }
    }
}

impl<J: Job> Drop for Promise<J> {
    fn drop(&mut self) {
        self.keep_with(J::lost);
    }
}

/// One line and its lock.
pub(super) struct Gate<J: Job> {
    line: Mutex<Line<Entry<J>>>,
    context: Arc<J::Context>,
    /// For the turns that workers take.
    me: Weak<Gate<J>>,
}

/// Where a job went that could not run at once.
pub(super) enum Place<'a, J: Job> {
    /// A role became free meanwhile; the job comes back.
    Role(Role<'a, J>, J),
    /// It waits; the seat's call tells the rest.
    Seat(Arc<Seat<J, J::Output>>),
}

impl<J: Job> Gate<J> {
    pub(super) fn new(limits: Limits, context: Arc<J::Context>) -> Arc<Self> {
        Arc::new_cyclic(|me| Gate {
            line: Mutex::new(Line::new(limits)),
            context,
            me: Weak::clone(me),
        })
    }

    /// Takes a role, if one is free.
    pub(super) fn enter(&self) -> Option<Role<'_, J>> {
        let arrival = lock(&self.line).arrive();
        (arrival == Arrival::Lead).then(|| Role(self))
    }

    /// Takes a role, or else a seat for this job.
    pub(super) fn queue(&self, job: J) -> Result<Place<'_, J>, Refused> {
        let seat = Arc::new(Seat::new());
        let mut line = lock(&self.line);
        match line.arrive() {
            Arrival::Lead => Ok(Place::Role(Role(self), job)),
            Arrival::Wait => {
                let promise = Promise(Some(To::Seat(Arc::clone(&seat))));
                line.push(Entry { job, promise });
                Ok(Place::Seat(seat))
            }
            Arrival::Busy => Err(Refused::Busy),
            Arrival::Closed => Err(Refused::Closed),
        }
    }

    /// Runs a job on this thread: `alone`, if it can run at once, or as what `queued` makes of it,
    /// together with others.
    pub(super) fn call(
        &self,
        alone: impl FnOnce(&J::Context) -> J::Output,
        queued: impl FnOnce() -> J,
    ) -> Result<J::Output, Refused> {
        if let Some(_role) = self.enter() {
            return Ok(alone(&self.context));
        }
        match self.queue(queued())? {
            Place::Role(_role, _) => Ok(alone(&self.context)),
            Place::Seat(seat) => Ok(self.wait(&seat)),
        }
    }

    /// Runs a job on this thread that has memory of its own already.
    pub(super) fn run(&self, job: J) -> Result<J::Output, Refused> {
        match self.queue(job)? {
            Place::Role(role, job) => Ok(role.round(job)),
            Place::Seat(seat) => Ok(self.wait(&seat)),
        }
    }

    fn wait(&self, seat: &Seat<J, J::Output>) -> J::Output {
        match seat.wait() {
            Call::Done(output) => output,
            Call::Lead(job) => self.resume().round(job),
        }
    }

    /// Refuses where no more jobs are taken.
    pub(super) fn check_open(&self) -> Result<(), Refused> {
        if lock(&self.line).is_closed() { Err(Refused::Closed) } else { Ok(()) }
    }

    /// Hands a job in for the workers of `board`.
    pub(super) fn submit(
        &self,
        board: &Arc<Board>,
        job: J,
    ) -> Result<Arc<Slip<J::Output>>, Refused> {
        if !board.begin() {
            return Err(Refused::Closed);
        }
        let slip = Arc::new(Slip::new());
        // From here on the promise tells the board that the job is over, whatever happens to it.
        let promise = Promise(Some(To::Slip(Arc::clone(&slip), Arc::clone(board))));
        let entry = Entry { job, promise };
        let mut line = lock(&self.line);
        match line.arrive() {
            Arrival::Lead => {
                drop(line);
                self.post(board, entry);
            }
            Arrival::Wait => line.push(entry),
            Arrival::Busy => return Err(Refused::Busy),
            Arrival::Closed => return Err(Refused::Closed),
        }
        Ok(slip)
    }

    /// Gives a worker the role that `first` has.
    fn post(&self, board: &Board, first: Entry<J>) {
        if let Some(gate) = self.me.upgrade() {
            board.post(Box::new(Led { gate, first }));
        }
    }

    /// Takes no more jobs.
    pub(super) fn close(&self) {
        lock(&self.line).close();
    }

    /// How many jobs wait.
    pub(super) fn len(&self) -> usize {
        lock(&self.line).len()
    }

    /// The role of a thread whose seat was called with [`Call::Lead`].
    pub(super) fn resume(&self) -> Role<'_, J> {
        Role(self)
    }

    /// What all jobs share.
    pub(super) fn context(&self) -> &J::Context {
        &self.context
    }

    /// How many roles are taken.
    #[cfg(any(test, fuzzing))]
    pub(super) fn leaders(&self) -> usize {
        lock(&self.line).leaders()
    }
}

/// The right to run; passes on when dropped.
pub(super) struct Role<'a, J: Job>(&'a Gate<J>);

impl<J: Job> Role<'_, J> {
    /// Runs a batch: `first`, whose output it gives, and those who wait, who get theirs.
    pub(super) fn round(self, first: J) -> J::Output {
        let (jobs, promises) = self.gather(first);
        let outputs = run_caught(self.0.context(), jobs);
        // The next leader begins while this thread hands the outputs out.
        drop(self);
        keep_all(outputs, promises)
    }

    /// The batch that this leader runs, and who wants the outputs but the first.
    pub(super) fn gather(&self, first: J) -> (Vec<J>, Vec<Promise<J>>) {
        let mut line = lock(&self.0.line);
        let mut jobs = Vec::with_capacity(1 + line.len());
        let mut promises = Vec::with_capacity(line.len());
        jobs.push(first);
        for Entry { job, promise } in line.gather() {
            jobs.push(job);
            promises.push(promise);
        }
        (jobs, promises)
    }
}

impl<J: Job> Drop for Role<'_, J> {
    fn drop(&mut self) {
        // A name of its own, so that no lock is held while the next leader is called.
        let next = lock(&self.0.line).leave();
        let Some(Entry { job, mut promise }) = next else {
            return;
        };
        match promise.0.take() {
            Some(To::Seat(seat)) => seat.call(Call::Lead(job)),
            Some(To::Slip(slip, board)) => {
                let promise = Promise(Some(To::Slip(slip, Arc::clone(&board))));
                self.0.post(&board, Entry { job, promise });
            }
            // A promise is taken when it is kept, and then its entry is gone.
            None => unreachable!("an entry that waits has its promise"),
        }
    }
}

/// Runs jobs together. A panic leaves no outputs, and every promise unkept.
pub(super) fn run_caught<J: Job>(context: &J::Context, jobs: Vec<J>) -> Vec<J::Output> {
    catch_unwind(AssertUnwindSafe(|| J::run(context, jobs))).unwrap_or_default()
}

/// Hands outputs out; gives the first. What is missing is lost.
pub(super) fn keep_all<J: Job>(outputs: Vec<J::Output>, promises: Vec<Promise<J>>) -> J::Output {
    let mut outputs = outputs.into_iter();
    let first = outputs.next().unwrap_or_else(J::lost);
    for (promise, output) in promises.into_iter().zip(outputs) {
        promise.keep(output);
    }
    first
}

/// A role and its first job, on their way to a worker.
struct Led<J: Job> {
    gate: Arc<Gate<J>>,
    first: Entry<J>,
}

impl<J: Job> Turn for Led<J> {
    fn run(self: Box<Self>) {
        let Entry { job, promise } = self.first;
        promise.keep(Role(&self.gate).round(job));
    }
}
