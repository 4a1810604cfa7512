//! Signing keys of HSS and what they sign with (RFC 8554, sections 6.1 and 6.2).
//!
//! ```text
//!   level 0   the top tree ----- leaf q0 signs the key of --+      kept: all nodes, of each level's tree
//!                                                           v
//!   level 1   tree number q0 --- leaf q1 signs .. ---+    next: tree q0 + 1 grows meanwhile
//!                                                    v
//!   level 2   tree number (q0, q1) --- leaf q2 signs the message
//!
//!   index     q0 . q1 . q2      one number, which the caller hands over
//! ```
//!
//! # How work is spread
//! Each signature is followed by its share of the trees that come next: of the lowest level a leaf, of those
//! above one whenever a tree below them is at the leaf that has the level's number, so that no two levels are
//! due at once. A tree's key is signed as soon as it is whole. Who leaves indexes out, or opens a key in the
//! middle of a tree, finds the rest spread over the fewer signatures that are left.

use std::fmt;

use super::Scratch;
use super::keys::VerifyKey;
use super::levels::Levels;
use super::one_time::{self, SIGNATURES_MAX};
use super::secret::Secret;
use super::tree::{Tree, share};
use super::verify;
use crate::error::{Error, Status};
use crate::kernels::Kernels;

/// A private key of HSS, of one level or more, with the trees it signs with. Its seeds are wiped when it is
/// dropped. Nothing in it says which indexes are used up: see [`SigningKey::sign`].
pub struct SigningKey {
    levels: Levels,
    public: VerifyKey,
    /// The tree of each level that signs; those below the top from the first signature on.
    trees: Vec<Level>,
}

/// What there is of one tree.
#[derive(Clone, Copy, Debug)]
pub struct Kept<'a> {
    /// The level: 0 at the top.
    pub level: usize,
    /// Which of all trees of its level it is.
    pub number: u64,
    /// Its lowest row that is kept, as far as it is there.
    pub row: &'a [u8],
    /// The signature of the tree above, and the tree's key; empty at the top, and where it is not signed yet.
    pub signed: &'a [u8],
}

/// The tree that signs, and the one behind it.
struct Level {
    tree: Tree,
    /// Which of all trees of its level it is.
    number: u64,
    /// The signature of the tree above, and this tree's key; empty at the top.
    signed: Vec<u8>,
    next: Option<Box<Level>>,
}

impl SigningKey {
    /// The key of a top tree that is whole.
    pub(super) fn new(levels: Levels, top: Tree) -> Result<Self, Error> {
        let count = levels.sets().len() as u32;
        let public = VerifyKey::decode(&[&count.to_be_bytes()[..], &top.public()].concat())?;
        let top = Level { tree: top, number: 0, signed: Vec::new(), next: None };
        Ok(SigningKey { levels, public, trees: vec![top] })
    }

    /// The sets.
    pub fn levels(&self) -> &Levels {
        &self.levels
    }

    /// The public key that belongs to it.
    pub fn verify_key(&self) -> &VerifyKey {
        &self.public
    }

    /// Signs each message with an index of its own, from `index` on, into one signature a message, each
    /// [`Levels::signature_len`] bytes. Whoever calls answers for this: **no index signs two messages, ever**.
    /// An index and a message always give the same signature.
    ///
    /// Trees that are not there are worked out first, which takes as long as making them did; in order of
    /// indexes they are there.
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
        let len = self.levels.signature_len();
        assert_eq!(out.len(), messages.len() * len, "a signature a message");
        let signed = self.sign_all(k, index, messages, out, scratch);
        if signed.is_err() {
            out.fill(0);
        }
        signed
    }

    fn sign_all<K: Kernels + ?Sized>(
        &mut self,
        k: &K,
        index: u64,
        messages: &[&[u8]],
        out: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<(), Error> {
        let most = self.levels.signatures();
        if index > most || messages.len() as u64 > most - index {
            return Err(Error::Exhausted { most });
        }
        let (mut index, mut messages, mut out) = (index, messages, out);
        let lowest = self.levels.sets().len() - 1;
        while !messages.is_empty() {
            self.reach(k, index, scratch)?;
            let (_, q) = self.levels.position(lowest, index);
            let run = self.trees[lowest].tree.run(q) as usize;
            let count = messages.len().min(run).min(SIGNATURES_MAX);
            let (now, later) = messages.split_at(count);
            let (signatures, rest) = out.split_at_mut(count * self.levels.signature_len());
            self.sign_run(k, q, now, signatures, scratch)?;
            match self.advance(k, index, count as u32, scratch) {
                // The signature is good, and what is missing is made when it is needed.
                Ok(()) | Err(Error::NoMemory(_)) => {}
                Err(error) => return Err(error),
            }
            (index, messages, out) = (index + count as u64, later, rest);
        }
        Ok(())
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
        let most = self.levels.signatures();
        if index >= most {
            return Err(Error::Exhausted { most });
        }
        for level in 0..self.levels.sets().len() {
            let (number, q) = self.levels.position(level, index);
            if self.trees.get(level).is_none_or(|here| here.number != number) {
                // What is below was signed by the tree that goes.
                let next = self.trees.get_mut(level).and_then(|here| here.next.take());
                let next = match next.filter(|next| next.number == number) {
                    Some(next) => *next,
                    None => self.begin(k, level, number)?,
                };
                let next = self.finish(k, level, next, scratch)?;
                match self.trees.get_mut(level) {
                    Some(here) => *here = next,
                    None => self.trees.push(next),
                }
            }
            self.trees[level].tree.reach(k, q, scratch)?;
        }
        Ok(())
    }

    /// What is there of each tree that signs, that of the top first, and of each that grows: worth keeping where
    /// a key is closed, since making it again takes as long as it took. Public, but for whoever gives it back
    /// no less worth guarding than the key: see [`SigningKey::restore`].
    pub fn kept(&self) -> Vec<Kept<'_>> {
        let mut all = Vec::new();
        for (level, here) in self.trees.iter().enumerate() {
            for here in [Some(here), here.next.as_deref()].into_iter().flatten() {
                let Level { tree, number, signed, .. } = here;
                all.push(Kept { level, number: *number, row: tree.top.row(), signed });
            }
        }
        all
    }

    /// Takes back what [`SigningKey::kept`] gave, in that order, but for the top tree, which
    /// [`super::Generation::resume`] takes. A tree whose key is signed must be whole, and the signature
    /// good.
    ///
    /// Whoever calls answers for the bytes, and has authenticated them: of a tree that is not signed yet nothing
    /// shows that a node is another's, and a leaf above that signs such a tree, and later the right one, signs
    /// twice.
    ///
    /// # Errors
    /// [`Error::PrivateKey`] if this is no tree of the key's, or does not follow what was given before;
    /// [`Error::NoMemory`]. The key is as it was then, and makes the tree itself when it is needed.
    pub fn restore<K: Kernels + ?Sized>(
        &mut self,
        k: &K,
        kept: Kept<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), Error> {
        let reason = "what is kept of its trees does not fit it";
        let refused = || Error::PrivateKey { algorithm: "HSS", reason };
        let Kept { level, number, row, signed } = kept;
        if !(1..self.levels.sets().len()).contains(&level) {
            return Err(refused());
        }
        let bits = self.levels.height_below(0) - self.levels.height_below(level);
        let follows = match self.trees.get(level) {
            Some(here) => here.number.checked_add(1) == Some(number),
            None => self.trees.len() == level,
        };
        if !follows || number.checked_shr(bits).unwrap_or(0) > 0 {
            return Err(refused());
        }
        let (above, q) = self.parent(level, number);
        let parent = self.tree(level - 1, above).ok_or_else(refused)?;
        let secret = parent.secret.child(k, q, self.levels.sets()[level])?;
        let mut tree = Tree::new(secret, self.levels.low(level))?;
        tree.resume(k, row)?;
        if !signed.is_empty() {
            let is_whole = tree.missing() == 0 && parent.missing() == 0;
            let fits = is_whole && is_signed(k, parent, &tree, signed, scratch)?;
            fits.then_some(()).ok_or_else(refused)?;
        }
        let kept = Level { tree, number, signed: signed.to_vec(), next: None };
        match self.trees.get_mut(level) {
            Some(here) => here.next = Some(Box::new(kept)),
            None if kept.signed.is_empty() => return Err(refused()),
            None => self.trees.push(kept),
        }
        Ok(())
    }

    /// Signatures of the lowest tree behind all that is above it.
    fn sign_run<K: Kernels + ?Sized>(
        &self,
        k: &K,
        q: u32,
        messages: &[&[u8]],
        out: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<(), Error> {
        let len = self.levels.signature_len();
        let lowest = &self.trees[self.trees.len() - 1].tree;
        let mut own = Vec::with_capacity(messages.len());
        for out in out.chunks_exact_mut(len) {
            let (head, mut rest) = out.split_at_mut(4);
            head.copy_from_slice(&(self.trees.len() as u32 - 1).to_be_bytes());
            for level in &self.trees {
                let signed;
                (signed, rest) = rest.split_at_mut(level.signed.len());
                signed.copy_from_slice(&level.signed);
            }
            own.push(rest);
        }
        one_time::sign(k, lowest, q, messages, &mut own, scratch)
    }

    /// The share of `count` signatures, the first at `index`, in all that is to be ready later.
    fn advance<K: Kernels + ?Sized>(
        &mut self,
        k: &K,
        index: u64,
        count: u32,
        scratch: &mut Scratch,
    ) -> Result<(), Error> {
        let lowest = self.levels.sets().len() - 1;
        let (_, q) = self.levels.position(lowest, index);
        self.trees[lowest].tree.advance(k, q, count, scratch)?;
        for level in 1..lowest {
            let turn = level as u32;
            if (q..q + count).contains(&turn) {
                let trees = index >> self.levels.sets()[lowest].0.h;
                let bits = self.levels.height_below(level) - self.levels.height_below(lowest);
                // Beyond 2^63 nobody comes.
                let most = 1u64 << bits.min(63);
                self.advance_level(k, level, 1, most - (trees & (most - 1)), scratch)?;
            }
        }
        if lowest > 0 {
            let chances = (1 << self.levels.sets()[lowest].0.h) - u64::from(q);
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
        scratch: &mut Scratch,
    ) -> Result<(), Error> {
        let Some(mut next) = self.take_next(k, level)? else { return Ok(()) };
        let left = u64::from(next.tree.missing()) + u64::from(next.signed.is_empty());
        let due = share(left, count, chances);
        next.tree.grow(k, due as u32, scratch)?;
        if due == left && next.signed.is_empty() {
            *next = self.finish(k, level, *next, scratch)?;
        }
        self.trees[level].next = Some(next);
        Ok(())
    }

    /// The tree behind that of a level, begun if it was not; `None` if there is no more.
    fn take_next<K: Kernels + ?Sized>(
        &mut self,
        k: &K,
        level: usize,
    ) -> Result<Option<Box<Level>>, Error> {
        let number = self.trees[level].number + 1;
        let above = self.levels.height_below(0) - self.levels.height_below(level);
        if number.checked_shr(above).unwrap_or(0) > 0 {
            return Ok(None);
        }
        match self.trees[level].next.take() {
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
    ) -> Result<Level, Error> {
        let (above, q) = self.parent(level, number);
        if self.trees[level - 1].number != above && self.trees[level - 1].next.is_none() {
            let next = self.begin(k, level - 1, above)?;
            self.trees[level - 1].next = Some(Box::new(next));
        }
        let sets = self.levels.sets()[level];
        let parent = self.tree(level - 1, above).ok_or(Error::Fault("HSS"))?;
        let tree = Tree::new(parent.secret.child(k, q, sets)?, self.levels.low(level))?;
        Ok(Level { tree, number, signed: Vec::new(), next: None })
    }

    /// Works out what a tree lacks, and has it signed by the one above.
    fn finish<K: Kernels + ?Sized>(
        &mut self,
        k: &K,
        level: usize,
        mut next: Level,
        scratch: &mut Scratch,
    ) -> Result<Level, Error> {
        next.tree.grow(k, next.tree.missing(), scratch)?;
        if !next.signed.is_empty() || level == 0 {
            return Ok(next);
        }
        let (above, q) = self.parent(level, next.number);
        let parent = self.tree_mut(level - 1, above).ok_or(Error::Fault("HSS"))?;
        parent.grow(k, parent.missing(), scratch)?;
        parent.reach(k, q, scratch)?;
        let public = next.tree.public();
        let Secret { lms, ots, .. } = parent.secret;
        let mut signed = vec![0; lms.signature_len(ots)];
        one_time::sign(k, parent, q, &[&public], &mut [&mut signed], scratch)?;
        parent.advance(k, q, 1, scratch)?;
        signed.extend_from_slice(&public);
        // Once and for all signatures below it: up to the root.
        if !is_signed(k, parent, &next.tree, &signed, scratch)? {
            return Err(Error::Fault("HSS"));
        }
        next.signed = signed;
        Ok(next)
    }

    /// Which tree of the level above signs a tree's key, and at which leaf.
    fn parent(&self, level: usize, number: u64) -> (u64, u32) {
        let h = self.levels.sets()[level - 1].0.h;
        (number >> h, (number & ((1 << h) - 1)) as u32)
    }

    /// A tree of a level: that which signs, or the one behind it.
    fn tree(&self, level: usize, number: u64) -> Option<&Tree> {
        let here = &self.trees[level];
        if here.number == number {
            return Some(&here.tree);
        }
        here.next.as_ref().filter(|next| next.number == number).map(|next| &next.tree)
    }

    fn tree_mut(&mut self, level: usize, number: u64) -> Option<&mut Tree> {
        let here = &mut self.trees[level];
        if here.number == number {
            return Some(&mut here.tree);
        }
        here.next.as_mut().filter(|next| next.number == number).map(|next| &mut next.tree)
    }
}

/// Whether a signature and a key behind it are those of a tree, under the tree above.
fn is_signed<K: Kernels + ?Sized>(
    k: &K,
    parent: &Tree,
    tree: &Tree,
    signed: &[u8],
    scratch: &mut Scratch,
) -> Result<bool, Error> {
    let public = tree.public();
    let Some(signature) = signed.strip_suffix(&public[..]) else { return Ok(false) };
    let key = VerifyKey::decode(&[&1u32.to_be_bytes()[..], &parent.public()].concat())?;
    let whole = [&[0; 4], signature].concat();
    let mut status = [Status::NotRun];
    verify::verify(k, &[&key], &[&public], &[&whole], &mut status, scratch);
    Ok(status == [Status::Ok])
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey of {:?}", self.public)
    }
}
