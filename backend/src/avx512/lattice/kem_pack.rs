//! ML-KEM: sampling, compression and encoding (FIPS 203, Algorithms 3 to 8, equations 4.7 and
//! 4.8), 32 coefficients a register.

use core::arch::x86_64::*;

use gabion_scheme::kernels::{KEM_Q, KemPoly, N};

use super::kem_ntt::reduce;
use super::pack;
use crate::avx512::registers;
use crate::common::memory::Table;

/// Double words (1, 2^d): `vpmaddwd` with them joins two fields of d bits.
const fn join(d: usize) -> i32 {
    1 | 1 << (16 + d)
}

/// See [`gabion_scheme::kernels::Kernels::kem_rej_uniform_vartime`]. The compressed register is
/// stored whole: compressing straight to memory runs from microcode on Zen 4, many times slower.
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn rej_uniform_vartime(bytes: &[u8], out: &mut KemPoly) -> usize {
    assert_eq!(bytes.len() % 3, 0, "SampleNTT reads 3 bytes at a time");
    let out = registers::kem_bytes_mut(out);
    let q = _mm512_set1_epi16(KEM_Q);
    let (mut at, mut count) = (0, 0);
    // As long as there are 64 bytes to read and room for 32 coefficients, nothing is masked.
    while let (Some(source), Some(target)) = (
        bytes.get(at..).and_then(<[u8]>::first_chunk::<64>),
        out.get_mut(2 * count..).and_then(<[u8]>::first_chunk_mut::<64>),
    ) {
        let candidates = pack::unpack_words::<12>(registers::whole(source));
        let accepted = _mm512_cmplt_epi16_mask(candidates, q);
        *target = registers::bytes(_mm512_maskz_compress_epi16(accepted, candidates));
        count += accepted.count_ones() as usize;
        at += 48;
    }
    while at < bytes.len() && count < N {
        let candidates = pack::unpack_words::<12>(registers::load(bytes, at));
        let present = registers::first((bytes.len() - at) / 3 * 2) as u32;
        let accepted = _mm512_mask_cmplt_epi16_mask(present, candidates, q);
        let coefficients = _mm512_maskz_compress_epi16(accepted, candidates);
        registers::store(out, 2 * count, coefficients, 2 * (N - count));
        count += accepted.count_ones() as usize;
        at += 48;
    }
    count.min(N)
}

/// Fills each register from the `4 * BITS` bytes that belong to it; more follow, or zeros.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn for_each_register<const BITS: usize>(
    bytes: &[u8],
    out: &mut [KemPoly],
    mut value: impl FnMut(__m512i) -> __m512i,
) {
    for (r, x) in out.iter_mut().flat_map(registers::kem_mut).enumerate() {
        *x = value(registers::load(bytes, 4 * BITS * r));
    }
}

/// x - y for the sums x, y of the low and the high half of `2 * eta` bits.
const fn binomial<const SIZE: usize>(eta: usize) -> [Table<i16, 32>; SIZE] {
    let mut out = [Table([0; 32]); SIZE];
    let mut bits = 0;
    while bits < 1 << (2 * eta) {
        let x = (bits as u32 & ((1 << eta) - 1)).count_ones();
        let y = (bits as u32 >> eta).count_ones();
        out[bits / 32].0[bits % 32] = x as i16 - y as i16;
        bits += 1;
    }
    out
}

static BINOMIAL_2: [Table<i16, 32>; 1] = binomial(2);
static BINOMIAL_3: [Table<i16, 32>; 2] = binomial(3);

/// See [`gabion_scheme::kernels::Kernels::kem_cbd`]. Tables within registers: no address depends on
/// a secret.
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn cbd(eta: usize, bytes: &[u8], out: &mut [KemPoly]) {
    assert_eq!(bytes.len(), 64 * eta * out.len(), "SamplePolyCBD reads 64 eta bytes");
    match eta {
        2 => {
            let table = registers::table(&BINOMIAL_2[0]);
            for_each_register::<4>(bytes, out, |bits| {
                _mm512_permutexvar_epi16(pack::unpack_words::<4>(bits), table)
            });
        }
        3 => {
            let [low, high] = &BINOMIAL_3;
            let (low, high) = (registers::table(low), registers::table(high));
            for_each_register::<6>(bytes, out, |bits| {
                _mm512_permutex2var_epi16(low, pack::unpack_words::<6>(bits), high)
            });
        }
        _ => panic!("eta is 2 or 3, not {eta}"),
    }
    registers::clear();
}

/// SamplePolyCBD_2 of the 128 bytes in two registers.
///
/// A look-up needs the nibbles in the lowest four bits of words and takes no notice of all but one
/// of the others; the table holds everything twice for that one.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn binomial_2(first: __m512i, second: __m512i, out: &mut [__m512i; 8]) {
    let table = registers::table(&BINOMIAL_2_TWICE);
    for (r, out) in out.iter_mut().enumerate() {
        let bytes = if r < 4 { first } else { second };
        let nibbles = pack::spread_nibbles(bytes, r % 4);
        *out = _mm512_permutexvar_epi16(nibbles, table);
    }
}

static BINOMIAL_2_TWICE: Table<i16, 32> = {
    let [Table(mut values)] = binomial::<1>(2);
    let mut i = 0;
    while i < 16 {
        values[16 + i] = values[i];
        i += 1;
    }
    Table(values)
};

/// The representative in 0..q of |x| <= 2q. A negative number is the greater one as unsigned.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn canonical(x: __m512i) -> __m512i {
    let x = reduce(x);
    _mm512_min_epu16(x, _mm512_add_epi16(x, _mm512_set1_epi16(KEM_Q)))
}

/// See [`gabion_scheme::kernels::Kernels::kem_encode12`].
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn encode12(polys: &[KemPoly], out: &mut [u8]) {
    assert_eq!(out.len(), 384 * polys.len(), "ByteEncode_12 writes 384 bytes");
    for (r, x) in polys.iter().flat_map(registers::kem).enumerate() {
        let pairs = _mm512_madd_epi16(canonical(*x), _mm512_set1_epi32(join(12)));
        registers::store(out, 48 * r, pack::pack::<24>(pairs), 48);
    }
    registers::clear();
}

/// See [`gabion_scheme::kernels::Kernels::kem_decode12`].
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn decode12(bytes: &[u8], out: &mut [KemPoly]) -> bool {
    assert_eq!(bytes.len(), 384 * out.len(), "ByteDecode_12 reads 384 bytes");
    let q = _mm512_set1_epi16(KEM_Q);
    let mut largest = _mm512_setzero_si512();
    for_each_register::<12>(bytes, out, |bits| {
        let value = pack::unpack_words::<12>(bits);
        largest = _mm512_max_epi16(largest, value);
        // 2^12 < 2q: one subtraction is enough, where it does not wrap.
        _mm512_min_epu16(value, _mm512_sub_epi16(value, q))
    });
    let valid = _mm512_cmpge_epi16_mask(largest, q) == 0;
    registers::clear();
    valid
}

/// Compress_d (equation 4.7) of 32 coefficients |x| <= 2q, not reduced before: a multiple of q
/// more adds a multiple of 2^d.
///
/// h = floor(x floor(2^(16+d) / q) / 2^16) is floor(2^d x / q) to within one: the reciprocal is off
/// by less than 1, so the product by less than |x| / 2^16 < 0.11. The remainder 2^d x - h q,
/// between -0.11q and 1.11q and so exact in 16 bits, says whether to round up. (2^d x / q has no
/// ties: q is odd.)
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn compress_32<const D: usize>(x: __m512i) -> __m512i {
    let reciprocal = const { (1i32 << (16 + D)) / KEM_Q as i32 };
    let mut h = _mm512_mulhi_epi16(x, _mm512_set1_epi16(reciprocal as i16));
    if reciprocal > i16::MAX as i32 {
        // The factor above was 2^16 less.
        h = _mm512_add_epi16(h, x);
    }
    let scaled = _mm512_sll_epi16(x, _mm_cvtsi32_si128(D as i32));
    let remainder = _mm512_sub_epi16(scaled, _mm512_mullo_epi16(h, _mm512_set1_epi16(KEM_Q)));
    // The sign of q / 2 - remainder is the carry.
    let up = _mm512_srli_epi16::<15>(_mm512_sub_epi16(_mm512_set1_epi16(KEM_Q / 2), remainder));
    _mm512_and_si512(_mm512_add_epi16(h, up), _mm512_set1_epi16((1 << D) - 1))
}

/// `TWICE` is 2 D, the bits of a pair.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn compress_of<const D: usize, const TWICE: usize>(polys: &[KemPoly], out: &mut [u8]) {
    for (r, x) in polys.iter().flat_map(registers::kem).enumerate() {
        let pairs = _mm512_madd_epi16(compress_32::<D>(*x), _mm512_set1_epi32(join(D)));
        registers::store(out, 4 * D * r, pack::pack::<TWICE>(pairs), 4 * D);
    }
}

/// See [`gabion_scheme::kernels::Kernels::kem_compress`].
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn compress(d: usize, polys: &[KemPoly], out: &mut [u8]) {
    assert_eq!(out.len(), 32 * d * polys.len(), "ByteEncode_d writes 32 d bytes");
    match d {
        1 => {
            // 1 for the q / 2 values that are nearer to q / 2 than to 0 and q: 833 to 2496.
            let first = _mm512_set1_epi16(833);
            let count = _mm512_set1_epi16(2496 - 833 + 1);
            let registers = polys.iter().flat_map(registers::kem);
            for (x, out) in registers.zip(out.as_chunks_mut::<4>().0) {
                let bits = _mm512_cmplt_epu16_mask(_mm512_sub_epi16(canonical(*x), first), count);
                *out = bits.to_le_bytes();
            }
        }
        4 => compress_of::<4, 8>(polys, out),
        5 => compress_of::<5, 10>(polys, out),
        10 => compress_of::<10, 20>(polys, out),
        11 => compress_of::<11, 22>(polys, out),
        _ => panic!("d is 1, 4, 5, 10 or 11, not {d}"),
    }
    registers::clear();
}

/// Decompress_d (equation 4.8): `vpmulhrsw` of y 2^(15-d) and q is (q y + 2^(d-1)) >> d.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn decompress_of<const D: usize>(bytes: &[u8], out: &mut [KemPoly]) {
    for_each_register::<D>(bytes, out, |bits| {
        _mm512_mulhrs_epi16(pack::unpack_words_high::<D>(bits), _mm512_set1_epi16(KEM_Q))
    });
}

/// See [`gabion_scheme::kernels::Kernels::kem_decompress`].
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn decompress(d: usize, bytes: &[u8], out: &mut [KemPoly]) {
    assert_eq!(bytes.len(), 32 * d * out.len(), "ByteDecode_d reads 32 d bytes");
    match d {
        1 => {
            let registers = out.iter_mut().flat_map(registers::kem_mut);
            for (x, bits) in registers.zip(bytes.as_chunks::<4>().0) {
                *x = _mm512_maskz_set1_epi16(u32::from_le_bytes(*bits), KEM_Q / 2 + 1);
            }
        }
        4 => decompress_of::<4>(bytes, out),
        5 => decompress_of::<5>(bytes, out),
        10 => decompress_of::<10>(bytes, out),
        11 => decompress_of::<11>(bytes, out),
        _ => panic!("d is 1, 4, 5, 10 or 11, not {d}"),
    }
    registers::clear();
}
