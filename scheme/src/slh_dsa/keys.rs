//! Keys with what derives from them, and their encodings (FIPS 205, section 9.1).

use std::fmt;
use std::ops::Range;

use super::params::Params;
use super::pins::Pins;
use crate::ct;
use crate::identity::Identity;
use crate::kernels::slh::SlhContext;

/// A public key with the state of the hash functions after PK.seed. Nothing in it is secret.
#[derive(Clone)]
pub struct VerifyKey {
    params: &'static Params,
    /// The encoding: PK.seed and PK.root.
    bytes: Vec<u8>,
    context: SlhContext,
    /// Whether it is a key at all, and not blank or refused.
    expanded: bool,
    identity: Identity,
}

impl VerifyKey {
    /// A key without a value, which [`super::expand_verify_keys`] fills.
    pub fn blank(p: &'static Params) -> Self {
        let bytes = vec![0; p.pk_len()];
        let context = SlhContext::new(p.family, &bytes[..p.n]);
        VerifyKey { params: p, bytes, context, expanded: false, identity: Identity::new() }
    }

    /// Returns whether this is a key, and not a blank or refused one.
    pub fn is_expanded(&self) -> bool {
        self.expanded
    }

    /// The number that names this key, and no other one of this process.
    pub fn id(&self) -> u64 {
        self.identity.get()
    }

    /// The parameter set.
    pub fn params(&self) -> &'static Params {
        self.params
    }

    /// The encoding, `pk_len` bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// PK.root.
    pub(super) fn root(&self) -> &[u8] {
        &self.bytes[self.params.n..]
    }

    pub(super) fn context(&self) -> &SlhContext {
        &self.context
    }

    /// Sets the key's encoding; `expanded` only if the key is known to be valid.
    pub(super) fn set(&mut self, p: &'static Params, bytes: &[u8], expanded: bool) {
        self.params = p;
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
        self.context = SlhContext::new(p.family, &bytes[..p.n]);
        self.expanded = expanded;
        self.identity.renew();
    }
}

impl fmt::Debug for VerifyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VerifyKey({})", self.params.name())
    }
}

/// A private key with its public key and the tree of the top layer, which every signature ends in:
/// signing with a known key takes its path from there. Wiped when dropped.
pub struct SigningKey {
    public: VerifyKey,
    /// The encoding: SK.seed, SK.prf, PK.seed and PK.root.
    bytes: Vec<u8>,
    /// All nodes of the top tree, the lowest level first, `[2^(h' + 1) - 1][n]`. Public.
    top: Vec<u8>,
    /// The roots that the WOTS+ keys near the top have signed. Public.
    pins: Pins,
}

impl SigningKey {
    /// A key without a value, which [`super::keygen`] and [`super::expand_signing_keys`] fill.
    pub fn blank(p: &'static Params) -> Self {
        SigningKey {
            public: VerifyKey::blank(p),
            bytes: vec![0; p.sk_len()],
            top: vec![0; p.tree_len()],
            pins: Pins::new(p),
        }
    }

    /// Returns whether this is a key that passed its checks, and not a blank or refused one.
    pub fn is_expanded(&self) -> bool {
        self.public.expanded
    }

    /// The number that names this key, and no other one of this process but its public half.
    pub fn id(&self) -> u64 {
        self.public.id()
    }

    /// The parameter set.
    pub fn params(&self) -> &'static Params {
        self.public.params
    }

    /// The encoding, `sk_len` bytes. Secret.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The public key that belongs to it.
    pub fn verify_key(&self) -> &VerifyKey {
        &self.public
    }

    /// Returns whether this key's WOTS+ keys near the top have signed only these roots, for a
    /// signature that was made elsewhere: `tree` is the tree of the lowest layer, and `roots` has
    /// the root of each layer, the lowest first, `[d][n]`. Roots that were not signed before are
    /// remembered. If this returns `false`, the signature must not be released.
    ///
    /// # Panics
    /// If `roots` is not one root per layer.
    pub fn holds(&self, mut tree: u64, roots: &[u8]) -> bool {
        let p = self.params();
        assert_eq!(roots.len(), p.d as usize * p.n, "one root per layer");
        (0..).zip(roots.chunks_exact(p.n)).all(|(layer, root)| {
            let place = Pins::place(p, layer, tree);
            tree = tree.checked_shr(p.h_prime).unwrap_or(0);
            place.is_none_or(|place| self.pins.holds(place, root))
        })
    }

    pub(super) fn sk_seed(&self) -> &[u8] {
        &self.bytes[..self.params().n]
    }

    pub(super) fn sk_prf(&self) -> &[u8] {
        let n = self.params().n;
        &self.bytes[n..2 * n]
    }

    pub(super) fn pk_seed(&self) -> &[u8] {
        let n = self.params().n;
        &self.bytes[2 * n..3 * n]
    }

    /// The authentication path of a leaf of the top tree, node by node.
    pub(super) fn top_path(&self, leaf: u32) -> impl Iterator<Item = &[u8]> {
        let (n, height) = (self.params().n, self.params().h_prime);
        (0..height).map(move |level| {
            let below = (2usize << height) - (2usize << (height - level));
            let sibling = ((leaf >> level) ^ 1) as usize;
            &self.top[(below + sibling) * n..][..n]
        })
    }

    /// The root that the top tree gives.
    pub(super) fn top_root(&self) -> &[u8] {
        &self.top[self.top.len() - self.params().n..]
    }

    pub(super) fn pins(&self) -> &Pins {
        &self.pins
    }

    /// Returns the buffers that key generation fills: SK.seed, PK.seed's state and the space for
    /// the top tree.
    pub(super) fn parts_mut(&mut self) -> (&SlhContext, &[u8], &mut [u8]) {
        let n = self.public.params.n;
        (&self.public.context, &self.bytes[..n], &mut self.top)
    }

    /// Sets the first three parts of the encoding (and the fourth if present); the old key is
    /// wiped. The result is not a key yet.
    pub(super) fn set(&mut self, p: &'static Params, bytes: &[u8]) {
        ct::wipe(&mut self.bytes);
        ct::resize(&mut self.bytes, p.sk_len(), 0);
        self.bytes[..bytes.len()].copy_from_slice(bytes);
        self.top.resize(p.tree_len(), 0);
        self.pins = Pins::new(p);
        // PK.seed and PK.root are the public key.
        ct::declassify(&self.bytes[Self::public_range(p)]);
        self.public.set(p, &self.bytes[Self::public_range(p)], false);
    }

    /// Completes the key with the root of its top tree.
    pub(super) fn finish(&mut self) {
        let p = self.params();
        let root = self.top.len() - p.n;
        self.bytes[3 * p.n..].copy_from_slice(&self.top[root..]);
        self.public.set(p, &self.bytes[Self::public_range(p)], true);
    }

    /// Leaves a blank key.
    pub(super) fn refuse(&mut self) {
        let p = self.params();
        self.set(p, &[]);
        self.top.fill(0);
    }

    fn public_range(p: &Params) -> Range<usize> {
        2 * p.n..4 * p.n
    }
}

impl Drop for SigningKey {
    fn drop(&mut self) {
        ct::wipe(&mut self.bytes);
    }
}

impl fmt::Debug for SigningKey {
    /// Names the parameter set and nothing else.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.params().name())
    }
}
