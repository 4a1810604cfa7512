//! Polynomials of ML-KEM (FIPS 203): q = 3329, 16-bit signed arithmetic.
//!
//! Products are reduced by Montgomery's method with R = 2^16, sums by Barrett's; neither divides.
//! Both are written as 16-bit high and low products, which compilers map to vector multiplies.

use gabion_scheme::ct;
use gabion_scheme::kernels::{KEM_Q, KemPoly, N};

use super::bits::{pack, unpack};
use crate::common::constants::kem::{Factor, Q_INVERSE, gamma, zeta};

const Q: i16 = KEM_Q;
/// round(2^26 / q): a reciprocal of q for 16-bit numbers.
const RECIPROCAL_26: i16 = ((((1 << 27) / KEM_Q as i32) + 1) / 2) as i16;
/// Most polynomials in one row of [`matvec`] (k of ML-KEM-1024): keeps its sums in 32 bits.
const RANK_MAX: usize = 4;

/// The zetas of Algorithms 9 and 10.
const ZETAS: [Factor; 128] = {
    let mut table = [Factor(0, 0); 128];
    let mut i = 0;
    while i < 128 {
        table[i] = Factor::new(zeta(i));
        i += 1;
    }
    table
};
/// The gammas of Algorithm 11.
const GAMMAS: [Factor; 128] = {
    let mut table = [Factor(0, 0); 128];
    let mut i = 0;
    while i < 128 {
        table[i] = Factor::new(gamma(i));
        i += 1;
    }
    table
};

/// The upper half of a 32-bit product.
#[inline(always)]
fn mul_high(a: i16, b: i16) -> i16 {
    ((i32::from(a) * i32::from(b)) >> 16) as i16
}

/// Montgomery product: `a z mod q` for the factor of z. Any `a`; output |x| < q.
///
/// The low halves of `a zR` and `t q` agree, so the difference of the upper halves is exact.
#[inline(always)]
fn mul(a: i16, Factor(z, zq): Factor) -> i16 {
    let t = a.wrapping_mul(zq);
    mul_high(a, z) - mul_high(t, Q)
}

/// Montgomery reduction: `a / 2^16 mod q`. Output |x| <= |a| / 2^16 + q / 2 (rounded up); callers
/// keep that within 16 bits.
#[inline(always)]
fn montgomery_reduce(a: i32) -> i16 {
    let t = (a as i16).wrapping_mul(Q_INVERSE);
    (a >> 16) as i16 - mul_high(t, Q)
}

/// Barrett reduction: any `a`; the representative with |x| <= (q-1)/2.
///
/// The quotient is round(a / q) computed as (a * round(2^26 / q) + 2^25) >> 26, in two steps.
#[inline(always)]
fn barrett_reduce(a: i16) -> i16 {
    let quotient = (mul_high(a, RECIPROCAL_26) + (1 << 9)) >> 10;
    a.wrapping_sub(quotient.wrapping_mul(Q))
}

/// The representative in 0..q of any `a`, without a branch.
#[inline(always)]
fn canonical(a: i16) -> i16 {
    let r = barrett_reduce(a);
    r + (Q & (r >> 15))
}

/// See [`gabion_scheme::kernels::Kernels::kem_rej_uniform_vartime`].
#[inline(always)]
pub(crate) fn rej_uniform_vartime(bytes: &[u8], out: &mut KemPoly) -> usize {
    assert_eq!(bytes.len() % 3, 0, "SampleNTT reads 3 bytes at a time");
    rej_uniform_into_vartime(bytes, &mut out.0)
}

/// Samples into any number of coefficients: the rest that a vector kernel leaves at the end.
pub(crate) fn rej_uniform_into_vartime(bytes: &[u8], out: &mut [i16]) -> usize {
    let mut filled = 0;
    for b in bytes.chunks_exact(3) {
        let d1 = i16::from(b[0]) | (i16::from(b[1] & 15) << 8);
        let d2 = i16::from(b[1] >> 4) | (i16::from(b[2]) << 4);
        // A rejected candidate is overwritten by the next one.
        for d in [d1, d2] {
            if filled == out.len() {
                return filled;
            }
            out[filled] = d;
            filled += usize::from(d < Q);
        }
    }
    filled
}

/// See [`gabion_scheme::kernels::Kernels::kem_cbd`]. Constant time.
#[inline(always)]
pub(crate) fn cbd(eta: usize, bytes: &[u8], out: &mut [KemPoly]) {
    assert_eq!(bytes.len(), 64 * eta * out.len(), "SamplePolyCBD reads 64 eta bytes");
    match eta {
        2 => bytes.chunks_exact(128).zip(out).for_each(|(bytes, out)| cbd2(bytes, out)),
        3 => bytes.chunks_exact(192).zip(out).for_each(|(bytes, out)| cbd3(bytes, out)),
        _ => panic!("eta is 2 or 3, not {eta}"),
    }
}

/// Four bits a coefficient: two pairs of bits, added in parallel within a 32-bit word.
#[inline(always)]
fn cbd2(bytes: &[u8], out: &mut KemPoly) {
    for (chunk, coefficients) in bytes.chunks_exact(4).zip(out.0.chunks_exact_mut(8)) {
        let word = u32::from_le_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]);
        let sums = (word & 0x5555_5555) + ((word >> 1) & 0x5555_5555);
        for (i, c) in coefficients.iter_mut().enumerate() {
            let x = (sums >> (4 * i)) & 3;
            let y = (sums >> (4 * i + 2)) & 3;
            *c = x as i16 - y as i16;
        }
    }
}

/// Six bits a coefficient: two triples of bits, added in parallel within 24 bits.
#[inline(always)]
fn cbd3(bytes: &[u8], out: &mut KemPoly) {
    for (chunk, coefficients) in bytes.chunks_exact(3).zip(out.0.chunks_exact_mut(4)) {
        let word = u32::from_le_bytes([chunk[0], chunk[1], chunk[2], 0]);
        let sums = (word & 0x0024_9249) + ((word >> 1) & 0x0024_9249) + ((word >> 2) & 0x0024_9249);
        for (i, c) in coefficients.iter_mut().enumerate() {
            let x = (sums >> (6 * i)) & 7;
            let y = (sums >> (6 * i + 3)) & 7;
            *c = x as i16 - y as i16;
        }
    }
}

/// One layer of Algorithm 9: butterflies `LEN` apart. Values grow by less than q.
#[inline(always)]
fn ntt_layer<const LEN: usize>(f: &mut [i16; N]) {
    let zetas = &ZETAS[N / 2 / LEN..];
    for (block, &zeta) in f.chunks_exact_mut(2 * LEN).zip(zetas) {
        let (low, high) = block.split_at_mut(LEN);
        for (a, b) in low.iter_mut().zip(high) {
            let t = mul(*b, zeta);
            *b = *a - t;
            *a += t;
        }
    }
}

/// NTT (Algorithm 9). Input |x| <= 2q; output |x| <= (q-1)/2.
#[inline(always)]
pub(crate) fn ntt(p: &mut KemPoly) {
    let f = &mut p.0;
    ntt_layer::<128>(f);
    ntt_layer::<64>(f);
    ntt_layer::<32>(f);
    ntt_layer::<16>(f);
    ntt_layer::<8>(f);
    ntt_layer::<4>(f);
    ntt_layer::<2>(f);
    // |x| < 2q + 7q = 29961 here, so no layer overflowed.
    for c in f {
        *c = barrett_reduce(*c);
    }
}

/// One layer of Algorithm 10. Sums double; `REDUCE` brings them back below q / 2.
#[inline(always)]
fn inv_ntt_layer<const LEN: usize, const REDUCE: bool>(f: &mut [i16; N]) {
    let zetas = ZETAS[..N / LEN].iter().rev();
    for (block, &zeta) in f.chunks_exact_mut(2 * LEN).zip(zetas) {
        let (low, high) = block.split_at_mut(LEN);
        for (a, b) in low.iter_mut().zip(high) {
            let t = *a;
            *a = if REDUCE { barrett_reduce(t + *b) } else { t + *b };
            *b = mul(*b - t, zeta);
        }
    }
}

/// The layers of NTT^-1 that reduce their sums: as few as 16 bits allow, which is checked here.
const REDUCES: [bool; 7] = {
    let reduces = [false, true, false, false, true, false, false];
    let mut bound = 2 * KEM_Q as i32;
    let mut layer = 0;
    while layer < reduces.len() {
        bound *= 2;
        assert!(bound <= i16::MAX as i32, "a sum or a difference would overflow");
        if reduces[layer] {
            // Products are below q, reduced sums below q / 2.
            bound = KEM_Q as i32;
        }
        layer += 1;
    }
    reduces
};

/// NTT^-1 (Algorithm 10) times 2^16. Input |x| < 2q; output |x| < q.
#[inline(always)]
pub(crate) fn inv_ntt(p: &mut KemPoly) {
    let f = &mut p.0;
    inv_ntt_layer::<2, { REDUCES[0] }>(f);
    inv_ntt_layer::<4, { REDUCES[1] }>(f);
    inv_ntt_layer::<8, { REDUCES[2] }>(f);
    inv_ntt_layer::<16, { REDUCES[3] }>(f);
    inv_ntt_layer::<32, { REDUCES[4] }>(f);
    inv_ntt_layer::<64, { REDUCES[5] }>(f);
    inv_ntt_layer::<128, { REDUCES[6] }>(f);
    for c in f {
        *c = mul(*c, const { Factor::new((1 << 16) / 128) });
    }
}

/// A vector's polynomial in the two orders that BaseCaseMultiply (Algorithm 12) reads it: each
/// coefficient of a product is then a sum of two neighbouring products.
#[derive(Clone, Copy)]
struct Operand {
    /// v\[2i\], gamma v\[2i + 1\].
    even: [i16; N],
    /// v\[2i + 1\], v\[2i\].
    odd: [i16; N],
}

impl Operand {
    const ZERO: Self = Operand { even: [0; N], odd: [0; N] };

    fn set(&mut self, v: &KemPoly) {
        let orders = self.even.chunks_exact_mut(2).zip(self.odd.chunks_exact_mut(2));
        for (((even, odd), v), &gamma) in orders.zip(v.0.chunks_exact(2)).zip(&GAMMAS) {
            (even[0], even[1]) = (v[0], mul(v[1], gamma));
            (odd[0], odd[1]) = (v[1], v[0]);
        }
    }
}

/// See [`gabion_scheme::kernels::Kernels::kem_matvec`]. Constant time.
///
/// The factor gamma is multiplied into the vector once, not into each row; products are summed in
/// 32 bits and reduced once a coefficient.
#[inline(always)]
pub(crate) fn matvec(out: &mut [KemPoly], a: &[KemPoly], v: &[KemPoly]) {
    let rank = v.len();
    assert!(rank <= RANK_MAX, "a vector has at most {RANK_MAX} polynomials, not {rank}");
    assert_eq!(a.len(), out.len() * rank, "the matrix has a row for each output");
    let mut operands = [Operand::ZERO; RANK_MAX];
    for (operand, v) in operands.iter_mut().zip(v) {
        operand.set(v);
    }
    let mut even = [0i32; N / 2];
    let mut odd = [0i32; N / 2];
    for (i, out) in out.iter_mut().enumerate() {
        even.fill(0);
        odd.fill(0);
        for (a, operand) in a[i * rank..(i + 1) * rank].iter().zip(&operands) {
            add_products_of_pairs(&mut even, &a.0, &operand.even);
            add_products_of_pairs(&mut odd, &a.0, &operand.odd);
        }
        for ((pair, &even), &odd) in out.0.chunks_exact_mut(2).zip(&even).zip(&odd) {
            // |sum| <= 4 * 2 q^2 < 2^27, so the reduction returns |x| <= 2^11 + q / 2 < q.
            pair[0] = montgomery_reduce(even);
            pair[1] = montgomery_reduce(odd);
        }
    }
    ct::wipe(&mut even);
    ct::wipe(&mut odd);
    for operand in &mut operands {
        ct::wipe(&mut operand.even);
        ct::wipe(&mut operand.odd);
    }
}

/// `sums[i] += a[2i] b[2i] + a[2i + 1] b[2i + 1]`, the shape of a multiply-add of pairs.
#[inline(always)]
fn add_products_of_pairs(sums: &mut [i32; N / 2], a: &[i16; N], b: &[i16; N]) {
    for (i, sum) in sums.iter_mut().enumerate() {
        let low = i32::from(a[2 * i]) * i32::from(b[2 * i]);
        let high = i32::from(a[2 * i + 1]) * i32::from(b[2 * i + 1]);
        *sum += low + high;
    }
}

/// See [`gabion_scheme::kernels::Kernels::kem_to_mont`]. Constant time.
#[inline(always)]
pub(crate) fn to_mont(polys: &mut [KemPoly]) {
    for p in polys {
        for c in &mut p.0 {
            *c = mul(*c, const { Factor::new(1 << 16) });
        }
    }
}

/// See [`gabion_scheme::kernels::Kernels::kem_add`]. Constant time.
#[inline(always)]
pub(crate) fn add(acc: &mut [KemPoly], b: &[KemPoly]) {
    assert_eq!(acc.len(), b.len(), "as many to add as to add to");
    for (acc, b) in acc.iter_mut().zip(b) {
        for (a, b) in acc.0.iter_mut().zip(&b.0) {
            *a = barrett_reduce(*a + *b);
        }
    }
}

/// See [`gabion_scheme::kernels::Kernels::kem_sub_from`]. Constant time.
#[inline(always)]
pub(crate) fn sub_from(a: &KemPoly, acc: &mut KemPoly) {
    for (acc, a) in acc.0.iter_mut().zip(&a.0) {
        *acc = barrett_reduce(*a - *acc);
    }
}

/// See [`gabion_scheme::kernels::Kernels::kem_encode12`]. Constant time.
#[inline(always)]
pub(crate) fn encode12(polys: &[KemPoly], out: &mut [u8]) {
    pack_each::<12>(polys, out, canonical);
}

/// See [`gabion_scheme::kernels::Kernels::kem_decode12`]. Constant time: the answer is gathered
/// from all coefficients.
#[inline(always)]
pub(crate) fn decode12(bytes: &[u8], out: &mut [KemPoly]) -> bool {
    let mut all_below = -1i16;
    unpack_each::<12>(bytes, out, |v| {
        // 2^12 < 2q: one conditional subtraction is enough.
        let reduced = v as i16 - Q;
        let below = reduced >> 15;
        all_below &= below;
        reduced + (Q & below)
    });
    all_below != 0
}

/// Compress_d (equation 4.7) for d up to 5: round(2^d x / q) mod 2^d.
///
/// The quotient is (x * round(2^26 / q) + 2^(25-d)) >> (26 - d), in two steps of 16 bits as in
/// [`barrett_reduce`]; the reciprocal is close enough for every x (the tests try each).
#[inline(always)]
fn compress_narrow<const D: usize>(x: i16) -> i16 {
    const { assert!(D <= 5) };
    let scaled = mul_high(canonical(x), RECIPROCAL_26);
    ((scaled + (1 << (9 - D))) >> (10 - D)) & ((1 << D) - 1)
}

/// Compress_d for d of 10 or 11: floor((2^d x + (q-1)/2) / q) mod 2^d. There are no ties, q being
/// odd.
///
/// A quotient from 16-bit products is exact or 1 too small; the remainder, which fits 16 bits
/// although its terms do not, shows which.
#[inline(always)]
fn compress_wide<const D: usize>(x: i16) -> i16 {
    const { assert!(D == 10 || D == 11) };
    let x = canonical(x);
    let quotient = mul_high(x << (D - 10), RECIPROCAL_26);
    let rest = ((x << D).wrapping_add(Q / 2)).wrapping_sub(quotient.wrapping_mul(Q));
    let one_short = (Q - 1 - rest) >> 15;
    (quotient - one_short) & ((1 << D) - 1)
}

/// Decompress_d (equation 4.8): round(q y / 2^d).
#[inline(always)]
fn decompress_coefficient<const D: usize>(y: u32) -> i16 {
    ((y * KEM_Q as u32 + (1 << (D - 1))) >> D) as i16
}

/// See [`gabion_scheme::kernels::Kernels::kem_compress`]. Constant time.
#[inline(always)]
pub(crate) fn compress(d: usize, polys: &[KemPoly], out: &mut [u8]) {
    match d {
        1 => pack_each::<1>(polys, out, compress_narrow::<1>),
        4 => pack_each::<4>(polys, out, compress_narrow::<4>),
        5 => pack_each::<5>(polys, out, compress_narrow::<5>),
        10 => pack_each::<10>(polys, out, compress_wide::<10>),
        11 => pack_each::<11>(polys, out, compress_wide::<11>),
        _ => panic!("d is 1, 4, 5, 10 or 11, not {d}"),
    }
}

/// Packs `value` of each coefficient. Values are worked out before, which vectorises.
#[inline(always)]
fn pack_each<const BITS: usize>(polys: &[KemPoly], out: &mut [u8], value: impl Fn(i16) -> i16) {
    assert_eq!(out.len(), 32 * BITS * polys.len(), "ByteEncode_d writes 32 d bytes");
    for (p, out) in polys.iter().zip(out.chunks_exact_mut(32 * BITS)) {
        let mut values = p.0.map(&value);
        pack::<BITS>(out, |i| values[i] as u32);
        ct::wipe(&mut values);
    }
}

/// Unpacks fields and stores `coefficient` of each.
#[inline(always)]
fn unpack_each<const BITS: usize>(
    bytes: &[u8],
    out: &mut [KemPoly],
    mut coefficient: impl FnMut(u32) -> i16,
) {
    assert_eq!(bytes.len(), 32 * BITS * out.len(), "ByteDecode_d reads 32 d bytes");
    for (bytes, out) in bytes.chunks_exact(32 * BITS).zip(out) {
        unpack::<BITS>(bytes, |i, field| out.0[i] = coefficient(field));
    }
}

/// See [`gabion_scheme::kernels::Kernels::kem_decompress`]. Constant time.
#[inline(always)]
pub(crate) fn decompress(d: usize, bytes: &[u8], out: &mut [KemPoly]) {
    match d {
        1 => unpack_each::<1>(bytes, out, decompress_coefficient::<1>),
        4 => unpack_each::<4>(bytes, out, decompress_coefficient::<4>),
        5 => unpack_each::<5>(bytes, out, decompress_coefficient::<5>),
        10 => unpack_each::<10>(bytes, out, decompress_coefficient::<10>),
        11 => unpack_each::<11>(bytes, out, decompress_coefficient::<11>),
        _ => panic!("d is 1, 4, 5, 10 or 11, not {d}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const Q32: i32 = KEM_Q as i32;

    #[test]
    fn barrett_and_canonical_every_input() {
        for a in i16::MIN..=i16::MAX {
            let r = barrett_reduce(a);
            assert!(r.abs() <= (Q - 1) / 2, "{a} is reduced to {r}");
            assert_eq!((i32::from(a) - i32::from(r)) % Q32, 0, "{a} is reduced to {r}");
            assert_eq!(i32::from(canonical(a)), i32::from(a).rem_euclid(Q32));
        }
    }

    #[test]
    fn product_every_input_with_every_factor() {
        let ends = [Factor::new(1 << 16), Factor::new((1 << 16) / 128)];
        for factor in ZETAS.iter().chain(&GAMMAS).chain(&ends) {
            let z = factor.0;
            for a in i16::MIN..=i16::MAX {
                let r = mul(a, *factor);
                assert!(r.abs() < Q, "{a} times {z} is {r}");
                let difference = (i32::from(r) << 16) - i32::from(a) * i32::from(z);
                assert_eq!(difference % Q32, 0, "{a} times {z} is {r}");
            }
        }
    }

    /// Every sum that a matrix product of full rank can hold.
    #[test]
    fn montgomery_every_input() {
        let limit = RANK_MAX as i32 * 2 * (2 * Q32) * (2 * Q32);
        let mut wrong = false;
        for a in -limit..=limit {
            let r = i32::from(montgomery_reduce(a));
            wrong |= r.abs() > (a.abs() >> 16) + Q32 / 2 + 2;
            wrong |= (r * 65536).wrapping_sub(a) % Q32 != 0;
        }
        assert!(!wrong, "montgomery_reduce left its bound or its class");
    }

    #[test]
    fn constants_have_their_defining_properties() {
        let q = Q32;
        assert_eq!(Q.wrapping_mul(Q_INVERSE), 1);
        let value = |x: i16| i32::from(x).rem_euclid(q);
        assert_eq!(value(Factor::new((1 << 16) / 128).0) * 128 % q, value(Factor::new(1 << 16).0));
        assert_eq!(value(mul(1, Factor::new(1 << 16))), 65536 % q);
        let minus_one = (0..128).fold(1, |x, _| value(mul(x as i16, GAMMAS[0])));
        assert_eq!(minus_one, q - 1, "the root has order 256");
        for i in 0..128 {
            let (zeta, gamma) = (ZETAS[i], GAMMAS[i]);
            // 17^(2 BitRev7(i)) times 17.
            assert_eq!(value(mul(mul(17, zeta), zeta)), value(mul(1, gamma)), "gamma {i}");
            assert!(zeta.0.abs() <= Q / 2 && gamma.0.abs() <= Q / 2);
        }
        assert_eq!(value(mul(1, ZETAS[1])), 1729, "17^64 is the first zeta that Algorithm 9 uses");
    }
}
