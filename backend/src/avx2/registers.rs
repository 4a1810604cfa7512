//! Moves between memory and 256-bit registers, and the clearing of registers.
//!
//! Everything here is safe to call from a kernel: lengths are checked, alignment comes from types.

use core::arch::asm;
use core::arch::x86_64::*;

use crate::memory::{Plain, Table};

// SAFETY: a register has no padding, and any bits are a value.
unsafe impl Plain for __m256i {}

/// A table of constants as a register.
#[inline(always)]
pub(super) fn table<T: Plain, const N: usize>(table: &Table<T, N>) -> __m256i {
    const { assert!(N * size_of::<T>() == 32 && align_of::<Table<T, N>>() >= 32) };
    // SAFETY: the table begins with a register's worth of plain data, aligned (asserted above).
    unsafe { *(table as *const Table<T, N>).cast() }
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
