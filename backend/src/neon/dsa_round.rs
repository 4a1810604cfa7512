//! ML-DSA: norms, small products on their way back from ML-KEM's 16-bit ring, and what works on each
//! coefficient by itself.
//!
//! The last is the portable code: the compiler, which takes NEON for granted on these processors, makes
//! of its loops what one would write by hand.

use core::arch::aarch64::*;

use gabion_scheme::kernels::{DSA_Q, DsaPoly, KEM_Q, KemPoly};

use super::registers;
use crate::portable::dsa;

macro_rules! compiled {
    ($($kernel:ident($($argument:ident: $kind:ty),*) $(-> $result:ty)?;)*) => {$(
        #[target_feature(enable = "neon")]
        pub(super) fn $kernel($($argument: $kind),*) $(-> $result)? {
            let result = dsa::$kernel($($argument),*);
            registers::clear();
            result
        }
    )*};
}

compiled! {
    add(acc: &mut [DsaPoly], b: &[DsaPoly]);
    sub(acc: &mut [DsaPoly], b: &[DsaPoly]);
    shift_left_d(polys: &mut [DsaPoly]);
    power2round(t: &DsaPoly, t1: &mut DsaPoly, t0: &mut DsaPoly);
    decompose(gamma2: i32, r: &DsaPoly, r1: &mut DsaPoly, r0: &mut DsaPoly);
    make_hint(gamma2: i32, r0: &DsaPoly, r1: &DsaPoly, hint: &mut DsaPoly) -> usize;
    use_hint(gamma2: i32, hint: &DsaPoly, r: &DsaPoly, out: &mut DsaPoly);
}

/// See [`gabion_scheme::kernels::Kernels::dsa_norm_below`]. |x mod+- q| is the smaller one of |x|
/// and q - |x|; the greatest of all is compared once.
#[target_feature(enable = "neon")]
pub(super) fn norm_below(polys: &[DsaPoly], bound: i32) -> bool {
    assert!(bound <= (DSA_Q - 1) / 8, "the bound is at most (q - 1) / 8, not {bound}");
    let q = vdupq_n_s32(DSA_Q);
    let mut greatest = [vdupq_n_s32(0); 4];
    for p in polys {
        for four in registers::dsa(p).as_chunks::<4>().0 {
            for (greatest, x) in greatest.iter_mut().zip(four) {
                let size = vabsq_s32(*x);
                *greatest = vmaxq_s32(*greatest, vminq_s32(size, vsubq_s32(q, size)));
            }
        }
    }
    let [a, b, c, d] = greatest;
    let below = vmaxvq_s32(vmaxq_s32(vmaxq_s32(a, b), vmaxq_s32(c, d))) < bound;
    registers::clear();
    below
}

/// Eight residues as the integers next to zero, widened: the first four and the others.
#[inline]
#[target_feature(enable = "neon")]
fn centred(x: int16x8_t) -> [int32x4_t; 2] {
    let q = vdupq_n_s16(KEM_Q);
    // A negative residue is a large unsigned number, so the smaller one is in 0..q.
    let up = vreinterpretq_u16_s16(vaddq_s16(x, q));
    let canonical = vreinterpretq_s16_u16(vminq_u16(vreinterpretq_u16_s16(x), up));
    let upper = vreinterpretq_s16_u16(vcgtq_s16(canonical, vdupq_n_s16(KEM_Q / 2)));
    let near = vsubq_s16(canonical, vandq_s16(upper, q));
    [vmovl_s16(vget_low_s16(near)), vmovl_high_s16(near)]
}

/// `acc += s`, not reduced. |s| <= 1664 in each coefficient, so the sum stays below 2^31 by far.
#[target_feature(enable = "neon")]
pub(super) fn add_small(acc: &mut DsaPoly, s: &KemPoly) {
    let pairs = registers::dsa_mut(acc).as_chunks_mut::<2>().0;
    for (pair, s) in pairs.iter_mut().zip(registers::kem(s)) {
        let [first, second] = centred(*s);
        *pair = [vaddq_s32(pair[0], first), vaddq_s32(pair[1], second)];
    }
    registers::clear();
}

/// `acc -= s`, not reduced.
#[target_feature(enable = "neon")]
pub(super) fn sub_small(acc: &mut DsaPoly, s: &KemPoly) {
    let pairs = registers::dsa_mut(acc).as_chunks_mut::<2>().0;
    for (pair, s) in pairs.iter_mut().zip(registers::kem(s)) {
        let [first, second] = centred(*s);
        *pair = [vsubq_s32(pair[0], first), vsubq_s32(pair[1], second)];
    }
    registers::clear();
}
