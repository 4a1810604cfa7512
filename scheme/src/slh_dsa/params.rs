//! The parameter sets of SLH-DSA and the sizes that follow from them (FIPS 205, table 2).

use crate::algorithms::Algorithm;
use crate::kernels::slh::SlhFamily;

/// Most bytes of a hash value.
pub const N_MAX: usize = 32;
/// Most chains of a WOTS+ key: those of n = 32.
pub(super) const LEN_MAX: usize = 2 * N_MAX + 3;
/// Most FORS trees.
pub(super) const K_MAX: usize = 35;
/// Most bytes of a message digest.
pub(super) const M_MAX: usize = 49;
/// The last value of a WOTS+ chain: w - 1, where w = 2^lg_w = 16 in every parameter set.
pub(super) const W_LAST: u32 = 15;

/// One row of FIPS 205, table 2.
#[derive(Debug, PartialEq, Eq)]
pub struct Params {
    /// The algorithm of this set.
    pub algorithm: Algorithm,
    /// The hash functions.
    pub family: SlhFamily,
    /// Bytes of a hash value.
    pub n: usize,
    /// Height of the hypertree.
    pub h: u32,
    /// Layers of the hypertree.
    pub d: u32,
    /// Height of a tree of the hypertree, h': h / d.
    pub h_prime: u32,
    /// Height of a FORS tree.
    pub a: u32,
    /// FORS trees.
    pub k: usize,
    /// Bytes of a message digest.
    pub m: usize,
}

const fn set(algorithm: Algorithm, family: SlhFamily, n: usize, row: [u32; 6]) -> Params {
    let [h, d, h_prime, a, k, m] = row;
    Params { algorithm, family, n, h, d, h_prime, a, k: k as usize, m: m as usize }
}

/// h, d, h', a, k, m of each size (FIPS 205, table 2).
const S128: [u32; 6] = [63, 7, 9, 12, 14, 30];
const F128: [u32; 6] = [66, 22, 3, 6, 33, 34];
const S192: [u32; 6] = [63, 7, 9, 14, 17, 39];
const F192: [u32; 6] = [66, 22, 3, 8, 33, 42];
const S256: [u32; 6] = [64, 8, 8, 14, 22, 47];
const F256: [u32; 6] = [68, 17, 4, 9, 35, 49];

/// The twelve sets, in the order of [`Algorithm`].
static PARAMS: [Params; 12] = [
    set(Algorithm::SlhDsaSha2_128s, SlhFamily::Sha2, 16, S128),
    set(Algorithm::SlhDsaSha2_128f, SlhFamily::Sha2, 16, F128),
    set(Algorithm::SlhDsaSha2_192s, SlhFamily::Sha2, 24, S192),
    set(Algorithm::SlhDsaSha2_192f, SlhFamily::Sha2, 24, F192),
    set(Algorithm::SlhDsaSha2_256s, SlhFamily::Sha2, 32, S256),
    set(Algorithm::SlhDsaSha2_256f, SlhFamily::Sha2, 32, F256),
    set(Algorithm::SlhDsaShake128s, SlhFamily::Shake, 16, S128),
    set(Algorithm::SlhDsaShake128f, SlhFamily::Shake, 16, F128),
    set(Algorithm::SlhDsaShake192s, SlhFamily::Shake, 24, S192),
    set(Algorithm::SlhDsaShake192f, SlhFamily::Shake, 24, F192),
    set(Algorithm::SlhDsaShake256s, SlhFamily::Shake, 32, S256),
    set(Algorithm::SlhDsaShake256f, SlhFamily::Shake, 32, F256),
];

/// The parameters of an algorithm; `None` if it is no SLH-DSA.
pub fn params(algorithm: Algorithm) -> Option<&'static Params> {
    PARAMS.iter().find(|p| p.algorithm == algorithm)
}

impl Params {
    /// The standard's name of the set.
    pub fn name(&self) -> &'static str {
        self.algorithm.name()
    }

    /// Bytes of an encoded public key: PK.seed and PK.root.
    pub const fn pk_len(&self) -> usize {
        2 * self.n
    }

    /// Bytes of an encoded private key: SK.seed, SK.prf, PK.seed and PK.root.
    pub const fn sk_len(&self) -> usize {
        4 * self.n
    }

    /// Bytes of a seed of key generation: SK.seed, SK.prf and PK.seed (Algorithm 18).
    pub const fn seed_len(&self) -> usize {
        3 * self.n
    }

    /// Bytes of opt_rand (Algorithm 19): as many as a hash value has.
    pub const fn opt_rand_len(&self) -> usize {
        self.n
    }

    /// Bytes of a signature: R, SIG_FORS and SIG_HT (figure 17).
    pub const fn sig_len(&self) -> usize {
        self.n + self.fors_len() + self.d as usize * self.xmss_len()
    }

    /// Chains of a WOTS+ key: len = len_1 + len_2 (equations 5.1 to 5.4).
    pub(super) const fn len(&self) -> usize {
        2 * self.n + 3
    }

    /// Bytes of a WOTS+ signature.
    pub(super) const fn wots_len(&self) -> usize {
        self.len() * self.n
    }

    /// Bytes of one tree's part of a FORS signature: secret and authentication path.
    pub(super) const fn fors_tree_len(&self) -> usize {
        (1 + self.a as usize) * self.n
    }

    /// Bytes of a FORS signature.
    pub(super) const fn fors_len(&self) -> usize {
        self.k * self.fors_tree_len()
    }

    /// Bytes of an XMSS signature: a WOTS+ signature and an authentication path.
    pub(super) const fn xmss_len(&self) -> usize {
        (self.len() + self.h_prime as usize) * self.n
    }

    /// Chains of a WOTS+ key: len (equations 5.1 to 5.4).
    pub const fn wots_chains(&self) -> usize {
        self.len()
    }

    /// Bytes of a whole tree of the hypertree: 2^(h' + 1) - 1 nodes.
    pub const fn top_tree_len(&self) -> usize {
        self.tree_len()
    }

    /// Bytes of a whole tree of the hypertree: 2^(h' + 1) - 1 nodes.
    pub(super) const fn tree_len(&self) -> usize {
        ((2 << self.h_prime) - 1) * self.n
    }

    /// Returns the range of layer j's part in a signature.
    pub(super) fn layer(&self, j: u32) -> std::ops::Range<usize> {
        let from = self.n + self.fors_len() + j as usize * self.xmss_len();
        from..from + self.xmss_len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_table_of_algorithms() {
        for p in &PARAMS {
            let info = p.algorithm.info();
            assert_eq!(p.pk_len(), info.public_key.max(), "{}", info.name);
            assert_eq!(p.sk_len(), info.private_key.max(), "{}", info.name);
            assert_eq!(p.sig_len(), info.output.max(), "{}", info.name);
            assert_eq!(params(p.algorithm), Some(p));
        }
        assert_eq!(params(Algorithm::MlDsa44), None);
    }

    /// FIPS 205, section 4.3 and Algorithm 19, lines 6 to 10.
    #[test]
    fn rows_agree_with_themselves() {
        for p in &PARAMS {
            assert_eq!(p.h, p.d * p.h_prime);
            let bits = [p.a * p.k as u32, p.h - p.h_prime, p.h_prime];
            assert_eq!(p.m as u32, bits.map(|bits| bits.div_ceil(8)).iter().sum::<u32>());
            assert!(p.n <= N_MAX && p.k <= K_MAX && p.m <= M_MAX && p.len() <= LEN_MAX);
        }
    }
}
