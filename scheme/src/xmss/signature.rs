//! The encoding of signatures (RFC 8391, sections 4.1.8 and 4.2.3), taken apart.

use super::params::Set;
use crate::hbs::Reader;

/// A signature of a set.
#[derive(Clone, Copy)]
pub(super) struct Signature<'a> {
    /// The leaf's index among those of all lowest trees.
    pub(super) index: u64,
    /// The randomizer r.
    pub(super) randomizer: &'a [u8],
    /// The layers' parts, that of the lowest tree first.
    layers: &'a [u8],
}

/// A layer's part of a signature.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Layer<'a> {
    /// The layer; the lowest is 0.
    pub(super) layer: u32,
    /// The tree's number within the layer.
    pub(super) tree: u64,
    /// The leaf's number within the tree.
    pub(super) leaf: u32,
    /// A value of each chain.
    pub(super) values: &'a [u8],
    /// The authentication path, the leaf's sibling first.
    pub(super) path: &'a [u8],
}

impl<'a> Signature<'a> {
    /// Reads one. `None` where the length is not that of the set to the byte, or the index is that of no leaf.
    pub(super) fn read(set: &Set, bytes: &'a [u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let index = reader.bytes(set.index_len())?;
        let index = index.iter().fold(0, |index, byte| index << 8 | u64::from(*byte));
        let randomizer = reader.bytes(set.n)?;
        let layers = reader.bytes(set.d as usize * set.layer_len())?;
        let is_whole = reader.rest().is_empty() && index < set.signatures();
        is_whole.then_some(Signature { index, randomizer, layers })
    }

    /// The part of a layer that there is.
    pub(super) fn layer(&self, set: &Set, layer: u32) -> Layer<'a> {
        let part = &self.layers[layer as usize * set.layer_len()..][..set.layer_len()];
        let (values, path) = part.split_at(set.chains() * set.n);
        let (tree, leaf) = place(set, self.index, layer);
        Layer { layer, tree, leaf, values, path }
    }
}

/// Returns the index that made a signature of a parameter set, which stands at its start. Returns
/// `None` for malformed bytes. Nothing is verified.
pub fn index_of(set: &Set, signature: &[u8]) -> Option<u64> {
    Signature::read(set, signature).map(|signature| signature.index)
}

/// Returns which tree of a layer an index is below, and which leaf of it.
pub(super) fn place(set: &Set, index: u64, layer: u32) -> (u64, u32) {
    let height = set.tree_height();
    let leaf = index >> (layer * height);
    (leaf >> height, (leaf & ((1 << height) - 1)) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_is_a_leaf_of_every_layer() {
        let Some(set) = Set::from_name("XMSSMT-SHA2_60/3_256") else { panic!("a set") };
        let index = (5 << 40) + (6 << 20) + 7;
        let places = [0, 1, 2].map(|layer| place(set, index, layer));
        assert_eq!(places, [((5 << 20) + 6, 7), (5, 6), (0, 5)]);
        let mut signature = vec![0; set.signature_len()];
        signature[..8].copy_from_slice(&index.to_be_bytes());
        assert_eq!(index_of(set, &signature), Some(index));
        assert_eq!(index_of(set, &signature[1..]), None);
        signature[0] = 0x10;
        assert_eq!(index_of(set, &signature), None);
        let last = set.signatures() - 1;
        assert_eq!(place(set, last, 0), ((1 << 40) - 1, (1 << 20) - 1));
    }
}
