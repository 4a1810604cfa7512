//! A large batch on several cores.
//!
//! ```text
//!   lanes   0 ........ 63 | 64 ....... 127 | 128 ...... 191 | ..
//!           calling thread  scoped thread    whoever is first takes the next piece
//! ```
//!
//! Pieces are contiguous and outputs stay where they are, so that every lane ends as it would in a
//! serial run. Threads are scoped: none outlives the call.

use std::num::NonZero;
use std::sync::{Mutex, PoisonError};

use gabion_backend::Batch;
use gabion_scheme::Status;
use gabion_scheme::algorithms::Family;

use crate::error::Error;
use crate::route::Engine;

/// Lanes of a piece at least: enough for every flow to fill its registers and to refill what it
/// rejects, and, at some microseconds a lane, ten times what starting a thread takes.
const LANES_MIN: usize = 64;
/// The same for SLH-DSA, whose operations take many times longer and fill registers by themselves.
const SLH_LANES_MIN: usize = 4;
/// Pieces for each thread at most, so that a thread that comes late or is slowed leaves work to the
/// others.
const PIECES_EACH: usize = 4;
/// Lanes of a piece are a multiple of this: the widest group of any backend.
const GROUP: usize = 16;

impl Engine {
    /// Runs a batch as [`Engine::run`] does, on up to `threads` threads, the calling one included.
    /// Small batches stay on the calling thread.
    ///
    /// # Errors
    /// As [`Engine::run`]. Where a piece fails as a whole the batch does, and nothing comes out.
    pub fn run_parallel(
        &self,
        batch: &mut Batch<'_>,
        threads: NonZero<usize>,
    ) -> Result<(), Error> {
        let (lanes_min, group) = match batch.algorithm().info().family {
            Family::SlhDsa => (SLH_LANES_MIN, SLH_LANES_MIN),
            _ => (LANES_MIN, GROUP),
        };
        let threads = threads.get().min(batch.lanes() / lanes_min);
        if threads < 2 {
            return self.run(batch);
        }
        batch.status.fill(Status::NotRun);
        batch.check()?;
        let lanes = batch.lanes().div_ceil(threads * PIECES_EACH).next_multiple_of(group);
        let pieces = Mutex::new(batch.pieces(lanes.max(lanes_min)).into_iter());
        let work = || {
            loop {
                // A name of its own, so that the lock is not held while the piece runs.
                let piece = pieces.lock().unwrap_or_else(PoisonError::into_inner).next();
                match piece {
                    Some(mut piece) => self.run(&mut piece)?,
                    None => return Ok(()),
                }
            }
        };
        let ended: Result<(), Error> = std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads)
                // A thread that can't be started leaves its pieces to the others.
                .map_while(|_| std::thread::Builder::new().spawn_scoped(scope, work).ok())
                .collect();
            let own = work();
            let others = others.into_iter().map(|other| other.join().unwrap_or(Err(Error::Lost)));
            others.fold(own, Result::and)
        });
        drop(pieces);
        if ended.is_err() {
            batch.reset();
        }
        ended
    }
}
