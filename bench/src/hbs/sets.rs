//! The sets that are measured, what was published of them, and how many compressions their operations take.

use gabion_engine::keys::stateful::hss::Levels;
use gabion_engine::lms::{LM_OTS, LMS, LmOts, Lms, LmsFamily};
use gabion_rows::operations::Operation;

use crate::Error;

/// Levels of equal trees, of SHA-256 with n = 32.
pub struct Set {
    levels: u32,
    h: u32,
    w: u32,
    /// Signatures a second, and verifications, of 1 thread and of 4: wolfSSL 5.6.3 with hash-sigs on an i7-8700.
    seed: Option<[[f64; 2]; 2]>,
}

const fn set(levels: u32, h: u32, w: u32, seed: Option<[[f64; 2]; 2]>) -> Set {
    Set { levels, h, w, seed }
}

/// Those that wolfSSL's manual has, and a tree by itself that is quickly made.
pub const SETS: [Set; 11] = [
    set(1, 10, 4, None),
    set(1, 15, 2, None),
    set(1, 15, 4, None),
    set(2, 10, 2, Some([[717.589, 1394.969], [4493.623, 5189.238]])),
    set(2, 10, 4, Some([[403.519, 790.776], [2087.944, 2493.584]])),
    set(2, 10, 8, None),
    set(3, 5, 2, None),
    set(3, 5, 4, Some([[741.523, 1427.485], [1581.686, 2636.899]])),
    set(3, 5, 8, Some([[95.971, 220.030], [163.894, 375.335]])),
    set(3, 10, 4, Some([[395.864, 825.985], [1426.284, 2314.464]])),
    set(4, 5, 8, Some([[93.768, 228.965], [135.358, 327.599]])),
];

/// Compressions of SHA-256 of an operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Count {
    /// Those that fill lanes.
    pub lanes: f64,
    /// Those that wait for each other.
    pub alone: f64,
}

impl Set {
    /// `L2_H10_W4`.
    pub fn name(&self) -> String {
        format!("L{}_H{}_W{}", self.levels, self.h, self.w)
    }

    /// The engine's sets.
    pub fn levels(&self) -> Result<Levels, Error> {
        let (lms, ots) = self.of_level();
        let sets = lms.zip(ots).ok_or_else(|| Error::Failed(format!("no set {}", self.name())))?;
        Levels::new(&vec![sets; self.levels as usize])
            .map_err(|error| Error::Failed(error.to_string()))
    }

    fn of_level(&self) -> (Option<&'static Lms>, Option<&'static LmOts>) {
        let sha256 = (LmsFamily::Sha256, 32);
        let lms = LMS.iter().find(|lms| (lms.family, lms.n) == sha256 && lms.h == self.h);
        (lms, LM_OTS.iter().find(|ots| (ots.family, ots.n) == sha256 && ots.w == self.w))
    }

    /// Bytes of a signature.
    pub fn signature_bytes(&self) -> usize {
        self.levels().map_or(0, |levels| levels.signature_len())
    }

    /// What was published of an operation.
    pub fn seed(&self, operation: Operation) -> Option<[f64; 2]> {
        let [sign, verify] = self.seed?;
        match operation {
            Operation::Sign => Some(sign),
            Operation::Verify => Some(verify),
            Operation::Keygen | Operation::Encaps | Operation::Decaps | Operation::Derive => None,
        }
    }

    /// All trees that the first signature needs, and what signs those below the top.
    pub fn keygen(&self) -> Count {
        let levels = f64::from(self.levels);
        let tree = f64::from(1u32 << self.h) * (self.leaf() + 2.0);
        Count { lanes: levels * tree + (levels - 1.0) * self.leaf(), alone: 0.0 }
    }

    /// A signature with its check, which takes each chain to its end, and its share of the next tree: a leaf, where there is
    /// one.
    pub fn sign(&self) -> Count {
        let times = if self.levels > 1 { 2.0 } else { 1.0 };
        Count { lanes: times * self.steps(), alone: times * (self.keys() + 3.0) + 4.0 }
    }

    /// A verification in a batch of signatures that follow each other: the levels' paths side by side, and what signs one
    /// lower tree in many of them once.
    pub fn verify(&self, batch: usize) -> Count {
        let below = |level: u32| self.h * (self.levels - 1 - level);
        let trees =
            |level| (batch as u64).div_ceil(1u64.checked_shl(below(level)).unwrap_or(u64::MAX));
        let parts = (0..self.levels).map(trees).sum::<u64>() as f64 / batch as f64;
        let chains = (self.steps() - self.chains()) / 2.0;
        let path = self.keys() + 1.0 + 2.0 * f64::from(self.h) + 2.0;
        Count { lanes: parts * chains + (parts - 1.0) * path, alone: path }
    }

    fn chains(&self) -> f64 {
        self.of_level().1.map_or(f64::NAN, |ots| ots.chains() as f64)
    }

    /// Secrets, and whole chains.
    fn steps(&self) -> f64 {
        self.chains() * f64::from(1u32 << self.w)
    }

    /// K: 22 bytes and the ends of all chains, and what ends a message.
    fn keys(&self) -> f64 {
        ((22.0 + 32.0 * self.chains() + 9.0) / 64.0).ceil()
    }

    /// A leaf of a tree; each node above takes two more.
    fn leaf(&self) -> f64 {
        self.steps() + self.keys() + 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Signature bytes, and compressions of key generation in thousands and of a verification, counted by hand.
    #[test]
    fn counts_are_those_of_the_standard() {
        let wanted = [
            ("L1_H15_W2", 4784, 19_727.0, 300.0),
            ("L1_H15_W4", 2672, 36_340.0, 570.0),
            ("L2_H10_W2", 9300, 1234.0, 579.0),
            ("L2_H10_W4", 5076, 2272.0, 1119.0),
            ("L2_H10_W8", 2964, 17_879.0, 8752.0),
            ("L3_H5_W2", 13496, 59.0, 838.0),
            ("L3_H5_W4", 7160, 109.0, 1648.0),
            ("L3_H5_W8", 3992, 855.0, 13_098.0),
            ("L3_H10_W4", 7640, 3409.0, 1678.0),
            ("L4_H5_W8", 5340, 1144.0, 17_464.0),
        ];
        for (name, bytes, keygen, verify) in wanted {
            let set = SETS.iter().find(|set| set.name() == name).unwrap();
            assert_eq!(set.signature_bytes(), bytes, "{name}");
            let (made, verified) = (set.keygen(), set.verify(1));
            assert!((made.lanes / 1000.0 - keygen).abs() < 0.01 * keygen, "{name} {made:?}");
            let all = verified.lanes + verified.alone;
            assert!((all - verify).abs() < 1.0, "{name} {verified:?}");
        }
    }

    /// 64 signatures under one key of three levels of 5: one tree at the top signs, two below it, and 64 leaves.
    #[test]
    fn in_a_batch_what_signs_lower_trees_counts_once() {
        let set = SETS.iter().find(|set| set.name() == "L3_H5_W4").unwrap();
        let (one, many) = (set.verify(1), set.verify(64));
        let all = |count: Count| count.lanes + count.alone;
        assert!((all(many) / all(one) - (64.0 + 2.0 + 1.0) / (3.0 * 64.0)).abs() < 1e-9);
        let alone = SETS.iter().find(|set| set.name() == "L1_H15_W4").unwrap();
        assert_eq!(alone.verify(1), alone.verify(64));
    }
}
