//! Fields of a fixed width to bytes and back (BitsToBytes: FIPS 203, Algorithm 3; FIPS 204,
//! Algorithm 12).
//!
//! ```text
//!   unpack  bytes  --vpshufb-->  each field's bytes in its place  --shift, mask-->  fields
//!   pack    fields  --multiply-add, shifts-->  2 x F bits in 128  --vpshufb-->  F / 4 bytes a half
//! ```
//!
//! Byte shuffles stay within 128 bits, so each half of a register has its own load or store.

use core::arch::x86_64::*;

use super::registers;
use crate::common::memory::Table;

/// The shuffle and shifts that unpack bytes to fields.
struct UnpackTable {
    /// Where the bytes of the second half begin, behind those of the first.
    second: usize,
    /// For each byte of the result, the byte of its half.
    gather: Table<u8, 32>,
    /// For words, the factors that shift the fields to the top; for double words, the shifts that
    /// bring them to the bottom.
    words: Table<u16, 16>,
    double_words: Table<u32, 8>,
}

/// Fields in words or double words, `width` bytes each.
const fn unpack_table(bits: usize, width: usize) -> UnpackTable {
    let mut u = UnpackTable {
        second: 16 / width * bits / 8,
        gather: Table([0; 32]),
        words: Table([0; 16]),
        double_words: Table([0; 8]),
    };
    let mut byte = 0;
    while byte < 32 {
        let half = byte / 16;
        let bit = byte / width * bits - 8 * half * u.second;
        u.gather.0[byte] = (bit / 8 + byte % width) as u8;
        if width == 2 {
            assert!(bit % 8 + bits <= 16, "a field in three bytes");
            u.words.0[byte / 2] = 1 << (16 - bits - bit % 8);
        } else {
            assert!(bit % 8 + bits <= 32, "a field in five bytes");
            u.double_words.0[byte / 4] = (bit % 8) as u32;
        }
        byte += 1;
    }
    u
}

/// The shuffles and shifts that pack numbers of F bits in 64 to bytes, those of a half together.
struct PackTable {
    /// Left shifts that bring the odd numbers to their places within their first byte.
    place: Table<u64, 4>,
    /// For each output byte, the byte that its lowest bit belongs to; none beyond the last.
    first: Table<u8, 32>,
    /// For the output byte in which the second number begins, if it shares it, that number's first.
    second: Table<u8, 32>,
}

const fn pack_table(bits: usize) -> PackTable {
    const NONE: u8 = 0x80;
    assert!(bits.is_multiple_of(4));
    let mut p =
        PackTable { place: Table([0; 4]), first: Table([NONE; 32]), second: Table([NONE; 32]) };
    p.place.0[1] = bits as u64 % 8;
    p.place.0[3] = bits as u64 % 8;
    let mut half = 0;
    while half < 2 {
        let mut byte = 0;
        while byte < bits / 4 {
            let index = if 8 * byte < bits { byte } else { 8 + byte - bits / 8 };
            p.first.0[16 * half + byte] = index as u8;
            byte += 1;
        }
        if !bits.is_multiple_of(8) {
            p.second.0[16 * half + bits / 8] = 8;
        }
        half += 1;
    }
    p
}

struct Fields<const BITS: usize>;

impl<const BITS: usize> Fields<BITS> {
    const WORDS: &'static UnpackTable = &unpack_table(BITS, 2);
    const DOUBLE_WORDS: &'static UnpackTable = &unpack_table(BITS, 4);
    /// Four fields in 64 bits.
    const FOUR: &'static PackTable = &pack_table(4 * BITS);
    /// Two fields in 64 bits.
    const TWO: &'static PackTable = &pack_table(2 * BITS);
}

/// The bytes of the fields that begin at `bytes[at]`, each field's in its place; what surrounds a
/// field is garbage.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn gather(bytes: &[u8], at: usize, u: &UnpackTable) -> __m256i {
    let last = bytes.len() - 16;
    // Near the end, the last 16 bytes are loaded, and the wanted bytes are at higher indices.
    let (low, high) = (at.min(last), (at + u.second).min(last));
    let halves = registers::load_halves(bytes, low, high);
    let indices = registers::table(&u.gather);
    if at + u.second <= last {
        return _mm256_shuffle_epi8(halves, indices);
    }
    let (low, high) = ((at - low) as i8, (at + u.second - high) as i8);
    let higher = _mm256_set_m128i(_mm_set1_epi8(high), _mm_set1_epi8(low));
    _mm256_shuffle_epi8(halves, _mm256_add_epi8(indices, higher))
}

/// Sixteen fields at the tops of words, garbage below: those from `16 * index` on.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn unpack_words_top<const BITS: usize>(bytes: &[u8], index: usize) -> __m256i {
    let u = Fields::<BITS>::WORDS;
    _mm256_mullo_epi16(gather(bytes, 2 * BITS * index, u), registers::table(&u.words))
}

/// Sixteen fields in words, those from `16 * index` on.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn unpack_words<const BITS: usize>(bytes: &[u8], index: usize) -> __m256i {
    let top = unpack_words_top::<BITS>(bytes, index);
    _mm256_srl_epi16(top, _mm_cvtsi32_si128(16 - BITS as i32))
}

/// Eight fields in double words, those from `8 * index` on.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn unpack<const BITS: usize>(bytes: &[u8], index: usize) -> __m256i {
    let u = Fields::<BITS>::DOUBLE_WORDS;
    let fields = gather(bytes, BITS * index, u);
    let fields = _mm256_srlv_epi32(fields, registers::table(&u.double_words));
    _mm256_and_si256(fields, _mm256_set1_epi32((1 << BITS) - 1))
}

/// Packs sixteen words below 2^BITS as fields from `16 * index` on. `BITS` is 14 at most.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn pack_words<const BITS: usize>(words: __m256i, out: &mut [u8], index: usize) {
    let pairs = _mm256_madd_epi16(words, _mm256_set1_epi32(1 | 1 << (16 + BITS)));
    store(join(pairs, 2 * BITS), 4 * BITS, out, index, Fields::<BITS>::FOUR);
}

/// Packs eight double words below 2^BITS as fields from `8 * index` on. `BITS` is even.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn pack<const BITS: usize>(fields: __m256i, out: &mut [u8], index: usize) {
    store(join(fields, BITS), 2 * BITS, out, index, Fields::<BITS>::TWO);
}

/// Joins two double words below 2^bits in each 64 bits.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn join(fields: __m256i, bits: usize) -> __m256i {
    let up = 32 - bits as i64;
    let fields = _mm256_sllv_epi32(fields, _mm256_set1_epi64x(up));
    _mm256_srlv_epi64(fields, _mm256_set1_epi64x(up))
}

/// Stores numbers of `bits` bits in 64.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn store(numbers: __m256i, bits: usize, out: &mut [u8], index: usize, p: &PackTable) {
    let placed = _mm256_sllv_epi64(numbers, registers::table(&p.place));
    let mut bytes = _mm256_shuffle_epi8(placed, registers::table(&p.first));
    if !bits.is_multiple_of(8) {
        let second = _mm256_shuffle_epi8(placed, registers::table(&p.second));
        bytes = _mm256_or_si256(bytes, second);
    }
    registers::store_halves(out, bits / 2 * index, bytes, bits / 4);
}

/// Sixteen coefficients of two registers in one, as words. Each is in -2^15..2^16.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn narrow([a, b]: [__m256i; 2]) -> __m256i {
    _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packus_epi32(a, b))
}
