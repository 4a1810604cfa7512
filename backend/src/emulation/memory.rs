//! Loads and stores. Elements that the mask excludes are neither read nor written.

use super::{__m128i, __m512i, __mmask8, __mmask64, cast};

/// # Safety
/// 64 bytes can be read at the address, which need not be aligned.
#[inline]
pub(crate) unsafe fn _mm512_loadu_si512(source: *const __m512i) -> __m512i {
    // SAFETY: by contract.
    unsafe { source.read_unaligned() }
}

/// # Safety
/// 64 bytes can be written at the address, which need not be aligned.
#[inline]
pub(crate) unsafe fn _mm512_storeu_si512(target: *mut __m512i, a: __m512i) {
    // SAFETY: by contract.
    unsafe { target.write_unaligned(a) };
}

/// # Safety
/// The bytes whose bit is set can be read.
#[inline]
pub(crate) unsafe fn _mm512_maskz_loadu_epi8(mask: __mmask64, source: *const i8) -> __m512i {
    let mut bytes = [0i8; 64];
    for (i, byte) in bytes.iter_mut().enumerate() {
        if mask >> i & 1 == 1 {
            // SAFETY: by contract.
            *byte = unsafe { source.add(i).read() };
        }
    }
    cast(bytes)
}

/// # Safety
/// The words whose bit is set can be read.
#[inline]
pub(crate) unsafe fn _mm512_maskz_loadu_epi64(mask: __mmask8, source: *const i64) -> __m512i {
    let mut words = [0i64; 8];
    for (i, word) in words.iter_mut().enumerate() {
        if mask >> i & 1 == 1 {
            // SAFETY: by contract.
            *word = unsafe { source.add(i).read_unaligned() };
        }
    }
    cast(words)
}

/// # Safety
/// The bytes whose bit is set can be written.
#[inline]
pub(crate) unsafe fn _mm512_mask_storeu_epi8(target: *mut i8, mask: __mmask64, a: __m512i) {
    for (i, byte) in cast::<_, [i8; 64]>(a).into_iter().enumerate() {
        if mask >> i & 1 == 1 {
            // SAFETY: by contract.
            unsafe { target.add(i).write(byte) };
        }
    }
}

/// # Safety
/// 16 bytes can be read at the address, which need not be aligned.
#[inline]
pub(crate) unsafe fn _mm_loadu_si128(source: *const __m128i) -> __m128i {
    // SAFETY: by contract.
    unsafe { source.read_unaligned() }
}

/// # Safety
/// 8 bytes can be read at the address, which need not be aligned.
#[inline]
pub(crate) unsafe fn _mm_loadl_epi64(source: *const __m128i) -> __m128i {
    // SAFETY: by contract.
    __m128i([unsafe { source.cast::<u64>().read_unaligned() }, 0])
}

/// # Safety
/// 16 bytes can be written at the address, which need not be aligned.
#[inline]
pub(crate) unsafe fn _mm_storeu_si128(target: *mut __m128i, a: __m128i) {
    // SAFETY: by contract.
    unsafe { target.write_unaligned(a) };
}

/// # Safety
/// 8 bytes can be written at the address, which need not be aligned.
#[inline]
pub(crate) unsafe fn _mm_storel_epi64(target: *mut __m128i, a: __m128i) {
    // SAFETY: by contract.
    unsafe { target.cast::<u64>().write_unaligned(a.0[0]) };
}

/// Does nothing, since the emulation has no registers to clear.
#[inline]
pub(crate) fn _mm256_zeroall() {}
