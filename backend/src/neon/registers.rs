//! Moves between memory and 128-bit registers, and the clearing of registers.
//!
//! Functions that are not marked unsafe are safe to call from a kernel: lengths are checked,
//! alignment comes from types.

use core::arch::aarch64::*;
use core::arch::asm;

use gabion_scheme::kernels::{DsaPoly, KemPoly};

use crate::common::memory::{Plain, Table};

// SAFETY: a register has no padding, and any bits are a value.
unsafe impl Plain for uint32x4_t {}
// SAFETY: as above.
unsafe impl Plain for uint64x2_t {}

/// A polynomial of ML-KEM as 32 registers of 8 coefficients.
#[inline(always)]
pub(super) fn kem(p: &KemPoly) -> &[int16x8_t; 32] {
    const { assert!(align_of::<KemPoly>() >= 16 && size_of::<KemPoly>() == 32 * 16) };
    // SAFETY: same size, no greater alignment (asserted above), and any bits are a value of both.
    unsafe { &*(p as *const KemPoly).cast() }
}

/// A polynomial of ML-KEM as 32 registers of 8 coefficients, to write.
#[inline(always)]
pub(super) fn kem_mut(p: &mut KemPoly) -> &mut [int16x8_t; 32] {
    // SAFETY: as in `kem`.
    unsafe { &mut *(p as *mut KemPoly).cast() }
}

/// A polynomial of ML-DSA as 64 registers of 4 coefficients.
#[inline(always)]
pub(super) fn dsa(p: &DsaPoly) -> &[int32x4_t; 64] {
    const { assert!(align_of::<DsaPoly>() >= 16 && size_of::<DsaPoly>() == 64 * 16) };
    // SAFETY: same size, no greater alignment (asserted above), and any bits are a value of both.
    unsafe { &*(p as *const DsaPoly).cast() }
}

/// A polynomial of ML-DSA as 64 registers of 4 coefficients, to write.
#[inline(always)]
pub(super) fn dsa_mut(p: &mut DsaPoly) -> &mut [int32x4_t; 64] {
    // SAFETY: as in `dsa`.
    unsafe { &mut *(p as *mut DsaPoly).cast() }
}

/// A table of constants as a register of bytes.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn table<T: Plain, const N: usize>(table: &Table<T, N>) -> uint8x16_t {
    const { assert!(N * size_of::<T>() == 16) };
    // SAFETY: the table is a register's worth of plain data.
    unsafe { vld1q_u8((table as *const Table<T, N>).cast()) }
}

/// Eight bytes.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn load_8(bytes: &[u8; 8]) -> uint8x8_t {
    // SAFETY: eight bytes.
    unsafe { vld1_u8(bytes.as_ptr()) }
}

/// Sixteen bytes.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn load_16(bytes: &[u8; 16]) -> uint8x16_t {
    // SAFETY: sixteen bytes.
    unsafe { vld1q_u8(bytes.as_ptr()) }
}

/// Stores the first bytes of a register, 15 at most, from registers: nothing is left on the stack.
///
/// # Safety
/// So many bytes can be written at the address.
#[inline]
#[target_feature(enable = "neon")]
pub(super) unsafe fn store_first(mut target: *mut u8, v: uint8x16_t, length: usize) {
    let [mut word, upper] = [
        vgetq_lane_u64::<0>(vreinterpretq_u64_u8(v)),
        vgetq_lane_u64::<1>(vreinterpretq_u64_u8(v)),
    ];
    // SAFETY: what is written ends `length` bytes from the first address at the latest.
    unsafe {
        if length & 8 != 0 {
            target.cast::<[u8; 8]>().write(word.to_le_bytes());
            target = target.add(8);
            word = upper;
        }
        if length & 4 != 0 {
            target.cast::<[u8; 4]>().write((word as u32).to_le_bytes());
            target = target.add(4);
            word >>= 32;
        }
        if length & 2 != 0 {
            target.cast::<[u8; 2]>().write((word as u16).to_le_bytes());
            target = target.add(2);
            word >>= 16;
        }
        if length & 1 != 0 {
            target.write(word as u8);
        }
    }
}

/// Clears every vector register, so that no secret stays behind in one.
///
/// Called on leaving each kernel that met a secret. The lower halves of registers 8 to 15 are the
/// caller's, who gets them back. It does not reach what the compiler spilled to the stack.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn clear() {
    // SAFETY: touches vector registers only, all of which are declared.
    unsafe {
        asm!(
            "movi v0.2d, #0", "movi v1.2d, #0", "movi v2.2d, #0", "movi v3.2d, #0",
            "movi v4.2d, #0", "movi v5.2d, #0", "movi v6.2d, #0", "movi v7.2d, #0",
            "movi v8.2d, #0", "movi v9.2d, #0", "movi v10.2d, #0", "movi v11.2d, #0",
            "movi v12.2d, #0", "movi v13.2d, #0", "movi v14.2d, #0", "movi v15.2d, #0",
            "movi v16.2d, #0", "movi v17.2d, #0", "movi v18.2d, #0", "movi v19.2d, #0",
            "movi v20.2d, #0", "movi v21.2d, #0", "movi v22.2d, #0", "movi v23.2d, #0",
            "movi v24.2d, #0", "movi v25.2d, #0", "movi v26.2d, #0", "movi v27.2d, #0",
            "movi v28.2d, #0", "movi v29.2d, #0", "movi v30.2d, #0", "movi v31.2d, #0",
            out("v0") _, out("v1") _, out("v2") _, out("v3") _,
            out("v4") _, out("v5") _, out("v6") _, out("v7") _,
            out("v8") _, out("v9") _, out("v10") _, out("v11") _,
            out("v12") _, out("v13") _, out("v14") _, out("v15") _,
            out("v16") _, out("v17") _, out("v18") _, out("v19") _,
            out("v20") _, out("v21") _, out("v22") _, out("v23") _,
            out("v24") _, out("v25") _, out("v26") _, out("v27") _,
            out("v28") _, out("v29") _, out("v30") _, out("v31") _,
            options(nomem, nostack, preserves_flags),
        );
    }
}
