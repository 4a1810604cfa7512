//! Keys with one known leaf on each layer, and signatures by it: for self-tests and tests.
//!
//! ```text
//!   bytes of any kind -> SEED, r, and of each layer: secrets of one leaf, its path
//!
//!   secrets --whole chains, L-tree--> leaf --path--> root        of each layer, whatever is signed
//!   secrets --chains as far as the digits say--> signature       of the message's digest, or the root below
//! ```
//!
//! No tree is built, so that a signature of any parameter set costs as much as a few verifications.

use super::params::Set;
use super::signature::{Layer, place};
use super::verify::message_digest;
use super::{Scratch, ots, tree};
use crate::kernels::Kernels;
use crate::kernels::xmss::address_type::OTS;
use crate::kernels::xmss::{STEPS_MAX, XmssAddress, XmssChain, XmssContext};

/// Returns an encoded public key, and a signature of each message by the leaf with this index.
/// `take` returns random bytes of the given length. The key is discarded; it could not sign with
/// any other leaf.
pub fn testing_only_signatures<K: Kernels + ?Sized>(
    k: &K,
    set: &'static Set,
    index: u64,
    messages: &[&[u8]],
    take: &mut dyn FnMut(usize) -> Vec<u8>,
) -> (Vec<u8>, Vec<Vec<u8>>) {
    let (context, randomizer) = (XmssContext::new(set.family, &take(set.n)), take(set.n));
    let mut layers = Vec::new();
    for layer in 0..set.d {
        let (values, path) = (take(set.chains() * set.n), take(set.tree_height() as usize * set.n));
        let (tree, leaf) = place(set, index, layer);
        let part = Layer { layer, tree, leaf, values: &values, path: &path };
        let root = root(k, &context, part);
        layers.push((values, path, root));
    }
    let root = layers.last().map_or(&[][..], |(.., root)| root);
    let key = [&set.number.to_be_bytes()[..], root, context.seed()].concat();
    let sign = |layer: u32, signed: &[u8]| {
        let (mut values, path, _) = layers[layer as usize].clone();
        let address = address(layer, place(set, index, layer));
        let mut jobs: Vec<_> = ots::chains_to(&context, address, signed, &mut values).collect();
        k.xmss_chain_many(&mut jobs);
        [values, path].concat()
    };
    let above: Vec<_> = (1..)
        .zip(&layers)
        .take(layers.len() - 1)
        .map(|(layer, (.., root))| sign(layer, root))
        .collect();
    let above = above.concat();
    let number = &index.to_be_bytes()[8 - set.index_len()..];
    let signatures = messages.iter().map(|message| {
        let digest = message_digest(&context, &randomizer, root, index, message);
        [number, &randomizer, &sign(0, &digest[..set.n]), &above].concat()
    });
    let signatures = signatures.collect();
    (key, signatures)
}

/// The address of a one-time key.
fn address(layer: u32, (tree, leaf): (u64, u32)) -> XmssAddress {
    XmssAddress::new(layer, tree, OTS).with(XmssAddress::KEY_PAIR, leaf)
}

/// The root above a leaf, whose secrets stand where a signature has values.
fn root<K: Kernels + ?Sized>(k: &K, context: &XmssContext, part: Layer<'_>) -> Vec<u8> {
    let Scratch { mut values, mut above } = Scratch::new();
    values.extend_from_slice(part.values);
    let address = address(part.layer, (part.tree, part.leaf));
    let jobs = values.chunks_exact_mut(context.n).zip(0..).map(|(value, i)| {
        let address = address.with(XmssAddress::CHAIN, i);
        XmssChain { context, address, start: 0, steps: STEPS_MAX, value }
    });
    k.xmss_chain_many(&mut jobs.collect::<Vec<_>>());
    let leaf = (context, tree::l_tree_address(part.layer, part.tree, part.leaf));
    tree::l_trees(k, &[leaf], &mut values, &mut above);
    for level in 0..(part.path.len() / context.n) as u32 {
        tree::climb(k, &[(context, part)], level, &mut values);
    }
    values
}
