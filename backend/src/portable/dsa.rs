//! Polynomials of ML-DSA (FIPS 204): q = 8380417 = 2^23 - 2^13 + 1, 32-bit signed arithmetic.
//!
//! Products are 64-bit and reduced by Montgomery's method with R = 2^32; sums use the form of q.
//! Coefficients are signed, but factors are multiplied as unsigned numbers, after a multiple of q
//! is added: unsigned 32-bit products are the only ones that plain x86-64 has vector instructions
//! for. With signed products an NTT takes longer there.

use gabion_scheme::ct;
use gabion_scheme::kernels::{DSA_Q, DsaPoly, N};

use super::bits::{pack, unpack};
use crate::common::constants::dsa::{Q_INVERSE, zeta};
use crate::common::constants::pow_mod;

const Q: i32 = DSA_Q;
const Q64: u64 = DSA_Q as u64;
/// d: dropped bits of t (FIPS 204, table 1).
const D: u32 = 13;
/// R mod q.
const R: u64 = (1 << 32) % Q64;
/// R^2 / 256 mod q: ends NTT^-1 (the 256^-1 of Algorithm 42) and multiplies by R.
const R_SQUARED_OVER_256: u32 = ((R * R % Q64) * pow_mod(256, DSA_Q as u32 - 2, Q64) % Q64) as u32;
/// Most polynomials in one row of [`matvec`] (l of ML-DSA-87): keeps its sums reducible.
const ROW_MAX: usize = 7;
/// gamma2 of ML-DSA-44 and of the other two (FIPS 204, table 1).
const GAMMA2_88: i32 = (DSA_Q - 1) / 88;
const GAMMA2_32: i32 = (DSA_Q - 1) / 32;

/// R 1753^BitRev8(m) for m in 0..256: the zetas of Algorithms 41 and 42.
const ZETAS: [u32; N] = zetas();

const fn zetas() -> [u32; N] {
    let mut table = [0; N];
    let mut m = 0;
    while m < N {
        table[m] = (zeta(m) * R % Q64) as u32;
        m += 1;
    }
    table
}

/// Montgomery reduction (Algorithm 49, unsigned): `a / 2^32 mod q`. Input below 2^32 q; output
/// |x| < q.
///
/// The low halves of `a` and `t q` agree, so the upper half of the difference is exact: it is the
/// difference of two numbers in 0..q. Written in 64-bit words for the sake of the vectoriser.
#[inline(always)]
fn montgomery_reduce(a: u64) -> i32 {
    const LOW: u64 = u32::MAX as u64;
    let t = ((a & LOW) * Q_INVERSE as u32 as u64) & LOW;
    (a.wrapping_sub(t * Q64) >> 32) as i32
}

/// `x + 256q`, which is congruent and not negative for |x| <= 256q; below 2^32.
#[inline(always)]
fn raise(x: i32) -> u32 {
    (x as u32).wrapping_add(256 * DSA_Q as u32)
}

/// Montgomery product: `x factor / 2^32 mod q`. Input |x| < 256q, factor in 0..q; output |x| < q.
#[inline(always)]
fn mul(x: i32, factor: u32) -> i32 {
    montgomery_reduce(u64::from(raise(x)) * u64::from(factor))
}

/// Reduces any |a| <= 2^28, which is above 20q, to a residue; |x| <= (q-1)/2 + 2^18.
///
/// 2^23 = q + 2^13 - 1, so the quotient by 2^23 serves as one by q.
#[inline(always)]
fn reduce(a: i32) -> i32 {
    a - ((a + (1 << 22)) >> 23) * Q
}

/// The representative in 0..q of a residue, without a branch.
#[inline(always)]
fn canonical(a: i32) -> i32 {
    a + (Q & (a >> 31))
}

/// The representative in -(q-1)/2..=(q-1)/2 of a residue (mod+-), without a branch.
#[inline(always)]
fn centre(a: i32) -> i32 {
    let a = canonical(a);
    a - (Q & (((Q - 1) / 2 - a) >> 31))
}

/// See [`gabion_scheme::kernels::Kernels::dsa_rej_uniform_vartime`]: CoeffFromThreeBytes
/// (Algorithm 14) of each three bytes.
#[inline(always)]
pub(crate) fn rej_uniform_vartime(bytes: &[u8], out: &mut DsaPoly) -> usize {
    assert_eq!(bytes.len() % 3, 0, "RejNTTPoly reads 3 bytes at a time");
    rej_uniform_into_vartime(bytes, &mut out.0)
}

/// Samples into any number of coefficients: the rest that a vector kernel leaves at the end.
pub(crate) fn rej_uniform_into_vartime(bytes: &[u8], out: &mut [i32]) -> usize {
    let mut filled = 0;
    for b in bytes.chunks_exact(3) {
        if filled == out.len() {
            break;
        }
        let z = i32::from_le_bytes([b[0], b[1], b[2] & 0x7f, 0]);
        // A rejected candidate is overwritten by the next one.
        out[filled] = z;
        filled += usize::from(z < Q);
    }
    filled
}

/// See [`gabion_scheme::kernels::Kernels::dsa_rej_bounded_vartime`]: CoeffFromHalfByte (Algorithm
/// 15) of each half byte. The positions of rejected half bytes reveal nothing about the others; the
/// accepted values are mapped without a branch, an index or a division.
#[inline(always)]
pub(crate) fn rej_bounded_vartime(eta: usize, bytes: &[u8], out: &mut DsaPoly) -> usize {
    // b mod 5 with b < 15: 205 / 1024 rounds down to 1 / 5 there.
    fn from_half_byte_2(b: i32) -> i32 {
        2 - (b - ((205 * b) >> 10) * 5)
    }
    match eta {
        2 => rej_half_bytes_vartime(bytes, 15, out, from_half_byte_2),
        4 => rej_half_bytes_vartime(bytes, 9, out, |b| 4 - b),
        _ => panic!("eta is 2 or 4, not {eta}"),
    }
}

#[inline(always)]
fn rej_half_bytes_vartime(
    bytes: &[u8],
    limit: i32,
    out: &mut DsaPoly,
    coefficient: impl Fn(i32) -> i32,
) -> usize {
    let mut filled = 0;
    for &byte in bytes {
        for b in [i32::from(byte & 15), i32::from(byte >> 4)] {
            if filled == N {
                return N;
            }
            out.0[filled] = coefficient(b);
            // Public: that a half byte was rejected, which is independent of the accepted ones.
            filled += usize::from(ct::declassified(b < limit));
        }
    }
    filled
}

/// One layer of Algorithm 41: butterflies `LEN` apart. Values grow by less than q.
#[inline(always)]
fn ntt_layer<const LEN: usize>(w: &mut [i32; N]) {
    let zetas = &ZETAS[N / 2 / LEN..];
    for (block, &zeta) in w.chunks_exact_mut(2 * LEN).zip(zetas) {
        let (low, high) = block.split_at_mut(LEN);
        for (a, b) in low.iter_mut().zip(high) {
            let t = mul(*b, zeta);
            *b = *a - t;
            *a += t;
        }
    }
}

/// NTT (Algorithm 41). Input |x| < q; output |x| < 9q.
#[inline(always)]
pub(crate) fn ntt(p: &mut DsaPoly) {
    let w = &mut p.0;
    ntt_layer::<128>(w);
    ntt_layer::<64>(w);
    ntt_layer::<32>(w);
    ntt_layer::<16>(w);
    ntt_layer::<8>(w);
    ntt_layer::<4>(w);
    ntt_layer::<2>(w);
    ntt_layer::<1>(w);
}

/// One layer of Algorithm 42; the standard's `-zeta` is the order of the subtraction.
#[inline(always)]
fn inv_ntt_layer<const LEN: usize>(w: &mut [i32; N]) {
    let zetas = ZETAS[..N / LEN].iter().rev();
    for (block, &zeta) in w.chunks_exact_mut(2 * LEN).zip(zetas) {
        let (low, high) = block.split_at_mut(LEN);
        for (a, b) in low.iter_mut().zip(high) {
            let t = *a;
            *a = t + *b;
            *b = mul(*b - t, zeta);
        }
    }
}

/// NTT^-1 (Algorithm 42) times 2^32. Input |x| < q; output |x| < q.
#[inline(always)]
pub(crate) fn inv_ntt(p: &mut DsaPoly) {
    let w = &mut p.0;
    inv_ntt_layer::<1>(w);
    inv_ntt_layer::<2>(w);
    inv_ntt_layer::<4>(w);
    inv_ntt_layer::<8>(w);
    inv_ntt_layer::<16>(w);
    inv_ntt_layer::<32>(w);
    inv_ntt_layer::<64>(w);
    inv_ntt_layer::<128>(w);
    // Sums doubled eight times: |x| <= 256 (q - 1) < 2^31, so no layer overflowed.
    for c in w {
        *c = mul(*c, R_SQUARED_OVER_256);
    }
}

/// See [`gabion_scheme::kernels::Kernels::dsa_matvec`]. Constant time.
#[inline(always)]
pub(crate) fn matvec(out: &mut [DsaPoly], a: &[DsaPoly], v: &[DsaPoly]) {
    let row_len = v.len();
    assert!(row_len <= ROW_MAX, "a vector has at most {ROW_MAX} polynomials, not {row_len}");
    assert_eq!(a.len(), out.len() * row_len, "the matrix has a row for each output");
    let mut sums = [0u64; N];
    for (i, out) in out.iter_mut().enumerate() {
        sums.fill(0);
        for (a, v) in a[i * row_len..(i + 1) * row_len].iter().zip(v) {
            for ((sum, &a), &v) in sums.iter_mut().zip(&a.0).zip(&v.0) {
                // v + 10q is not negative.
                let v = (v + 10 * Q) as u32;
                *sum += u64::from(canonical(a) as u32) * u64::from(v);
            }
        }
        for (out, &sum) in out.0.iter_mut().zip(&sums) {
            // sum < 7 q 20q < 2^32 q.
            *out = montgomery_reduce(sum);
        }
    }
    ct::wipe(&mut sums);
}

/// See [`gabion_scheme::kernels::Kernels::dsa_pointwise`]. Constant time.
#[inline(always)]
pub(crate) fn pointwise(out: &mut [DsaPoly], c: &DsaPoly, v: &[DsaPoly]) {
    assert_eq!(out.len(), v.len(), "one output for each polynomial of the vector");
    for (out, v) in out.iter_mut().zip(v) {
        for ((out, &c), &v) in out.0.iter_mut().zip(&c.0).zip(&v.0) {
            *out = mul(v, canonical(reduce(c)) as u32);
        }
    }
}

/// See [`gabion_scheme::kernels::Kernels::dsa_add`]. Constant time.
#[inline(always)]
pub(crate) fn add(acc: &mut [DsaPoly], b: &[DsaPoly]) {
    assert_eq!(acc.len(), b.len(), "one summand for each polynomial");
    for (acc, b) in acc.iter_mut().zip(b) {
        for (a, b) in acc.0.iter_mut().zip(&b.0) {
            *a = reduce(*a + *b);
        }
    }
}

/// See [`gabion_scheme::kernels::Kernels::dsa_sub`]. Constant time.
#[inline(always)]
pub(crate) fn sub(acc: &mut [DsaPoly], b: &[DsaPoly]) {
    assert_eq!(acc.len(), b.len(), "one subtrahend for each polynomial");
    for (acc, b) in acc.iter_mut().zip(b) {
        for (a, b) in acc.0.iter_mut().zip(&b.0) {
            *a = reduce(*a - *b);
        }
    }
}

/// See [`gabion_scheme::kernels::Kernels::dsa_shift_left_d`]. The greatest product,
/// (2^10 - 1) 2^13, is q - 1, so it needs no reduction.
#[inline(always)]
pub(crate) fn shift_left_d(polys: &mut [DsaPoly]) {
    for p in polys {
        for c in &mut p.0 {
            *c <<= D;
        }
    }
}

/// See [`gabion_scheme::kernels::Kernels::dsa_power2round`]. Constant time.
#[inline(always)]
pub(crate) fn power2round(t: &DsaPoly, t1: &mut DsaPoly, t0: &mut DsaPoly) {
    for ((&r, r1), r0) in t.0.iter().zip(&mut t1.0).zip(&mut t0.0) {
        let r = canonical(r);
        // mod+- leaves r0 in -(2^12)+1..=2^12, so halves are rounded down.
        *r1 = (r + (1 << (D - 1)) - 1) >> D;
        *r0 = r - (*r1 << D);
    }
}

/// The constants of Decompose for one gamma2, worked out by the compiler.
trait Gamma2 {
    const GAMMA2: i32;
    /// m: how many values HighBits has.
    const M: i32 = (DSA_Q - 1) / (2 * Self::GAMMA2);
    /// 2 gamma2 is an odd number, below 2^10, times this power of two.
    const SHIFT: u32 = (2 * Self::GAMMA2).trailing_zeros();
    /// ceil(2^25 / odd part): numerators are below 2^15, so the quotient is exact.
    const RECIPROCAL: u32 = (1 << 25) / ((2 * Self::GAMMA2 as u32) >> Self::SHIFT) + 1;
}

struct Gamma2Of88;
impl Gamma2 for Gamma2Of88 {
    const GAMMA2: i32 = GAMMA2_88;
}

struct Gamma2Of32;
impl Gamma2 for Gamma2Of32 {
    const GAMMA2: i32 = GAMMA2_32;
}

/// Decompose (Algorithm 36) of a residue: (r1, r0). Constant time.
#[inline(always)]
fn decompose_coefficient<G: Gamma2>(r: i32) -> (i32, i32) {
    let r = canonical(r);
    // r1 = ceil((r - gamma2) / (2 gamma2)), since mod+- rounds halves down.
    let numerator = (r + G::GAMMA2 - 1) as u32 >> G::SHIFT;
    let r1 = ((numerator * G::RECIPROCAL) >> 25) as i32;
    let r0 = r - r1 * (2 * G::GAMMA2);
    // Where r - r0 = q - 1, r1 wraps to 0 and r0 loses 1.
    let wraps = (G::M - 1 - r1) >> 31;
    (r1 & !wraps, r0 + wraps)
}

/// See [`gabion_scheme::kernels::Kernels::dsa_decompose`]. Constant time.
#[inline(always)]
pub(crate) fn decompose(gamma2: i32, r: &DsaPoly, r1: &mut DsaPoly, r0: &mut DsaPoly) {
    match gamma2 {
        GAMMA2_88 => decompose_all::<Gamma2Of88>(r, r1, r0),
        GAMMA2_32 => decompose_all::<Gamma2Of32>(r, r1, r0),
        _ => panic!("gamma2 is {GAMMA2_88} or {GAMMA2_32}, not {gamma2}"),
    }
}

#[inline(always)]
fn decompose_all<G: Gamma2>(r: &DsaPoly, r1: &mut DsaPoly, r0: &mut DsaPoly) {
    for ((&r, r1), r0) in r.0.iter().zip(&mut r1.0).zip(&mut r0.0) {
        (*r1, *r0) = decompose_coefficient::<G>(r);
    }
}

/// See [`gabion_scheme::kernels::Kernels::dsa_make_hint`]. Constant time.
#[inline(always)]
pub(crate) fn make_hint(gamma2: i32, r0: &DsaPoly, r1: &DsaPoly, hint: &mut DsaPoly) -> usize {
    let mut ones = 0;
    for ((&r0, &r1), hint) in r0.0.iter().zip(&r1.0).zip(&mut hint.0) {
        let r0 = centre(r0);
        let above = (gamma2 - r0) >> 31;
        let below = (r0 + gamma2) >> 31;
        // r0 + gamma2 is 0, and r1, which is not negative, is not 0.
        let sum = r0 + gamma2;
        let at_edge = !(sum | sum.wrapping_neg()) >> 31;
        let carried = above | below | (at_edge & (-r1 >> 31));
        *hint = carried & 1;
        ones += *hint;
    }
    ones as usize
}

/// See [`gabion_scheme::kernels::Kernels::dsa_use_hint`]. Constant time.
#[inline(always)]
pub(crate) fn use_hint(gamma2: i32, hint: &DsaPoly, r: &DsaPoly, out: &mut DsaPoly) {
    match gamma2 {
        GAMMA2_88 => use_hint_all::<Gamma2Of88>(hint, r, out),
        GAMMA2_32 => use_hint_all::<Gamma2Of32>(hint, r, out),
        _ => panic!("gamma2 is {GAMMA2_88} or {GAMMA2_32}, not {gamma2}"),
    }
}

#[inline(always)]
fn use_hint_all<G: Gamma2>(hint: &DsaPoly, r: &DsaPoly, out: &mut DsaPoly) {
    for ((&h, &r), out) in hint.0.iter().zip(&r.0).zip(&mut out.0) {
        let (r1, r0) = decompose_coefficient::<G>(r);
        // One step up where r0 > 0, down otherwise, and nowhere without a hint; then modulo m.
        let positive = -r0 >> 31;
        let step = (-1 - 2 * positive) * h;
        let x = r1 + step;
        let x = x + (G::M & (x >> 31));
        *out = x - (G::M & ((G::M - 1 - x) >> 31));
    }
}

/// See [`gabion_scheme::kernels::Kernels::dsa_norm_below`]. Constant time: reads everything.
#[inline(always)]
pub(crate) fn norm_below(polys: &[DsaPoly], bound: i32) -> bool {
    assert!(bound <= (Q - 1) / 8, "the bound is at most (q-1)/8, not {bound}");
    let mut exceeds = 0;
    for p in polys {
        for &c in &p.0 {
            let c = centre(c);
            let sign = c >> 31;
            let norm = (c ^ sign) - sign;
            exceeds |= (bound - 1 - norm) >> 31;
        }
    }
    exceeds == 0
}

/// See [`gabion_scheme::kernels::Kernels::dsa_simple_bit_pack`]. Constant time.
#[inline(always)]
pub(crate) fn simple_bit_pack(bits: usize, p: &DsaPoly, out: &mut [u8]) {
    match bits {
        4 => pack::<4>(out, |i| p.0[i] as u32),
        6 => pack::<6>(out, |i| p.0[i] as u32),
        10 => pack::<10>(out, |i| p.0[i] as u32),
        _ => panic!("bits is 4, 6 or 10, not {bits}"),
    }
}

/// See [`gabion_scheme::kernels::Kernels::dsa_simple_bit_unpack`]. Constant time.
#[inline(always)]
pub(crate) fn simple_bit_unpack(bits: usize, bytes: &[u8], out: &mut DsaPoly) {
    match bits {
        10 => unpack::<10>(bytes, |i, v| out.0[i] = v as i32),
        _ => panic!("bits is 10, not {bits}"),
    }
}

/// See [`gabion_scheme::kernels::Kernels::dsa_bit_pack`]. Constant time.
#[inline(always)]
pub(crate) fn bit_pack(bits: usize, b: i32, p: &DsaPoly, out: &mut [u8]) {
    match bits {
        3 => pack::<3>(out, |i| (b - p.0[i]) as u32),
        4 => pack::<4>(out, |i| (b - p.0[i]) as u32),
        13 => pack::<13>(out, |i| (b - p.0[i]) as u32),
        18 => pack::<18>(out, |i| (b - centre(p.0[i])) as u32),
        20 => pack::<20>(out, |i| (b - centre(p.0[i])) as u32),
        _ => panic!("bits is 3, 4, 13, 18 or 20, not {bits}"),
    }
}

/// See [`gabion_scheme::kernels::Kernels::dsa_bit_unpack`]. Constant time.
#[inline(always)]
pub(crate) fn bit_unpack(bits: usize, b: i32, bytes: &[u8], out: &mut DsaPoly) {
    match bits {
        3 => unpack::<3>(bytes, |i, v| out.0[i] = b - v as i32),
        4 => unpack::<4>(bytes, |i, v| out.0[i] = b - v as i32),
        13 => unpack::<13>(bytes, |i, v| out.0[i] = b - v as i32),
        18 => unpack::<18>(bytes, |i, v| out.0[i] = b - v as i32),
        20 => unpack::<20>(bytes, |i, v| out.0[i] = b - v as i32),
        _ => panic!("bits is 3, 4, 13, 18 or 20, not {bits}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns whether `x` is a multiple of q with a quotient of at most 2^8: products of an odd
    /// number with its inverse modulo 2^32 are exact, and only multiples have a small one.
    fn is_multiple(x: i32) -> bool {
        (-(1 << 8)..=1 << 8).contains(&x.wrapping_mul(Q_INVERSE))
    }

    #[test]
    fn the_test_for_multiples_is_right() {
        assert!((-255..=255).all(|k| is_multiple(k * Q)));
        assert!((-1_000_000..1_000_000).all(|x| is_multiple(x) == (x % Q == 0)));
    }

    #[test]
    fn reduce_every_input() {
        let limit = 1 << 28;
        let mut wrong = false;
        for a in -limit..=limit {
            let r = reduce(a);
            wrong |= r.abs() > Q / 2 + (1 << 18) || !is_multiple(a.wrapping_sub(r));
        }
        assert!(!wrong, "reduce left its bound or its class");
    }

    #[test]
    fn canonical_and_centre_every_residue() {
        for a in 1 - Q..Q {
            let r = canonical(a);
            assert_eq!(r, a.rem_euclid(Q));
            assert_eq!(centre(a), if r > Q / 2 { r - Q } else { r });
        }
    }

    fn check_montgomery(a: u64) {
        let r = montgomery_reduce(a);
        assert!(r.abs() < Q, "{a} is reduced to {r}");
        assert_eq!(((i128::from(r) << 32) - i128::from(a)) % i128::from(Q), 0, "{a} to {r}");
    }

    #[test]
    fn montgomery_at_its_bounds_and_at_random() {
        let bound = Q64 << 32;
        for near in [0, 1 << 31, 1 << 32, Q64, Q64 << 31, bound] {
            for a in near.saturating_sub(1000)..=near + 1000 {
                if a < bound {
                    check_montgomery(a);
                }
            }
        }
        let mut x = 0x9e37_79b9_7f4a_7c15u64;
        for _ in 0..10_000_000 {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            check_montgomery(x % bound);
        }
    }

    #[test]
    fn raise_every_residue_and_the_bounds() {
        for x in (1 - Q..Q).chain([-256 * Q, 256 * Q]) {
            assert_eq!(i64::from(raise(x)), i64::from(x) + 256 * i64::from(Q));
        }
    }

    #[test]
    fn constants_have_their_defining_properties() {
        assert_eq!(Q.wrapping_mul(Q_INVERSE), 1);
        assert_eq!(pow_mod(zeta(128), 256, Q64), Q64 - 1, "the root has order 512");
        assert_eq!(mul(256, R_SQUARED_OVER_256).rem_euclid(Q), R as i32);
        assert_eq!(u64::from(ZETAS[0]), R);
        for (m, &zeta) in ZETAS.iter().enumerate().skip(1) {
            // BitRev8(m) is half of BitRev8(m / 2), plus 128 for an odd m: a square root each.
            let sign = if m % 2 == 0 { 1 } else { -1 };
            let difference = mul(zeta as i32, zeta) - sign * ZETAS[m / 2] as i32;
            assert_eq!(difference % Q, 0, "zeta {m}");
            assert!(zeta < Q as u32);
        }
    }

    #[test]
    fn gamma2_has_the_values_of_the_standard() {
        assert_eq!((GAMMA2_88, GAMMA2_32), (95_232, 261_888));
        assert_eq!((Gamma2Of88::M, Gamma2Of32::M), (44, 16));
    }
}
