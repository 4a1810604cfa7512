//! Moves between memory and 512-bit registers, and the clearing of registers.
//!
//! Everything here is safe to call from a kernel: lengths are checked, alignment comes from types.

use core::arch::asm;
use core::arch::x86_64::*;

use gabion_scheme::ct;
use gabion_scheme::kernels::{DsaPoly, KemPoly};

use crate::common::memory::{Plain, Table};

/// Words of the stack that the kernels of curves may have spilled secrets to: 6 KiB.
const SPILLED: usize = 768;

/// Wipes the stack that a kernel of curves used below its caller. It has more values in flight than
/// there are registers.
#[inline(never)] // So that its frame begins where the kernel's did.
pub(super) fn wipe_stack() {
    ct::wipe(&mut [0u64; SPILLED]);
}

/// A polynomial of ML-KEM as 8 registers of 32 coefficients.
#[inline(always)]
pub(super) fn kem(p: &KemPoly) -> &[__m512i; 8] {
    const { assert!(align_of::<KemPoly>() == 64 && size_of::<KemPoly>() == 8 * 64) };
    // SAFETY: same size and alignment (asserted above), and every bit pattern is valid in both.
    unsafe { &*(p as *const KemPoly).cast() }
}

/// A polynomial of ML-KEM as 8 registers of 32 coefficients, to write.
#[inline(always)]
pub(super) fn kem_mut(p: &mut KemPoly) -> &mut [__m512i; 8] {
    // SAFETY: same size and alignment (asserted in `kem`), and every bit pattern is valid in both.
    unsafe { &mut *(p as *mut KemPoly).cast() }
}

/// A polynomial of ML-DSA as 16 registers of 16 coefficients.
#[inline(always)]
pub(super) fn dsa(p: &DsaPoly) -> &[__m512i; 16] {
    const { assert!(align_of::<DsaPoly>() == 64 && size_of::<DsaPoly>() == 16 * 64) };
    // SAFETY: same size and alignment (asserted above), and every bit pattern is valid in both.
    unsafe { &*(p as *const DsaPoly).cast() }
}

/// A polynomial of ML-DSA as 16 registers of 16 coefficients, to write.
#[inline(always)]
pub(super) fn dsa_mut(p: &mut DsaPoly) -> &mut [__m512i; 16] {
    // SAFETY: same size and alignment (asserted in `dsa`), and every bit pattern is valid in both.
    unsafe { &mut *(p as *mut DsaPoly).cast() }
}

/// A polynomial of ML-KEM as bytes, to write.
#[inline(always)]
pub(super) fn kem_bytes_mut(p: &mut KemPoly) -> &mut [u8; 512] {
    // SAFETY: same size, lesser alignment, and every bit pattern is valid in both.
    unsafe { &mut *(p as *mut KemPoly).cast() }
}

/// A polynomial of ML-DSA as bytes, to write.
#[inline(always)]
pub(super) fn dsa_bytes_mut(p: &mut DsaPoly) -> &mut [u8; 1024] {
    // SAFETY: same size, lesser alignment, and every bit pattern is valid in both.
    unsafe { &mut *(p as *mut DsaPoly).cast() }
}

// SAFETY: a register has no padding, and any bits are a value.
unsafe impl Plain for __m512i {}

/// A table of constants as a register.
#[inline(always)]
pub(super) fn table<T: Plain, const N: usize>(table: &Table<T, N>) -> __m512i {
    const { assert!(size_of::<Table<T, N>>() == 64 && align_of::<Table<T, N>>() == 64) };
    // SAFETY: same size and alignment (asserted above), and every bit pattern is a register.
    unsafe { *(table as *const Table<T, N>).cast() }
}

/// The first `n` bits of a byte mask.
#[inline(always)]
pub(super) fn first(n: usize) -> __mmask64 {
    if n >= 64 { !0 } else { (1 << n) - 1 }
}

/// 64 bytes as a register.
#[inline(always)]
pub(super) fn whole(bytes: &[u8; 64]) -> __m512i {
    // SAFETY: same size, no alignment needed, and any bits are a register.
    unsafe { bytes.as_ptr().cast::<__m512i>().read_unaligned() }
}

/// A register as 64 bytes.
#[inline(always)]
pub(super) fn bytes(register: __m512i) -> [u8; 64] {
    // SAFETY: same size, and any bits are bytes.
    unsafe { core::mem::transmute(register) }
}

/// Loads `bytes[at..]`, 64 bytes at most, followed by zeros.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(super) fn load(bytes: &[u8], at: usize) -> __m512i {
    let bytes = &bytes[at..];
    if bytes.is_empty() {
        // Nothing may be mapped at the address, and suppressing the fault takes long.
        return _mm512_setzero_si512();
    }
    if bytes.len() >= 64 {
        // SAFETY: 64 bytes are left.
        return unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) };
    }
    // SAFETY: the mask lets no byte beyond the slice be read.
    unsafe { _mm512_maskz_loadu_epi8(first(bytes.len()), bytes.as_ptr().cast()) }
}

/// Two times 32 bytes.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(super) fn halves(low: &[u8; 32], high: &[u8; 32]) -> __m512i {
    _mm512_shuffle_i64x2::<0x44>(load(low, 0), load(high, 0))
}

/// Stores the first bytes of `v` to `bytes[at..]`: `len` of them (or as many as there is room for)
/// where less than 64 bytes are left, or else all 64. Callers that fill a buffer in ascending order
/// overwrite the surplus.
///
/// A masked store takes several times as long as a full one on Zen 4, so only ends are masked.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(super) fn store(bytes: &mut [u8], at: usize, v: __m512i, len: usize) {
    let bytes = &mut bytes[at..];
    if bytes.len() >= 64 {
        // SAFETY: 64 bytes are left.
        unsafe { _mm512_storeu_si512(bytes.as_mut_ptr().cast(), v) };
    } else {
        let len = len.min(bytes.len());
        // SAFETY: the mask lets no byte beyond the slice be written.
        unsafe { _mm512_mask_storeu_epi8(bytes.as_mut_ptr().cast(), first(len), v) };
    }
}

/// Stores the first 16, 24 or 32 bytes of `v`, as many as there are, without a mask.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(super) fn store_hash(bytes: &mut [u8], v: __m512i) {
    assert!(matches!(bytes.len(), 16 | 24 | 32), "n is 16, 24 or 32");
    let target = bytes.as_mut_ptr();
    // SAFETY: 16 bytes can be written, and 8 or 16 more where the length says so.
    unsafe {
        _mm_storeu_si128(target.cast(), _mm512_castsi512_si128(v));
        let upper = _mm512_castsi512_si128(_mm512_shuffle_i64x2::<0x55>(v, v));
        match bytes.len() {
            16 => {}
            24 => _mm_storel_epi64(target.add(16).cast(), upper),
            _ => _mm_storeu_si128(target.add(16).cast(), upper),
        }
    }
}

/// Clears every vector and mask register, so that no secret stays behind in one.
///
/// Called on leaving each kernel that met a secret. It does not reach what the compiler spilled to
/// the stack.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(super) fn clear() {
    // SAFETY: touches vector and mask registers only, all of which are declared. `vzeroall` clears
    // registers 0 to 15 in full width, an EVEX operation on xmm16 to xmm31 the other sixteen.
    unsafe {
        asm!(
            "vzeroall",
            "vpxord xmm16, xmm16, xmm16", "vpxord xmm17, xmm17, xmm17",
            "vpxord xmm18, xmm18, xmm18", "vpxord xmm19, xmm19, xmm19",
            "vpxord xmm20, xmm20, xmm20", "vpxord xmm21, xmm21, xmm21",
            "vpxord xmm22, xmm22, xmm22", "vpxord xmm23, xmm23, xmm23",
            "vpxord xmm24, xmm24, xmm24", "vpxord xmm25, xmm25, xmm25",
            "vpxord xmm26, xmm26, xmm26", "vpxord xmm27, xmm27, xmm27",
            "vpxord xmm28, xmm28, xmm28", "vpxord xmm29, xmm29, xmm29",
            "vpxord xmm30, xmm30, xmm30", "vpxord xmm31, xmm31, xmm31",
            "kxorw k1, k1, k1", "kxorw k2, k2, k2", "kxorw k3, k3, k3", "kxorw k4, k4, k4",
            "kxorw k5, k5, k5", "kxorw k6, k6, k6", "kxorw k7, k7, k7",
            out("zmm0") _, out("zmm1") _, out("zmm2") _, out("zmm3") _,
            out("zmm4") _, out("zmm5") _, out("zmm6") _, out("zmm7") _,
            out("zmm8") _, out("zmm9") _, out("zmm10") _, out("zmm11") _,
            out("zmm12") _, out("zmm13") _, out("zmm14") _, out("zmm15") _,
            out("zmm16") _, out("zmm17") _, out("zmm18") _, out("zmm19") _,
            out("zmm20") _, out("zmm21") _, out("zmm22") _, out("zmm23") _,
            out("zmm24") _, out("zmm25") _, out("zmm26") _, out("zmm27") _,
            out("zmm28") _, out("zmm29") _, out("zmm30") _, out("zmm31") _,
            out("k1") _, out("k2") _, out("k3") _, out("k4") _,
            out("k5") _, out("k6") _, out("k7") _,
            options(nomem, nostack, preserves_flags),
        );
    }
}
