//! Where a result is fetched: a seat for a thread that waits, a ticket for one that does not.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::error::Error;
use crate::sync::{Condvar, Mutex, lock, wait_until};

/// Where a blocked thread waits for its job's output, or for the role of a leader.
pub(super) struct Seat<J, O> {
    state: Mutex<SeatState<J, O>>,
    changed: Condvar,
}

enum SeatState<J, O> {
    Waiting,
    Over(Call<J, O>),
    Gone,
}

/// Why a seat is left.
#[derive(Debug)]
pub(super) enum Call<J, O> {
    /// Another thread ran the job.
    Done(O),
    /// The thread leads now; its job, which nobody ran, comes back.
    Lead(J),
}

impl<J, O> Seat<J, O> {
    pub(super) fn new() -> Self {
        Seat { state: Mutex::new(SeatState::Waiting), changed: Condvar::new() }
    }

    /// Calls the thread that waits. Once.
    pub(super) fn call(&self, call: Call<J, O>) {
        *lock(&self.state) = SeatState::Over(call);
        self.changed.notify_one();
    }

    /// Blocks until the call.
    pub(super) fn wait(&self) -> Call<J, O> {
        let waits = |state: &SeatState<J, O>| !matches!(state, SeatState::Waiting);
        let mut state = wait_until(&self.changed, lock(&self.state), waits);
        match std::mem::replace(&mut *state, SeatState::Gone) {
            SeatState::Over(call) => call,
            // Only this thread waits here, and it waits once.
            SeatState::Waiting | SeatState::Gone => unreachable!("a seat is left once"),
        }
    }

    /// The call, if it came.
    #[cfg(any(test, fuzzing))]
    pub(super) fn poll(&self) -> Option<Call<J, O>> {
        let mut state = lock(&self.state);
        match std::mem::replace(&mut *state, SeatState::Gone) {
            SeatState::Over(call) => Some(call),
            other => {
                *state = other;
                None
            }
        }
    }
}

/// What is to be done with a result when it comes.
type Callback<O> = Box<dyn FnOnce(O) + Send>;

/// The place that a ticket and the worker share.
pub(super) struct Slip<O> {
    state: Mutex<SlipState<O>>,
    changed: Condvar,
}

enum SlipState<O> {
    Waiting(Option<Waker>),
    Callback(Callback<O>),
    Done(O),
    Taken,
}

impl<O> Slip<O> {
    pub(super) fn new() -> Self {
        Slip { state: Mutex::new(SlipState::Waiting(None)), changed: Condvar::new() }
    }

    /// Leaves the output, and tells whoever asked to be told. A panic in a callback ends there: it
    /// must not take other jobs' results with it.
    pub(super) fn complete(&self, output: O) {
        let mut state = lock(&self.state);
        match std::mem::replace(&mut *state, SlipState::Taken) {
            SlipState::Waiting(waker) => {
                *state = SlipState::Done(output);
                drop(state);
                self.changed.notify_one();
                if let Some(waker) = waker {
                    let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
                }
            }
            SlipState::Callback(callback) => {
                drop(state);
                let _ = catch_unwind(AssertUnwindSafe(|| callback(output)));
            }
            other => *state = other,
        }
    }

    fn take(&self) -> Option<O> {
        let mut state = lock(&self.state);
        match std::mem::replace(&mut *state, SlipState::Taken) {
            SlipState::Done(output) => Some(output),
            other => {
                *state = other;
                None
            }
        }
    }
}

/// A job that was handed in. The result comes whether somebody asks or not; it can be fetched once,
/// by [`Ticket::poll`], [`Ticket::wait`], [`Ticket::then`] or `.await`. A ticket that is dropped
/// takes nothing back: the job runs and its result is dropped.
#[must_use = "the result is fetched with it"]
pub struct Ticket<T>(Arc<Slip<Result<T, Error>>>);

impl<T> Ticket<T> {
    pub(super) fn new(slip: Arc<Slip<Result<T, Error>>>) -> Self {
        Ticket(slip)
    }

    /// A ticket whose result is there.
    pub(super) fn ready(result: Result<T, Error>) -> Self {
        let slip = Slip::new();
        slip.complete(result);
        Ticket(Arc::new(slip))
    }

    /// Whether the result is there.
    pub fn is_ready(&self) -> bool {
        matches!(&*lock(&self.0.state), SlipState::Done(_))
    }

    /// The result, if it is there. Never blocks; `None` also after the result was fetched.
    ///
    /// # Errors
    /// Those of the operation; [`Error::Lost`] if the job was lost.
    pub fn poll(&mut self) -> Option<Result<T, Error>> {
        self.0.take()
    }

    /// Blocks until the result is there.
    ///
    /// # Errors
    /// Those of the operation; [`Error::Lost`] if the job was lost, or its result fetched before.
    pub fn wait(self) -> Result<T, Error> {
        let is_over = |state: &SlipState<_>| !matches!(state, SlipState::Waiting(_));
        drop(wait_until(&self.0.changed, lock(&self.0.state), is_over));
        self.0.take().unwrap_or(Err(Error::Lost))
    }

    /// Calls `callback` with the result: on a worker thread, when it comes, or on this thread now,
    /// if it came already. It should be short, since other jobs wait for that worker, and it must
    /// not wait for a ticket nor call the queue's blocking operations, which may need that worker.
    pub fn then(self, callback: impl FnOnce(Result<T, Error>) + Send + 'static) {
        let mut state = lock(&self.0.state);
        match std::mem::replace(&mut *state, SlipState::Taken) {
            SlipState::Waiting(_) => *state = SlipState::Callback(Box::new(callback)),
            SlipState::Done(output) => {
                drop(state);
                callback(output);
            }
            SlipState::Callback(_) | SlipState::Taken => {
                drop(state);
                callback(Err(Error::Lost));
            }
        }
    }
}

impl<T> Future for Ticket<T> {
    type Output = Result<T, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = lock(&self.0.state);
        match std::mem::replace(&mut *state, SlipState::Taken) {
            SlipState::Done(output) => Poll::Ready(output),
            SlipState::Waiting(_) => {
                *state = SlipState::Waiting(Some(context.waker().clone()));
                Poll::Pending
            }
            SlipState::Callback(_) | SlipState::Taken => Poll::Ready(Err(Error::Lost)),
        }
    }
}
