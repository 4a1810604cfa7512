//! Arithmetic modulo p = 2^255 - 19 on four elements side by side, for one operation alone.
//!
//! ```text
//!   Fe    [limb 0..5][lane 0..4]   value = sum of limb[k] * 2^(51 k), each limb below 2^52
//!   Raw   the same with limbs of up to 62 bits: sums of products that no carry has run over yet
//! ```
//!
//! The same numbers as [`field25519`](super::field25519), in registers half as wide: eight lanes are
//! made for throughput, and a chain of their products waits for the multiplier. Here sums of low and
//! of high halves run side by side, so that a square in a chain takes about 30 cycles instead of 60.
//!
//! Bounds are those of [`field25519`](super::field25519): [`carry`] leaves limbs below 2^51 + 2^15
//! ("tight") from any [`Raw`] below 2^62; products take one tight operand and one below 2^52, and are
//! below 172 * 2^52 (with both tight, 125 * 2^52). Everything here runs in constant time.

use core::arch::x86_64::*;

/// Four field elements: limbs below 2^52.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
pub(super) struct Fe(pub(super) [__m256i; 5]);

/// Four field elements with limbs below 2^62: to be added and subtracted, then carried.
#[derive(Clone, Copy)]
pub(super) struct Raw(pub(super) [__m256i; 5]);

/// 51 ones.
const MASK: u64 = (1 << 51) - 1;
/// Limbs of 512p, each above 255 * 2^52, which are added before raw products are subtracted.
const BIAS: [u64; 5] = [512 * (MASK - 18), 512 * MASK, 512 * MASK, 512 * MASK, 512 * MASK];

/// One number in every lane.
#[inline]
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
pub(super) fn all(x: u64) -> __m256i {
    _mm256_set1_epi64x(x as i64)
}

/// One number a lane.
#[inline]
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
pub(super) fn lanes(x: [u64; 4]) -> __m256i {
    _mm256_setr_epi64x(x[0] as i64, x[1] as i64, x[2] as i64, x[3] as i64)
}

/// A register as four words.
#[inline]
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
pub(super) fn store4(register: __m256i) -> [u64; 4] {
    let mut words = [0; 4];
    // SAFETY: 32 bytes are there, and no alignment is asked for.
    unsafe { _mm256_storeu_si256(words.as_mut_ptr().cast(), register) };
    words
}

impl Fe {
    /// Returns an element that is equal in every lane, from its limbs.
    #[inline]
    #[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
    pub(super) fn splat(limbs: [u64; 5]) -> Fe {
        Fe(limbs.map(|limb| all(limb)))
    }

    /// A small number a lane.
    #[inline]
    #[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
    pub(super) fn small(x: [u64; 4]) -> Fe {
        let zero = _mm256_setzero_si256();
        Fe([lanes(x), zero, zero, zero, zero])
    }

    /// The elements of 255-bit numbers, given as four 64-bit words [word][lane]; bit 255 is dropped.
    #[inline]
    #[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
    pub(super) fn from_words(w: &[__m256i; 4]) -> Fe {
        let mask = all(MASK);
        Fe([
            _mm256_and_si256(w[0], mask),
            _mm256_and_si256(_mm256_shrdi_epi64::<51>(w[0], w[1]), mask),
            _mm256_and_si256(_mm256_shrdi_epi64::<38>(w[1], w[2]), mask),
            _mm256_and_si256(_mm256_shrdi_epi64::<25>(w[2], w[3]), mask),
            _mm256_and_si256(_mm256_srli_epi64::<12>(w[3]), mask),
        ])
    }

    /// The canonical number in 0..p as four 64-bit words [word][lane]. Input tight.
    #[inline]
    #[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
    pub(super) fn words(&self) -> [__m256i; 4] {
        let l = canonical(self).0;
        let or = |a, b| _mm256_or_si256(a, b);
        [
            or(l[0], _mm256_slli_epi64::<51>(l[1])),
            or(_mm256_srli_epi64::<13>(l[1]), _mm256_slli_epi64::<38>(l[2])),
            or(_mm256_srli_epi64::<26>(l[2]), _mm256_slli_epi64::<25>(l[3])),
            or(_mm256_srli_epi64::<39>(l[3]), _mm256_slli_epi64::<12>(l[4])),
        ]
    }

    /// `other` in the lanes of the mask.
    #[inline]
    #[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
    pub(super) fn replaced_where(&self, mask: __mmask8, other: &Fe) -> Fe {
        Fe(core::array::from_fn(|k| _mm256_mask_blend_epi64(mask, self.0[k], other.0[k])))
    }

    /// Converts the element to the type for limbs before the carry.
    #[inline]
    #[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
    pub(super) fn raw(&self) -> Raw {
        Raw(self.0)
    }
}

impl Raw {
    /// Lanes in another order: bits 2i and 2i + 1 of `ORDER` say where lane i comes from.
    #[inline]
    #[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
    pub(super) fn turned<const ORDER: i32>(&self) -> Raw {
        Raw(self.0.map(|limb| _mm256_permute4x64_epi64::<ORDER>(limb)))
    }

    /// `self + other` in the lanes of the mask.
    #[inline]
    #[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
    pub(super) fn plus_where(&self, mask: __mmask8, other: &Raw) -> Raw {
        let (a, b) = (self.0, other.0);
        Raw(core::array::from_fn(|k| _mm256_mask_add_epi64(a[k], mask, a[k], b[k])))
    }

    /// `self - other` in the lanes of the mask, where [`biased`](Raw::biased) has been.
    #[inline]
    #[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
    pub(super) fn minus_where(&self, mask: __mmask8, other: &Raw) -> Raw {
        let (a, b) = (self.0, other.0);
        Raw(core::array::from_fn(|k| _mm256_mask_sub_epi64(a[k], mask, a[k], b[k])))
    }

    /// `other` in the lanes of the mask.
    #[inline]
    #[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
    pub(super) fn replaced_where(&self, mask: __mmask8, other: &Raw) -> Raw {
        Raw(Fe(self.0).replaced_where(mask, &Fe(other.0)).0)
    }

    /// `self + 512p`: room to subtract limbs below 255 * 2^52.
    #[inline]
    #[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
    pub(super) fn biased(&self) -> Raw {
        Raw(core::array::from_fn(|k| _mm256_add_epi64(self.0[k], all(BIAS[k]))))
    }
}

/// Makes limbs tight: adds each limb's bits from 51 on to the next one, those of the last one
/// times 19 to the first.
#[inline]
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
pub(super) fn carry(r: &Raw) -> Fe {
    let mask = all(MASK);
    let high = r.0.map(|limb| _mm256_srli_epi64::<51>(limb));
    let low = r.0.map(|limb| _mm256_and_si256(limb, mask));
    Fe([
        _mm256_madd52lo_epu64(low[0], high[4], all(19)),
        _mm256_add_epi64(low[1], high[0]),
        _mm256_add_epi64(low[2], high[1]),
        _mm256_add_epi64(low[3], high[2]),
        _mm256_add_epi64(low[4], high[3]),
    ])
}

/// The number in 0..p. Input tight: below 2p.
#[inline]
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
fn canonical(x: &Fe) -> Fe {
    let l = x.0;
    // The quotient by p: 1 exactly where adding 19 carries out of bit 255.
    let mut q = _mm256_srli_epi64::<51>(_mm256_add_epi64(l[0], all(19)));
    for limb in &l[1..] {
        q = _mm256_srli_epi64::<51>(_mm256_add_epi64(*limb, q));
    }
    let mut out = [_mm256_setzero_si256(); 5];
    let mut carry = _mm256_madd52lo_epu64(_mm256_setzero_si256(), q, all(19));
    for (out, limb) in out.iter_mut().zip(l) {
        let sum = _mm256_add_epi64(limb, carry);
        *out = _mm256_and_si256(sum, all(MASK));
        carry = _mm256_srli_epi64::<51>(sum);
    }
    Fe(out)
}

/// Lanes in which the canonical values are equal. Inputs tight.
#[inline]
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
pub(super) fn equal(a: &Fe, b: &Fe) -> __mmask8 {
    let (a, b) = (canonical(a), canonical(b));
    let mut mask = 0xf;
    for k in 0..5 {
        mask = _mm256_mask_cmpeq_epi64_mask(mask, a.0[k], b.0[k]);
    }
    mask
}

/// `a + b`, tight.
#[inline]
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
pub(super) fn add(a: &Fe, b: &Fe) -> Fe {
    carry(&a.raw().plus_where(0xf, &b.raw()))
}

/// `a - b`, tight.
#[inline]
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
pub(super) fn sub(a: &Fe, b: &Fe) -> Fe {
    carry(&a.raw().biased().minus_where(0xf, &b.raw()))
}

/// Sums of low or high halves of products `x[i] * y[j]`.
macro_rules! sum {
    ($half:ident, $x:ident, $y:ident: $($i:literal $j:literal),+) => {{
        let mut acc = _mm256_setzero_si256();
        $(acc = $half(acc, $x[$i], $y[$j]);)+
        acc
    }};
}

/// `x + 2 y`.
#[inline]
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
fn plus_twice(x: __m256i, y: __m256i) -> __m256i {
    _mm256_add_epi64(x, _mm256_add_epi64(y, y))
}

/// `low + 19 high`: 2^255 = 19.
#[inline]
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
fn fold(low: __m256i, high: __m256i) -> __m256i {
    _mm256_add_epi64(low, _mm256_mullo_epi64(high, all(19)))
}

/// `x * y`, not carried; one operand tight, the other below 2^52.
#[inline]
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
#[rustfmt::skip] // One line a column.
pub(super) fn mul_raw(x: &Fe, y: &Fe) -> Raw {
    use _mm256_madd52hi_epu64 as hi;
    use _mm256_madd52lo_epu64 as lo;
    let (x, y) = (x.0, y.0);
    let c5 = plus_twice(sum!(lo, x, y: 1 4, 2 3, 3 2, 4 1), sum!(hi, x, y: 0 4, 1 3, 2 2, 3 1, 4 0));
    let c6 = plus_twice(sum!(lo, x, y: 2 4, 3 3, 4 2), sum!(hi, x, y: 1 4, 2 3, 3 2, 4 1));
    let c7 = plus_twice(sum!(lo, x, y: 3 4, 4 3), sum!(hi, x, y: 2 4, 3 3, 4 2));
    let c8 = plus_twice(sum!(lo, x, y: 4 4), sum!(hi, x, y: 3 4, 4 3));
    let h9 = sum!(hi, x, y: 4 4);
    let c9 = _mm256_add_epi64(h9, h9);
    let c4 = plus_twice(sum!(lo, x, y: 0 4, 1 3, 2 2, 3 1, 4 0), sum!(hi, x, y: 0 3, 1 2, 2 1, 3 0));
    let c3 = plus_twice(sum!(lo, x, y: 0 3, 1 2, 2 1, 3 0), sum!(hi, x, y: 0 2, 1 1, 2 0));
    let c2 = plus_twice(sum!(lo, x, y: 0 2, 1 1, 2 0), sum!(hi, x, y: 0 1, 1 0));
    let c1 = plus_twice(sum!(lo, x, y: 0 1, 1 0), sum!(hi, x, y: 0 0));
    let c0 = sum!(lo, x, y: 0 0);
    Raw([fold(c0, c5), fold(c1, c6), fold(c2, c7), fold(c3, c8), fold(c4, c9)])
}

/// `x * x`, not carried; x tight.
#[inline]
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
#[rustfmt::skip] // One line a column.
pub(super) fn square_raw(x: &Fe) -> Raw {
    use _mm256_madd52hi_epu64 as hi;
    use _mm256_madd52lo_epu64 as lo;
    let x = x.0;
    // Column k is 2 (2 hi + hi_ii + lo) + lo_ii: hi and lo of the mixed products, which count twice,
    // hi_ii and lo_ii of the squares.
    let t5 = plus_twice(hi(sum!(lo, x, x: 1 4, 2 3), x[2], x[2]), sum!(hi, x, x: 0 4, 1 3));
    let t6 = plus_twice(sum!(lo, x, x: 2 4), sum!(hi, x, x: 1 4, 2 3));
    let t7 = plus_twice(hi(sum!(lo, x, x: 3 4), x[3], x[3]), sum!(hi, x, x: 2 4));
    let h8 = sum!(hi, x, x: 3 4);
    let h9 = sum!(hi, x, x: 4 4);
    let c5 = _mm256_add_epi64(t5, t5);
    let c6 = plus_twice(sum!(lo, x, x: 3 3), t6);
    let c7 = _mm256_add_epi64(t7, t7);
    let c8 = plus_twice(sum!(lo, x, x: 4 4), _mm256_add_epi64(h8, h8));
    let c9 = _mm256_add_epi64(h9, h9);
    let t4 = plus_twice(sum!(lo, x, x: 0 4, 1 3), sum!(hi, x, x: 0 3, 1 2));
    let t3 = plus_twice(hi(sum!(lo, x, x: 0 3, 1 2), x[1], x[1]), sum!(hi, x, x: 0 2));
    let t2 = plus_twice(sum!(lo, x, x: 0 2), sum!(hi, x, x: 0 1));
    let t1 = hi(sum!(lo, x, x: 0 1), x[0], x[0]);
    let c4 = plus_twice(sum!(lo, x, x: 2 2), t4);
    let c3 = _mm256_add_epi64(t3, t3);
    let c2 = plus_twice(sum!(lo, x, x: 1 1), t2);
    let c1 = _mm256_add_epi64(t1, t1);
    let c0 = sum!(lo, x, x: 0 0);
    Raw([fold(c0, c5), fold(c1, c6), fold(c2, c7), fold(c3, c8), fold(c4, c9)])
}

/// `x * y`, tight; one operand tight, the other below 2^52.
#[inline]
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
pub(super) fn mul(x: &Fe, y: &Fe) -> Fe {
    carry(&mul_raw(x, y))
}

/// `x * x`, tight; x tight.
#[inline]
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
pub(super) fn square(x: &Fe) -> Fe {
    carry(&square_raw(x))
}

/// `x^(2^n)` of G groups of four side by side.
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

/// Returns `(x^(2^250 - 1), x^11)`, the start of both exponents below.
#[inline]
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
fn power_250<const G: usize>(x: &[Fe; G]) -> ([Fe; G], [Fe; G]) {
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
    (mul_each(&square_times(&e200, 50), &e50), x11)
}

/// `x^(p - 2)`: the inverse, and 0 for 0.
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
pub(super) fn invert<const G: usize>(x: &[Fe; G]) -> [Fe; G] {
    let (e250, x11) = power_250(x);
    mul_each(&square_times(&e250, 5), &x11)
}

/// `x^((p - 5) / 8)`, the heart of a square root (RFC 8032, section 5.1.3).
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
pub(super) fn power_p58<const G: usize>(x: &[Fe; G]) -> [Fe; G] {
    let (e250, _) = power_250(x);
    mul_each(&square_times(&e250, 2), x)
}
