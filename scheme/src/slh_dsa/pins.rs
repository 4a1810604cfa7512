//! The roots that the WOTS+ keys of the upper layers have signed, one word each.
//!
//! ```text
//!   layer d - 1   the top tree: 2^h' WOTS+ keys, each for one tree of layer d - 2    pins 0 ..
//!   layer d - 2   2^2h' WOTS+ keys, each for one tree of layer d - 3                 pins 2^h' ..
//!   ...           as long as a layer has TREES_MAX trees at most
//! ```
//!
//! A WOTS+ key that signs two roots makes forgeries possible, and both signatures verify. There are
//! few trees just below the top, so many signatures share each of them: one wrong root there is
//! enough for an attacker. So the root that a WOTS+ key of these layers signed is remembered while
//! the key is loaded, and no other root is signed in its place.

use std::sync::atomic::{AtomicU64, Ordering};

use super::params::Params;

/// Most trees of a layer whose roots are remembered: 4 KiB of pins.
const TREES_MAX: usize = 512;
/// An odd number, so that no bit of any word of a root is lost (2^64 / golden ratio).
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// The pins of one key; zero is a tree that no signature went through yet. Atomics and no lock: keys are shared
/// by threads, and a forked child would wait for ever for a lock that a thread of its parent holds.
pub(super) struct Pins(Vec<AtomicU64>);

impl Pins {
    /// Returns pins without a signed root.
    pub(super) fn new(p: &Params) -> Self {
        let layers = (1..).take_while(|&above| trees(p, above).is_some());
        let count = layers.filter_map(|above| trees(p, above)).sum();
        Pins(std::iter::repeat_with(AtomicU64::default).take(count).collect())
    }

    /// Returns the position of a tree's pin; `None` in layers with too many trees, and for the top
    /// tree, whose root is PK.root.
    pub(super) fn place(p: &Params, layer: u32, tree: u64) -> Option<usize> {
        let above = (p.d - 1).checked_sub(layer).filter(|&above| above > 0)?;
        let count = trees(p, above)?;
        let before: usize = (1..above).filter_map(|above| trees(p, above)).sum();
        usize::try_from(tree).ok().filter(|&tree| tree < count).map(|tree| before + tree)
    }

    /// Returns whether a signature went through this tree before.
    pub(super) fn is_set(&self, place: usize) -> bool {
        self.0[place].load(Ordering::Relaxed) != 0
    }

    /// Returns whether the root equals the one that was signed before; the first root is stored. If
    /// two threads come first with different roots, one of them gets `false`.
    pub(super) fn holds(&self, place: usize, root: &[u8]) -> bool {
        let word = fold(root);
        let set = self.0[place].compare_exchange(0, word, Ordering::Relaxed, Ordering::Relaxed);
        set.is_ok() || set == Err(word)
    }
}

/// The trees `above` layers below the top one, where they are few enough.
fn trees(p: &Params, above: u32) -> Option<usize> {
    1usize.checked_shl(p.h_prime * above).filter(|&count| count <= TREES_MAX)
}

/// A word that differs where one word of the root does, and with the chance of a hash where more do. Not zero.
fn fold(root: &[u8]) -> u64 {
    let words = root.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
    words.fold(1u64, |sum, word| sum.wrapping_mul(MIX).wrapping_add(word)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Algorithm, slh_dsa::params};

    #[test]
    fn every_tree_of_the_upper_layers_has_a_place_of_its_own() {
        for p in Algorithm::all().filter_map(params) {
            let pins = Pins::new(p);
            let mut places = Vec::new();
            for layer in 0..p.d {
                let count = 1u64.checked_shl((p.d - 1 - layer) * p.h_prime).unwrap_or(u64::MAX);
                let trees = 0..count.min(2 * TREES_MAX as u64);
                places.extend(trees.filter_map(|tree| Pins::place(p, layer, tree)));
            }
            places.sort_unstable();
            assert_eq!(places, (0..pins.0.len()).collect::<Vec<_>>(), "{}", p.name());
            // All trees of layer d - 2, and 8 KiB at most.
            assert!(places.len() >= 1 << p.h_prime && places.len() <= 1024, "{}", p.name());
        }
    }

    #[test]
    fn a_pin_holds_the_first_root_and_no_other() {
        for n in [16, 24, 32] {
            let p = Algorithm::all().filter_map(params).find(|p| p.n == n).unwrap();
            let pins = Pins::new(p);
            let mut root: Vec<u8> = (0..n as u8).collect();
            assert!(!pins.is_set(1));
            assert!(pins.holds(1, &root) && pins.holds(1, &root) && pins.is_set(1));
            for bit in 0..8 * n {
                root[bit / 8] ^= 1 << (bit % 8);
                assert!(!pins.holds(1, &root));
                root[bit / 8] ^= 1 << (bit % 8);
            }
            assert!(pins.holds(1, &root) && !pins.is_set(0));
        }
        assert_ne!(fold(&[0; 16]), 0);
    }
}
