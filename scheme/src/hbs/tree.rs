//! A tree of one level with the nodes that are kept of it.
//!
//! ```text
//!            root
//!          /      \            top: all nodes down to the leaves where the tree is 16 high at most,
//!         ..      ..                and 15 levels where it is higher
//!        /  \    /  \
//!      low  low low  low       bottom: a subtree that has the leaves; the one that signs is kept,
//!       ^    ^                         and the one behind it grows meanwhile
//!    signs  grows
//! ```
//!
//! 16 levels of 32 bytes a node are 4 MiB; of a tree 20 high are kept 2 MiB and two subtrees of 2 KiB, of one
//! 25 high 2 MiB and two of 64 KiB.

use super::TreeSecret;
use super::nodes::Nodes;
use crate::error::Error;
use crate::kernels::Kernels;

/// A tree and its secret.
pub(crate) struct Tree<S> {
    pub(crate) secret: S,
    /// The height of the subtrees at the bottom.
    pub(super) low: u32,
    /// All nodes above them, and their roots.
    pub(crate) top: Nodes,
    /// The subtree that contains the signing leaves; `None` if `low` is 0 or the subtree was never
    /// needed.
    bottom: Option<Nodes>,
    /// The subtree that grows.
    next: Option<Nodes>,
}

impl<S: TreeSecret> Tree<S> {
    /// A tree that has its secret and no node yet, with subtrees at the bottom that are `low` high.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub(crate) fn new(secret: S, low: u32) -> Result<Self, Error> {
        let top = Nodes::new(secret.n(), secret.height() - low, 1)?;
        Ok(Tree { secret, low, top, bottom: None, next: None })
    }

    /// Loads the first nodes of the stored row into an empty tree.
    ///
    /// # Errors
    /// [`Error::PrivateKey`] if there are more nodes than the row has, or if the last one is
    /// incomplete.
    pub(crate) fn resume<K: Kernels + ?Sized>(&mut self, k: &K, row: &[u8]) -> Result<(), Error> {
        let n = self.secret.n();
        let nodes = row.len() / n;
        if !row.len().is_multiple_of(n) || nodes > self.top.missing() as usize {
            let reason = "the nodes that are kept of it are not those of its sets";
            return Err(Error::PrivateKey { algorithm: self.secret.name(), reason });
        }
        self.top.next_mut(nodes as u32).copy_from_slice(row);
        self.top.raise(k, &self.secret, nodes as u32);
        Ok(())
    }

    /// Returns how many leaves are yet to be worked out until it is whole.
    pub(crate) fn missing(&self) -> u32 {
        let begun = if self.top.missing() == 0 { None } else { self.next.as_ref() };
        (self.top.missing() << self.low) - begun.map_or(0, Nodes::filled)
    }

    /// Works out the next leaves, so many at most, and the nodes above them.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub(crate) fn grow<K: Kernels + ?Sized>(
        &mut self,
        k: &K,
        leaves: u32,
        scratch: &mut S::Scratch,
    ) -> Result<(), Error> {
        let mut left = leaves.min(self.missing());
        if self.low == 0 {
            grow(k, &self.secret, &mut self.top, left, scratch);
            return Ok(());
        }
        while left > 0 {
            let place = self.top.filled();
            let mut subtree = match self.next.take() {
                Some(subtree) => subtree,
                None => self.subtree(place)?,
            };
            let count = left.min(subtree.missing());
            grow(k, &self.secret, &mut subtree, count, scratch);
            left -= count;
            if subtree.missing() > 0 {
                self.next = Some(subtree);
                continue;
            }
            self.top.next_mut(1).copy_from_slice(subtree.root());
            self.top.raise(k, &self.secret, 1);
            if place == 0 {
                self.bottom = Some(subtree);
            }
        }
        Ok(())
    }

    /// The root, where the tree is whole.
    pub(crate) fn root(&self) -> &[u8] {
        self.top.root()
    }

    /// Returns the number of leaves from q on, up to the end of those that [`Tree::reach`] makes
    /// ready.
    pub(crate) fn run(&self, q: u32) -> u32 {
        let size = 1 << if self.low == 0 { self.secret.height() } else { self.low };
        size - q % size
    }

    /// Makes the leaf ready: its subtree at the bottom is there, and fits the nodes above.
    ///
    /// # Errors
    /// [`Error::NoMemory`], and [`Error::Fault`] if it does not fit.
    pub(crate) fn reach<K: Kernels + ?Sized>(
        &mut self,
        k: &K,
        q: u32,
        scratch: &mut S::Scratch,
    ) -> Result<(), Error> {
        let place = q >> self.low;
        let is_there = |subtree: &Option<Nodes>| {
            subtree.as_ref().is_some_and(|subtree| subtree.place() == place)
        };
        if self.low == 0 || is_there(&self.bottom) {
            return Ok(());
        }
        let mut subtree = match self.next.take() {
            Some(next) if next.place() == place => next,
            _ => self.subtree(place)?,
        };
        let missing = subtree.missing();
        grow(k, &self.secret, &mut subtree, missing, scratch);
        if subtree.root() != self.top.low(place) {
            return Err(Error::Fault(self.secret.name()));
        }
        self.bottom = Some(subtree);
        Ok(())
    }

    /// Grows the next subtree at the bottom by its share for `count` signatures, the first at q.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub(crate) fn advance<K: Kernels + ?Sized>(
        &mut self,
        k: &K,
        q: u32,
        count: u32,
        scratch: &mut S::Scratch,
    ) -> Result<(), Error> {
        let place = (q >> self.low) + 1;
        if self.low == 0 || place >> (self.secret.height() - self.low) > 0 {
            return Ok(());
        }
        let mut next = match self.next.take() {
            Some(next) if next.place() == place => next,
            _ => self.subtree(place)?,
        };
        let due = share(u64::from(next.missing()), u64::from(count), u64::from(self.run(q)));
        grow(k, &self.secret, &mut next, due as u32, scratch);
        self.next = Some(next);
        Ok(())
    }

    /// A leaf that was made ready.
    pub(crate) fn leaf(&self, q: u32) -> Option<&[u8]> {
        match &self.bottom {
            _ if self.low == 0 => Some(self.top.low(q)),
            Some(bottom) if bottom.place() == q >> self.low => {
                Some(bottom.low(q & ((1 << self.low) - 1)))
            }
            _ => None,
        }
    }

    /// The path of a leaf that was made ready, its sibling first: h nodes.
    pub(crate) fn path(&self, q: u32) -> impl Iterator<Item = &[u8]> {
        let within = q & ((1 << self.low) - 1);
        let bottom = self.bottom.iter().filter(|_| self.low > 0);
        bottom.flat_map(move |bottom| bottom.path(within)).chain(self.top.path(q >> self.low))
    }

    /// A subtree at the bottom, without a node yet.
    fn subtree(&self, place: u32) -> Result<Nodes, Error> {
        let root = (1 << (self.secret.height() - self.low)) + place;
        Nodes::new(self.secret.n(), self.low, root)
    }
}

/// Returns the share of the remaining work that is due with `count` of `chances` left: large enough
/// that the last one finds little.
pub(crate) fn share(left: u64, count: u64, chances: u64) -> u64 {
    (left * count).div_ceil(chances).min(left)
}

/// The next `count` leaves of a subtree whose lowest row is leaves.
fn grow<K: Kernels + ?Sized, S: TreeSecret>(
    k: &K,
    secret: &S,
    nodes: &mut Nodes,
    count: u32,
    scratch: &mut S::Scratch,
) {
    let first = nodes.first() + nodes.filled();
    secret.leaves(k, first, nodes.next_mut(count), scratch);
    nodes.raise(k, secret, count);
}
