//! ML-KEM: sampling, compression and encoding (FIPS 203, Algorithms 3 to 8, equations 4.7 and
//! 4.8), 8 coefficients a register.

use core::arch::aarch64::*;

use gabion_scheme::kernels::{KEM_Q, KemPoly, N};

use super::kem_ntt::reduce;
use super::{pack, registers};
use crate::common::constants::MEMBERS;
use crate::common::memory::Table;
use crate::portable;

/// See [`gabion_scheme::kernels::Kernels::kem_rej_uniform_vartime`]. Accepted words come to the front
/// by a byte shuffle from a table over all sets of eight.
#[target_feature(enable = "neon")]
pub(super) fn rej_uniform_vartime(bytes: &[u8], out: &mut KemPoly) -> usize {
    assert_eq!(bytes.len() % 3, 0, "SampleNTT reads 3 bytes at a time");
    let (mut index, mut count) = (0, 0);
    // As long as there are 12 bytes to read, of 16 at least, and room for 8 coefficients.
    while bytes.len() >= (12 * (index + 1)).max(16) && count <= N - 8 {
        let candidates = pack::unpack_words::<12>(bytes, index);
        let set = pack::set_of_8(vcltq_u16(candidates, vdupq_n_u16(KEM_Q as u16)));
        let target = out.0[count..count + 8].as_mut_ptr();
        // SAFETY: eight coefficients.
        unsafe { vst1q_u16(target.cast(), to_the_front(candidates, set)) };
        count += set.count_ones() as usize;
        index += 1;
    }
    count + portable::kem::rej_uniform_into_vartime(&bytes[12 * index..], &mut out.0[count..])
}

/// The words of a set, in order, and then garbage.
#[inline]
#[target_feature(enable = "neon")]
fn to_the_front(words: uint16x8_t, set: u8) -> uint16x8_t {
    // Places of words to places of their bytes: 2 p, and 2 p + 1 above it.
    let places = vmovl_u8(registers::load_8(&MEMBERS[usize::from(set)]));
    let bytes = vmlaq_n_u16(vdupq_n_u16(0x0100), places, 0x0202);
    vreinterpretq_u16_u8(vqtbl1q_u8(vreinterpretq_u8_u16(words), vreinterpretq_u8_u16(bytes)))
}

/// x - y for the sums x, y of the low and the high half of four bits.
static BINOMIAL_2: Table<i8, 16> = {
    let mut table = Table([0; 16]);
    let mut i = 0;
    while i < 16 {
        table.0[i] = (i as u8 & 3).count_ones() as i8 - (i as u8 >> 2).count_ones() as i8;
        i += 1;
    }
    table
};

/// See [`gabion_scheme::kernels::Kernels::kem_cbd`]. Tables within registers: no address depends on
/// a secret.
#[target_feature(enable = "neon")]
pub(super) fn cbd(eta: usize, bytes: &[u8], out: &mut [KemPoly]) {
    assert_eq!(bytes.len(), 64 * eta * out.len(), "SamplePolyCBD reads 64 eta bytes");
    match eta {
        2 => {
            let table = vreinterpretq_s8_u8(registers::table(&BINOMIAL_2));
            let out = out.iter_mut().flat_map(|p| registers::kem_mut(p).as_chunks_mut::<4>().0);
            for (out, bytes) in out.zip(bytes.as_chunks::<16>().0) {
                let x = registers::load_16(bytes);
                // Low nibble first, high nibble second.
                let low = vqtbl1q_s8(table, vandq_u8(x, vdupq_n_u8(15)));
                let high = vqtbl1q_s8(table, vshrq_n_u8::<4>(x));
                let (first, second) = (vzip1q_s8(low, high), vzip2q_s8(low, high));
                *out = [
                    vmovl_s8(vget_low_s8(first)),
                    vmovl_high_s8(first),
                    vmovl_s8(vget_low_s8(second)),
                    vmovl_high_s8(second),
                ];
            }
        }
        3 => {
            let out = out.iter_mut().flat_map(|p| registers::kem_mut(p).as_chunks_mut::<4>().0);
            for (index, out) in out.enumerate() {
                let [first, second] = pack::unpack::<24>(bytes, index);
                let ([a, b], [c, d]) = (cbd_3(first), cbd_3(second));
                *out = [a, b, c, d];
            }
        }
        _ => panic!("eta is 2 or 3, not {eta}"),
    }
    registers::clear();
}

/// Four coefficients of each double word of 24 bits.
#[inline]
#[target_feature(enable = "neon")]
fn cbd_3(x: uint32x4_t) -> [int16x8_t; 2] {
    // Sums of three neighbouring bits in fields of three.
    let ones = vdupq_n_u32(0o11111111);
    let sum = vaddq_u32(
        vaddq_u32(vandq_u32(x, ones), vandq_u32(vshrq_n_u32::<1>(x), ones)),
        vandq_u32(vshrq_n_u32::<2>(x), ones),
    );
    // Differences of neighbouring sums, plus 3, in fields of six.
    let sums = vdupq_n_u32(0o07070707);
    let low = vaddq_u32(vandq_u32(sum, sums), vdupq_n_u32(0o03030303));
    let x = vsubq_u32(low, vandq_u32(vshrq_n_u32::<3>(sum), sums));
    // Fields 0 and 1, and fields 2 and 3, in words.
    let pair = |low, high| {
        let first = vandq_u32(low, vdupq_n_u32(0x3f));
        let second = vandq_u32(high, vdupq_n_u32(0x3f_0000));
        let fields = vreinterpretq_s16_u32(vorrq_u32(first, second));
        vreinterpretq_s32_s16(vsubq_s16(fields, vdupq_n_s16(3)))
    };
    let a = pair(x, vshlq_n_u32::<10>(x));
    let b = pair(vshrq_n_u32::<12>(x), vshrq_n_u32::<2>(x));
    [vreinterpretq_s16_s32(vzip1q_s32(a, b)), vreinterpretq_s16_s32(vzip2q_s32(a, b))]
}

/// The representative in 0..q of |x| <= 2q. A negative number is the greater one as unsigned.
#[inline]
#[target_feature(enable = "neon")]
fn canonical(x: int16x8_t) -> uint16x8_t {
    let x = vreinterpretq_u16_s16(reduce(x));
    vminq_u16(x, vaddq_u16(x, vdupq_n_u16(KEM_Q as u16)))
}

/// See [`gabion_scheme::kernels::Kernels::kem_encode12`].
#[target_feature(enable = "neon")]
pub(super) fn encode12(polys: &[KemPoly], out: &mut [u8]) {
    assert_eq!(out.len(), 384 * polys.len(), "ByteEncode_12 writes 384 bytes");
    for (index, x) in polys.iter().flat_map(registers::kem).enumerate() {
        pack::pack_words::<12>(canonical(*x), out, index);
    }
    registers::clear();
}

/// See [`gabion_scheme::kernels::Kernels::kem_decode12`].
#[target_feature(enable = "neon")]
pub(super) fn decode12(bytes: &[u8], out: &mut [KemPoly]) -> bool {
    assert_eq!(bytes.len(), 384 * out.len(), "ByteDecode_12 reads 384 bytes");
    let mut largest = vdupq_n_u16(0);
    for (index, x) in out.iter_mut().flat_map(registers::kem_mut).enumerate() {
        let value = pack::unpack_words::<12>(bytes, index);
        largest = vmaxq_u16(largest, value);
        // 2^12 < 2q: one subtraction is enough, where it does not wrap.
        let less = vsubq_u16(value, vdupq_n_u16(KEM_Q as u16));
        *x = vreinterpretq_s16_u16(vminq_u16(value, less));
    }
    let valid = vmaxvq_u16(largest) < KEM_Q as u16;
    registers::clear();
    valid
}

/// Compress_d (equation 4.7) of 8 coefficients |x| <= 2q, not reduced before: a multiple of q
/// more adds a multiple of 2^d.
///
/// h = floor(x floor(2^(15+d) / q) / 2^15) is floor(2^d x / q) to within one: the reciprocal is off
/// by less than 1, so the product by less than |x| / 2^15 < 0.21. The remainder 2^d x - h q,
/// between -0.21q and 1.21q and so exact in 16 bits, says whether to round up. (2^d x / q has no
/// ties: q is odd.)
#[inline]
#[target_feature(enable = "neon")]
fn compress_8<const D: usize>(x: int16x8_t) -> uint16x8_t {
    let reciprocal = const { ((1i32 << (15 + D)) / KEM_Q as i32) as i16 };
    let h = vqdmulhq_n_s16(x, reciprocal);
    let scaled = vshlq_s16(x, vdupq_n_s16(D as i16));
    let remainder = vmlsq_s16(scaled, h, vdupq_n_s16(KEM_Q));
    // All ones, that is -1, where it is the upper one that is near.
    let up = vcgtq_s16(remainder, vdupq_n_s16(KEM_Q / 2));
    let rounded = vsubq_u16(vreinterpretq_u16_s16(h), up);
    vandq_u16(rounded, vdupq_n_u16((1 << D) - 1))
}

#[inline]
#[target_feature(enable = "neon")]
fn compress_of<const D: usize>(polys: &[KemPoly], out: &mut [u8]) {
    for (index, x) in polys.iter().flat_map(registers::kem).enumerate() {
        pack::pack_words::<D>(compress_8::<D>(*x), out, index);
    }
}

/// See [`gabion_scheme::kernels::Kernels::kem_compress`].
#[target_feature(enable = "neon")]
pub(super) fn compress(d: usize, polys: &[KemPoly], out: &mut [u8]) {
    assert_eq!(out.len(), 32 * d * polys.len(), "ByteEncode_d writes 32 d bytes");
    match d {
        1 => {
            for (x, out) in polys.iter().flat_map(registers::kem).zip(out) {
                let zero = vdupq_n_u16(0);
                *out = pack::set_of_8(vcgtq_u16(compress_8::<1>(*x), zero));
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

/// Decompress_d (equation 4.8) of y: the product of y 2^(15-d) and q, doubled, rounded and halved
/// (`SQRDMULH`), is (q y + 2^(d-1)) >> d.
#[inline]
#[target_feature(enable = "neon")]
fn decompress_of<const D: usize>(out: &mut [KemPoly], fields: impl Fn(usize) -> uint16x8_t) {
    for (index, x) in out.iter_mut().flat_map(registers::kem_mut).enumerate() {
        let high = vshlq_u16(fields(index), vdupq_n_s16(15 - D as i16));
        *x = vqrdmulhq_n_s16(vreinterpretq_s16_u16(high), KEM_Q);
    }
}

/// See [`gabion_scheme::kernels::Kernels::kem_decompress`].
#[target_feature(enable = "neon")]
pub(super) fn decompress(d: usize, bytes: &[u8], out: &mut [KemPoly]) {
    assert_eq!(bytes.len(), 32 * d * out.len(), "ByteDecode_d reads 32 d bytes");
    match d {
        1 => {
            static BITS: Table<u16, 8> = Table([1, 2, 4, 8, 16, 32, 64, 128]);
            let bits = vreinterpretq_u16_u8(registers::table(&BITS));
            for (x, y) in out.iter_mut().flat_map(registers::kem_mut).zip(bytes) {
                let ones = vtstq_u16(vdupq_n_u16(u16::from(*y)), bits);
                let half = vdupq_n_u16(KEM_Q as u16 / 2 + 1);
                *x = vreinterpretq_s16_u16(vandq_u16(ones, half));
            }
        }
        4 => decompress_of::<4>(out, |index| pack::unpack_words::<4>(bytes, index)),
        5 => decompress_of::<5>(out, |index| pack::unpack_words::<5>(bytes, index)),
        10 => decompress_of::<10>(out, |index| pack::unpack_words::<10>(bytes, index)),
        // Such a field may lie in three bytes.
        11 => decompress_of::<11>(out, |index| pack::narrow(pack::unpack::<11>(bytes, index))),
        _ => panic!("d is 1, 4, 5, 10 or 11, not {d}"),
    }
    registers::clear();
}
