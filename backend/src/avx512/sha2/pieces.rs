//! Messages of hashes of trees, `prefix || input`, 64 bytes at a time.
//!
//! They are put together in registers: a load that meets several stores waits for all of them, and the
//! messages of nodes are one block.

use core::arch::x86_64::*;

use crate::avx512::registers;
use crate::common::chains::sha2::ADDRESS;
use crate::common::memory::Table;

/// Bytes from `ADDRESS` on come from the first ones.
static BEHIND_ADDRESS: Table<u8, 64> = {
    let mut table = [0; 64];
    let mut i = ADDRESS;
    while i < 64 {
        table[i] = (i - ADDRESS) as u8;
        i += 1;
    }
    Table(table)
};

/// Bytes that are put together in a register.
pub(crate) const PIECE: usize = 64;

/// The first 64 bytes of a message, by the [`ADDRESS`] bytes of its prefix, and zeros, in a register.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn first(prefix: __m512i, input: &[u8]) -> __m512i {
    let behind = registers::table(&BEHIND_ADDRESS);
    let head = registers::first(ADDRESS);
    let input = registers::load(input, 0);
    _mm512_or_si512(prefix, _mm512_maskz_permutexvar_epi8(!head, behind, input))
}

/// The 64 bytes at `PIECE * i` of a message, where i is not 0.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn later(input: &[u8], i: usize) -> __m512i {
    registers::load(input, (PIECE * i - ADDRESS).min(input.len()))
}

/// Returns the padding in piece `i` of `pieces`, behind B bytes, the block of PK.seed or nothing,
/// and an input of `length` bytes: the bit that ends the message, and in the last word the length.
/// The remaining bytes that the standard reserves for it are zero.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn padding<const B: usize>(length: usize, i: usize, pieces: usize) -> __m512i {
    let (start, end) = (PIECE * i, ADDRESS + length);
    let mut padding = _mm512_setzero_si512();
    if (start..start + PIECE).contains(&end) {
        let (word, byte) = ((end - start) / 8, (end - start) % 8);
        padding = _mm512_maskz_mov_epi64(1 << word, _mm512_set1_epi64(0x80 << (8 * byte)));
    }
    if i == pieces - 1 {
        let bits = _mm512_set1_epi64((8 * (B + end) as u64).swap_bytes() as i64);
        padding = _mm512_or_si512(padding, _mm512_maskz_mov_epi64(1 << 7, bits));
    }
    padding
}
