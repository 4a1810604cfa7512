//! Exchanges between two registers that bring the two operands of in-register butterflies to the
//! same place of different registers. Runs are named by their length: halves of a register (4 double
//! words), quads (2: one quad word) and doubles (1). Each is its own inverse;
//! `crate::common::constants::exchange` does the same on indices, from which the order of the roots follows.

use core::arch::x86_64::*;

/// The exchange before a layer within neighbours, from the one over halves (0) to the one over doubles
/// (2), and after it on the way back.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn exchange<const LAYER: usize>(a: __m256i, b: __m256i) -> (__m256i, __m256i) {
    match LAYER {
        0 => halves(a, b),
        1 => quads(a, b),
        _ => doubles(a, b),
    }
}

/// First halves of both; second halves of both.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn halves(a: __m256i, b: __m256i) -> (__m256i, __m256i) {
    (_mm256_permute2x128_si256::<0x20>(a, b), _mm256_permute2x128_si256::<0x31>(a, b))
}

/// Even quads of both, alternating; odd quads.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn quads(a: __m256i, b: __m256i) -> (__m256i, __m256i) {
    (_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b))
}

/// Even double words of both, alternating; odd double words.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn doubles(a: __m256i, b: __m256i) -> (__m256i, __m256i) {
    (
        _mm256_blend_epi32::<0xaa>(a, _mm256_slli_epi64::<32>(b)),
        _mm256_blend_epi32::<0xaa>(_mm256_srli_epi64::<32>(a), b),
    )
}

/// Odd double words of both, alternating: the high halves of two sets of 64-bit numbers.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn high_halves(a: __m256i, b: __m256i) -> __m256i {
    _mm256_blend_epi32::<0xaa>(_mm256_srli_epi64::<32>(a), b)
}
