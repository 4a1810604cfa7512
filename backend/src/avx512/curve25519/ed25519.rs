//! Multiples of Ed25519's base point, and tables of them.
//!
//! ```text
//!   many scalars   a lane is a scalar: 51 additions of odd multiples of 32^i B, looked up by a
//!                  permutation within registers
//!   one or two     a lane is a stretch of eight of one scalar's digits in radix 16, looked up by
//!                  reading all entries; then the eight lanes are added up
//! ```
//!
//! Points wait for the others of their chunk, so that one inversion serves all. Everything runs in
//! constant time, and no address depends on a scalar.

use core::arch::x86_64::*;

use gabion_scheme::ct;
use gabion_scheme::kernels::ed25519::PointRow;
use once_cell::race::OnceBox;

use super::edwards::{
    Affine, ExtendedPoint, IDENTITY, affine, invert_all, load8, progression, store8,
};
use super::field25519::{Fe, all};
use crate::avx512::registers;

/// Scalars whose points wait for one inversion.
pub(crate) const CHUNK: usize = 64;
/// Digits of a scalar in radix 2^5.
const DIGITS: usize = 51;
/// Multiples in a piece of [`base_rows`]: 1 to 512.
pub(crate) const BASE_ROWS: usize = 512;
/// Bits between pieces of [`base_rows`].
const BASE_PIECE_BITS: usize = 70;

// ----- tables -----

/// `table[i][limb][j]`: (2j + 1) 32^i B, five limbs each of y+x, y-x, 2dxy.
type CombTable = Vec<CombRow>;
/// A row of it.
pub(crate) type CombRow = [[u64; 16]; 15];
/// `table[m][j][limb][lane]`: (2j + 1) 16^(8 lane + m) B.
type StretchTable = Vec<StretchRow>;
/// A row of it.
type StretchRow = [[[u64; 8]; 15]; 8];

/// `2^bits[lane] * B`, at most 2^255.
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
fn base_shifted(bits: [usize; 8]) -> ExtendedPoint {
    let mut out = ExtendedPoint::identity();
    let mut p = ExtendedPoint::base();
    for bit in 0..256 {
        let mut here = 0;
        for (lane, wanted) in bits.iter().enumerate() {
            here |= u8::from(*wanted == bit) << lane;
        }
        out = out.replaced_where(here, &p);
        p.double::<true>();
    }
    out
}

#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
fn make_comb() -> CombTable {
    let mut table = vec![[[0; 16]; 15]; DIGITS];
    for group in 0..DIGITS.div_ceil(8) {
        let p = base_shifted(core::array::from_fn(|lane| 5 * (8 * group + lane)));
        let odd = affine(&progression(p, &p.doubled().precompute(), 16));
        for (j, point) in odd.iter().enumerate() {
            let limbs = point.limbs().map(|limb| store8(limb));
            for (lane, row) in table[8 * group..].iter_mut().take(8).enumerate() {
                for (place, limb) in row.iter_mut().zip(&limbs) {
                    place[j] = limb[lane];
                }
            }
        }
    }
    table
}

#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
fn make_stretches() -> StretchTable {
    (0..8)
        .map(|m| {
            let p = base_shifted(core::array::from_fn(|lane| 4 * (8 * lane + m)));
            let odd = affine(&progression(p, &p.doubled().precompute(), 8));
            core::array::from_fn(|j| odd[j].limbs().map(|limb| store8(limb)))
        })
        .collect()
}

/// `rows[512 j + i - 1] = i * 2^(70 j) * B` for i in 1..=512, j in 0..4.
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
fn make_base_rows() -> Vec<PointRow> {
    // A lane is a half of a piece: multiples 1 to 256 and 257 to 512.
    let p = base_shifted(core::array::from_fn(|lane| BASE_PIECE_BITS * (lane % 4)));
    let mut far = p;
    far.double_times(8);
    let mut start = ExtendedPoint::identity().replaced_where(0xf0, &far);
    start.add::<true>(&p.precompute());
    let half = BASE_ROWS / 2;
    let mut rows = vec![IDENTITY; 4 * BASE_ROWS];
    for (i, point) in affine(&progression(start, &p.precompute(), half)).iter().enumerate() {
        for (lane, row) in point.rows().into_iter().enumerate() {
            rows[BASE_ROWS * (lane % 4) + half * (lane / 4) + i] = row;
        }
    }
    rows
}

/// Makes a table at its first use, twice where two threads are first: a forked child must not wait for a
/// thread that only its parent has. Tables are public and the same in every process.
macro_rules! table {
    ($name:ident: $type:ty = $make:ident) => {
        #[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
        pub(crate) fn $name() -> &'static $type {
            static TABLE: OnceBox<$type> = OnceBox::new();
            TABLE.get_or_init(|| Box::new($make()))
        }
    };
}

table!(comb: CombTable = make_comb);
table!(stretches: StretchTable = make_stretches);
table!(base_rows: Vec<PointRow> = make_base_rows);

// ----- multiples of the base point, in constant time -----

/// L, the order of the base point (RFC 8032, section 5.1), as 64-bit words.
const ORDER: [u64; 4] = [0x5812_631a_5cf5_d3ed, 0x14de_f9de_a2f7_9cd6, 0, 1 << 60];

/// `(s - 1) / 2` for the odd one, s, of the scalar and the scalar plus L, plus `2^top`. Its plain
/// digits b of w bits stand for the odd digits 2b - (2^w - 1) of s, if top + 1 is w times their
/// number: the sum of (2^w - 1) 2^(w i) over them is 2^(top + 1) - 1.
fn odd_digits(scalar: &[u8; 32], top: usize) -> [u64; 4] {
    let words = scalar.as_chunks::<8>().0;
    let mask = ct::barrier((words[0][0] as u64 & 1).wrapping_sub(1));
    let mut s = [0u64; 4];
    let mut carry = false;
    for (k, s) in s.iter_mut().enumerate() {
        let (sum, over) = u64::from_le_bytes(words[k]).overflowing_add(ORDER[k] & mask);
        let (sum, over_too) = sum.overflowing_add(u64::from(carry));
        *s = sum;
        carry = over | over_too;
    }
    let mut half = core::array::from_fn(|k| (s[k] >> 1) | s.get(k + 1).map_or(0, |s| s << 63));
    half[top / 64] |= 1 << (top % 64);
    ct::wipe(&mut s);
    half
}

/// The encodings of `[scalar]B`; scalars are below L.
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
pub(crate) fn base_multiples(scalars: &[[u8; 32]], out: &mut [[u8; 32]]) {
    if scalars.len() <= 2 {
        let stretches = stretches();
        for (scalar, out) in scalars.iter().zip(out) {
            let mut point = [base_multiple(stretches, scalar)];
            encode_all(&mut point, core::slice::from_mut(out));
        }
    } else {
        let comb = comb();
        for (scalars, out) in scalars.chunks(CHUNK).zip(out.chunks_mut(CHUNK)) {
            let mut points: Vec<_> =
                scalars.chunks(8).map(|lanes| eight_base_multiples(comb, lanes)).collect();
            encode_all(&mut points, out);
        }
    }
    // SAFETY: these kernels run only where `Avx512::detect` found the features of all of them.
    unsafe { registers::clear() }
}

/// Encodings of points, eight a group. The points are wiped: their coordinates, other than their encodings, say
/// something of the scalars, nonces among them.
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
fn encode_all(points: &mut [ExtendedPoint], out: &mut [[u8; 32]]) {
    let mut inverses: Vec<Fe> = points.iter().map(|point| point.z).collect();
    invert_all(&mut inverses);
    for ((point, inverse), out) in points.iter().zip(&inverses).zip(out.chunks_mut(8)) {
        let words = point.encode(inverse).map(|word| store8(word));
        for (lane, out) in out.iter_mut().enumerate() {
            for (word, out) in words.iter().zip(out.as_chunks_mut::<8>().0) {
                *out = word[lane].to_le_bytes();
            }
        }
    }
    let zero = Fe::small(0);
    points.fill(ExtendedPoint { x: zero, y: zero, z: zero, t: zero });
    inverses.fill(zero);
    core::hint::black_box((points, &mut inverses));
}

/// `[scalar]B`, a lane a scalar; eight at most, at least one. `table` is [`comb`].
#[inline(never)] // Where the table lies is read from memory, and what is read there, the scan takes for data.
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
pub(super) fn eight_base_multiples(table: &[CombRow], scalars: &[[u8; 32]]) -> ExtendedPoint {
    let mut words = [[0u64; 8]; 4];
    for lane in 0..8 {
        let mut half = odd_digits(&scalars[lane.min(scalars.len() - 1)], 5 * DIGITS - 1);
        for (words, half) in words.iter_mut().zip(half) {
            words[lane] = half;
        }
        ct::wipe(&mut half);
    }
    let zero = _mm512_setzero_si512();
    let [w0, w1, w2, w3] = words.each_ref().map(|words| load8(words));
    let w = [w0, w1, w2, w3, zero];
    let mut sum = ExtendedPoint::identity();
    for (i, row) in table.iter().enumerate() {
        let shift = all((5 * i % 64) as u64);
        let b = _mm512_shrdv_epi64(w[5 * i / 64], w[5 * i / 64 + 1], shift);
        let negative = _mm512_testn_epi64_mask(b, all(16));
        let index = _mm512_mask_xor_epi64(b, negative, b, all(15));
        let limb = |k: usize| {
            let halves = row[k].as_chunks::<8>().0;
            _mm512_permutex2var_epi64(load8(&halves[0]), index, load8(&halves[1]))
        };
        let point = Affine::from_limbs(core::array::from_fn(limb));
        sum.add_affine::<true>(&point.negated_where(negative));
    }
    ct::wipe(words.as_flattened_mut());
    sum
}

/// `[scalar]B`, a lane a stretch of eight digits in radix 16; the same point in every lane. `table` is
/// [`stretches`].
#[inline(never)] // As above.
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
fn base_multiple(table: &[StretchRow], scalar: &[u8; 32]) -> ExtendedPoint {
    let mut half = odd_digits(scalar, 255);
    let mut words: [u64; 8] =
        core::array::from_fn(|lane| (half[lane / 2] >> (32 * (lane % 2))) & 0xffff_ffff);
    let w = load8(&words);
    let mut sum = ExtendedPoint::identity();
    for (m, entries) in table.iter().enumerate() {
        let b = _mm512_srlv_epi64(w, all(4 * m as u64));
        let negative = _mm512_testn_epi64_mask(b, all(8));
        let index = _mm512_and_si512(_mm512_mask_xor_epi64(b, negative, b, all(7)), all(7));
        // Every entry is read, and stays where it is the lane's.
        let mut limbs = entries[0].map(|limb| load8(&limb));
        for (j, entry) in entries.iter().enumerate().skip(1) {
            let here = _mm512_cmpeq_epi64_mask(index, all(j as u64));
            for (limb, other) in limbs.iter_mut().zip(entry) {
                *limb = _mm512_mask_mov_epi64(*limb, here, load8(other));
            }
        }
        sum.add_affine::<true>(&Affine::from_limbs(limbs).negated_where(negative));
    }
    ct::wipe(&mut half);
    ct::wipe(&mut words);
    sum.sum_of_lanes()
}
