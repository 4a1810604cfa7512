//! All nodes of a subtree, from its lowest row up, as that row comes in.
//!
//! ```text
//!                 1                 the root: number `root` in the whole tree
//!            2         3
//!          4   5     6   7          the lowest row, which is filled from the left
//! ```
//!
//! Nothing here is secret.

use super::TreeSecret;
use crate::error::Error;
use crate::kernels::Kernels;

/// Nodes that are hashed in one call, which bounds their descriptions to some 20 KiB.
const HASHES_MAX: usize = 256;

/// A subtree's nodes.
pub(crate) struct Nodes {
    n: usize,
    height: u32,
    /// The number of its root in the whole tree: that of the tree's is 1, and node r is above 2r
    /// and 2r + 1.
    root: u32,
    /// The nodes, `[number within the subtree][n]`; number 0 is unused.
    bytes: Vec<u8>,
    /// The number of complete nodes in the lowest row; all nodes above that depend only on them are
    /// complete, too.
    filled: u32,
}

impl Nodes {
    /// A subtree of this height below node `root`, of which nothing is there yet.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub(crate) fn new(n: usize, height: u32, root: u32) -> Result<Self, Error> {
        let (mut bytes, len) = (Vec::new(), (2 << height) * n);
        bytes.try_reserve_exact(len).map_err(|_| Error::NoMemory("the nodes of a tree"))?;
        bytes.resize(len, 0);
        Ok(Nodes { n, height, root, bytes, filled: 0 })
    }

    /// Returns how many of the lowest row are there.
    pub(crate) fn filled(&self) -> u32 {
        self.filled
    }

    /// Returns the number of missing nodes in the lowest row.
    pub(crate) fn missing(&self) -> u32 {
        (1 << self.height) - self.filled
    }

    /// Returns which node of its row in the whole tree the root is: the first is 0.
    pub(crate) fn place(&self) -> u32 {
        self.root - (1 << self.root.ilog2())
    }

    /// Returns the number of the first node of its lowest row in the whole tree.
    pub(crate) fn first(&self) -> u32 {
        self.place() << self.height
    }

    /// The lowest row as far as it is there.
    pub(crate) fn row(&self) -> &[u8] {
        &self.bytes[self.at(1 << self.height)..][..self.filled as usize * self.n]
    }

    /// The next `count` nodes of the lowest row, to be written before [`Nodes::raise`].
    pub(crate) fn next_mut(&mut self, count: u32) -> &mut [u8] {
        let at = self.at((1 << self.height) + self.filled);
        &mut self.bytes[at..][..count as usize * self.n]
    }

    /// Marks the next `count` nodes of the lowest row as written, and computes the nodes above
    /// them.
    pub(crate) fn raise<K: Kernels + ?Sized>(
        &mut self,
        k: &K,
        secret: &impl TreeSecret,
        count: u32,
    ) {
        let n = self.n;
        let mut first = (1 << self.height) + self.filled;
        let mut end = first + count;
        self.filled += count;
        for depth in (0..self.height).rev() {
            // Those whose right child is new.
            (first, end) = (first / 2, end / 2);
            if first == end {
                break;
            }
            let (above, below) = self.bytes.split_at_mut(2 * first as usize * n);
            let above = &mut above[first as usize * n..end as usize * n];
            let below = &below[..2 * (end - first) as usize * n];
            let groups = below.chunks(2 * HASHES_MAX * n).zip(above.chunks_mut(HASHES_MAX * n));
            for (first, (input, output)) in (first..).step_by(HASHES_MAX).zip(groups) {
                let number = (self.root << depth) + first - (1 << depth);
                secret.hash_nodes(k, number, input, output);
            }
        }
    }

    /// The root, where all is there.
    pub(crate) fn root(&self) -> &[u8] {
        self.node(1)
    }

    /// Node i of the lowest row.
    pub(crate) fn low(&self, i: u32) -> &[u8] {
        self.node((1 << self.height) + i)
    }

    /// The path from node i of the lowest row up to, but without, the root: its sibling first.
    pub(crate) fn path(&self, i: u32) -> impl Iterator<Item = &[u8]> {
        let leaf = (1 << self.height) + i;
        (0..self.height).map(move |level| self.node(leaf >> level ^ 1))
    }

    fn node(&self, number: u32) -> &[u8] {
        &self.bytes[self.at(number)..][..self.n]
    }

    fn at(&self, number: u32) -> usize {
        number as usize * self.n
    }
}
