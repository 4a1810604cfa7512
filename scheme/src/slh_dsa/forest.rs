//! Merkle trees from SK.seed, many at a time: xmss_node and fors_node (FIPS 205, Algorithms 9 and
//! 15) without recursion.
//!
//! ```text
//!   trees of the hypertree --WOTS+ keys of groups that stay in cache--> leaves --H--> ... --H--> roots
//!   trees of FORS --cut--> subtrees --a lane each (slh_fors)--> their roots   --H--> ... --H--> roots
//! ```
//!
//! Trees are worked out whole, with the leaf that signs and the nodes above it, although [`super::walk`] works
//! those out, too: what a WOTS+ key signs is the root that both find. A walk that was disturbed would have it
//! sign another root, in a signature that verifies.

use super::Scratch;
use super::params::{Params, W_LAST};
use crate::ct;
use crate::kernels::Kernels;
use crate::kernels::slh::{SlhAddress, SlhChain, SlhContext, SlhHash, address_type};
use crate::kernels::slh_fors::{FORS_HEIGHT_MAX, SlhForsTree};

/// Bytes of the leaves of one group of trees; with the level above half as much again, well within L2.
const GROUP_BYTES_MAX: usize = 128 << 10;
/// Hashes of one call of a kernel: 40 KiB of descriptions.
const JOBS_MAX: usize = 512;
/// WOTS+ keys worked out together: as many as the widest kernels hash side by side, and 68 KiB of
/// chains at most.
const LEAVES_MAX: usize = 16;
/// Levels of a FORS tree above its subtrees, at least: eight subtrees of each tree fill the lanes of every
/// kernel, whatever the number of trees.
const FORS_LEVELS_ABOVE: u32 = 3;

/// One tree.
pub(super) struct Tree<'a> {
    pub(super) context: &'a SlhContext,
    pub(super) sk_seed: &'a [u8],
    /// Layer and tree, of type TREE: leaves are WOTS+ public keys; or layer, tree and key pair, of
    /// type FORS_TREE: leaves are those of FORS.
    pub(super) address: SlhAddress,
    /// The number of leaves with equal addresses before this tree's: i * 2^a in FORS, otherwise 0.
    pub(super) offset: u32,
    pub(super) output: TreeOutput<'a>,
}

/// The part of a tree that the caller wants.
pub(super) enum TreeOutput<'a> {
    /// The authentication path of a leaf, counted within this tree, `[height][n]`, and the root.
    Path { leaf: u32, path: &'a mut [u8], root: &'a mut [u8] },
    /// The root alone.
    Root(&'a mut [u8]),
    /// All nodes, the lowest level first, `[2^(height + 1) - 1][n]`.
    Nodes(&'a mut [u8]),
}

impl Tree<'_> {
    /// Copies the requested nodes of a level to the output.
    fn emit(&mut self, n: usize, height: u32, level: u32, nodes: &[u8]) {
        match &mut self.output {
            TreeOutput::Path { leaf, path, .. } if level < height => {
                let sibling = (*leaf >> level ^ 1) as usize;
                let node = &nodes[sibling * n..][..n];
                path[level as usize * n..][..n].copy_from_slice(node);
            }
            TreeOutput::Path { root, .. } => root.copy_from_slice(nodes),
            TreeOutput::Root(root) if level == height => root.copy_from_slice(nodes),
            TreeOutput::Root(_) => {}
            TreeOutput::Nodes(all) => {
                // The levels below hold 2^height + ... + 2^(height - level + 1) nodes.
                let below = (2usize << height) - (2usize << (height - level));
                all[below * n..][..nodes.len()].copy_from_slice(nodes);
            }
        }
    }
}

/// Works trees of FORS out.
pub(super) fn fors<K: Kernels>(kernels: &K, p: &Params, trees: &mut [Tree<'_>], s: &mut Scratch) {
    if trees.is_empty() {
        return; // No lane of the batch runs.
    }
    let low = (p.a - FORS_LEVELS_ABOVE).min(FORS_HEIGHT_MAX);
    let roots_len = p.n << (p.a - low);
    ct::resize(&mut s.nodes, trees.len() * roots_len, 0);
    let mut jobs = Vec::with_capacity(s.nodes.len() / p.n);
    for (tree, roots) in trees.iter_mut().zip(s.nodes.chunks_exact_mut(roots_len)) {
        let (signs, mut path) = match &mut tree.output {
            TreeOutput::Path { leaf, path, .. } => {
                (Some(*leaf), Some(&mut path[..low as usize * p.n]))
            }
            TreeOutput::Root(_) | TreeOutput::Nodes(_) => (None, None),
        };
        for (subtree, root) in (0..).zip(roots.chunks_exact_mut(p.n)) {
            let leaf = signs.filter(|leaf| leaf >> low == subtree);
            jobs.push(SlhForsTree {
                context: tree.context,
                sk_seed: tree.sk_seed,
                address: tree.address,
                first: tree.offset + (subtree << low),
                height: low,
                leaf: leaf.map_or(0, |leaf| leaf & ((1 << low) - 1)),
                path: leaf.and_then(|_| path.take()).unwrap_or_default(),
                root,
            });
        }
    }
    kernels.slh_fors_many(&mut jobs);
    drop(jobs);
    // The nodes of the path are part of the signature; the remaining hashes follow from it and the
    // roots.
    for tree in trees.iter() {
        if let TreeOutput::Path { path, .. } = &tree.output {
            ct::declassify(path);
        }
    }
    ct::declassify(&s.nodes);
    climb(kernels, (p.n, p.a), trees, low..p.a, s);
}

/// Works trees of the hypertree out.
pub(super) fn build<K: Kernels>(kernels: &K, p: &Params, trees: &mut [Tree<'_>], s: &mut Scratch) {
    for trees in trees.chunks_mut((GROUP_BYTES_MAX / (p.n << p.h_prime)).max(1)) {
        ct::resize(&mut s.nodes, trees.len() * (p.n << p.h_prime), 0);
        leaves(kernels, p, trees, s);
        climb(kernels, (p.n, p.h_prime), trees, 0..p.h_prime, s);
    }
}

/// The leaves of trees into `nodes`, `[tree][leaf][n]`.
fn leaves<K: Kernels>(kernels: &K, p: &Params, trees: &[Tree<'_>], s: &mut Scratch) {
    let Scratch { nodes, values, .. } = s;
    let places = trees.iter().flat_map(|tree| (0..1 << p.h_prime).map(move |leaf| (tree, leaf)));
    let mut places = places
        .zip(nodes.chunks_exact_mut(p.n))
        .map(|((tree, leaf), node)| (tree, leaf, node))
        .peekable();
    while places.peek().is_some() {
        wots_leaves(kernels, p, places.by_ref().take(LEAVES_MAX), values);
    }
    // Leaves become public with authentication paths.
    ct::declassify(nodes);
}

/// Leaves of trees of the hypertree: wots_pkGen (Algorithm 6).
fn wots_leaves<'a, K: Kernels>(
    kernels: &K,
    p: &Params,
    places: impl Iterator<Item = (&'a Tree<'a>, u32, &'a mut [u8])>,
    values: &mut Vec<u8>,
) {
    let places: Vec<_> = places.collect();
    ct::resize(values, places.len() * p.wots_len(), 0);
    let mut chains = Vec::with_capacity(places.len() * p.len());
    for ((tree, leaf, _), values) in places.iter().zip(values.chunks_exact_mut(p.wots_len())) {
        let address = tree.address.with_type(address_type::WOTS_HASH).with_key_pair(*leaf);
        for (chain, value) in (0..).zip(values.chunks_exact_mut(p.n)) {
            chains.push(SlhChain {
                context: tree.context,
                address: address.with_chain(chain),
                sk_seed: Some(tree.sk_seed),
                start: 0,
                steps: W_LAST,
                value,
            });
        }
    }
    kernels.slh_chain_many(&mut chains);
    drop(chains);
    // The ends of chains are the WOTS+ public key.
    ct::declassify(values);
    let mut hashes: Vec<_> = places
        .into_iter()
        .zip(values.chunks_exact(p.wots_len()))
        .map(|((tree, leaf, output), input)| SlhHash {
            context: tree.context,
            address: tree.address.with_type(address_type::WOTS_PK).with_key_pair(leaf),
            input,
            output,
        })
        .collect();
    kernels.slh_hash_many(&mut hashes);
}

/// Climbs from a level to a higher one. `nodes` is `[tree][nodes of the level][n]` before and
/// after; nodes for the outputs are copied on the way.
fn climb<K: Kernels>(
    kernels: &K,
    (n, height): (usize, u32),
    trees: &mut [Tree<'_>],
    levels: std::ops::Range<u32>,
    s: &mut Scratch,
) {
    let Scratch { nodes, parents, .. } = s;
    for level in levels.start..=levels.end {
        if level > levels.start {
            ct::resize(parents, nodes.len() / 2, 0);
            hash_level(kernels, n, trees, level, nodes, parents);
            std::mem::swap(nodes, parents);
        }
        for (tree, nodes) in trees.iter_mut().zip(nodes.chunks_exact(n << (height - level))) {
            tree.emit(n, height, level, nodes);
        }
    }
}

/// `parents[i] = H(nodes[2i] || nodes[2i + 1])` (Algorithm 9, lines 6 to 11; Algorithm 15, lines 7
/// to 12). `level` is that of the parents.
fn hash_level<K: Kernels>(
    kernels: &K,
    n: usize,
    trees: &[Tree<'_>],
    level: u32,
    nodes: &[u8],
    parents: &mut [u8],
) {
    let width = (parents.len() / n / trees.len()) as u32;
    let places = trees.iter().flat_map(|tree| (0..width).map(move |index| (tree, index)));
    let pairs = nodes.chunks_exact(2 * n).zip(parents.chunks_exact_mut(n));
    let mut jobs = places.zip(pairs).map(|((tree, index), (input, output))| SlhHash {
        context: tree.context,
        address: tree.address.with_chain(level).with_hash((tree.offset >> level) + index),
        input,
        output,
    });
    let mut list = Vec::with_capacity(JOBS_MAX.min(trees.len() * width as usize));
    loop {
        list.extend(jobs.by_ref().take(JOBS_MAX));
        if list.is_empty() {
            return;
        }
        kernels.slh_hash_many(&mut list);
        list.clear();
    }
}
