//! Registers of 256 bits as four numbers of 64 bits, for curves.

use super::*;

/// A register in the lower half of a wider one, above it zeros.
#[inline(always)]
fn wide(a: __m256i) -> __m512i {
    let [a, b, c, d] = a.0;
    __m512i([a, b, c, d, 0, 0, 0, 0])
}

/// Defines functions as those of twice the width, which know no border between the halves.
macro_rules! as_wide {
    ($($name:ident $of:ident($($arg:ident),*);)*) => { $(
        #[inline(never)]
        pub(crate) fn $name($($arg: __m256i),*) -> __m256i {
            _mm512_castsi512_si256($of($(wide($arg)),*))
        }
    )* };
}

as_wide! {
    _mm256_add_epi64 _mm512_add_epi64(a, b);
    _mm256_and_si256 _mm512_and_si512(a, b);
    _mm256_or_si256 _mm512_or_si512(a, b);
    _mm256_xor_si256 _mm512_xor_si512(a, b);
    _mm256_mullo_epi64 _mm512_mullo_epi64(a, b);
    _mm256_madd52lo_epu64 _mm512_madd52lo_epu64(a, b, c);
    _mm256_madd52hi_epu64 _mm512_madd52hi_epu64(a, b, c);
    _mm256_unpacklo_epi64 _mm512_unpacklo_epi64(a, b);
    _mm256_unpackhi_epi64 _mm512_unpackhi_epi64(a, b);
}

#[inline(never)]
pub(crate) fn _mm256_setzero_si256() -> __m256i {
    __m256i([0; 4])
}

#[inline(never)]
pub(crate) fn _mm256_set1_epi64x(x: i64) -> __m256i {
    __m256i([x as u64; 4])
}

#[inline(never)]
pub(crate) fn _mm256_setr_epi64x(a: i64, b: i64, c: i64, d: i64) -> __m256i {
    __m256i([a, b, c, d].map(|x| x as u64))
}

#[inline(never)]
pub(crate) fn _mm256_slli_epi64<const COUNT: i32>(a: __m256i) -> __m256i {
    __m256i(each(a.0, |a| a.checked_shl(COUNT as u32).unwrap_or(0)))
}

#[inline(never)]
pub(crate) fn _mm256_srli_epi64<const COUNT: i32>(a: __m256i) -> __m256i {
    __m256i(each(a.0, |a| a.checked_shr(COUNT as u32).unwrap_or(0)))
}

#[inline(never)]
pub(crate) fn _mm256_shrdi_epi64<const COUNT: i32>(a: __m256i, b: __m256i) -> __m256i {
    _mm512_castsi512_si256(_mm512_shrdi_epi64::<COUNT>(wide(a), wide(b)))
}

/// Element i from where bits 2i and 2i + 1 of the order say.
#[inline(never)]
pub(crate) fn _mm256_permute4x64_epi64<const ORDER: i32>(a: __m256i) -> __m256i {
    __m256i(core::array::from_fn(|i| a.0[ORDER as usize >> (2 * i) & 3]))
}

/// Element i from where the low bits of an index's element i say.
#[inline(never)]
pub(crate) fn _mm256_permutexvar_epi64(index: __m256i, a: __m256i) -> __m256i {
    let index = __m256i(index.0.map(|place| place & 3));
    _mm512_castsi512_si256(_mm512_permutexvar_epi64(wide(index), wide(a)))
}

#[inline(never)]
pub(crate) fn _mm256_mask_permutex_epi64<const ORDER: i32>(
    source: __m256i,
    mask: __mmask8,
    a: __m256i,
) -> __m256i {
    __m256i(choose(mask.into(), _mm256_permute4x64_epi64::<ORDER>(a).0, source.0))
}

#[inline(never)]
pub(crate) fn _mm256_mask_add_epi64(
    source: __m256i,
    mask: __mmask8,
    a: __m256i,
    b: __m256i,
) -> __m256i {
    __m256i(choose(mask.into(), both(a.0, b.0, u64::wrapping_add), source.0))
}

#[inline(never)]
pub(crate) fn _mm256_mask_sub_epi64(
    source: __m256i,
    mask: __mmask8,
    a: __m256i,
    b: __m256i,
) -> __m256i {
    __m256i(choose(mask.into(), both(a.0, b.0, u64::wrapping_sub), source.0))
}

/// `b` where a bit is set, or else `a`.
#[inline(never)]
pub(crate) fn _mm256_mask_blend_epi64(mask: __mmask8, a: __m256i, b: __m256i) -> __m256i {
    __m256i(choose(mask.into(), b.0, a.0))
}

#[inline(never)]
pub(crate) fn _mm256_blend_epi32<const MASK: i32>(a: __m256i, b: __m256i) -> __m256i {
    cast(choose::<u32, 8>(MASK as u64, cast(b), cast(a)))
}

#[inline(never)]
pub(crate) fn _mm256_cmpeq_epi64_mask(a: __m256i, b: __m256i) -> __mmask8 {
    _mm512_cmpeq_epi64_mask(wide(a), wide(b)) & 0xf
}

#[inline(never)]
pub(crate) fn _mm256_mask_cmpeq_epi64_mask(mask: __mmask8, a: __m256i, b: __m256i) -> __mmask8 {
    _mm256_cmpeq_epi64_mask(a, b) & mask
}

#[inline(never)]
pub(crate) fn _mm256_testn_epi64_mask(a: __m256i, b: __m256i) -> __mmask8 {
    _mm512_testn_epi64_mask(wide(a), wide(b)) & 0xf
}

#[inline(never)]
pub(crate) fn _mm512_broadcast_i64x4(a: __m256i) -> __m512i {
    let [a, b, c, d] = a.0;
    __m512i([a, b, c, d, a, b, c, d])
}

/// # Safety
/// 32 bytes can be written at the address, which need not be aligned.
#[inline(never)]
pub(crate) unsafe fn _mm256_storeu_si256(target: *mut __m256i, a: __m256i) {
    // SAFETY: by contract.
    unsafe { target.write_unaligned(a) };
}
