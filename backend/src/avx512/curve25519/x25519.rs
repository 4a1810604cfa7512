//! X25519 (RFC 7748), eight exchanges side by side, and multiples of its base point.
//!
//! ```text
//!   shared secrets   a lane is an exchange: Montgomery's ladder, one step a bit
//!   public keys      multiples of Ed25519's base point (see ed25519), u = (Z + Y) / (Z - Y)
//! ```
//!
//! Points wait for the others of their chunk, so that one inversion serves all. Everything runs in
//! constant time: there is no address that a scalar decides, and bits choose by masks.

use core::arch::x86_64::*;

use gabion_scheme::ct;

use super::ed25519::{CHUNK, comb, eight_base_multiples};
use super::edwards::{invert_all, load8, store8};
use super::field25519::{
    Fe, Raw, add, add_raw, all, carry, equal, mul, mul_raw, select, square, sub, sub_raw,
};
use super::x25519_one::{self, A24};
use crate::avx512::registers;

/// Exchanges that are quicker one by one: eight lanes take as long as three and a half.
const FEW: usize = 3;

/// Thirty-two bytes a lane as words [word][lane]; a group that is shorter is filled up with its last.
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
fn words_of(bytes: &[[u8; 32]]) -> [[u64; 8]; 4] {
    let mut words = [[0; 8]; 4];
    for lane in 0..8 {
        let bytes = bytes[lane.min(bytes.len() - 1)].as_chunks::<8>().0;
        for (words, bytes) in words.iter_mut().zip(bytes) {
            words[lane] = u64::from_le_bytes(*bytes);
        }
    }
    words
}

/// Encodes quotients x / z, eight a group, those by zero as zero.
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
fn encode_all(quotients: &mut [(Fe, Fe)], out: &mut [[u8; 32]]) {
    let zero = Fe::small(0);
    let mut inverses = Vec::with_capacity(quotients.len());
    for (x, z) in quotients.iter_mut() {
        // A zero would make the inverses of all other lanes zero.
        let is_zero = equal(z, &zero);
        *x = select(is_zero, x, &zero);
        inverses.push(select(is_zero, z, &Fe::small(1)));
    }
    invert_all(&mut inverses);
    for ((x, _), (inverse, out)) in quotients.iter().zip(inverses.iter().zip(out.chunks_mut(8))) {
        // The shared secrets themselves, so that no array of them stays behind.
        let mut words = mul(x, inverse).words();
        for (place, register) in words.iter().enumerate() {
            let mut word = store8(*register);
            for (out, word) in out.iter_mut().zip(&word) {
                out.as_chunks_mut::<8>().0[place] = word.to_le_bytes();
            }
            ct::wipe(&mut word);
        }
        words.fill(_mm512_setzero_si512());
        core::hint::black_box(&mut words);
    }
    quotients.fill((zero, zero));
    inverses.fill(zero);
    core::hint::black_box((quotients, &mut inverses));
}

/// The public keys of clamped scalars that were reduced modulo L.
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
pub(crate) fn base_multiples(scalars: &[[u8; 32]], out: &mut [[u8; 32]]) {
    let comb = comb();
    for (scalars, out) in scalars.chunks(CHUNK).zip(out.chunks_mut(CHUNK)) {
        let quotient = |lanes: &[[u8; 32]]| {
            let point = eight_base_multiples(comb, lanes);
            (add(&point.z, &point.y), sub(&point.z, &point.y))
        };
        let mut quotients: Vec<_> = scalars.chunks(8).map(quotient).collect();
        encode_all(&mut quotients, out);
    }
    // SAFETY: these kernels run only where `Avx512::detect` found the features of all of them.
    unsafe { registers::clear() }
}

/// The shared secrets of clamped scalars and of points given by u, of which bit 255 is dropped.
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
pub(crate) fn multiples(scalars: &[[u8; 32]], points: &[[u8; 32]], out: &mut [[u8; 32]]) {
    if scalars.len() <= FEW {
        for ((scalar, point), out) in scalars.iter().zip(points).zip(out) {
            x25519_one::multiple(scalar, point, out);
        }
        return;
    }
    let chunks = scalars.chunks(CHUNK).zip(points.chunks(CHUNK)).zip(out.chunks_mut(CHUNK));
    for ((scalars, points), out) in chunks {
        let mut quotients = Vec::with_capacity(CHUNK / 8);
        for (scalars, points) in scalars.chunks(8).zip(points.chunks(8)) {
            quotients.push(ladder(scalars, points));
        }
        encode_all(&mut quotients, out);
    }
    // SAFETY: these kernels run only where `Avx512::detect` found the features of all of them.
    unsafe { registers::clear() }
}

/// Montgomery's ladder (RFC 7748, section 5): x and z of eight multiples.
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
fn ladder(scalars: &[[u8; 32]], points: &[[u8; 32]]) -> (Fe, Fe) {
    let u = Fe::from_words(&words_of(points).each_ref().map(|words| load8(words)));
    let mut scalar = words_of(scalars);
    let (mut x2, mut z2) = (Fe::small(1), Fe::small(0));
    let (mut x3, mut z3) = (u, Fe::small(1));
    let mut last = 0;
    for bit in (0..255).rev() {
        let here = _mm512_test_epi64_mask(load8(&scalar[bit / 64]), all(1 << (bit % 64)));
        let swap = here ^ last;
        last = here;
        (x2, z2, x3, z3) = step(&u, swap, [&x2, &z2, &x3, &z3]);
    }
    ct::wipe(scalar.as_flattened_mut());
    // Clamped scalars are even: the last two are not swapped.
    (x2, z2)
}

/// Runs one step: both points in their places, or swapped in the lanes of the mask. Only the
/// doubled point has to be selected; the differential addition is symmetric.
#[inline]
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
fn step(u: &Fe, swap: __mmask8, [x2, z2, x3, z3]: [&Fe; 4]) -> (Fe, Fe, Fe, Fe) {
    let (a, b) = (add(x2, z2), sub(x2, z2));
    let (c, d) = (add(x3, z3), sub(x3, z3));
    let (da, cb) = (mul_raw(&d, &a), mul_raw(&c, &b));
    let aa = square(&select(swap, &a, &c));
    let bb = square(&select(swap, &b, &d));
    let x3 = square(&carry(add_raw(&da, &cb)));
    let z3 = mul(u, &square(&carry(sub_raw(&da, &cb))));
    let e = sub(&aa, &bb);
    let z2 = mul(&e, &carry(add_raw(&Raw(aa.0), &times_a24(&e))));
    (mul(&aa, &bb), z2, x3, z3)
}

/// `121665 x`, not carried; x tight.
#[inline]
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
fn times_a24(x: &Fe) -> Raw {
    let (zero, factor) = (_mm512_setzero_si512(), all(A24));
    let high = x.0.map(|limb| {
        let high = _mm512_madd52hi_epu64(zero, limb, factor);
        _mm512_add_epi64(high, high)
    });
    let low = |k: usize, sum| _mm512_madd52lo_epu64(sum, x.0[k], factor);
    Raw([
        low(0, _mm512_madd52lo_epu64(zero, high[4], all(19))),
        low(1, high[0]),
        low(2, high[1]),
        low(3, high[2]),
        low(4, high[3]),
    ])
}
