//! Signing keys of HSS and their trees (RFC 8554, sections 6.1 and 6.2).
//!
//! [`crate::hbs::Forest`] decides which trees are in memory: of each level the tree that signs, and
//! the next one, which grows meanwhile.

use std::fmt;
use std::ops::Range;

use super::Scratch;
use super::keys::{VerifyKey, with_levels};
use super::levels::Levels;
use super::one_time::{self, SIGNATURES_MAX};
use super::secret::Secret;
use super::verify;
use crate::error::{Error, Status};
use crate::hbs::{Forest, Layers, StoredTree, Tree};
use crate::kernels::Kernels;

impl Layers for Levels {
    type Secret = Secret;

    fn count(&self) -> usize {
        self.sets().len()
    }

    fn height(&self, level: usize) -> u32 {
        Levels::height(self, level)
    }

    fn low(&self, level: usize) -> u32 {
        Levels::low(self, level)
    }

    fn child<K: Kernels + ?Sized>(
        &self,
        k: &K,
        parent: &Secret,
        q: u32,
        level: usize,
        _: u64,
    ) -> Result<Secret, Error> {
        parent.child(k, q, self.sets()[level])
    }

    /// A signature of the tree's key, and the key.
    fn sign<K: Kernels + ?Sized>(
        &self,
        k: &K,
        parent: &Tree<Secret>,
        q: u32,
        tree: &Tree<Secret>,
        scratch: &mut Scratch,
    ) -> Result<Vec<u8>, Error> {
        let public = public(&tree.secret, tree.root());
        let Secret { lms, ots, .. } = &parent.secret;
        let mut signed = vec![0; lms.signature_len(ots)];
        one_time::sign(k, parent, q, &[&public], &mut [&mut signed], scratch)?;
        signed.extend_from_slice(&public);
        Ok(signed)
    }

    fn is_signed<K: Kernels + ?Sized>(
        &self,
        k: &K,
        parent: &Tree<Secret>,
        _: u32,
        tree: &Tree<Secret>,
        signed: &[u8],
        scratch: &mut Scratch,
    ) -> Result<bool, Error> {
        let below = public(&tree.secret, tree.root());
        let Some(signature) = signed.strip_suffix(&below[..]) else { return Ok(false) };
        let key = VerifyKey::decode(&with_levels(&public(&parent.secret, parent.root())))?;
        let whole = [&[0; 4], signature].concat();
        let mut status = [Status::NotRun];
        verify::verify(k, &[&key], &[&below], &[&whole], &mut status, scratch);
        Ok(status == [Status::Ok])
    }
}

/// The key of a tree with this root: `u32str(type) || u32str(otstype) || I || T[1]` (section 5.3).
fn public(secret: &Secret, root: &[u8]) -> Vec<u8> {
    let Secret { lms, ots, id, .. } = secret;
    let types = [lms.typecode.to_be_bytes(), ots.typecode.to_be_bytes()].concat();
    [&types[..], id, root].concat()
}

/// A private key of HSS, of one level or more, with the trees it signs with. Its seeds are wiped when it is
/// dropped. Nothing in it says which indexes are used up: see [`SigningKey::sign`].
pub struct SigningKey {
    public: VerifyKey,
    forest: Forest<Levels>,
}

impl SigningKey {
    /// The key of a top tree that is whole, or of a sector of it, with the root of all sectors.
    pub(super) fn new(levels: Levels, top: Tree<Secret>, root: &[u8]) -> Result<Self, Error> {
        let count = (levels.sets().len() as u32).to_be_bytes();
        let public = VerifyKey::decode(&[&count[..], &public(&top.secret, root)].concat())?;
        Ok(SigningKey { public, forest: Forest::new(levels, top) })
    }

    /// The sets.
    pub fn levels(&self) -> &Levels {
        &self.forest.layers
    }

    /// The public key that belongs to it.
    pub fn verify_key(&self) -> &VerifyKey {
        &self.public
    }

    /// Signs message i with index `index` + i, into one signature per message, each
    /// [`Levels::signature_len`] bytes. The caller must guarantee that **no index ever signs two
    /// messages**. Signing is deterministic in index and message.
    ///
    /// Missing trees are computed first, which takes as long as making them did; if indexes are
    /// used in order, they are present.
    ///
    /// # Errors
    /// [`Error::Exhausted`] if there are fewer indexes; [`Error::NoMemory`]; [`Error::Fault`] if a signature
    /// failed its check. `out` is zero then.
    ///
    /// # Panics
    /// If there is not one signature of the right length a message.
    pub fn sign<K: Kernels + ?Sized>(
        &mut self,
        k: &K,
        index: u64,
        messages: &[&[u8]],
        out: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<(), Error> {
        let len = self.levels().signature_len();
        assert_eq!(out.len(), messages.len() * len, "a signature a message");
        let together = (messages.len(), SIGNATURES_MAX);
        let signed = self.within(index).and_then(|index| {
            self.forest.sign(k, index, together, scratch, |forest, run, scratch| {
                let out = &mut out[run.messages.start * len..run.messages.end * len];
                sign_run(k, forest, run.q, &messages[run.messages], out, scratch)
            })
        });
        if signed.is_err() {
            out.fill(0);
        }
        signed
    }

    /// Makes everything ready that a signature with this index needs.
    ///
    /// # Errors
    /// [`Error::Exhausted`] if there is no such index; [`Error::NoMemory`]; [`Error::Fault`].
    pub fn reach<K: Kernels + ?Sized>(
        &mut self,
        k: &K,
        index: u64,
        scratch: &mut Scratch,
    ) -> Result<(), Error> {
        self.forest.reach(k, self.within(index)?, scratch)
    }

    /// Returns which of the indexes that it has an index is.
    fn within(&self, index: u64) -> Result<u64, Error> {
        let Range { start, end } = self.levels().indexes();
        index.checked_sub(start).ok_or(Error::Exhausted { most: end - start })
    }

    /// Returns the nodes of each tree that signs, the top one first, and of each tree that grows.
    /// Callers store them when a key is closed, because recomputing them takes as long as making
    /// them did. They are public, but their integrity matters as much as the key's: see
    /// [`SigningKey::restore`].
    pub fn stored_trees(&self) -> Vec<StoredTree<'_>> {
        self.forest.stored_trees()
    }

    /// Restores a tree that [`SigningKey::stored_trees`] returned. Trees come in that order,
    /// without the top tree, which [`super::Generation::resume`] takes. A tree whose key is signed
    /// must be whole, and the signature valid.
    ///
    /// The caller must have authenticated the bytes. Nothing in a tree that is not signed yet shows
    /// that a node is foreign, and a leaf above that signs such a tree, and later the right one,
    /// signs twice.
    ///
    /// # Errors
    /// [`Error::PrivateKey`] if this is no tree of the key's, or does not follow what was given before;
    /// [`Error::NoMemory`]. The key is as it was then, and makes the tree itself when it is needed.
    pub fn restore<K: Kernels + ?Sized>(
        &mut self,
        k: &K,
        kept: StoredTree<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), Error> {
        self.forest.restore(k, kept, scratch)
    }
}

/// Signatures of the lowest tree behind all that is above it.
fn sign_run<K: Kernels + ?Sized>(
    k: &K,
    forest: &Forest<Levels>,
    q: u32,
    messages: &[&[u8]],
    out: &mut [u8],
    scratch: &mut Scratch,
) -> Result<(), Error> {
    let len = forest.layers.signature_len();
    let below = forest.layers.sets().len() as u32 - 1;
    let mut own = Vec::with_capacity(messages.len());
    for out in out.chunks_exact_mut(len) {
        let (head, mut rest) = out.split_at_mut(4);
        head.copy_from_slice(&below.to_be_bytes());
        for signed in forest.signed() {
            let room;
            (room, rest) = rest.split_at_mut(signed.len());
            room.copy_from_slice(signed);
        }
        own.push(rest);
    }
    one_time::sign(k, forest.lowest(), q, messages, &mut own, scratch)
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey of {:?}", self.public)
    }
}

#[cfg(test)]
mod tests {
    use super::super::params::{LM_OTS, LMS};
    use super::*;

    fn position(sets: &[(usize, usize)], level: usize, index: u64) -> Option<(u64, u32)> {
        let sets: Vec<_> = sets.iter().map(|(lms, ots)| (&LMS[*lms], &LM_OTS[*ots])).collect();
        let levels = Levels::new(&sets).ok()?;
        let top = Tree::new(Secret::new(sets[0], &[0; 16], &[0; 32]), levels.low(0)).ok()?;
        Some(Forest::new(levels, top).position(level, index))
    }

    #[test]
    fn an_index_is_a_leaf_of_every_level() {
        // RFC 8554, appendix F, test case 2: H10 with W4 over H5 with W8.
        let sets = [(1, 2), (0, 3)];
        assert_eq!(position(&sets, 0, 0x7fff), Some((0, 0x3ff)));
        assert_eq!(position(&sets, 1, 0x7fde), Some((0x3fe, 0x1e)));
        let most = [(4, 3); 8];
        assert_eq!(position(&most, 0, u64::MAX), Some((0, 0)));
        assert_eq!(position(&most, 7, u64::MAX), Some((u64::MAX >> 25, (1 << 25) - 1)));
    }
}
