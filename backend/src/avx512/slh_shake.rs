//! Chains and tree hashes of the SHAKE family of SLH-DSA on eight lanes: what [`crate::slh::shake`]
//! needs of AVX-512.

use core::arch::x86_64::*;

use gabion_scheme::kernels::slh::{SlhChain, SlhHash};

use super::keccak::{ShortBlock, short_hash_8, short_hash_low_4};
use super::{Isa, registers, sponge};
use crate::memory::{Table, wipe};
use crate::slh::shake::{self, Block, Steps, WORDS, hash_word, value_word};

/// To the upper half of a 64-bit word its lower half, the last byte first.
static HASH_ADDRESS: Table<u8, 64> = {
    let mut table = [0x80; 64];
    let mut i = 0;
    while i < 64 {
        if i % 8 >= 4 {
            table[i] = (i / 8 % 2 * 8 + 7 - i % 8) as u8;
        }
        i += 1;
    }
    Table(table)
};

impl Steps<8> for Isa {
    #[inline(always)]
    fn steps<const V: usize>(self, block: &mut Block<8>, steps: u32, count: usize) {
        // SAFETY: the token proves that the processor has AVX-512.
        unsafe { advance::<V>(block, steps, count <= 4) }
    }

    #[inline(always)]
    fn clear(self) {
        // SAFETY: the token proves that the processor has AVX-512.
        unsafe { registers::clear() }
    }
}

/// As many steps in every lane, or in lanes 0 to 3.
#[inline(never)]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn advance<const V: usize>(block: &mut Block<8>, steps: u32, is_narrow: bool) {
    const { assert!(align_of::<Block<8>>() == 64 && size_of::<ShortBlock>() == 64 * WORDS) };
    // SAFETY: each is as large as the registers it becomes, and aligned (asserted above), and every
    // bit pattern is valid in both.
    let (words, hash, around) = unsafe {
        (
            &mut *block.words.as_mut_ptr().cast::<ShortBlock>(),
            &mut *block.hash.as_mut_ptr().cast::<__m512i>(),
            *block.around.as_ptr().cast::<__m512i>(),
        )
    };
    let order = registers::table(&HASH_ADDRESS);
    let mut output = [_mm512_setzero_si512(); 4];
    for _ in 0..steps {
        words[hash_word(V)] = _mm512_or_si512(around, _mm512_shuffle_epi8(*hash, order));
        *hash = _mm512_add_epi64(*hash, _mm512_set1_epi64(1));
        if is_narrow {
            short_hash_low_4(words, &mut output);
        } else {
            short_hash_8(words, &mut output);
        }
        words[value_word(V)..value_word(V) + V].copy_from_slice(&output[..V]);
    }
    wipe(&mut output);
}

/// Runs every chain of the SHAKE family to its end.
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(super) fn chain_many(isa: Isa, jobs: &mut [SlhChain<'_>]) {
    shake::chain_many(isa, jobs);
}

/// Runs every hash of the SHAKE family.
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(super) fn hash_many(isa: Isa, jobs: &mut [SlhHash<'_>]) {
    shake::hash_many(jobs, |sponges| sponge::sponge_many(isa, sponges));
}
