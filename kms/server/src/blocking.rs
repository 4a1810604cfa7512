//! Tasks on threads that may block.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::task::{JoinHandle, spawn_blocking};

use crate::problem::Problem;

/// The number of seconds after which a thread may be available.
const AGAIN_S: u64 = 1;

/// A task on a thread that may block.
pub struct BlockingTask<T>(JoinHandle<Option<T>>);

impl<T: Send + 'static> BlockingTask<T> {
    /// Starts a task.
    ///
    /// # Errors
    /// `busy` if the system cannot create a thread and none is idle. Then the task does not run
    /// later, either.
    pub fn start(run: impl FnOnce() -> T + Send + 'static) -> Result<Self, Problem> {
        let has_started = Arc::new(AtomicBool::new(false));
        let started = has_started.clone();
        let run = move || (!started.swap(true, Ordering::AcqRel)).then(run);
        match catch_unwind(AssertUnwindSafe(|| spawn_blocking(run))) {
            Ok(handle) => Ok(BlockingTask(handle)),
            // The panic means that the task is in tokio's queue, but no thread will run it. If a
            // thread takes it later after all, it finds the flag set.
            Err(_) if !has_started.swap(true, Ordering::AcqRel) => {
                Err(Problem::busy("the system cannot create a thread for the request", AGAIN_S))
            }
            Err(_) => Err(defect()),
        }
    }

    /// Waits for the result.
    ///
    /// # Errors
    /// The task panicked.
    pub async fn join(self) -> Result<T, Problem> {
        self.0.await.ok().flatten().ok_or_else(defect)
    }
}

/// Runs a closure on a thread that may block, and returns its result.
///
/// # Errors
/// Those of [`BlockingTask::start`] and [`BlockingTask::join`].
pub async fn run_blocking<T: Send + 'static>(
    run: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Problem> {
    BlockingTask::start(run)?.join().await
}

/// Returns the error for a request that hit a bug.
pub fn defect() -> Problem {
    Problem::internal("the request met a defect; the server's log has it")
}

#[cfg(test)]
mod tests {
    use tokio::runtime::Builder;

    use super::*;

    #[test]
    fn blocking_task_returns_result_or_internal_error() {
        let runtime = Builder::new_current_thread().build().unwrap();
        assert_eq!(runtime.block_on(run_blocking(|| 7)).unwrap(), 7);
        let met = runtime.block_on(run_blocking(|| panic!("a defect")));
        assert_eq!(met.unwrap_err().code, "internal");
    }

    #[test]
    fn thread_exhaustion_answers_busy_without_running() {
        // No stack can be this large, so no thread starts.
        let runtime = Builder::new_current_thread().thread_stack_size(1 << 46).build().unwrap();
        let ran = Arc::new(AtomicBool::new(false));
        let runs = ran.clone();
        let refused = runtime.block_on(run_blocking(move || runs.store(true, Ordering::Release)));
        let problem = refused.unwrap_err();
        assert_eq!((problem.status, problem.code), (503, "busy"));
        assert!(problem.is_retryable && problem.retry_after_s == Some(1));
        drop(runtime);
        assert!(!ran.load(Ordering::Acquire));
    }
}
