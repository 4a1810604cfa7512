//! Leaves of LMS on sixteen lanes of SHA-256 (RFC 8554, Algorithm 1 and section 5.3): a leaf a lane.
//!
//! ```text
//!   lane   q     q + 1   ...  q + 15        chain i of all of them at once: secret, steps, and into K
//! ```
//!
//! All chains are of one length, so no lane waits, and nothing is turned from bytes into words or back
//! before the leaves are there: seed and I are the same in each lane, and K takes what chains end with.
//!
//! Time depends on numbers of leaves and chains, w and n only.

use core::arch::x86_64::*;

use gabion_scheme::kernels::lms::{D_LEAF, D_PBLC, LmsLeaves, OF_SECRET};
use gabion_scheme::kernels::slh::SHA256_START;

use crate::avx512::registers;
use crate::avx512::sha2::sha256_lanes::{LANES, Rows, advance, compress, words_to_rows};
use crate::common::chains::sha256::{ADDRESS_ROW, HASH_ROW, LMS, ROWS, VALUE_ROW};
use crate::common::memory::{Table, wipe};

/// The copy of the compression function in this file.
const LEAVES: i32 = 1;

/// The number of leaves before each lane's.
static PLACES: Table<u32, 16> = Table([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);

/// Works sixteen leaves at a time out, and says how many there were.
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn whole_groups(job: &mut LmsLeaves<'_>) -> usize {
    let n = job.seed.len();
    assert!(n == 24 || n == 32, "n is 24 or 32");
    let group = LANES * n;
    let count = job.output.len() / group;
    let output = core::mem::take(&mut job.output);
    for (group, output) in output.chunks_exact_mut(group).enumerate() {
        let q = job.first + (group * LANES) as u32;
        match n {
            24 => sixteen::<6>(job, q, output),
            _ => sixteen::<8>(job, q, output),
        }
    }
    job.output = output;
    registers::clear();
    count * LANES
}

/// SHA-256 of a message in sixteen lanes that takes words half a word late: they stand behind 22 bytes.
struct LaneHasher {
    state: [__m512i; 8],
    block: [__m512i; 16],
    /// Words in the block.
    at: usize,
    /// The word of which the second half is still to come.
    before: __m512i,
}

impl LaneHasher {
    /// I || number || what.
    #[inline]
    #[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
    fn new(address: &[__m512i], number: __m512i, what: u16) -> Self {
        let mut block = [_mm512_setzero_si512(); 16];
        block[..4].copy_from_slice(&address[..4]);
        block[4] = number;
        let state = SHA256_START.map(|word| _mm512_set1_epi32(word as i32));
        LaneHasher { state, block, at: 5, before: _mm512_set1_epi32(i32::from(what)) }
    }

    /// Words that follow.
    #[inline(never)]
    #[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
    fn take(&mut self, words: &[__m512i]) {
        for &word in words {
            self.block[self.at] = _mm512_shldi_epi32::<16>(self.before, word);
            self.before = word;
            self.at += 1;
            if self.at == 16 {
                compress::<LEAVES>(&mut self.state, self.block);
                self.at = 0;
            }
        }
    }

    /// The hash, where the message has so many bytes.
    #[inline]
    #[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
    fn end(mut self, length: usize) -> [__m512i; 8] {
        // The last half word and the bit that ends the message; zeros, and the length, half a word late.
        let zero = _mm512_setzero_si512();
        self.take(&[_mm512_set1_epi32(i32::MIN)]);
        while self.at != 14 {
            self.take(&[zero]);
        }
        let bits = 8 * length as u32;
        let halves = [bits >> 16, bits << 16].map(|half| _mm512_set1_epi32(half as i32));
        self.take(&halves);
        wipe(&mut self.block);
        self.state
    }
}

/// Sixteen leaves, of whose values V words are n bytes, from q on.
#[inline(never)]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn sixteen<const V: usize>(job: &LmsLeaves<'_>, q: u32, output: &mut [u8]) {
    let all = |word: u32| _mm512_set1_epi32(word as i32);
    let word = |bytes: &[u8; 4]| all(u32::from_be_bytes(*bytes));
    let mut rows: Rows = [_mm512_setzero_si512(); ROWS];
    for (row, start) in rows.iter_mut().zip(SHA256_START) {
        *row = all(start);
    }
    for (row, bytes) in rows[ADDRESS_ROW..].iter_mut().zip(job.id.as_chunks().0) {
        *row = word(bytes);
    }
    let places = registers::table(&PLACES);
    rows[ADDRESS_ROW + 4] = _mm512_add_epi32(all(q), places);
    let mut key = LaneHasher::new(&rows[ADDRESS_ROW..], rows[ADDRESS_ROW + 4], D_PBLC);
    for i in 0..job.chains as u32 {
        for (row, bytes) in rows[VALUE_ROW..].iter_mut().zip(job.seed.as_chunks().0) {
            *row = word(bytes);
        }
        rows[HASH_ROW] = all(i << 8 | u32::from(OF_SECRET));
        advance::<V, LMS>(&mut rows, 1);
        rows[HASH_ROW] = all(i << 8);
        advance::<V, LMS>(&mut rows, (1 << job.w) - 1);
        key.take(&rows[VALUE_ROW..VALUE_ROW + V]);
    }
    let key = key.end(22 + job.chains * 4 * V);
    let number = _mm512_add_epi32(all(job.base + q), places);
    let mut leaf = LaneHasher::new(&rows[ADDRESS_ROW..], number, D_LEAF);
    leaf.take(&key[..V]);
    let leaf = leaf.end(22 + 4 * V);
    for (output, row) in output.chunks_exact_mut(4 * V).zip(words_to_rows(leaf)) {
        registers::store_hash(output, row);
    }
    wipe(&mut rows);
}
