//! Key generation (RFC 8554, section 5.3), in pieces that several threads can work at.
//!
//! ```text
//!   row of the top tree    [ done ][ piece ][ piece ][ piece ] ...        leaves, or roots of subtrees
//!                                  '-------- wave --------'               where a tree is over 16 high
//! ```
//!
//! Pieces of a wave are independent of each other. Where all have run, the wave is closed, and the next one is
//! taken. What is done can be written down between waves, to go on from there another day: it is public,
//! the seed beside it is not.

use super::Scratch;
use super::levels::Levels;
use super::nodes::Nodes;
use super::secret::Secret;
use super::sign::SigningKey;
use super::tree::Tree;
use crate::error::Error;
use crate::kernels::Kernels;

/// Leaves of a piece, where its tree has so many: a millisecond's work where w is 1, ten where it is 8.
const PIECE: u32 = 64;
/// The same of the lowest trees, which are to be more than one piece.
const SMALL_PIECE: u32 = 16;

/// A key that is being made.
pub struct Generation {
    levels: Levels,
    tree: Tree,
}

/// A part of the row of a tree that is being made. Nothing it does depends on another.
pub struct Piece<'a> {
    secret: &'a Secret,
    /// How high above the leaves the row is.
    low: u32,
    /// The first node, and where all go.
    first: u32,
    out: &'a mut [u8],
}

impl Generation {
    /// Begins a key with these sets, this identifier I and this seed, of [`Levels::n`] bytes. Both are drawn
    /// at random by whoever calls, and are the private key.
    ///
    /// # Errors
    /// [`Error::Length`]; [`Error::NoMemory`].
    pub fn new(levels: Levels, id: &[u8; 16], seed: &[u8]) -> Result<Self, Error> {
        Error::check_length("a seed of HSS", levels.n(), seed)?;
        let tree = Tree::new(Secret::new(levels.sets()[0], id, seed), levels.low(0))?;
        Ok(Generation { levels, tree })
    }

    /// Goes on from what [`Generation::row`] gave, which may be a whole row: then nothing is left to do.
    /// Whoever wrote the row down answers for it, or compares the public key at the end.
    ///
    /// # Errors
    /// [`Error::PrivateKey`] if the row is longer than that of the tree, or ends within a node.
    pub fn resume<K: Kernels + ?Sized>(mut self, k: &K, row: &[u8]) -> Result<Self, Error> {
        self.tree.resume(k, row)?;
        Ok(self)
    }

    /// How many leaves are done, and how many there are.
    pub fn progress(&self) -> (u32, u32) {
        let all = 1 << self.levels.sets()[0].0.h;
        (all - self.tree.missing(), all)
    }

    /// The row as far as it is done. Public.
    pub fn row(&self) -> &[u8] {
        self.tree.top.row()
    }

    /// The next pieces, `count` at most; none if all is done.
    pub fn wave(&mut self, count: usize) -> Vec<Piece<'_>> {
        let (n, nodes) = (self.levels.n(), self.nodes_of_wave(count));
        let size = self.nodes_of_piece() as usize;
        let Tree { secret, top, low, .. } = &mut self.tree;
        let (secret, low) = (&*secret, *low);
        let pieces = (top.filled()..).step_by(size).zip(top.next_mut(nodes).chunks_mut(size * n));
        pieces.map(|(first, out)| Piece { secret, low, first, out }).collect()
    }

    /// Closes a wave of `count` pieces, all of which have run without an error.
    pub fn close<K: Kernels + ?Sized>(&mut self, k: &K, count: usize) {
        let nodes = self.nodes_of_wave(count);
        self.tree.top.raise(k, nodes);
    }

    /// The key, where all is done.
    ///
    /// # Errors
    /// [`Error::PrivateKey`] if something is left to do.
    pub fn finish(self) -> Result<SigningKey, Error> {
        if self.tree.missing() > 0 {
            let reason = "its top tree is not whole";
            return Err(Error::PrivateKey { algorithm: "HSS", reason });
        }
        SigningKey::new(self.levels, self.tree)
    }

    /// Nodes of the row in a piece.
    fn nodes_of_piece(&self) -> u32 {
        let h = self.levels.sets()[0].0.h;
        let leaves = if 1 << h <= PIECE { SMALL_PIECE } else { PIECE };
        (leaves >> self.tree.low).max(1)
    }

    fn nodes_of_wave(&self, count: usize) -> u32 {
        let missing = self.tree.top.missing();
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        count.saturating_mul(self.nodes_of_piece()).min(missing)
    }
}

impl Piece<'_> {
    /// Works it out.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn run<K: Kernels + ?Sized>(&mut self, k: &K, scratch: &mut Scratch) -> Result<(), Error> {
        let Secret { lms, id, .. } = self.secret;
        let low = self.low;
        if low == 0 {
            self.secret.leaves(k, self.first, self.out, scratch);
            return Ok(());
        }
        let row = 1 << (lms.h - low);
        for (place, out) in (self.first..).zip(self.out.chunks_exact_mut(lms.n)) {
            let mut subtree = Nodes::new(lms, id, low, row + place)?;
            self.secret.leaves(k, place << low, subtree.next_mut(1 << low), scratch);
            subtree.raise(k, 1 << low);
            out.copy_from_slice(subtree.root());
        }
        Ok(())
    }
}

/// Makes a key at once: [`Generation`] from its beginning to its end.
///
/// # Errors
/// As [`Generation::new`].
pub fn generate<K: Kernels + ?Sized>(
    k: &K,
    levels: Levels,
    id: &[u8; 16],
    seed: &[u8],
    scratch: &mut Scratch,
) -> Result<SigningKey, Error> {
    let mut generation = Generation::new(levels, id, seed)?;
    loop {
        let mut pieces = generation.wave(1);
        let Some(piece) = pieces.first_mut() else { return generation.finish() };
        piece.run(k, scratch)?;
        drop(pieces);
        generation.close(k, 1);
    }
}
