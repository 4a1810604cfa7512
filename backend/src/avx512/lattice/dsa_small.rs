//! Small products on their way from ML-KEM's 16-bit ring back to polynomials of ML-DSA.

use core::arch::x86_64::*;

use gabion_scheme::kernels::{DsaPoly, KEM_Q, KemPoly};

use crate::avx512::registers;

/// 32 residues as the integers next to zero, widened: the first 16 and the others.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn centred(x: __m512i) -> [__m512i; 2] {
    let q = _mm512_set1_epi16(KEM_Q);
    // A negative residue is a large unsigned number, so the smaller one is in 0..q.
    let canonical = _mm512_min_epu16(x, _mm512_add_epi16(x, q));
    let upper = _mm512_cmpgt_epi16_mask(canonical, _mm512_set1_epi16(KEM_Q / 2));
    let near = _mm512_mask_sub_epi16(canonical, upper, canonical, q);
    [
        _mm512_cvtepi16_epi32(_mm512_castsi512_si256(near)),
        _mm512_cvtepi16_epi32(_mm512_extracti64x4_epi64::<1>(near)),
    ]
}

/// `acc += s`, not reduced. |s| <= 1664 in each coefficient, so the sum stays below 2^31 by far.
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn add(acc: &mut DsaPoly, s: &KemPoly) {
    let (pairs, []) = registers::dsa_mut(acc).as_chunks_mut::<2>() else {
        return;
    };
    for (pair, s) in pairs.iter_mut().zip(registers::kem(s)) {
        let [first, second] = centred(*s);
        *pair = [_mm512_add_epi32(pair[0], first), _mm512_add_epi32(pair[1], second)];
    }
    registers::clear();
}

/// `acc -= s`, not reduced.
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn sub(acc: &mut DsaPoly, s: &KemPoly) {
    let (pairs, []) = registers::dsa_mut(acc).as_chunks_mut::<2>() else {
        return;
    };
    for (pair, s) in pairs.iter_mut().zip(registers::kem(s)) {
        let [first, second] = centred(*s);
        *pair = [_mm512_sub_epi32(pair[0], first), _mm512_sub_epi32(pair[1], second)];
    }
    registers::clear();
}
