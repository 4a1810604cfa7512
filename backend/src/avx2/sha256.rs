//! SHA-256 on eight lanes (FIPS 180-4, section 6.2), for processors without the SHA extensions: one block
//! into each state, and steps of chains.
//!
//! The blocks of chains are those of [`crate::common::chains::sha256`], the words of eight lanes side by side.
//!
//! There are no rotations: each is two shifts and an or. A round is 12 shifts and 23 other operations,
//! and a word of the schedule, of which there are 48, 10 shifts and 11 others: 3248 operations for a
//! block. Skylake does three a cycle at best, 135 cycles a lane, and Zen 3 four, 101.

use core::arch::x86_64::*;

use super::registers;
use super::sha2::xor;
use crate::common::chains::sha2::{Message, for_each_block};
use crate::common::chains::sha256::{
    ADDRESS_ROW, Chains, HASH_ROW, ROWS, SLH, VALUE_ROW, end_mark, message_bits,
};
use crate::common::memory::{Table, wipe};
use crate::common::sha2::{SHA256_ROUNDS, four_rounds, nothing, sixteen_rounds};

/// Streams that run side by side.
pub(super) const LANES: usize = 8;
/// Bytes of a block.
pub(super) const BLOCK: usize = 64;

/// The round constants, in memory for the loop.
static ROUNDS: [u32; 64] = SHA256_ROUNDS;

/// The bytes of each 32-bit word the other way round.
static BIG_ENDIAN: Table<u8, 32> = {
    let mut table = [0; 32];
    let mut i = 0;
    while i < 32 {
        table[i] = (i % 16 / 4 * 4 + 3 - i % 4) as u8;
        i += 1;
    }
    Table(table)
};

/// A rotation to the right.
macro_rules! right {
    ($x:expr, $bits:literal) => {
        _mm256_or_si256(_mm256_srli_epi32::<$bits>($x), _mm256_slli_epi32::<{ 32 - $bits }>($x))
    };
}

/// One round: h becomes the next a, and d the next e. `$differ` is where b and c differ; it becomes
/// where a and b do, which is that of the next round.
macro_rules! round {
    ($w:expr, $constant:expr, $differ:ident;
     $a:ident $b:ident $c:ident $d:ident $e:ident $f:ident $g:ident $h:ident) => {
        let sum_1 = xor!(right!($e, 6), right!($e, 11), right!($e, 25));
        let choice = _mm256_xor_si256($g, _mm256_and_si256($e, _mm256_xor_si256($f, $g)));
        let t1 = _mm256_add_epi32(
            _mm256_add_epi32($h, _mm256_add_epi32($w, _mm256_set1_epi32($constant as i32))),
            _mm256_add_epi32(sum_1, choice),
        );
        let sum_0 = xor!(right!($a, 2), right!($a, 13), right!($a, 22));
        let a_b = _mm256_xor_si256($a, $b);
        let majority = _mm256_xor_si256($b, _mm256_and_si256(a_b, $differ));
        $differ = a_b;
        $d = _mm256_add_epi32($d, t1);
        $h = _mm256_add_epi32(t1, _mm256_add_epi32(sum_0, majority));
    };
}

/// The word after the last sixteen, in place of the first of them.
macro_rules! schedule {
    ($w:ident, $i:expr) => {
        let (x, y) = ($w[($i + 1) % 16], $w[($i + 14) % 16]);
        let sigma_0 = xor!(right!(x, 7), right!(x, 18), _mm256_srli_epi32::<3>(x));
        let sigma_1 = xor!(right!(y, 17), right!(y, 19), _mm256_srli_epi32::<10>(y));
        let old = _mm256_add_epi32($w[$i], $w[($i + 9) % 16]);
        $w[$i] = _mm256_add_epi32(old, _mm256_add_epi32(sigma_0, sigma_1));
    };
}

/// One block into each state. `w` is used up.
#[inline(never)]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn compress(state: &mut [__m256i; 8], w: &mut [__m256i; 16]) {
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
    let mut differ = _mm256_xor_si256(b, c);
    let (scheduled, last) = ROUNDS.as_chunks::<16>().0.split_at(3);
    for k in scheduled {
        sixteen_rounds!(round(differ), schedule(), w, k; a b c d e f g h);
    }
    let k = &last[0];
    sixteen_rounds!(round(differ), nothing(), w, k; a b c d e f g h);
    let _ = differ;
    for (word, new) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
        *word = _mm256_add_epi32(*word, new);
    }
}

/// Advances every lane by the same number of steps: the value of V words becomes the hash of its
/// block, and the hash address is incremented. SHIFT is the layout's, [`SLH`] or that of LMS.
///
/// Code without AVX2 calls this function and not [`advance`]. The compiler respects `inline(never)`
/// of a function with target features only in calls from functions that have them, and inlines it
/// elsewhere. Then the scan of machine code would not find it.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn steps<const V: usize, const SHIFT: i32>(chains: &mut Chains<LANES>, steps: u32) {
    const { assert!(align_of::<Chains<LANES>>() >= 32 && size_of::<Chains<LANES>>() == ROWS * 32) };
    // SAFETY: as many registers as there are rows of eight words, aligned (asserted above), and any
    // bits are a value of both.
    let rows = unsafe { &mut *(chains as *mut Chains<LANES>).cast::<[__m256i; ROWS]>() };
    advance::<V, SHIFT>(rows, steps);
}

/// The end of a word and the beginning of the next, in a word of the block.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn straddle<const SHIFT: i32>(before: __m256i, next: __m256i) -> __m256i {
    if SHIFT == SLH {
        _mm256_or_si256(_mm256_slli_epi32::<16>(before), _mm256_srli_epi32::<16>(next))
    } else {
        _mm256_or_si256(_mm256_slli_epi32::<8>(before), _mm256_srli_epi32::<24>(next))
    }
}

/// Advances chains that are in registers of eight words.
#[inline(never)]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn advance<const V: usize, const SHIFT: i32>(rows: &mut [__m256i; ROWS], steps: u32) {
    let (mut state, mut w) = ([_mm256_setzero_si256(); 8], [_mm256_setzero_si256(); 16]);
    for _ in 0..steps {
        state.copy_from_slice(&rows[..8]);
        w[..5].copy_from_slice(&rows[ADDRESS_ROW..HASH_ROW]);
        let (hash, value) = (rows[HASH_ROW], &mut rows[VALUE_ROW..VALUE_ROW + V]);
        if SHIFT == SLH {
            w[4] = _mm256_or_si256(w[4], _mm256_srli_epi32::<16>(hash));
        }
        let mut before = hash;
        for (word, value) in w[5..].iter_mut().zip(&*value) {
            *word = straddle::<SHIFT>(before, *value);
            before = *value;
        }
        let end = straddle::<SHIFT>(before, _mm256_setzero_si256());
        w[5 + V] = _mm256_or_si256(end, _mm256_set1_epi32(end_mark(SHIFT)));
        w[6 + V..15].fill(_mm256_setzero_si256());
        w[15] = _mm256_set1_epi32(message_bits(SHIFT, V));
        compress(&mut state, &mut w);
        value.copy_from_slice(&state[..V]);
        rows[HASH_ROW] = _mm256_add_epi32(hash, _mm256_set1_epi32(1));
    }
    wipe(&mut state);
    wipe(&mut w);
}

/// One block into each state, row by row.
///
/// Like [`steps`], called by code without AVX2 in place of [`compress`].
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn compress_rows(
    from: &[[u32; LANES]; 8],
    block: &[&[u32; LANES]; 16],
    into: &mut [[u32; LANES]; 8],
) {
    // Loops: `map` is compiled without AVX2, and its closure is not inlined.
    let (mut states, mut w) = ([_mm256_setzero_si256(); 8], [_mm256_setzero_si256(); 16]);
    for (state, row) in states.iter_mut().zip(from) {
        // SAFETY: a row is as long as a register, and needs no alignment here.
        *state = unsafe { _mm256_loadu_si256(row.as_ptr().cast()) };
    }
    for (word, row) in w.iter_mut().zip(block) {
        // SAFETY: as above.
        *word = unsafe { _mm256_loadu_si256(row.as_ptr().cast()) };
    }
    compress(&mut states, &mut w);
    for (row, state) in into.iter_mut().zip(states) {
        // SAFETY: as above.
        unsafe { _mm256_storeu_si256(row.as_mut_ptr().cast(), state) };
    }
    wipe(&mut states);
    wipe(&mut w);
}

/// Hashes up to eight messages of the same length.
#[inline(never)]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn hash<M: Message>(jobs: &mut [M]) {
    let mut state = [_mm256_setzero_si256(); 8];
    for (words, job) in state.iter_mut().zip(&*jobs) {
        // SAFETY: eight words are a register.
        *words = unsafe { _mm256_loadu_si256(job.state().as_ptr().cast()) };
    }
    state = transpose(state);
    for_each_block::<LANES, BLOCK, M>(jobs, |blocks| absorb(&mut state, blocks));
    let order = registers::table(&BIG_ENDIAN);
    for (job, row) in jobs.iter_mut().zip(transpose(state)) {
        registers::store(job.output(), _mm256_shuffle_epi8(row, order));
    }
    wipe(&mut state);
    registers::clear();
}

/// Absorbs a block into each state.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn absorb(state: &mut [__m256i; 8], blocks: &[[u8; BLOCK]; LANES]) {
    let order = registers::table(&BIG_ENDIAN);
    let mut w = [_mm256_setzero_si256(); 16];
    for (half, words) in w.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        for (word, block) in words.iter_mut().zip(blocks) {
            let row = registers::load_32(&block.as_chunks::<32>().0[half]);
            *word = _mm256_shuffle_epi8(row, order);
        }
        *words = transpose(*words);
    }
    compress(state, &mut w);
    wipe(&mut w);
}

/// Transposes eight rows of eight 32-bit words.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn transpose(rows: [__m256i; 8]) -> [__m256i; 8] {
    let mut pairs = rows; // a0 b0 a1 b1, a2 b2 a3 b3 of rows a and b, and so on
    for (pair, rows) in pairs.as_chunks_mut::<2>().0.iter_mut().zip(rows.as_chunks::<2>().0) {
        let [a, b] = *rows;
        *pair = [_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b)];
    }
    let mut quads = pairs; // words 0, 1, 2 and 3, and in the upper half 4 to 7, of four rows
    for (quad, pairs) in quads.as_chunks_mut::<4>().0.iter_mut().zip(pairs.as_chunks::<4>().0) {
        let [ab_0, ab_2, cd_0, cd_2] = *pairs;
        *quad = [
            _mm256_unpacklo_epi64(ab_0, cd_0),
            _mm256_unpackhi_epi64(ab_0, cd_0),
            _mm256_unpacklo_epi64(ab_2, cd_2),
            _mm256_unpackhi_epi64(ab_2, cd_2),
        ];
    }
    let mut words = quads;
    for i in 0..4 {
        words[i] = _mm256_permute2x128_si256::<0x20>(quads[i], quads[4 + i]);
        words[4 + i] = _mm256_permute2x128_si256::<0x31>(quads[i], quads[4 + i]);
    }
    words
}
