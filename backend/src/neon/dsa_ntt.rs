//! ML-DSA: NTT, inverse NTT and products in the NTT domain (FIPS 204, Algorithms 41 to 48).
//!
//! A polynomial fills 64 registers of 4 coefficients, twice as many as there are, so a transform takes
//! two passes: layers 128 to 32 over eight registers that lie eight apart, and the others over eight
//! neighbours. Layers 16 to 4 pair whole registers; for layers 2 and 1 neighbours exchange parts (see
//! `shuffle`), and exchange them back at the end.
//!
//! A product with a constant root is Barrett's, three multiplications (see `constants`): 8 layers x
//! 32 butterflies x (3 multiplications + 2 additions) = 1280 operations, in parallel to 256
//! exchanges.

use core::arch::aarch64::*;

use gabion_scheme::kernels::{DSA_Q, DsaPoly};

use super::constants::{DSA_BROADCAST, DSA_FORWARD, DSA_INVERSE, Factor, Roots};
use super::layers::layers;
use super::registers;
use super::shuffle::exchange;
use crate::common::constants::dsa::{Q_INVERSE, zeta};

layers! {
    int32x4_t of 4 i32 modulo DSA_Q,
    vdupq_n_s32 vld1q_s32 vaddq_s32 vsubq_s32 vmulq_s32 vmlsq_s32 vqrdmulhq_s32
}

/// NTT of each polynomial. From |x| < 2q, each of eight layers adds (1/2 + 2^-6) q at most: below
/// 6.2q.
#[target_feature(enable = "neon")]
pub(super) fn ntt(polys: &mut [DsaPoly]) {
    for p in polys {
        ntt_one(registers::dsa_mut(p));
    }
    registers::clear();
}

#[inline]
#[target_feature(enable = "neon")]
fn ntt_one(p: &mut [int32x4_t; 64]) {
    for r in 0..8 {
        let mut w =
            [p[r], p[r + 8], p[r + 16], p[r + 24], p[r + 32], p[r + 40], p[r + 48], p[r + 56]];
        layer_between::<4>(&mut w, &DSA_BROADCAST[1..]);
        layer_between::<2>(&mut w, &DSA_BROADCAST[2..]);
        layer_between::<1>(&mut w, &DSA_BROADCAST[4..]);
        for (i, w) in w.into_iter().enumerate() {
            p[r + 8 * i] = w;
        }
    }
    let roots = DSA_FORWARD.as_chunks::<4>().0;
    for (block, (p, roots)) in p.as_chunks_mut::<8>().0.iter_mut().zip(roots).enumerate() {
        let mut w = *p;
        layer_between::<4>(&mut w, &DSA_BROADCAST[8 + block..]);
        layer_between::<2>(&mut w, &DSA_BROADCAST[16 + 2 * block..]);
        layer_between::<1>(&mut w, &DSA_BROADCAST[32 + 4 * block..]);
        layer_within::<0>(&mut w, roots);
        layer_within::<1>(&mut w, roots);
        for (p, w) in p.as_chunks_mut::<2>().0.iter_mut().zip(w.as_chunks::<2>().0) {
            let (a, b) = exchange::<1>(w[0], w[1]);
            (p[0], p[1]) = exchange::<0>(a, b);
        }
    }
}

/// The closing factor 2^32 / 256 = 2^24 of the inverse NTT.
const CLOSING: u64 = 1 << 24;

/// Inverse NTT of each polynomial, times 2^32.
///
/// Sums double eight times: |x| <= 256 (q - 1) < 2^31, so no layer overflows. Products are below q for
/// any number: less than the sums of their layer, and residues at the close.
#[target_feature(enable = "neon")]
pub(super) fn inv_ntt(polys: &mut [DsaPoly]) {
    for p in polys {
        inv_ntt_one(registers::dsa_mut(p));
    }
    registers::clear();
}

/// A layer within neighbours: 0 for length 2, 1 for length 1.
#[inline]
#[target_feature(enable = "neon")]
fn inverse_layer_within<const LAYER: usize>(w: &mut [int32x4_t; 8], roots: &[Roots<i32, 4>; 4]) {
    for (pair, roots) in w.as_chunks_mut::<2>().0.iter_mut().zip(roots) {
        let (a, b) = inverse_butterfly(pair[0], pair[1], constant(&roots[LAYER]));
        (pair[0], pair[1]) = exchange::<LAYER>(a, b);
    }
}

#[inline]
#[target_feature(enable = "neon")]
fn inv_ntt_one(p: &mut [int32x4_t; 64]) {
    let roots = DSA_INVERSE.as_chunks::<4>().0;
    for (block, (p, roots)) in p.as_chunks_mut::<8>().0.iter_mut().zip(roots).enumerate() {
        let mut w = *p;
        for pair in w.as_chunks_mut::<2>().0 {
            let (a, b) = exchange::<0>(pair[0], pair[1]);
            (pair[0], pair[1]) = exchange::<1>(a, b);
        }
        inverse_layer_within::<1>(&mut w, roots);
        inverse_layer_within::<0>(&mut w, roots);
        inverse_layer_between::<1>(&mut w, &DSA_BROADCAST[60 - 4 * block..]);
        inverse_layer_between::<2>(&mut w, &DSA_BROADCAST[30 - 2 * block..]);
        inverse_layer_between::<4>(&mut w, &DSA_BROADCAST[15 - block..]);
        *p = w;
    }
    // Layer 128 takes in the closing factor.
    let sums = broadcast(const { Factor::<i32>::new(CLOSING) });
    let products = broadcast(const { Factor::<i32>::new(zeta(1) * CLOSING) });
    for r in 0..8 {
        let mut w =
            [p[r], p[r + 8], p[r + 16], p[r + 24], p[r + 32], p[r + 40], p[r + 48], p[r + 56]];
        inverse_layer_between::<1>(&mut w, &DSA_BROADCAST[4..]);
        inverse_layer_between::<2>(&mut w, &DSA_BROADCAST[2..]);
        for i in 0..4 {
            let (a, b) = (w[i], w[i + 4]);
            p[r + 8 * i] = multiply(vaddq_s32(a, b), sums);
            p[r + 8 * i + 32] = multiply(vsubq_s32(b, a), products);
        }
    }
}

/// Four sums of 64 bits.
type Sums = [int64x2_t; 2];

/// Montgomery's reduction of sums: sum / 2^32 modulo q, |result| <= |sum| / 2^32 + q / 2 + 1.
#[inline]
#[target_feature(enable = "neon")]
fn montgomery(sums: Sums) -> int32x4_t {
    let halves = |[low, high]: Sums| (vreinterpretq_s32_s64(low), vreinterpretq_s32_s64(high));
    let (low, high) = halves(sums);
    let m = vmulq_n_s32(vuzp1q_s32(low, high), Q_INVERSE);
    // The lower halves of these differences are zero.
    let (low, high) = halves([
        vmlsl_s32(sums[0], vget_low_s32(m), vdup_n_s32(DSA_Q)),
        vmlsl_high_s32(sums[1], m, vdupq_n_s32(DSA_Q)),
    ]);
    vuzp2q_s32(low, high)
}

/// See [`gabion_scheme::kernels::Kernels::dsa_matvec`].
#[target_feature(enable = "neon")]
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
#[inline]
#[target_feature(enable = "neon")]
fn matvec_of<const L: usize>(out: &mut [DsaPoly], a: &[DsaPoly], v: &[DsaPoly]) {
    let (rows, []) = a.as_chunks::<L>() else {
        return;
    };
    let Some(v) = v.first_chunk::<L>() else {
        return;
    };
    for r in 0..64 {
        let mut operands = [vdupq_n_s32(0); L];
        for (operand, v) in operands.iter_mut().zip(v) {
            *operand = registers::dsa(v)[r];
        }
        for (row, out) in rows.iter().zip(out.iter_mut()) {
            let mut sums = [vdupq_n_s64(0); 2];
            for (a, v) in row.iter().zip(operands) {
                let a = registers::dsa(a)[r];
                sums[0] = vmlal_s32(sums[0], vget_low_s32(a), vget_low_s32(v));
                sums[1] = vmlal_high_s32(sums[1], a, v);
            }
            registers::dsa_mut(out)[r] = montgomery(sums);
        }
    }
}

/// See [`gabion_scheme::kernels::Kernels::dsa_pointwise`].
/// |c v| < 100 q^2, so that |result| < 0.7q.
#[target_feature(enable = "neon")]
pub(super) fn pointwise(out: &mut [DsaPoly], c: &DsaPoly, v: &[DsaPoly]) {
    assert_eq!(out.len(), v.len(), "one output for each polynomial of the vector");
    for (out, v) in out.iter_mut().zip(v) {
        let pairs = registers::dsa(c).iter().zip(registers::dsa(v));
        for (out, (c, v)) in registers::dsa_mut(out).iter_mut().zip(pairs) {
            let low = vmull_s32(vget_low_s32(*c), vget_low_s32(*v));
            *out = montgomery([low, vmull_high_s32(*c, *v)]);
        }
    }
    registers::clear();
}
