//! ML-KEM: NTT, inverse NTT and products in the NTT domain (FIPS 203, Algorithms 9 to 12).
//!
//! A polynomial fills eight registers of 32 coefficients. Layers 128, 64 and 32 pair whole
//! registers; for layers 16 to 2 neighbouring registers exchange parts (see `shuffle`) so that the
//! operands of each butterfly lie in the same place of two registers, and at the end one
//! permutation restores the standard's order.
//!
//! A product with a constant root z is Montgomery's with R = 2^16, with z R and z R / q
//! precomputed: three multiplications. Expected on Zen 4, which multiplies 512 bits once a cycle: 7
//! layers x 4 butterflies x 3 = 84 cycles of multiplications in parallel to 40 shuffles, about 110.

use core::arch::asm;
use core::arch::x86_64::*;

use gabion_scheme::kernels::{KEM_Q, KemPoly};

use super::constants::{IN_ORDER, Pair, model};
use super::shuffle;
use crate::avx512::registers;
use crate::common::constants::kem::{Factor, Q_INVERSE, gamma, zeta};
use crate::common::memory::{self, Table};

/// Roots for the butterflies of one pair of registers at one layer, both forms.
type Roots = [Table<i16, 32>; 2];

/// The arrangements of a pair for layers 16, 8, 4, 2 of the NTT. A double word holds two
/// neighbouring coefficients, which always share their root.
const FORWARD: [Pair; 4] = {
    let halves = model::halves(&IN_ORDER);
    let quarters = model::quarters(&halves);
    let quads = model::quads(&quarters);
    [halves, quarters, quads, model::doubles(&quads)]
};
/// The arrangements for layers 2, 4, 8, 16 of the inverse NTT.
const INVERSE: [Pair; 4] = [FORWARD[3], FORWARD[2], FORWARD[1], model::halves(&FORWARD[1])];

/// Roots of the in-register layers: `[pair][layer]`, layers in the order of use.
const fn roots(inverse: bool) -> [[Roots; 4]; 4] {
    let mut out = [[[Table([0; 32]); 2]; 4]; 4];
    let mut i = 0;
    while i < 4 * 4 * 32 {
        let (pair, layer, word) = (i / 128, i / 32 % 4, i % 32);
        let length = if inverse { 2 << layer } else { 16 >> layer };
        let arrangement = if inverse { &INVERSE[layer] } else { &FORWARD[layer] };
        let coefficient = 64 * pair + 2 * arrangement[0][word / 2];
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

static FORWARD_ROOTS: [[Roots; 4]; 4] = roots(false);
static INVERSE_ROOTS: [[Roots; 4]; 4] = roots(true);
/// Indices from the last arrangement to memory order and back.
static BACK: [Table<i32, 16>; 2] = model::back(&FORWARD[3]);
static FORTH: [Table<i32, 16>; 2] = model::forth(&FORWARD[3]);

/// R for even coefficients, gamma R for odd ones (gamma of Algorithm 11): `[register][form]`.
static GAMMAS: [Roots; 8] = {
    let mut out = [[Table([0; 32]); 2]; 8];
    let mut i = 0;
    while i < 256 {
        let Factor(z, zq) = Factor::new(if i % 2 == 0 { 1 } else { gamma(i / 2) });
        out[i / 32][0].0[i % 32] = z;
        out[i / 32][1].0[i % 32] = zq;
        i += 1;
    }
    out
};

/// Montgomery product of any x with a constant in both forms: |result| < q.
///
/// |x z R| <= 2^15 q / 2 and |m q| <= 2^15 q, so the difference of the high halves is below
/// 3/4 q + 1; the low halves are equal and cancel.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn multiply(x: __m512i, z: __m512i, zq: __m512i) -> __m512i {
    let q = _mm512_set1_epi16(KEM_Q);
    let m = _mm512_mullo_epi16(x, zq);
    _mm512_sub_epi16(_mm512_mulhi_epi16(x, z), _mm512_mulhi_epi16(m, q))
}

/// Montgomery product with one constant for all coefficients.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn multiply_by(x: __m512i, Factor(z, zq): Factor) -> __m512i {
    multiply(x, _mm512_set1_epi16(z), _mm512_set1_epi16(zq))
}

/// Barrett reduction of any |x| < 2^15: |result| < q, and at most q / 2 + 55 where |x| <= 4q.
///
/// The quotient is round(x * 10 / 2^15) with 10 / 2^15 = 1.016 / q; on the whole range the
/// remainder stays within 1665 + 0.016 * 2^15 = 2178.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn reduce(x: __m512i) -> __m512i {
    let quotient = _mm512_mulhrs_epi16(x, _mm512_set1_epi16(10));
    _mm512_sub_epi16(x, _mm512_mullo_epi16(quotient, _mm512_set1_epi16(KEM_Q)))
}

/// NTT of each polynomial. |x| grows from 2q by less than 0.75q + 1 a layer, to 7.3q < 2^15.
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn ntt(polys: &mut [KemPoly]) {
    let (pairs, rest) = polys.as_chunks_mut::<2>();
    for pair in pairs {
        ntt_of(pair);
    }
    for p in rest.as_chunks_mut::<1>().0 {
        ntt_of(p);
    }
    registers::clear();
}

/// A layer between registers that lie `DISTANCE` apart.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn layer_between<const DISTANCE: usize, const P: usize>(f: &mut [[__m512i; 8]; P]) {
    for block in 0..const { 4 / DISTANCE } {
        let Factor(z, zq) = BROADCAST[4 / DISTANCE + block];
        let (z, zq) = (_mm512_set1_epi16(z), _mm512_set1_epi16(zq));
        for r in 0..DISTANCE {
            let low = 2 * DISTANCE * block + r;
            for f in f.iter_mut() {
                let t = multiply(f[low + DISTANCE], z, zq);
                f[low + DISTANCE] = _mm512_sub_epi16(f[low], t);
                f[low] = _mm512_add_epi16(f[low], t);
            }
        }
    }
}

/// A layer within pairs of registers: 0 for length 16 to 3 for length 2.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn layer_within<const LAYER: usize, const P: usize>(
    f: &mut [[__m512i; 8]; P],
    roots: &[[Roots; 4]; 4],
    masks: shuffle::Masks,
) {
    for pair in 0..4 {
        let [z, zq] = &roots[pair][LAYER];
        let (z, zq) = (registers::table(z), registers::table(zq));
        for f in f.iter_mut() {
            let (a, b) = (f[2 * pair], f[2 * pair + 1]);
            let (a, b) = match LAYER {
                0 => shuffle::halves(a, b),
                1 => shuffle::quarters(a, b),
                2 => shuffle::quads(a, b),
                _ => shuffle::doubles(a, b, masks),
            };
            let t = multiply(b, z, zq);
            f[2 * pair] = _mm512_add_epi16(a, t);
            f[2 * pair + 1] = _mm512_sub_epi16(a, t);
        }
    }
}

#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn ntt_of<const P: usize>(polys: &mut [KemPoly; P]) {
    let masks = shuffle::Masks::new();
    let roots = memory::opaque(&FORWARD_ROOTS);
    let mut f = polys.each_ref().map(|p| *registers::kem(p));
    layer_between::<4, P>(&mut f);
    layer_between::<2, P>(&mut f);
    layer_between::<1, P>(&mut f);
    layer_within::<0, P>(&mut f, roots, masks);
    layer_within::<1, P>(&mut f, roots, masks);
    layer_within::<2, P>(&mut f, roots, masks);
    layer_within::<3, P>(&mut f, roots, masks);
    let [first, second] = &BACK;
    let (first, second) = (registers::table(first), registers::table(second));
    for (f, p) in f.iter().zip(polys) {
        let p = registers::kem_mut(p);
        for pair in 0..4 {
            let (a, b) = (reduce(f[2 * pair]), reduce(f[2 * pair + 1]));
            p[2 * pair] = _mm512_permutex2var_epi32(a, first, b);
            p[2 * pair + 1] = _mm512_permutex2var_epi32(a, second, b);
        }
    }
}

/// Roots of the layers between registers.
static BROADCAST: [Factor; 8] = {
    let mut factors = [Factor(0, 0); 8];
    let mut i = 1;
    while i < 8 {
        factors[i] = Factor::new(zeta(i));
        i += 1;
    }
    factors
};

/// Inverse NTT of each polynomial, times 2^16.
///
/// In units of q: sums at most double, products are below 0.76. From 2: 4, 8 (reduced to 0.66),
/// 1.52, 3.04 (reduced), 1.52, 3.04, 6.08 at the last, all below 2^15 / q = 9.84.
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn inv_ntt(polys: &mut [KemPoly]) {
    let (pairs, rest) = polys.as_chunks_mut::<2>();
    for pair in pairs {
        inv_ntt_of(pair);
    }
    for p in rest.as_chunks_mut::<1>().0 {
        inv_ntt_of(p);
    }
    registers::clear();
}

/// A layer within pairs of registers: 0 for length 2 to 3 for length 16.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn inverse_layer_within<const LAYER: usize, const P: usize>(
    f: &mut [[__m512i; 8]; P],
    roots: &[[Roots; 4]; 4],
    masks: shuffle::Masks,
) {
    for pair in 0..4 {
        let [z, zq] = &roots[pair][LAYER];
        let (z, zq) = (registers::table(z), registers::table(zq));
        for f in f.iter_mut() {
            let (a, b) = (f[2 * pair], f[2 * pair + 1]);
            let product = multiply(_mm512_sub_epi16(b, a), z, zq);
            let mut sum = _mm512_add_epi16(a, b);
            if LAYER % 2 == 1 {
                sum = reduce(sum);
            }
            (f[2 * pair], f[2 * pair + 1]) = match LAYER {
                0 => shuffle::doubles(sum, product, masks),
                1 => shuffle::quads(sum, product),
                2 => shuffle::halves(sum, product),
                _ => shuffle::quarters(sum, product),
            };
        }
    }
}

/// A layer between registers that lie `DISTANCE` apart.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn inverse_layer_between<const DISTANCE: usize, const P: usize>(f: &mut [[__m512i; 8]; P]) {
    for block in 0..const { 4 / DISTANCE } {
        let Factor(z, zq) = BROADCAST[8 / DISTANCE - 1 - block];
        let (z, zq) = (_mm512_set1_epi16(z), _mm512_set1_epi16(zq));
        for r in 0..DISTANCE {
            let low = 2 * DISTANCE * block + r;
            for f in f.iter_mut() {
                let difference = _mm512_sub_epi16(f[low + DISTANCE], f[low]);
                f[low] = _mm512_add_epi16(f[low], f[low + DISTANCE]);
                f[low + DISTANCE] = multiply(difference, z, zq);
            }
        }
    }
}

/// The closing factor 2^16 / 128 of the inverse NTT (the 128^-1 of Algorithm 10).
const CLOSING: u64 = (1 << 16) / 128;

#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn inv_ntt_of<const P: usize>(polys: &mut [KemPoly; P]) {
    let masks = shuffle::Masks::new();
    let roots = memory::opaque(&INVERSE_ROOTS);
    let mut f = polys.each_ref().map(|p| *registers::kem(p));
    let [first, second] = &FORTH;
    let (first, second) = (registers::table(first), registers::table(second));
    for f in &mut f {
        for pair in 0..4 {
            let (a, b) = (f[2 * pair], f[2 * pair + 1]);
            f[2 * pair] = _mm512_permutex2var_epi32(a, first, b);
            f[2 * pair + 1] = _mm512_permutex2var_epi32(a, second, b);
        }
    }
    inverse_layer_within::<0, P>(&mut f, roots, masks);
    inverse_layer_within::<1, P>(&mut f, roots, masks);
    inverse_layer_within::<2, P>(&mut f, roots, masks);
    inverse_layer_within::<3, P>(&mut f, roots, masks);
    inverse_layer_between::<1, P>(&mut f);
    inverse_layer_between::<2, P>(&mut f);
    // Layer 128, which takes in the closing factor.
    for (f, p) in f.iter().zip(polys) {
        let p = registers::kem_mut(p);
        for r in 0..4 {
            let difference = _mm512_sub_epi16(f[r + 4], f[r]);
            let sum = _mm512_add_epi16(f[r], f[r + 4]);
            p[r] = multiply_by(sum, const { Factor::new(CLOSING) });
            p[r + 4] = multiply_by(difference, const { Factor::new(zeta(1) * CLOSING) });
        }
    }
}

/// sum + a . b, the dot product of each pair of words (`vpdpwssd`).
///
/// As an intrinsic it comes out as a multiplication and an addition, which LLVM believes quicker.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn add_dot(mut sum: __m512i, a: __m512i, b: __m512i) -> __m512i {
    // SAFETY: arithmetic on registers.
    unsafe {
        asm!("vpdpwssd {0}, {1}, {2}", inout(zmm_reg) sum, in(zmm_reg) a, in(zmm_reg) b,
            options(pure, nomem, nostack, preserves_flags));
    }
    sum
}

/// See [`gabion_scheme::kernels::Kernels::kem_matvec`].
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn matvec(out: &mut [KemPoly], a: &[KemPoly], v: &[KemPoly]) {
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
/// (a . v', a . (v1, v0)), two dot products of 16-bit pairs into 32 bits (`vpdpwssd`).
///
/// |sum| <= 4 * 2 q^2 < 2^27; Montgomery's reduction leaves at most 2^11 + q / 2 + 1 < q.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn matvec_of<const K: usize>(out: &mut [KemPoly], a: &[KemPoly], v: &[KemPoly]) {
    let (rows, []) = a.as_chunks::<K>() else {
        return;
    };
    let Some(v) = v.first_chunk::<K>() else {
        return;
    };
    let q = _mm512_set1_epi16(KEM_Q);
    let q_inverse = _mm512_set1_epi16(Q_INVERSE);
    for r in 0..8 {
        let [z, zq] = &memory::opaque(&GAMMAS)[r];
        let (z, zq) = (registers::table(z), registers::table(zq));
        let v: [__m512i; K] = core::array::from_fn(|j| registers::kem(&v[j])[r]);
        let mut scaled = v;
        let mut swapped = v;
        for j in 0..K {
            scaled[j] = multiply(v[j], z, zq);
            swapped[j] = _mm512_rol_epi32::<16>(v[j]);
        }
        for (row, out) in rows.iter().zip(out.iter_mut()) {
            let mut even = _mm512_setzero_si512();
            let mut odd = _mm512_setzero_si512();
            for j in 0..K {
                let a = registers::kem(&row[j])[r];
                even = add_dot(even, a, scaled[j]);
                odd = add_dot(odd, a, swapped[j]);
            }
            // Low and high halves of all sums, interleaved again.
            let low = _mm512_mask_blend_epi16(0xaaaa_aaaa, even, _mm512_slli_epi32::<16>(odd));
            let high = _mm512_mask_blend_epi16(0xaaaa_aaaa, _mm512_srli_epi32::<16>(even), odd);
            let m = _mm512_mulhi_epi16(_mm512_mullo_epi16(low, q_inverse), q);
            registers::kem_mut(out)[r] = _mm512_sub_epi16(high, m);
        }
    }
}

/// Multiplies by 2^16, in place.
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn to_mont(polys: &mut [KemPoly]) {
    for p in polys {
        for x in registers::kem_mut(p) {
            *x = multiply_by(*x, const { Factor::new(1 << 16) });
        }
    }
    registers::clear();
}

/// `acc[i] += b[i]`, reduced.
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn add(acc: &mut [KemPoly], b: &[KemPoly]) {
    assert_eq!(acc.len(), b.len(), "as many to add as to add to");
    for (acc, b) in acc.iter_mut().zip(b) {
        for (x, y) in registers::kem_mut(acc).iter_mut().zip(registers::kem(b)) {
            *x = reduce(_mm512_add_epi16(*x, *y));
        }
    }
    registers::clear();
}

/// `acc = a - acc`, reduced.
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn sub_from(a: &KemPoly, acc: &mut KemPoly) {
    for (x, y) in registers::kem_mut(acc).iter_mut().zip(registers::kem(a)) {
        *x = reduce(_mm512_sub_epi16(*y, *x));
    }
    registers::clear();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrangements_pair_the_operands() {
        for (layer, length) in [16, 8, 4, 2].into_iter().enumerate() {
            for arrangement in [&FORWARD[layer], &INVERSE[3 - layer]] {
                for (a, b) in arrangement[0].iter().zip(&arrangement[1]) {
                    assert_eq!(a + length / 2, *b, "{length}");
                }
            }
        }
        assert_eq!(model::quarters(&INVERSE[3]), IN_ORDER);
    }
}
