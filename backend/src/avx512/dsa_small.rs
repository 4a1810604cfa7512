//! Small products on their way from ML-KEM's 16-bit ring back to polynomials of ML-DSA.

use core::arch::x86_64::*;

use gabion_scheme::kernels::{DsaPoly, KEM_Q, KemPoly};

use super::registers;

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
pub(super) fn add(acc: &mut DsaPoly, s: &KemPoly) {
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
pub(super) fn sub(acc: &mut DsaPoly, s: &KemPoly) {
    let (pairs, []) = registers::dsa_mut(acc).as_chunks_mut::<2>() else {
        return;
    };
    for (pair, s) in pairs.iter_mut().zip(registers::kem(s)) {
        let [first, second] = centred(*s);
        *pair = [_mm512_sub_epi32(pair[0], first), _mm512_sub_epi32(pair[1], second)];
    }
    registers::clear();
}

#[cfg(test)]
mod tests {
    use gabion_scheme::kernels::{DSA_Q, DsaPoly, KEM_Q, KemPoly, Kernels, N};

    use crate::avx512::Avx512;
    use crate::portable::Portable;

    #[test]
    fn every_residue_adds_and_subtracts_as_in_the_portable_kernels() {
        let Some(k) = Avx512::detect() else { return };
        let residues: Vec<i16> = (1 - KEM_Q..KEM_Q).collect();
        let acc = DsaPoly(core::array::from_fn(|i| (i as i32 - 128) * (DSA_Q / 256)));
        for chunk in residues.chunks(N) {
            let s = KemPoly(core::array::from_fn(|i| chunk[i % chunk.len()]));
            let (mut got, mut want) = (acc.clone(), acc.clone());
            k.dsa_add_small(&mut got, &s);
            Portable.dsa_add_small(&mut want, &s);
            assert_eq!(got, want);
            k.dsa_sub_small(&mut got, &s);
            assert_eq!(got, acc);
            Portable.dsa_sub_small(&mut want, &s);
            assert_eq!(want, acc);
        }
    }
}
