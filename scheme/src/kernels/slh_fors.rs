//! Trees of FORS (FIPS 205, section 8), many at a time: the part of the seam that signing spends on them.
//!
//! ```text
//!   SK.seed --PRF--> secret --F--> leaf --H--> level 1 --H--> ... --H--> root      each subtree by itself
//!                                   |            |
//!                                   `------------`------> authentication path of one leaf
//! ```
//!
//! A tree is cut into subtrees of one height, so that every lane of an instruction set can compute
//! one from its leaves to its root. An instruction set without an implementation uses
//! [`by_levels`].

use super::Kernels;
use super::slh::{SlhAddress, SlhChain, SlhContext, SlhHash, address_type};
use crate::ct;

/// The most levels of a subtree above its leaves.
pub const FORS_HEIGHT_MAX: u32 = 10;
/// Bytes of the leaves of subtrees that [`by_levels`] works out together; with the level above half as much
/// again, well within L2.
const GROUP_BYTES_MAX: usize = 128 << 10;
/// Jobs of one call of a kernel: 40 KiB of descriptions.
const JOBS_MAX: usize = 512;

/// A subtree of a FORS tree (fors_node, Algorithm 15), with the secrets of its leaves.
pub struct SlhForsTree<'a> {
    /// The key's part.
    pub context: &'a SlhContext,
    /// SK.seed, n bytes.
    pub sk_seed: &'a [u8],
    /// Layer, tree and key pair, of type FORS_TREE, and zeros behind: heights and indices are set by the
    /// kernel.
    pub address: SlhAddress,
    /// The tree index of the first leaf, a multiple of `2^height` below 2^31.
    pub first: u32,
    /// Levels above the leaves: [`FORS_HEIGHT_MAX`] at most.
    pub height: u32,
    /// The leaf whose authentication path is wanted, counted within the subtree: below `2^height`. Public.
    pub leaf: u32,
    /// The authentication path of that leaf, `[height][n]`, the lowest level first; empty if no
    /// path is requested.
    pub path: &'a mut [u8],
    /// The subtree's root, n bytes.
    pub root: &'a mut [u8],
}

impl SlhForsTree<'_> {
    /// Asserts that the jobs of one call fulfil the contract.
    ///
    /// # Panics
    /// If the jobs are of several parameter sets or heights, or if a height, a length, a
    /// leaf, a first leaf or an address is outside of the range that its field allows.
    pub fn assert_all(jobs: &[SlhForsTree<'_>]) {
        let Some((first, height)) = jobs.first().map(|job| (job.context, job.height)) else {
            return;
        };
        assert!(height <= FORS_HEIGHT_MAX, "a subtree that is too high");
        for job in jobs {
            let n = first.n;
            let blank = SlhAddress::default();
            assert!(
                (job.context.family, job.context.n, job.height) == (first.family, n, height)
                    && job.sk_seed.len() == n
                    && job.root.len() == n
                    && (job.path.is_empty() || job.path.len() == height as usize * n)
                    && job.leaf >> height == 0
                    && job.first.trailing_zeros() >= height
                    && job.first < 1 << 31
                    && job.address.kind() == address_type::FORS_TREE
                    && job.address.0[24..] == blank.0[24..],
                "a subtree that does not fit the first, or whose fields do not fit each other"
            );
        }
    }

    /// The address of a node (Algorithm 15, lines 10 and 11).
    fn node(&self, level: u32, index: u32) -> SlhAddress {
        self.address.with_chain(level).with_hash((self.first >> level) + index)
    }
}

/// Level by level, over all subtrees together.
#[inline(never)] // Into code for one instruction set, whose scan would read it as a kernel.
pub fn by_levels<K: Kernels + ?Sized>(kernels: &K, jobs: &mut [SlhForsTree<'_>]) {
    SlhForsTree::assert_all(jobs);
    let Some((n, height)) = jobs.first().map(|job| (job.context.n, job.height)) else { return };
    let (mut nodes, mut parents) = (Vec::new(), Vec::new());
    for jobs in jobs.chunks_mut((GROUP_BYTES_MAX / (n << height)).max(1)) {
        ct::resize(&mut nodes, jobs.len() * (n << height), 0);
        leaves(kernels, n, jobs, &mut nodes);
        for level in 0..height {
            let width = n << (height - level);
            for (job, nodes) in jobs.iter_mut().zip(nodes.chunks_exact(width)) {
                if let Some(node) = job.path.chunks_exact_mut(n).nth(level as usize) {
                    let sibling = (job.leaf >> level ^ 1) as usize;
                    node.copy_from_slice(&nodes[sibling * n..][..n]);
                }
            }
            ct::resize(&mut parents, nodes.len() / 2, 0);
            hash_level(kernels, jobs, level + 1, &nodes, &mut parents);
            std::mem::swap(&mut nodes, &mut parents);
        }
        for (job, root) in jobs.iter_mut().zip(nodes.chunks_exact(n)) {
            job.root.copy_from_slice(root);
        }
    }
    ct::wipe(&mut nodes);
    ct::wipe(&mut parents);
}

/// F of the secrets (Algorithm 15, lines 2 to 5), `[subtree][leaf][n]`.
fn leaves<K: Kernels + ?Sized>(kernels: &K, n: usize, jobs: &[SlhForsTree<'_>], nodes: &mut [u8]) {
    let places = jobs.iter().flat_map(|job| (0..1 << job.height).map(move |leaf| (job, leaf)));
    let mut chains = places.zip(nodes.chunks_exact_mut(n)).map(|((job, leaf), value)| SlhChain {
        context: job.context,
        address: job.address,
        sk_seed: Some(job.sk_seed),
        start: job.first + leaf,
        steps: 1,
        value,
    });
    in_lists(&mut chains, |list| kernels.slh_chain_many(list));
}

/// `parents[i] = H(nodes[2i] || nodes[2i + 1])` (Algorithm 15, lines 7 to 12).
fn hash_level<K: Kernels + ?Sized>(
    kernels: &K,
    jobs: &[SlhForsTree<'_>],
    level: u32,
    nodes: &[u8],
    parents: &mut [u8],
) {
    let Some((n, height)) = jobs.first().map(|job| (job.context.n, job.height)) else { return };
    let places =
        jobs.iter().flat_map(|job| (0..1 << (height - level)).map(move |index| (job, index)));
    let pairs = nodes.chunks_exact(2 * n).zip(parents.chunks_exact_mut(n));
    let mut hashes = places.zip(pairs).map(|((job, index), (input, output))| SlhHash {
        context: job.context,
        address: job.node(level, index),
        input,
        output,
    });
    in_lists(&mut hashes, |list| kernels.slh_hash_many(list));
}

/// Calls `take` with lists of at most [`JOBS_MAX`] items.
fn in_lists<T>(items: &mut impl Iterator<Item = T>, mut take: impl FnMut(&mut [T])) {
    let mut list = Vec::with_capacity(JOBS_MAX);
    loop {
        list.extend(items.by_ref().take(JOBS_MAX));
        if list.is_empty() {
            return;
        }
        take(&mut list);
        list.clear();
    }
}
