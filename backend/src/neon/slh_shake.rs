//! Chains of the SHAKE family of SLH-DSA on two lanes: what [`crate::common::chains::shake`] needs of NEON with
//! the SHA3 extension.

use core::arch::aarch64::*;

use super::keccak::permute_2;
use super::{Sha3, registers};
use crate::common::chains::shake::{Block, Steps, WORDS, hash_word, value_word};
use crate::common::memory::wipe;

impl Steps<2> for Sha3 {
    #[inline(always)]
    fn steps<const V: usize>(self, block: &mut Block<2>, steps: u32, _count: usize) {
        // SAFETY: the token proves that the processor has the SHA3 extension.
        unsafe { advance::<V>(block, steps) }
    }

    #[inline(always)]
    fn clear(self) {
        // SAFETY: the token proves that the processor has NEON.
        unsafe { registers::clear() }
    }
}

/// Advances both lanes by the same number of steps.
#[inline(never)]
#[target_feature(enable = "neon,sha3")]
fn advance<const V: usize>(block: &mut Block<2>, steps: u32) {
    const { assert!(align_of::<Block<2>>() >= 16) };
    // SAFETY: each is as large as the registers it becomes, and aligned (asserted above), and every
    // bit pattern is valid in both.
    let (words, hash, around) = unsafe {
        (
            &mut *block.words.as_mut_ptr().cast::<[uint64x2_t; WORDS]>(),
            &mut *block.hash.as_mut_ptr().cast::<uint64x2_t>(),
            *block.around.as_ptr().cast::<uint64x2_t>(),
        )
    };
    let zero = vdupq_n_u64(0);
    let mut state = [zero; 25];
    for _ in 0..steps {
        // To the upper half, the last byte first.
        let upper = vrev64q_u8(vreinterpretq_u8_u64(*hash));
        words[hash_word(V)] = vorrq_u64(around, vreinterpretq_u64_u8(upper));
        *hash = vaddq_u64(*hash, vdupq_n_u64(1));
        state[..WORDS].copy_from_slice(words);
        state[WORDS..].fill(zero);
        state[16] = vdupq_n_u64(1 << 63);
        permute_2(&mut state);
        words[value_word(V)..value_word(V) + V].copy_from_slice(&state[..V]);
    }
    wipe(&mut state);
}
