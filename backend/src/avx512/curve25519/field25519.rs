//! Arithmetic modulo p = 2^255 - 19, eight elements side by side.
//!
//! ```text
//!   Fe   [limb 0..5][lane 0..8]   value = sum of limb[k] * 2^(51 k), each limb below 2^52
//!   Raw  the same with limbs of up to 62 bits: sums of products that no carry has run over yet
//! ```
//!
//! The multiplier is 52 bits wide and gives the low or the high 52 bits of a product. In radix 2^51
//! the high part of column k weighs twice column k + 1, so the sums of high parts are doubled once
//! and the low parts are added on top. Columns 5 to 9 come back with 2^255 = 19; the sums have
//! 56 bits, so that a 64-bit multiplication by 19 needs no carry before it.
//!
//! # Bounds
//! - [`carry`] leaves limbs below 2^51 + 2^15 ("tight"), from any [`Raw`] below 2^62.
//! - [`mul`] and [`mul_raw`] take one tight operand and one with limbs below 2^52: each column is at
//!   most (5 + 4) 2^52, so a raw product is below (1 + 19 * 9) 2^52 < 2^60. With both tight the high
//!   parts are half as large: below 125 * 2^52.
//! - The multiplier drops what is above bit 51 of an operand, so sums go through [`carry`] first.
//!
//! Everything here runs in constant time.

use core::arch::x86_64::*;

use super::quad25519;

/// Eight field elements: limbs below 2^52.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Fe(pub(super) [__m512i; 5]);

/// Eight field elements with limbs below 2^62: to be added and subtracted, then carried.
#[derive(Clone, Copy)]
pub(super) struct Raw(pub(super) [__m512i; 5]);

/// 51 ones.
const MASK: u64 = (1 << 51) - 1;
/// Limbs of 2p, which are added before a tight element is subtracted from an element.
pub(super) const TWO_P: [u64; 5] = [2 * (MASK - 18), 2 * MASK, 2 * MASK, 2 * MASK, 2 * MASK];
/// Limbs of 512p, each above 255 * 2^52, which are added before raw products are subtracted.
const BIAS: [u64; 5] = [512 * (MASK - 18), 512 * MASK, 512 * MASK, 512 * MASK, 512 * MASK];

/// One number in every lane.
#[inline]
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
pub(super) fn all(x: u64) -> __m512i {
    _mm512_set1_epi64(x as i64)
}

impl Fe {
    /// Returns an element that is equal in every lane, from its limbs.
    #[inline]
    #[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
    pub(super) fn splat(limbs: [u64; 5]) -> Fe {
        Fe(limbs.map(|limb| all(limb)))
    }

    /// A small number in every lane.
    #[inline]
    #[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
    pub(super) fn small(x: u64) -> Fe {
        Fe::splat([x, 0, 0, 0, 0])
    }

    /// The elements of 255-bit numbers, given as four 64-bit words [word][lane]; bit 255 is dropped.
    #[inline]
    #[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
    pub(super) fn from_words(w: &[__m512i; 4]) -> Fe {
        let mask = all(MASK);
        Fe([
            _mm512_and_si512(w[0], mask),
            _mm512_and_si512(_mm512_shrdi_epi64::<51>(w[0], w[1]), mask),
            _mm512_and_si512(_mm512_shrdi_epi64::<38>(w[1], w[2]), mask),
            _mm512_and_si512(_mm512_shrdi_epi64::<25>(w[2], w[3]), mask),
            _mm512_and_si512(_mm512_srli_epi64::<12>(w[3]), mask),
        ])
    }

    /// The canonical number in 0..p as four 64-bit words.
    #[inline]
    #[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
    pub(super) fn words(&self) -> [__m512i; 4] {
        let l = canonical(self).0;
        let or = |a, b| _mm512_or_si512(a, b);
        [
            or(l[0], _mm512_slli_epi64::<51>(l[1])),
            or(_mm512_srli_epi64::<13>(l[1]), _mm512_slli_epi64::<38>(l[2])),
            or(_mm512_srli_epi64::<26>(l[2]), _mm512_slli_epi64::<25>(l[3])),
            or(_mm512_srli_epi64::<39>(l[3]), _mm512_slli_epi64::<12>(l[4])),
        ]
    }
}

/// Makes limbs tight: adds each limb's bits from 51 on to the next one, those of the last one
/// times 19 to the first.
#[inline]
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
pub(super) fn carry(r: Raw) -> Fe {
    let mask = all(MASK);
    let high = r.0.map(|limb| _mm512_srli_epi64::<51>(limb));
    let low = r.0.map(|limb| _mm512_and_si512(limb, mask));
    Fe([
        _mm512_madd52lo_epu64(low[0], high[4], all(19)),
        _mm512_add_epi64(low[1], high[0]),
        _mm512_add_epi64(low[2], high[1]),
        _mm512_add_epi64(low[3], high[2]),
        _mm512_add_epi64(low[4], high[3]),
    ])
}

/// The number in 0..p. Input tight: below 2p.
#[inline]
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
pub(super) fn canonical(x: &Fe) -> Fe {
    let l = x.0;
    // The quotient by p: 1 exactly where adding 19 carries out of bit 255.
    let mut q = _mm512_srli_epi64::<51>(_mm512_add_epi64(l[0], all(19)));
    for limb in &l[1..] {
        q = _mm512_srli_epi64::<51>(_mm512_add_epi64(*limb, q));
    }
    let mut out = [_mm512_setzero_si512(); 5];
    let mut carry = _mm512_madd52lo_epu64(_mm512_setzero_si512(), q, all(19));
    for (out, limb) in out.iter_mut().zip(l) {
        let sum = _mm512_add_epi64(limb, carry);
        *out = _mm512_and_si512(sum, all(MASK));
        carry = _mm512_srli_epi64::<51>(sum);
    }
    Fe(out)
}

/// `a + b`, not carried.
#[inline]
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
pub(super) fn add_raw(a: &Raw, b: &Raw) -> Raw {
    Raw(core::array::from_fn(|k| _mm512_add_epi64(a.0[k], b.0[k])))
}

/// `a - b + 512 p`, not carried; limbs of b below 255 * 2^52.
#[inline]
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
pub(super) fn sub_raw(a: &Raw, b: &Raw) -> Raw {
    Raw(core::array::from_fn(|k| _mm512_sub_epi64(_mm512_add_epi64(a.0[k], all(BIAS[k])), b.0[k])))
}

/// `a + b`, tight.
#[inline]
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
pub(super) fn add(a: &Fe, b: &Fe) -> Fe {
    carry(add_raw(&Raw(a.0), &Raw(b.0)))
}

/// `a - b`, tight; b tight.
#[inline]
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
pub(super) fn sub(a: &Fe, b: &Fe) -> Fe {
    carry(Raw(core::array::from_fn(|k| {
        _mm512_sub_epi64(_mm512_add_epi64(a.0[k], all(TWO_P[k])), b.0[k])
    })))
}

/// `-a`, limbs below 2^52; a tight.
#[inline]
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
pub(super) fn neg(a: &Fe) -> Fe {
    Fe(core::array::from_fn(|k| _mm512_sub_epi64(all(TWO_P[k]), a.0[k])))
}

/// `-a` in the lanes of the mask, `a` in the others; a tight, limbs below 2^52.
#[inline]
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
pub(super) fn neg_where(mask: __mmask8, a: &Fe) -> Fe {
    Fe(core::array::from_fn(|k| _mm512_mask_sub_epi64(a.0[k], mask, all(TWO_P[k]), a.0[k])))
}

/// `b` in the lanes of the mask, `a` in the others.
#[inline]
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
pub(super) fn select(mask: __mmask8, a: &Fe, b: &Fe) -> Fe {
    Fe(core::array::from_fn(|k| _mm512_mask_blend_epi64(mask, a.0[k], b.0[k])))
}

/// Lanes in which the canonical values are equal. Inputs tight.
#[inline]
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
pub(super) fn equal(a: &Fe, b: &Fe) -> __mmask8 {
    let (a, b) = (canonical(a), canonical(b));
    let mut mask = 0xff;
    for k in 0..5 {
        mask = _mm512_mask_cmpeq_epi64_mask(mask, a.0[k], b.0[k]);
    }
    mask
}

/// Adds low or high halves of products `x[i] * y[j]` to a sum.
macro_rules! sum {
    ($half:ident, $acc:expr, $x:ident, $y:ident: $($i:literal $j:literal),+) => {{
        let mut acc = $acc;
        $(acc = $half(acc, $x[$i], $y[$j]);)+
        acc
    }};
}

/// `x * y`, not carried; one operand tight, the other below 2^52.
#[inline]
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
#[rustfmt::skip] // One line a column.
pub(super) fn mul_raw(x: &Fe, y: &Fe) -> Raw {
    use _mm512_madd52hi_epu64 as hi;
    use _mm512_madd52lo_epu64 as lo;
    let (x, y) = (x.0, y.0);
    let zero = _mm512_setzero_si512();
    let twice = |c| _mm512_add_epi64(c, c);
    let c1 = twice(sum!(hi, zero, x, y: 0 0));
    let c2 = twice(sum!(hi, zero, x, y: 0 1, 1 0));
    let c3 = twice(sum!(hi, zero, x, y: 0 2, 1 1, 2 0));
    let c4 = twice(sum!(hi, zero, x, y: 0 3, 1 2, 2 1, 3 0));
    let c5 = twice(sum!(hi, zero, x, y: 0 4, 1 3, 2 2, 3 1, 4 0));
    let c6 = twice(sum!(hi, zero, x, y: 1 4, 2 3, 3 2, 4 1));
    let c7 = twice(sum!(hi, zero, x, y: 2 4, 3 3, 4 2));
    let c8 = twice(sum!(hi, zero, x, y: 3 4, 4 3));
    let c9 = twice(sum!(hi, zero, x, y: 4 4));
    let c0 = sum!(lo, zero, x, y: 0 0);
    let c1 = sum!(lo, c1, x, y: 0 1, 1 0);
    let c2 = sum!(lo, c2, x, y: 0 2, 1 1, 2 0);
    let c3 = sum!(lo, c3, x, y: 0 3, 1 2, 2 1, 3 0);
    let c4 = sum!(lo, c4, x, y: 0 4, 1 3, 2 2, 3 1, 4 0);
    let c5 = sum!(lo, c5, x, y: 1 4, 2 3, 3 2, 4 1);
    let c6 = sum!(lo, c6, x, y: 2 4, 3 3, 4 2);
    let c7 = sum!(lo, c7, x, y: 3 4, 4 3);
    let c8 = sum!(lo, c8, x, y: 4 4);
    fold([c0, c1, c2, c3, c4], [c5, c6, c7, c8, c9])
}

/// `x * x`, not carried; x tight.
#[inline]
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
#[rustfmt::skip] // One line a column.
pub(super) fn square_raw(x: &Fe) -> Raw {
    use _mm512_madd52hi_epu64 as hi;
    use _mm512_madd52lo_epu64 as lo;
    let x = x.0;
    let zero = _mm512_setzero_si512();
    let twice = |c| _mm512_add_epi64(c, c);
    // Column k is 2 (2 hi + hi_ii + lo) + lo_ii: hi and lo of the mixed products, which count twice,
    // hi_ii and lo_ii of the squares.
    let c1 = twice(sum!(lo, sum!(hi, zero, x, x: 0 0), x, x: 0 1));
    let c2 = twice(sum!(lo, twice(sum!(hi, zero, x, x: 0 1)), x, x: 0 2));
    let c3 = twice(sum!(lo, sum!(hi, twice(sum!(hi, zero, x, x: 0 2)), x, x: 1 1), x, x: 0 3, 1 2));
    let c4 = twice(sum!(lo, twice(sum!(hi, zero, x, x: 0 3, 1 2)), x, x: 0 4, 1 3));
    let c5 = twice(sum!(lo, sum!(hi, twice(sum!(hi, zero, x, x: 0 4, 1 3)), x, x: 2 2), x, x: 1 4, 2 3));
    let c6 = twice(sum!(lo, twice(sum!(hi, zero, x, x: 1 4, 2 3)), x, x: 2 4));
    let c7 = twice(sum!(lo, sum!(hi, twice(sum!(hi, zero, x, x: 2 4)), x, x: 3 3), x, x: 3 4));
    let c8 = twice(twice(sum!(hi, zero, x, x: 3 4)));
    let c9 = twice(sum!(hi, zero, x, x: 4 4));
    let c0 = sum!(lo, zero, x, x: 0 0);
    let c2 = sum!(lo, c2, x, x: 1 1);
    let c4 = sum!(lo, c4, x, x: 2 2);
    let c6 = sum!(lo, c6, x, x: 3 3);
    let c8 = sum!(lo, c8, x, x: 4 4);
    fold([c0, c1, c2, c3, c4], [c5, c6, c7, c8, c9])
}

/// `low + 19 high`: 2^255 = 19.
#[inline]
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
fn fold(low: [__m512i; 5], high: [__m512i; 5]) -> Raw {
    let c19 = all(19);
    Raw(core::array::from_fn(|k| _mm512_add_epi64(low[k], _mm512_mullo_epi64(high[k], c19))))
}

/// `x * y`, tight; one operand tight, the other below 2^52.
#[inline]
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
pub(super) fn mul(x: &Fe, y: &Fe) -> Fe {
    carry(mul_raw(x, y))
}

/// `x * x`, tight; x tight.
#[inline]
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
pub(super) fn square(x: &Fe) -> Fe {
    carry(square_raw(x))
}

/// `x^(2^n)` of G groups of eight side by side: one group alone would wait for itself.
#[inline]
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
fn square_times<const G: usize>(x: &[Fe; G], n: usize) -> [Fe; G] {
    let mut x = *x;
    for _ in 0..n {
        for x in &mut x {
            *x = square(x);
        }
    }
    x
}

/// Products group by group.
#[inline]
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
fn mul_each<const G: usize>(x: &[Fe; G], y: &[Fe; G]) -> [Fe; G] {
    core::array::from_fn(|g| mul(&x[g], &y[g]))
}

/// `x^(2^250 - 1)`.
#[inline]
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
fn power_250<const G: usize>(x: &[Fe; G]) -> [Fe; G] {
    let x2 = square_times(x, 1);
    let x9 = mul_each(&square_times(&x2, 2), x);
    let x11 = mul_each(&x9, &x2);
    let e5 = mul_each(&square_times(&x11, 1), &x9);
    let e10 = mul_each(&square_times(&e5, 5), &e5);
    let e20 = mul_each(&square_times(&e10, 10), &e10);
    let e40 = mul_each(&square_times(&e20, 20), &e20);
    let e50 = mul_each(&square_times(&e40, 10), &e10);
    let e100 = mul_each(&square_times(&e50, 50), &e50);
    let e200 = mul_each(&square_times(&e100, 100), &e100);
    mul_each(&square_times(&e200, 50), &e50)
}

/// `x^(p - 2)`: the inverse, and 0 for 0 (in the lanes i and i + 4 if one of them is 0).
///
/// A chain of 254 squares waits for each one. In registers half as wide each takes half as long, and
/// two lanes need one inverse: that of their product.
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
pub(super) fn invert(x: &Fe) -> Fe {
    let other = Fe(x.0.map(|limb| _mm512_shuffle_i64x2::<0b01_00_11_10>(limb, limb)));
    let product = mul(x, &other);
    let half = quad25519::Fe(product.0.map(|limb| _mm512_castsi512_si256(limb)));
    let [inverse] = quad25519::invert(&[half]);
    mul(&Fe(inverse.0.map(|limb| _mm512_broadcast_i64x4(limb))), &other)
}

/// `x^((p - 5) / 8)`, the heart of a square root (RFC 8032, section 5.1.3).
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
pub(super) fn power_p58<const G: usize>(x: &[Fe; G]) -> [Fe; G] {
    mul_each(&square_times(&power_250(x), 2), x)
}
