//! The entrance to a line: a job runs immediately, or waits and runs in a batch with others.
//!
//! ```text
//!   enter --> Role ---------------> the caller runs its job alone, borrowed, and drops the role
//!     |
//!   queue --> Waiter --Done(output)-> another thread ran it
//!               |
//!               +----Lead(job)----> Role::round: its own job and those behind it, as one batch
//!   submit -> SharedResult          the same, but a worker thread of the [`Board`] leads
//! ```
//!
//! A leader runs one batch that starts with its job, and then passes the role on. A thread
//! therefore works for others only as long as its job takes in that batch.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};

use super::Limits;
use super::board::{Board, Turn};
use super::line::{Arrival, Line};
use super::ticket::{Call, SharedResult, Waiter};
use crate::sync::{Mutex, lock};

/// A kind of job that can be run many at a time.
pub(super) trait Job: Send + Sized + 'static {
    /// The result of a job.
    type Output: Send + 'static;
    /// The data shared by all jobs.
    type Context: Send + Sync + 'static;

    /// Runs them together: one output for each, in their order.
    fn run(context: &Self::Context, jobs: Vec<Self>) -> Vec<Self::Output>;

    /// Returns the result of a job that was not completed.
    fn lost() -> Self::Output;
}

/// Why a queue refuses a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The line is full.
    Busy,
    /// The queue was shut down.
    Closed,
}

/// A waiting job, and the promise of its output.
struct Entry<J: Job> {
    job: J,
    promise: Promise<J>,
}

/// An output that is owed. One that is dropped unkept is kept with [`Job::lost`].
pub(super) struct Promise<J: Job>(Option<Recipient<J>>);

enum Recipient<J: Job> {
    Waiter(Arc<Waiter<J, J::Output>>),
    Ticket(Arc<SharedResult<J::Output>>, Arc<Board>),
}

impl<J: Job> Promise<J> {
    fn keep(mut self, output: J::Output) {
        self.keep_with(|| output);
    }

    fn keep_with(&mut self, output: impl FnOnce() -> J::Output) {
        match self.0.take() {
            Some(Recipient::Waiter(waiter)) => waiter.call(Call::Done(output())),
            Some(Recipient::Ticket(result_slot, board)) => {
                result_slot.complete(output());
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
    /// A reference to itself, for the turns of workers.
    me: Weak<Gate<J>>,
}

/// The result of admitting a job.
pub(super) enum Admission<'a, J: Job> {
    /// A role became free meanwhile; the job is returned.
    Role(Role<'a, J>, J),
    /// The job waits; calling the waiter determines the rest.
    Waiter(Arc<Waiter<J, J::Output>>),
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

    /// Takes a role, or otherwise queues the job and returns its waiter.
    pub(super) fn queue(&self, job: J) -> Result<Admission<'_, J>, Refusal> {
        let waiter = Arc::new(Waiter::new());
        let mut line = lock(&self.line);
        match line.arrive() {
            Arrival::Lead => Ok(Admission::Role(Role(self), job)),
            Arrival::Wait => {
                let promise = Promise(Some(Recipient::Waiter(Arc::clone(&waiter))));
                line.push(Entry { job, promise });
                Ok(Admission::Waiter(waiter))
            }
            Arrival::Busy => Err(Refusal::Busy),
            Arrival::Closed => Err(Refusal::Closed),
        }
    }

    /// Runs a job on this thread: by `alone`, if it can run immediately, or as the job that
    /// `queued` makes, together with others.
    pub(super) fn call(
        &self,
        alone: impl FnOnce(&J::Context) -> J::Output,
        queued: impl FnOnce() -> J,
    ) -> Result<J::Output, Refusal> {
        if let Some(_role) = self.enter() {
            return Ok(alone(&self.context));
        }
        match self.queue(queued())? {
            Admission::Role(_role, _) => Ok(alone(&self.context)),
            Admission::Waiter(waiter) => Ok(self.wait(&waiter)),
        }
    }

    /// Runs a job that owns its memory on this thread.
    pub(super) fn run(&self, job: J) -> Result<J::Output, Refusal> {
        match self.queue(job)? {
            Admission::Role(role, job) => Ok(role.round(job)),
            Admission::Waiter(waiter) => Ok(self.wait(&waiter)),
        }
    }

    fn wait(&self, waiter: &Waiter<J, J::Output>) -> J::Output {
        match waiter.wait() {
            Call::Done(output) => output,
            Call::Lead(job) => self.resume().round(job),
        }
    }

    /// Refuses where no more jobs are taken.
    pub(super) fn check_open(&self) -> Result<(), Refusal> {
        if lock(&self.line).is_closed() { Err(Refusal::Closed) } else { Ok(()) }
    }

    /// Submits a job for the workers of `board`.
    pub(super) fn submit(
        &self,
        board: &Arc<Board>,
        job: J,
    ) -> Result<Arc<SharedResult<J::Output>>, Refusal> {
        if !board.begin() {
            return Err(Refusal::Closed);
        }
        let result_slot = Arc::new(SharedResult::new());
        // From here on the promise tells the board that the job is over, whatever happens to it.
        let promise = Promise(Some(Recipient::Ticket(Arc::clone(&result_slot), Arc::clone(board))));
        let entry = Entry { job, promise };
        let mut line = lock(&self.line);
        match line.arrive() {
            Arrival::Lead => {
                drop(line);
                self.post(board, entry);
            }
            Arrival::Wait => line.push(entry),
            Arrival::Busy => return Err(Refusal::Busy),
            Arrival::Closed => return Err(Refusal::Closed),
        }
        Ok(result_slot)
    }

    /// Passes the role of `first` to a worker.
    fn post(&self, board: &Board, first: Entry<J>) {
        if let Some(gate) = self.me.upgrade() {
            board.post(Box::new(LeaderTurn { gate, first }));
        }
    }

    /// Closes the gate for further jobs.
    pub(super) fn close(&self) {
        lock(&self.line).close();
    }

    /// Returns how many jobs wait.
    pub(super) fn len(&self) -> usize {
        lock(&self.line).len()
    }

    /// The role of a thread whose waiter was called with [`Call::Lead`].
    pub(super) fn resume(&self) -> Role<'_, J> {
        Role(self)
    }

    /// Returns the data shared by all jobs.
    pub(super) fn context(&self) -> &J::Context {
        &self.context
    }

    /// Returns how many roles are taken.
    #[cfg(any(test, fuzzing))]
    pub(super) fn leaders(&self) -> usize {
        lock(&self.line).leaders()
    }
}

/// The right to run; passes on when dropped.
pub(super) struct Role<'a, J: Job>(&'a Gate<J>);

impl<J: Job> Role<'_, J> {
    /// Runs a batch of `first` and the waiting jobs; returns the output of `first`, and delivers
    /// the others.
    pub(super) fn round(self, first: J) -> J::Output {
        let (jobs, promises) = self.gather(first);
        let outputs = run_caught(self.0.context(), jobs);
        // The next leader begins while this thread delivers the outputs.
        drop(self);
        keep_all(outputs, promises)
    }

    /// Returns the batch that this leader runs, and the promises of all outputs but the first.
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
        // A separate variable, so that the lock is released before the next leader is called.
        let next = lock(&self.0.line).leave();
        let Some(Entry { job, mut promise }) = next else {
            return;
        };
        match promise.0.take() {
            Some(Recipient::Waiter(waiter)) => waiter.call(Call::Lead(job)),
            Some(Recipient::Ticket(result_slot, board)) => {
                let promise = Promise(Some(Recipient::Ticket(result_slot, Arc::clone(&board))));
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

/// Delivers outputs; returns the first. Missing outputs are reported as lost.
pub(super) fn keep_all<J: Job>(outputs: Vec<J::Output>, promises: Vec<Promise<J>>) -> J::Output {
    let mut outputs = outputs.into_iter();
    let first = outputs.next().unwrap_or_else(J::lost);
    for (promise, output) in promises.into_iter().zip(outputs) {
        promise.keep(output);
    }
    first
}

/// A leader's turn: a role and its first job, on their way to a worker.
struct LeaderTurn<J: Job> {
    gate: Arc<Gate<J>>,
    first: Entry<J>,
}

impl<J: Job> Turn for LeaderTurn<J> {
    fn run(self: Box<Self>) {
        let Entry { job, promise } = self.first;
        promise.keep(Role(&self.gate).round(job));
    }
}
