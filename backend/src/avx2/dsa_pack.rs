//! ML-DSA: sampling, packing and unpacking (FIPS 204, Algorithms 14 to 19, 30 and 31), 8
//! coefficients a register.

use core::arch::x86_64::*;

use gabion_scheme::ct;
use gabion_scheme::kernels::{DSA_Q, DsaPoly, N};

use super::{pack, registers};
use crate::common::constants::MEMBERS;
use crate::common::constants::dsa::half_byte;
use crate::common::memory::{Table, wipe};
use crate::portable;

/// See [`gabion_scheme::kernels::Kernels::dsa_rej_uniform_vartime`]. Accepted candidates come to the
/// front by a permutation from a table over all sets of eight.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn rej_uniform_vartime(bytes: &[u8], out: &mut DsaPoly) -> usize {
    assert_eq!(bytes.len() % 3, 0, "RejNTTPoly reads 3 bytes at a time");
    let low_bits = _mm256_set1_epi32((1 << 23) - 1);
    let q = _mm256_set1_epi32(DSA_Q);
    let (mut index, mut count) = (0, 0);
    // As long as there are 24 bytes to read and room for 8 coefficients.
    while bytes.len() >= 24 * (index + 1) && count <= N - 8 {
        let candidates = _mm256_and_si256(pack::unpack::<24>(bytes, index), low_bits);
        let accepted = _mm256_castsi256_ps(_mm256_cmpgt_epi32(q, candidates));
        let set = _mm256_movemask_ps(accepted) as usize;
        let places = _mm256_cvtepu8_epi32(registers::load_8(&MEMBERS[set]));
        let coefficients = _mm256_permutevar8x32_epi32(candidates, places);
        let target = out.0[count..count + 8].as_mut_ptr();
        // SAFETY: eight coefficients.
        unsafe { _mm256_storeu_si256(target.cast(), coefficients) };
        count += set.count_ones() as usize;
        index += 1;
    }
    count + portable::dsa::rej_uniform_into_vartime(&bytes[24 * index..], &mut out.0[count..])
}

/// The coefficient of each half byte (Algorithm 15), twice over; rejected ones are 0.
const fn half_bytes(eta: i8) -> Table<i8, 32> {
    let mut table = Table([0; 32]);
    let mut i = 0;
    while i < 32 {
        table.0[i] = half_byte(eta, i as i8 % 16);
        i += 1;
    }
    table
}

static HALF_BYTES_2: Table<i8, 32> = half_bytes(2);
static HALF_BYTES_4: Table<i8, 32> = half_bytes(4);

/// See [`gabion_scheme::kernels::Kernels::dsa_rej_bounded_vartime`].
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn rej_bounded_vartime(eta: usize, bytes: &[u8], out: &mut DsaPoly) -> usize {
    let (table, limit) = match eta {
        2 => (&HALF_BYTES_2, 15),
        4 => (&HALF_BYTES_4, 9),
        _ => panic!("eta is 2 or 4, not {eta}"),
    };
    let (table, limit) = (registers::table(table), _mm256_set1_epi8(limit));
    // Accepted coefficients as bytes, with room for what one round makes beyond the last.
    let mut accepted = [0u8; N + 32];
    let mut count = 0;
    let (whole, rest) = bytes.as_chunks::<16>();
    let mut last = [0; 16];
    last[..rest.len()].copy_from_slice(rest);
    let lengths = whole.iter().map(|_| 16).chain([rest.len()]);
    for (chunk, length) in whole.iter().chain([&last]).zip(lengths) {
        if count >= N {
            break;
        }
        let x = _mm256_cvtepu8_epi16(registers::load_16(chunk));
        // Low nibble first, high nibble second.
        let x = _mm256_or_si256(x, _mm256_slli_epi16::<4>(x));
        let x = _mm256_and_si256(x, _mm256_set1_epi8(15));
        let good = _mm256_movemask_epi8(_mm256_cmpgt_epi8(limit, x)) as u32;
        let present = ((1u64 << (2 * length)) - 1) as u32;
        // Public: that a half byte was rejected, which is independent of the accepted ones.
        let good = ct::declassified(good & present);
        let values = _mm256_shuffle_epi8(table, x);
        let (low, high) = (_mm256_castsi256_si128(values), _mm256_extracti128_si256::<1>(values));
        let eights = [low, _mm_unpackhi_epi64(low, low), high, _mm_unpackhi_epi64(high, high)];
        for (eight, set) in eights.into_iter().zip(good.to_le_bytes()) {
            let places = registers::load_8(&MEMBERS[usize::from(set)]);
            let target = accepted[count..count + 8].as_mut_ptr();
            // SAFETY: eight bytes.
            unsafe { _mm_storel_epi64(target.cast(), _mm_shuffle_epi8(eight, places)) };
            count += set.count_ones() as usize;
        }
    }
    for (x, eight) in registers::dsa_mut(out).iter_mut().zip(accepted.as_chunks::<8>().0) {
        *x = _mm256_cvtepi8_epi32(registers::load_8(eight));
    }
    wipe(&mut accepted);
    wipe(&mut last);
    registers::clear();
    count.min(N)
}

/// Packs the result of `field` for each register.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn pack_of<const BITS: usize>(p: &DsaPoly, out: &mut [u8], field: impl Fn(__m256i) -> __m256i) {
    assert_eq!(out.len(), 32 * BITS, "a packed polynomial has 32 bytes a bit");
    for (index, x) in registers::dsa(p).iter().enumerate() {
        pack::pack::<BITS>(field(*x), out, index);
    }
}

/// Packs fields of 14 bits and less, two registers at a time.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn pack_2_of<const BITS: usize>(p: &DsaPoly, out: &mut [u8], field: impl Fn(__m256i) -> __m256i) {
    assert_eq!(out.len(), 32 * BITS, "a packed polynomial has 32 bytes a bit");
    for (index, x) in registers::dsa(p).as_chunks::<2>().0.iter().enumerate() {
        let words = pack::narrow([field(x[0]), field(x[1])]);
        pack::pack_words::<BITS>(words, out, index);
    }
}

/// Unpacks each register and hands it to `value`.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn unpack_of<const BITS: usize>(
    bytes: &[u8],
    out: &mut DsaPoly,
    value: impl Fn(__m256i) -> __m256i,
) {
    assert_eq!(bytes.len(), 32 * BITS, "a packed polynomial has 32 bytes a bit");
    for (index, x) in registers::dsa_mut(out).iter_mut().enumerate() {
        *x = value(pack::unpack::<BITS>(bytes, index));
    }
}

/// See [`gabion_scheme::kernels::Kernels::dsa_simple_bit_pack`].
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn simple_bit_pack(bits: usize, p: &DsaPoly, out: &mut [u8]) {
    match bits {
        4 => pack_2_of::<4>(p, out, |x| x),
        6 => pack_2_of::<6>(p, out, |x| x),
        10 => pack_2_of::<10>(p, out, |x| x),
        _ => panic!("bits is 4, 6 or 10, not {bits}"),
    }
    registers::clear();
}

/// See [`gabion_scheme::kernels::Kernels::dsa_simple_bit_unpack`].
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn simple_bit_unpack(bits: usize, bytes: &[u8], out: &mut DsaPoly) {
    match bits {
        10 => unpack_of::<10>(bytes, out, |v| v),
        _ => panic!("bits is 10, not {bits}"),
    }
}

/// See [`gabion_scheme::kernels::Kernels::dsa_bit_pack`].
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn bit_pack(bits: usize, b: i32, p: &DsaPoly, out: &mut [u8]) {
    let b = _mm256_set1_epi32(b);
    let q = _mm256_set1_epi32(DSA_Q);
    let small = |x| _mm256_sub_epi32(b, x);
    // A residue x is the centred one or off by q, and then b - x is negative or beyond q: the
    // smaller of two unsigned numbers is the right one, each way.
    let any = |x| {
        let y = _mm256_sub_epi32(b, x);
        let y = _mm256_min_epu32(y, _mm256_add_epi32(y, q));
        _mm256_min_epu32(y, _mm256_sub_epi32(y, q))
    };
    match bits {
        3 => pack_2_of::<3>(p, out, small),
        4 => pack_2_of::<4>(p, out, small),
        13 => pack_2_of::<13>(p, out, small),
        18 => pack_of::<18>(p, out, any),
        20 => pack_of::<20>(p, out, any),
        _ => panic!("bits is 3, 4, 13, 18 or 20, not {bits}"),
    }
    registers::clear();
}

/// See [`gabion_scheme::kernels::Kernels::dsa_bit_unpack`].
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn bit_unpack(bits: usize, b: i32, bytes: &[u8], out: &mut DsaPoly) {
    let b = _mm256_set1_epi32(b);
    let value = |v| _mm256_sub_epi32(b, v);
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
