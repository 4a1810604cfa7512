//! The seam between the engine and what runs a batch.
//!
//! A batch is one operation of one parameter set over `n` lanes. Inputs and outputs are contiguous
//! arrays of fixed-size byte strings, `[lane][byte]`, so that a device can take them as they are;
//! messages, whose lengths differ, come as slices. Keys come encoded (fresh) or expanded (known).
//!
//! # Contract of every backend
//! - Each lane ends with one [`Status`]. A bad input fails its own lane only.
//! - An output is complete where the lane says [`Status::Ok`] and all zero everywhere else.
//! - The engine sets every status to [`Status::NotRun`] beforehand, so a lost batch is no success.
//! - Lengths that do not fit each other are a misuse: [`Batch::check`] names it before anything
//!   runs, and `run` may panic on a batch that was not checked.

mod dsa;
mod ed25519;
mod fn_dsa;
mod kem;
mod outputs;
mod slh;
mod split;
mod task;
mod x25519;

use gabion_scheme::Algorithm;
use gabion_scheme::error::{Error, Status};

pub use dsa::Dsa;
pub use ed25519::Ed25519;
pub use fn_dsa::FnDsa;
pub use kem::Kem;
pub use slh::Slh;
pub use task::Task;
pub use x25519::X25519;

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
    /// X25519.
    X25519,
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

/// What can run a batch.
pub trait Backend: Send + Sync {
    /// A short name for reports and for `GABION_BACKEND`.
    fn name(&self) -> &'static str;

    /// Operations that run side by side for the price of about one.
    fn lanes(&self) -> usize;

    /// Runs a checked batch to its end and sets every status.
    fn run(&self, batch: &mut Batch<'_>);
}
