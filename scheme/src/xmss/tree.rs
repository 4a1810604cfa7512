//! The trees that compress one-time keys, and the way up a tree (RFC 8391, sections 4.1.5 and 4.1.10).

use super::signature::Layer;
use crate::kernels::Kernels;
use crate::kernels::xmss::address_type::{L_TREE, TREE};
use crate::kernels::xmss::{N_MAX, XmssAddress, XmssContext, XmssHash};

/// A leaf: the common prefix of its hashes, and the address of its one-time key or tree.
pub(super) type Leaf<'a> = (&'a XmssContext, XmssAddress);

/// The address of a leaf's L-tree.
pub(super) fn l_tree_address(layer: u32, tree: u64, leaf: u32) -> XmssAddress {
    XmssAddress::new(layer, tree, L_TREE).with(XmssAddress::KEY_PAIR, leaf)
}

/// Compresses the one-time keys of leaves of one n, `[leaf][chain][n]` in `values`, to `[leaf][n]` there
/// (Algorithm 8): level by level, those of all leaves side by side. `above` is room.
pub(super) fn l_trees<K: Kernels + ?Sized>(
    kernels: &K,
    leaves: &[Leaf<'_>],
    values: &mut Vec<u8>,
    above: &mut Vec<u8>,
) {
    let Some(n) = leaves.first().map(|(context, _)| context.n) else { return };
    let mut count = values.len() / n / leaves.len();
    let mut height = 0;
    while count > 1 {
        let parents = count.div_ceil(2);
        crate::ct::resize(above, leaves.len() * parents * n, 0);
        let mut jobs = Vec::with_capacity(leaves.len() * (count / 2));
        let rows = values.chunks_exact(count * n).zip(above.chunks_exact_mut(parents * n));
        for ((context, address), (values, above)) in leaves.iter().zip(rows) {
            let address = address.with(XmssAddress::CHAIN, height);
            let pairs = values.chunks_exact(2 * n);
            // One that is left alone goes up as it is.
            let alone = pairs.remainder();
            let (nodes, last) = above.split_at_mut((count / 2) * n);
            last.copy_from_slice(alone);
            for (i, (input, output)) in pairs.zip(nodes.chunks_exact_mut(n)).enumerate() {
                let address = address.with(XmssAddress::HASH, i as u32);
                jobs.push(XmssHash { context, address, input, output });
            }
        }
        kernels.xmss_hash_many(&mut jobs);
        std::mem::swap(values, above);
        count = parents;
        height += 1;
    }
}

/// Climbs from one level of trees to the next (Algorithm 13), for nodes of trees that reach that
/// level: each with the common prefix of its hashes and its layer's part.
pub(super) fn climb<K: Kernels + ?Sized>(
    kernels: &K,
    parts: &[(&XmssContext, Layer<'_>)],
    level: u32,
    nodes: &mut [u8],
) {
    let Some(n) = parts.first().map(|(context, _)| context.n) else { return };
    let is_below = |layer: &Layer<'_>| (level as usize) < layer.path.len() / n;
    let mut pairs = vec![[0; 2 * N_MAX]; parts.len()];
    for (((_, layer), node), pair) in parts.iter().zip(nodes.chunks_exact(n)).zip(&mut pairs) {
        if is_below(layer) {
            let sibling = &layer.path[level as usize * n..][..n];
            let is_right = layer.leaf >> level & 1 == 1;
            let (left, right) = if is_right { (sibling, node) } else { (node, sibling) };
            pair[..n].copy_from_slice(left);
            pair[n..2 * n].copy_from_slice(right);
        }
    }
    let jobs = parts.iter().zip(nodes.chunks_exact_mut(n)).zip(&pairs);
    let jobs = jobs.filter(|(((_, layer), _), _)| is_below(layer));
    let jobs = jobs.map(|(((context, layer), output), pair)| {
        let address = XmssAddress::new(layer.layer, layer.tree, TREE)
            .with(XmssAddress::CHAIN, level)
            .with(XmssAddress::HASH, layer.leaf >> (level + 1));
        XmssHash { context, address, input: &pair[..2 * n], output }
    });
    kernels.xmss_hash_many(&mut jobs.collect::<Vec<_>>());
}
