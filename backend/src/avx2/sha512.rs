//! SHA-512 on four lanes (FIPS 180-4, section 6.4): one block into each state, and whole messages
//! (Ed25519).
//!
//! ```text
//!   four messages of one length --128 bytes each, transposed--> w[i] = word i of lanes 0 to 3
//! ```
//!
//! There are no rotations: each is two shifts and an or, or one byte shuffle. A round is 12 shifts and
//! 23 other operations, and a word of the schedule, of which there are 64, 8 shifts, a byte shuffle and
//! 10 others: 4016 operations for a block, of which Zen 3 does four a cycle at best, 251 cycles a lane.
//!
//! Time depends on lengths only.

use core::arch::x86_64::*;

use gabion_scheme::kernels::sha512::{SHA512_INITIAL, Sha512};

use super::keccak::transpose;
use super::registers;
use super::sha2::xor;
use crate::common::memory::{Table, wipe};
use crate::common::sha2::{SHA512_ROUNDS, four_rounds, in_lanes, nothing, sixteen_rounds};

/// Messages that are hashed side by side.
pub(super) const LANES: usize = 4;
/// Bytes of a block.
pub(super) const BLOCK: usize = 128;

/// The round constants, in memory for the loop.
static ROUNDS: [u64; 80] = SHA512_ROUNDS;

/// The bytes of each 64-bit word the other way round.
pub(super) static BIG_ENDIAN: Table<u8, 32> = {
    let mut table = [0; 32];
    let mut i = 0;
    while i < 32 {
        table[i] = (i % 16 / 8 * 8 + 7 - i % 8) as u8;
        i += 1;
    }
    Table(table)
};

/// Each word rotated right by 8 bits, as a permutation of bytes.
static RIGHT_8: Table<u8, 32> = {
    let mut table = [0; 32];
    let mut i = 0;
    while i < 32 {
        table[i] = (i % 16 / 8 * 8 + (i + 1) % 8) as u8;
        i += 1;
    }
    Table(table)
};

/// A rotation to the right.
macro_rules! right {
    ($x:expr, $bits:literal) => {
        _mm256_or_si256(_mm256_srli_epi64::<$bits>($x), _mm256_slli_epi64::<{ 64 - $bits }>($x))
    };
}

/// One round: h becomes the next a, and d the next e. `$differ` is where b and c differ; it becomes
/// where a and b do, which is that of the next round.
macro_rules! round {
    ($w:expr, $constant:expr, $differ:ident;
     $a:ident $b:ident $c:ident $d:ident $e:ident $f:ident $g:ident $h:ident) => {
        let sum_1 = xor!(right!($e, 14), right!($e, 18), right!($e, 41));
        let choice = _mm256_xor_si256($g, _mm256_and_si256($e, _mm256_xor_si256($f, $g)));
        let t1 = _mm256_add_epi64(
            _mm256_add_epi64($h, _mm256_add_epi64($w, _mm256_set1_epi64x($constant as i64))),
            _mm256_add_epi64(sum_1, choice),
        );
        let sum_0 = xor!(right!($a, 28), right!($a, 34), right!($a, 39));
        let a_b = _mm256_xor_si256($a, $b);
        let majority = _mm256_xor_si256($b, _mm256_and_si256(a_b, $differ));
        $differ = a_b;
        $d = _mm256_add_epi64($d, t1);
        $h = _mm256_add_epi64(t1, _mm256_add_epi64(sum_0, majority));
    };
}

/// The word after the last sixteen, in place of the first of them.
macro_rules! schedule {
    ($w:ident, $i:expr, $right_8:ident) => {
        let (x, y) = ($w[($i + 1) % 16], $w[($i + 14) % 16]);
        let sigma_0 =
            xor!(right!(x, 1), _mm256_shuffle_epi8(x, $right_8), _mm256_srli_epi64::<7>(x));
        let sigma_1 = xor!(right!(y, 19), right!(y, 61), _mm256_srli_epi64::<6>(y));
        let old = _mm256_add_epi64($w[$i], $w[($i + 9) % 16]);
        $w[$i] = _mm256_add_epi64(old, _mm256_add_epi64(sigma_0, sigma_1));
    };
}

/// One block into each state. `w` is used up.
#[inline(never)]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn compress(state: &mut [__m256i; 8], w: &mut [__m256i; 16]) {
    let right_8 = registers::table(&RIGHT_8);
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
    let mut differ = _mm256_xor_si256(b, c);
    let (scheduled, last) = ROUNDS.as_chunks::<16>().0.split_at(4);
    for k in scheduled {
        sixteen_rounds!(round(differ), schedule(right_8), w, k; a b c d e f g h);
    }
    let k = &last[0];
    sixteen_rounds!(round(differ), nothing(), w, k; a b c d e f g h);
    let _ = differ;
    for (word, new) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
        *word = _mm256_add_epi64(*word, new);
    }
}

/// Absorbs a block into each state.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn absorb(state: &mut [__m256i; 8], blocks: [&[u8; BLOCK]; LANES]) {
    let order = registers::table(&BIG_ENDIAN);
    let mut w = [_mm256_setzero_si256(); 16];
    for (quarter, words) in w.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        let rows = blocks.map(|block| &block.as_chunks::<32>().0[quarter]);
        *words = transpose(rows.map(|row| _mm256_shuffle_epi8(registers::load_32(row), order)));
    }
    compress(state, &mut w);
    wipe(&mut w);
}

/// Half of each lane's state, of which `words` points to the first word.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn load_states(words: [&[u64; 4]; LANES]) -> [__m256i; 4] {
    // SAFETY: four words of 64 bits are a register.
    transpose(words.map(|words| unsafe { _mm256_loadu_si256(words.as_ptr().cast()) }))
}

/// Hashes messages of any lengths from SHA-512's own initial state, four side by side. Time depends
/// on their lengths.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn hash_whole(jobs: &mut [Sha512<'_>]) {
    in_lanes::<LANES>(jobs, |jobs, padded, most| {
        let count = |lane: usize| jobs.get(lane).map_or(0, |job| job.blocks() as i64);
        let counts = _mm256_set_epi64x(count(3), count(2), count(1), count(0));
        let mut state = SHA512_INITIAL.map(|word| _mm256_set1_epi64x(word as i64));
        let blocks = |block: usize| core::array::from_fn(|lane| &padded[lane][block]);
        for block in 0..most {
            let before = state;
            absorb(&mut state, blocks(block));
            // Lanes that have ended stay as they are.
            let live = _mm256_cmpgt_epi64(counts, _mm256_set1_epi64x(block as i64));
            for (word, before) in state.iter_mut().zip(before) {
                *word = _mm256_blendv_epi8(before, *word, live);
            }
        }
        let order = registers::table(&BIG_ENDIAN);
        for (half, words) in state.as_chunks().0.iter().enumerate() {
            for (job, row) in jobs.iter_mut().zip(transpose(*words)) {
                let part = &mut job.digest[32 * half..32 * half + 32];
                registers::store(part, _mm256_shuffle_epi8(row, order));
            }
        }
        wipe(&mut state);
    });
    registers::clear();
}
