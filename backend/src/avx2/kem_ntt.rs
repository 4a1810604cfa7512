//! ML-KEM: NTT, inverse NTT and products in the NTT domain (FIPS 203, Algorithms 9 to 12).
//!
//! A polynomial fills sixteen registers of 16 coefficients, all there are, so a transform takes two
//! passes: layer 128 over pairs of registers that lie eight apart, and the others over a half, eight
//! registers. Layers 64 to 16 pair whole registers; for layers 8, 4 and 2 neighbours exchange parts
//! (see `shuffle`), and exchange them back at the end. Each layer of a half has four butterflies that
//! do not depend on each other: with two, a transform takes half again as long, because processors
//! look ahead by less than a hundred instructions.
//!
//! A product with a constant root is Montgomery's with R = 2^16, three multiplications: 7 layers x
//! 8 butterflies x 3 = 168, of which Intel and Zen do two a cycle. About as many additions and 112
//! shuffles run in parallel.

use core::arch::asm;
use core::arch::x86_64::*;

use gabion_scheme::kernels::{KEM_Q, KemPoly};

use super::{registers, shuffle};
use crate::common::constants::kem::{Factor, Q_INVERSE, gamma, zeta};
use crate::common::constants::{Pair, exchange, in_order};
use crate::common::memory::{Table, opaque};

/// Roots for the butterflies of one pair of registers at one layer, both forms.
type Roots = [Table<i16, 16>; 2];

/// The arrangements of a pair for layers 8, 4 and 2. A double word holds two neighbouring
/// coefficients, which always share their root.
const ARRANGEMENTS: [Pair<8>; 3] = {
    let halves = exchange(&in_order(), 4);
    let quads = exchange(&halves, 2);
    [halves, quads, exchange(&quads, 1)]
};

/// Roots of the in-register layers 8, 4 and 2: `[pair][layer]`.
const fn roots(inverse: bool) -> [[Roots; 3]; 8] {
    let mut out = [[[Table([0; 16]); 2]; 3]; 8];
    let mut i = 0;
    while i < 8 * 3 * 16 {
        let (pair, layer, word) = (i / 48, i / 16 % 3, i % 16);
        let length = 8 >> layer;
        let coefficient = 32 * pair + 2 * ARRANGEMENTS[layer][0][word / 2];
        let block = coefficient / (2 * length);
        let Factor(z, zq) = Factor::new(zeta(if inverse {
            256 / length - 1 - block
        } else {
            128 / length + block
        }));
        out[pair][layer][0].0[word] = z;
        out[pair][layer][1].0[word] = zq;
        i += 1;
    }
    out
}

static FORWARD_ROOTS: [[Roots; 3]; 8] = roots(false);
static INVERSE_ROOTS: [[Roots; 3]; 8] = roots(true);

/// Roots of the layers between registers.
static BROADCAST: [Factor; 16] = {
    let mut factors = [Factor(0, 0); 16];
    let mut i = 1;
    while i < 16 {
        factors[i] = Factor::new(zeta(i));
        i += 1;
    }
    factors
};

/// R for even coefficients, gamma R for odd ones (gamma of Algorithm 11): `[register][form]`.
static GAMMAS: [Roots; 16] = {
    let mut out = [[Table([0; 16]); 2]; 16];
    let mut i = 0;
    while i < 256 {
        let Factor(z, zq) = Factor::new(if i % 2 == 0 { 1 } else { gamma(i / 2) });
        out[i / 16][0].0[i % 16] = z;
        out[i / 16][1].0[i % 16] = zq;
        i += 1;
    }
    out
};

/// Montgomery product of any x with a constant in both forms: |result| < q.
///
/// |x z R| <= 2^15 q / 2 and |m q| <= 2^15 q, so the difference of the high halves is below
/// 3/4 q + 1; the low halves are equal and cancel.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn multiply(x: __m256i, z: __m256i, zq: __m256i) -> __m256i {
    let q = _mm256_set1_epi16(KEM_Q);
    let m = _mm256_mullo_epi16(x, zq);
    _mm256_sub_epi16(high_product(x, z), _mm256_mulhi_epi16(m, q))
}

/// The high halves of products.
///
/// As an intrinsic it comes out as a widening, a 32-bit multiplication and a narrowing, where LLVM
/// has moved the widening of an operand out of a loop.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn high_product(a: __m256i, b: __m256i) -> __m256i {
    let product;
    // SAFETY: arithmetic on registers.
    unsafe {
        asm!("vpmulhw {0}, {1}, {2}", out(ymm_reg) product, in(ymm_reg) a, in(ymm_reg) b,
            options(pure, nomem, nostack, preserves_flags));
    }
    product
}

/// Montgomery product with one constant for all coefficients.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn multiply_by(x: __m256i, Factor(z, zq): Factor) -> __m256i {
    multiply(x, _mm256_set1_epi16(z), _mm256_set1_epi16(zq))
}

/// Barrett reduction of any |x| < 2^15: |result| < q, and at most q / 2 + 55 where |x| <= 4q.
///
/// The quotient is round(x * 10 / 2^15) with 10 / 2^15 = 1.016 / q; on the whole range the
/// remainder stays within 1665 + 0.016 * 2^15 = 2178.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn reduce(x: __m256i) -> __m256i {
    let quotient = _mm256_mulhrs_epi16(x, _mm256_set1_epi16(10));
    _mm256_sub_epi16(x, _mm256_mullo_epi16(quotient, _mm256_set1_epi16(KEM_Q)))
}

/// NTT of each polynomial. |x| grows from 2q by less than 0.75q + 1 a layer, to 7.3q < 2^15.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn ntt(polys: &mut [KemPoly]) {
    for p in polys {
        ntt_one(registers::kem_mut(p));
    }
    registers::clear();
}

/// A butterfly of the NTT.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn butterfly(a: __m256i, b: __m256i, z: __m256i, zq: __m256i) -> (__m256i, __m256i) {
    let t = multiply(b, z, zq);
    (_mm256_add_epi16(a, t), _mm256_sub_epi16(a, t))
}

/// A layer between registers that lie `DISTANCE` apart in a half, with its roots.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn layer_between<const DISTANCE: usize>(f: &mut [__m256i; 8], factors: &[Factor]) {
    for (block, &Factor(z, zq)) in factors[..4 / DISTANCE].iter().enumerate() {
        let (z, zq) = (_mm256_set1_epi16(z), _mm256_set1_epi16(zq));
        for r in 0..DISTANCE {
            let low = 2 * DISTANCE * block + r;
            (f[low], f[low + DISTANCE]) = butterfly(f[low], f[low + DISTANCE], z, zq);
        }
    }
}

/// A layer within neighbours of a half: 0 for length 8 to 2 for length 2.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn layer_within<const LAYER: usize>(f: &mut [__m256i; 8], roots: &[[Roots; 3]; 4]) {
    for (pair, roots) in f.as_chunks_mut::<2>().0.iter_mut().zip(roots) {
        let [z, zq] = &roots[LAYER];
        let (a, b) = shuffle::exchange::<LAYER>(pair[0], pair[1]);
        (pair[0], pair[1]) = butterfly(a, b, registers::table(z), registers::table(zq));
    }
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn ntt_one(p: &mut [__m256i; 16]) {
    let factors = opaque(&BROADCAST);
    let Factor(z, zq) = factors[1];
    let (z, zq) = (_mm256_set1_epi16(z), _mm256_set1_epi16(zq));
    for r in 0..8 {
        (p[r], p[r + 8]) = butterfly(p[r], p[r + 8], z, zq);
    }
    let roots = opaque(&FORWARD_ROOTS).as_chunks::<4>().0;
    for (half, (p, roots)) in p.as_chunks_mut::<8>().0.iter_mut().zip(roots).enumerate() {
        let mut f = *p;
        layer_between::<4>(&mut f, &factors[2 + half..]);
        layer_between::<2>(&mut f, &factors[4 + 2 * half..]);
        layer_between::<1>(&mut f, &factors[8 + 4 * half..]);
        layer_within::<0>(&mut f, roots);
        layer_within::<1>(&mut f, roots);
        layer_within::<2>(&mut f, roots);
        for (p, f) in p.as_chunks_mut::<2>().0.iter_mut().zip(f.as_chunks::<2>().0) {
            let (a, b) = shuffle::doubles(reduce(f[0]), reduce(f[1]));
            let (a, b) = shuffle::quads(a, b);
            (p[0], p[1]) = shuffle::halves(a, b);
        }
    }
}

/// Inverse NTT of each polynomial, times 2^16.
///
/// In units of q: sums at most double, products are below 0.76. From 2: 4, 8 (reduced to 0.66),
/// 1.52, 3.04 (reduced), 1.52, 3.04, 6.08 at the last, all below 2^15 / q = 9.84.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn inv_ntt(polys: &mut [KemPoly]) {
    for p in polys {
        inv_ntt_one(registers::kem_mut(p));
    }
    registers::clear();
}

/// A butterfly of the inverse NTT.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn inverse_butterfly(a: __m256i, b: __m256i, z: __m256i, zq: __m256i) -> (__m256i, __m256i) {
    (_mm256_add_epi16(a, b), multiply(_mm256_sub_epi16(b, a), z, zq))
}

/// A layer between registers that lie `DISTANCE` apart in a half, with its roots in rising order.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn inverse_layer_between<const DISTANCE: usize>(f: &mut [__m256i; 8], factors: &[Factor]) {
    for (block, &Factor(z, zq)) in factors[..4 / DISTANCE].iter().rev().enumerate() {
        let (z, zq) = (_mm256_set1_epi16(z), _mm256_set1_epi16(zq));
        for r in 0..DISTANCE {
            let low = 2 * DISTANCE * block + r;
            (f[low], f[low + DISTANCE]) = inverse_butterfly(f[low], f[low + DISTANCE], z, zq);
            if DISTANCE == 1 {
                f[low] = reduce(f[low]);
            }
        }
    }
}

/// A layer within neighbours of a half: 0 for length 8 to 2 for length 2.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn inverse_layer_within<const LAYER: usize>(f: &mut [__m256i; 8], roots: &[[Roots; 3]; 4]) {
    for (pair, roots) in f.as_chunks_mut::<2>().0.iter_mut().zip(roots) {
        let [z, zq] = &roots[LAYER];
        let (z, zq) = (registers::table(z), registers::table(zq));
        let (mut a, b) = inverse_butterfly(pair[0], pair[1], z, zq);
        if LAYER == 1 {
            a = reduce(a);
        }
        (pair[0], pair[1]) = shuffle::exchange::<LAYER>(a, b);
    }
}

/// The closing factor 2^16 / 128 of the inverse NTT (the 128^-1 of Algorithm 10).
const CLOSING: u64 = (1 << 16) / 128;

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn inv_ntt_one(p: &mut [__m256i; 16]) {
    let factors = opaque(&BROADCAST);
    let roots = opaque(&INVERSE_ROOTS).as_chunks::<4>().0;
    for (half, (p, roots)) in p.as_chunks_mut::<8>().0.iter_mut().zip(roots).enumerate() {
        let mut f = *p;
        for pair in f.as_chunks_mut::<2>().0 {
            let (a, b) = shuffle::halves(pair[0], pair[1]);
            let (a, b) = shuffle::quads(a, b);
            (pair[0], pair[1]) = shuffle::doubles(a, b);
        }
        inverse_layer_within::<2>(&mut f, roots);
        inverse_layer_within::<1>(&mut f, roots);
        inverse_layer_within::<0>(&mut f, roots);
        inverse_layer_between::<1>(&mut f, &factors[12 - 4 * half..]);
        inverse_layer_between::<2>(&mut f, &factors[6 - 2 * half..]);
        inverse_layer_between::<4>(&mut f, &factors[3 - half..]);
        *p = f;
    }
    // Layer 128, which takes in the closing factor.
    for r in 0..8 {
        let (a, b) = (p[r], p[r + 8]);
        let (sum, difference) = (_mm256_add_epi16(a, b), _mm256_sub_epi16(b, a));
        p[r] = multiply_by(sum, const { Factor::new(CLOSING) });
        p[r + 8] = multiply_by(difference, const { Factor::new(zeta(1) * CLOSING) });
    }
}

/// See [`gabion_scheme::kernels::Kernels::kem_matvec`].
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn matvec(out: &mut [KemPoly], a: &[KemPoly], v: &[KemPoly]) {
    assert_eq!(a.len(), out.len() * v.len(), "the matrix has a row for each output");
    match v.len() {
        1 => matvec_of::<1>(out, a, v),
        2 => matvec_of::<2>(out, a, v),
        3 => matvec_of::<3>(out, a, v),
        4 => matvec_of::<4>(out, a, v),
        rank => panic!("a vector has 1 to 4 polynomials, not {rank}"),
    }
    registers::clear();
}

/// With v' = (v0, gamma v1) in each pair of coefficients, a pair of the product is
/// (a . v', a . (v1, v0)), two dot products of 16-bit pairs into 32 bits (`vpmaddwd`).
///
/// |sum| <= K (2q q + 2q 2q) + ... < 4 * 8 q^2 < 2^29; Montgomery's reduction leaves at most
/// 2^29 / 2^16 + q / 2 < 2^14, Barrett's a residue.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn matvec_of<const K: usize>(out: &mut [KemPoly], a: &[KemPoly], v: &[KemPoly]) {
    let (rows, []) = a.as_chunks::<K>() else {
        return;
    };
    let Some(v) = v.first_chunk::<K>() else {
        return;
    };
    let q = _mm256_set1_epi16(KEM_Q);
    let q_inverse = _mm256_set1_epi16(Q_INVERSE);
    for r in 0..16 {
        let [z, zq] = &opaque(&GAMMAS)[r];
        let (z, zq) = (registers::table(z), registers::table(zq));
        let v: [__m256i; K] = core::array::from_fn(|j| registers::kem(&v[j])[r]);
        let mut scaled = v;
        let mut swapped = v;
        for j in 0..K {
            scaled[j] = multiply(v[j], z, zq);
            swapped[j] =
                _mm256_or_si256(_mm256_slli_epi32::<16>(v[j]), _mm256_srli_epi32::<16>(v[j]));
        }
        for (row, out) in rows.iter().zip(out.iter_mut()) {
            let mut even = _mm256_setzero_si256();
            let mut odd = _mm256_setzero_si256();
            for j in 0..K {
                let a = registers::kem(&row[j])[r];
                even = _mm256_add_epi32(even, _mm256_madd_epi16(a, scaled[j]));
                odd = _mm256_add_epi32(odd, _mm256_madd_epi16(a, swapped[j]));
            }
            // Low and high halves of all sums, interleaved again.
            let low = _mm256_blend_epi16::<0xaa>(even, _mm256_slli_epi32::<16>(odd));
            let high = _mm256_blend_epi16::<0xaa>(_mm256_srli_epi32::<16>(even), odd);
            let m = _mm256_mulhi_epi16(_mm256_mullo_epi16(low, q_inverse), q);
            registers::kem_mut(out)[r] = reduce(_mm256_sub_epi16(high, m));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrangements_pair_the_operands() {
        for (arrangement, length) in ARRANGEMENTS.iter().zip([8, 4, 2]) {
            for (a, b) in arrangement[0].iter().zip(&arrangement[1]) {
                assert_eq!(a + length / 2, *b, "{length}");
            }
        }
        let [_, quads, doubles] = ARRANGEMENTS;
        assert_eq!(exchange(&exchange(&exchange(&doubles, 1), 2), 4), in_order());
        assert_eq!(exchange(&doubles, 1), quads);
    }
}
