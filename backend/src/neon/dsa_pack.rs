//! ML-DSA: sampling, packing and unpacking (FIPS 204, Algorithms 14 to 19, 30 and 31), 8
//! coefficients a step.

use core::arch::aarch64::*;

use gabion_scheme::ct;
use gabion_scheme::kernels::{DSA_Q, DsaPoly, N};

use super::{pack, registers};
use crate::common::constants::MEMBERS;
use crate::common::constants::dsa::half_byte;
use crate::common::memory::{Table, wipe};
use crate::portable;

/// For each set of four double words, the bytes of its members, in order.
static MEMBERS_OF_4: [Table<u8, 16>; 16] = {
    let mut tables = [Table([0; 16]); 16];
    let mut i = 0;
    while i < 16 * 16 {
        // Of four, the members of eight are the same.
        tables[i / 16].0[i % 16] = 4 * MEMBERS[i / 16][i % 16 / 4] + (i % 4) as u8;
        i += 1;
    }
    tables
};

/// See [`gabion_scheme::kernels::Kernels::dsa_rej_uniform_vartime`]. Accepted candidates come to the
/// front by a byte shuffle from a table over all sets of four.
#[target_feature(enable = "neon")]
pub(super) fn rej_uniform_vartime(bytes: &[u8], out: &mut DsaPoly) -> usize {
    assert_eq!(bytes.len() % 3, 0, "RejNTTPoly reads 3 bytes at a time");
    static BITS: Table<u32, 4> = Table([1, 2, 4, 8]);
    let bits = vreinterpretq_u32_u8(registers::table(&BITS));
    let (mut index, mut count) = (0, 0);
    // As long as there are 24 bytes to read and room for 8 coefficients.
    while bytes.len() >= 24 * (index + 1) && count <= N - 8 {
        for candidates in pack::unpack::<24>(bytes, index) {
            let candidates = vandq_u32(candidates, vdupq_n_u32((1 << 23) - 1));
            let accepted = vcltq_u32(candidates, vdupq_n_u32(DSA_Q as u32));
            let set = vaddvq_u32(vandq_u32(accepted, bits)) as usize;
            let members = registers::table(&MEMBERS_OF_4[set]);
            let coefficients = vqtbl1q_u8(vreinterpretq_u8_u32(candidates), members);
            let target = out.0[count..count + 4].as_mut_ptr();
            // SAFETY: four coefficients.
            unsafe { vst1q_u32(target.cast(), vreinterpretq_u32_u8(coefficients)) };
            count += set.count_ones() as usize;
        }
        index += 1;
    }
    count + portable::dsa::rej_uniform_into_vartime(&bytes[24 * index..], &mut out.0[count..])
}

/// The coefficient of each half byte (Algorithm 15); rejected ones are 0.
const fn half_bytes(eta: i8) -> Table<i8, 16> {
    let mut table = Table([0; 16]);
    let mut i = 0;
    while i < 16 {
        table.0[i] = half_byte(eta, i as i8);
        i += 1;
    }
    table
}

static HALF_BYTES_2: Table<i8, 16> = half_bytes(2);
static HALF_BYTES_4: Table<i8, 16> = half_bytes(4);

/// See [`gabion_scheme::kernels::Kernels::dsa_rej_bounded_vartime`].
#[target_feature(enable = "neon")]
pub(super) fn rej_bounded_vartime(eta: usize, bytes: &[u8], out: &mut DsaPoly) -> usize {
    static BITS: Table<u8, 16> = Table([1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128]);
    let (table, limit) = match eta {
        2 => (&HALF_BYTES_2, 15),
        4 => (&HALF_BYTES_4, 9),
        _ => panic!("eta is 2 or 4, not {eta}"),
    };
    let (table, limit) = (registers::table(table), vdupq_n_u8(limit));
    let bits = registers::table(&BITS);
    // Accepted coefficients as bytes, with room for what one round makes beyond the last.
    let mut accepted = [0u8; N + 16];
    let mut count = 0;
    let (whole, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let lengths = whole.iter().map(|_| 8).chain([rest.len()]);
    for (chunk, length) in whole.iter().chain([&last]).zip(lengths) {
        if count >= N {
            break;
        }
        let x = registers::load_8(chunk);
        // Low nibble first, high nibble second.
        let (low, high) = (vand_u8(x, vdup_n_u8(15)), vshr_n_u8::<4>(x));
        let x = vcombine_u8(vzip1_u8(low, high), vzip2_u8(low, high));
        let good = vandq_u8(vcltq_u8(x, limit), bits);
        let good = [vaddv_u8(vget_low_u8(good)), vaddv_u8(vget_high_u8(good))];
        let present = (1u32 << (2 * length)) - 1;
        // Public: that a half byte was rejected, which is independent of the accepted ones.
        let good = ct::declassified(u32::from(u16::from_le_bytes(good)) & present);
        let values = vqtbl1q_u8(table, x);
        let eights = [vget_low_u8(values), vget_high_u8(values)];
        for (eight, set) in eights.into_iter().zip(good.to_le_bytes()) {
            let places = registers::load_8(&MEMBERS[usize::from(set)]);
            let target = accepted[count..count + 8].as_mut_ptr();
            // SAFETY: eight bytes.
            unsafe { vst1_u8(target, vtbl1_u8(eight, places)) };
            count += set.count_ones() as usize;
        }
    }
    let pairs = registers::dsa_mut(out).as_chunks_mut::<2>().0;
    for (pair, eight) in pairs.iter_mut().zip(accepted.as_chunks::<8>().0) {
        let words = vmovl_s8(vreinterpret_s8_u8(registers::load_8(eight)));
        *pair = [vmovl_s16(vget_low_s16(words)), vmovl_high_s16(words)];
    }
    wipe(&mut accepted);
    wipe(&mut last);
    registers::clear();
    count.min(N)
}

/// The fields of a pair of registers, as `field` makes them.
#[inline]
#[target_feature(enable = "neon")]
fn fields(pair: &[int32x4_t; 2], field: impl Fn(int32x4_t) -> int32x4_t) -> [uint32x4_t; 2] {
    [vreinterpretq_u32_s32(field(pair[0])), vreinterpretq_u32_s32(field(pair[1]))]
}

/// Packs the result of `field` for each register, in fields of 14 bits and less.
#[inline]
#[target_feature(enable = "neon")]
fn pack_words_of<const BITS: usize>(
    p: &DsaPoly,
    out: &mut [u8],
    field: impl Fn(int32x4_t) -> int32x4_t,
) {
    assert_eq!(out.len(), 32 * BITS, "a packed polynomial has 32 bytes a bit");
    for (index, pair) in registers::dsa(p).as_chunks().0.iter().enumerate() {
        pack::pack_words::<BITS>(pack::narrow(fields(pair, &field)), out, index);
    }
}

/// Packs wider fields.
#[inline]
#[target_feature(enable = "neon")]
fn pack_of<const BITS: usize>(p: &DsaPoly, out: &mut [u8], field: impl Fn(int32x4_t) -> int32x4_t) {
    assert_eq!(out.len(), 32 * BITS, "a packed polynomial has 32 bytes a bit");
    for (index, pair) in registers::dsa(p).as_chunks().0.iter().enumerate() {
        pack::pack::<BITS>(fields(pair, &field), out, index);
    }
}

/// Unpacks each register and hands it to `value`.
#[inline]
#[target_feature(enable = "neon")]
fn unpack_of<const BITS: usize>(
    bytes: &[u8],
    out: &mut DsaPoly,
    value: impl Fn(int32x4_t) -> int32x4_t,
) {
    assert_eq!(bytes.len(), 32 * BITS, "a packed polynomial has 32 bytes a bit");
    let pairs = registers::dsa_mut(out).as_chunks_mut::<2>().0;
    for (index, pair) in pairs.iter_mut().enumerate() {
        let [first, second] = pack::unpack::<BITS>(bytes, index);
        *pair = [value(vreinterpretq_s32_u32(first)), value(vreinterpretq_s32_u32(second))];
    }
}

/// See [`gabion_scheme::kernels::Kernels::dsa_simple_bit_pack`].
#[target_feature(enable = "neon")]
pub(super) fn simple_bit_pack(bits: usize, p: &DsaPoly, out: &mut [u8]) {
    match bits {
        4 => pack_words_of::<4>(p, out, |x| x),
        6 => pack_words_of::<6>(p, out, |x| x),
        10 => pack_words_of::<10>(p, out, |x| x),
        _ => panic!("bits is 4, 6 or 10, not {bits}"),
    }
    registers::clear();
}

/// See [`gabion_scheme::kernels::Kernels::dsa_simple_bit_unpack`].
#[target_feature(enable = "neon")]
pub(super) fn simple_bit_unpack(bits: usize, bytes: &[u8], out: &mut DsaPoly) {
    match bits {
        10 => unpack_of::<10>(bytes, out, |v| v),
        _ => panic!("bits is 10, not {bits}"),
    }
}

/// See [`gabion_scheme::kernels::Kernels::dsa_bit_pack`].
#[target_feature(enable = "neon")]
pub(super) fn bit_pack(bits: usize, b: i32, p: &DsaPoly, out: &mut [u8]) {
    let b = vdupq_n_s32(b);
    let q = vdupq_n_u32(DSA_Q as u32);
    let small = |x| vsubq_s32(b, x);
    // A residue x is the centred one or off by q, and then b - x is negative or beyond q: the
    // smaller of two unsigned numbers is the right one, each way.
    let any = |x| {
        let y = vreinterpretq_u32_s32(vsubq_s32(b, x));
        let y = vminq_u32(y, vaddq_u32(y, q));
        vreinterpretq_s32_u32(vminq_u32(y, vsubq_u32(y, q)))
    };
    match bits {
        3 => pack_words_of::<3>(p, out, small),
        4 => pack_words_of::<4>(p, out, small),
        13 => pack_words_of::<13>(p, out, small),
        18 => pack_of::<18>(p, out, any),
        20 => pack_of::<20>(p, out, any),
        _ => panic!("bits is 3, 4, 13, 18 or 20, not {bits}"),
    }
    registers::clear();
}

/// See [`gabion_scheme::kernels::Kernels::dsa_bit_unpack`].
#[target_feature(enable = "neon")]
pub(super) fn bit_unpack(bits: usize, b: i32, bytes: &[u8], out: &mut DsaPoly) {
    let b = vdupq_n_s32(b);
    let value = |v| vsubq_s32(b, v);
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
