//! Threads that may wait.

/// Runs something on a thread that may wait. None where it met a defect.
pub async fn aside<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(run).await.ok()
}
