//! The sets that are measured, what was published of them, and how many compressions their operations take.

use gabion_engine::OsEntropy;
use gabion_engine::keys::stateful::hss::{HssSecret, Levels};
use gabion_engine::keys::stateful::xmss::XmssSecret;
use gabion_engine::lms::{LM_OTS, LMS, LmsFamily};
use gabion_engine::xmss;
use gabion_rows::operations::Operation;
use gabion_state::Sets;

use crate::Error;

/// Levels of equal trees, of SHA-256 with n = 32.
pub struct Set {
    scheme: Scheme,
    levels: u32,
    h: u32,
    /// Signatures a second, and verifications, of 1 thread and of 4: wolfSSL 5.6.3 with hash-sigs on an i7-8700.
    seed: Option<[[f64; 2]; 2]>,
}

enum Scheme {
    /// HSS with digits of w bits.
    Hss { w: u32 },
    /// XMSS with digits of 4 bits; a row of the standard.
    Xmss(&'static str),
}

const fn set(levels: u32, h: u32, w: u32, seed: Option<[[f64; 2]; 2]>) -> Set {
    Set { scheme: Scheme::Hss { w }, levels, h, seed }
}

const fn xmss(levels: u32, h: u32, name: &'static str) -> Set {
    Set { scheme: Scheme::Xmss(name), levels, h, seed: None }
}

/// Those of HSS that wolfSSL's manual has, and a tree by itself that is quickly made; and those of XMSS and XMSS^MT that its
/// benchmark has, but for the ones that take an hour.
pub const SETS: [Set; 19] = [
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
    xmss(1, 10, "XMSS-SHA2_10_256"),
    xmss(1, 16, "XMSS-SHA2_16_256"),
    xmss(2, 10, "XMSSMT-SHA2_20/2_256"),
    xmss(4, 5, "XMSSMT-SHA2_20/4_256"),
    xmss(4, 10, "XMSSMT-SHA2_40/4_256"),
    xmss(8, 5, "XMSSMT-SHA2_40/8_256"),
    xmss(6, 10, "XMSSMT-SHA2_60/6_256"),
    xmss(12, 5, "XMSSMT-SHA2_60/12_256"),
];

/// A private key of a set.
pub enum Secret {
    Hss(HssSecret),
    Xmss(XmssSecret),
}

/// Compressions of SHA-256 of an operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Count {
    /// Those that fill lanes.
    pub lanes: f64,
    /// Those that wait for each other.
    pub alone: f64,
}

impl Count {
    /// Returns the number of all compressions, as if all filled lanes.
    fn all(self) -> f64 {
        self.lanes + self.alone
    }
}

/// Compressions of parts of one tree's signature.
struct Parts {
    /// The secrets of all chains, and each chain from its beginning to its end.
    steps: f64,
    /// All chains of a verification, which begin in their middles.
    rests: f64,
    /// The compression of chain ends into the one-time public key.
    key: Count,
    /// A leaf of it.
    leaf: f64,
    /// The node above two.
    node: Count,
    /// The digest of a message of 32 bytes.
    digest: f64,
}

impl Set {
    /// `L2_H10_W4`, or the standard's name.
    pub fn name(&self) -> String {
        match self.scheme {
            Scheme::Hss { w } => format!("L{}_H{}_W{w}", self.levels, self.h),
            Scheme::Xmss(name) => name.to_owned(),
        }
    }

    /// A new private key.
    pub fn secret(&self) -> Result<Secret, Error> {
        Ok(match self.scheme {
            Scheme::Hss { w } => Secret::Hss(HssSecret::draw(self.hss(w)?, &OsEntropy)?),
            Scheme::Xmss(_) => Secret::Xmss(XmssSecret::draw(self.xmss()?, &OsEntropy)?),
        })
    }

    /// Returns the sets in the form for keys with files.
    pub fn sets(&self) -> Result<Sets, Error> {
        Ok(match self.scheme {
            Scheme::Hss { w } => Sets::Hss(self.hss(w)?),
            Scheme::Xmss(_) => Sets::Xmss(self.xmss()?),
        })
    }

    /// Returns how many signatures a key makes, where that is a number of 64 bits.
    pub fn signatures(&self) -> u64 {
        1u64.checked_shl(self.levels * self.h).unwrap_or(u64::MAX)
    }

    fn hss(&self, w: u32) -> Result<Levels, Error> {
        let sha256 = (LmsFamily::Sha256, 32);
        let lms = LMS.iter().find(|lms| (lms.family, lms.n) == sha256 && lms.h == self.h);
        let ots = LM_OTS.iter().find(|ots| (ots.family, ots.n) == sha256 && ots.w == w);
        let sets = lms.zip(ots).ok_or_else(|| self.unknown())?;
        Levels::new(&vec![sets; self.levels as usize])
            .map_err(|error| Error::Failed(error.to_string()))
    }

    fn xmss(&self) -> Result<&'static xmss::Set, Error> {
        xmss::Set::from_name(&self.name()).ok_or_else(|| self.unknown())
    }

    fn unknown(&self) -> Error {
        Error::Failed(format!("no set {}", self.name()))
    }

    /// Bytes of a signature.
    pub fn signature_bytes(&self) -> usize {
        match self.scheme {
            Scheme::Hss { w } => self.hss(w).map_or(0, |levels| levels.signature_len()),
            Scheme::Xmss(_) => self.xmss().map_or(0, |set| set.signature_len()),
        }
    }

    /// Returns the published figures of an operation.
    pub fn seed(&self, operation: Operation) -> Option<[f64; 2]> {
        let [sign, verify] = self.seed?;
        match operation {
            Operation::Sign => Some(sign),
            Operation::Verify => Some(verify),
            Operation::Keygen | Operation::Encaps | Operation::Decaps | Operation::Derive => None,
        }
    }

    /// Counts the hashes of all trees that the first signature needs, and of the signatures over
    /// those below the top.
    pub fn keygen(&self) -> Count {
        let (levels, parts) = (f64::from(self.levels), self.parts());
        let tree = f64::from(1u32 << self.h) * (parts.leaf + parts.node.all());
        Count { lanes: levels * tree + (levels - 1.0) * parts.leaf, alone: 0.0 }
    }

    /// A signature with its check, which takes each chain to its end, and its share of the next tree: a leaf, where there is
    /// one.
    pub fn sign(&self) -> Count {
        let (times, parts) = (if self.levels > 1 { 2.0 } else { 1.0 }, self.parts());
        let alone = times * (parts.key.alone + 3.0) + parts.digest;
        Count { lanes: times * (parts.steps + parts.key.lanes), alone }
    }

    /// Counts the hashes of a verification in a batch of consecutive signatures: a lower tree's
    /// signature that several of them share counts once. The levels of HSS run in parallel; a layer
    /// of XMSS^MT waits for the root of the one below.
    pub fn verify(&self, batch: usize) -> Count {
        let below = |level: u32| self.h * (self.levels - 1 - level);
        let trees =
            |level| (batch as u64).div_ceil(1u64.checked_shl(below(level)).unwrap_or(u64::MAX));
        let times = (0..self.levels).map(trees).sum::<u64>() as f64 / batch as f64;
        let (parts, h) = (self.parts(), f64::from(self.h));
        let path = match self.scheme {
            Scheme::Hss { .. } => parts.key.alone + 1.0 + h * parts.node.alone + 2.0,
            Scheme::Xmss(_) => parts.key.alone + h * parts.node.alone,
        };
        let lanes = times * (parts.rests + parts.key.lanes);
        match self.scheme {
            Scheme::Hss { .. } => Count { lanes: lanes + (times - 1.0) * path, alone: path },
            Scheme::Xmss(_) if batch == 1 => Count { lanes, alone: times * path + parts.digest },
            Scheme::Xmss(_) => {
                // The narrow rows of one are those of another's lanes: 16 nodes.
                let path = (h + 16.0) * parts.node.all();
                Count { lanes: lanes + times * path + parts.digest, alone: 0.0 }
            }
        }
    }

    fn parts(&self) -> Parts {
        match self.scheme {
            Scheme::Hss { w } => {
                let chains = LM_OTS
                    .iter()
                    .find(|ots| (ots.family, ots.n, ots.w) == (LmsFamily::Sha256, 32, w))
                    .map_or(f64::NAN, |ots| ots.chains() as f64);
                // A secret, and whole chains.
                let steps = chains * f64::from(1u32 << w);
                // K: 22 bytes and the ends of all chains, and what ends a message.
                let key = ((22.0 + 32.0 * chains + 9.0) / 64.0).ceil();
                Parts {
                    steps,
                    rests: (steps - chains) / 2.0,
                    key: Count { lanes: 0.0, alone: key },
                    leaf: steps + key + 1.0,
                    node: Count { lanes: 0.0, alone: 2.0 },
                    digest: 4.0,
                }
            }
            // F, PRF and H of one key begin with a block that is hashed once (RFC 8391, section 5.1): PRF takes one
            // compression, F with a key and a mask of PRF four, H with three of them six, a secret two.
            Scheme::Xmss(_) => {
                let (steps, ladder) = (67.0 * (2.0 + 15.0 * 4.0), 66.0);
                Parts {
                    steps,
                    rests: 67.0 * 15.0 * 4.0 / 2.0,
                    // Rows of 33 and 17 nodes fill lanes; 8, 4, 2, 1 and 1 wait for each other.
                    key: Count { lanes: 50.0 * 6.0, alone: 5.0 * 4.0 },
                    leaf: steps + ladder * 6.0,
                    // Keys and masks are side by side, and wait for nothing.
                    node: Count { lanes: 2.0, alone: 4.0 },
                    digest: 5.0,
                }
            }
        }
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

    /// The counts of RFC 8391 in calls of hash functions, with 4 compressions a step and 6 a node.
    #[test]
    fn counts_of_xmss_are_those_of_the_standard() {
        let of = |name| SETS.iter().find(|set| set.name() == name).unwrap();
        let (one, many) = (of("XMSS-SHA2_10_256"), of("XMSSMT-SHA2_20/4_256"));
        assert_eq!((one.signature_bytes(), many.signature_bytes()), (2500, 9251));
        let leaf = 67.0 * 62.0 + 66.0 * 6.0;
        assert_eq!(one.keygen().all(), 1024.0 * (leaf + 6.0));
        assert_eq!(many.keygen().all(), 4.0 * 32.0 * (leaf + 6.0) + 3.0 * leaf);
        // All of it in lanes: chains, 66 nodes of the ladder and the path of one tree.
        assert_eq!(one.verify(64).all(), 67.0 * 30.0 + 76.0 * 6.0 + 5.0);
        let times = (64.0 + 2.0 + 1.0 + 1.0) / 64.0;
        assert!((many.verify(64).all() / (times * (67.0 * 30.0 + 71.0 * 6.0)) - 1.0).abs() < 0.01);
    }

    /// 64 signatures under one key of three levels of 5: one tree at the top signs, two below it, and 64 leaves.
    #[test]
    fn batch_counts_shared_tree_signatures_once() {
        let set = SETS.iter().find(|set| set.name() == "L3_H5_W4").unwrap();
        let (one, many) = (set.verify(1), set.verify(64));
        let all = |count: Count| count.lanes + count.alone;
        assert!((all(many) / all(one) - (64.0 + 2.0 + 1.0) / (3.0 * 64.0)).abs() < 1e-9);
        let alone = SETS.iter().find(|set| set.name() == "L1_H15_W4").unwrap();
        assert_eq!(alone.verify(1), alone.verify(64));
    }
}
