//! Exchanges between two registers that bring the two operands of in-register butterflies to the
//! same place of different registers. Runs are named by their length: halves of a register (8
//! double words), quarters (4), quads (2: one quad word) and doubles (1).
//!
//! `constants::model` does the same on indices, from which the order of the roots follows.

use core::arch::asm;
use core::arch::x86_64::*;

/// First halves of both; second halves of both.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(super) fn halves(a: __m512i, b: __m512i) -> (__m512i, __m512i) {
    (_mm512_shuffle_i64x2::<0x44>(a, b), _mm512_shuffle_i64x2::<0xee>(a, b))
}

/// Even quarters of both; odd quarters of both.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(super) fn quarters(a: __m512i, b: __m512i) -> (__m512i, __m512i) {
    (_mm512_shuffle_i64x2::<0x88>(a, b), _mm512_shuffle_i64x2::<0xdd>(a, b))
}

/// Even quads of both, alternating; odd quads. Its own inverse.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(super) fn quads(a: __m512i, b: __m512i) -> (__m512i, __m512i) {
    (_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b))
}

/// Masks of the even and the odd double words.
///
/// They come out of an empty instruction, so that the compiler takes masked shuffles as they are:
/// where it knows a mask it prefers `vpermt2d`, which takes longer on Zen 4 and has a longer latency
/// everywhere.
#[derive(Clone, Copy)]
pub(super) struct Masks {
    even: __mmask16,
    odd: __mmask16,
}

impl Masks {
    #[inline]
    #[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
    pub(super) fn new() -> Self {
        let (mut even, mut odd): (__mmask16, __mmask16) = (0x5555, 0xaaaa);
        // SAFETY: an empty instruction that leaves both registers as they are.
        unsafe { asm!("/* {0} {1} */", inout(kreg) even, inout(kreg) odd, options(pure, nomem)) };
        Masks { even, odd }
    }
}

/// Even double words of both, alternating; odd double words. Its own inverse.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(super) fn doubles(a: __m512i, b: __m512i, masks: Masks) -> (__m512i, __m512i) {
    const SWAP: i32 = 0b10_11_00_01;
    (
        _mm512_mask_shuffle_epi32::<SWAP>(a, masks.odd, b),
        _mm512_mask_shuffle_epi32::<SWAP>(b, masks.even, a),
    )
}

/// Odd double words of both, alternating: the high halves of two sets of 64-bit numbers.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(super) fn high_halves(a: __m512i, b: __m512i, masks: Masks) -> __m512i {
    _mm512_mask_shuffle_epi32::<0b11_11_01_01>(b, masks.even, a)
}
