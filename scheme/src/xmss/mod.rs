//! XMSS and XMSS^MT (RFC 8391, SP 800-208) over whole batches: verification.
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
//! - [`VerifyKey`], [`decode_verify_keys`]: public keys.
//! - [`verify()`]: the batch operation.
//! - [`Scratch`]: buffers that are kept from call to call.
//!
//! A layer's chains wait for the root below, which no signature holds. So what runs side by side is one layer of
//! all signatures of a batch, and a layer that several of them share is worked out once. Nothing here is secret.
//! Bytes of any kind and number are a verdict; slices of different lengths and blank keys are a misuse and
//! panic.

mod keys;
mod known;
mod ots;
mod params;
mod signature;
mod tree;
mod verify;

pub use crate::kernels::xmss::XmssFamily;
pub use keys::{VerifyKey, decode_verify_keys};
pub use known::testing_only_signed;
pub use params::{LAYERS_MAX, Scheme, Set, XMSS, XMSSMT};
pub use verify::verify;

/// Buffers for the batch operations. They grow to what the largest call needs and stay. One for each
/// call that runs.
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
