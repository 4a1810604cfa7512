//! Chains and tree hashes of the SHAKE family of SLH-DSA on eight lanes: what [`crate::common::chains::shake`]
//! needs of AVX-512.

use core::arch::x86_64::*;

use gabion_scheme::kernels::Xof;
use gabion_scheme::kernels::slh::{SlhChain, SlhHash};

use crate::avx512::keccak::sponge;
use crate::avx512::keccak::{
    ShortBlock, permute_8, permute_low_4, rows_to_words, short_hash_8, short_hash_low_4,
    words_to_rows,
};
use crate::avx512::{Isa, registers};
use crate::common::chains::shake::{self, ADDRESS, Block, Steps, WORDS, hash_word, value_word};
use crate::common::memory::{Table, wipe};

/// States that are permuted side by side.
const LANES: usize = 8;

/// Moves the lower half of a 64-bit word to its upper half, the last byte first.
pub(crate) static HASH_ADDRESS: Table<u8, 64> = {
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

/// Advances every lane, or only lanes 0 to 3, by the same number of steps.
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
pub(crate) fn chain_many(isa: Isa, jobs: &mut [SlhChain<'_>]) {
    shake::chain_many(isa, jobs);
}

/// Runs every hash of the SHAKE family.
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn hash_many(isa: Isa, jobs: &mut [SlhHash<'_>]) {
    SlhHash::assert_all(jobs);
    let is_node = |job: &SlhHash<'_>| job.input.len() == 2 * job.context.n;
    for run in jobs.chunk_by_mut(|a, b| is_node(a) == is_node(b)) {
        // The scheduler of sponges asks of each what to read next: as much again as a permutation. One
        // alone is quicker there.
        let (nodes, others) = run.split_at_mut(match &*run {
            [first, _, ..] if is_node(first) => run.len() - usize::from(run.len() % LANES == 1),
            _ => 0,
        });
        for group in nodes.chunks_mut(LANES) {
            match (group[0].context.n, group.len()) {
                (16, ..=4) => hash_nodes::<2, 4>(group),
                (16, _) => hash_nodes::<2, 8>(group),
                (24, ..=4) => hash_nodes::<3, 4>(group),
                (24, _) => hash_nodes::<3, 8>(group),
                (_, ..=4) => hash_nodes::<4, 4>(group),
                _ => hash_nodes::<4, 8>(group),
            }
        }
        if !others.is_empty() {
            shake::hash_many(others, |sponges| sponge::sponge_many(isa, sponges));
        }
    }
    registers::clear();
}

/// Hashes of two values of V words, W at most, 4 or 8, side by side: one permutation of PK.seed, ADRS and the
/// values. Lanes beyond them repeat the first.
#[inline(never)]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn hash_nodes<const V: usize, const W: usize>(jobs: &mut [SlhHash<'_>]) {
    let zero = _mm512_setzero_si512();
    let (mut heads, mut values) = ([zero; LANES], [zero; LANES]);
    for (lane, (head, value)) in heads.iter_mut().zip(&mut values).enumerate().take(W) {
        let job = &jobs[if lane < jobs.len() { lane } else { 0 }];
        *head = registers::halves(&job.context.pk_seed, &job.address.0);
        *value = registers::load(job.input, 0);
    }
    let (head, value) = (rows_to_words::<W>(heads), rows_to_words::<W>(values));
    let mut state = [zero; 25];
    state[..V].copy_from_slice(&head[..V]);
    state[V..V + ADDRESS].copy_from_slice(&head[4..4 + ADDRESS]);
    state[V + ADDRESS..3 * V + ADDRESS].copy_from_slice(&value[..2 * V]);
    // The suffix, and the last bit of the block, which is word 16 at most.
    state[3 * V + ADDRESS] = _mm512_set1_epi64(i64::from(Xof::Shake256.suffix()));
    state[16] = _mm512_xor_si512(state[16], _mm512_set1_epi64(i64::MIN));
    if W > 4 {
        permute_8(&mut state);
    } else {
        permute_low_4(&mut state);
    }
    let mut words = [zero; LANES];
    words[..V].copy_from_slice(&state[..V]);
    for (job, row) in jobs.iter_mut().zip(words_to_rows::<W>(words)) {
        registers::store_hash(job.output, row);
    }
    wipe(&mut state);
}
