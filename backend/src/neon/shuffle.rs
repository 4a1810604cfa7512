//! Exchanges between two registers that bring the two operands of in-register butterflies to the
//! same place of different registers. Each is its own inverse; `crate::common::constants::exchange` does the
//! same on indices, from which the order of the roots follows.

use core::arch::aarch64::*;

/// The exchange before a layer within neighbours, over halves of a register (0) or over items of 32
/// bits (1), and after it on the way back.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn exchange<const LAYER: usize>(a: int32x4_t, b: int32x4_t) -> (int32x4_t, int32x4_t) {
    if LAYER == 0 {
        let (a, b) = (vreinterpretq_s64_s32(a), vreinterpretq_s64_s32(b));
        (vreinterpretq_s32_s64(vtrn1q_s64(a, b)), vreinterpretq_s32_s64(vtrn2q_s64(a, b)))
    } else {
        (vtrn1q_s32(a, b), vtrn2q_s32(a, b))
    }
}
