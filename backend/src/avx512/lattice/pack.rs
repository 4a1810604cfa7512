//! Fields of a fixed width to bytes and back (BitsToBytes: FIPS 203, Algorithm 3; FIPS 204,
//! Algorithm 12), sixteen fields a register, for every width from 3 to 24 bits.
//!
//! ```text
//!   pack    16 x 32 bits  --two shifts-->  8 x 2N bits in 64  --vpermb-->  2N bytes
//!   unpack  bytes  --vpermb-->  8 x 64 bits that hold a pair each  --vpmultishiftqb-->  fields
//! ```
//!
//! A pair of fields that does not begin on a byte border is shifted to its place in the first byte,
//! which it shares with the pair before: a second `vpermb` brings these bytes.

use core::arch::x86_64::*;

use crate::avx512::registers;
use crate::common::memory::Table;

/// The shuffles and shifts that pack pairs of fields of one width to bytes.
struct PackTable {
    /// Left shifts that bring the even fields to the top of their double words.
    even: Table<i32, 16>,
    /// Left shifts that bring the pairs to their places within the first byte.
    place: Table<i64, 8>,
    /// For each output byte, the byte of the pair that its lowest bit belongs to.
    first: Table<u8, 64>,
    /// For each output byte in which another pair begins, the first byte of that pair.
    second: Table<u8, 64>,
    shared: u64,
}

const fn pack_table(bits: usize) -> PackTable {
    let mut p = PackTable {
        even: Table([0; 16]),
        place: Table([0; 8]),
        first: Table([0; 64]),
        second: Table([0; 64]),
        shared: 0,
    };
    let mut i = 0;
    while i < 8 {
        p.even.0[2 * i] = 32 - bits as i32;
        p.place.0[i] = (2 * bits * i % 8) as i64;
        i += 1;
    }
    let mut byte = 0;
    while byte < 2 * bits {
        let pair = 8 * byte / (2 * bits);
        p.first.0[byte] = (8 * pair + byte - 2 * bits * pair / 8) as u8;
        let next = pair + 1;
        if 2 * bits * next < 8 * byte + 8 {
            assert!(2 * bits * (next + 1) >= 8 * byte + 8, "three pairs in a byte");
            p.second.0[byte] = 8 * next as u8;
            p.shared |= 1 << byte;
        }
        byte += 1;
    }
    p
}

/// The shuffles and shifts that unpack bytes to a register of `per` fields in each 64 bits.
struct UnpackTable {
    /// For each 64 bits, the eight bytes from the first one that belongs to it.
    gather: Table<u8, 64>,
    /// For each byte of the result, the bit of the 64 where it begins.
    select: Table<u8, 64>,
}

/// Returns the table. A field is to lie `lift` bits above bit 0 of its place; the bits around it
/// are garbage.
const fn unpack_table(bits: usize, per: usize, lift: usize) -> UnpackTable {
    let mut u = UnpackTable { gather: Table([0; 64]), select: Table([0; 64]) };
    let mut byte = 0;
    while byte < 64 {
        let (group, within) = (byte / 8, byte % 8);
        let start = per * bits * group;
        u.gather.0[byte] = (start / 8 + within) as u8;
        let width = 8 / per;
        let from = 64 + start % 8 + within / width * bits + within % width * 8 - lift;
        u.select.0[byte] = (from % 64) as u8;
        byte += 1;
    }
    u
}

struct Fields<const BITS: usize>;

impl<const BITS: usize> Fields<BITS> {
    const PACKING: &'static PackTable = &pack_table(BITS);
    const DOUBLE_WORDS: &'static UnpackTable = &unpack_table(BITS, 2, 0);
    const WORDS: &'static UnpackTable = &unpack_table(BITS, 4, 0);
    /// Fields in words, lifted to just below the sign bit.
    const HIGH_IN_WORDS: &'static UnpackTable = &unpack_table(BITS, 4, 15 - BITS % 16);
}

/// Packs sixteen double words below 2^BITS into `2 * BITS` bytes; zeros follow or garbage.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(super) fn pack<const BITS: usize>(fields: __m512i) -> __m512i {
    let p = Fields::<BITS>::PACKING;
    let pairs = _mm512_sllv_epi32(fields, registers::table(&p.even));
    let pairs = _mm512_srl_epi64(pairs, _mm_cvtsi32_si128(32 - BITS as i32));
    if p.shared == 0 {
        return _mm512_permutexvar_epi8(registers::table(&p.first), pairs);
    }
    let pairs = _mm512_sllv_epi64(pairs, registers::table(&p.place));
    let first = _mm512_permutexvar_epi8(registers::table(&p.first), pairs);
    let second = _mm512_maskz_permutexvar_epi8(p.shared, registers::table(&p.second), pairs);
    _mm512_or_si512(first, second)
}

#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn spread(bytes: __m512i, u: &UnpackTable) -> __m512i {
    let gathered = _mm512_permutexvar_epi8(registers::table(&u.gather), bytes);
    _mm512_multishift_epi64_epi8(registers::table(&u.select), gathered)
}

/// Sixteen fields, in double words, from the first `2 * BITS` bytes.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(super) fn unpack<const BITS: usize>(bytes: __m512i) -> __m512i {
    let mask = _mm512_set1_epi32((1 << BITS) - 1);
    _mm512_and_si512(spread(bytes, Fields::<BITS>::DOUBLE_WORDS), mask)
}

/// Thirty-two fields, in words, from the first `4 * BITS` bytes.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(super) fn unpack_words<const BITS: usize>(bytes: __m512i) -> __m512i {
    let mask = _mm512_set1_epi16((1 << BITS) - 1);
    _mm512_and_si512(spread(bytes, Fields::<BITS>::WORDS), mask)
}

/// The nibbles of 16 of the 64 bytes, those of quarter `quarter`, in the lowest bits of words; above
/// them there is garbage.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(super) fn spread_nibbles(bytes: __m512i, quarter: usize) -> __m512i {
    static GATHER: [Table<u8, 64>; 4] = {
        let mut tables = [Fields::<4>::WORDS.gather; 4];
        let mut i = 0;
        while i < 4 * 64 {
            tables[i / 64].0[i % 64] += 16 * (i / 64) as u8;
            i += 1;
        }
        tables
    };
    let gathered = _mm512_permutexvar_epi8(registers::table(&GATHER[quarter]), bytes);
    _mm512_multishift_epi64_epi8(registers::table(&Fields::<4>::WORDS.select), gathered)
}

/// Thirty-two fields, in words and times 2^(15 - BITS), from the first `4 * BITS` bytes.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(super) fn unpack_words_high<const BITS: usize>(bytes: __m512i) -> __m512i {
    let mask = _mm512_set1_epi16(((1 << BITS) - 1) << (15 - BITS));
    _mm512_and_si512(spread(bytes, Fields::<BITS>::HIGH_IN_WORDS), mask)
}

/// Thirty-two fields below 2^BITS of two registers in one, two fields a double word. `BITS` is 15
/// at most.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(super) fn join_2<const BITS: usize>([a, b]: [__m512i; 2]) -> __m512i {
    static WORDS: Table<u16, 32> = {
        let mut indices = Table([0; 32]);
        let mut i = 0;
        while i < 32 {
            indices.0[i] = 2 * i as u16;
            i += 1;
        }
        indices
    };
    let words = _mm512_permutex2var_epi16(a, registers::table(&WORDS), b);
    _mm512_madd_epi16(words, _mm512_set1_epi32(1 | 1 << (16 + BITS)))
}

/// Sixty-four fields below 2^BITS of four registers in one, four fields a double word. `BITS` is 6
/// at most.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(super) fn join_4<const BITS: usize>([a, b, c, d]: [__m512i; 4]) -> __m512i {
    // Quarters of the packed bytes hold four fields each of a, b, c and d.
    static ORDER: Table<u32, 16> = Table([0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15]);
    let bytes = _mm512_packus_epi16(_mm512_packus_epi32(a, b), _mm512_packus_epi32(c, d));
    let pairs = _mm512_maddubs_epi16(bytes, _mm512_set1_epi16(1 | 1 << (8 + BITS)));
    let fours = _mm512_madd_epi16(pairs, _mm512_set1_epi32(1 | 1 << (16 + 2 * BITS)));
    _mm512_permutexvar_epi32(registers::table(&ORDER), fours)
}
