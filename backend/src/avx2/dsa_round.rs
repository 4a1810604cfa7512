//! ML-DSA: norms, and small products on their way back from ML-KEM's 16-bit ring (the other kernels
//! that work on each coefficient by itself are in `compiled`).

use core::arch::x86_64::*;

use gabion_scheme::kernels::{DSA_Q, DsaPoly, KEM_Q, KemPoly};

use super::registers;

/// See [`gabion_scheme::kernels::Kernels::dsa_norm_below`]. |x mod+- q| is the smaller one of |x|
/// and q - |x|; the greatest of all is compared once.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn norm_below(polys: &[DsaPoly], bound: i32) -> bool {
    assert!(bound <= (DSA_Q - 1) / 8, "the bound is at most (q - 1) / 8, not {bound}");
    let q = _mm256_set1_epi32(DSA_Q);
    let mut greatest = [_mm256_setzero_si256(); 4];
    for p in polys {
        for (r, x) in registers::dsa(p).iter().enumerate() {
            let size = _mm256_abs_epi32(*x);
            let norm = _mm256_min_epi32(size, _mm256_sub_epi32(q, size));
            greatest[r % 4] = _mm256_max_epi32(greatest[r % 4], norm);
        }
    }
    let [a, b, c, d] = greatest;
    let greatest = _mm256_max_epi32(_mm256_max_epi32(a, b), _mm256_max_epi32(c, d));
    let below = _mm256_cmpgt_epi32(_mm256_set1_epi32(bound), greatest);
    let below = _mm256_movemask_epi8(below) == -1;
    registers::clear();
    below
}

/// 16 residues as the integers next to zero, widened: the first eight and the others.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn centred(x: __m256i) -> [__m256i; 2] {
    let q = _mm256_set1_epi16(KEM_Q);
    // A negative residue is a large unsigned number, so the smaller one is in 0..q.
    let canonical = _mm256_min_epu16(x, _mm256_add_epi16(x, q));
    let half = _mm256_set1_epi16(KEM_Q / 2);
    let upper = _mm256_cmpgt_epi16(canonical, half);
    let near = _mm256_sub_epi16(canonical, _mm256_and_si256(upper, q));
    [
        _mm256_cvtepi16_epi32(_mm256_castsi256_si128(near)),
        _mm256_cvtepi16_epi32(_mm256_extracti128_si256::<1>(near)),
    ]
}

/// `acc += s`, not reduced. |s| <= 1664 in each coefficient, so the sum stays below 2^31 by far.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn add_small(acc: &mut DsaPoly, s: &KemPoly) {
    let pairs = registers::dsa_mut(acc).as_chunks_mut::<2>().0;
    for (pair, s) in pairs.iter_mut().zip(registers::kem(s)) {
        let [first, second] = centred(*s);
        *pair = [_mm256_add_epi32(pair[0], first), _mm256_add_epi32(pair[1], second)];
    }
    registers::clear();
}

/// `acc -= s`, not reduced.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn sub_small(acc: &mut DsaPoly, s: &KemPoly) {
    let pairs = registers::dsa_mut(acc).as_chunks_mut::<2>().0;
    for (pair, s) in pairs.iter_mut().zip(registers::kem(s)) {
        let [first, second] = centred(*s);
        *pair = [_mm256_sub_epi32(pair[0], first), _mm256_sub_epi32(pair[1], second)];
    }
    registers::clear();
}
