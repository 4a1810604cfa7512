//! Where a result is fetched: a waiter for a thread that blocks, a ticket for one that does not.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::error::Error;
use crate::sync::{Condvar, Mutex, lock, wait_until};

/// The state in which a blocked thread waits for its job's output, or for the role of a leader.
pub(super) struct Waiter<J, O> {
    state: Mutex<WaiterState<J, O>>,
    changed: Condvar,
}

enum WaiterState<J, O> {
    Waiting,
    Called(Call<J, O>),
    Empty,
}

/// Why a waiter was called.
#[derive(Debug)]
pub(super) enum Call<J, O> {
    /// Another thread ran the job.
    Done(O),
    /// The thread leads now; its job, which has not run, is returned.
    Lead(J),
}

impl<J, O> Waiter<J, O> {
    pub(super) fn new() -> Self {
        Waiter { state: Mutex::new(WaiterState::Waiting), changed: Condvar::new() }
    }

    /// Calls the thread that waits. Once.
    pub(super) fn call(&self, call: Call<J, O>) {
        *lock(&self.state) = WaiterState::Called(call);
        self.changed.notify_one();
    }

    /// Blocks until the call.
    pub(super) fn wait(&self) -> Call<J, O> {
        let waits = |state: &WaiterState<J, O>| !matches!(state, WaiterState::Waiting);
        let mut state = wait_until(&self.changed, lock(&self.state), waits);
        match std::mem::replace(&mut *state, WaiterState::Empty) {
            WaiterState::Called(call) => call,
            // Only this thread waits here, and it waits once.
            WaiterState::Waiting | WaiterState::Empty => unreachable!("a waiter is called once"),
        }
    }

    /// The call, if it came.
    #[cfg(any(test, fuzzing))]
    pub(super) fn poll(&self) -> Option<Call<J, O>> {
        let mut state = lock(&self.state);
        match std::mem::replace(&mut *state, WaiterState::Empty) {
            WaiterState::Called(call) => Some(call),
            other => {
                *state = other;
                None
            }
        }
    }
}

/// The callback for a result.
type Callback<O> = Box<dyn FnOnce(O) + Send>;

/// The result that a ticket and the worker share.
pub(super) struct SharedResult<O> {
    state: Mutex<ResultState<O>>,
    changed: Condvar,
}

enum ResultState<O> {
    Waiting(Option<Waker>),
    Callback(Callback<O>),
    Done(O),
    Taken,
}

impl<O> SharedResult<O> {
    pub(super) fn new() -> Self {
        SharedResult { state: Mutex::new(ResultState::Waiting(None)), changed: Condvar::new() }
    }

    /// Stores the output and notifies the waiter or callback. A panic in a callback is caught, so
    /// that other jobs keep their results.
    pub(super) fn complete(&self, output: O) {
        let mut state = lock(&self.state);
        match std::mem::replace(&mut *state, ResultState::Taken) {
            ResultState::Waiting(waker) => {
                *state = ResultState::Done(output);
                drop(state);
                self.changed.notify_one();
                if let Some(waker) = waker {
                    let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
                }
            }
            ResultState::Callback(callback) => {
                drop(state);
                let _ = catch_unwind(AssertUnwindSafe(|| callback(output)));
            }
            other => *state = other,
        }
    }

    fn take(&self) -> Option<O> {
        let mut state = lock(&self.state);
        match std::mem::replace(&mut *state, ResultState::Taken) {
            ResultState::Done(output) => Some(output),
            other => {
                *state = other;
                None
            }
        }
    }
}

/// The result of a submitted job. The job runs whether or not the result is requested. The result
/// can be fetched once, with [`Ticket::poll`], [`Ticket::wait`], [`Ticket::then`] or `.await`.
/// Dropping a ticket does not cancel the job; its result is dropped.
#[must_use = "the result is fetched with it"]
pub struct Ticket<T>(Arc<SharedResult<Result<T, Error>>>);

impl<T> Ticket<T> {
    pub(super) fn new(result_slot: Arc<SharedResult<Result<T, Error>>>) -> Self {
        Ticket(result_slot)
    }

    /// Returns a ticket with a result.
    pub(super) fn ready(result: Result<T, Error>) -> Self {
        let result_slot = SharedResult::new();
        result_slot.complete(result);
        Ticket(Arc::new(result_slot))
    }

    /// Returns whether the result is available.
    pub fn is_ready(&self) -> bool {
        matches!(&*lock(&self.0.state), ResultState::Done(_))
    }

    /// Fetches the result, if it is available. Never blocks; returns `None` also after the result
    /// was fetched.
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
        let is_over = |state: &ResultState<_>| !matches!(state, ResultState::Waiting(_));
        drop(wait_until(&self.0.changed, lock(&self.0.state), is_over));
        self.0.take().unwrap_or(Err(Error::Lost))
    }

    /// Calls `callback` with the result: on a worker thread, when it comes, or on this thread now,
    /// if it came already. It should be short, since other jobs wait for that worker, and it must
    /// not wait for a ticket nor call the queue's blocking operations, which may need that worker.
    pub fn then(self, callback: impl FnOnce(Result<T, Error>) + Send + 'static) {
        let mut state = lock(&self.0.state);
        match std::mem::replace(&mut *state, ResultState::Taken) {
            ResultState::Waiting(_) => *state = ResultState::Callback(Box::new(callback)),
            ResultState::Done(output) => {
                drop(state);
                callback(output);
            }
            ResultState::Callback(_) | ResultState::Taken => {
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
        match std::mem::replace(&mut *state, ResultState::Taken) {
            ResultState::Done(output) => Poll::Ready(output),
            ResultState::Waiting(_) => {
                *state = ResultState::Waiting(Some(context.waker().clone()));
                Poll::Pending
            }
            ResultState::Callback(_) | ResultState::Taken => Poll::Ready(Err(Error::Lost)),
        }
    }
}
