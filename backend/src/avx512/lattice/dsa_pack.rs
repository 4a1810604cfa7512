//! ML-DSA: sampling, packing and unpacking (FIPS 204, Algorithms 14 to 19, 30 and 31), 16
//! coefficients a register.

use core::arch::x86_64::*;

use gabion_scheme::ct;
use gabion_scheme::kernels::{DSA_Q, DsaPoly, N};

use super::pack;
use crate::avx512::registers;
use crate::common::constants::dsa::half_byte;
use crate::common::memory::{self, Table};

/// Three bytes for each of sixteen candidates, and a fourth that is masked away.
static TRIPLES: Table<u8, 64> = {
    let mut table = Table([0; 64]);
    let mut i = 0;
    while i < 64 {
        table.0[i] = (i / 4 * 3 + i % 4) as u8;
        i += 1;
    }
    table
};

/// See [`gabion_scheme::kernels::Kernels::dsa_rej_uniform_vartime`].
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn rej_uniform_vartime(bytes: &[u8], out: &mut DsaPoly) -> usize {
    assert_eq!(bytes.len() % 3, 0, "RejNTTPoly reads 3 bytes at a time");
    let out = registers::dsa_bytes_mut(out);
    let triples = registers::table(&TRIPLES);
    let low_bits = _mm512_set1_epi32((1 << 23) - 1);
    let q = _mm512_set1_epi32(DSA_Q);
    let (mut at, mut count) = (0, 0);
    // As long as there are 64 bytes to read and room for 16 coefficients, nothing is masked.
    while let (Some(source), Some(target)) = (
        bytes.get(at..).and_then(<[u8]>::first_chunk::<64>),
        out.get_mut(4 * count..).and_then(<[u8]>::first_chunk_mut::<64>),
    ) {
        let candidates = _mm512_permutexvar_epi8(triples, registers::whole(source));
        let candidates = _mm512_and_si512(candidates, low_bits);
        let accepted = _mm512_cmplt_epi32_mask(candidates, q);
        *target = registers::bytes(_mm512_maskz_compress_epi32(accepted, candidates));
        count += accepted.count_ones() as usize;
        at += 48;
    }
    while at < bytes.len() && count < N {
        let candidates = _mm512_permutexvar_epi8(triples, registers::load(bytes, at));
        let candidates = _mm512_and_si512(candidates, low_bits);
        let present = registers::first((bytes.len() - at) / 3) as u16;
        let accepted = _mm512_mask_cmplt_epi32_mask(present, candidates, q);
        let coefficients = _mm512_maskz_compress_epi32(accepted, candidates);
        registers::store(out, 4 * count, coefficients, 4 * (N - count));
        count += accepted.count_ones() as usize;
        at += 48;
    }
    count.min(N)
}

/// The coefficient of each half byte (Algorithm 15), four times over; rejected ones are 0.
const fn half_bytes(eta: i8) -> Table<i8, 64> {
    let mut table = Table([0; 64]);
    let mut i = 0;
    while i < 64 {
        table.0[i] = half_byte(eta, i as i8 % 16);
        i += 1;
    }
    table
}

static HALF_BYTES_2: Table<i8, 64> = half_bytes(2);
static HALF_BYTES_4: Table<i8, 64> = half_bytes(4);

/// See [`gabion_scheme::kernels::Kernels::dsa_rej_bounded_vartime`].
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn rej_bounded_vartime(eta: usize, bytes: &[u8], out: &mut DsaPoly) -> usize {
    let (table, limit) = match eta {
        2 => (&HALF_BYTES_2, 15),
        4 => (&HALF_BYTES_4, 9),
        _ => panic!("eta is 2 or 4, not {eta}"),
    };
    let (table, limit) = (registers::table(table), _mm512_set1_epi8(limit));
    let low_nibbles = _mm512_set1_epi8(15);
    // Accepted coefficients as bytes, with room for one register beyond the last.
    let mut accepted = Table([0u8; N + 64]);
    let (mut at, mut count) = (0, 0);
    while at < bytes.len() && count < N {
        let present = registers::first(2 * (bytes.len() - at));
        let x = _mm512_cvtepu8_epi16(_mm512_castsi512_si256(registers::load(bytes, at)));
        // Low nibble first, high nibble second.
        let x = _mm512_and_si512(_mm512_or_si512(x, _mm512_slli_epi16::<4>(x)), low_nibbles);
        // Public: that a half byte was rejected, which is independent of the accepted ones.
        let good = ct::declassified(_mm512_mask_cmplt_epu8_mask(present, x, limit));
        let coefficients = _mm512_maskz_compress_epi8(good, _mm512_shuffle_epi8(table, x));
        registers::store(&mut accepted.0, count, coefficients, 64);
        count += good.count_ones() as usize;
        at += 32;
    }
    for (r, x) in registers::dsa_mut(out).iter_mut().enumerate() {
        let sixteen = _mm512_castsi512_si128(registers::load(&accepted.0, 16 * r));
        *x = _mm512_cvtepi8_epi32(sixteen);
    }
    memory::wipe(&mut accepted.0);
    registers::clear();
    count.min(N)
}

/// Packs the result of `field` for each register.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn pack_of<const BITS: usize>(p: &DsaPoly, out: &mut [u8], field: impl Fn(__m512i) -> __m512i) {
    assert_eq!(out.len(), 32 * BITS, "a packed polynomial has 32 bytes a bit");
    for (r, x) in registers::dsa(p).iter().enumerate() {
        registers::store(out, 2 * BITS * r, pack::pack::<BITS>(field(*x)), 2 * BITS);
    }
}

/// Packs fields of 15 bits and less, two registers at a time; `TWICE` is 2 BITS.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn pack_2_of<const BITS: usize, const TWICE: usize>(
    p: &DsaPoly,
    out: &mut [u8],
    field: impl Fn(__m512i) -> __m512i,
) {
    assert_eq!(out.len(), 32 * BITS, "a packed polynomial has 32 bytes a bit");
    for (r, x) in registers::dsa(p).as_chunks::<2>().0.iter().enumerate() {
        let joined = pack::join_2::<BITS>([field(x[0]), field(x[1])]);
        registers::store(out, 4 * BITS * r, pack::pack::<TWICE>(joined), 4 * BITS);
    }
}

/// Packs fields of 6 bits and less, four registers at a time; `FOURFOLD` is 4 BITS.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn pack_4_of<const BITS: usize, const FOURFOLD: usize>(
    p: &DsaPoly,
    out: &mut [u8],
    field: impl Fn(__m512i) -> __m512i,
) {
    assert_eq!(out.len(), 32 * BITS, "a packed polynomial has 32 bytes a bit");
    for (r, x) in registers::dsa(p).as_chunks::<4>().0.iter().enumerate() {
        let fields = [field(x[0]), field(x[1]), field(x[2]), field(x[3])];
        let packed = pack::pack::<FOURFOLD>(pack::join_4::<BITS>(fields));
        registers::store(out, 8 * BITS * r, packed, 8 * BITS);
    }
}

/// Unpacks each register and hands it to `value`.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn unpack_of<const BITS: usize>(
    bytes: &[u8],
    out: &mut DsaPoly,
    value: impl Fn(__m512i) -> __m512i,
) {
    assert_eq!(bytes.len(), 32 * BITS, "a packed polynomial has 32 bytes a bit");
    for (r, x) in registers::dsa_mut(out).iter_mut().enumerate() {
        *x = value(pack::unpack::<BITS>(registers::load(bytes, 2 * BITS * r)));
    }
}

/// See [`gabion_scheme::kernels::Kernels::dsa_simple_bit_pack`].
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn simple_bit_pack(bits: usize, p: &DsaPoly, out: &mut [u8]) {
    match bits {
        4 => pack_4_of::<4, 16>(p, out, |x| x),
        6 => pack_4_of::<6, 24>(p, out, |x| x),
        10 => pack_2_of::<10, 20>(p, out, |x| x),
        _ => panic!("bits is 4, 6 or 10, not {bits}"),
    }
    registers::clear();
}

/// See [`gabion_scheme::kernels::Kernels::dsa_simple_bit_unpack`].
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn simple_bit_unpack(bits: usize, bytes: &[u8], out: &mut DsaPoly) {
    match bits {
        10 => unpack_of::<10>(bytes, out, |v| v),
        _ => panic!("bits is 10, not {bits}"),
    }
}

/// See [`gabion_scheme::kernels::Kernels::dsa_bit_pack`].
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn bit_pack(bits: usize, b: i32, p: &DsaPoly, out: &mut [u8]) {
    let b = _mm512_set1_epi32(b);
    let q = _mm512_set1_epi32(DSA_Q);
    let small = |x| _mm512_sub_epi32(b, x);
    // A residue x is the centred one or off by q, and then b - x is negative or beyond q: the
    // smaller of two unsigned numbers is the right one, each way.
    let any = |x| {
        let y = _mm512_sub_epi32(b, x);
        let y = _mm512_min_epu32(y, _mm512_add_epi32(y, q));
        _mm512_min_epu32(y, _mm512_sub_epi32(y, q))
    };
    match bits {
        3 => pack_4_of::<3, 12>(p, out, small),
        4 => pack_4_of::<4, 16>(p, out, small),
        13 => pack_2_of::<13, 26>(p, out, small),
        18 => pack_of::<18>(p, out, any),
        20 => pack_of::<20>(p, out, any),
        _ => panic!("bits is 3, 4, 13, 18 or 20, not {bits}"),
    }
    registers::clear();
}

/// See [`gabion_scheme::kernels::Kernels::dsa_bit_unpack`].
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn bit_unpack(bits: usize, b: i32, bytes: &[u8], out: &mut DsaPoly) {
    let b = _mm512_set1_epi32(b);
    let value = |v| _mm512_sub_epi32(b, v);
    match bits {
        3 => unpack_of::<3>(bytes, out, value),
        4 => unpack_of::<4>(bytes, out, value),
        13 => unpack_of::<13>(bytes, out, value),
        18 => unpack_of::<18>(bytes, out, value),
        20 => unpack_of::<20>(bytes, out, value),
        _ => panic!("bits is 3, 4, 13, 18 or 20, not {bits}"),
    }
    registers::clear();
}
