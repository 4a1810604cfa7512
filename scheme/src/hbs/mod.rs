//! Common parts of the stateful hash-based signatures (LMS and HSS; XMSS).
//!
//! ```text
//!   digest --digits--> where each chain of a one-time signature stands
//!   bytes --Reader--> fields, never past their end
//!
//!   TreeSecret --leaves, nodes--> Nodes --> Tree, of which not all nodes need be kept
//!                                             |-- Growth   a key's top tree, made in pieces
//!                                             `-- Forest   the trees of all levels, each there when it is due
//! ```
//!
//! No file here, in [`crate::lms`] or in [`crate::xmss`] holds a state or finds an index: a caller hands it
//! over.

use crate::kernels::Kernels;

mod digits;
mod forest;
mod growth;
mod nodes;
mod reader;
mod tree;

pub(crate) use digits::{checksum, digit};
pub use forest::StoredTree;
pub(crate) use forest::{Forest, Layers, Run};
pub(crate) use growth::{Growth, Part};
pub(crate) use reader::Reader;
pub(crate) use tree::Tree;

/// The secret that the leaves of one tree derive from, and the hash of its nodes.
pub(crate) trait TreeSecret {
    /// Working memory.
    type Scratch;

    /// Returns the algorithm's name for errors.
    fn name(&self) -> &'static str;

    /// Bytes of a node.
    fn n(&self) -> usize;

    /// Returns how high the tree is.
    fn height(&self) -> u32;

    /// The leaves from number `first` on, as many as `out` has room for: `[leaf][n]`. They are public.
    fn leaves<K: Kernels + ?Sized>(
        &self,
        k: &K,
        first: u32,
        out: &mut [u8],
        scratch: &mut Self::Scratch,
    );

    /// Neighbouring nodes of one row from number `first` on, by their children, `[node][2][n]`. The root is number 1,
    /// and node r is above 2r and 2r + 1.
    fn hash_nodes<K: Kernels + ?Sized>(&self, k: &K, first: u32, input: &[u8], output: &mut [u8]);
}
