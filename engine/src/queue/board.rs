//! The worker threads of a queue, and the turns that wait for them.
//!
//! A turn is a role in a line with the first job of its batch. There are never more of them than
//! roles, so the list is bounded; a line whose turn is over goes to the end of it.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{JoinHandle, ThreadId};

use gabion_backend::host;

use crate::sync::{Condvar, Mutex, lock, wait_until};

/// One batch that a worker leads.
pub(super) trait Turn: Send {
    fn run(self: Box<Self>);
}

/// The list of waiting turns.
pub(super) struct Board {
    state: Mutex<State>,
    changed: Condvar,
    /// Notified when the board is left. It is separate from the other condition, whose notification
    /// could otherwise wake a thread that takes no turn.
    left: Condvar,
    /// Threads do not survive a fork: in a child no thread takes a turn.
    process: u32,
}

#[derive(Default)]
struct State {
    turns: VecDeque<Box<dyn Turn>>,
    /// Jobs that were taken and are not over.
    pending: usize,
    is_closed: bool,
}

impl Board {
    pub(super) fn new() -> Arc<Self> {
        let (state, changed) = (Mutex::new(State::default()), Condvar::new());
        let (left, process) = (Condvar::new(), std::process::id());
        Arc::new(Board { state, changed, left, process })
    }

    /// Counts a job in; false if no more are taken.
    pub(super) fn begin(&self) -> bool {
        if !self.is_of_this_process() {
            return false;
        }
        let mut state = lock(&self.state);
        state.pending += usize::from(!state.is_closed);
        !state.is_closed
    }

    /// Counts a job out.
    pub(super) fn finish(&self) {
        let mut state = lock(&self.state);
        state.pending -= 1;
        if state.is_left() {
            drop(state);
            self.changed.notify_all();
            self.left.notify_all();
        }
    }

    pub(super) fn post(&self, turn: Box<dyn Turn>) {
        lock(&self.state).turns.push_back(turn);
        self.changed.notify_one();
    }

    /// The next turn; none when the board is closed and no job is left.
    pub(super) fn next(&self) -> Option<Box<dyn Turn>> {
        let is_over = |state: &State| !state.turns.is_empty() || state.is_left();
        wait_until(&self.changed, lock(&self.state), is_over).turns.pop_front()
    }

    /// Closes the board for further jobs.
    pub(super) fn close(&self) {
        lock(&self.state).is_closed = true;
        self.changed.notify_all();
        self.left.notify_all();
    }

    /// Waits until no more jobs are taken and none is left.
    fn wait_left(&self) {
        drop(wait_until(&self.left, lock(&self.state), State::is_left));
    }

    /// The next turn, if one waits.
    #[cfg(any(test, fuzzing))]
    pub(super) fn try_next(&self) -> Option<Box<dyn Turn>> {
        lock(&self.state).turns.pop_front()
    }

    /// Returns how many turns wait.
    #[cfg(any(test, fuzzing))]
    pub(super) fn turns(&self) -> usize {
        lock(&self.state).turns.len()
    }

    /// Returns how many jobs were taken and are not over.
    #[cfg(any(test, fuzzing))]
    pub(super) fn pending(&self) -> usize {
        lock(&self.state).pending
    }

    pub(super) fn is_of_this_process(&self) -> bool {
        self.process == std::process::id()
    }

    /// The loop of a worker until the board is left.
    pub(super) fn work(&self) {
        while let Some(turn) = self.next() {
            // Batches, callbacks and wakers catch their own panics; nothing else here panics.
            // Should it, the turn's promises were kept by being dropped, and the worker goes on.
            let _ = catch_unwind(AssertUnwindSafe(|| turn.run()));
        }
    }
}

impl State {
    fn is_left(&self) -> bool {
        self.is_closed && self.pending == 0
    }
}

/// Threads that take turns.
pub(super) struct Workers {
    pub(super) board: Arc<Board>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    ids: Vec<ThreadId>,
    /// Whether they are waited for when this is dropped.
    is_waited_for: bool,
}

impl Workers {
    /// Starts `count` threads.
    pub(super) fn start(count: usize) -> std::io::Result<Workers> {
        let (board, threads, ids) = (Board::new(), Mutex::new(Vec::new()), Vec::new());
        let mut workers = Workers { board, threads, ids, is_waited_for: true };
        for number in 0..count {
            let board = Arc::clone(&workers.board);
            // If this fails, the drop of `workers` ends those that were started.
            let thread = host::spawn(format!("gabion-{number}"), move || board.work())?;
            workers.ids.push(thread.thread().id());
            lock(&workers.threads).push(thread);
        }
        Ok(workers)
    }

    /// Closes the board, and waits until the accepted jobs are over.
    pub(super) fn stop(&self) {
        if !self.board.is_of_this_process() {
            return;
        }
        self.board.close();
        // A callback may drop the last reference to a queue. A worker can't wait for itself, nor
        // for others that wait for its jobs: then they end by themselves.
        if self.ids.contains(&std::thread::current().id()) {
            return;
        }
        let threads = std::mem::take(&mut *lock(&self.threads));
        threads.into_iter().for_each(|thread| drop(thread.join()));
        // Another caller may have taken the threads, and be waiting for them.
        self.board.wait_left();
    }

    /// Stops taking jobs without waiting for the threads, which end after the jobs they took.
    pub(super) fn detach(mut self) {
        self.is_waited_for = false;
        if self.board.is_of_this_process() {
            self.board.close();
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        if self.is_waited_for {
            self.stop();
        }
        if !self.board.is_of_this_process() {
            // A child has the handles and not the threads.
            std::mem::take(&mut *lock(&self.threads)).into_iter().for_each(std::mem::forget);
        }
    }
}
