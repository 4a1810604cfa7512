//! Polynomials of ML-KEM (FIPS 203): q = 3329, 16-bit signed arithmetic.
//!
//! Products are reduced by Montgomery's method with R = 2^16, sums by Barrett's; neither divides.
//! Both are written as 16-bit high and low products, which compilers map to vector multiplies.

use gabion_scheme::kernels::{KEM_Q, KemPoly, N};
use zeroize::Zeroize;

use super::bits::{pack, unpack};
use super::constants::{bit_reverse, centred, inverse_mod_2_32, pow_mod};

const Q: i16 = KEM_Q;
const Q64: u64 = KEM_Q as u64;
/// The primitive 256th root of unity modulo q (FIPS 203, section 4.3).
const ROOT: u64 = 17;
/// q^-1 mod 2^16, signed.
const Q_INV: i16 = inverse_mod_2_32(KEM_Q as u32) as i16;
/// R^2 mod q: a Montgomery product with it multiplies by R = 2^16.
const R_SQUARED: i16 = centred(1 << 32, Q64) as i16;
/// R^2 / 128 mod q: ends NTT^-1 (the 128^-1 of Algorithm 10) and multiplies by R.
const R_SQUARED_OVER_128: i16 =
    centred(((1 << 32) % Q64) * pow_mod(128, KEM_Q as u32 - 2, Q64), Q64) as i16;
/// Most polynomials in one row of [`matvec`] (k of ML-KEM-1024): keeps its sums in 32 bits.
const RANK_MAX: usize = 4;

/// A constant factor for [`mul`]: `value` = z R mod q, and its product with q^-1 mod 2^16.
#[derive(Clone, Copy)]
struct Factor {
    value: i16,
    times_q_inv: i16,
}

impl Factor {
    const fn new(montgomery: i16) -> Self {
        Factor {
            value: montgomery,
            times_q_inv: montgomery.wrapping_mul(Q_INV),
        }
    }
}

/// R 17^BitRev7(i) for i in 0..128: the zetas of Algorithms 9 and 10.
const ZETAS: [Factor; 128] = zetas(false);
/// R 17^(2 BitRev7(i) + 1) for i in 0..128: the gammas of Algorithm 11.
const GAMMAS: [Factor; 128] = zetas(true);

const fn zetas(gammas: bool) -> [Factor; 128] {
    let mut table = [Factor::new(0); 128];
    let mut i = 0;
    while i < 128 {
        let reversed = bit_reverse(i, 7);
        let exponent = if gammas { 2 * reversed + 1 } else { reversed };
        table[i] = Factor::new(centred(pow_mod(ROOT, exponent, Q64) << 16, Q64) as i16);
        i += 1;
    }
    table
}

/// The upper half of a 32-bit product.
#[inline(always)]
fn mul_high(a: i16, b: i16) -> i16 {
    ((i32::from(a) * i32::from(b)) >> 16) as i16
}

/// Montgomery product: `a z mod q` for the factor of z. Any `a`; output |x| < q.
///
/// The low halves of `a zR` and `t q` agree, so the difference of the upper halves is exact.
#[inline(always)]
fn mul(a: i16, factor: Factor) -> i16 {
    let t = a.wrapping_mul(factor.times_q_inv);
    mul_high(a, factor.value) - mul_high(t, Q)
}

/// Montgomery reduction: `a / 2^16 mod q`. Output |x| <= |a| / 2^16 + q / 2 (rounded up); callers
/// keep that within 16 bits.
#[inline(always)]
fn montgomery_reduce(a: i32) -> i16 {
    let t = (a as i16).wrapping_mul(Q_INV);
    (a >> 16) as i16 - mul_high(t, Q)
}

/// Barrett reduction: any `a`; the representative with |x| <= (q-1)/2.
///
/// The quotient is round(a / q) computed as (a * round(2^26 / q) + 2^25) >> 26, in two steps.
#[inline(always)]
fn barrett_reduce(a: i16) -> i16 {
    const RECIPROCAL: i16 = ((((1 << 27) / KEM_Q as i32) + 1) / 2) as i16;
    let quotient = (mul_high(a, RECIPROCAL) + (1 << 9)) >> 10;
    a.wrapping_sub(quotient.wrapping_mul(Q))
}

/// The representative in 0..q of any `a`, without a branch.
#[inline(always)]
fn canonical(a: i16) -> i16 {
    let r = barrett_reduce(a);
    r + (Q & (r >> 15))
}

/// See [`gabion_scheme::kernels::Kernels::kem_rej_uniform_vartime`].
pub(super) fn rej_uniform_vartime(bytes: &[u8], out: &mut KemPoly) -> usize {
    assert_eq!(bytes.len() % 3, 0, "SampleNTT reads 3 bytes at a time");
    let mut filled = 0;
    for b in bytes.chunks_exact(3) {
        let d1 = i16::from(b[0]) | (i16::from(b[1] & 15) << 8);
        let d2 = i16::from(b[1] >> 4) | (i16::from(b[2]) << 4);
        // A rejected candidate is overwritten by the next one.
        for d in [d1, d2] {
            if filled == N {
                return N;
            }
            out.0[filled] = d;
            filled += usize::from(d < Q);
        }
    }
    filled
}

/// See [`gabion_scheme::kernels::Kernels::kem_cbd`]. Constant time.
pub(super) fn cbd(eta: usize, bytes: &[u8], out: &mut KemPoly) {
    assert_eq!(bytes.len(), 64 * eta, "SamplePolyCBD reads 64 eta bytes");
    match eta {
        2 => cbd2(bytes, out),
        3 => cbd3(bytes, out),
        _ => panic!("eta is 2 or 3, not {eta}"),
    }
}

/// Four bits a coefficient: two pairs of bits, added in parallel within a 32-bit word.
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
pub(super) fn ntt(p: &mut KemPoly) {
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

/// One layer of Algorithm 10. Input |x| < 2q; output |x| < q.
#[inline(always)]
fn inv_ntt_layer<const LEN: usize>(f: &mut [i16; N]) {
    let zetas = ZETAS[..N / LEN].iter().rev();
    for (block, &zeta) in f.chunks_exact_mut(2 * LEN).zip(zetas) {
        let (low, high) = block.split_at_mut(LEN);
        for (a, b) in low.iter_mut().zip(high) {
            let t = *a;
            *a = barrett_reduce(t + *b);
            *b = mul(*b - t, zeta);
        }
    }
}

/// NTT^-1 (Algorithm 10) times 2^16. Input |x| < 2q; output |x| < q.
pub(super) fn inv_ntt(p: &mut KemPoly) {
    let f = &mut p.0;
    inv_ntt_layer::<2>(f);
    inv_ntt_layer::<4>(f);
    inv_ntt_layer::<8>(f);
    inv_ntt_layer::<16>(f);
    inv_ntt_layer::<32>(f);
    inv_ntt_layer::<64>(f);
    inv_ntt_layer::<128>(f);
    for c in f {
        *c = mul(*c, const { Factor::new(R_SQUARED_OVER_128) });
    }
}

/// See [`gabion_scheme::kernels::Kernels::kem_matvec`]. Constant time.
///
/// The factor gamma of Algorithm 12 (BaseCaseMultiply) is multiplied into the vector once, not into
/// each row; products are summed in 32 bits and reduced once a coefficient.
pub(super) fn matvec(out: &mut [KemPoly], a: &[KemPoly], v: &[KemPoly]) {
    let rank = v.len();
    assert!(
        rank <= RANK_MAX,
        "a vector has at most {RANK_MAX} polynomials, not {rank}"
    );
    assert_eq!(
        a.len(),
        out.len() * rank,
        "the matrix has a row for each output"
    );
    let mut odd_gamma = [[0i16; N / 2]; RANK_MAX];
    for (scaled, poly) in odd_gamma.iter_mut().zip(v) {
        for ((s, pair), &gamma) in scaled.iter_mut().zip(poly.0.chunks_exact(2)).zip(&GAMMAS) {
            *s = mul(pair[1], gamma);
        }
    }
    for (i, out) in out.iter_mut().enumerate() {
        let row = &a[i * rank..(i + 1) * rank];
        let mut sums = [0i32; N];
        for ((a, v), scaled) in row.iter().zip(v).zip(&odd_gamma) {
            base_multiply_add(&mut sums, a, v, scaled);
        }
        for (c, sum) in out.0.iter_mut().zip(&sums) {
            // |sum| <= 4 * 2 * (2q)^2 < 2^29, so the reduction returns |x| < 2^13.
            *c = barrett_reduce(montgomery_reduce(*sum));
        }
        sums.zeroize();
    }
    odd_gamma.zeroize();
}

/// MultiplyNTTs (Algorithm 11), unreduced, added to `sums`; `odd_gamma` holds gamma times the odd
/// coefficients of `v`.
#[inline(always)]
fn base_multiply_add(sums: &mut [i32; N], a: &KemPoly, v: &KemPoly, odd_gamma: &[i16; N / 2]) {
    let pairs = a.0.chunks_exact(2).zip(v.0.chunks_exact(2)).zip(odd_gamma);
    for (sum, ((a, v), &v1_gamma)) in sums.chunks_exact_mut(2).zip(pairs) {
        let (a0, a1) = (i32::from(a[0]), i32::from(a[1]));
        let (v0, v1) = (i32::from(v[0]), i32::from(v[1]));
        sum[0] += a0 * v0 + a1 * i32::from(v1_gamma);
        sum[1] += a0 * v1 + a1 * v0;
    }
}

/// See [`gabion_scheme::kernels::Kernels::kem_to_mont`]. Constant time.
pub(super) fn to_mont(p: &mut KemPoly) {
    for c in &mut p.0 {
        *c = mul(*c, const { Factor::new(R_SQUARED) });
    }
}

/// See [`gabion_scheme::kernels::Kernels::kem_add`]. Constant time.
pub(super) fn add(acc: &mut KemPoly, b: &KemPoly) {
    for (a, b) in acc.0.iter_mut().zip(&b.0) {
        *a = barrett_reduce(*a + *b);
    }
}

/// See [`gabion_scheme::kernels::Kernels::kem_sub_from`]. Constant time.
pub(super) fn sub_from(a: &KemPoly, acc: &mut KemPoly) {
    for (acc, a) in acc.0.iter_mut().zip(&a.0) {
        *acc = barrett_reduce(*a - *acc);
    }
}

/// See [`gabion_scheme::kernels::Kernels::kem_encode12`]. Constant time.
pub(super) fn encode12(p: &KemPoly, out: &mut [u8]) {
    pack::<12>(out, |i| canonical(p.0[i]) as u32);
}

/// See [`gabion_scheme::kernels::Kernels::kem_decode12`]. Constant time: the answer is gathered
/// from all coefficients.
pub(super) fn decode12(bytes: &[u8], out: &mut KemPoly) -> bool {
    let mut all_below = -1i16;
    unpack::<12>(bytes, |i, v| {
        // 2^12 < 2q: one conditional subtraction is enough.
        let reduced = v as i16 - Q;
        let below = reduced >> 15;
        all_below &= below;
        out.0[i] = reduced + (Q & below);
    });
    all_below != 0
}

/// Compress_d (equation 4.7): round(2^d x / q) mod 2^d = floor((2^d x + (q-1)/2) / q) mod 2^d.
///
/// No ties: q is odd. The division by q is a product with ceil(2^36 / q): the numerator is below
/// 2^23 and the reciprocal's error below q / 2^36, so the quotient is exact.
#[inline(always)]
fn compress_coefficient<const D: usize>(x: i16) -> u32 {
    const RECIPROCAL: u64 = (1 << 36) / Q64 + 1;
    let numerator = ((canonical(x) as u64) << D) + Q64 / 2;
    ((numerator * RECIPROCAL) >> 36) as u32 & ((1 << D) - 1)
}

/// Decompress_d (equation 4.8): round(q y / 2^d).
#[inline(always)]
fn decompress_coefficient<const D: usize>(y: u32) -> i16 {
    ((y * KEM_Q as u32 + (1 << (D - 1))) >> D) as i16
}

/// See [`gabion_scheme::kernels::Kernels::kem_compress`]. Constant time.
pub(super) fn compress(d: usize, p: &KemPoly, out: &mut [u8]) {
    match d {
        1 => pack::<1>(out, |i| compress_coefficient::<1>(p.0[i])),
        4 => pack::<4>(out, |i| compress_coefficient::<4>(p.0[i])),
        5 => pack::<5>(out, |i| compress_coefficient::<5>(p.0[i])),
        10 => pack::<10>(out, |i| compress_coefficient::<10>(p.0[i])),
        11 => pack::<11>(out, |i| compress_coefficient::<11>(p.0[i])),
        _ => panic!("d is 1, 4, 5, 10 or 11, not {d}"),
    }
}

/// See [`gabion_scheme::kernels::Kernels::kem_decompress`]. Constant time.
pub(super) fn decompress(d: usize, bytes: &[u8], out: &mut KemPoly) {
    match d {
        1 => unpack::<1>(bytes, |i, y| out.0[i] = decompress_coefficient::<1>(y)),
        4 => unpack::<4>(bytes, |i, y| out.0[i] = decompress_coefficient::<4>(y)),
        5 => unpack::<5>(bytes, |i, y| out.0[i] = decompress_coefficient::<5>(y)),
        10 => unpack::<10>(bytes, |i, y| out.0[i] = decompress_coefficient::<10>(y)),
        11 => unpack::<11>(bytes, |i, y| out.0[i] = decompress_coefficient::<11>(y)),
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
            assert_eq!(
                (i32::from(a) - i32::from(r)) % Q32,
                0,
                "{a} is reduced to {r}"
            );
            assert_eq!(i32::from(canonical(a)), i32::from(a).rem_euclid(Q32));
        }
    }

    #[test]
    fn product_every_input_with_every_factor() {
        let ends = [Factor::new(R_SQUARED), Factor::new(R_SQUARED_OVER_128)];
        for factor in ZETAS.iter().chain(&GAMMAS).chain(&ends) {
            for a in i16::MIN..=i16::MAX {
                let r = mul(a, *factor);
                assert!(r.abs() < Q, "{a} times {} is {r}", factor.value);
                let difference = (i32::from(r) << 16) - i32::from(a) * i32::from(factor.value);
                assert_eq!(difference % Q32, 0, "{a} times {} is {r}", factor.value);
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
        assert_eq!(Q.wrapping_mul(Q_INV), 1);
        assert_eq!(pow_mod(ROOT, 128, Q64), Q64 - 1, "the root has order 256");
        let value = |x: i16| i32::from(x).rem_euclid(q);
        assert_eq!(value(R_SQUARED_OVER_128) * 128 % q, value(R_SQUARED));
        assert_eq!(value(mul(1, Factor::new(R_SQUARED))), 65536 % q);
        for i in 0..128 {
            let (zeta, gamma) = (ZETAS[i], GAMMAS[i]);
            // 17^(2 BitRev7(i)) times 17.
            assert_eq!(
                value(mul(mul(17, zeta), zeta)),
                value(mul(1, gamma)),
                "gamma {i}"
            );
            assert!(zeta.value.abs() <= Q / 2 && gamma.value.abs() <= Q / 2);
        }
        assert_eq!(
            value(mul(1, ZETAS[1])),
            1729,
            "17^64 is the first zeta that Algorithm 9 uses"
        );
    }
}
