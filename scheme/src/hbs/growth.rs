//! A tree that is made in pieces that several threads can work at.
//!
//! ```text
//!   row of the tree    [ done ][ piece ][ piece ][ piece ] ...        leaves, or roots of subtrees
//!                              '-------- wave --------'               where not all nodes are kept
//! ```
//!
//! Pieces of a wave are independent of each other. When all have run, the wave is closed, and the
//! next one is taken. Completed nodes can be stored between waves, to resume later: they are
//! public, unlike the seed.

use super::TreeSecret;
use super::nodes::Nodes;
use super::tree::Tree;
use crate::error::Error;
use crate::kernels::Kernels;

/// Leaves of a piece, where its tree has so many: a millisecond's work of LMS where w is 1, ten where it is 8, five of XMSS.
const PIECE: u32 = 64;
/// The piece size of the lowest trees, which are to consist of more than one piece.
const SMALL_PIECE: u32 = 16;

/// A tree that is being made.
pub(crate) struct Growth<S>(pub(crate) Tree<S>);

/// A part of the row of a tree that is being made. Nothing it does depends on another.
pub(crate) struct Part<'a, S> {
    secret: &'a S,
    /// The height of the row above the leaves.
    low: u32,
    /// The first node, and where all go.
    first: u32,
    out: &'a mut [u8],
}

impl<S: TreeSecret> Growth<S> {
    /// Returns how many leaves are done, and how many there are.
    pub(crate) fn progress(&self) -> (u32, u32) {
        let all = 1 << self.0.secret.height();
        (all - self.0.missing(), all)
    }

    /// The row as far as it is done. Public.
    pub(crate) fn row(&self) -> &[u8] {
        self.0.top.row()
    }

    /// The next pieces, `count` at most; none if all is done.
    pub(crate) fn wave(&mut self, count: usize) -> impl Iterator<Item = Part<'_, S>> {
        let nodes = self.nodes_of_wave(count);
        let size = self.nodes_of_piece() as usize;
        let Tree { secret, top, low, .. } = &mut self.0;
        let (secret, low, n) = (&*secret, *low, secret.n());
        let pieces = (top.filled()..).step_by(size).zip(top.next_mut(nodes).chunks_mut(size * n));
        pieces.map(move |(first, out)| Part { secret, low, first, out })
    }

    /// Returns the nodes of such a wave as one piece, for a backend that processes many at once;
    /// `None` if the row is complete.
    pub(crate) fn span(&mut self, count: usize) -> Option<Part<'_, S>> {
        let nodes = self.nodes_of_wave(count);
        let Tree { secret, top, low, .. } = &mut self.0;
        let (first, low) = (top.filled(), *low);
        (nodes > 0).then(|| Part { secret: &*secret, low, first, out: top.next_mut(nodes) })
    }

    /// Closes a wave of `count` pieces, all of which have run without an error.
    pub(crate) fn close<K: Kernels + ?Sized>(&mut self, k: &K, count: usize) {
        let nodes = self.nodes_of_wave(count);
        self.0.top.raise(k, &self.0.secret, nodes);
    }

    /// The tree, where all is done.
    ///
    /// # Errors
    /// [`Error::PrivateKey`] if something is left to do.
    pub(crate) fn finish(self) -> Result<Tree<S>, Error> {
        if self.0.missing() > 0 {
            let reason = "its top tree is not whole";
            return Err(Error::PrivateKey { algorithm: self.0.secret.name(), reason });
        }
        Ok(self.0)
    }

    /// Nodes of the row in a piece.
    fn nodes_of_piece(&self) -> u32 {
        let h = self.0.secret.height();
        let leaves = if 1 << h <= PIECE { SMALL_PIECE } else { PIECE };
        (leaves >> self.0.low).max(1)
    }

    fn nodes_of_wave(&self, count: usize) -> u32 {
        let missing = self.0.top.missing();
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        count.saturating_mul(self.nodes_of_piece()).min(missing)
    }
}

impl<'a, S: TreeSecret> Part<'a, S> {
    /// Returns how many nodes it has.
    pub(crate) fn nodes(&self) -> usize {
        self.out.len() / self.secret.n()
    }

    /// Returns the secret of the leaves, the height of the nodes above them, the number of the
    /// first node in its row, and the output buffer.
    pub(crate) fn parts(&mut self) -> (&'a S, u32, u32, &mut [u8]) {
        (self.secret, self.low, self.first, &mut *self.out)
    }

    /// The nodes before `node`, and those from there on.
    pub(crate) fn split_at(self, node: usize) -> (Self, Self) {
        let Part { secret, low, first, out } = self;
        let (before, behind) = out.split_at_mut(node * secret.n());
        let second = Part { secret, low, first: first + node as u32, out: behind };
        (Part { secret, low, first, out: before }, second)
    }

    /// Makes a node zero.
    pub(crate) fn clear(&mut self, node: usize) {
        let n = self.secret.n();
        self.out[node * n..][..n].fill(0);
    }

    /// Reborrows the part for a shorter lifetime.
    pub(crate) fn reborrow(&mut self) -> Part<'_, S> {
        let Part { secret, low, first, out } = self;
        Part { secret: *secret, low: *low, first: *first, out }
    }

    /// Works it out.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub(crate) fn run<K: Kernels + ?Sized>(
        &mut self,
        k: &K,
        scratch: &mut S::Scratch,
    ) -> Result<(), Error> {
        let (secret, low) = (self.secret, self.low);
        if low == 0 {
            secret.leaves(k, self.first, self.out, scratch);
            return Ok(());
        }
        let row = 1 << (secret.height() - low);
        for (place, out) in (self.first..).zip(self.out.chunks_exact_mut(secret.n())) {
            let mut subtree = Nodes::new(secret.n(), low, row + place)?;
            secret.leaves(k, place << low, subtree.next_mut(1 << low), scratch);
            subtree.raise(k, secret, 1 << low);
            out.copy_from_slice(subtree.root());
        }
        Ok(())
    }
}
