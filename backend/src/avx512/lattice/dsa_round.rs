//! ML-DSA: rounding, hints and norms (FIPS 204, Algorithms 35 to 40), 16 coefficients a register.
//!
//! Numbers of 0..q and below come from comparisons as unsigned numbers, where a negative number is
//! the greater one: `min(x, x + q)` is x or, where x is negative, x + q.

use core::arch::x86_64::*;

use gabion_scheme::kernels::{DSA_Q, DsaPoly};

use crate::avx512::registers;

/// The representative in 0..q of a residue.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn canonical(x: __m512i) -> __m512i {
    _mm512_min_epu32(x, _mm512_add_epi32(x, _mm512_set1_epi32(DSA_Q)))
}

/// See [`gabion_scheme::kernels::Kernels::dsa_power2round`]. Halves are rounded down.
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn power2round(t: &DsaPoly, t1: &mut DsaPoly, t0: &mut DsaPoly) {
    let half = _mm512_set1_epi32((1 << 12) - 1);
    let outputs = registers::dsa_mut(t1).iter_mut().zip(registers::dsa_mut(t0));
    for (t, (t1, t0)) in registers::dsa(t).iter().zip(outputs) {
        let r = canonical(*t);
        let high = _mm512_srli_epi32::<13>(_mm512_add_epi32(r, half));
        *t1 = high;
        *t0 = _mm512_sub_epi32(r, _mm512_slli_epi32::<13>(high));
    }
    registers::clear();
}

/// The constants of Decompose for one gamma2.
trait Gamma2 {
    const GAMMA2: i32;
    /// m: how many values HighBits has.
    const M: i32 = (DSA_Q - 1) / (2 * Self::GAMMA2);
    /// 2 gamma2 is an odd number, below 2^10, times this power of two.
    const SHIFT: u32 = (2 * Self::GAMMA2).trailing_zeros();
    /// A little above 2^25 / (odd part of 2 gamma2). Numerators are below 2^15, so that quotients
    /// by the odd part are exact.
    const RECIPROCAL: i32 = (1 << 25) / ((2 * Self::GAMMA2) >> Self::SHIFT) + 1;
}

struct Gamma2Of88;
impl Gamma2 for Gamma2Of88 {
    const GAMMA2: i32 = (DSA_Q - 1) / 88;
}

struct Gamma2Of32;
impl Gamma2 for Gamma2Of32 {
    const GAMMA2: i32 = (DSA_Q - 1) / 32;
}

/// The quotient of Decompose (Algorithm 36) for 16 numbers in 0..q, and its product with 2 gamma2.
///
/// ceil((r - gamma2) / (2 gamma2)), since mod+- rounds halves down: 0 to m, where m is to wrap to
/// 0.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn quotient_16<G: Gamma2>(r: __m512i) -> (__m512i, __m512i) {
    let numerator = _mm512_add_epi32(r, _mm512_set1_epi32(G::GAMMA2 - 1));
    let numerator = _mm512_srl_epi32(numerator, _mm_cvtsi32_si128(G::SHIFT as i32));
    let product = _mm512_mullo_epi32(numerator, _mm512_set1_epi32(G::RECIPROCAL));
    let quotient = _mm512_srli_epi32::<25>(product);
    let product = _mm512_mullo_epi32(quotient, _mm512_set1_epi32(2 * G::GAMMA2));
    (quotient, product)
}

/// See [`gabion_scheme::kernels::Kernels::dsa_decompose`].
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn decompose(gamma2: i32, r: &DsaPoly, r1: &mut DsaPoly, r0: &mut DsaPoly) {
    match gamma2 {
        Gamma2Of88::GAMMA2 => decompose_all::<Gamma2Of88>(r, r1, r0),
        Gamma2Of32::GAMMA2 => decompose_all::<Gamma2Of32>(r, r1, r0),
        _ => panic!("gamma2 is (q - 1) / 88 or (q - 1) / 32, not {gamma2}"),
    }
    registers::clear();
}

#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn decompose_all<G: Gamma2>(r: &DsaPoly, r1: &mut DsaPoly, r0: &mut DsaPoly) {
    let outputs = registers::dsa_mut(r1).iter_mut().zip(registers::dsa_mut(r0));
    for (r, (r1, r0)) in registers::dsa(r).iter().zip(outputs) {
        let r = canonical(*r);
        let (quotient, product) = quotient_16::<G>(r);
        // Where r - r0 = q - 1, r1 wraps to 0 and r0 loses 1.
        let wraps = _mm512_cmpeq_epi32_mask(quotient, _mm512_set1_epi32(G::M));
        let rest = _mm512_sub_epi32(r, product);
        *r1 = _mm512_mask_sub_epi32(quotient, wraps, quotient, quotient);
        *r0 = _mm512_mask_add_epi32(rest, wraps, rest, _mm512_set1_epi32(-1));
    }
}

/// See [`gabion_scheme::kernels::Kernels::dsa_make_hint`]. In 0..q, centred values above gamma2 or
/// below -gamma2 are those of gamma2 + 1 to q - gamma2 - 1, and -gamma2 is q - gamma2.
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn make_hint(gamma2: i32, r0: &DsaPoly, r1: &DsaPoly, hint: &mut DsaPoly) -> usize {
    let first = _mm512_set1_epi32(gamma2 + 1);
    let count = _mm512_set1_epi32(DSA_Q - 2 * gamma2 - 1);
    let edge = _mm512_set1_epi32(DSA_Q - gamma2);
    let mut ones = 0;
    let inputs = registers::dsa(r0).iter().zip(registers::dsa(r1));
    for ((r0, r1), hint) in inputs.zip(registers::dsa_mut(hint)) {
        let r0 = canonical(*r0);
        let beyond = _mm512_cmplt_epu32_mask(_mm512_sub_epi32(r0, first), count);
        let high = _mm512_test_epi32_mask(*r1, *r1);
        let carried = beyond | _mm512_mask_cmpeq_epi32_mask(high, r0, edge);
        *hint = _mm512_maskz_set1_epi32(carried, 1);
        ones += carried.count_ones();
    }
    registers::clear();
    ones as usize
}

/// See [`gabion_scheme::kernels::Kernels::dsa_use_hint`].
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn use_hint(gamma2: i32, hint: &DsaPoly, r: &DsaPoly, out: &mut DsaPoly) {
    match gamma2 {
        Gamma2Of88::GAMMA2 => use_hint_all::<Gamma2Of88>(hint, r, out),
        Gamma2Of32::GAMMA2 => use_hint_all::<Gamma2Of32>(hint, r, out),
        _ => panic!("gamma2 is (q - 1) / 88 or (q - 1) / 32, not {gamma2}"),
    }
    registers::clear();
}

#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn use_hint_all<G: Gamma2>(hint: &DsaPoly, r: &DsaPoly, out: &mut DsaPoly) {
    let m = _mm512_set1_epi32(G::M);
    let one = _mm512_set1_epi32(1);
    let inputs = registers::dsa(hint).iter().zip(registers::dsa(r));
    for ((hint, r), out) in inputs.zip(registers::dsa_mut(out)) {
        let r = canonical(*r);
        let (r1, product) = quotient_16::<G>(r);
        // One step up where r0 > 0, one down elsewhere, none without a hint; then modulo m, which
        // also wraps r1 = m. (There r0 <= 0 before and after, so that the step is the same.)
        let positive = _mm512_srai_epi32::<31>(_mm512_sub_epi32(product, r));
        let hinted = _mm512_sub_epi32(_mm512_setzero_si512(), *hint);
        // (!positive | 1) & hinted: -1 and 1 where hinted is all ones.
        let step = _mm512_ternarylogic_epi32::<0x8a>(positive, one, hinted);
        let x = _mm512_add_epi32(r1, step);
        let x = _mm512_min_epu32(x, _mm512_add_epi32(x, m));
        *out = _mm512_min_epu32(x, _mm512_sub_epi32(x, m));
    }
}

/// See [`gabion_scheme::kernels::Kernels::dsa_norm_below`]. |x mod+- q| is the smaller one of |x|
/// and q - |x|; the greatest of all is compared once.
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn norm_below(polys: &[DsaPoly], bound: i32) -> bool {
    assert!(bound <= (DSA_Q - 1) / 8, "the bound is at most (q - 1) / 8, not {bound}");
    let q = _mm512_set1_epi32(DSA_Q);
    let mut greatest = [_mm512_setzero_si512(); 4];
    for p in polys {
        for (r, x) in registers::dsa(p).iter().enumerate() {
            let size = _mm512_abs_epi32(*x);
            let norm = _mm512_min_epi32(size, _mm512_sub_epi32(q, size));
            greatest[r % 4] = _mm512_max_epi32(greatest[r % 4], norm);
        }
    }
    let [a, b, c, d] = greatest;
    let greatest = _mm512_max_epi32(_mm512_max_epi32(a, b), _mm512_max_epi32(c, d));
    let below = _mm512_cmpge_epi32_mask(greatest, _mm512_set1_epi32(bound)) == 0;
    registers::clear();
    below
}
