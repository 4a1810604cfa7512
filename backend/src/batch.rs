//! The seam between the engine and what runs a batch.
//!
//! A batch is one operation of one parameter set over `n` lanes. Inputs and outputs are contiguous
//! arrays of fixed-size byte strings, `[lane][byte]`, so that a device can take them as they are;
//! messages and signatures of HSS and XMSS, whose lengths differ, come as slices. Keys come encoded (fresh) or
//! expanded (known).
//!
//! # Contract of every backend
//! - It answers [`BatchOutcome`]: done; declined, before any output; or lost on the way. What was not done goes to the next
//!   backend with the same inputs, randomness and indexes among them, and nothing of it has left.
//! - Each lane of a batch that is done has one [`Status`]. A bad input fails its own lane only.
//! - An output is complete where the lane says [`Status::Ok`] and all zero everywhere else.
//! - The engine sets every status to [`Status::NotRun`] beforehand. A lane that still says so of a batch that is
//!   done is a wrong answer, which withdraws the backend for that algorithm.
//! - A task of which it does nothing in an algorithm's self-test is not asked of it afterwards: nothing runs
//!   untested. So it declines what it never does, and in a self-test waits where it only has no place for now.
//! - What it keeps of a known key it keeps by the number that names it ([`gabion_scheme::ml_kem::EncapsKey::id`] and
//!   its like), and by what kind of key it is.
//! - A forked child runs what its parent set up. A backend that can't go on there says that it is lost.
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
    /// Whether these are the keys of `lanes` lanes, `len` bytes each where encoded.
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
        /// What a batch does: the family, and what it does of that.
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

            /// What it does, for messages.
            fn task(&self) -> Task {
                match self {
                    $(Operation::$family(operation) => operation.task(),)*
                }
            }

            /// Whether the arrays are those of `n` lanes, and known keys are keys.
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

            /// The same operation for a shorter time.
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
    /// What to do, with its inputs and outputs.
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

    /// What the batch does, for messages.
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
    /// To its end: every lane has a verdict.
    Done,
    /// Not at all, and no output was touched: it does not run such batches, or has no place for one now.
    Declined,
    /// Not to its end: what it runs on is gone, failed or did not answer in time. Outputs are zero.
    Lost,
}

impl BatchOutcome {
    /// Refuses a batch that was not run to its end, lane by lane, for those who test a backend.
    ///
    /// # Errors
    /// What is missing.
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

/// What can run a batch.
pub trait Backend: Send + Sync {
    /// A short name for reports and for `GABION_BACKEND`.
    fn name(&self) -> &'static str;

    /// Operations that run side by side for the price of about one.
    fn lanes(&self) -> usize;

    /// Whether it does anything of an algorithm, for good, as far as it can say without being tested: what it does
    /// not take it is never asked for, not in a self-test either.
    fn takes(&self, _algorithm: Algorithm) -> bool {
        true
    }

    /// What it computes with, if that is a processor's: keys that signing uses up are made in pieces and sign with
    /// trees that they keep, which is no batch.
    fn kernels(&self) -> Option<&dyn Kernels> {
        None
    }

    /// Runs a checked batch to its end and sets every status, or says that it did not.
    fn run(&self, batch: &mut Batch<'_>) -> BatchOutcome;

    /// Whether [`Self::cost`] is worth asking: for good, since an engine asks this once.
    fn knows_costs(&self) -> bool {
        false
    }

    /// What a batch of so many lanes would take, from the call of [`Self::run`] to its return, in nanoseconds and
    /// with all that it would wait for; none if the backend can't say. It is asked before each batch that two
    /// backends could run which know their costs, and answers from memory.
    fn cost(&self, _algorithm: Algorithm, _task: Task, _lanes: usize) -> Option<u64> {
        None
    }

    /// Lanes of a piece at least, where a large batch is cut for several threads.
    fn piece(&self, algorithm: Algorithm, task: Task) -> usize {
        piece_of_processor(algorithm, task)
    }
}
