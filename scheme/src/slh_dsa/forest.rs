//! Merkle trees from SK.seed, many at a time: xmss_node and fors_node (FIPS 205, Algorithms 9 and
//! 15) without recursion, level by level.
//!
//! ```text
//!   trees --cut--> subtrees of <= 2^9 leaves --group--> leaves --H--> level 1 --H--> ... --> roots
//!                                            `- groups that stay in cache                      |
//!   of trees that were cut: levels above the cut from the roots of their subtrees <------------'
//! ```
//!
//! A tree that signs leaves out what the signature makes known anyway: the leaf that signs and the
//! nodes above it, which [`super::walk`] works out. So no hash is computed twice.

use super::Scratch;
use super::params::{Params, W_LAST};
use crate::ct;
use crate::kernels::Kernels;
use crate::kernels::slh::{SlhAddress, SlhChain, SlhContext, SlhHash, address_type};

/// Levels that are worked out in one go.
const SUBTREE_HEIGHT_MAX: u32 = 9;
/// Bytes of the lowest level of the subtrees of one group; with the level above it half as much
/// again, well within L2.
const GROUP_BYTES_MAX: usize = 128 << 10;
/// Jobs of one call of a kernel, but for chains of WOTS+: 40 KiB of descriptions.
const JOBS_MAX: usize = 512;
/// WOTS+ keys worked out together: as many as the widest kernels hash side by side, and 68 KiB of
/// chains at most.
const LEAVES_MAX: usize = 16;

/// One tree.
pub(super) struct Tree<'a> {
    pub(super) context: &'a SlhContext,
    pub(super) sk_seed: &'a [u8],
    /// Layer and tree, of type TREE: leaves are WOTS+ public keys; or layer, tree and key pair, of
    /// type FORS_TREE: leaves are those of FORS.
    pub(super) address: SlhAddress,
    /// How many leaves of the same address come before this tree's: i * 2^a in FORS, else 0.
    pub(super) offset: u32,
    /// The leaf that signs, counted within this tree.
    pub(super) signs: Option<u32>,
    /// With a leaf that signs: its authentication path, `[height][n]`. Else all nodes, the lowest
    /// level first, `[2^(height + 1) - 1][n]`.
    pub(super) output: &'a mut [u8],
}

/// A part of a tree: 2^levels nodes of one level, from `first` on.
#[derive(Clone, Copy)]
struct Unit {
    tree: usize,
    first: u32,
}

impl Tree<'_> {
    /// Whether a node stands above the leaf that signs, or is it.
    fn is_on_path(&self, level: u32, index: u32) -> bool {
        self.signs.is_some_and(|leaf| leaf >> level == index)
    }

    /// Takes from the nodes of a level, of which `nodes` begins with node `first`, what the output
    /// holds of it.
    fn emit(&mut self, n: usize, height: u32, level: u32, first: u32, nodes: &[u8]) {
        match self.signs {
            Some(leaf) if level < height => {
                let sibling = (leaf >> level) ^ 1;
                let count = (nodes.len() / n) as u32;
                if (first..first + count).contains(&sibling) {
                    let node = &nodes[(sibling - first) as usize * n..][..n];
                    self.output[level as usize * n..][..n].copy_from_slice(node);
                }
            }
            Some(_) => {}
            None => {
                // The levels below hold 2^height + ... + 2^(height - level + 1) nodes.
                let below = (2usize << height) - (2usize << (height - level));
                self.output[(below + first as usize) * n..][..nodes.len()].copy_from_slice(nodes);
            }
        }
    }
}

/// Works every tree out, all of one height.
pub(super) fn build<K: Kernels>(
    kernels: &K,
    p: &Params,
    height: u32,
    trees: &mut [Tree<'_>],
    s: &mut Scratch,
) {
    if trees.is_empty() {
        return; // No lane of the batch runs.
    }
    let low = height.min(SUBTREE_HEIGHT_MAX);
    let per_tree = 1usize << (height - low);
    let group = (GROUP_BYTES_MAX / (p.n << low)).max(1);
    let units: Vec<Unit> = (0..trees.len() * per_tree)
        .map(|i| Unit { tree: i / per_tree, first: ((i % per_tree) as u32) << low })
        .collect();
    let mut roots = Vec::with_capacity(units.len() * p.n);
    for units in units.chunks(group) {
        ct::resize(&mut s.nodes, units.len() * (p.n << low), 0);
        leaves(kernels, p, trees, units, s);
        climb(kernels, (p.n, height), trees, units, 0..low, s);
        roots.extend_from_slice(&s.nodes);
    }
    if low < height {
        let whole: Vec<Unit> = (0..trees.len()).map(|tree| Unit { tree, first: 0 }).collect();
        s.nodes.clear();
        s.nodes.append(&mut roots);
        climb(kernels, (p.n, height), trees, &whole, low..height, s);
    }
}

/// The leaves of the units into `nodes`, `[unit][leaf][n]`.
fn leaves<K: Kernels>(
    kernels: &K,
    p: &Params,
    trees: &[Tree<'_>],
    units: &[Unit],
    s: &mut Scratch,
) {
    let Scratch { nodes, values, .. } = s;
    let width = nodes.len() / p.n / units.len();
    let places = units
        .iter()
        .flat_map(|unit| (unit.first..).take(width).map(|leaf| (&trees[unit.tree], leaf)));
    let places =
        places.zip(nodes.chunks_exact_mut(p.n)).map(|((tree, leaf), node)| (tree, leaf, node));
    let mut places = places.filter(|(tree, leaf, _)| !tree.is_on_path(0, *leaf)).peekable();
    let is_fors = trees.first().is_some_and(|t| t.address.kind() == address_type::FORS_TREE);
    while places.peek().is_some() {
        if is_fors {
            fors_leaves(kernels, places.by_ref().take(JOBS_MAX));
        } else {
            wots_leaves(kernels, p, places.by_ref().take(LEAVES_MAX), values);
        }
    }
    // Leaves become public with authentication paths.
    ct::declassify(nodes);
}

/// Leaves of FORS trees: F of the secret (Algorithm 15, lines 2 to 5).
fn fors_leaves<'a, K: Kernels>(
    kernels: &K,
    places: impl Iterator<Item = (&'a Tree<'a>, u32, &'a mut [u8])>,
) {
    let mut jobs: Vec<_> = places
        .map(|(tree, leaf, value)| SlhChain {
            context: tree.context,
            address: tree.address,
            sk_seed: Some(tree.sk_seed),
            start: tree.offset + leaf,
            steps: 1,
            value,
        })
        .collect();
    kernels.slh_chain_many(&mut jobs);
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
        let address = tree.address.of_type(address_type::WOTS_HASH).with_key_pair(*leaf);
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
            address: tree.address.of_type(address_type::WOTS_PK).with_key_pair(leaf),
            input,
            output,
        })
        .collect();
    kernels.slh_hash_many(&mut hashes);
}

/// From a level to a higher one. `nodes` is `[unit][2^levels][n]` before and `[unit][n]` behind;
/// what the outputs need is taken on the way, of every level but the lowest where that is not 0.
fn climb<K: Kernels>(
    kernels: &K,
    (n, height): (usize, u32),
    trees: &mut [Tree<'_>],
    units: &[Unit],
    levels: std::ops::Range<u32>,
    s: &mut Scratch,
) {
    let Scratch { nodes, parents, .. } = s;
    let from = levels.start;
    if from == 0 {
        emit_level(trees, units, (n, height), (0, 0), nodes);
    }
    for level in levels {
        let (to, up) = (level + 1, level + 1 - from);
        ct::resize(parents, nodes.len() / 2, 0);
        hash_level(kernels, n, trees, units, (to, up), nodes, parents);
        std::mem::swap(nodes, parents);
        emit_level(trees, units, (n, height), (to, up), nodes);
    }
}

/// Offers the trees their nodes of `level`, which is `up` above where the units count from.
fn emit_level(
    trees: &mut [Tree<'_>],
    units: &[Unit],
    (n, height): (usize, u32),
    (level, up): (u32, u32),
    nodes: &[u8],
) {
    for (unit, nodes) in units.iter().zip(nodes.chunks_exact(nodes.len() / units.len())) {
        trees[unit.tree].emit(n, height, level, unit.first >> up, nodes);
    }
}

/// `parents[i] = H(nodes[2i] || nodes[2i + 1])` (Algorithm 9, lines 6 to 11; Algorithm 15, lines 7
/// to 12). `level` is that of the parents, `up` above where the units count from.
fn hash_level<K: Kernels>(
    kernels: &K,
    n: usize,
    trees: &[Tree<'_>],
    units: &[Unit],
    (level, up): (u32, u32),
    nodes: &[u8],
    parents: &mut [u8],
) {
    let width = parents.len() / n / units.len();
    let places = units.iter().flat_map(|unit| {
        ((unit.first >> up)..).take(width).map(|index| (&trees[unit.tree], index))
    });
    let pairs = nodes.chunks_exact(2 * n).zip(parents.chunks_exact_mut(n));
    let mut jobs = places
        .zip(pairs)
        .filter(|((tree, index), _)| !tree.is_on_path(level, *index))
        .map(|((tree, index), (input, output))| SlhHash {
            context: tree.context,
            address: tree.address.with_chain(level).with_hash((tree.offset >> level) + index),
            input,
            output,
        });
    let mut list = Vec::with_capacity(JOBS_MAX.min(units.len() * width));
    loop {
        list.extend(jobs.by_ref().take(JOBS_MAX));
        if list.is_empty() {
            return;
        }
        kernels.slh_hash_many(&mut list);
        list.clear();
    }
}
