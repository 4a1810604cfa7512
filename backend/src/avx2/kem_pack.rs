//! ML-KEM: sampling, compression and encoding (FIPS 203, Algorithms 3 to 8, equations 4.7 and
//! 4.8), 16 coefficients a register.

use core::arch::x86_64::*;

use gabion_scheme::kernels::{KEM_Q, KemPoly, N};

use super::kem_ntt::reduce;
use super::{pack, registers};
use crate::common::constants::MEMBERS;
use crate::common::memory::Table;
use crate::portable;

/// See [`gabion_scheme::kernels::Kernels::kem_rej_uniform_vartime`]. Accepted words of a half come
/// to its front by a byte shuffle from a table over all sets of eight.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn rej_uniform_vartime(bytes: &[u8], out: &mut KemPoly) -> usize {
    assert_eq!(bytes.len() % 3, 0, "SampleNTT reads 3 bytes at a time");
    let q = _mm256_set1_epi16(KEM_Q);
    let (mut index, mut count) = (0, 0);
    // As long as there are 24 bytes to read and room for 16 coefficients.
    while bytes.len() >= 24 * (index + 1) && count <= N - 16 {
        let candidates = pack::unpack_words::<12>(bytes, index);
        let accepted = _mm256_cmpgt_epi16(q, candidates);
        let accepted = _mm256_packs_epi16(accepted, _mm256_setzero_si256());
        let accepted = _mm256_movemask_epi8(accepted) as u32;
        let halves =
            [_mm256_castsi256_si128(candidates), _mm256_extracti128_si256::<1>(candidates)];
        for (half, set) in halves.into_iter().zip([accepted as u8, (accepted >> 16) as u8]) {
            let target = out.0[count..count + 8].as_mut_ptr();
            // SAFETY: eight coefficients.
            unsafe { _mm_storeu_si128(target.cast(), to_the_front(half, set)) };
            count += set.count_ones() as usize;
        }
        index += 1;
    }
    count + portable::kem::rej_uniform_into_vartime(&bytes[24 * index..], &mut out.0[count..])
}

/// For each set of eight words the byte shuffle that brings its members to the front, in order; then
/// garbage. Made from [`MEMBERS`] at run time it takes five operations for each eight candidates.
static TO_THE_FRONT: [Table<u8, 16>; 256] = {
    let mut tables = [Table([0; 16]); 256];
    let mut i = 0;
    while i < 256 * 16 {
        tables[i / 16].0[i % 16] = 2 * MEMBERS[i / 16][i % 16 / 2] + (i % 2) as u8;
        i += 1;
    }
    tables
};

/// The words of a set, in order, and then garbage.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn to_the_front(words: __m128i, set: u8) -> __m128i {
    _mm_shuffle_epi8(words, registers::load_16(&TO_THE_FRONT[usize::from(set)].0))
}

/// x - y for the sums x, y of the low and the high half of four bits, twice over.
static BINOMIAL_2: Table<i8, 32> = {
    let mut table = Table([0; 32]);
    let mut i = 0;
    while i < 32 {
        table.0[i] = (i as u8 & 3).count_ones() as i8 - (i as u8 >> 2 & 3).count_ones() as i8;
        i += 1;
    }
    table
};

/// See [`gabion_scheme::kernels::Kernels::kem_cbd`]. Tables within registers: no address depends on
/// a secret.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn cbd(eta: usize, bytes: &[u8], out: &mut [KemPoly]) {
    assert_eq!(bytes.len(), 64 * eta * out.len(), "SamplePolyCBD reads 64 eta bytes");
    let out = out.iter_mut().flat_map(|p| registers::kem_mut(p).as_chunks_mut::<2>().0);
    match eta {
        2 => {
            let table = registers::table(&BINOMIAL_2);
            for (out, bytes) in out.zip(bytes.as_chunks::<16>().0) {
                let x = _mm256_cvtepu8_epi16(registers::load_16(bytes));
                // Low nibble first, high nibble second.
                let x = _mm256_or_si256(x, _mm256_slli_epi16::<4>(x));
                let x = _mm256_shuffle_epi8(table, _mm256_and_si256(x, _mm256_set1_epi8(15)));
                out[0] = _mm256_cvtepi8_epi16(_mm256_castsi256_si128(x));
                out[1] = _mm256_cvtepi8_epi16(_mm256_extracti128_si256::<1>(x));
            }
        }
        3 => {
            for (index, out) in out.enumerate() {
                *out = cbd_3(pack::unpack::<24>(bytes, index));
            }
        }
        _ => panic!("eta is 2 or 3, not {eta}"),
    }
    registers::clear();
}

/// Four coefficients of each double word of 24 bits.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn cbd_3(x: __m256i) -> [__m256i; 2] {
    // Sums of three neighbouring bits in fields of three.
    let ones = _mm256_set1_epi32(0o11111111);
    let sum = _mm256_add_epi32(
        _mm256_add_epi32(
            _mm256_and_si256(x, ones),
            _mm256_and_si256(_mm256_srli_epi32::<1>(x), ones),
        ),
        _mm256_and_si256(_mm256_srli_epi32::<2>(x), ones),
    );
    // Differences of neighbouring sums, plus 3, in fields of six.
    let sums = _mm256_set1_epi32(0o07070707);
    let low = _mm256_add_epi32(_mm256_and_si256(sum, sums), _mm256_set1_epi32(0o03030303));
    let high = _mm256_and_si256(_mm256_srli_epi32::<3>(sum), sums);
    let x = _mm256_sub_epi32(low, high);
    // Fields 0 and 1, and fields 2 and 3, in words.
    let (first, second) = (_mm256_set1_epi32(0x3f), _mm256_set1_epi32(0x3f_0000));
    let pair = |low, high| {
        let fields = _mm256_or_si256(_mm256_and_si256(low, first), _mm256_and_si256(high, second));
        _mm256_sub_epi16(fields, _mm256_set1_epi16(3))
    };
    let a = pair(x, _mm256_slli_epi32::<10>(x));
    let b = pair(
        _mm256_srli_epi32::<12>(x),
        _mm256_srli_epi32::<2>(_mm256_and_si256(x, _mm256_set1_epi32(0xfc_0000))),
    );
    let (low, high) = (_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
    let (a, b) = super::shuffle::halves(low, high);
    [a, b]
}

/// The representative in 0..q of |x| <= 2q. A negative number is the greater one as unsigned.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn canonical(x: __m256i) -> __m256i {
    let x = reduce(x);
    _mm256_min_epu16(x, _mm256_add_epi16(x, _mm256_set1_epi16(KEM_Q)))
}

/// See [`gabion_scheme::kernels::Kernels::kem_encode12`].
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn encode12(polys: &[KemPoly], out: &mut [u8]) {
    assert_eq!(out.len(), 384 * polys.len(), "ByteEncode_12 writes 384 bytes");
    for (index, x) in polys.iter().flat_map(registers::kem).enumerate() {
        pack::pack_words::<12>(canonical(*x), out, index);
    }
    registers::clear();
}

/// See [`gabion_scheme::kernels::Kernels::kem_decode12`].
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn decode12(bytes: &[u8], out: &mut [KemPoly]) -> bool {
    assert_eq!(bytes.len(), 384 * out.len(), "ByteDecode_12 reads 384 bytes");
    let q = _mm256_set1_epi16(KEM_Q);
    let mut largest = _mm256_setzero_si256();
    for (index, x) in out.iter_mut().flat_map(registers::kem_mut).enumerate() {
        let value = pack::unpack_words::<12>(bytes, index);
        largest = _mm256_max_epi16(largest, value);
        // 2^12 < 2q: one subtraction is enough, where it does not wrap.
        *x = _mm256_min_epu16(value, _mm256_sub_epi16(value, q));
    }
    let below = _mm256_cmpgt_epi16(q, largest);
    let valid = _mm256_movemask_epi8(below) == -1;
    registers::clear();
    valid
}

/// Compress_d (equation 4.7) of 16 coefficients |x| <= 2q, not reduced before: a multiple of q
/// more adds a multiple of 2^d.
///
/// h = floor(x floor(2^(16+d) / q) / 2^16) is floor(2^d x / q) to within one: the reciprocal is off
/// by less than 1, so the product by less than |x| / 2^16 < 0.11. The remainder 2^d x - h q,
/// between -0.11q and 1.11q and so exact in 16 bits, says whether to round up. (2^d x / q has no
/// ties: q is odd.)
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn compress_16<const D: usize>(x: __m256i) -> __m256i {
    let reciprocal = const { (1i32 << (16 + D)) / KEM_Q as i32 };
    let mut h = _mm256_mulhi_epi16(x, _mm256_set1_epi16(reciprocal as i16));
    if reciprocal > i16::MAX as i32 {
        // The factor above was 2^16 less.
        h = _mm256_add_epi16(h, x);
    }
    let scaled = _mm256_sll_epi16(x, _mm_cvtsi32_si128(D as i32));
    let remainder = _mm256_sub_epi16(scaled, _mm256_mullo_epi16(h, _mm256_set1_epi16(KEM_Q)));
    // The sign of q / 2 - remainder is the carry.
    let up = _mm256_srli_epi16::<15>(_mm256_sub_epi16(_mm256_set1_epi16(KEM_Q / 2), remainder));
    _mm256_and_si256(_mm256_add_epi16(h, up), _mm256_set1_epi16((1 << D) - 1))
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn compress_of<const D: usize>(polys: &[KemPoly], out: &mut [u8]) {
    for (index, x) in polys.iter().flat_map(registers::kem).enumerate() {
        pack::pack_words::<D>(compress_16::<D>(*x), out, index);
    }
}

/// See [`gabion_scheme::kernels::Kernels::kem_compress`].
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn compress(d: usize, polys: &[KemPoly], out: &mut [u8]) {
    assert_eq!(out.len(), 32 * d * polys.len(), "ByteEncode_d writes 32 d bytes");
    match d {
        1 => {
            // 1 for the q / 2 values that are nearer to q / 2 than to 0 and q: 833 to 2496, which
            // lie within 831.5 of the middle of this range.
            let is_one = |x| {
                let from_first = _mm256_sub_epi16(canonical(x), _mm256_set1_epi16(833));
                let last = _mm256_set1_epi16(2496 - 833);
                _mm256_cmpeq_epi16(_mm256_min_epu16(from_first, last), from_first)
            };
            let pairs = polys.iter().flat_map(|p| registers::kem(p).as_chunks::<2>().0);
            for (x, out) in pairs.zip(out.as_chunks_mut::<4>().0) {
                let ones = _mm256_packs_epi16(is_one(x[0]), is_one(x[1]));
                let ones = _mm256_permute4x64_epi64::<0b11_01_10_00>(ones);
                *out = _mm256_movemask_epi8(ones).to_le_bytes();
            }
        }
        4 => compress_of::<4>(polys, out),
        5 => compress_of::<5>(polys, out),
        10 => compress_of::<10>(polys, out),
        11 => compress_of::<11>(polys, out),
        _ => panic!("d is 1, 4, 5, 10 or 11, not {d}"),
    }
    registers::clear();
}

/// Decompress_d (equation 4.8) of y 2^(15-d): `vpmulhrsw` of that and q is (q y + 2^(d-1)) >> d.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn decompress_each(out: &mut [KemPoly], high: impl Fn(usize) -> __m256i) {
    for (index, x) in out.iter_mut().flat_map(registers::kem_mut).enumerate() {
        *x = _mm256_mulhrs_epi16(high(index), _mm256_set1_epi16(KEM_Q));
    }
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn decompress_of<const D: usize>(bytes: &[u8], out: &mut [KemPoly]) {
    let field = _mm256_set1_epi16(((1 << D) - 1) << (15 - D));
    decompress_each(out, |index| {
        let top = pack::unpack_words_top::<D>(bytes, index);
        _mm256_and_si256(_mm256_srli_epi16::<1>(top), field)
    });
}

/// See [`gabion_scheme::kernels::Kernels::kem_decompress`].
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn decompress(d: usize, bytes: &[u8], out: &mut [KemPoly]) {
    assert_eq!(bytes.len(), 32 * d * out.len(), "ByteDecode_d reads 32 d bytes");
    match d {
        1 => {
            static BITS: Table<u16, 16> = {
                let mut bits = Table([0; 16]);
                let mut i = 0;
                while i < 16 {
                    bits.0[i] = 1 << i;
                    i += 1;
                }
                bits
            };
            let bits = registers::table(&BITS);
            let registers = out.iter_mut().flat_map(registers::kem_mut);
            for (x, y) in registers.zip(bytes.as_chunks::<2>().0) {
                let y = _mm256_and_si256(_mm256_set1_epi16(i16::from_le_bytes(*y)), bits);
                let ones = _mm256_cmpeq_epi16(y, bits);
                *x = _mm256_and_si256(ones, _mm256_set1_epi16(KEM_Q / 2 + 1));
            }
        }
        4 => decompress_of::<4>(bytes, out),
        5 => decompress_of::<5>(bytes, out),
        10 => decompress_of::<10>(bytes, out),
        // Such a field may lie in three bytes, more than a word.
        11 => decompress_each(out, |index| {
            let first = pack::unpack::<11>(bytes, 2 * index);
            let second = pack::unpack::<11>(bytes, 2 * index + 1);
            _mm256_slli_epi16::<4>(pack::narrow([first, second]))
        }),
        _ => panic!("d is 1, 4, 5, 10 or 11, not {d}"),
    }
    registers::clear();
}
