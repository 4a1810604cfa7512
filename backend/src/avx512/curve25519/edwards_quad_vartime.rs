//! Points of edwards25519 one at a time: the four lanes of a register are its coordinates.
//!
//! ```text
//!   Point     X, Y, Z, T             x = X/Z, y = Y/Z, xy = T/Z       products that no carry ran over
//!   Addend    Y-X, Y+X, 2Z, 2dT      what is added
//! ```
//!
//! The formulas of [`edwards`](super::edwards), laid out as their authors did for four processors
//! (Hisil, Wong, Carter and Dawson, Asiacrypt 2008, section 4): a doubling is one square and one
//! product of four lanes, an addition two products. Carries come before a product and not after it,
//! so that sums between products cost one of them.
//!
//! In variable time: for verification, where everything is public.

use core::arch::x86_64::*;

use super::edwards::{BASE_X, BASE_Y, D, SQRT_M1};
use super::quad25519::{Fe, Raw, add, all, carry, equal, lanes, mul, mul_raw, power_p58, square};
use super::quad25519::{invert, square_raw, store4, sub};

/// 2d.
const D2: [u64; 5] =
    [0x69b9426b2f159, 0x35050762add7a, 0x3cf44c0038052, 0x6738cc7407977, 0x2406d9dc56dff];
/// Limbs of 2p.
const TWO_P: [u64; 5] = super::field25519::TWO_P;

/// An order of lanes for [`Raw::turned`].
const fn order(lanes: [i32; 4]) -> i32 {
    lanes[0] | lanes[1] << 2 | lanes[2] << 4 | lanes[3] << 6
}

/// A point.
#[derive(Clone, Copy)]
pub(super) struct Point(Raw);

/// A point to be added; limbs tight.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
pub(super) struct Addend(Fe);

/// The last step of both addition and doubling: from E, G, F, H the products E F, G H, F G and E H.
#[inline]
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
fn complete(eg_fh: &Raw) -> Raw {
    let eg_fh = carry(eg_fh).raw();
    let left = Fe(eg_fh.turned::<{ order([0, 1, 2, 0]) }>().0);
    let right = Fe(eg_fh.turned::<{ order([2, 3, 1, 3]) }>().0);
    mul_raw(&left, &right)
}

impl Point {
    /// The neutral element.
    #[inline]
    #[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
    pub(super) fn identity() -> Point {
        Point(Fe::small([0, 1, 1, 0]).raw())
    }

    /// The base point.
    #[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
    pub(super) fn base() -> Point {
        let (x, y) = (Fe::splat(BASE_X), Fe::splat(BASE_Y));
        let xy = mul(&x, &y).replaced_where(0b0001, &x).replaced_where(0b0010, &y);
        Point(xy.replaced_where(0b0100, &Fe::small([0, 0, 1, 0])).raw())
    }

    /// Doubles the point in place: a returned point is copied, and loading it as three registers
    /// after storing it as five waits for the stores.
    #[inline(never)]
    #[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
    pub(super) fn double(&mut self) {
        let x = self.0.turned::<{ order([0, 1, 2, 0]) }>();
        let y = self.0.turned::<{ order([1, 1, 1, 1]) }>();
        // X^2 = A, Y^2 = B, Z^2 = C, (X + Y)^2 = S.
        let squares = square_raw(&carry(&x.plus_where(0b1000, &y)));
        // E = S - (A + B), G = B - A, F = 2 C + A - B, H = B + A: F and H as in the paper but for
        // their signs, which gives the same point.
        let a = squares.turned::<{ order([0, 0, 0, 0]) }>();
        let b = squares.turned::<{ order([1, 1, 1, 1]) }>();
        let main = squares.turned::<{ order([3, 1, 2, 1]) }>();
        let main = main.plus_where(0b0100, &main).minus_where(0b0101, &b);
        let rest = Raw([_mm256_setzero_si256(); 5]).biased();
        let rest = rest.minus_where(0b0011, &a).plus_where(0b1100, &a);
        self.0 = complete(&main.plus_where(0b1111, &rest));
    }

    /// Y - X, Y + X, Z, T; carried.
    #[inline]
    #[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
    fn spread(&self) -> Fe {
        let x = self.0.turned::<{ order([0, 0, 0, 0]) }>();
        let y = self.0.turned::<{ order([1, 1, 2, 3]) }>().biased();
        carry(&y.minus_where(0b0001, &x).plus_where(0b0010, &x))
    }

    /// Adds a point, or its opposite.
    #[inline(never)]
    #[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
    pub(super) fn add(&mut self, q: &Addend, is_opposite: bool) {
        // A, B, D, C.
        let products = mul_raw(&self.spread(), &q.negated_if(is_opposite));
        let plus = products.turned::<{ order([1, 2, 2, 1]) }>().biased();
        let other = products.turned::<{ order([0, 3, 3, 0]) }>();
        // E = B - A, G = D + C, F = D - C, H = B + A.
        self.0 = complete(&plus.minus_where(0b0101, &other).plus_where(0b1010, &other));
    }

    /// The form that is added.
    #[inline]
    #[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
    pub(super) fn addend(&self) -> Addend {
        let factor = Fe::splat(D2).replaced_where(0b0111, &Fe::small([1, 1, 2, 0]));
        Addend(mul(&self.spread(), &factor))
    }

    /// Returns whether it is the neutral element.
    #[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
    pub(super) fn is_identity(&self) -> bool {
        let tight = carry(&self.0);
        let expected = Fe(tight.raw().turned::<{ order([0, 2, 2, 3]) }>().0);
        let expected = expected.replaced_where(0b0001, &Fe::small([0; 4]));
        equal(&tight, &expected) & 0b0011 == 0b0011
    }

    /// The encoding (RFC 8032, section 5.1.2).
    #[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
    pub(super) fn encode(&self) -> [u8; 32] {
        let tight = carry(&self.0);
        let [inverse] = invert(&[Fe(tight.raw().turned::<{ order([2, 2, 2, 2]) }>().0)]);
        let words = mul(&tight, &inverse).words();
        encoded(&words, 0, 1)
    }
}

/// The encoding of a point whose x and y are these lanes of words.
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
fn encoded(words: &[__m256i; 4], x: usize, y: usize) -> [u8; 32] {
    let words = words.map(|word| store4(word));
    let sign = (words[0][x] & 1) << 63;
    let mut out = [0; 32];
    for (i, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let sign = if i == 3 { sign } else { 0 };
        *out = (words[i][y] | sign).to_le_bytes();
    }
    out
}

impl Addend {
    /// An affine point y+x, y-x, 2dxy, five limbs each.
    #[inline]
    #[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
    pub(super) fn from_row(row: &[u64; 16]) -> Addend {
        Addend(Fe(core::array::from_fn(|k| {
            let two = if k == 0 { 2 } else { 0 };
            lanes([row[5 + k], row[k], two, row[10 + k]])
        })))
    }

    /// The coordinates of the opposite point, if asked for.
    #[inline]
    #[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
    fn negated_if(&self, is_negative: bool) -> Fe {
        let mask = u8::from(is_negative).wrapping_neg();
        Fe(core::array::from_fn(|k| {
            let limb = self.0.0[k];
            let swapped =
                _mm256_mask_permutex_epi64::<{ order([1, 0, 2, 3]) }>(limb, mask & 0b0011, limb);
            _mm256_mask_sub_epi64(swapped, mask & 0b1000, all(TWO_P[k]), limb)
        }))
    }
}

/// Decodes two points (RFC 8032, section 5.1.3) side by side and negates them; none where one is no
/// point. Takes what the RFC refuses and ZIP 215 allows: a y of p and above, and a set sign for
/// x = 0. Says whether the second encoding is the only one of its point.
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
pub(super) fn decode_negated(encodings: [&[u8; 32]; 2]) -> Option<([Point; 2], bool)> {
    let one = Fe::small([1; 4]);
    let words = encodings.map(|bytes| {
        let words = bytes.as_chunks::<8>().0;
        [0, 1, 2, 3].map(|k| u64::from_le_bytes(words[k]))
    });
    let words = [0, 1, 2, 3].map(|k| {
        let (a, b) = (words[0][k], words[1][k]);
        lanes([a, b, a, b])
    });
    let y = Fe::from_words(&words);
    let y2 = square(&y);
    let (u, v) = (sub(&y2, &one), add(&mul(&y2, &Fe::splat(D)), &one));
    let v3 = mul(&square(&v), &v);
    let uv7 = mul(&mul(&square(&v3), &v), &u);
    let [power] = power_p58(&[uv7]);
    let x = mul(&mul(&u, &v3), &power);
    let vx2 = mul(&v, &square(&x));
    let is_root = equal(&vx2, &u);
    let is_turned = equal(&add(&vx2, &u), &Fe::small([0; 4]));
    if is_root | is_turned != 0xf {
        return None;
    }
    let x = x.replaced_where(is_turned & !is_root, &mul(&x, &Fe::splat(SQRT_M1)));
    let sign = _mm256_srli_epi64::<63>(words[3]);
    // The opposite point's sign is the other one.
    let parity = x.words()[0];
    let right = _mm256_testn_epi64_mask(_mm256_xor_si256(parity, sign), all(1));
    let x = x.replaced_where(right, &sub(&Fe::small([0; 4]), &x));
    let t = mul(&x, &y);
    let point = |is_second: bool| {
        Point(Raw(core::array::from_fn(|k| {
            let (low, high) = match is_second {
                false => {
                    (_mm256_unpacklo_epi64(x.0[k], y.0[k]), _mm256_unpacklo_epi64(one.0[k], t.0[k]))
                }
                true => {
                    (_mm256_unpackhi_epi64(x.0[k], y.0[k]), _mm256_unpackhi_epi64(one.0[k], t.0[k]))
                }
            };
            _mm256_blend_epi32::<0b1111_0000>(low, high)
        })))
    };
    let opposite = sub(&Fe::small([0; 4]), &x).words();
    let mut both = y.words();
    both[3] = _mm256_or_si256(both[3], _mm256_slli_epi64::<63>(opposite[0]));
    let is_only = (0..4).all(|k| _mm256_cmpeq_epi64_mask(both[k], words[k]) & 0b0010 != 0);
    Some(([point(false), point(true)], is_only))
}
