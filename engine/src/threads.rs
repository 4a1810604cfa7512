//! Pieces of work on threads that do not outlive the call.

use std::sync::{Mutex, PoisonError};

use gabion_backend::host;

use crate::error::Error;

/// Runs every piece on up to `threads` threads, including the calling one. If a piece fails, the
/// batch fails, and pieces that have not started are skipped.
pub(crate) fn on_threads<P: Send>(
    threads: usize,
    pieces: Vec<P>,
    run: impl Fn(P) -> Result<(), Error> + Sync,
) -> Result<(), Error> {
    let pieces = Mutex::new(pieces.into_iter());
    // Called where nothing else of the expression lives on, so that the lock is not held while a
    // piece runs.
    let next = || pieces.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || {
        let mut ended = Ok(());
        while let Some(piece) = next() {
            if ended.is_ok() {
                ended = run(piece);
            }
        }
        ended
    };
    std::thread::scope(|scope| {
        let start = |_| {
            // The process's signals are for its own threads. One that can't be started leaves its
            // pieces to the others.
            host::without_signals(|| std::thread::Builder::new().spawn_scoped(scope, work).ok())
        };
        let others: Vec<_> = (1..threads).map_while(start).collect();
        let own = work();
        let others = others.into_iter().map(|other| other.join().unwrap_or(Err(Error::Lost)));
        others.fold(own, Result::and)
    })
}
