//! The seam between the engine and what runs a batch.
//!
//! A batch is one operation of one parameter set over `n` lanes. Inputs and outputs are contiguous
//! arrays of fixed-size byte strings, `[lane][byte]`, so that a device can take them as they are;
//! messages and signatures of HSS and XMSS, whose lengths differ, come as slices. Keys come encoded (fresh) or
//! expanded (known).
//!
//! # Contract of every backend
//! - It answers [`BatchOutcome`]: done; declined, before any output; or lost on the way. An
//!   operation that was not done goes to the next backend with the same inputs, including
//!   randomness and indexes; no part of its output has left.
//! - Each lane of a batch that is done has one [`Status`]. A bad input fails its own lane only.
//! - An output is complete where the lane says [`Status::Ok`] and all zero everywhere else.
//! - The engine sets every status to [`Status::NotRun`] beforehand. A lane that still says so of a batch that is
//!   done is a wrong answer, which withdraws the backend for that algorithm.
//! - A task that it declined in an algorithm's self-test is not given to it afterwards: nothing
//!   runs untested. So it declines tasks that it never runs, and waits in a self-test if only a
//!   slot is missing.
//! - It stores data derived from a known key under the number that identifies the key
//!   ([`gabion_scheme::ml_kem::EncapsKey::id`] and similar) and under the kind of key.
//! - A forked child runs the backends that its parent set up. A backend that cannot continue in the
//!   child reports that it is lost.
//! - Lengths that do not fit each other are a misuse: [`Batch::check`] names it before anything
//!   runs, and `run` may panic on a batch that was not checked.

mod dsa;
mod ed25519;
mod fn_dsa;
mod hss;
mod kem;
mod outputs;
mod piece;
mod slh;
mod split;
mod task;
mod x25519;
mod xmss;

use gabion_scheme::Algorithm;
use gabion_scheme::error::{Error, Status};
use gabion_scheme::kernels::Kernels;

pub use dsa::Dsa;
pub use ed25519::Ed25519;
pub use fn_dsa::FnDsa;
pub use hss::Hss;
pub use kem::Kem;
pub use piece::of_processor as piece_of_processor;
pub use slh::Slh;
pub use task::Task;
pub use x25519::X25519;
pub use xmss::Xmss;

/// The keys of a batch.
pub enum Keys<'a, T> {
    /// One encoded key a lane, contiguous. They are decoded, checked and expanded on the way.
    Fresh(&'a [u8]),
    /// One expanded key a lane; the same reference may stand in many lanes.
    Known(&'a [&'a T]),
}

impl<T> Keys<'_, T> {
    /// Returns whether these are the keys of `lanes` lanes, `len` bytes each where encoded.
    fn fit(&self, lanes: usize, len: usize, is_of: impl Fn(&T) -> bool) -> bool {
        match self {
            Keys::Fresh(bytes) => bytes.len() == lanes * len,
            Keys::Known(keys) => keys.len() == lanes && keys.iter().all(|key| is_of(key)),
        }
    }
}

/// One line for each family, whose enum answers for itself.
macro_rules! operation {
    ($($(#[$doc:meta])* $family:ident,)*) => {
        /// The operation of a batch: the family, and its operation.
        pub enum Operation<'a> {
            $($(#[$doc])* $family($family<'a>),)*
        }

        impl Operation<'_> {
            /// The parameter set.
            fn algorithm(&self) -> Algorithm {
                match self {
                    $(Operation::$family(operation) => operation.algorithm(),)*
                }
            }

            /// Returns the task, for messages.
            fn task(&self) -> Task {
                match self {
                    $(Operation::$family(operation) => operation.task(),)*
                }
            }

            /// Returns whether the arrays are those of `n` lanes, and known keys are keys.
            fn fits(&self, n: usize) -> bool {
                match self {
                    $(Operation::$family(operation) => operation.fits(n),)*
                }
            }

            /// Clears the output of one lane.
            fn clear(&mut self, lane: usize) {
                match self {
                    $(Operation::$family(operation) => operation.clear(lane),)*
                }
            }

            /// The operation for the lanes before `lane`, and for those from there on.
            fn split_at(self, lane: usize) -> (Self, Self) {
                match self {
                    $(Operation::$family(operation) => {
                        let (first, others) = operation.split_at(lane);
                        (Operation::$family(first), Operation::$family(others))
                    })*
                }
            }

            /// Reborrows the operation for a shorter lifetime.
            fn reborrow(&mut self) -> Operation<'_> {
                match self {
                    $(Operation::$family(operation) => Operation::$family(operation.reborrow()),)*
                }
            }
        }
    };
}

operation! {
    /// ML-KEM.
    Kem,
    /// ML-DSA.
    Dsa,
    /// SLH-DSA.
    Slh,
    /// Ed25519.
    Ed25519,
    /// FN-DSA and Falcon.
    FnDsa,
    /// HSS.
    Hss,
    /// X25519.
    X25519,
    /// XMSS and XMSS^MT.
    Xmss,
}

/// One operation over `status.len()` lanes.
pub struct Batch<'a> {
    /// The operation, with its inputs and outputs.
    pub operation: Operation<'a>,
    /// One verdict a lane.
    pub status: &'a mut [Status],
}

impl Batch<'_> {
    /// The parameter set of the batch.
    pub fn algorithm(&self) -> Algorithm {
        self.operation.algorithm()
    }

    /// The number of lanes.
    pub fn lanes(&self) -> usize {
        self.status.len()
    }

    /// Returns the task of the batch, for messages.
    pub fn task(&self) -> Task {
        self.operation.task()
    }

    /// Checks that every array has the shape that the number of lanes asks for, and that every known
    /// key is one: a blank or refused key computes too, and protects nothing.
    ///
    /// # Errors
    /// [`Error::Batch`].
    pub fn check(&self) -> Result<(), Error> {
        let n = self.lanes();
        if self.operation.fits(n) {
            return Ok(());
        }
        Err(Error::Batch { lanes: n })
    }
}

/// The outcome of a batch on a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum BatchOutcome {
    /// Complete: every lane has a verdict.
    Done,
    /// Not at all, and no output was touched: it does not run such batches, or has no place for one now.
    Declined,
    /// Failed: the device is gone, reported an error or did not answer in time. Outputs are zero.
    Lost,
}

impl BatchOutcome {
    /// Checks that a batch was run completely, lane by lane. For tests of a backend.
    ///
    /// # Errors
    /// The missing part.
    pub fn check_done(self, status: &[Status]) -> Result<(), String> {
        match self {
            BatchOutcome::Done => {
                match status.iter().position(|&status| status == Status::NotRun) {
                    None => Ok(()),
                    Some(lane) => Err(format!("lane {lane} has no verdict")),
                }
            }
            BatchOutcome::Declined => Err("the batch was declined".to_owned()),
            BatchOutcome::Lost => Err("the batch was lost".to_owned()),
        }
    }
}

/// An implementation that can run batches.
pub trait Backend: Send + Sync {
    /// A short name for reports and for `GABION_BACKEND`.
    fn name(&self) -> &'static str;

    /// Operations that run side by side for the price of about one.
    fn lanes(&self) -> usize;

    /// Returns whether the backend supports any task of an algorithm, permanently, as far as it can
    /// say without being tested. Unsupported algorithms are never given to it, not even in a
    /// self-test.
    fn takes(&self, _algorithm: Algorithm) -> bool {
        true
    }

    /// Returns the processor kernels that it uses, if any: stateful keys are generated in pieces
    /// and sign with trees that they keep, which is not a batch.
    fn kernels(&self) -> Option<&dyn Kernels> {
        None
    }

    /// Runs a checked batch to its end and sets every status, or says that it did not.
    fn run(&self, batch: &mut Batch<'_>) -> BatchOutcome;

    /// Returns whether [`Self::cost`] is worth asking: for good, since an engine asks this once.
    fn knows_costs(&self) -> bool {
        false
    }

    /// Estimates the time of a batch of so many lanes in nanoseconds, from the call of
    /// [`Self::run`] to its return, including all waiting; `None` if the backend cannot estimate
    /// it. Called before each batch that two backends with known costs could run, so it answers
    /// from memory.
    fn cost(&self, _algorithm: Algorithm, _task: Task, _lanes: usize) -> Option<u64> {
        None
    }

    /// Lanes of a piece at least, where a large batch is cut for several threads.
    fn piece(&self, algorithm: Algorithm, task: Task) -> usize {
        piece_of_processor(algorithm, task)
    }
}
