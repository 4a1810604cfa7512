//! The sets of an HSS key, level by level, and what follows from them (RFC 8554, section 6).

use std::ops::Range;

use super::params::{LEVELS_MAX, LmOts, Lms};
use crate::error::Error;

/// The default of the levels of a tree whose nodes are all kept: 4 MiB at most.
const KEPT: u32 = 16;

/// The sets of an HSS key, those of the top tree first. They are of one hash function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Levels {
    sets: Vec<(&'static Lms, &'static LmOts)>,
    kept: u32,
    sector: Sector,
}

/// A subtree of a single-level key with its own seed: its holder can sign with its leaves only. One
/// of 2^bits subtrees of the same shape, or the whole tree if `bits` is 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sector {
    /// The depth of its root below the tree's root.
    pub(super) bits: u32,
    /// The number of the subtree.
    pub(super) number: u32,
    /// The siblings of the nodes from its root up, `[bits][n]`; empty until the other sectors are
    /// made. Public.
    pub(super) way: Vec<u8>,
}

impl Levels {
    /// Creates the levels from their parameter sets.
    ///
    /// # Errors
    /// [`Error::PrivateKey`] if there are 0 or more than [`LEVELS_MAX`] levels, or if they
    /// use several hash functions.
    pub fn new(sets: &[(&'static Lms, &'static LmOts)]) -> Result<Self, Error> {
        let refused = |reason| Error::PrivateKey { algorithm: "HSS", reason };
        if !(1..=LEVELS_MAX).contains(&sets.len()) {
            return Err(refused("the number of levels is not 1 to 8"));
        }
        let (first, _) = sets[0];
        let hash = (first.family, first.n);
        let fits = |(lms, ots): &(&'static Lms, &'static LmOts)| {
            (lms.family, lms.n) == hash && (ots.family, ots.n) == hash
        };
        if !sets.iter().all(fits) {
            return Err(refused("its sets are of several hash functions"));
        }
        Ok(Levels { sets: sets.to_vec(), kept: KEPT, sector: Sector::default() })
    }

    /// Sets the height up to which a tree is kept whole, 1 to 16. Of a higher tree, the bottom
    /// subtrees are dropped, except two: less memory, but more work for an index out of order.
    pub fn with_whole_levels(self, levels: u32) -> Self {
        Levels { kept: levels.clamp(1, KEPT), ..self }
    }

    /// One of `count` sectors of a lone tree. `way` are the siblings of the nodes from its root up, its own first, or
    /// nothing as long as they are not known: see [`sector_paths`](super::sector_paths).
    ///
    /// # Errors
    /// [`Error::PrivateKey`] if there are several levels, `count` is no power of two from 2 on or leaves a sector less than
    /// two leaves, there is no such number, or the way is not as long.
    pub fn sector(self, count: u32, number: u32, way: &[u8]) -> Result<Self, Error> {
        let refused = |reason| Error::PrivateKey { algorithm: "HSS", reason };
        if self.sets.len() > 1 {
            return Err(refused("sectors are of keys with one level"));
        }
        let bits = count.checked_ilog2().unwrap_or(0);
        if !count.is_power_of_two() || !(1..self.sets[0].0.h).contains(&bits) {
            return Err(refused(
                "the number of sectors is no power of two below that of its leaves",
            ));
        }
        if number >= count {
            return Err(refused("there is no sector of this number"));
        }
        if !way.is_empty() && way.len() != bits as usize * self.n() {
            return Err(refused("the way up from its sector is not as long as it has to be"));
        }
        Ok(Levels { sector: Sector { bits, number, way: way.to_vec() }, ..self })
    }

    /// Returns how many sectors its tree has, and which one it is: 1 and 0 of a whole tree.
    pub fn sectors(&self) -> (u32, u32) {
        (1 << self.sector.bits, self.sector.number)
    }

    /// The way up from its sector, as far as it is known. Public.
    pub fn way(&self) -> &[u8] {
        &self.sector.way
    }

    /// The indexes that it signs with.
    pub fn indexes(&self) -> Range<u64> {
        if self.sector.bits == 0 {
            return 0..self.signatures();
        }
        let each = 1u64 << self.height(0);
        let first = u64::from(self.sector.number) * each;
        first..first + each
    }

    /// Returns the sector that it has.
    pub(super) fn own_sector(&self) -> &Sector {
        &self.sector
    }

    /// Returns the height of its part of a level's tree.
    pub(super) fn height(&self, level: usize) -> u32 {
        // A key with sectors has one level.
        self.sets[level].0.h - self.sector.bits
    }

    /// The sets, those of the top tree first.
    pub fn sets(&self) -> &[(&'static Lms, &'static LmOts)] {
        &self.sets
    }

    /// Bytes of a hash value, and of a seed.
    pub fn n(&self) -> usize {
        self.sets[0].0.n
    }

    /// Returns how many signatures a key makes, all sectors together: 2^64 - 1 where there could be
    /// more.
    pub fn signatures(&self) -> u64 {
        1u64.checked_shl(self.height_below(0)).unwrap_or(u64::MAX)
    }

    /// Bytes of the public key: `u32str(L) || pub[0]`.
    pub fn public_key_len(&self) -> usize {
        4 + self.sets[0].0.public_key_len()
    }

    /// Bytes of a signature: `u32str(L - 1)`, a signature a level and a public key a level below the top.
    pub fn signature_len(&self) -> usize {
        let all = self.sets.iter().map(|(lms, ots)| lms.signature_len(ots) + lms.public_key_len());
        4 + all.sum::<usize>() - self.sets[0].0.public_key_len()
    }

    /// Returns the height of the subtrees at the bottom of a tree; 0 if the tree is kept whole.
    pub(super) fn low(&self, level: usize) -> u32 {
        let h = self.height(level);
        // One level less, because a second subtree grows while the first one signs.
        if h > self.kept { h - (self.kept - 1).max(1) } else { 0 }
    }

    /// Returns how high the trees of this level and of those below it are together.
    fn height_below(&self, level: usize) -> u32 {
        self.sets[level..].iter().map(|(lms, _)| lms.h).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::super::params::{LM_OTS, LMS};
    use super::*;

    #[test]
    fn lengths_and_positions_are_those_of_the_standard() {
        // RFC 8554, appendix F, test case 2: H10 with W4 over H5 with W8.
        let levels = Levels::new(&[(&LMS[1], &LM_OTS[2]), (&LMS[0], &LM_OTS[3])]);
        let levels = levels.expect("sets that fit each other");
        assert_eq!((levels.public_key_len(), levels.signatures()), (60, 1 << 15));
        assert_eq!(levels.signature_len(), 4 + 2508 + 56 + 1292);
    }

    #[test]
    fn sectors_are_of_one_level_and_as_many_as_a_tree_has_subtrees() {
        let one = || Levels::new(&[(&LMS[0], &LM_OTS[2])]).expect("sets that fit each other");
        let sector = |count, number, way: &[u8]| one().sector(count, number, way);
        for (count, number) in [(0, 0), (1, 0), (3, 0), (32, 0), (u32::MAX, 0), (4, 4)] {
            assert!(sector(count, number, &[]).is_err(), "{count}, {number}");
        }
        assert!(sector(4, 3, &[0; 63]).is_err() && sector(4, 3, &[0; 96]).is_err());
        for way in [&[][..], &[0; 64]] {
            let last = sector(4, 3, way).expect("a sector");
            assert_eq!((last.indexes(), last.sectors(), last.low(0)), (24..32, (4, 3), 0));
            assert_eq!((last.signatures(), last.signature_len()), (32, one().signature_len()));
        }
        assert_eq!((one().indexes(), one().sectors()), (0..32, (1, 0)));
        let two = Levels::new(&[(&LMS[0], &LM_OTS[2]); 2]).expect("sets that fit each other");
        assert!(two.sector(2, 0, &[]).is_err());
    }

    #[test]
    fn stored_levels_of_tall_trees_are_bounded() {
        let low = |lms: usize, kept| {
            let levels = Levels::new(&[(&LMS[lms], &LM_OTS[3])]).expect("sets that fit each other");
            levels.with_whole_levels(kept).low(0)
        };
        assert_eq!([0, 1, 2, 3, 4].map(|lms| low(lms, 16)), [0, 0, 0, 5, 10]);
        assert_eq!(
            [(0, 1), (0, 4), (1, 5), (1, 99)].map(|(lms, kept)| low(lms, kept)),
            [4, 2, 6, 0]
        );
    }

    /// Checks that a key without levels is rejected: botan 3.13's notes.
    #[test]
    fn sets_of_several_hash_functions_or_of_no_level_are_refused() {
        for (lms, ots) in [(5, 3), (0, 4), (10, 3), (15, 8), (0, 8)] {
            assert!(Levels::new(&[(&LMS[lms], &LM_OTS[ots])]).is_err());
            assert!(Levels::new(&[(&LMS[0], &LM_OTS[3]), (&LMS[lms], &LM_OTS[ots])]).is_err());
        }
        assert!(Levels::new(&[]).is_err());
        assert!(Levels::new(&[(&LMS[0], &LM_OTS[3]); 9]).is_err());
        let most = Levels::new(&[(&LMS[4], &LM_OTS[3]); 8]).expect("eight levels");
        assert_eq!(most.signatures(), u64::MAX);
    }
}
