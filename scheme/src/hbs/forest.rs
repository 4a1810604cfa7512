//! The trees of a key of several levels, and which of them are to be there when.
//!
//! ```text
//!   level 0   the top tree ----- leaf q0 signs tree number q0 --+      kept: all nodes, of each level's tree
//!                                                               v
//!   level 1   tree number q0 --- leaf q1 signs .. ---+    next: tree q0 + 1 grows meanwhile
//!                                                    v
//!   level 2   tree number (q0, q1) --- leaf q2 signs the message
//!
//!   index     q0 . q1 . q2      one number, which the caller hands over
//! ```
//!
//! # How work is spread
//! Each signature is followed by its share of the work on the next trees: one leaf of the lowest
//! level, and one leaf of each level above whenever a tree below it is at the leaf that has the
//! level's number, so that no two levels are due at once. A tree is signed as soon as it is
//! complete. If the caller skips indexes, or opens a key in the middle of a tree, the remaining
//! work is spread over the remaining, fewer signatures.

use std::ops::Range;

use super::TreeSecret;
use super::tree::{Tree, share};
use crate::error::Error;
use crate::kernels::Kernels;

/// The working memory of a key's scheme.
type ScratchOf<L> = <<L as Layers>::Secret as TreeSecret>::Scratch;

/// The levels of a scheme's key; 0 is the top.
pub(crate) trait Layers {
    /// The secret that a tree's leaves derive from.
    type Secret: TreeSecret;

    /// Returns how many levels there are.
    fn count(&self) -> usize;

    /// Returns how high the trees of a level are.
    fn height(&self, level: usize) -> u32;

    /// Returns the height of the subtrees at the bottom of such a tree; 0 if it is kept whole.
    fn low(&self, level: usize) -> u32;

    /// The secret of a tree of a level below the top, which leaf q of `parent` signs.
    ///
    /// # Errors
    /// [`Error::Fault`] if a computation failed its check.
    fn child<K: Kernels + ?Sized>(
        &self,
        k: &K,
        parent: &Self::Secret,
        q: u32,
        level: usize,
        number: u64,
    ) -> Result<Self::Secret, Error>;

    /// Signs the root of the tree below with leaf q of a tree that was made ready; both trees must
    /// be whole.
    ///
    /// # Errors
    /// [`Error::Fault`] if it failed its check.
    fn sign<K: Kernels + ?Sized>(
        &self,
        k: &K,
        parent: &Tree<Self::Secret>,
        q: u32,
        tree: &Tree<Self::Secret>,
        scratch: &mut ScratchOf<Self>,
    ) -> Result<Vec<u8>, Error>;

    /// Returns whether these bytes are that, up to the root of `parent`.
    ///
    /// # Errors
    /// [`Error`] where a key could not be read.
    fn is_signed<K: Kernels + ?Sized>(
        &self,
        k: &K,
        parent: &Tree<Self::Secret>,
        q: u32,
        tree: &Tree<Self::Secret>,
        signed: &[u8],
        scratch: &mut ScratchOf<Self>,
    ) -> Result<bool, Error>;
}

/// The stored nodes of one tree.
#[derive(Clone, Copy, Debug)]
pub struct StoredTree<'a> {
    /// The level: 0 at the top.
    pub level: usize,
    /// The number of the tree among all trees of its level.
    pub number: u64,
    /// The lowest stored row, as far as it is complete.
    pub row: &'a [u8],
    /// The signature by the tree above; empty at the top and for a tree that is not signed yet.
    pub signed: &'a [u8],
}

/// Signatures of neighbouring leaves of the lowest tree.
pub(crate) struct Run {
    /// The first index, and its leaf.
    pub(crate) index: u64,
    pub(crate) q: u32,
    /// The range of messages.
    pub(crate) messages: Range<usize>,
}

/// The trees.
pub(crate) struct Forest<L: Layers> {
    pub(crate) layers: L,
    /// The tree of each level that signs; those below the top from the first signature on.
    levels: Vec<Level<L>>,
}

/// The tree that signs, and the next one.
struct Level<L: Layers> {
    tree: Tree<L::Secret>,
    /// The number of the tree among all trees of its level.
    number: u64,
    /// The signature by the tree above; empty at the top.
    signed: Vec<u8>,
    next: Option<Box<Level<L>>>,
}

impl<L: Layers> Forest<L> {
    /// Creates a forest from a complete top tree.
    pub(crate) fn new(layers: L, top: Tree<L::Secret>) -> Self {
        let top = Level { tree: top, number: 0, signed: Vec::new(), next: None };
        Forest { layers, levels: vec![top] }
    }

    /// Returns how many signatures there are: 2^64 - 1 where there could be more.
    pub(crate) fn signatures(&self) -> u64 {
        1u64.checked_shl(self.height_below(0)).unwrap_or(u64::MAX)
    }

    /// The lowest tree, where an index was made ready.
    pub(crate) fn lowest(&self) -> &Tree<L::Secret> {
        &self.levels[self.levels.len() - 1].tree
    }

    /// Returns the signatures that trees make over those below them, from the top.
    pub(crate) fn signed(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        self.levels.iter().map(|level| &level.signed[..])
    }

    /// Makes everything ready for `count` indexes from `index` on, run by run of so many at most, and hands each run
    /// to `sign`.
    ///
    /// # Errors
    /// [`Error::Exhausted`] if there are fewer indexes; [`Error::NoMemory`]; [`Error::Fault`]; what `sign` says.
    pub(crate) fn sign<K: Kernels + ?Sized>(
        &mut self,
        k: &K,
        index: u64,
        (count, together): (usize, usize),
        scratch: &mut ScratchOf<L>,
        mut sign: impl FnMut(&Self, Run, &mut ScratchOf<L>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let most = self.signatures();
        if index > most || count as u64 > most - index {
            return Err(Error::Exhausted { most });
        }
        let (mut index, mut done) = (index, 0);
        let lowest = self.layers.count() - 1;
        while done < count {
            self.reach(k, index, scratch)?;
            let (_, q) = self.position(lowest, index);
            let run = self.levels[lowest].tree.run(q) as usize;
            let now = (count - done).min(run).min(together);
            sign(self, Run { index, q, messages: done..done + now }, scratch)?;
            match self.advance(k, index, now as u32, scratch) {
                // The signature is good, and what is missing is made when it is needed.
                Ok(()) | Err(Error::NoMemory(_)) => {}
                Err(error) => return Err(error),
            }
            (index, done) = (index + now as u64, done + now);
        }
        Ok(())
    }

    /// Makes everything ready that a signature with this index needs.
    ///
    /// # Errors
    /// [`Error::Exhausted`] if there is no such index; [`Error::NoMemory`]; [`Error::Fault`].
    pub(crate) fn reach<K: Kernels + ?Sized>(
        &mut self,
        k: &K,
        index: u64,
        scratch: &mut ScratchOf<L>,
    ) -> Result<(), Error> {
        let most = self.signatures();
        if index >= most {
            return Err(Error::Exhausted { most });
        }
        for level in 0..self.layers.count() {
            let (number, q) = self.position(level, index);
            if self.levels.get(level).is_none_or(|here| here.number != number) {
                // The trees below were signed by the replaced tree.
                let next = self.levels.get_mut(level).and_then(|here| here.next.take());
                let next = match next.filter(|next| next.number == number) {
                    Some(next) => *next,
                    None => self.begin(k, level, number)?,
                };
                let next = self.finish(k, level, next, scratch)?;
                match self.levels.get_mut(level) {
                    Some(here) => *here = next,
                    None => self.levels.push(next),
                }
            }
            self.levels[level].tree.reach(k, q, scratch)?;
        }
        Ok(())
    }

    /// Returns the nodes of each tree that signs, the top one first, and of each tree that grows.
    /// Callers store them when a key is closed, because recomputing them takes as long as making
    /// them did. They are public, but their integrity matters as much as the key's: see
    /// [`Forest::restore`].
    pub(crate) fn stored_trees(&self) -> Vec<StoredTree<'_>> {
        let mut all = Vec::new();
        for (level, here) in self.levels.iter().enumerate() {
            for here in [Some(here), here.next.as_deref()].into_iter().flatten() {
                let Level { tree, number, signed, .. } = here;
                all.push(StoredTree { level, number: *number, row: tree.top.row(), signed });
            }
        }
        all
    }

    /// Restores a tree that `Forest::stored_trees` returned. Trees come in that order, without the
    /// top tree, with which [`Forest::new`] begins. A tree whose key is signed must be whole, and
    /// the signature valid.
    ///
    /// The caller must have authenticated the bytes. Nothing in a tree that is not signed yet shows
    /// that a node is foreign, and a leaf above that signs such a tree, and later the right one,
    /// signs twice.
    ///
    /// # Errors
    /// [`Error::PrivateKey`] if this is no tree of the key's, or does not follow what was given before;
    /// [`Error::NoMemory`]. The key is as it was then, and makes the tree itself when it is needed.
    pub(crate) fn restore<K: Kernels + ?Sized>(
        &mut self,
        k: &K,
        kept: StoredTree<'_>,
        scratch: &mut ScratchOf<L>,
    ) -> Result<(), Error> {
        let reason = "what is kept of its trees does not fit it";
        let algorithm = self.name();
        let refused = || Error::PrivateKey { algorithm, reason };
        let StoredTree { level, number, row, signed } = kept;
        if !(1..self.layers.count()).contains(&level) {
            return Err(refused());
        }
        let bits = self.height_below(0) - self.height_below(level);
        let follows = match self.levels.get(level) {
            Some(here) => here.number.checked_add(1) == Some(number),
            None => self.levels.len() == level,
        };
        if !follows || number.checked_shr(bits).unwrap_or(0) > 0 {
            return Err(refused());
        }
        let (above, q) = self.parent(level, number);
        let parent = self.tree(level - 1, above).ok_or_else(refused)?;
        let secret = self.layers.child(k, &parent.secret, q, level, number)?;
        let mut tree = Tree::new(secret, self.layers.low(level))?;
        tree.resume(k, row)?;
        if !signed.is_empty() {
            let is_whole = tree.missing() == 0 && parent.missing() == 0;
            let fits = is_whole && self.layers.is_signed(k, parent, q, &tree, signed, scratch)?;
            fits.then_some(()).ok_or_else(refused)?;
        }
        let kept = Level { tree, number, signed: signed.to_vec(), next: None };
        match self.levels.get_mut(level) {
            Some(here) => here.next = Some(Box::new(kept)),
            None if kept.signed.is_empty() => return Err(refused()),
            None => self.levels.push(kept),
        }
        Ok(())
    }

    /// The share of `count` signatures, the first at `index`, in all that is to be ready later.
    fn advance<K: Kernels + ?Sized>(
        &mut self,
        k: &K,
        index: u64,
        count: u32,
        scratch: &mut ScratchOf<L>,
    ) -> Result<(), Error> {
        let lowest = self.layers.count() - 1;
        let (_, q) = self.position(lowest, index);
        self.levels[lowest].tree.advance(k, q, count, scratch)?;
        for level in 1..lowest {
            let turn = level as u32;
            if (q..q + count).contains(&turn) {
                let trees = index >> self.layers.height(lowest);
                let bits = self.height_below(level) - self.height_below(lowest);
                // Indexes never exceed 2^63.
                let most = 1u64 << bits.min(63);
                self.advance_level(k, level, 1, most - (trees & (most - 1)), scratch)?;
            }
        }
        if lowest > 0 {
            let chances = (1 << self.layers.height(lowest)) - u64::from(q);
            self.advance_level(k, lowest, u64::from(count), chances, scratch)?;
        }
        Ok(())
    }

    /// Works at the tree behind that of a level, with `count` of `chances` until it is to be there.
    fn advance_level<K: Kernels + ?Sized>(
        &mut self,
        k: &K,
        level: usize,
        count: u64,
        chances: u64,
        scratch: &mut ScratchOf<L>,
    ) -> Result<(), Error> {
        let Some(mut next) = self.take_next(k, level)? else { return Ok(()) };
        let left = u64::from(next.tree.missing()) + u64::from(next.signed.is_empty());
        let due = share(left, count, chances);
        next.tree.grow(k, due as u32, scratch)?;
        if due == left && next.signed.is_empty() {
            *next = self.finish(k, level, *next, scratch)?;
        }
        self.levels[level].next = Some(next);
        Ok(())
    }

    /// Takes the tree after that of a level, beginning it if necessary; `None` if there is no more.
    fn take_next<K: Kernels + ?Sized>(
        &mut self,
        k: &K,
        level: usize,
    ) -> Result<Option<Box<Level<L>>>, Error> {
        let number = self.levels[level].number + 1;
        let above = self.height_below(0) - self.height_below(level);
        if number.checked_shr(above).unwrap_or(0) > 0 {
            return Ok(None);
        }
        match self.levels[level].next.take() {
            Some(next) => Ok(Some(next)),
            None => self.begin(k, level, number).map(|next| Some(Box::new(next))),
        }
    }

    /// A tree of a level below the top, with its secret and nothing else. Its parent is the tree above, or the
    /// one behind that, which is begun if it was not.
    fn begin<K: Kernels + ?Sized>(
        &mut self,
        k: &K,
        level: usize,
        number: u64,
    ) -> Result<Level<L>, Error> {
        let (above, q) = self.parent(level, number);
        if self.levels[level - 1].number != above && self.levels[level - 1].next.is_none() {
            let next = self.begin(k, level - 1, above)?;
            self.levels[level - 1].next = Some(Box::new(next));
        }
        let parent = self.tree(level - 1, above).ok_or(Error::Fault(self.name()))?;
        let secret = self.layers.child(k, &parent.secret, q, level, number)?;
        let tree = Tree::new(secret, self.layers.low(level))?;
        Ok(Level { tree, number, signed: Vec::new(), next: None })
    }

    /// Computes the missing nodes of a tree, and has it signed by the one above.
    fn finish<K: Kernels + ?Sized>(
        &mut self,
        k: &K,
        level: usize,
        mut next: Level<L>,
        scratch: &mut ScratchOf<L>,
    ) -> Result<Level<L>, Error> {
        next.tree.grow(k, next.tree.missing(), scratch)?;
        if !next.signed.is_empty() || level == 0 {
            return Ok(next);
        }
        let (above, q) = self.parent(level, next.number);
        let name = self.name();
        let fault = || Error::Fault(name);
        let parent = self.tree_mut(level - 1, above).ok_or_else(fault)?;
        parent.grow(k, parent.missing(), scratch)?;
        parent.reach(k, q, scratch)?;
        let parent = self.tree(level - 1, above).ok_or_else(fault)?;
        let signed = self.layers.sign(k, parent, q, &next.tree, scratch)?;
        // Once and for all signatures below it: up to the root.
        if !self.layers.is_signed(k, parent, q, &next.tree, &signed, scratch)? {
            return Err(fault());
        }
        let parent = self.tree_mut(level - 1, above).ok_or_else(fault)?;
        parent.advance(k, q, 1, scratch)?;
        next.signed = signed;
        Ok(next)
    }

    /// Returns the algorithm's name for errors.
    fn name(&self) -> &'static str {
        self.levels[0].tree.secret.name()
    }

    /// Returns which tree of the level above signs a tree's key, and at which leaf.
    fn parent(&self, level: usize, number: u64) -> (u64, u32) {
        let h = self.layers.height(level - 1);
        (number >> h, (number & ((1 << h) - 1)) as u32)
    }

    /// Returns a tree of a level: the one that signs, or the next one.
    fn tree(&self, level: usize, number: u64) -> Option<&Tree<L::Secret>> {
        let here = &self.levels[level];
        if here.number == number {
            return Some(&here.tree);
        }
        here.next.as_ref().filter(|next| next.number == number).map(|next| &next.tree)
    }

    fn tree_mut(&mut self, level: usize, number: u64) -> Option<&mut Tree<L::Secret>> {
        let here = &mut self.levels[level];
        if here.number == number {
            return Some(&mut here.tree);
        }
        here.next.as_mut().filter(|next| next.number == number).map(|next| &mut next.tree)
    }

    /// Returns how high the trees of this level and of those below it are together.
    fn height_below(&self, level: usize) -> u32 {
        (level..self.layers.count()).map(|level| self.layers.height(level)).sum()
    }

    /// The tree of a level that has an index, and the leaf in it.
    pub(crate) fn position(&self, level: usize, index: u64) -> (u64, u32) {
        let leaf = index.checked_shr(self.height_below(level + 1)).unwrap_or(0);
        let h = self.layers.height(level);
        (leaf >> h, (leaf & ((1 << h) - 1)) as u32)
    }
}
