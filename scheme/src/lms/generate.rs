//! Key generation (RFC 8554, section 5.3), in pieces that several threads can work at.
//!
//! ```text
//!   row of the top tree    [ done ][ piece ][ piece ][ piece ] ...        leaves, or roots of subtrees
//!                                  '-------- wave --------'               where a tree is over 16 high
//! ```
//!
//! Pieces of a wave are independent of each other. When all have run, the wave is closed, and the
//! next one is taken. Completed nodes can be stored between waves, to resume later: they are
//! public, unlike the seed.

use super::Scratch;
use super::levels::Levels;
use super::params::{LmOts, Lms};
use super::secret::Secret;
use super::sign::SigningKey;
use crate::error::Error;
use crate::hbs::{Growth, Part, Tree};
use crate::kernels::Kernels;

/// A key that is being made.
pub struct Generation {
    levels: Levels,
    growth: Growth<Secret>,
    /// The root of the whole tree, where all is done that leads to it.
    root: Option<Vec<u8>>,
}

/// A part of the row of a tree that is being made. Nothing it does depends on another.
pub struct Piece<'a>(Part<'a, Secret>);

impl Generation {
    /// Starts generating a key with these parameter sets, this identifier I and this seed, of
    /// [`Levels::n`] bytes. Both must be random; they are the private key.
    ///
    /// # Errors
    /// [`Error::Length`]; [`Error::NoMemory`].
    pub fn new(levels: Levels, id: &[u8; 16], seed: &[u8]) -> Result<Self, Error> {
        Error::check_length("a seed of HSS", levels.n(), seed)?;
        let mut secret = Secret::new(levels.sets()[0], id, seed);
        secret.sector = levels.own_sector().clone();
        let tree = Tree::new(secret, levels.low(0))?;
        Ok(Generation { levels, growth: Growth(tree), root: None })
    }

    /// Resumes from a row that [`Generation::row`] returned. If the row is whole, nothing is left
    /// to compute. The caller must trust the row, or compare the public key at the end.
    ///
    /// # Errors
    /// [`Error::PrivateKey`] if the row is longer than that of the tree, or ends within a node.
    pub fn resume<K: Kernels + ?Sized>(mut self, k: &K, row: &[u8]) -> Result<Self, Error> {
        self.growth.0.resume(k, row)?;
        self.climb(k);
        Ok(self)
    }

    /// Returns how many leaves are done, and how many there are.
    pub fn progress(&self) -> (u32, u32) {
        self.growth.progress()
    }

    /// The row as far as it is done. Public.
    pub fn row(&self) -> &[u8] {
        self.growth.row()
    }

    /// The next pieces, `count` at most; none if all is done.
    pub fn wave(&mut self, count: usize) -> Vec<Piece<'_>> {
        self.growth.wave(count).map(Piece).collect()
    }

    /// Returns the nodes of such a wave as one piece, for a backend that processes many at once;
    /// `None` if the row is complete.
    pub fn span(&mut self, count: usize) -> Option<Piece<'_>> {
        self.growth.span(count).map(Piece)
    }

    /// Closes a wave of `count` pieces, all of which have run without an error.
    pub fn close<K: Kernels + ?Sized>(&mut self, k: &K, count: usize) {
        self.growth.close(k, count);
        self.climb(k);
    }

    /// Returns the root of its part of the tree once that is complete: with sectors, the root of
    /// its sector, for [`sector_paths`].
    pub fn own_root(&self) -> Option<&[u8]> {
        let tree = &self.growth.0;
        (tree.missing() == 0).then(|| tree.root())
    }

    /// The key, where all is done.
    ///
    /// # Errors
    /// [`Error::PrivateKey`] if something is left to do, or it is of a sector whose way up is not known.
    pub fn finish(self) -> Result<SigningKey, Error> {
        let top = self.growth.finish()?;
        let reason = "the way up from its sector is not known";
        let root = self.root.ok_or(Error::PrivateKey { algorithm: "HSS", reason })?;
        SigningKey::new(self.levels, top, &root)
    }

    /// Works out the root of the whole tree, as soon as that can be.
    fn climb<K: Kernels + ?Sized>(&mut self, k: &K) {
        let tree = &self.growth.0;
        let is_known = self.levels.sectors().0 == 1 || !self.levels.way().is_empty();
        if is_known && tree.missing() == 0 {
            self.root = Some(tree.secret.root(k, tree.root()));
        }
    }
}

/// The inputs of a piece, for a backend without kernels of this crate: neighbouring nodes of one
/// row.
pub struct Nodes<'a> {
    /// The sets.
    pub lms: &'static Lms,
    /// See `lms`.
    pub ots: &'static LmOts,
    /// The identifier I.
    pub id: &'a [u8; 16],
    /// SEED, which is secret.
    pub seed: &'a [u8],
    /// The height of the nodes above the leaves.
    pub low: u32,
    /// The first one's number in its row of the whole tree, also where this is of a sector.
    pub first: u32,
    /// `[node][n]`.
    pub output: &'a mut [u8],
}

impl<'a> Piece<'a> {
    /// Returns the inputs of the piece.
    pub fn job(&mut self) -> Nodes<'_> {
        let (secret, low, first, output) = self.0.parts();
        let first = (secret.first() >> low) + first;
        let (lms, ots, id, seed) = (secret.lms, secret.ots, &secret.id, secret.seed());
        Nodes { lms, ots, id, seed, low, first, output }
    }

    /// Returns how many nodes of the row it has.
    pub fn nodes(&self) -> usize {
        self.0.nodes()
    }

    /// The nodes before `node`, and those from there on.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn split_at(self, node: usize) -> (Self, Self) {
        let (before, behind) = self.0.split_at(node);
        (Piece(before), Piece(behind))
    }

    /// Reborrows the piece for a shorter lifetime.
    pub fn reborrow(&mut self) -> Piece<'_> {
        Piece(self.0.reborrow())
    }

    /// Makes a node zero.
    ///
    /// # Panics
    /// If there is no such node.
    pub fn clear(&mut self, node: usize) {
        self.0.clear(node);
    }

    /// Works it out.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn run<K: Kernels + ?Sized>(&mut self, k: &K, scratch: &mut Scratch) -> Result<(), Error> {
        self.0.run(k, scratch)
    }
}

/// Combines the roots of all sectors of a tree, `[sector][n]`, and returns the path from each to the root, sibling first.
/// The paths are public.
///
/// # Errors
/// [`Error::PrivateKey`] if there is not one root a sector, or `levels` are of none.
pub fn sector_paths<K: Kernels + ?Sized>(
    k: &K,
    levels: &Levels,
    id: &[u8; 16],
    roots: &[u8],
) -> Result<Vec<Vec<u8>>, Error> {
    let (n, (count, _)) = (levels.n(), levels.sectors());
    if count == 1 || roots.len() != count as usize * n {
        let reason = "there is not one root a sector";
        return Err(Error::PrivateKey { algorithm: "HSS", reason });
    }
    // It hashes nodes, and knows nothing else.
    let tree = Secret::new(levels.sets()[0], id, &vec![0; n]);
    let mut nodes = vec![0; 2 * roots.len()];
    nodes[roots.len()..].copy_from_slice(roots);
    for first in (0..count.ilog2()).rev().map(|depth| 1 << depth) {
        let (above, below) = nodes.split_at_mut(2 * first * n);
        let above = &mut above[first * n..];
        tree.hash_of_tree(k, first as u32, &below[..2 * above.len()], above);
    }
    let sibling = |node: usize| &nodes[(node ^ 1) * n..][..n];
    let way = |sector: u32| {
        let node = (count + sector) as usize;
        (0..count.ilog2()).flat_map(|up| sibling(node >> up).to_vec()).collect()
    };
    Ok((0..count).map(way).collect())
}

/// Makes a key at once: [`Generation`] from its beginning to its end.
///
/// # Errors
/// See [`Generation::new`].
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
