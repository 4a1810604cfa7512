//! Moves between memory and 256-bit registers, and the clearing of registers.
//!
//! Everything here is safe to call from a kernel: lengths are checked, alignment comes from types.

use core::arch::asm;
use core::arch::x86_64::*;

use gabion_scheme::kernels::{DsaPoly, KemPoly};

use crate::common::memory::{Plain, Table};

// SAFETY: a register has no padding, and any bits are a value.
unsafe impl Plain for __m256i {}

/// A polynomial of ML-KEM as 16 registers of 16 coefficients.
#[inline(always)]
pub(super) fn kem(p: &KemPoly) -> &[__m256i; 16] {
    const { assert!(align_of::<KemPoly>() >= 32 && size_of::<KemPoly>() == 16 * 32) };
    // SAFETY: same size, no greater alignment (asserted above), and any bits are a value of both.
    unsafe { &*(p as *const KemPoly).cast() }
}

/// A polynomial of ML-KEM as 16 registers of 16 coefficients, to write.
#[inline(always)]
pub(super) fn kem_mut(p: &mut KemPoly) -> &mut [__m256i; 16] {
    // SAFETY: as in `kem`.
    unsafe { &mut *(p as *mut KemPoly).cast() }
}

/// A polynomial of ML-DSA as 32 registers of 8 coefficients.
#[inline(always)]
pub(super) fn dsa(p: &DsaPoly) -> &[__m256i; 32] {
    const { assert!(align_of::<DsaPoly>() >= 32 && size_of::<DsaPoly>() == 32 * 32) };
    // SAFETY: same size, no greater alignment (asserted above), and any bits are a value of both.
    unsafe { &*(p as *const DsaPoly).cast() }
}

/// A polynomial of ML-DSA as 32 registers of 8 coefficients, to write.
#[inline(always)]
pub(super) fn dsa_mut(p: &mut DsaPoly) -> &mut [__m256i; 32] {
    // SAFETY: as in `dsa`.
    unsafe { &mut *(p as *mut DsaPoly).cast() }
}

/// A table of constants as a register.
#[inline(always)]
pub(super) fn table<T: Plain, const N: usize>(table: &Table<T, N>) -> __m256i {
    const { assert!(N * size_of::<T>() == 32 && align_of::<Table<T, N>>() >= 32) };
    // SAFETY: the table begins with a register's worth of plain data, aligned (asserted above).
    unsafe { *(table as *const Table<T, N>).cast() }
}

/// Eight bytes, and zeros.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn load_8(bytes: &[u8; 8]) -> __m128i {
    // SAFETY: eight bytes.
    unsafe { _mm_loadl_epi64(bytes.as_ptr().cast()) }
}

/// Sixteen bytes.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn load_16(bytes: &[u8; 16]) -> __m128i {
    // SAFETY: sixteen bytes.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}

/// Thirty-two bytes.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn load_32(bytes: &[u8; 32]) -> __m256i {
    // SAFETY: thirty-two bytes.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

/// The 16 bytes at each of two places.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn load_halves(bytes: &[u8], low: usize, high: usize) -> __m256i {
    let (low, high) = (&bytes[low..low + 16], &bytes[high..high + 16]);
    // SAFETY: sixteen bytes each.
    unsafe { _mm256_loadu2_m128i(high.as_ptr().cast(), low.as_ptr().cast()) }
}

/// Stores the first `length` bytes of each half, one behind the other. More bytes may be
/// overwritten up to the end of `bytes`; callers that fill a buffer in ascending order write them
/// again.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn store_halves(bytes: &mut [u8], at: usize, v: __m256i, length: usize) {
    store_half(&mut bytes[at..], _mm256_castsi256_si128(v), length);
    store_half(&mut bytes[at + length..], _mm256_extracti128_si256::<1>(v), length);
}

/// Stores the first `length` bytes, 16 at most, and where there is room all of them.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn store_half(bytes: &mut [u8], v: __m128i, length: usize) {
    if bytes.len() >= 16 {
        // SAFETY: sixteen bytes.
        unsafe { _mm_storeu_si128(bytes.as_mut_ptr().cast(), v) };
    } else {
        let target = bytes[..length].as_mut_ptr();
        // SAFETY: `length` bytes.
        unsafe { store_first(target, _mm256_castsi128_si256(v), length) };
    }
}

/// Stores as many bytes as there is room for, 32 at most.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn store(bytes: &mut [u8], v: __m256i) {
    if let Some(bytes) = bytes.first_chunk_mut::<32>() {
        // SAFETY: thirty-two bytes.
        unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), v) };
    } else {
        // SAFETY: as many bytes as there are.
        unsafe { store_first(bytes.as_mut_ptr(), v, bytes.len()) };
    }
}

/// Stores the first bytes of a register, 31 at most, from registers: nothing is left on the stack.
///
/// # Safety
/// So many bytes can be written at the address.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) unsafe fn store_first(mut target: *mut u8, v: __m256i, length: usize) {
    let mut half = _mm256_castsi256_si128(v);
    // SAFETY: what is written ends `length` bytes from the first address at the latest.
    unsafe {
        if length & 16 != 0 {
            _mm_storeu_si128(target.cast(), half);
            target = target.add(16);
            half = _mm256_extracti128_si256::<1>(v);
        }
        if length & 8 != 0 {
            _mm_storel_epi64(target.cast(), half);
            target = target.add(8);
            half = _mm_unpackhi_epi64(half, half);
        }
        let mut word = _mm_cvtsi128_si64(half) as u64;
        for width in [4, 2, 1] {
            if length & width != 0 {
                target.copy_from_nonoverlapping(word.to_le_bytes().as_ptr(), width);
                target = target.add(width);
                word >>= 8 * width;
            }
        }
    }
}

/// Clears every vector register, so that no secret stays behind in one.
///
/// Called on leaving each kernel that met a secret. It does not reach what the compiler spilled to
/// the stack.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn clear() {
    // SAFETY: touches vector registers only, all of which are declared.
    unsafe {
        asm!(
            "vzeroall",
            out("ymm0") _, out("ymm1") _, out("ymm2") _, out("ymm3") _,
            out("ymm4") _, out("ymm5") _, out("ymm6") _, out("ymm7") _,
            out("ymm8") _, out("ymm9") _, out("ymm10") _, out("ymm11") _,
            out("ymm12") _, out("ymm13") _, out("ymm14") _, out("ymm15") _,
            options(nomem, nostack, preserves_flags),
        );
    }
}
