//! ML-KEM: NTT, inverse NTT and products in the NTT domain (FIPS 203, Algorithms 9 to 12).
//!
//! A polynomial fills 32 registers of 8 coefficients, all there are, so a transform takes two passes:
//! layers 128 to 32 over eight registers that lie four apart, and the others over eight neighbours.
//! Layers 16 and 8 pair whole registers; for layers 4 and 2 neighbours exchange parts (see `shuffle`),
//! and exchange them back at the end.
//!
//! A product with a constant root is Barrett's, three multiplications (see `constants`): 7 layers x
//! 16 butterflies x (3 multiplications + 2 additions) = 560 operations, in parallel to 128
//! exchanges.

use core::arch::aarch64::*;

use gabion_scheme::kernels::{KEM_Q, KemPoly};

use super::constants::{Factor, KEM_BROADCAST, KEM_FORWARD, KEM_GAMMAS, KEM_INVERSE, Roots};
use super::layers::layers;
use super::{registers, shuffle};
use crate::common::constants::kem::{Q_INVERSE, zeta};

layers! {
    int16x8_t of 8 i16 modulo KEM_Q,
    vdupq_n_s16 vld1q_s16 vaddq_s16 vsubq_s16 vmulq_s16 vmlsq_s16 vqrdmulhq_s16
}

/// Barrett reduction of any |x| < 2^15: |result| < q, and at most q / 2 + 0.016 |x| + 1.
///
/// The quotient is round(x * 10 / 2^15) with 10 / 2^15 = 1.016 / q; on the whole range the
/// remainder stays within 1665 + 0.016 * 2^15 = 2190.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn reduce(x: int16x8_t) -> int16x8_t {
    vmlsq_s16(x, vqrdmulhq_n_s16(x, 10), vdupq_n_s16(KEM_Q))
}

/// Exchanges parts of two registers for a layer within them.
#[inline]
#[target_feature(enable = "neon")]
fn exchange<const LAYER: usize>(a: int16x8_t, b: int16x8_t) -> (int16x8_t, int16x8_t) {
    let (a, b) = (vreinterpretq_s32_s16(a), vreinterpretq_s32_s16(b));
    let (a, b) = shuffle::exchange::<LAYER>(a, b);
    (vreinterpretq_s16_s32(a), vreinterpretq_s16_s32(b))
}

/// NTT of each polynomial. |x| grows from 2q by (1/2 + |x| / 2^16) q a layer, to 6.92q < 2^15.
#[target_feature(enable = "neon")]
pub(super) fn ntt(polys: &mut [KemPoly]) {
    for p in polys {
        ntt_one(registers::kem_mut(p));
    }
    registers::clear();
}

#[inline]
#[target_feature(enable = "neon")]
fn ntt_one(p: &mut [int16x8_t; 32]) {
    for r in 0..4 {
        let mut f =
            [p[r], p[r + 4], p[r + 8], p[r + 12], p[r + 16], p[r + 20], p[r + 24], p[r + 28]];
        layer_between::<4>(&mut f, &KEM_BROADCAST[1..]);
        layer_between::<2>(&mut f, &KEM_BROADCAST[2..]);
        layer_between::<1>(&mut f, &KEM_BROADCAST[4..]);
        for (i, f) in f.into_iter().enumerate() {
            p[r + 4 * i] = f;
        }
    }
    let roots = KEM_FORWARD.as_chunks::<4>().0;
    for (block, (p, roots)) in p.as_chunks_mut::<8>().0.iter_mut().zip(roots).enumerate() {
        let mut f = *p;
        for (i, f) in f.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            let c = broadcast(KEM_BROADCAST[8 + 2 * block + i]);
            (f[0], f[2]) = butterfly(f[0], f[2], c);
            (f[1], f[3]) = butterfly(f[1], f[3], c);
        }
        layer_between::<1>(&mut f, &KEM_BROADCAST[16 + 4 * block..]);
        layer_within::<0>(&mut f, roots);
        layer_within::<1>(&mut f, roots);
        for (p, f) in p.as_chunks_mut::<2>().0.iter_mut().zip(f.as_chunks::<2>().0) {
            let (a, b) = exchange::<1>(reduce(f[0]), reduce(f[1]));
            (p[0], p[1]) = exchange::<0>(a, b);
        }
    }
}

/// The closing factor 2^16 / 128 of the inverse NTT (the 128^-1 of Algorithm 10).
const CLOSING: u64 = (1 << 16) / 128;

/// Inverse NTT of each polynomial, times 2^16.
///
/// In units of q: sums at most double, and a product of b is below 1/2 + b / 19.6. From 2, and twice
/// that before layer 4: sums 4, 8 (reduced to 0.64), products 0.91; then sums 1.82, 3.64 (reduced to
/// 0.57), products 0.69; then sums 1.38, 2.76, 5.52 at the last, all below 2^15 / q = 9.84.
#[target_feature(enable = "neon")]
pub(super) fn inv_ntt(polys: &mut [KemPoly]) {
    for p in polys {
        inv_ntt_one(registers::kem_mut(p));
    }
    registers::clear();
}

/// A layer within neighbours: 0 for length 4, whose sums are reduced, and 1 for length 2.
#[inline]
#[target_feature(enable = "neon")]
fn inverse_layer_within<const LAYER: usize>(f: &mut [int16x8_t; 8], roots: &[Roots<i16, 8>; 4]) {
    for (pair, roots) in f.as_chunks_mut::<2>().0.iter_mut().zip(roots) {
        let (mut a, b) = inverse_butterfly(pair[0], pair[1], constant(&roots[LAYER]));
        if LAYER == 0 {
            a = reduce(a);
        }
        (pair[0], pair[1]) = exchange::<LAYER>(a, b);
    }
}

#[inline]
#[target_feature(enable = "neon")]
fn inv_ntt_one(p: &mut [int16x8_t; 32]) {
    let roots = KEM_INVERSE.as_chunks::<4>().0;
    for (block, (p, roots)) in p.as_chunks_mut::<8>().0.iter_mut().zip(roots).enumerate() {
        let mut f = *p;
        for pair in f.as_chunks_mut::<2>().0 {
            let (a, b) = exchange::<0>(pair[0], pair[1]);
            (pair[0], pair[1]) = exchange::<1>(a, b);
        }
        inverse_layer_within::<1>(&mut f, roots);
        inverse_layer_within::<0>(&mut f, roots);
        inverse_layer_between::<1>(&mut f, &KEM_BROADCAST[28 - 4 * block..]);
        for (i, f) in f.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            let c = broadcast(KEM_BROADCAST[15 - 2 * block - i]);
            (f[0], f[2]) = inverse_butterfly(f[0], f[2], c);
            (f[1], f[3]) = inverse_butterfly(f[1], f[3], c);
            (f[0], f[1]) = (reduce(f[0]), reduce(f[1]));
        }
        *p = f;
    }
    // Layer 128 takes in the closing factor.
    let sums = broadcast(const { Factor::<i16>::new(CLOSING) });
    let products = broadcast(const { Factor::<i16>::new(zeta(1) * CLOSING) });
    for r in 0..4 {
        let mut f =
            [p[r], p[r + 4], p[r + 8], p[r + 12], p[r + 16], p[r + 20], p[r + 24], p[r + 28]];
        inverse_layer_between::<1>(&mut f, &KEM_BROADCAST[4..]);
        inverse_layer_between::<2>(&mut f, &KEM_BROADCAST[2..]);
        for i in 0..4 {
            let (a, b) = (f[i], f[i + 4]);
            p[r + 4 * i] = multiply(vaddq_s16(a, b), sums);
            p[r + 4 * i + 16] = multiply(vsubq_s16(b, a), products);
        }
    }
}

/// See [`gabion_scheme::kernels::Kernels::kem_to_mont`].
#[target_feature(enable = "neon")]
pub(super) fn to_mont(polys: &mut [KemPoly]) {
    let c = broadcast(const { Factor::<i16>::new(1 << 16) });
    for x in polys.iter_mut().flat_map(registers::kem_mut) {
        *x = multiply(*x, c);
    }
    registers::clear();
}

/// See [`gabion_scheme::kernels::Kernels::kem_add`].
#[target_feature(enable = "neon")]
pub(super) fn add(acc: &mut [KemPoly], b: &[KemPoly]) {
    assert_eq!(acc.len(), b.len(), "as many to add as to add to");
    for (acc, b) in acc.iter_mut().zip(b) {
        for (x, y) in registers::kem_mut(acc).iter_mut().zip(registers::kem(b)) {
            *x = reduce(vaddq_s16(*x, *y));
        }
    }
    registers::clear();
}

/// See [`gabion_scheme::kernels::Kernels::kem_sub_from`].
#[target_feature(enable = "neon")]
pub(super) fn sub_from(a: &KemPoly, acc: &mut KemPoly) {
    for (x, a) in registers::kem_mut(acc).iter_mut().zip(registers::kem(a)) {
        *x = reduce(vsubq_s16(*a, *x));
    }
    registers::clear();
}

/// See [`gabion_scheme::kernels::Kernels::kem_matvec`].
#[target_feature(enable = "neon")]
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

/// The even and the odd coefficients of 16.
#[inline]
#[target_feature(enable = "neon")]
fn load_pairs(p: &KemPoly, eight: usize) -> [int16x8_t; 2] {
    let words: &[i16; 16] = &p.0.as_chunks().0[eight];
    // SAFETY: sixteen words.
    let int16x8x2_t(even, odd) = unsafe { vld2q_s16(words.as_ptr()) };
    [even, odd]
}

/// Eight sums of 32 bits.
type Sums = [int32x4_t; 2];

#[inline]
#[target_feature(enable = "neon")]
fn add_products(sums: &mut Sums, a: int16x8_t, b: int16x8_t) {
    sums[0] = vmlal_s16(sums[0], vget_low_s16(a), vget_low_s16(b));
    sums[1] = vmlal_high_s16(sums[1], a, b);
}

/// Montgomery's reduction of sums: sum / 2^16 modulo q, |result| <= |sum| / 2^16 + q / 2 + 1.
#[inline]
#[target_feature(enable = "neon")]
fn montgomery(sums: Sums) -> int16x8_t {
    let halves = |[low, high]: Sums| (vreinterpretq_s16_s32(low), vreinterpretq_s16_s32(high));
    let (low, high) = halves(sums);
    let m = vmulq_n_s16(vuzp1q_s16(low, high), Q_INVERSE);
    // The lower halves of these differences are zero.
    let (low, high) = halves([
        vmlsl_s16(sums[0], vget_low_s16(m), vdup_n_s16(KEM_Q)),
        vmlsl_high_s16(sums[1], m, vdupq_n_s16(KEM_Q)),
    ]);
    vuzp2q_s16(low, high)
}

/// Eight pairs of coefficients at a time: even and odd ones apart, and gamma times the odd ones of the
/// vector once for all rows.
///
/// |sum| <= K 2 q^2 <= 2^26.4, so that |result| < 0.91q.
#[inline]
#[target_feature(enable = "neon")]
fn matvec_of<const K: usize>(out: &mut [KemPoly], a: &[KemPoly], v: &[KemPoly]) {
    let (rows, []) = a.as_chunks::<K>() else {
        return;
    };
    let Some(v) = v.first_chunk::<K>() else {
        return;
    };
    for (eight, gammas) in KEM_GAMMAS.iter().enumerate() {
        let gammas = constant(gammas);
        let zero = vdupq_n_s16(0);
        // Even, odd, and gamma times odd.
        let mut operands = [[zero; 3]; K];
        for (operand, v) in operands.iter_mut().zip(v) {
            let [even, odd] = load_pairs(v, eight);
            *operand = [even, odd, multiply(odd, gammas)];
        }
        for (row, out) in rows.iter().zip(out.iter_mut()) {
            let mut evens = [vdupq_n_s32(0); 2];
            let mut odds = [vdupq_n_s32(0); 2];
            for (a, [even, odd, scaled]) in row.iter().zip(operands) {
                let [a_even, a_odd] = load_pairs(a, eight);
                add_products(&mut evens, a_even, even);
                add_products(&mut evens, a_odd, scaled);
                add_products(&mut odds, a_even, odd);
                add_products(&mut odds, a_odd, even);
            }
            let target: &mut [i16; 16] = &mut out.0.as_chunks_mut().0[eight];
            let pairs = int16x8x2_t(montgomery(evens), montgomery(odds));
            // SAFETY: sixteen words.
            unsafe { vst2q_s16(target.as_mut_ptr(), pairs) };
        }
    }
}
