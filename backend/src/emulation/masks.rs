//! Comparisons into masks, and what masks decide.

use super::*;

/// A bit for each element.
#[inline(always)]
fn mask_of<T: Word, const N: usize>(a: [T; N], b: [T; N], f: impl Fn(T, T) -> bool) -> u64 {
    let mut mask = 0;
    for i in 0..N {
        mask |= u64::from(f(a[i], b[i])) << i;
    }
    // Prevents the compiler from turning the use of the mask into a branch on the comparison.
    black_box(mask)
}

/// Defines comparisons of two registers, and those that count only where a bit is set.
macro_rules! comparisons {
    ($($name:ident $masked:ident $mask:ty: [$t:ty; $n:literal] |$a:ident, $b:ident| $is:expr;)*) => { $(
        #[inline(never)]
        pub(crate) fn $name(a: __m512i, b: __m512i) -> $mask {
            mask_of(cast::<_, [$t; $n]>(a), cast::<_, [$t; $n]>(b), |$a, $b| $is) as $mask
        }

        #[inline(never)]
        pub(crate) fn $masked(mask: $mask, a: __m512i, b: __m512i) -> $mask {
            mask & $name(a, b)
        }
    )* };
}

comparisons! {
    _mm512_cmpeq_epi8_mask _mm512_mask_cmpeq_epi8_mask __mmask64: [u8; 64] |a, b| a == b;
    _mm512_cmpeq_epi32_mask _mm512_mask_cmpeq_epi32_mask __mmask16: [u32; 16] |a, b| a == b;
    _mm512_cmpeq_epi64_mask _mm512_mask_cmpeq_epi64_mask __mmask8: [u64; 8] |a, b| a == b;
    _mm512_cmpneq_epu64_mask _mm512_mask_cmpneq_epu64_mask __mmask8: [u64; 8] |a, b| a != b;
    _mm512_cmpge_epi16_mask _mm512_mask_cmpge_epi16_mask __mmask32: [i16; 32] |a, b| a >= b;
    _mm512_cmpge_epi32_mask _mm512_mask_cmpge_epi32_mask __mmask16: [i32; 16] |a, b| a >= b;
    _mm512_cmpgt_epi16_mask _mm512_mask_cmpgt_epi16_mask __mmask32: [i16; 32] |a, b| a > b;
    _mm512_cmplt_epi16_mask _mm512_mask_cmplt_epi16_mask __mmask32: [i16; 32] |a, b| a < b;
    _mm512_cmplt_epi32_mask _mm512_mask_cmplt_epi32_mask __mmask16: [i32; 16] |a, b| a < b;
    _mm512_cmplt_epu8_mask _mm512_mask_cmplt_epu8_mask __mmask64: [u8; 64] |a, b| a < b;
    _mm512_cmplt_epu16_mask _mm512_mask_cmplt_epu16_mask __mmask32: [u16; 32] |a, b| a < b;
    _mm512_cmplt_epu32_mask _mm512_mask_cmplt_epu32_mask __mmask16: [u32; 16] |a, b| a < b;
    _mm512_test_epi32_mask _mm512_mask_test_epi32_mask __mmask16: [u32; 16] |a, b| a & b != 0;
    _mm512_test_epi64_mask _mm512_mask_test_epi64_mask __mmask8: [u64; 8] |a, b| a & b != 0;
    _mm512_testn_epi64_mask _mm512_mask_testn_epi64_mask __mmask8: [u64; 8] |a, b| a & b == 0;
}

/// Defines operations whose result counts where a bit is set; elsewhere the first argument does.
macro_rules! masked {
    ($($name:ident($mask:ty) [$t:ty; $n:literal] $of:ident($($arg:ident),*);)*) => { $(
        #[inline(never)]
        pub(crate) fn $name(source: __m512i, mask: $mask, $($arg: __m512i),*) -> __m512i {
            cast(choose::<$t, $n>(mask.into(), cast($of($($arg),*)), cast(source)))
        }
    )* };
}

/// The register itself, to be masked.
fn itself(a: __m512i) -> __m512i {
    a
}

masked! {
    _mm512_mask_add_epi32(__mmask16) [u32; 16] _mm512_add_epi32(a, b);
    _mm512_mask_sub_epi16(__mmask32) [u16; 32] _mm512_sub_epi16(a, b);
    _mm512_mask_sub_epi32(__mmask16) [u32; 16] _mm512_sub_epi32(a, b);
    _mm512_mask_sub_epi64(__mmask8) [u64; 8] _mm512_sub_epi64(a, b);
    _mm512_mask_xor_epi64(__mmask8) [u64; 8] _mm512_xor_si512(a, b);
    _mm512_mask_mov_epi32(__mmask16) [u32; 16] itself(a);
    _mm512_mask_mov_epi64(__mmask8) [u64; 8] itself(a);
}

/// `b` where a bit is set, or else `a`.
#[inline(never)]
pub(crate) fn _mm512_mask_blend_epi16(mask: __mmask32, a: __m512i, b: __m512i) -> __m512i {
    cast(choose::<u16, 32>(mask.into(), cast(b), cast(a)))
}

#[inline(never)]
pub(crate) fn _mm512_mask_blend_epi64(mask: __mmask8, a: __m512i, b: __m512i) -> __m512i {
    cast(choose::<u64, 8>(mask.into(), cast(b), cast(a)))
}

/// Zero where a bit is not set.
#[inline(never)]
pub(crate) fn _mm512_maskz_mov_epi64(mask: __mmask8, a: __m512i) -> __m512i {
    _mm512_mask_mov_epi64(_mm512_setzero_si512(), mask, a)
}

#[inline(never)]
pub(crate) fn _mm512_maskz_mov_epi32(mask: __mmask16, a: __m512i) -> __m512i {
    cast(choose::<u32, 16>(mask.into(), cast(a), [0; 16]))
}

#[inline(never)]
pub(crate) fn _mm512_maskz_set1_epi16(mask: __mmask32, x: i16) -> __m512i {
    cast(choose::<i16, 32>(mask.into(), [x; 32], [0; 32]))
}

#[inline(never)]
pub(crate) fn _mm512_maskz_set1_epi32(mask: __mmask16, x: i32) -> __m512i {
    cast(choose::<i32, 16>(mask.into(), [x; 16], [0; 16]))
}

/// The elements whose bit is set, one behind the other, and zeros. How many there are before each
/// decides where it goes; every place looks at every element.
#[inline(always)]
fn compress<T: Word, const N: usize>(mask: u64, a: [T; N]) -> [T; N] {
    let mut out = [T::ZERO; N];
    let mut before = 0;
    for (i, item) in a.into_iter().enumerate() {
        let bit = mask >> i & 1;
        let mut masks = [T::ZERO; N];
        for (place, mask) in masks.iter_mut().enumerate() {
            *mask = T::spread(is_zero(place as u64 ^ before) & bit);
        }
        for (out, mask) in out.iter_mut().zip(black_box(masks)) {
            *out = item.or_else(mask, *out);
        }
        before += bit;
    }
    out
}

#[inline(never)]
pub(crate) fn _mm512_maskz_compress_epi8(mask: __mmask64, a: __m512i) -> __m512i {
    cast(compress::<u8, 64>(mask, cast(a)))
}

#[inline(never)]
pub(crate) fn _mm512_maskz_compress_epi16(mask: __mmask32, a: __m512i) -> __m512i {
    cast(compress::<u16, 32>(mask.into(), cast(a)))
}

#[inline(never)]
pub(crate) fn _mm512_maskz_compress_epi32(mask: __mmask16, a: __m512i) -> __m512i {
    cast(compress::<u32, 16>(mask.into(), cast(a)))
}

/// The first elements, in order, at the places whose bit is set, and zeros.
#[inline(never)]
pub(crate) fn _mm512_maskz_expand_epi8(mask: __mmask64, a: __m512i) -> __m512i {
    let a: [u8; 64] = cast(a);
    let mut out = [0; 64];
    let mut before = 0;
    for (i, out) in out.iter_mut().enumerate() {
        let bit = mask >> i & 1;
        // No more than 63 came before.
        *out = look_up(&a, before as usize) & black_box(u8::spread(bit));
        before += bit;
    }
    cast(out)
}
