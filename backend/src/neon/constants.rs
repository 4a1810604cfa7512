//! Constants as NEON multiplies by them, and the arrangement of registers in transforms.
//!
//! Barrett's method, as the instructions have it (Becker, Hwang, Kannwischer, Yang and Yang, "Neon
//! NTT", eprint 2021/986): with z' = round(2^(w-1) z / q), the doubling high product that rounds,
//! `SQRDMULH`, of b and z' is the quotient of b z by q to within |b| / 2^w + 1/2, and `b z - quotient q`
//! needs low products only. Three multiplications and nothing else, where Montgomery's method takes
//! a shift or a halving more.

use crate::common::constants::{Pair, centred, dsa, exchange, in_order, kem};

/// z, and round(2^(w-1) z / q): w = 16 for ML-KEM, 32 for ML-DSA.
#[derive(Clone, Copy)]
pub(super) struct Factor<T>(pub(super) T, pub(super) T);

/// round(2^bits z / q), for the z nearest to zero.
const fn quotient(z: i64, bits: u32, q: i64) -> i64 {
    // q is odd, so there are no ties.
    ((z << (bits + 1)) + q).div_euclid(2 * q)
}

impl Factor<i16> {
    pub(super) const fn new(z: u64) -> Self {
        let q = gabion_scheme::kernels::KEM_Q as i64;
        let z = centred(z, q as u64);
        Factor(z as i16, quotient(z, 15, q) as i16)
    }
}

impl Factor<i32> {
    pub(super) const fn new(z: u64) -> Self {
        let q = gabion_scheme::kernels::DSA_Q as i64;
        let z = centred(z, q as u64);
        Factor(z as i32, quotient(z, 31, q) as i32)
    }
}

/// The arrangements of a pair of registers, in items of 32 bits, for the two layers within it: runs
/// of two items, and then single items.
const ARRANGEMENTS: [Pair<4>; 2] = {
    let halves = exchange(&in_order(), 2);
    [halves, exchange(&halves, 1)]
};

/// Roots of the layers between registers of ML-KEM: for lengths 128 to 8.
pub(super) static KEM_BROADCAST: [Factor<i16>; 32] = {
    let mut factors = [Factor(0, 0); 32];
    let mut i = 1;
    while i < 32 {
        factors[i] = Factor::<i16>::new(kem::zeta(i));
        i += 1;
    }
    factors
};

/// Roots of the layers between registers of ML-DSA: for lengths 128 to 4.
pub(super) static DSA_BROADCAST: [Factor<i32>; 64] = {
    let mut factors = [Factor(0, 0); 64];
    let mut i = 1;
    while i < 64 {
        factors[i] = Factor::<i32>::new(dsa::zeta(i));
        i += 1;
    }
    factors
};

/// The two forms of the roots for a pair's butterflies at the two layers within it: `[layer][form]`.
pub(super) type Roots<T, const W: usize> = [[[T; W]; 2]; 2];

/// Returns the roots of ML-KEM, lengths 4 and 2: an item is two coefficients, which share their
/// root.
const fn kem_roots(inverse: bool) -> [Roots<i16, 8>; 16] {
    let mut out = [[[[0; 8]; 2]; 2]; 16];
    let mut i = 0;
    while i < 16 * 2 * 8 {
        let (pair, layer, word) = (i / 16, i / 8 % 2, i % 8);
        let length = 4 >> layer;
        let coefficient = 16 * pair + 2 * ARRANGEMENTS[layer][0][word / 2];
        let block = coefficient / (2 * length);
        let index = if inverse { 256 / length - 1 - block } else { 128 / length + block };
        let Factor(z, quotient) = Factor::<i16>::new(kem::zeta(index));
        out[pair][layer][0][word] = z;
        out[pair][layer][1][word] = quotient;
        i += 1;
    }
    out
}

/// Returns the roots of ML-DSA, lengths 2 and 1: an item is a coefficient.
const fn dsa_roots(inverse: bool) -> [Roots<i32, 4>; 32] {
    let mut out = [[[[0; 4]; 2]; 2]; 32];
    let mut i = 0;
    while i < 32 * 2 * 4 {
        let (pair, layer, lane) = (i / 8, i / 4 % 2, i % 4);
        let length = 2 >> layer;
        let block = (8 * pair + ARRANGEMENTS[layer][0][lane]) / (2 * length);
        let index = if inverse { 256 / length - 1 - block } else { 128 / length + block };
        let Factor(z, quotient) = Factor::<i32>::new(dsa::zeta(index));
        out[pair][layer][0][lane] = z;
        out[pair][layer][1][lane] = quotient;
        i += 1;
    }
    out
}

pub(super) static KEM_FORWARD: [Roots<i16, 8>; 16] = kem_roots(false);
pub(super) static KEM_INVERSE: [Roots<i16, 8>; 16] = kem_roots(true);
pub(super) static DSA_FORWARD: [Roots<i32, 4>; 32] = dsa_roots(false);
pub(super) static DSA_INVERSE: [Roots<i32, 4>; 32] = dsa_roots(true);

/// gamma_i of ML-KEM's base products (FIPS 203, Algorithm 11), eight at a time: `[i / 8][form]`.
pub(super) static KEM_GAMMAS: [[[i16; 8]; 2]; 16] = {
    let mut out = [[[0; 8]; 2]; 16];
    let mut i = 0;
    while i < 128 {
        let Factor(z, quotient) = Factor::<i16>::new(kem::gamma(i));
        out[i / 8][0][i % 8] = z;
        out[i / 8][1][i % 8] = quotient;
        i += 1;
    }
    out
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrangements_pair_the_operands() {
        // In items: two coefficients of ML-KEM at lengths 4 and 2, one of ML-DSA at 2 and 1.
        for (arrangement, length) in ARRANGEMENTS.iter().zip([2, 1]) {
            for (a, b) in arrangement[0].iter().zip(&arrangement[1]) {
                assert_eq!(a + length, *b, "{length}");
            }
        }
    }

    #[test]
    fn quotients_are_the_nearest() {
        for q in [3329i64, 8_380_417] {
            for z in [0, 1, 2, q / 2 - 1, q / 2] {
                for (z, bits) in [(z, 15u32), (-z, 15), (z, 31), (-z, 31)] {
                    let error = (z << bits) - quotient(z, bits, q) * q;
                    assert!(2 * error.abs() < q, "{z}, {bits}, {q}");
                }
            }
        }
    }
}
