//! The parameter sets of LMS and of its one-time signatures (RFC 8554, sections 4.1 and 5.1;
//! RFC 9858; SP 800-208, section 4), by the numbers that stand in keys and signatures.

use crate::kernels::lms::LmsFamily;

/// Most bytes of a hash value.
pub const N_MAX: usize = 32;
/// Most levels of an HSS key (RFC 8554, section 6).
pub const LEVELS_MAX: usize = 8;
/// Most bytes of an HSS signature, whatever its key: eight levels, whose trees and one-time signatures are the longest.
pub const SIGNATURE_LEN_MAX: usize = {
    let (lms, ots) = (&tree(9, "", Sha256, N_MAX, 25), &ots(1, "", Sha256, N_MAX, 1));
    4 + LEVELS_MAX * lms.signature_len(ots) + (LEVELS_MAX - 1) * lms.public_key_len()
};

/// A set of LMS: a tree.
#[derive(Debug, PartialEq, Eq)]
pub struct Lms {
    /// The standard's name.
    pub name: &'static str,
    /// The number of the registry "Leighton-Micali Signatures (LMS)".
    pub typecode: u32,
    /// The hash function.
    pub family: LmsFamily,
    /// Bytes of a hash value, which the standard calls m here.
    pub n: usize,
    /// Height of the tree.
    pub h: u32,
}

/// A set of LM-OTS: one-time signatures.
#[derive(Debug, PartialEq, Eq)]
pub struct LmOts {
    /// The standard's name.
    pub name: &'static str,
    /// The number of the registry "LM-OTS Signatures".
    pub typecode: u32,
    /// The hash function.
    pub family: LmsFamily,
    /// Bytes of a hash value.
    pub n: usize,
    /// Bits of a digit.
    pub w: u32,
}

use LmsFamily::{Sha256, Shake256};

const fn tree(typecode: u32, name: &'static str, family: LmsFamily, n: usize, h: u32) -> Lms {
    Lms { name, typecode, family, n, h }
}

const fn ots(typecode: u32, name: &'static str, family: LmsFamily, n: usize, w: u32) -> LmOts {
    LmOts { name, typecode, family, n, w }
}

/// All trees.
pub static LMS: [Lms; 20] = [
    tree(5, "LMS_SHA256_M32_H5", Sha256, 32, 5),
    tree(6, "LMS_SHA256_M32_H10", Sha256, 32, 10),
    tree(7, "LMS_SHA256_M32_H15", Sha256, 32, 15),
    tree(8, "LMS_SHA256_M32_H20", Sha256, 32, 20),
    tree(9, "LMS_SHA256_M32_H25", Sha256, 32, 25),
    tree(10, "LMS_SHA256_M24_H5", Sha256, 24, 5),
    tree(11, "LMS_SHA256_M24_H10", Sha256, 24, 10),
    tree(12, "LMS_SHA256_M24_H15", Sha256, 24, 15),
    tree(13, "LMS_SHA256_M24_H20", Sha256, 24, 20),
    tree(14, "LMS_SHA256_M24_H25", Sha256, 24, 25),
    tree(15, "LMS_SHAKE_M32_H5", Shake256, 32, 5),
    tree(16, "LMS_SHAKE_M32_H10", Shake256, 32, 10),
    tree(17, "LMS_SHAKE_M32_H15", Shake256, 32, 15),
    tree(18, "LMS_SHAKE_M32_H20", Shake256, 32, 20),
    tree(19, "LMS_SHAKE_M32_H25", Shake256, 32, 25),
    tree(20, "LMS_SHAKE_M24_H5", Shake256, 24, 5),
    tree(21, "LMS_SHAKE_M24_H10", Shake256, 24, 10),
    tree(22, "LMS_SHAKE_M24_H15", Shake256, 24, 15),
    tree(23, "LMS_SHAKE_M24_H20", Shake256, 24, 20),
    tree(24, "LMS_SHAKE_M24_H25", Shake256, 24, 25),
];

/// All one-time signatures.
pub static LM_OTS: [LmOts; 16] = [
    ots(1, "LMOTS_SHA256_N32_W1", Sha256, 32, 1),
    ots(2, "LMOTS_SHA256_N32_W2", Sha256, 32, 2),
    ots(3, "LMOTS_SHA256_N32_W4", Sha256, 32, 4),
    ots(4, "LMOTS_SHA256_N32_W8", Sha256, 32, 8),
    ots(5, "LMOTS_SHA256_N24_W1", Sha256, 24, 1),
    ots(6, "LMOTS_SHA256_N24_W2", Sha256, 24, 2),
    ots(7, "LMOTS_SHA256_N24_W4", Sha256, 24, 4),
    ots(8, "LMOTS_SHA256_N24_W8", Sha256, 24, 8),
    ots(9, "LMOTS_SHAKE_N32_W1", Shake256, 32, 1),
    ots(10, "LMOTS_SHAKE_N32_W2", Shake256, 32, 2),
    ots(11, "LMOTS_SHAKE_N32_W4", Shake256, 32, 4),
    ots(12, "LMOTS_SHAKE_N32_W8", Shake256, 32, 8),
    ots(13, "LMOTS_SHAKE_N24_W1", Shake256, 24, 1),
    ots(14, "LMOTS_SHAKE_N24_W2", Shake256, 24, 2),
    ots(15, "LMOTS_SHAKE_N24_W4", Shake256, 24, 4),
    ots(16, "LMOTS_SHAKE_N24_W8", Shake256, 24, 8),
];

impl Lms {
    /// The set with this number.
    pub fn from_typecode(typecode: u32) -> Option<&'static Lms> {
        LMS.iter().find(|set| set.typecode == typecode)
    }

    /// Bytes of an LMS public key: two numbers, I and the root (section 5.3).
    pub const fn public_key_len(&self) -> usize {
        4 + 4 + 16 + self.n
    }

    /// Bytes of an LMS signature: q, the one-time signature, a number and the path (section 5.4).
    pub const fn signature_len(&self, ots: &LmOts) -> usize {
        4 + ots.signature_len() + 4 + self.h as usize * self.n
    }
}

impl LmOts {
    /// The set with this number.
    pub fn from_typecode(typecode: u32) -> Option<&'static LmOts> {
        LM_OTS.iter().find(|set| set.typecode == typecode)
    }

    /// Digits of a digest: u (appendix B).
    pub const fn digest_digits(&self) -> usize {
        self.n * 8 / self.w as usize
    }

    /// Digits of the checksum: v (appendix B).
    const fn checksum_digits(&self) -> usize {
        let most = self.last() * self.digest_digits() as u32;
        (most.ilog2() + 1).div_ceil(self.w) as usize
    }

    /// Chains of a one-time key: p.
    pub const fn chains(&self) -> usize {
        self.digest_digits() + self.checksum_digits()
    }

    /// Returns the shift of the checksum to the left in bits: ls.
    pub const fn shift(&self) -> u32 {
        16 - self.w * self.checksum_digits() as u32
    }

    /// Steps of a whole chain: 2^w - 1.
    pub const fn last(&self) -> u32 {
        (1 << self.w) - 1
    }

    /// Bytes of a one-time signature: a number, C and a value of each chain (section 4.5).
    pub const fn signature_len(&self) -> usize {
        4 + self.n + self.chains() * self.n
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 8554, tables 1 and 2; SP 800-208, tables 1 to 7.
    #[test]
    fn sets_are_those_of_the_standards() {
        let rows = [
            (32, 1, 265, 7, 8516),
            (32, 2, 133, 6, 4292),
            (32, 4, 67, 4, 2180),
            (32, 8, 34, 0, 1124),
            (24, 1, 200, 8, 4828),
            (24, 2, 101, 6, 2452),
            (24, 4, 51, 4, 1252),
            (24, 8, 26, 0, 652),
        ];
        for set in &LM_OTS {
            let row = (set.n, set.w, set.chains(), set.shift(), set.signature_len());
            assert!(rows.contains(&row), "{}: {row:?}", set.name);
        }
        for (i, set) in LM_OTS.iter().enumerate() {
            assert_eq!(set.typecode as usize, i + 1);
            let hash = if set.family == Sha256 { "SHA256" } else { "SHAKE" };
            assert_eq!(set.name, format!("LMOTS_{hash}_N{}_W{}", set.n, set.w));
        }
        for (i, set) in LMS.iter().enumerate() {
            assert_eq!(set.typecode as usize, i + 5);
            let hash = if set.family == Sha256 { "SHA256" } else { "SHAKE" };
            assert_eq!(set.name, format!("LMS_{hash}_M{}_H{}", set.n, set.h));
            assert!(set.n <= N_MAX);
        }
        let all = LMS.iter().flat_map(|lms| LM_OTS.iter().map(|ots| lms.signature_len(ots)));
        assert_eq!(all.max().map(|len| 4 + 8 * len + 7 * 56), Some(SIGNATURE_LEN_MAX));
        assert_eq!(LMS[0].public_key_len(), 56);
        assert_eq!(LMS[0].signature_len(&LM_OTS[3]), 1292);
        assert_eq!((Lms::from_typecode(4), Lms::from_typecode(25)), (None, None));
        assert_eq!((LmOts::from_typecode(0), LmOts::from_typecode(17)), (None, None));
    }
}
