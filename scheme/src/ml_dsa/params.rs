//! The parameter sets of ML-DSA (FIPS 204, table 1) and the sizes that follow from them (table 2).

use crate::algorithms::Algorithm;
use crate::kernels::DSA_Q;

/// Bytes of the seed xi, of rho and of the private seed K (FIPS 204, Algorithm 6).
pub const SEED_LEN: usize = 32;
/// Bytes of tr and of the message representative mu (FIPS 204, Algorithm 7).
pub const MU_LEN: usize = 64;
/// Dropped bits of t (FIPS 204, table 1).
pub const D: usize = 13;
/// Bits of a coefficient of t1: bitlen(q - 1) - d.
pub(super) const T1_BITS: usize = 10;
/// Bytes of an encoded t1 polynomial.
pub(super) const T1_LEN: usize = 32 * T1_BITS;
/// Bytes of an encoded t0 polynomial.
pub(super) const T0_LEN: usize = 32 * D;
/// The upper end of a coefficient of t0: 2^(d-1).
pub(super) const T0_MAX: i32 = 1 << (D - 1);
/// Attempts after which signing gives up (FIPS 204, appendix C: fewer than one signature in
/// 2^256 needs more).
pub const ATTEMPTS_MAX: usize = 814;

/// One column of FIPS 204, table 1.
#[derive(Debug, PartialEq, Eq)]
pub struct Params {
    /// The algorithm of this set.
    pub algorithm: Algorithm,
    /// Rows of the matrix A.
    pub k: usize,
    /// Columns of the matrix A.
    pub l: usize,
    /// Bound of the coefficients of s1 and s2.
    pub eta: usize,
    /// Non-zero coefficients of the challenge c.
    pub tau: usize,
    /// tau * eta: bound of the coefficients of c s1 and c s2.
    pub beta: i32,
    /// Range of the mask y; a power of two.
    pub gamma1: i32,
    /// Half the width of a rounding interval.
    pub gamma2: i32,
    /// The maximum number of ones in a hint.
    pub omega: usize,
    /// Bytes of the commitment hash c~: lambda / 4.
    pub c_tilde_len: usize,
    /// Bits of an encoded coefficient of s1 and s2: bitlen(2 eta).
    pub eta_bits: usize,
    /// Bits of an encoded coefficient of z and y: 1 + bitlen(gamma1 - 1).
    pub z_bits: usize,
    /// Bits of an encoded coefficient of w1: bitlen((q - 1) / (2 gamma2) - 1).
    pub w1_bits: usize,
}

/// The three sets, in the order of [`Algorithm`].
static PARAMS: [Params; 3] = [
    Params {
        algorithm: Algorithm::MlDsa44,
        k: 4,
        l: 4,
        eta: 2,
        tau: 39,
        beta: 78,
        gamma1: 1 << 17,
        gamma2: (DSA_Q - 1) / 88,
        omega: 80,
        c_tilde_len: 32,
        eta_bits: 3,
        z_bits: 18,
        w1_bits: 6,
    },
    Params {
        algorithm: Algorithm::MlDsa65,
        k: 6,
        l: 5,
        eta: 4,
        tau: 49,
        beta: 196,
        gamma1: 1 << 19,
        gamma2: (DSA_Q - 1) / 32,
        omega: 55,
        c_tilde_len: 48,
        eta_bits: 4,
        z_bits: 20,
        w1_bits: 4,
    },
    Params {
        algorithm: Algorithm::MlDsa87,
        k: 8,
        l: 7,
        eta: 2,
        tau: 60,
        beta: 120,
        gamma1: 1 << 19,
        gamma2: (DSA_Q - 1) / 32,
        omega: 75,
        c_tilde_len: 64,
        eta_bits: 3,
        z_bits: 20,
        w1_bits: 4,
    },
];

/// The parameters of an algorithm; `None` if it is no ML-DSA.
pub fn params(algorithm: Algorithm) -> Option<&'static Params> {
    PARAMS.iter().find(|p| p.algorithm == algorithm)
}

impl Params {
    /// Bytes of an encoded public key.
    pub const fn pk_len(&self) -> usize {
        SEED_LEN + self.k * T1_LEN
    }

    /// Bytes of an encoded private key.
    pub const fn sk_len(&self) -> usize {
        2 * SEED_LEN + MU_LEN + (self.l + self.k) * self.s_len() + self.k * T0_LEN
    }

    /// Bytes of a signature.
    pub const fn sig_len(&self) -> usize {
        self.c_tilde_len + self.l * self.z_len() + self.omega + self.k
    }

    /// Bytes of an encoded polynomial of s1 or s2.
    pub(super) const fn s_len(&self) -> usize {
        32 * self.eta_bits
    }

    /// Bytes of an encoded polynomial of z, and of a squeezed polynomial of y.
    pub(super) const fn z_len(&self) -> usize {
        32 * self.z_bits
    }

    /// Bytes of an encoded w1, all its polynomials.
    pub(super) const fn w1_len(&self) -> usize {
        32 * self.w1_bits * self.k
    }

    /// Polynomials in the matrix A.
    pub(super) const fn matrix_len(&self) -> usize {
        self.k * self.l
    }

    /// The standard's name, for messages.
    pub fn name(&self) -> &'static str {
        self.algorithm.name()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithms::Family;

    fn bitlen(x: i32) -> usize {
        (i32::BITS - x.leading_zeros()) as usize
    }

    #[test]
    fn sizes_are_those_of_the_algorithm_table() {
        let mut seen = 0;
        for algorithm in Algorithm::all() {
            let row = algorithm.info();
            let Some(p) = params(algorithm) else {
                assert_ne!(row.family, Family::MlDsa);
                continue;
            };
            seen += 1;
            assert_eq!(p.pk_len(), row.public_key.max());
            assert_eq!(p.sk_len(), row.private_key.max());
            assert_eq!(p.sig_len(), row.output.max());
            assert_eq!(Some(SEED_LEN), row.seed);
        }
        assert_eq!(seen, 3);
    }

    #[test]
    fn derived_columns_follow_their_formulas() {
        for p in &PARAMS {
            assert_eq!(p.beta as usize, p.tau * p.eta);
            assert_eq!(p.eta_bits, bitlen(2 * p.eta as i32));
            assert_eq!(p.z_bits, 1 + bitlen(p.gamma1 - 1));
            assert_eq!(p.w1_bits, bitlen((DSA_Q - 1) / (2 * p.gamma2) - 1));
            assert_eq!((DSA_Q - 1) % (2 * p.gamma2), 0);
            // The counter of ExpandMask has two bytes (FIPS 204, Algorithm 34).
            assert!(ATTEMPTS_MAX * p.l <= usize::from(u16::MAX));
        }
    }
}
