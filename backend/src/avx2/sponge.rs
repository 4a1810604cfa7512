//! Sponges over four lanes: what the scheduler of [`crate::common::sponge`] needs of AVX2.
//!
//! A single sponge runs on general registers, which are quicker for one than lanes are for four.

use core::arch::x86_64::*;

use gabion_scheme::kernels::Sponge;

use super::{Avx2, keccak, keccak_one, registers};
use crate::common::memory::Table;
use crate::common::sponge::{Lanes, Row, SHORT, State, copy_any, stations};

stations!(Avx2, 4, 4, __m256i, #[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]);

/// All ones and then zeros: a register that is read `n` words before the middle has `n` words set.
static FIRST_WORDS: Table<u64, 8> = Table([!0, !0, !0, !0, 0, 0, 0, 0]);

/// The words of each set of lanes.
static LANES: [Table<u64, 4>; 16] = {
    let mut tables = [Table([0; 4]); 16];
    let mut i = 0;
    while i < 64 {
        tables[i / 4].0[i % 4] = if (i / 4) >> (i % 4) & 1 == 1 { !0 } else { 0 };
        i += 1;
    }
    tables
};

impl Lanes<4, 4> for Avx2 {
    type Vector = __m256i;

    #[inline(always)]
    fn splat(self, word: u64) -> __m256i {
        // SAFETY: the token proves that the processor has AVX2.
        unsafe { _mm256_set1_epi64x(word as i64) }
    }

    #[inline(always)]
    fn xor(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: the token proves that the processor has AVX2.
        unsafe { _mm256_xor_si256(a, b) }
    }

    #[inline(always)]
    fn only(self, v: __m256i, lanes: u8) -> __m256i {
        let mask = registers::table(&LANES[usize::from(lanes & 15)]);
        // SAFETY: the token proves that the processor has AVX2.
        unsafe { _mm256_and_si256(v, mask) }
    }

    #[inline(always)]
    unsafe fn load(self, words: *const u8, count: usize) -> __m256i {
        // SAFETY: the token proves that the processor has AVX2, four words can be read, and as many
        // of the table from any of its first five on.
        unsafe {
            let v = _mm256_loadu_si256(words.cast());
            if count == 4 {
                return v;
            }
            let mask = _mm256_loadu_si256(FIRST_WORDS.0[4 - count..].as_ptr().cast());
            _mm256_and_si256(v, mask)
        }
    }

    #[inline(always)]
    unsafe fn gather(self, words: [*const u8; 4]) -> __m256i {
        // SAFETY: the token proves that the processor has AVX2, and the words can be read.
        unsafe {
            let [a, b, c, d] = words.map(|word| word.cast::<i64>().read_unaligned());
            _mm256_set_epi64x(d, c, b, a)
        }
    }

    #[inline(always)]
    unsafe fn store(self, target: *mut u8, v: __m256i, length: usize) {
        // SAFETY: the token proves that the processor has AVX2, and so much can be written.
        unsafe {
            if length >= 32 {
                return _mm256_storeu_si256(target.cast(), v);
            }
            registers::store_first(target, v, length);
        }
    }

    #[inline(always)]
    fn copy_short(self, row: &mut Row, at: usize, piece: &[u8]) {
        let target = &mut row.0[at..at + SHORT];
        match piece.len() {
            // The seeds of both schemes.
            32 => target[..32].copy_from_slice(piece),
            64 => target.copy_from_slice(piece),
            n => copy_any(&mut target[..n], piece),
        }
    }

    #[inline(always)]
    fn equal(self, bytes: &[u8; 64], byte: u8) -> u64 {
        let halves = bytes.as_chunks::<32>().0;
        let mut bits = 0;
        for (i, half) in halves.iter().enumerate() {
            // SAFETY: the token proves that the processor has AVX2, and 32 bytes can be read.
            let equal = unsafe {
                let half = _mm256_loadu_si256(half.as_ptr().cast());
                _mm256_movemask_epi8(_mm256_cmpeq_epi8(half, _mm256_set1_epi8(byte as i8)))
            };
            bits |= u64::from(equal as u32) << (32 * i);
        }
        bits
    }

    #[inline(always)]
    fn rows_to_words<const W: usize>(self, rows: [__m256i; 4]) -> [__m256i; 4] {
        // SAFETY: the token proves that the processor has AVX2.
        unsafe { keccak::transpose(rows) }
    }

    #[inline(always)]
    fn words_to_rows<const W: usize>(self, words: [__m256i; 4]) -> [__m256i; 4] {
        // SAFETY: the token proves that the processor has AVX2.
        unsafe { keccak::transpose(words) }
    }

    #[inline(always)]
    fn permute<const W: usize>(self, state: &mut State<__m256i>) {
        // SAFETY: the token proves that the processor has AVX2.
        unsafe { keccak::permute_4(state) }
    }

    #[inline(always)]
    fn permute_one(self, words: &mut [u64; 25]) {
        // SAFETY: the token proves that the processor has AVX2, BMI1 and BMI2.
        unsafe { keccak_one::permute_1(words) }
    }

    #[inline(always)]
    fn clear(self) {
        // SAFETY: the token proves that the processor has AVX2.
        unsafe { registers::clear() }
    }

    stations!(methods: __m256i, 4);
}
