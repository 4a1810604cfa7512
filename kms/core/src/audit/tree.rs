//! The Merkle tree over the entries (RFC 6962, 2.1), of which only the right edge is kept.
//!
//! ```text
//!   level 1      h0 .. h4                 each is the root of a full tile of level 0
//!   level 0      h1280 .. h1299           leaves of the tile that is not full yet
//! ```
//!
//! Appending and computing the root need only the hashes of incomplete tiles, level by level.

use sha2::{Digest, Sha256};

use crate::error::AuditError;

/// A SHA-256.
pub type Hash = [u8; 32];

/// The number of hashes in a full tile (C2SP tlog-tiles).
pub const WIDTH: usize = 256;

/// A tile that became full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Full {
    /// The tile's level.
    pub level: u8,
    /// The tile's index in its level.
    pub index: u64,
    /// The hashes.
    pub hashes: Vec<Hash>,
}

/// An append-only tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    size: u64,
    levels: Vec<Vec<Hash>>,
}

impl Tree {
    /// Creates a tree of a size from the hashes of its incomplete tiles, level by level.
    pub fn of_edge(size: u64, levels: Vec<Vec<Hash>>) -> Self {
        Tree { size, levels }
    }

    /// Returns the number of leaves.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the incomplete tiles, level by level.
    pub fn edge(&self) -> &[Vec<Hash>] {
        &self.levels
    }

    /// Appends a leaf. Returns the tiles that became full.
    pub fn push(&mut self, leaf: Hash) -> Vec<Full> {
        let (mut full, mut hash) = (Vec::new(), leaf);
        self.size += 1;
        for level in 0.. {
            if self.levels.len() == level {
                self.levels.push(Vec::new());
            }
            let tile = &mut self.levels[level];
            tile.push(hash);
            if tile.len() < WIDTH {
                break;
            }
            let hashes = std::mem::take(tile);
            hash = perfect(&hashes);
            let index = (self.size >> (8 * (level + 1))) - 1;
            // A tree of 2^64 leaves has eight levels.
            full.push(Full { level: level as u8, index, hashes });
        }
        full
    }

    /// Returns the root. The root of an empty tree is the hash of the empty string.
    pub fn root(&self) -> Hash {
        let mut root: Option<Hash> = None;
        for tile in &self.levels {
            // From the right: the smallest subtree comes last.
            let mut end = tile.len();
            while end > 0 {
                let part = 1 << end.trailing_zeros();
                let left = perfect(&tile[end - part..end]);
                root = Some(root.map_or(left, |right| node(&left, &right)));
                end -= part;
            }
        }
        root.unwrap_or_else(|| Sha256::digest([]).into())
    }
}

/// Returns the leaf hash of an entry.
pub fn leaf(entry: &Hash) -> Hash {
    Sha256::new().chain_update([0]).chain_update(entry).finalize().into()
}

/// Returns the hash of an inner node.
pub fn node(left: &Hash, right: &Hash) -> Hash {
    Sha256::new().chain_update([1]).chain_update(left).chain_update(right).finalize().into()
}

/// Returns the root of a power of two of hashes.
pub fn perfect(hashes: &[Hash]) -> Hash {
    match hashes {
        [] => [0; 32],
        [one] => *one,
        more => {
            let (left, right) = more.split_at(more.len() / 2);
            node(&perfect(left), &perfect(right))
        }
    }
}

/// A source of roots of subtrees that have 2^height leaves and begin at a multiple of that.
pub trait Parts {
    /// Returns the root of a subtree.
    fn part(&mut self, height: u32, index: u64) -> Result<Hash, AuditError>;
}

/// Returns the inclusion path from a leaf to the root (RFC 6962, 2.1.1).
pub fn path(parts: &mut dyn Parts, index: u64, size: u64) -> Result<Vec<Hash>, AuditError> {
    let (mut path, mut start, mut len) = (Vec::new(), 0, size);
    while len > 1 {
        let left = len.next_power_of_two() / 2;
        if index - start < left {
            path.push(root(parts, start + left, len - left)?);
            len = left;
        } else {
            path.push(root(parts, start, left)?);
            (start, len) = (start + left, len - left);
        }
    }
    path.reverse();
    Ok(path)
}

/// Returns the root of `len` leaves from `start`, at which subtrees of their size begin.
pub fn root(parts: &mut dyn Parts, start: u64, len: u64) -> Result<Hash, AuditError> {
    let (mut root, mut end) = (None, start + len);
    while end > start {
        let height = (end - start).trailing_zeros();
        let left = parts.part(height, (end >> height) - 1)?;
        root = Some(root.map_or(left, |right| node(&left, &right)));
        end -= 1 << height;
    }
    Ok(root.unwrap_or([0; 32]))
}

/// Returns the root that an inclusion path leads to (RFC 9162, 2.1.3.2); `None` if the path is not
/// one of this leaf in a tree of this size.
pub fn root_of_path(leaf: Hash, index: u64, size: u64, path: &[Hash]) -> Option<Hash> {
    if index >= size {
        return None;
    }
    let (mut at, mut last, mut hash) = (index, size - 1, leaf);
    for step in path {
        if last == 0 {
            return None;
        }
        if at & 1 == 1 || at == last {
            hash = node(step, &hash);
            while at & 1 == 0 && at != 0 {
                (at, last) = (at >> 1, last >> 1);
            }
        } else {
            hash = node(&hash, step);
        }
        (at, last) = (at >> 1, last >> 1);
    }
    (last == 0).then_some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MTH of RFC 6962, 2.1, written as there.
    fn mth(leaves: &[Hash]) -> Hash {
        match leaves {
            [] => Sha256::digest([]).into(),
            [one] => *one,
            more => {
                let left = more.len().next_power_of_two() / 2;
                node(&mth(&more[..left]), &mth(&more[left..]))
            }
        }
    }

    fn leaves(n: usize) -> Vec<Hash> {
        (0..n).map(|n| leaf(&Sha256::digest(n.to_string()).into())).collect()
    }

    struct LeafHashes(Vec<Hash>);

    impl Parts for LeafHashes {
        fn part(&mut self, height: u32, index: u64) -> Result<Hash, AuditError> {
            let (len, start) = (1usize << height, (index as usize) << height);
            Ok(perfect(&self.0[start..start + len]))
        }
    }

    #[test]
    fn the_root_is_the_standards() {
        let leaves = leaves(70_000);
        let mut tree = Tree::default();
        assert_eq!(tree.root(), mth(&[]));
        let mut full = Vec::new();
        for (n, &leaf) in leaves.iter().enumerate() {
            full.extend(tree.push(leaf));
            let n = n + 1;
            if n < 600 || [4096, 65_535, 65_536, 65_537, 70_000].contains(&n) {
                assert_eq!(tree.root(), mth(&leaves[..n]), "{n}");
            }
        }
        // The example of tlog-tiles.
        assert_eq!(full.iter().filter(|full| full.level == 0).count(), 273);
        assert_eq!(full.iter().filter(|full| full.level == 1).count(), 1);
        assert_eq!(tree.edge().iter().map(Vec::len).collect::<Vec<_>>(), [112, 17, 1]);
        assert_eq!(full[272].hashes[0], leaves[full[272].index as usize * WIDTH]);
    }

    #[test]
    fn a_path_leads_to_the_root_and_no_other_does() {
        let leaves = leaves(300);
        for size in [1, 2, 3, 7, 8, 255, 256, 257, 300] {
            let root = mth(&leaves[..size as usize]);
            for index in (0..size).filter(|index| index % 7 == 0 || index + 2 > size) {
                let path = path(&mut LeafHashes(leaves.clone()), index, size).unwrap();
                let leaf = leaves[index as usize];
                assert_eq!(root_of_path(leaf, index, size, &path), Some(root), "{index} of {size}");
                assert_ne!(root_of_path(leaf, index + 1, size, &path), Some(root));
                assert_ne!(root_of_path([9; 32], index, size, &path), Some(root));
                let longer = [&path[..], &[root]].concat();
                assert_eq!(root_of_path(leaf, index, size, &longer), None);
                if let Some((_, shorter)) = path.split_last() {
                    assert_eq!(root_of_path(leaf, index, size, shorter), None);
                }
            }
        }
    }
}
