//! SLH-DSA (FIPS 205) over whole batches; a single operation is a batch of one.
//!
//! ```text
//!   keygen   SK.seed, PK.seed --forest--> top tree --> PK.root                (kept in the key)
//!   sign     M' --PRF_msg--> R --H_msg--> FORS leaves, tree and leaf of each layer
//!            forest: every node of every authentication path and every root, but for the top layer's
//!            walk:   FORS secrets --> FORS key? --WOTS+--> root? --WOTS+--> ... --> PK.root?
//!   verify   R, M' --H_msg--> ...;  walk with the values of the signature     --> PK.root?
//! ```
//!
//! - [`Params`], [`params`]: the parameter sets and sizes.
//! - [`VerifyKey`], [`SigningKey`]: keys with what derives from them.
//! - [`Message`]: the message to sign: pure, pre-hashed, or M' as it is.
//! - [`keygen`], [`expand_verify_keys`], [`expand_signing_keys`], [`sign()`], [`verify()`]: the
//!   batch operations.
//! - [`Scratch`]: buffers that are kept from call to call.
//!
//! `forest` hands whole levels and all chains of sixteen WOTS+ keys to the kernels at once; `walk`
//! one layer of up to [`OPS_MAX`] signatures. Signing takes the hashes that a signature
//! depends on, each once, and those on the walk once more: a WOTS+ key signs a root only where forest and walk
//! agree. `pins` remembers the roots near the top.
//!
//! Secrets are SK.seed, SK.prf, opt_rand, and the values of chains and FORS leaves that no signature
//! reveals. The last exist within the kernels only. Slices are indexed `[lane]`, outputs of fixed
//! size are contiguous; slices of different lengths and keys of another parameter set are a misuse
//! and panic before anything is written.

mod digest;
mod forest;
mod keygen;
mod keys;
mod params;
mod pins;
mod sha2;
mod sign;
mod verify;
mod walk;

pub use crate::message::CONTEXT_MAX;
pub use keygen::{expand_signing_keys, expand_verify_keys, from_trees, keygen};
pub use keys::{SigningKey, VerifyKey};
pub use params::{N_MAX, Params, params};
pub use sign::sign;
pub use verify::verify;

use crate::ct;
use crate::message::Message;

/// Operations that are worked on together. Their chains of one layer are 1072 for n = 32, 84 KiB of
/// descriptions and 34 KiB of values; sixteen fill the lanes of every kernel where each operation
/// has a single hash.
pub const OPS_MAX: usize = 16;

/// Buffers for the batch operations. They grow to the size that the largest call needs and stay;
/// they hold public nodes and ends of chains. Each running call needs separate ones.
#[derive(Default)]
pub struct Scratch {
    /// Nodes of one level, `[tree][node][n]`.
    nodes: Vec<u8>,
    /// The level above them, or pairs of nodes.
    parents: Vec<u8>,
    /// Chains of WOTS+ keys, `[key][len][n]`.
    values: Vec<u8>,
}

impl Scratch {
    /// Empty buffers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Wipes the buffers that an interrupted kernel may have left secrets in.
    fn wipe(&mut self) {
        ct::wipe(&mut self.nodes);
        ct::wipe(&mut self.parents);
        ct::wipe(&mut self.values);
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.wipe();
    }
}

/// Returns whether a message has a form that SLH-DSA takes: a representative mu is ML-DSA's.
fn is_signable(message: &Message<'_>) -> bool {
    message.check().is_ok() && !matches!(message, Message::Mu(_))
}
