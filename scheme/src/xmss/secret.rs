//! The secrets of a key, and the leaves and one-time signatures of its trees (RFC 8391, sections 4.1.6 and
//! 4.1.9; SP 800-208, section 6.2).
//!
//! ```text
//!   S_XMSS --PRF_keygen, with SEED and an address--> where a chain starts     of every tree of every layer
//!   SK_PRF --PRF, with an index--> the randomizer of the signature at it
//! ```
//!
//! The values derived from an index are the same in every signature with that index.

use std::sync::Arc;

use super::params::Set;
use super::{Scratch, ots, tree};
use crate::ct;
use crate::hbs::TreeSecret;
use crate::kernels::Kernels;
use crate::kernels::xmss::address_type::{OTS, TREE};
use crate::kernels::xmss::{
    STEPS_MAX, XmssAddress, XmssChain, XmssContext, XmssHash, XmssSecret, XmssSecretSeed,
};
use crate::kernels::xmss_of_any::randomizer;

/// Leaves, or signatures, that are worked on together: they fill all lanes.
pub(super) const TOGETHER: usize = 16;

/// The seeds that all trees of a key derive from. Wiped when dropped.
pub(super) struct Seeds {
    pub(super) set: &'static Set,
    /// SEED, which is public.
    pub(super) context: XmssContext,
    chains: XmssSecretSeed,
    randomizers: XmssSecretSeed,
}

impl Seeds {
    /// Those of S_XMSS || SK_PRF || SEED, n bytes each.
    pub(super) fn new(set: &'static Set, seeds: &[u8]) -> Self {
        let (family, n) = (set.family, set.n);
        let (secret, public) = seeds.split_at(2 * n);
        let (chains, randomizers) = secret.split_at(n);
        Seeds {
            set,
            context: XmssContext::new(family, public),
            chains: XmssSecretSeed::new(family, chains),
            randomizers: XmssSecretSeed::for_randomizers(family, randomizers),
        }
    }

    /// S_XMSS. Secret.
    pub(super) fn chains(&self) -> &[u8] {
        self.chains.bytes()
    }

    /// The randomizer of an index.
    pub(super) fn randomizer<K: Kernels + ?Sized>(&self, k: &K, index: u64, out: &mut [u8]) {
        randomizer(k, self.set.family, &self.randomizers, index, out);
        // It is part of the signature.
        ct::declassify(out);
    }
}

/// The secret of one tree.
pub(super) struct Secret {
    pub(super) seeds: Arc<Seeds>,
    /// The layer, and the number of the tree in it.
    pub(super) layer: u32,
    pub(super) tree: u64,
}

impl Secret {
    /// The address of a one-time key.
    fn address(&self, leaf: u32) -> XmssAddress {
        XmssAddress::new(self.layer, self.tree, OTS).with(XmssAddress::KEY_PAIR, leaf)
    }

    /// Computes the starts of the chains of one-time keys, from the key at `first` on:
    /// `values[key][chain][n]`.
    fn chain_starts<'a, K: Kernels + ?Sized>(
        &self,
        k: &K,
        first: u32,
        values: impl Iterator<Item = &'a mut [u8]>,
    ) {
        let Seeds { context, chains: seed, .. } = &*self.seeds;
        let mut jobs = Vec::new();
        for (leaf, values) in (first..).zip(values) {
            let address = self.address(leaf);
            let values = (0..).zip(values.chunks_exact_mut(context.n));
            jobs.extend(values.map(|(i, output)| {
                let address = address.with(XmssAddress::CHAIN, i);
                XmssSecret { context, seed, address, output }
            }));
        }
        k.xmss_secret_many(&mut jobs);
    }

    /// One-time signatures of digests, n bytes each, at leaves from `first` on: `[key][chain][n]`
    /// (Algorithm 5).
    pub(super) fn sign<'a, K: Kernels + ?Sized>(
        &self,
        k: &K,
        first: u32,
        digests: &[&[u8]],
        values: impl Iterator<Item = &'a mut [u8]>,
    ) {
        let Seeds { context, .. } = &*self.seeds;
        let mut values: Vec<_> = values.collect();
        self.chain_starts(k, first, values.iter_mut().map(|values| &mut **values));
        let mut jobs = Vec::new();
        for ((leaf, digest), values) in (first..).zip(digests).zip(&mut values) {
            jobs.extend(ots::chains_to(context, self.address(leaf), digest, values));
        }
        k.xmss_chain_many(&mut jobs);
        // The values are the signature.
        values.iter().for_each(|values| ct::declassify(values));
    }

    /// The leaves from number `first` on, [`TOGETHER`] at most.
    fn group_of_leaves<K: Kernels + ?Sized>(
        &self,
        k: &K,
        first: u32,
        out: &mut [u8],
        scratch: &mut Scratch,
    ) {
        let Seeds { set, context, .. } = &*self.seeds;
        let Scratch { values, above } = scratch;
        let n = set.n;
        let OnPanic(values) = &mut OnPanic(values);
        ct::resize(values, out.len() * set.chains(), 0);
        self.chain_starts(k, first, values.chunks_exact_mut(set.chains() * n));
        let keys = (first..).zip(values.chunks_exact_mut(set.chains() * n));
        let jobs = keys.flat_map(|(leaf, values)| {
            let address = self.address(leaf);
            let values = (0..).zip(values.chunks_exact_mut(n));
            values.map(move |(i, value)| {
                let address = address.with(XmssAddress::CHAIN, i);
                XmssChain { context, address, start: 0, steps: STEPS_MAX, value }
            })
        });
        k.xmss_chain_many(&mut jobs.collect::<Vec<_>>());
        // Ends of chains are public: a verifier comes to them.
        ct::declassify(values);
        let leaves = (first..).take(out.len() / n);
        let leaves: Vec<_> = leaves
            .map(|leaf| (context, tree::l_tree_address(self.layer, self.tree, leaf)))
            .collect();
        tree::l_trees(k, &leaves, values, above);
        out.copy_from_slice(values);
    }
}

/// A guard that wipes secrets if a panic occurs before they are processed.
struct OnPanic<'a>(&'a mut Vec<u8>);

impl Drop for OnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            ct::wipe(self.0);
        }
    }
}

impl TreeSecret for Secret {
    type Scratch = Scratch;

    fn name(&self) -> &'static str {
        self.seeds.set.scheme.name()
    }

    fn n(&self) -> usize {
        self.seeds.set.n
    }

    fn height(&self) -> u32 {
        self.seeds.set.tree_height()
    }

    /// RFC 8391, Algorithm 9: one-time keys, compressed.
    fn leaves<K: Kernels + ?Sized>(
        &self,
        k: &K,
        first: u32,
        out: &mut [u8],
        scratch: &mut Scratch,
    ) {
        let groups = out.chunks_mut(TOGETHER * self.n());
        for (first, out) in (first..).step_by(TOGETHER).zip(groups) {
            self.group_of_leaves(k, first, out, scratch);
        }
    }

    fn hash_nodes<K: Kernels + ?Sized>(&self, k: &K, first: u32, input: &[u8], output: &mut [u8]) {
        let Seeds { context, .. } = &*self.seeds;
        let depth = first.ilog2();
        let address = XmssAddress::new(self.layer, self.tree, TREE)
            .with(XmssAddress::CHAIN, self.height() - depth - 1);
        let pairs = input.chunks_exact(2 * context.n).zip(output.chunks_exact_mut(context.n));
        let jobs = (first - (1 << depth)..).zip(pairs).map(|(i, (input, output))| {
            let address = address.with(XmssAddress::HASH, i);
            XmssHash { context, address, input, output }
        });
        k.xmss_hash_many(&mut jobs.collect::<Vec<_>>());
    }
}
