//! Fields of a fixed width to bytes and back (BitsToBytes: FIPS 203, Algorithm 3; FIPS 204,
//! Algorithm 12), eight fields at a time, which fill whole bytes at any width.
//!
//! ```text
//!   unpack  bytes  --TBL-->  each field's bytes in its place  --shift, mask-->  fields
//!   pack    fields  --shift and insert-->  two numbers of 2 or 4 fields  --shift, TBL-->  bytes
//! ```

use core::arch::aarch64::*;

use super::registers;
use crate::common::memory::Table;

/// The shuffles and shifts that unpack bytes to a register of fields in words of `W` bits, 16 or 32.
struct UnpackTable<const W: usize> {
    /// For each byte of the result, the byte to take.
    gather: Table<u8, 16>,
    /// For each byte of the result the number of bits, in the first byte of each word, by which the
    /// word is shifted down: negative, as the shift to the left has it.
    shifts: Table<u8, 16>,
}

impl<const W: usize> UnpackTable<W> {
    /// Fields of `bits` bits, of which the first begins `start` bits from the first byte.
    const fn new(bits: usize, start: usize) -> Self {
        let mut u = UnpackTable { gather: Table([0; 16]), shifts: Table([0; 16]) };
        let width = W / 8;
        let mut byte = 0;
        while byte < 16 {
            let bit = byte / width * bits + start;
            u.gather.0[byte] = (bit / 8 + byte % width) as u8;
            // The shift is a signed byte, the lowest of the word.
            if byte % width == 0 {
                u.shifts.0[byte] = (-((bit % 8) as i8)) as u8;
            }
            byte += 1;
        }
        u
    }
}

/// The shuffles and shifts that pack two numbers of `bits` bits, each in 64, to bytes.
struct PackTable {
    /// Left shifts that bring the numbers to their places within their first byte.
    place: [i64; 2],
    /// For each output byte, the byte that its lowest bit belongs to; none beyond the last.
    first: Table<u8, 16>,
    /// For the output byte in which the second number begins, if it shares it, that number's first.
    second: Table<u8, 16>,
}

impl PackTable {
    const fn new(bits: usize) -> Self {
        const NONE: u8 = 0x80;
        assert!(bits.is_multiple_of(4) && bits + bits % 8 <= 64);
        let mut p = PackTable {
            place: [0, (bits % 8) as i64],
            first: Table([NONE; 16]),
            second: Table([NONE; 16]),
        };
        let mut byte = 0;
        while byte < bits / 4 {
            let index = if 8 * byte < bits { byte } else { 8 + byte - bits / 8 };
            p.first.0[byte] = index as u8;
            byte += 1;
        }
        if !bits.is_multiple_of(8) {
            p.second.0[bits / 8] = 8;
        }
        p
    }
}

struct Fields<const BITS: usize>;

impl<const BITS: usize> Fields<BITS> {
    /// The offset of the second four fields' bytes, behind those of the first.
    const SECOND: usize = BITS / 2;
    /// Eight fields as words; no field may lie in three bytes.
    const WORDS: &'static UnpackTable<16> = &const {
        assert!(BITS <= 10 || BITS == 12, "a field in three bytes");
        UnpackTable::new(BITS, 0)
    };
    /// Four fields as double words, and four more; no field may lie in five bytes.
    const DOUBLE_WORDS: &'static [UnpackTable<32>; 2] = &const {
        assert!(BITS <= 25, "a field in five bytes");
        [UnpackTable::new(BITS, 0), UnpackTable::new(BITS, 4 * (BITS % 2))]
    };
    /// Numbers of four fields.
    const FOUR: &'static PackTable = &const { PackTable::new(4 * BITS) };
    /// Numbers of two fields.
    const TWO: &'static PackTable = &const { PackTable::new(2 * BITS) };
}

/// The 16 bytes at a place; beyond the end of `bytes`, which are 16 at least, zeros.
#[inline]
#[target_feature(enable = "neon")]
fn load(bytes: &[u8], at: usize) -> uint8x16_t {
    match bytes.get(at..at + 16) {
        // SAFETY: sixteen bytes.
        Some(bytes) => unsafe { vld1q_u8(bytes.as_ptr()) },
        None => load_last(bytes, at),
    }
}

/// Loads at the end of `bytes`, without a copy in memory, which would remain there.
#[cold]
#[inline(never)]
#[target_feature(enable = "neon")]
fn load_last(bytes: &[u8], at: usize) -> uint8x16_t {
    static IN_ORDER: Table<u8, 16> = Table([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
    let Some(last) = bytes.last_chunk() else {
        panic!("16 bytes at least, not {}", bytes.len());
    };
    let surplus = vdupq_n_u8((16 - (bytes.len() - at)) as u8);
    vqtbl1q_u8(registers::load_16(last), vaddq_u8(registers::table(&IN_ORDER), surplus))
}

/// Eight fields in words, those from `8 * index` on. No field may lie in three bytes.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn unpack_words<const BITS: usize>(bytes: &[u8], index: usize) -> uint16x8_t {
    let u = Fields::<BITS>::WORDS;
    let gathered = vqtbl1q_u8(load(bytes, BITS * index), registers::table(&u.gather));
    let shifts = vreinterpretq_s16_u8(registers::table(&u.shifts));
    let fields = vshlq_u16(vreinterpretq_u16_u8(gathered), shifts);
    vandq_u16(fields, vdupq_n_u16(((1u32 << BITS) - 1) as u16))
}

/// Eight fields in double words, those from `8 * index` on.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn unpack<const BITS: usize>(bytes: &[u8], index: usize) -> [uint32x4_t; 2] {
    let first = load(bytes, BITS * index);
    // Up to 16 bits a field, all eight are there.
    let second = load(bytes, BITS * index + Fields::<BITS>::SECOND);
    let [u, v] = Fields::<BITS>::DOUBLE_WORDS;
    [fields_of::<BITS>(first, u), fields_of::<BITS>(second, v)]
}

#[inline]
#[target_feature(enable = "neon")]
fn fields_of<const BITS: usize>(bytes: uint8x16_t, u: &UnpackTable<32>) -> uint32x4_t {
    let gathered = vreinterpretq_u32_u8(vqtbl1q_u8(bytes, registers::table(&u.gather)));
    let fields = vshlq_u32(gathered, vreinterpretq_s32_u8(registers::table(&u.shifts)));
    vandq_u32(fields, vdupq_n_u32(((1u64 << BITS) - 1) as u32))
}

/// Packs eight words below 2^BITS as fields from `8 * index` on. `BITS` is 14 at most.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn pack_words<const BITS: usize>(words: uint16x8_t, out: &mut [u8], index: usize) {
    let words = vreinterpretq_u32_u16(words);
    // The upper word moves down next to the lower one, and then the upper pair to the lower pair.
    let lower = vandq_u32(words, vdupq_n_u32(0xffff));
    let upper = vshlq_u32(vshrq_n_u32::<16>(words), vdupq_n_s32(BITS as i32));
    let numbers = join::<BITS, 2>(vorrq_u32(lower, upper));
    store::<BITS, 4>(numbers, out, BITS * index, Fields::<BITS>::FOUR);
}

/// Packs eight double words below 2^BITS as fields from `8 * index` on. `BITS` is even, and 20 at
/// most.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn pack<const BITS: usize>(fields: [uint32x4_t; 2], out: &mut [u8], index: usize) {
    let (at, p) = (BITS * index, Fields::<BITS>::TWO);
    store::<BITS, 2>(join::<BITS, 1>(fields[0]), out, at, p);
    store::<BITS, 2>(join::<BITS, 1>(fields[1]), out, at + Fields::<BITS>::SECOND, p);
}

/// Joins two double words of `COUNT` fields in each 64 bits.
#[inline]
#[target_feature(enable = "neon")]
fn join<const BITS: usize, const COUNT: usize>(words: uint32x4_t) -> uint64x2_t {
    let words = vreinterpretq_u64_u32(words);
    let lower = vandq_u64(words, vdupq_n_u64(0xffff_ffff));
    let upper = vshlq_u64(vshrq_n_u64::<32>(words), vdupq_n_s64((BITS * COUNT) as i64));
    vorrq_u64(lower, upper)
}

/// Stores two numbers of `COUNT` fields. Bytes beyond them may be overwritten within `out`; callers
/// that fill a buffer in ascending order write them again.
#[inline]
#[target_feature(enable = "neon")]
fn store<const BITS: usize, const COUNT: usize>(
    numbers: uint64x2_t,
    out: &mut [u8],
    at: usize,
    p: &PackTable,
) {
    let bits = const { BITS * COUNT };
    // SAFETY: two numbers.
    let place = unsafe { vld1q_s64(p.place.as_ptr()) };
    let placed = vreinterpretq_u8_u64(vshlq_u64(numbers, place));
    let mut bytes = vqtbl1q_u8(placed, registers::table(&p.first));
    if !bits.is_multiple_of(8) {
        bytes = vorrq_u8(bytes, vqtbl1q_u8(placed, registers::table(&p.second)));
    }
    match out.get_mut(at..at + 16) {
        // SAFETY: sixteen bytes.
        Some(out) => unsafe { vst1q_u8(out.as_mut_ptr(), bytes) },
        None => store_last(bytes, &mut out[at..at + bits / 4]),
    }
}

/// Stores as many bytes as there is room for, 15 at most.
#[cold]
#[inline(never)]
#[target_feature(enable = "neon")]
fn store_last(bytes: uint8x16_t, out: &mut [u8]) {
    assert!(out.len() < 16, "fewer bytes than a register has");
    // SAFETY: so many bytes.
    unsafe { registers::store_first(out.as_mut_ptr(), bytes, out.len()) };
}

/// Eight coefficients of two registers in one, as words: their lower halves.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn narrow([a, b]: [uint32x4_t; 2]) -> uint16x8_t {
    vuzp1q_u16(vreinterpretq_u16_u32(a), vreinterpretq_u16_u32(b))
}

/// Returns which items of eight are set, as bits: the sum of a bit for each.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn set_of_8(mask: uint16x8_t) -> u8 {
    static BITS: Table<u16, 8> = Table([1, 2, 4, 8, 16, 32, 64, 128]);
    vaddvq_u16(vandq_u16(mask, vreinterpretq_u16_u8(registers::table(&BITS)))) as u8
}
