//! The secret of one tree, and what derives from it (RFC 8554, appendix A; SP 800-208, section 6.1).
//!
//! ```text
//!   H(I || u32str(q) || u16str(i) || 0xff || SEED)
//!       i below p      x[i], where chain i of the one-time key q starts
//!       i = 0xfffd     C, the randomizer of the signature at q
//!       i = 0xfffe     SEED of the tree that is signed at q
//!       i = 0xffff     I of that tree, its first 16 bytes
//! ```
//!
//! The last three are what Cisco's hash-sigs takes where its `SECRET_METHOD` is 2, so a key of either makes
//! the signatures of the other. p is 265 at most: no two inputs are alike. One that is derived from an
//! index is the same whenever that index signs, so that an index never signs with two randomizers.

use super::Scratch;
use super::levels::Sector;
use super::params::{LmOts, Lms, N_MAX};
use crate::ct;
use crate::error::Error;
use crate::hbs::TreeSecret;
use crate::kernels::Kernels;
use crate::kernels::lms::{D_INTR, LmsHash, LmsLeaves, OF_SECRET, prefix};

/// The values of i for other uses than chains.
const RANDOMIZER: u16 = 0xfffd;
const CHILD_SEED: u16 = 0xfffe;
const CHILD_ID: u16 = 0xffff;

/// The secret that all one-time keys of a tree derive from. Wiped when dropped.
pub(crate) struct Secret {
    pub(super) lms: &'static Lms,
    pub(super) ots: &'static LmOts,
    /// The identifier I, which is public.
    pub(super) id: [u8; 16],
    /// 0xff || SEED, n bytes of it. Boxed: trees move, and moving does not wipe the old location.
    tail: Box<[u8; 1 + N_MAX]>,
    /// The sector that this is the secret of. The tree counts leaves and nodes within the sector;
    /// they are hashed with their numbers in the whole tree.
    pub(super) sector: Sector,
}

impl Secret {
    /// A tree's secret. `seed` has n bytes.
    pub(super) fn new(
        (lms, ots): (&'static Lms, &'static LmOts),
        id: &[u8; 16],
        seed: &[u8],
    ) -> Self {
        let mut tail = Box::new([0; 1 + N_MAX]);
        tail[0] = OF_SECRET;
        tail[1..][..lms.n].copy_from_slice(seed);
        Secret { lms, ots, id: *id, tail, sector: Sector::default() }
    }

    /// The number in the whole tree of the first leaf.
    pub(super) fn first(&self) -> u32 {
        self.sector.number << self.height()
    }

    /// The root of the whole tree, from that of this part.
    pub(super) fn root<K: Kernels + ?Sized>(&self, k: &K, own: &[u8]) -> Vec<u8> {
        let Sector { bits, number, way } = &self.sector;
        let (mut node, mut value) = ((1 << bits) + number, own.to_vec());
        for sibling in way.chunks_exact(self.lms.n) {
            let input = if node % 2 == 0 { [&value[..], sibling] } else { [sibling, &value[..]] };
            let (input, mut output) = (input.concat(), vec![0; self.lms.n]);
            node /= 2;
            self.hash_of_tree(k, node, &input, &mut output);
            value = output;
        }
        value
    }

    /// Neighbouring nodes by their numbers in the whole tree.
    pub(super) fn hash_of_tree<K: Kernels + ?Sized>(
        &self,
        k: &K,
        first: u32,
        input: &[u8],
        output: &mut [u8],
    ) {
        let (n, family) = (self.lms.n, self.lms.family);
        let nodes = input.chunks_exact(2 * n).zip(output.chunks_exact_mut(n));
        let jobs = (first..).zip(nodes).map(|(number, (input, output))| LmsHash {
            family,
            prefix: prefix(&self.id, number, D_INTR),
            input,
            output,
        });
        k.lms_hash_many(&mut jobs.collect::<Vec<_>>());
    }

    /// The secret of the tree that is signed at q. It is derived twice: a fault here would have q sign two
    /// trees.
    ///
    /// # Errors
    /// [`Error::Fault`] if both differ.
    pub(super) fn child<K: Kernels + ?Sized>(
        &self,
        k: &K,
        q: u32,
        sets: (&'static Lms, &'static LmOts),
    ) -> Result<Self, Error> {
        let n = self.lms.n;
        let mut both = [[0; 2 * N_MAX]; 2];
        for derived in &mut both {
            let (seed, id) = derived.split_at_mut(N_MAX);
            k.lms_hash_many(&mut [
                self.derived(q, CHILD_SEED, &mut seed[..n]),
                self.derived(q, CHILD_ID, &mut id[..n]),
            ]);
        }
        // Whether there was a fault is no secret.
        let is_same = ct::declassified(ct::eq_mask(&both[0], &both[1])) != 0;
        let (seed, id) = both[0].split_at(N_MAX);
        let id: [u8; 16] = core::array::from_fn(|i| id[i]);
        // I is part of the tree's public key.
        ct::declassify(&id);
        let child = is_same.then(|| Secret::new(sets, &id, &seed[..n]));
        ct::wipe(&mut both);
        child.ok_or(Error::Fault("HSS"))
    }

    /// The randomizers of so many signatures, from that at `first` on.
    pub(super) fn randomizers<'a, K: Kernels + ?Sized>(
        &self,
        k: &K,
        first: u32,
        out: impl Iterator<Item = &'a mut [u8]>,
    ) {
        let jobs = (first..).zip(out).map(|(q, out)| self.derived(q, RANDOMIZER, out));
        k.lms_hash_many(&mut jobs.collect::<Vec<_>>());
    }

    /// SEED.
    pub(super) fn seed(&self) -> &[u8] {
        &self.tail[1..][..self.lms.n]
    }

    /// H(I || u32str(q) || u16str(i) || 0xff || SEED).
    fn derived<'a>(&'a self, q: u32, i: u16, output: &'a mut [u8]) -> LmsHash<'a> {
        let input = &self.tail[..1 + self.lms.n];
        LmsHash { family: self.lms.family, prefix: prefix(&self.id, q, i), input, output }
    }
}

impl TreeSecret for Secret {
    type Scratch = Scratch;

    fn name(&self) -> &'static str {
        "HSS"
    }

    fn n(&self) -> usize {
        self.lms.n
    }

    fn height(&self) -> u32 {
        self.lms.h - self.sector.bits
    }

    fn leaves<K: Kernels + ?Sized>(
        &self,
        k: &K,
        first: u32,
        out: &mut [u8],
        scratch: &mut Scratch,
    ) {
        k.lms_leaves(&mut LmsLeaves {
            family: self.lms.family,
            id: &self.id,
            seed: self.seed(),
            w: self.ots.w,
            chains: self.ots.chains(),
            first: self.first() + first,
            base: 1 << self.lms.h,
            output: &mut *out,
            room: &mut scratch.values,
        });
        // Nodes are public: signatures have them in their paths.
        ct::declassify(out);
    }

    fn hash_nodes<K: Kernels + ?Sized>(&self, k: &K, first: u32, input: &[u8], output: &mut [u8]) {
        // Below its root, which is number 2^bits + sector there, a part is numbered as the tree is below number 1.
        let depth = first.ilog2();
        let root = (1 << self.sector.bits) + self.sector.number;
        self.hash_of_tree(k, (root << depth) + first - (1 << depth), input, output);
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        ct::wipe(&mut self.tail[..]);
    }
}
