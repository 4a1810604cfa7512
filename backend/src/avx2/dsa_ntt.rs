//! ML-DSA: NTT, inverse NTT and products in the NTT domain (FIPS 204, Algorithms 41 to 48).
//!
//! A polynomial fills 32 registers of 8 coefficients, twice as many as there are, so a transform
//! takes two passes: layers 128 to 32 over eight registers that lie four apart, and the others over
//! eight neighbours. Layers 16 and 8 pair whole registers; for layers 4 to 1 neighbours exchange parts
//! (see `shuffle`), and exchange them back at the end. Four butterflies at a time do not depend on
//! each other, which processors need that look ahead by less than a hundred instructions.
//!
//! A product with a constant root z is Barrett's: with z' = round(2^32 z / q), the quotient is the
//! high half of b z' (two 32 x 32 -> 64 bit products, for even and odd coefficients), and
//! b z - quotient q needs low halves only (two `vpmulld`). Montgomery's method takes six products
//! that Intel does as fast as these, and three operations more. Expected: 8 layers x 16 butterflies
//! x 10 operations + 160 shuffles, three a cycle: 480 cycles.

use core::arch::asm;
use core::arch::x86_64::*;

use gabion_scheme::kernels::{DSA_Q, DsaPoly};

use super::{registers, shuffle};
use crate::common::constants::dsa::{Factor, Q_INVERSE, zeta};
use crate::common::constants::{Pair, exchange, in_order};
use crate::common::memory::{Table, opaque};

/// Roots for the butterflies of one pair of registers at one layer: z, z', z' of odd coefficients.
type Roots = [Table<i32, 8>; 3];

/// The arrangements of a pair for layers 4, 2 and 1.
const ARRANGEMENTS: [Pair<8>; 3] = {
    let halves = exchange(&in_order(), 4);
    let quads = exchange(&halves, 2);
    [halves, quads, exchange(&quads, 1)]
};

/// Roots of the in-register layers 4, 2 and 1: `[pair][layer]`.
const fn roots(inverse: bool) -> [[Roots; 3]; 16] {
    let mut zetas = [0; 256];
    let mut i = 0;
    while i < 256 {
        zetas[i] = zeta(i);
        i += 1;
    }
    let mut out = [[[Table([0; 8]); 3]; 3]; 16];
    let mut i = 0;
    while i < 16 * 3 * 8 {
        let (pair, layer, lane) = (i / 24, i / 8 % 3, i % 8);
        let length = 4 >> layer;
        let block = (16 * pair + ARRANGEMENTS[layer][0][lane]) / (2 * length);
        let index = if inverse { 256 / length - 1 - block } else { 128 / length + block };
        let Factor(z, quotient) = Factor::new(zetas[index]);
        out[pair][layer][0].0[lane] = z;
        out[pair][layer][1].0[lane] = quotient;
        if lane % 2 == 1 {
            out[pair][layer][2].0[lane - 1] = quotient;
        }
        i += 1;
    }
    out
}

static FORWARD_ROOTS: [[Roots; 3]; 16] = roots(false);
static INVERSE_ROOTS: [[Roots; 3]; 16] = roots(true);

/// Roots of the layers between registers.
static BROADCAST: [Factor; 32] = {
    let mut factors = [Factor(0, 0); 32];
    let mut i = 1;
    while i < 32 {
        factors[i] = Factor::new(zeta(i));
        i += 1;
    }
    factors
};

/// A constant in registers.
#[derive(Clone, Copy)]
struct Constant {
    z: __m256i,
    /// round(2^32 z / q) for the even coefficients, and for the odd ones in even places.
    even: __m256i,
    odd: __m256i,
}

/// Returns a constant with equal values for all coefficients.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn broadcast(Factor(z, quotient): Factor) -> Constant {
    let quotient = _mm256_set1_epi32(quotient);
    Constant { z: _mm256_set1_epi32(z), even: quotient, odd: quotient }
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn constant([z, even, odd]: &Roots) -> Constant {
    Constant { z: registers::table(z), even: registers::table(even), odd: registers::table(odd) }
}

/// b z modulo q. With e = |b| / 2^33, the result lies within (-e q, (1 + e) q): z' is off by at
/// most 1/2, and the quotient is rounded down.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn multiply(b: __m256i, c: Constant) -> __m256i {
    let even = _mm256_mul_epi32(b, c.even);
    let odd = _mm256_mul_epi32(_mm256_srli_epi64::<32>(b), c.odd);
    remainder(b, c, even, odd)
}

/// b z modulo q. With e = |b| / 2^33, |result| < (1/2 + e) q: the quotient is rounded to nearest,
/// for two operations more.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn multiply_rounded(b: __m256i, c: Constant) -> __m256i {
    let half = _mm256_set1_epi64x(1 << 31);
    let even = _mm256_add_epi64(_mm256_mul_epi32(b, c.even), half);
    let odd = _mm256_add_epi64(_mm256_mul_epi32(_mm256_srli_epi64::<32>(b), c.odd), half);
    remainder(b, c, even, odd)
}

/// b z less q times the quotient in the high halves of `even` and `odd`.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn remainder(b: __m256i, c: Constant, even: __m256i, odd: __m256i) -> __m256i {
    let quotient = shuffle::high_halves(even, odd);
    let product = _mm256_mullo_epi32(b, c.z);
    _mm256_sub_epi32(product, _mm256_mullo_epi32(quotient, _mm256_set1_epi32(DSA_Q)))
}

/// A butterfly of the NTT.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn butterfly(a: __m256i, b: __m256i, c: Constant) -> (__m256i, __m256i) {
    let t = multiply(b, c);
    (_mm256_add_epi32(a, t), _mm256_sub_epi32(a, t))
}

/// NTT of each polynomial. From |x| < 2q, seven layers add (1 + 2^-6) q at most, and the last,
/// which rounds, (1/2 + 2^-6) q: below 9.7q.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn ntt(polys: &mut [DsaPoly]) {
    for p in polys {
        ntt_one(registers::dsa_mut(p));
    }
    registers::clear();
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn ntt_one(p: &mut [__m256i; 32]) {
    let factors = opaque(&BROADCAST);
    for r in 0..4 {
        let mut w: [__m256i; 8] = core::array::from_fn(|i| p[r + 4 * i]);
        for distance in [4, 2, 1] {
            for block in 0..4 / distance {
                let c = broadcast(factors[4 / distance + block]);
                for low in 2 * distance * block..2 * distance * block + distance {
                    (w[low], w[low + distance]) = butterfly(w[low], w[low + distance], c);
                }
            }
        }
        for (i, w) in w.into_iter().enumerate() {
            p[r + 4 * i] = w;
        }
    }
    let roots = opaque(&FORWARD_ROOTS).as_chunks::<4>().0;
    for (block, (p, roots)) in p.as_chunks_mut::<8>().0.iter_mut().zip(roots).enumerate() {
        let mut w = *p;
        for (i, low) in [0, 4].into_iter().enumerate() {
            let c = broadcast(factors[8 + 2 * block + i]);
            (w[low], w[low + 2]) = butterfly(w[low], w[low + 2], c);
            (w[low + 1], w[low + 3]) = butterfly(w[low + 1], w[low + 3], c);
        }
        for i in 0..4 {
            let c = broadcast(factors[16 + 4 * block + i]);
            (w[2 * i], w[2 * i + 1]) = butterfly(w[2 * i], w[2 * i + 1], c);
        }
        layer_within::<0>(&mut w, roots);
        layer_within::<1>(&mut w, roots);
        layer_within::<2>(&mut w, roots);
        for (p, w) in p.as_chunks_mut::<2>().0.iter_mut().zip(w.as_chunks::<2>().0) {
            let (a, b) = shuffle::doubles(w[0], w[1]);
            let (a, b) = shuffle::quads(a, b);
            (p[0], p[1]) = shuffle::halves(a, b);
        }
    }
}

/// A layer within neighbours: 0 for length 4 to 2 for length 1.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn layer_within<const LAYER: usize>(w: &mut [__m256i; 8], roots: &[[Roots; 3]; 4]) {
    for (pair, roots) in w.as_chunks_mut::<2>().0.iter_mut().zip(roots) {
        let (a, b) = shuffle::exchange::<LAYER>(pair[0], pair[1]);
        let c = constant(&roots[LAYER]);
        let t = if LAYER < 2 { multiply(b, c) } else { multiply_rounded(b, c) };
        *pair = [_mm256_add_epi32(a, t), _mm256_sub_epi32(a, t)];
    }
}

/// The closing factor 2^32 / 256 = 2^24 of the inverse NTT.
const CLOSING: u64 = 1 << 24;

/// Inverse NTT of each polynomial, times 2^32.
///
/// Sums double eight times: |x| <= 256 (q - 1) < 2^31, so no layer overflows. Products of
/// |b| < 2^31 have e < 1/4: they stay within (-q/4, 5q/4), less than the sums of their layer, and
/// the closing ones, which round, below 3q/4.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn inv_ntt(polys: &mut [DsaPoly]) {
    for p in polys {
        inv_ntt_one(registers::dsa_mut(p));
    }
    registers::clear();
}

/// A butterfly of the inverse NTT.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn inverse_butterfly(a: __m256i, b: __m256i, c: Constant) -> (__m256i, __m256i) {
    (_mm256_add_epi32(a, b), multiply(_mm256_sub_epi32(b, a), c))
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn inv_ntt_one(p: &mut [__m256i; 32]) {
    let factors = opaque(&BROADCAST);
    let roots = opaque(&INVERSE_ROOTS).as_chunks::<4>().0;
    for (block, (p, roots)) in p.as_chunks_mut::<8>().0.iter_mut().zip(roots).enumerate() {
        let mut w = *p;
        for pair in w.as_chunks_mut::<2>().0 {
            let (a, b) = shuffle::halves(pair[0], pair[1]);
            let (a, b) = shuffle::quads(a, b);
            (pair[0], pair[1]) = shuffle::doubles(a, b);
        }
        inverse_layer_within::<2>(&mut w, roots);
        inverse_layer_within::<1>(&mut w, roots);
        inverse_layer_within::<0>(&mut w, roots);
        for i in 0..4 {
            let c = broadcast(factors[31 - 4 * block - i]);
            (w[2 * i], w[2 * i + 1]) = inverse_butterfly(w[2 * i], w[2 * i + 1], c);
        }
        for (i, low) in [0, 4].into_iter().enumerate() {
            let c = broadcast(factors[15 - 2 * block - i]);
            (w[low], w[low + 2]) = inverse_butterfly(w[low], w[low + 2], c);
            (w[low + 1], w[low + 3]) = inverse_butterfly(w[low + 1], w[low + 3], c);
        }
        *p = w;
    }
    // Layer 128 takes in the closing factor.
    let sums = broadcast(const { Factor::new(CLOSING) });
    let products = broadcast(const { Factor::new(zeta(1) * CLOSING) });
    for r in 0..4 {
        let mut w: [__m256i; 8] = core::array::from_fn(|i| p[r + 4 * i]);
        for distance in [1, 2] {
            for block in 0..4 / distance {
                let c = broadcast(factors[8 / distance - 1 - block]);
                for low in 2 * distance * block..2 * distance * block + distance {
                    (w[low], w[low + distance]) = inverse_butterfly(w[low], w[low + distance], c);
                }
            }
        }
        for i in 0..4 {
            let difference = _mm256_sub_epi32(w[i + 4], w[i]);
            p[r + 4 * i] = multiply_rounded(_mm256_add_epi32(w[i], w[i + 4]), sums);
            p[r + 4 * i + 16] = multiply_rounded(difference, products);
        }
    }
}

/// A layer within neighbours: 0 for length 4 to 2 for length 1.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn inverse_layer_within<const LAYER: usize>(w: &mut [__m256i; 8], roots: &[[Roots; 3]; 4]) {
    for (pair, roots) in w.as_chunks_mut::<2>().0.iter_mut().zip(roots) {
        let (a, b) = inverse_butterfly(pair[0], pair[1], constant(&roots[LAYER]));
        (pair[0], pair[1]) = shuffle::exchange::<LAYER>(a, b);
    }
}

/// The 64-bit products of the even coefficients.
///
/// As an intrinsic it comes out as a 64-bit multiplication, six instructions, where LLVM has moved
/// the widening of an operand out of a loop.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn product(a: __m256i, b: __m256i) -> __m256i {
    let product;
    // SAFETY: arithmetic on registers.
    unsafe {
        asm!("vpmuldq {0}, {1}, {2}", out(ymm_reg) product, in(ymm_reg) a, in(ymm_reg) b,
            options(pure, nomem, nostack, preserves_flags));
    }
    product
}

/// Montgomery's reduction of 64-bit sums for even and odd coefficients: sum / 2^32 mod q.
///
/// |result| <= |sum| / 2^32 + q / 2, rounded up.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn montgomery(even: __m256i, odd: __m256i) -> __m256i {
    let q = _mm256_set1_epi32(DSA_Q);
    let q_inverse = _mm256_set1_epi32(Q_INVERSE);
    let reduce = |sum| {
        // Only even products count.
        let m = _mm256_mullo_epi32(sum, q_inverse);
        _mm256_sub_epi64(sum, _mm256_mul_epi32(m, q))
    };
    shuffle::high_halves(reduce(even), reduce(odd))
}

/// See [`gabion_scheme::kernels::Kernels::dsa_matvec`].
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn matvec(out: &mut [DsaPoly], a: &[DsaPoly], v: &[DsaPoly]) {
    assert_eq!(a.len(), out.len() * v.len(), "the matrix has a row for each output");
    match v.len() {
        1 => matvec_of::<1>(out, a, v),
        2 => matvec_of::<2>(out, a, v),
        3 => matvec_of::<3>(out, a, v),
        4 => matvec_of::<4>(out, a, v),
        5 => matvec_of::<5>(out, a, v),
        6 => matvec_of::<6>(out, a, v),
        7 => matvec_of::<7>(out, a, v),
        columns => panic!("a vector has 1 to 7 polynomials, not {columns}"),
    }
    registers::clear();
}

/// Products are summed over a row in 64 bits and reduced once: |sum| < 7 * q * 10q < 2^53, so that
/// |result| < 0.64q.
///
/// Row after row, each polynomial from its beginning to its end. Column after column, where a register
/// of the vector serves all rows, 41 and 71 cache lines are in use that lie a KiB apart, for which a
/// cache of 32 KiB has 32 places: each line came from the second level twice, and products of ML-DSA-65
/// and -87 took twice as long.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn matvec_of<const L: usize>(out: &mut [DsaPoly], a: &[DsaPoly], v: &[DsaPoly]) {
    let (rows, []) = a.as_chunks::<L>() else {
        return;
    };
    let Some(v) = v.first_chunk::<L>() else {
        return;
    };
    for (row, out) in rows.iter().zip(out.iter_mut()) {
        for (r, out) in registers::dsa_mut(out).iter_mut().enumerate() {
            let mut even = _mm256_setzero_si256();
            let mut odd = _mm256_setzero_si256();
            for j in 0..L {
                let a = registers::dsa(&row[j])[r];
                let v = registers::dsa(&v[j])[r];
                even = _mm256_add_epi64(even, product(a, v));
                let (a, v) = (_mm256_srli_epi64::<32>(a), _mm256_srli_epi64::<32>(v));
                odd = _mm256_add_epi64(odd, product(a, v));
            }
            *out = montgomery(even, odd);
        }
    }
}

/// See [`gabion_scheme::kernels::Kernels::dsa_pointwise`].
/// |c v| < 100 q^2, so that |result| < 0.7q.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn pointwise(out: &mut [DsaPoly], c: &DsaPoly, v: &[DsaPoly]) {
    assert_eq!(out.len(), v.len(), "one output for each polynomial of the vector");
    for (out, v) in out.iter_mut().zip(v) {
        let lanes = registers::dsa(c).iter().zip(registers::dsa(v));
        for (out, (c, v)) in registers::dsa_mut(out).iter_mut().zip(lanes) {
            let even = _mm256_mul_epi32(*c, *v);
            let odd = _mm256_mul_epi32(_mm256_srli_epi64::<32>(*c), _mm256_srli_epi64::<32>(*v));
            *out = montgomery(even, odd);
        }
    }
    registers::clear();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrangements_pair_the_operands() {
        for (arrangement, length) in ARRANGEMENTS.iter().zip([4, 2, 1]) {
            for (a, b) in arrangement[0].iter().zip(&arrangement[1]) {
                assert_eq!(a + length, *b, "{length}");
            }
        }
    }
}
