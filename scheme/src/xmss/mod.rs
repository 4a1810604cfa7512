//! XMSS and XMSS^MT (RFC 8391, SP 800-208): verification over whole batches, key generation, signing.
//!
//! ```text
//!   key        number of the set || root || SEED
//!   signature  index || r || (values of chains || path) of layer 0 || ... of layer d - 1
//!
//!   message --H_msg, with r, root and index--> digits --chains--> one-time key --L-tree--> leaf --path--> root
//!      ^                                                                                               |
//!      '----------------- what the layer above signs is the root that the one below comes to ---------'
//! ```
//!
//! - [`Set`]: the parameter sets and sizes. Numbers of XMSS and of XMSS^MT overlap, so a number says nothing
//!   without its [`Scheme`], which a caller knows from a container, a name or an option.
//! - [`VerifyKey`]: public keys.
//! - [`verify()`]: the batch operation.
//! - [`Generation`] makes a private key in pieces, [`generate`] at once.
//! - [`SigningKey`]: signs with an index that the caller hands over, and never finds one.
//! - [`Scratch`]: buffers that are kept from call to call.
//!
//! A layer's chains wait for the root below, which no signature holds. So what runs side by side is one layer of
//! all signatures of a batch, and a layer that several of them share is worked out once. Bytes of any
//! kind and number are a verdict; slices of different lengths and blank keys are a misuse and panic.
//!
//! Secret are S_XMSS and SK_PRF, and what chains pass through, up to where a signature has it. Nodes of trees are
//! public, and so are the digits of a digest, which say how long a chain is.

mod keys;
mod one_time;
mod ots;
mod params;
mod secret;
mod sign;
mod signature;
mod single_leaf;
mod tree;
mod verify;

pub use crate::hbs::StoredTree;
pub use crate::kernels::xmss::XmssFamily;
pub use keys::VerifyKey;
pub use params::{LAYERS_MAX, Scheme, Set, XMSS, XMSSMT};
pub use sign::{Generation, Nodes, Piece, SigningKey, generate};
pub use signature::index_of;
pub use single_leaf::testing_only_signatures;
pub use verify::verify;

/// Buffers for the batch operations. They grow to the size that the largest call needs and stay.
/// Each running call needs separate ones.
#[derive(Default)]
pub struct Scratch {
    /// Values of chains, and nodes of the trees that compress them, `[part][node][n]`.
    values: Vec<u8>,
    /// The nodes above them.
    above: Vec<u8>,
}

impl Scratch {
    /// Empty buffers.
    pub fn new() -> Self {
        Self::default()
    }
}
