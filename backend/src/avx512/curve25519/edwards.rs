//! Points of edwards25519, eight side by side, and tables of them.
//!
//! ```text
//!   ExtendedPoint   X : Y : Z : T    x = X/Z, y = Y/Z, xy = T/Z          what is computed with
//!   CachedPoint     Y+X, Y-X, 2dT, 2Z                                    what is added (8 products)
//!   Affine          y+x, y-x, 2dxy                                   what is added (7 products)
//!   CachedRow, PointRow: one of them for one lane, in consecutive memory
//! ```
//!
//! Formulas are those for a = -1 of Hisil, Wong, Carter and Dawson (Asiacrypt 2008, section 3.1 with
//! d not a square): complete, so that small-order points, equal points and opposite points need no
//! care. Sums of products go into one carry each ([`field25519`](super::field25519)).
//!
//! Everything runs in constant time but for the choice of rows, which the caller makes by address.

use core::arch::x86_64::*;

use gabion_scheme::kernels::ed25519::PointRow;

use super::field25519::{
    Fe, Raw, add, add_raw, all, carry, equal, invert, mul, mul_raw, neg, neg_where, power_p58,
    select, square, square_raw, sub, sub_raw,
};

/// d = -121665/121666 (RFC 8032, section 5.1).
pub(super) const D: [u64; 5] =
    [0x34dca135978a3, 0x1a8283b156ebd, 0x5e7a26001c029, 0x739c663a03cbb, 0x52036cee2b6ff];
/// 2d.
const D2: [u64; 5] =
    [0x69b9426b2f159, 0x35050762add7a, 0x3cf44c0038052, 0x6738cc7407977, 0x2406d9dc56dff];
/// A square root of -1: 2^((p - 1) / 4).
pub(super) const SQRT_M1: [u64; 5] =
    [0x61b274a0ea0b0, 0x0d5a5fc8f189d, 0x7ef5e9cbd0c60, 0x78595a6804c9e, 0x2b8324804fc1d];
/// The base point's x.
pub(super) const BASE_X: [u64; 5] =
    [0x62d608f25d51a, 0x412a4b4f6592a, 0x75b7171a4b31d, 0x1ff60527118fe, 0x216936d3cd6e5];
/// The base point's y = 4/5.
pub(super) const BASE_Y: [u64; 5] =
    [0x6666666666658, 0x4cccccccccccc, 0x1999999999999, 0x3333333333333, 0x6666666666666];

/// Eight points in extended coordinates; every coordinate tight.
#[derive(Clone, Copy)]
pub(super) struct ExtendedPoint {
    pub(super) x: Fe,
    pub(super) y: Fe,
    pub(super) z: Fe,
    /// Not set where the next operation is a doubling.
    pub(super) t: Fe,
}

/// Eight points to be added: limbs below 2^52.
#[derive(Clone, Copy)]
pub(super) struct CachedPoint {
    /// Y + X.
    sum: Fe,
    /// Y - X.
    difference: Fe,
    /// 2dT.
    t2d: Fe,
    /// 2Z.
    z2: Fe,
}

/// Eight points with Z = 1 to be added: limbs below 2^52.
#[derive(Clone, Copy)]
pub(super) struct Affine {
    /// y + x.
    pub(super) sum: Fe,
    /// y - x.
    pub(super) difference: Fe,
    /// 2dxy.
    pub(super) t2d: Fe,
}

/// The last step of both addition and doubling: X = E F, Y = G H, Z = F G, T = E H. A macro,
/// because the compiler would not inline a function, and 20 registers would go through memory.
macro_rules! complete {
    ($with_t:ident, $out:ident, $e:expr, $f:expr, $g:expr, $h:expr) => {{
        let (e, f, g, h) = (carry($e), carry($f), carry($g), carry($h));
        $out.x = mul(&e, &f);
        $out.y = mul(&g, &h);
        $out.z = mul(&f, &g);
        if $with_t {
            $out.t = mul(&e, &h);
        }
    }};
}

/// Addition, but for its 2 Z1 Z2. A macro for the same reason.
macro_rules! finish_add {
    ($with_t:ident, $p:ident, $q:ident, $d:expr) => {{
        let a = mul_raw(&sub(&$p.y, &$p.x), &$q.difference);
        let b = mul_raw(&add(&$p.y, &$p.x), &$q.sum);
        let (c, d) = (mul_raw(&$p.t, &$q.t2d), $d);
        let (e, f) = (sub_raw(&b, &a), sub_raw(&d, &c));
        complete!($with_t, $p, e, f, add_raw(&d, &c), add_raw(&b, &a))
    }};
}

impl ExtendedPoint {
    /// The neutral element.
    #[inline]
    #[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
    pub(super) fn identity() -> ExtendedPoint {
        let (zero, one) = (Fe::small(0), Fe::small(1));
        ExtendedPoint { x: zero, y: one, z: one, t: zero }
    }

    /// The base point in every lane.
    #[inline]
    #[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
    pub(super) fn base() -> ExtendedPoint {
        let (x, y) = (Fe::splat(BASE_X), Fe::splat(BASE_Y));
        ExtendedPoint { x, y, z: Fe::small(1), t: mul(&x, &y) }
    }

    /// Doubles the points; sets T if asked for. In place, like the additions: to return 1280 bytes
    /// is to copy them.
    #[inline(never)]
    #[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
    pub(super) fn double<const T: bool>(&mut self) {
        let a = square_raw(&self.x);
        let b = square_raw(&self.y);
        let c = square_raw(&self.z);
        let d = square_raw(&add(&self.x, &self.y));
        let h = add_raw(&a, &b);
        let g = sub_raw(&b, &a);
        // E and F as in the paper, but for the sign of F and H: the same point.
        let e = sub_raw(&d, &h);
        let f = sub_raw(&add_raw(&add_raw(&c, &c), &a), &b);
        complete!(T, self, e, f, g, h)
    }

    /// Twice the points, T included.
    #[inline]
    #[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
    pub(super) fn doubled(&self) -> ExtendedPoint {
        let mut p = *self;
        p.double::<true>();
        p
    }

    /// Doubles the points n times, at least once; sets T.
    #[inline]
    #[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
    pub(super) fn double_times(&mut self, n: usize) {
        for _ in 1..n {
            self.double::<false>();
        }
        self.double::<true>();
    }

    /// Adds points; sets T if asked for.
    #[inline(never)]
    #[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
    pub(super) fn add<const T: bool>(&mut self, q: &CachedPoint) {
        let d = mul_raw(&self.z, &q.z2);
        finish_add!(T, self, q, d)
    }

    /// Adds points of Z = 1; sets T if asked for.
    #[inline(never)]
    #[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
    pub(super) fn add_affine<const T: bool>(&mut self, q: &Affine) {
        let z = Raw(self.z.0);
        finish_add!(T, self, q, add_raw(&z, &z))
    }

    /// The form that is added.
    #[inline]
    #[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
    pub(super) fn precompute(&self) -> CachedPoint {
        CachedPoint {
            sum: add(&self.y, &self.x),
            difference: sub(&self.y, &self.x),
            t2d: mul(&self.t, &Fe::splat(D2)),
            z2: add(&self.z, &self.z),
        }
    }

    /// The opposite points.
    #[inline]
    #[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
    pub(super) fn negated(&self) -> ExtendedPoint {
        let tight = |x: &Fe| carry(Raw(neg(x).0));
        ExtendedPoint { x: tight(&self.x), t: tight(&self.t), ..*self }
    }

    /// `other` in the lanes of the mask.
    #[inline]
    #[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
    pub(super) fn replaced_where(&self, mask: __mmask8, other: &ExtendedPoint) -> ExtendedPoint {
        ExtendedPoint {
            x: select(mask, &self.x, &other.x),
            y: select(mask, &self.y, &other.y),
            z: select(mask, &self.z, &other.z),
            t: select(mask, &self.t, &other.t),
        }
    }

    /// Every lane's point plus those of all other lanes, in every lane; sets T.
    #[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
    pub(super) fn sum_of_lanes(&self) -> ExtendedPoint {
        let mut p = *self;
        let turned = |x: &Fe, turn: usize| {
            Fe(x.0.map(|limb| match turn {
                4 => _mm512_shuffle_i64x2::<0b01_00_11_10>(limb, limb),
                2 => _mm512_shuffle_i64x2::<0b10_11_00_01>(limb, limb),
                _ => _mm512_permutex_epi64::<0b10_11_00_01>(limb),
            }))
        };
        for turn in [4, 2, 1] {
            let turned = ExtendedPoint {
                x: turned(&p.x, turn),
                y: turned(&p.y, turn),
                z: turned(&p.z, turn),
                t: turned(&p.t, turn),
            };
            p.add::<true>(&turned.precompute());
        }
        p
    }

    /// Lanes that hold the neutral element.
    #[inline]
    #[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
    pub(super) fn is_identity(&self) -> __mmask8 {
        equal(&self.x, &Fe::small(0)) & equal(&self.y, &self.z)
    }

    /// The encodings (RFC 8032, section 5.1.2) as words [word][lane], given 1/Z.
    #[inline]
    #[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
    pub(super) fn encode(&self, inverse_z: &Fe) -> [__m512i; 4] {
        let x = mul(&self.x, inverse_z).words();
        let mut y = mul(&self.y, inverse_z).words();
        y[3] = _mm512_or_si512(y[3], _mm512_slli_epi64::<63>(x[0]));
        y
    }
}

/// Decodes points (RFC 8032, section 5.1.3) from words [word][lane], G groups side by side; says in
/// which lanes the bytes are those of a point. Takes what the RFC refuses and ZIP 215 allows: a y of
/// p and above, and a set sign for x = 0. The points of the other lanes mean nothing.
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
pub(super) fn decode<const G: usize>(words: &[[__m512i; 4]; G]) -> [(ExtendedPoint, __mmask8); G] {
    let one = Fe::small(1);
    let y = words.each_ref().map(|words| Fe::from_words(words));
    let u: [Fe; G] = core::array::from_fn(|g| sub(&square(&y[g]), &one));
    let v: [Fe; G] = core::array::from_fn(|g| add(&mul(&square(&y[g]), &Fe::splat(D)), &one));
    let v3: [Fe; G] = core::array::from_fn(|g| mul(&square(&v[g]), &v[g]));
    let uv7: [Fe; G] = core::array::from_fn(|g| mul(&mul(&square(&v3[g]), &v[g]), &u[g]));
    let power = power_p58(&uv7);
    core::array::from_fn(|g| {
        let x = mul(&mul(&u[g], &v3[g]), &power[g]);
        let vx2 = mul(&v[g], &square(&x));
        let is_root = equal(&vx2, &u[g]);
        let is_turned = equal(&add(&vx2, &u[g]), &Fe::small(0));
        let x = select(is_turned & !is_root, &x, &mul(&x, &Fe::splat(SQRT_M1)));
        let parity = x.words()[0];
        let sign = _mm512_srli_epi64::<63>(words[g][3]);
        let wrong = _mm512_test_epi64_mask(_mm512_xor_si512(parity, sign), all(1));
        let x = carry(Raw(neg_where(wrong, &x).0));
        (ExtendedPoint { x, y: y[g], z: one, t: mul(&x, &y[g]) }, is_root | is_turned)
    })
}

/// Inverts every element, 0 to 0 only if all are: Montgomery's trick, for Z, which is never 0.
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
pub(super) fn invert_all(elements: &mut [Fe]) {
    let mut products = Vec::with_capacity(elements.len());
    let mut product = Fe::small(1);
    for element in elements.iter() {
        products.push(product);
        product = mul(&product, element);
    }
    let mut inverse = invert(&product);
    for (element, before) in elements.iter_mut().zip(&products).rev() {
        let own = mul(&inverse, before);
        inverse = mul(&inverse, element);
        *element = own;
    }
    // Elements may be those of secret multiples, and so these are.
    products.fill(Fe::small(0));
    core::hint::black_box(&mut products);
}

/// Rows to columns and back.
#[inline]
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
pub(super) fn transpose(r: &[__m512i; 8]) -> [__m512i; 8] {
    // Pairs, then quads, then halves; `even` and `odd` columns of rows 2i and 2i + 1.
    let even: [__m512i; 4] =
        core::array::from_fn(|i| _mm512_unpacklo_epi64(r[2 * i], r[2 * i + 1]));
    let odd: [__m512i; 4] = core::array::from_fn(|i| _mm512_unpackhi_epi64(r[2 * i], r[2 * i + 1]));
    let half = |p: &[__m512i; 4]| {
        let a = _mm512_shuffle_i64x2::<0b10_00_10_00>(p[0], p[1]);
        let b = _mm512_shuffle_i64x2::<0b11_01_11_01>(p[0], p[1]);
        let c = _mm512_shuffle_i64x2::<0b10_00_10_00>(p[2], p[3]);
        let d = _mm512_shuffle_i64x2::<0b11_01_11_01>(p[2], p[3]);
        [
            _mm512_shuffle_i64x2::<0b10_00_10_00>(a, c),
            _mm512_shuffle_i64x2::<0b10_00_10_00>(b, d),
            _mm512_shuffle_i64x2::<0b11_01_11_01>(a, c),
            _mm512_shuffle_i64x2::<0b11_01_11_01>(b, d),
        ]
    };
    let (even, odd) = (half(&even), half(&odd));
    [even[0], odd[0], even[1], odd[1], even[2], odd[2], even[3], odd[3]]
}

/// One lane of [`CachedPoint`]: Y+X, Y-X, 2dT, 2Z, five limbs each, and four words unused.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct CachedRow([[u64; 8]; 3]);

impl CachedRow {
    /// The neutral element.
    pub(super) const IDENTITY: CachedRow =
        CachedRow([[1, 0, 0, 0, 0, 1, 0, 0], [0; 8], [0; 8]]).with_z2();

    const fn with_z2(mut self) -> CachedRow {
        self.0[1][7] = 2;
        self
    }
}

/// The affine neutral element.
pub(super) static IDENTITY: PointRow = PointRow([1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);

/// Eight words as a register.
#[inline]
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
pub(super) fn load8(words: &[u64; 8]) -> __m512i {
    // SAFETY: 64 bytes are there, and no alignment is asked for.
    unsafe { _mm512_loadu_si512(words.as_ptr().cast()) }
}

/// A register as eight words.
#[inline]
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
pub(super) fn store8(register: __m512i) -> [u64; 8] {
    let mut words = [0; 8];
    // SAFETY: 64 bytes are there, and no alignment is asked for.
    unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), register) };
    words
}

impl CachedPoint {
    /// One row a lane, negated in the lanes of the mask.
    #[inline]
    #[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
    pub(super) fn from_rows(rows: &[&CachedRow; 8], negative: __mmask8) -> CachedPoint {
        let part = |i: usize| transpose(&rows.map(|row| load8(&row.0[i])));
        let (a, b, c) = (part(0), part(1), part(2));
        let sum = Fe([a[0], a[1], a[2], a[3], a[4]]);
        let difference = Fe([a[5], a[6], a[7], b[0], b[1]]);
        let t2d = Fe([b[2], b[3], b[4], b[5], b[6]]);
        CachedPoint {
            sum: select(negative, &sum, &difference),
            difference: select(negative, &difference, &sum),
            t2d: neg_where(negative, &t2d),
            z2: Fe([b[7], c[0], c[1], c[2], c[3]]),
        }
    }

    /// One row a lane.
    #[inline]
    #[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
    pub(super) fn rows(&self) -> [CachedRow; 8] {
        let (s, d, t, z) = (&self.sum.0, &self.difference.0, &self.t2d.0, &self.z2.0);
        let zero = _mm512_setzero_si512();
        let a = transpose(&[s[0], s[1], s[2], s[3], s[4], d[0], d[1], d[2]]);
        let b = transpose(&[d[3], d[4], t[0], t[1], t[2], t[3], t[4], z[0]]);
        let c = transpose(&[z[1], z[2], z[3], z[4], zero, zero, zero, zero]);
        core::array::from_fn(|lane| CachedRow([store8(a[lane]), store8(b[lane]), store8(c[lane])]))
    }
}

impl Affine {
    /// Creates the point from 15 limbs.
    #[inline]
    #[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
    pub(super) fn from_limbs(l: [__m512i; 15]) -> Affine {
        Affine {
            sum: Fe([l[0], l[1], l[2], l[3], l[4]]),
            difference: Fe([l[5], l[6], l[7], l[8], l[9]]),
            t2d: Fe([l[10], l[11], l[12], l[13], l[14]]),
        }
    }

    /// The 15 limbs.
    #[inline]
    #[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
    pub(super) fn limbs(&self) -> [__m512i; 15] {
        let (s, d, t) = (&self.sum.0, &self.difference.0, &self.t2d.0);
        core::array::from_fn(|i| match i / 5 {
            0 => s[i],
            1 => d[i - 5],
            _ => t[i - 10],
        })
    }

    /// One row a lane, negated in the lanes of the mask.
    #[inline]
    #[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
    pub(super) fn from_rows(rows: &[&PointRow; 8], negative: __mmask8) -> Affine {
        let part = |i: usize| {
            transpose(&rows.map(|row| {
                // The row has two halves of eight words.
                load8(&row.0.as_chunks::<8>().0[i])
            }))
        };
        let (a, b) = (part(0), part(1));
        let affine = Affine {
            sum: Fe([a[0], a[1], a[2], a[3], a[4]]),
            difference: Fe([a[5], a[6], a[7], b[0], b[1]]),
            t2d: Fe([b[2], b[3], b[4], b[5], b[6]]),
        };
        affine.negated_where(negative)
    }

    /// Negates the lanes of the mask.
    #[inline]
    #[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
    pub(super) fn negated_where(&self, negative: __mmask8) -> Affine {
        Affine {
            sum: select(negative, &self.sum, &self.difference),
            difference: select(negative, &self.difference, &self.sum),
            t2d: neg_where(negative, &self.t2d),
        }
    }

    /// One row a lane.
    #[inline]
    #[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
    pub(super) fn rows(&self) -> [PointRow; 8] {
        let (s, d, t) = (&self.sum.0, &self.difference.0, &self.t2d.0);
        let a = transpose(&[s[0], s[1], s[2], s[3], s[4], d[0], d[1], d[2]]);
        let b = transpose(&[d[3], d[4], t[0], t[1], t[2], t[3], t[4], _mm512_setzero_si512()]);
        core::array::from_fn(|lane| {
            let mut row = [0; 16];
            row[..8].copy_from_slice(&store8(a[lane]));
            row[8..].copy_from_slice(&store8(b[lane]));
            PointRow(row)
        })
    }
}

/// The points `first, first + step, ..`.
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
pub(super) fn progression(
    first: ExtendedPoint,
    step: &CachedPoint,
    count: usize,
) -> Vec<ExtendedPoint> {
    let mut point = first;
    let mut out = Vec::with_capacity(count);
    out.push(point);
    while out.len() < count {
        point.add::<true>(step);
        out.push(point);
    }
    out
}

/// The affine forms of points: one inversion for all.
#[target_feature(enable = "avx512ifma,avx512vl,avx512dq,avx512vbmi2")]
pub(super) fn affine(points: &[ExtendedPoint]) -> Vec<Affine> {
    let mut inverses: Vec<Fe> = points.iter().map(|point| point.z).collect();
    invert_all(&mut inverses);
    points
        .iter()
        .zip(&inverses)
        .map(|(point, inverse)| {
            let (x, y) = (mul(&point.x, inverse), mul(&point.y, inverse));
            Affine {
                sum: add(&y, &x),
                difference: sub(&y, &x),
                t2d: mul(&mul(&x, &y), &Fe::splat(D2)),
            }
        })
        .collect()
}
