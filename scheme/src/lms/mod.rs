//! LMS and HSS (RFC 8554, RFC 9858, SP 800-208): verification over whole batches, key generation, signing.
//!
//! ```text
//!   key        u32str(L) || type || otstype || I || T[1]
//!   signature  u32str(L - 1) || sig || pub || sig || ... || pub || sig
//!                               |      |
//!                               v      +-- the key of the next tree, which the tree above signs
//!   of each tree:   message --H, with C--> digits --chains--> Kc --> leaf --path--> T[1]?
//! ```
//!
//! - [`Lms`], [`LmOts`]: the parameter sets and sizes, by number.
//! - [`VerifyKey`]: public keys in HSS's encoding; a bare LMS key is one of HSS without its first word
//!   ([`with_levels`]), and so is a signature.
//! - [`verify()`]: the batch operation.
//! - [`Levels`]: the sets of a private key. [`Generation`] makes one in pieces, [`generate`] at once.
//! - [`SigningKey`]: signs with an index that the caller hands over, and never finds one.
//! - [`Scratch`]: buffers that are kept from call to call.
//!
//! A signature is taken apart before anything is hashed, so the chains of all its trees, and of all
//! signatures of a batch, run side by side. Bytes of any kind and number are a verdict; slices of different
//! lengths and blank keys are a misuse and panic.
//!
//! Secret are seeds and what chains pass through, up to where a signature has it. Nodes of trees are public,
//! and so are the digits of a digest, which say how long a chain is (Algorithm 4b takes them from public
//! bytes).

mod generate;
mod hash;
mod keys;
mod levels;
mod one_time;
mod params;
mod secret;
mod sign;
mod signature;
mod single_leaf;
mod verify;

pub use crate::hbs::StoredTree;
pub use crate::kernels::lms::LmsFamily;
pub use generate::{Generation, Nodes, Piece, generate, sector_paths};
pub use keys::{Public, VerifyKey, with_levels};
pub use levels::Levels;
pub use params::{LEVELS_MAX, LM_OTS, LMS, LmOts, Lms, N_MAX, SIGNATURE_LEN_MAX};
pub use sign::SigningKey;
pub use signature::{Part, index_of, parts};
pub use single_leaf::testing_only_signatures;
pub use verify::verify;

/// Buffers for the batch operations. They grow to the size that the largest call needs and stay.
/// Each running call needs separate ones.
#[derive(Default)]
pub struct Scratch {
    /// Values of chains, `[part][chain][n]`.
    values: Vec<u8>,
    /// A node of each tree, `[part][N_MAX]`.
    nodes: Vec<u8>,
    /// Nodes and their siblings, `[part][2 N_MAX]`.
    pairs: Vec<u8>,
}

impl Scratch {
    /// Empty buffers.
    pub fn new() -> Self {
        Self::default()
    }
}
