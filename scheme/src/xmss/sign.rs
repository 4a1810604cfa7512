//! Signing keys of XMSS and XMSS^MT and their signatures (RFC 8391, Algorithms 12 and 16; SP
//! 800-208).

use std::fmt;
use std::sync::Arc;

use super::keys::VerifyKey;
use super::one_time;
use super::params::Set;
use super::secret::{Secret, Seeds, TOGETHER};
use super::signature::Signature;
use super::{Scratch, verify};
use crate::error::Error;
use crate::hbs::{Forest, Growth, Layers, Run, StoredTree, Tree};
use crate::kernels::Kernels;
use crate::kernels::xmss::N_MAX;

/// Levels of a tree of which all nodes are kept: of one that is higher, a level less, and two subtrees.
const KEPT: u32 = 16;

/// The layers of a key, from the top.
#[derive(Clone, Copy)]
pub(super) struct XmssLayers {
    set: &'static Set,
    kept: u32,
}

impl XmssLayers {
    /// A set's, of whose trees so many levels are kept.
    pub(super) fn new(set: &'static Set, kept: u32) -> Self {
        XmssLayers { set, kept: kept.clamp(1, KEPT) }
    }

    /// Returns the layers with the default number of kept levels.
    pub(super) fn all(set: &'static Set) -> Self {
        XmssLayers::new(set, KEPT)
    }
}

impl Layers for XmssLayers {
    type Secret = Secret;

    fn count(&self) -> usize {
        self.set.d as usize
    }

    fn height(&self, _: usize) -> u32 {
        self.set.tree_height()
    }

    fn low(&self, _: usize) -> u32 {
        let h = self.set.tree_height();
        // One level less, because a second subtree grows while the first one signs.
        if h > self.kept { h - (self.kept - 1).max(1) } else { 0 }
    }

    /// Derives the child from the only seed: trees differ by their addresses.
    fn child<K: Kernels + ?Sized>(
        &self,
        _: &K,
        parent: &Secret,
        _: u32,
        level: usize,
        number: u64,
    ) -> Result<Secret, Error> {
        let layer = self.set.d - 1 - level as u32;
        Ok(Secret { seeds: Arc::clone(&parent.seeds), layer, tree: number })
    }

    fn sign<K: Kernels + ?Sized>(
        &self,
        k: &K,
        parent: &Tree<Secret>,
        q: u32,
        tree: &Tree<Secret>,
        scratch: &mut Scratch,
    ) -> Result<Vec<u8>, Error> {
        let mut signed = vec![0; self.set.layer_len()];
        one_time::sign(k, parent, q, &[tree.root()], &mut [&mut signed], scratch)?;
        Ok(signed)
    }

    fn is_signed<K: Kernels + ?Sized>(
        &self,
        k: &K,
        parent: &Tree<Secret>,
        q: u32,
        tree: &Tree<Secret>,
        signed: &[u8],
        scratch: &mut Scratch,
    ) -> Result<bool, Error> {
        if signed.len() != self.set.layer_len() {
            return Ok(false);
        }
        let part = (&parent.secret.seeds.context, one_time::part(parent, q, signed));
        verify::roots(k, &[part], &[tree.root()], scratch);
        Ok(scratch.values == parent.root())
    }
}

/// A private key with the trees it signs with. Its seeds are wiped when it is dropped. Nothing in it says
/// which indexes are used up: see [`SigningKey::sign`].
pub struct SigningKey {
    set: &'static Set,
    seeds: Arc<Seeds>,
    public: VerifyKey,
    forest: Forest<XmssLayers>,
}

impl SigningKey {
    /// The key of a top tree that is whole.
    pub(super) fn new(layers: XmssLayers, top: Tree<Secret>) -> Result<Self, Error> {
        let (set, seeds) = (layers.set, Arc::clone(&top.secret.seeds));
        let number = set.number.to_be_bytes();
        let public = [&number[..], top.root(), seeds.context.seed()].concat();
        let public = VerifyKey::decode(set.scheme, &public)?;
        Ok(SigningKey { set, seeds, public, forest: Forest::new(layers, top) })
    }

    /// The set.
    pub fn set(&self) -> &'static Set {
        self.set
    }

    /// The public key that belongs to it.
    pub fn verify_key(&self) -> &VerifyKey {
        &self.public
    }

    /// Signs message i with index `index` + i, into one signature per message, each
    /// [`Set::signature_len`] bytes. The caller must guarantee that **no index ever signs two
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
        let len = self.set.signature_len();
        assert_eq!(out.len(), messages.len() * len, "a signature a message");
        let SigningKey { seeds, public, forest, .. } = self;
        let together = (messages.len(), TOGETHER);
        let signed = forest.sign(k, index, together, scratch, |forest, run, scratch| {
            let out = &mut out[run.messages.start * len..run.messages.end * len];
            let messages = &messages[run.messages.clone()];
            sign_run(k, (seeds, public), forest, &run, messages, out, scratch)
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
        self.forest.reach(k, index, scratch)
    }

    /// Returns the nodes of each tree that signs, the top one first, and of each tree that grows.
    /// Callers store them when a key is closed, because recomputing them takes as long as making
    /// them did. They are public, but their integrity matters as much as the key's: see
    /// [`SigningKey::restore`].
    pub fn stored_trees(&self) -> Vec<StoredTree<'_>> {
        self.forest.stored_trees()
    }

    /// Restores a tree that [`SigningKey::stored_trees`] returned. Trees come in that order,
    /// without the top tree, which [`super::Generation::resume`] takes. A tree that is signed must
    /// be whole, and the signature valid.
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

/// Signatures at neighbouring leaves of the lowest tree, below all that is above it:
/// `index || r || values || path || ... || values || path`.
fn sign_run<K: Kernels + ?Sized>(
    k: &K,
    (seeds, public): (&Seeds, &VerifyKey),
    forest: &Forest<XmssLayers>,
    run: &Run,
    messages: &[&[u8]],
    out: &mut [u8],
    scratch: &mut Scratch,
) -> Result<(), Error> {
    let (set, fault) = (seeds.set, Error::Fault(seeds.set.scheme.name()));
    let Some((_, root, context)) = public.parts() else { return Err(fault) };
    let mut digests = Vec::with_capacity(messages.len());
    let mut parts = Vec::with_capacity(messages.len());
    for ((index, message), out) in
        (run.index..).zip(messages).zip(out.chunks_exact_mut(set.signature_len()))
    {
        let (number, rest) = out.split_at_mut(set.index_len());
        number.copy_from_slice(&index.to_be_bytes()[8 - number.len()..]);
        let (randomizer, rest) = rest.split_at_mut(set.n);
        seeds.randomizer(k, index, randomizer);
        // Twice: any value would do for it, and two would sign two digests.
        let mut again = [0; N_MAX];
        seeds.randomizer(k, index, &mut again[..set.n]);
        if *randomizer != again[..set.n] {
            return Err(fault);
        }
        digests.push(verify::message_digest(context, randomizer, root, index, message));
        let (own, above) = rest.split_at_mut(set.layer_len());
        let layers = above.chunks_exact_mut(set.layer_len()).zip(forest.signed().rev());
        layers.for_each(|(part, signed)| part.copy_from_slice(signed));
        parts.push(own);
    }
    let digests: Vec<_> = digests.iter().map(|digest| &digest[..set.n]).collect();
    one_time::sign(k, forest.lowest(), run.q, &digests, &mut parts, scratch)?;
    // The output parses as a signature, and the digest computed from it is the digest that was
    // signed.
    let lanes = (run.index..).zip(messages).zip(&digests);
    let all = lanes.zip(out.chunks_exact(set.signature_len())).all(
        |(((index, message), digest), out)| {
            Signature::read(set, out).is_some_and(|read| {
                let again = verify::message_digest(context, read.randomizer, root, index, message);
                read.index == index && again[..set.n] == **digest
            })
        },
    );
    if all { Ok(()) } else { Err(fault) }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey of {:?}", self.public)
    }
}

/// A key that is being made: its top tree, in pieces that several threads can work at. Where all pieces of a wave
/// have run, the wave is closed, and the next one is taken.
pub struct Generation {
    layers: XmssLayers,
    growth: Growth<Secret>,
}

/// A part of a key that is being made. Nothing it does depends on another.
pub struct Piece<'a>(crate::hbs::Part<'a, Secret>);

impl Generation {
    /// Starts generating a key of a parameter set with these secrets, S_XMSS || SK_PRF || SEED, n
    /// bytes each (SP 800-208, section 6.2). All must be random; they are the private key.
    ///
    /// # Errors
    /// [`Error::Length`]; [`Error::PrivateKey`] for a set that verifies only ([`Set::can_sign`]);
    /// [`Error::NoMemory`].
    pub fn new(set: &'static Set, seeds: &[u8]) -> Result<Self, Error> {
        Self::of(XmssLayers::all(set), seeds)
    }

    /// Starts generating a key of whose trees `levels` levels are kept whole: less memory, but more
    /// work for an index out of order.
    ///
    /// # Errors
    /// See [`Generation::new`].
    pub fn with_whole_levels(set: &'static Set, levels: u32, seeds: &[u8]) -> Result<Self, Error> {
        Self::of(XmssLayers::new(set, levels), seeds)
    }

    fn of(layers: XmssLayers, seeds: &[u8]) -> Result<Self, Error> {
        let set = layers.set;
        if !set.can_sign() {
            let reason = "its set is not one of SP 800-208, and only verifies";
            return Err(Error::PrivateKey { algorithm: set.scheme.name(), reason });
        }
        Error::check_length("the seeds of XMSS", 3 * set.n, seeds)?;
        let seeds = Arc::new(Seeds::new(set, seeds));
        let secret = Secret { seeds, layer: set.d - 1, tree: 0 };
        Ok(Generation { layers, growth: Growth(Tree::new(secret, layers.low(0))?) })
    }

    /// Resumes from a row that [`Generation::row`] returned. If the row is whole, nothing is left
    /// to compute. The caller must trust the row, or compare the public key at the end.
    ///
    /// # Errors
    /// [`Error::PrivateKey`] if the row is longer than that of the tree, or ends within a node.
    pub fn resume<K: Kernels + ?Sized>(mut self, k: &K, row: &[u8]) -> Result<Self, Error> {
        self.growth.0.resume(k, row)?;
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
    }

    /// The key, where all is done.
    ///
    /// # Errors
    /// [`Error::PrivateKey`] if something is left to do.
    pub fn finish(self) -> Result<SigningKey, Error> {
        SigningKey::new(self.layers, self.growth.finish()?)
    }
}

/// The inputs of a piece, for a backend without kernels of this crate: neighbouring nodes of one
/// row.
pub struct Nodes<'a> {
    /// The set.
    pub set: &'static Set,
    /// SEED.
    pub seed: &'a [u8],
    /// S_XMSS, which is secret.
    pub secret: &'a [u8],
    /// The layer of the tree, and which tree of that it is.
    pub layer: u32,
    /// See `layer`.
    pub tree: u64,
    /// The height of the nodes above the leaves.
    pub low: u32,
    /// The first one's number in its row.
    pub first: u32,
    /// `[node][n]`.
    pub output: &'a mut [u8],
}

impl<'a> Piece<'a> {
    /// Returns the inputs of the piece.
    pub fn job(&mut self) -> Nodes<'_> {
        let (secret, low, first, output) = self.0.parts();
        let Secret { seeds, layer, tree } = secret;
        let (seed, chains) = (seeds.context.seed(), seeds.chains());
        Nodes {
            set: seeds.set,
            seed,
            secret: chains,
            layer: *layer,
            tree: *tree,
            low,
            first,
            output,
        }
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

/// Makes a key at once: [`Generation`] from its beginning to its end.
///
/// # Errors
/// See [`Generation::new`].
pub fn generate<K: Kernels + ?Sized>(
    k: &K,
    set: &'static Set,
    seeds: &[u8],
    scratch: &mut Scratch,
) -> Result<SigningKey, Error> {
    let mut generation = Generation::new(set, seeds)?;
    loop {
        let mut pieces = generation.wave(1);
        let Some(piece) = pieces.first_mut() else { return generation.finish() };
        piece.run(k, scratch)?;
        drop(pieces);
        generation.close(k, 1);
    }
}
