//! Chains of the SHAKE family of SLH-DSA on four lanes: what [`crate::common::chains::shake`] needs of AVX2.

use core::arch::x86_64::*;

use super::keccak::{State, permute_4};
use super::keccak_one::permute_1;
use super::{Avx2, registers};
use crate::common::chains::shake::{Block, Steps, WORDS, hash_word, value_word};
use crate::common::memory::{Table, wipe};

/// Permutes the bytes of each 64-bit word so that the lower half goes to the upper, the last byte
/// first, and zeros into the lower.
static HASH_ADDRESS: Table<u8, 32> = {
    let mut table = [0x80; 32];
    let mut i = 0;
    while i < 32 {
        if i % 8 >= 4 {
            table[i] = (i / 8 % 2 * 8 + 7 - i % 8) as u8;
        }
        i += 1;
    }
    Table(table)
};

impl Steps<4> for Avx2 {
    #[inline(always)]
    fn steps<const V: usize>(self, block: &mut Block<4>, steps: u32, count: usize) {
        if count == 1 {
            // SAFETY: the token proves that the processor has AVX2, BMI1 and BMI2.
            return unsafe { advance_alone::<V>(block, steps) };
        }
        // SAFETY: the token proves that the processor has AVX2.
        unsafe { advance::<V>(block, steps) }
    }

    #[inline(always)]
    fn clear(self) {
        // SAFETY: the token proves that the processor has AVX2.
        unsafe { registers::clear() }
    }
}

/// Advances lane 0 by a number of steps, in general registers, in which one state is faster than
/// four are in lanes.
#[inline(never)]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn advance_alone<const V: usize>(block: &mut Block<4>, steps: u32) {
    let mut state = [0; 25];
    for _ in 0..steps {
        let hash = block.hash[0];
        let address = u64::from((hash as u32).swap_bytes()) << 32;
        block.words[hash_word(V)][0] = block.around[0] | address;
        block.hash[0] = hash + 1;
        for (word, lanes) in state.iter_mut().zip(&block.words) {
            *word = lanes[0];
        }
        state[WORDS..].fill(0);
        state[16] = 1 << 63;
        permute_1(&mut state);
        for (lanes, word) in block.words[value_word(V)..value_word(V) + V].iter_mut().zip(state) {
            lanes[0] = word;
        }
    }
    wipe(&mut state);
}

/// Advances every lane by the same number of steps.
#[inline(never)]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn advance<const V: usize>(block: &mut Block<4>, steps: u32) {
    const { assert!(align_of::<Block<4>>() >= 32) };
    // SAFETY: each is as large as the registers it becomes, and aligned (asserted above), and every
    // bit pattern is valid in both.
    let (words, hash, around) = unsafe {
        (
            &mut *block.words.as_mut_ptr().cast::<[__m256i; WORDS]>(),
            &mut *block.hash.as_mut_ptr().cast::<__m256i>(),
            *block.around.as_ptr().cast::<__m256i>(),
        )
    };
    let order = registers::table(&HASH_ADDRESS);
    let mut state: State = [_mm256_setzero_si256(); 25];
    for _ in 0..steps {
        words[hash_word(V)] = _mm256_or_si256(around, _mm256_shuffle_epi8(*hash, order));
        *hash = _mm256_add_epi64(*hash, _mm256_set1_epi64x(1));
        state[..WORDS].copy_from_slice(words);
        state[WORDS..].fill(_mm256_setzero_si256());
        state[16] = _mm256_set1_epi64x(i64::MIN);
        permute_4(&mut state);
        words[value_word(V)..value_word(V) + V].copy_from_slice(&state[..V]);
    }
    wipe(&mut state);
}
