//! Checks on private keys before they may sign (Falcon round 3, sections 3.8.1 and 3.8.2).
//!
//! The crates take every f, g and F from which some small G follows modulo q. A key that is not a
//! short basis of its lattice makes their sampler reject without end, or sign with a distribution
//! that gives the key away, so a key is tested here before it gets there: the tests that key
//! generation makes, and the NTRU equation over the integers.
//!
//! Time depends on which test fails and on nothing else of the key. The last test divides in
//! floating point, as every signature of the crates does.

use fn_dsa_comm::mq;
use zeroize::Zeroizing;

use super::params::{Design, Params, Q};
use crate::ct;

/// (1.17 sqrt(q))^2, which neither norm of a basis exceeds (section 3.8.2), rounded up so that the
/// rounding of an implementation does not matter.
const NORM2_MAX: i32 = 16823;

/// A prime that is 1 modulo 2048, so that x^n + 1 has n roots modulo it.
const P: i32 = 18433;

/// P times this is 1 modulo 2^64.
const P_INVERSE: i64 = {
    // Each step doubles the bits that are right; an odd number is its own inverse modulo 8.
    let (mut inverse, mut bits) = (P as i64, 3);
    while bits < 64 {
        inverse = inverse.wrapping_mul(2i64.wrapping_sub(inverse.wrapping_mul(P as i64)));
        bits *= 2;
    }
    inverse
};

/// A root of x^1024 + 1 modulo P.
const ROOT: i32 = {
    let mut base = 2;
    while power(power(base, (P - 1) / 2048), 1024) != P - 1 {
        base += 1;
    }
    power(base, (P - 1) / 2048)
};

/// The powers [`ROOT`]^j 2^16, from -P/2 to P/2, at the place that is j with its ten bits in the other order.
static ROOTS: [i16; 1024] = {
    let (mut roots, mut j) = ([0; 1024], 0u32);
    let mut value = (1 << 16) % P;
    while j < 1024 {
        let centred = if value > P / 2 { value - P } else { value };
        roots[(j.reverse_bits() >> 22) as usize] = centred as i16;
        value = value * ROOT % P;
        j += 1;
    }
    roots
};

/// Returns `base^exponent` modulo P, for public values.
const fn power(base: i32, exponent: i32) -> i32 {
    let (mut power, mut i) = (1, 0);
    while i < exponent {
        power = power * base % P;
        i += 1;
    }
    power
}

/// A private key's polynomials; secret. `[coef]`, and |x| < 128.
pub(super) struct Basis {
    f: Zeroizing<Vec<i8>>,
    g: Zeroizing<Vec<i8>>,
    f_big: Zeroizing<Vec<i8>>,
    g_big: Zeroizing<Vec<i8>>,
}

impl Basis {
    /// Decodes f, g and F, makes G and tests all four; none if a test fails. `bytes` has the length
    /// of the parameter set.
    pub(super) fn decode(params: &Params, bytes: &[u8]) -> Option<Basis> {
        if bytes.len() != params.sk_len() || bytes[0] != params.sk_header() {
            return None;
        }
        let n = params.n();
        let fg_len = n * params.bits_fg() as usize / 8;
        let (f_bytes, rest) = bytes[1..].split_at(fg_len);
        let (g_bytes, rest) = rest.split_at(fg_len);
        let decode = |bytes: &[u8], bits| decode_small(params.design, bytes, bits);
        let f = decode(f_bytes, params.bits_fg())?;
        let g = decode(g_bytes, params.bits_fg())?;
        let f_big = decode(&rest[..n], 8)?;
        let g_big = complete(params, &f, &g, &f_big)?;
        let basis = Basis { f, g, f_big, g_big };
        // Whether a key is one is public.
        let good = basis.is_short() & basis.solves_ntru() & basis.is_short_orthogonalised();
        ct::declassified(good).then_some(basis)
    }

    /// ||(g, -f)||^2 is within the bound.
    fn is_short(&self) -> bool {
        let square = |&x: &i8| i32::from(x) * i32::from(x);
        self.f.iter().chain(self.g.iter()).map(square).sum::<i32>() < NORM2_MAX
    }

    /// f G - g F = q modulo x^n + 1, over the integers, if it is a multiple of q, which [`complete`] sees to:
    /// then its coefficients are those of q if they are so modulo [`P`], because none is more than
    /// 2 * 1024 * 127^2, which is less than q (P - 1).
    fn solves_ntru(&self) -> bool {
        let values = |polynomial: &[i8]| {
            let mut values = Zeroizing::new(vec![0; polynomial.len()]);
            for (value, &x) in values.iter_mut().zip(polynomial) {
                *value = i32::from(x);
            }
            transform(&mut values);
            values
        };
        let [f, g, f_big, g_big] =
            [&self.f, &self.g, &self.f_big, &self.g_big].map(|polynomial| values(polynomial));
        let product = |a: i32, b: i32| i64::from(a) * i64::from(b);
        // The constant q is q at every root.
        (0..f.len())
            .map(|k| product(f[k], g_big[k]) - product(g[k], f_big[k]) - i64::from(Q))
            .fold(true, |all, value| all & is_multiple(value))
    }

    /// The squared norm of the second vector of the orthogonalised basis is within the bound. It is
    /// q^2 / n times the sum of 1 / (|f(z)|^2 + |g(z)|^2) over the n roots z of x^n + 1.
    fn is_short_orthogonalised(&self) -> bool {
        let n = self.f.len();
        let values = evaluate(&self.f, &self.g);
        // |f(z)|^2 + |g(z)|^2 is half of what f + ig has at z and at its conjugate, which is the
        // root n - 1 - k: the cross terms cancel.
        let norm = |k: usize| values[k][0] * values[k][0] + values[k][1] * values[k][1];
        let sum: f64 = (0..n).map(|k| 2.0 / (norm(k) + norm(n - 1 - k))).sum();
        let norm2 = f64::from(Q) * f64::from(Q) * sum / n as f64;
        norm2 < f64::from(NORM2_MAX)
    }
}

/// Integers of `bits` bits each, two's complement; none if one is the most negative value, which no
/// encoder writes. Falcon packs from the most significant bit on, FN-DSA from the least.
fn decode_small(design: Design, bytes: &[u8], bits: u32) -> Option<Zeroizing<Vec<i8>>> {
    let mut values = Zeroizing::new(Vec::with_capacity(bytes.len() * 8 / bits as usize));
    let mut lowest = 0;
    let (mut acc, mut held) = (0u32, 0);
    for &byte in bytes {
        acc = match design {
            Design::Falcon => acc << 8 | u32::from(byte),
            Design::FnDsaDraft => acc | u32::from(byte) << held,
        };
        held += 8;
        while held >= bits {
            held -= bits;
            let raw = match design {
                Design::Falcon => acc >> held,
                Design::FnDsaDraft => acc,
            };
            if design == Design::FnDsaDraft {
                acc >>= bits;
            }
            // Its top bit becomes the sign.
            let value = (raw << (32 - bits)) as i32 >> (32 - bits);
            let most_negative = ct::barrier(u64::from((value + (1 << (bits - 1))) as u32));
            lowest |= most_negative.wrapping_sub(1) >> 63;
            values.push(value as i8);
        }
    }
    (ct::declassified(lowest) == 0).then_some(values)
}

/// G = g F / f modulo q, if f is invertible and G is small.
fn complete(params: &Params, f: &[i8], g: &[i8], f_big: &[i8]) -> Option<Zeroizing<Vec<i8>>> {
    let (n, log_n) = (params.n(), params.log_n);
    let mut quotient = Zeroizing::new(vec![0u16; n]);
    let mut other = Zeroizing::new(vec![0u16; n]);
    mq::mqpoly_small_to_int(log_n, g, &mut quotient);
    mq::mqpoly_small_to_int(log_n, f, &mut other);
    mq::mqpoly_int_to_NTT(log_n, &mut quotient);
    mq::mqpoly_int_to_NTT(log_n, &mut other);
    let invertible = mq::mqpoly_div_ntt(log_n, &mut quotient, &other);
    mq::mqpoly_small_to_int(log_n, f_big, &mut other);
    mq::mqpoly_int_to_NTT(log_n, &mut other);
    mq::mqpoly_mul_ntt(log_n, &mut other, &quotient);
    mq::mqpoly_NTT_to_int(log_n, &mut other);
    let mut g_big = Zeroizing::new(vec![0i8; n]);
    let small = mq::mqpoly_int_to_small(log_n, &other, &mut g_big);
    // Whether a key is one is public.
    ct::declassified(invertible & small).then_some(g_big)
}

/// Replaces the polynomial's n coefficients, which are below 2^7, by its values modulo P at the
/// roots of x^n + 1, below 10 P in size.
fn transform(values: &mut [i32]) {
    let mut roots = ROOTS[1..].iter();
    let mut half = values.len() / 2;
    while half > 0 {
        for (block, &root) in values.chunks_exact_mut(2 * half).zip(&mut roots) {
            let (a, b) = block.split_at_mut(half);
            for (x, y) in a.iter_mut().zip(b) {
                // Montgomery's reduction, as in ML-KEM: what is left of a product is 2^-16 of it and P/2,
                // so that a value grows by a seventh and P/2 in each of ten steps and is less than
                // 2^18 at last, and no product reaches 2^31 - 2^15 P.
                let product = i32::from(root) * *y;
                let multiple = i32::from((product as i16).wrapping_mul(P_INVERSE as i16));
                let reduced = (product - multiple * P) >> 16;
                (*x, *y) = (*x + reduced, *x - reduced);
            }
        }
        half /= 2;
    }
}

/// Returns whether P divides it: the quotient is the product with P's inverse, which for others is
/// too large.
fn is_multiple(value: i64) -> bool {
    const LARGEST: u64 = (i64::MAX / P as i64) as u64;
    (value.wrapping_mul(P_INVERSE) as u64).wrapping_add(LARGEST) <= 2 * LARGEST
}

/// f + ig at the n roots of x^n + 1, `[k][re, im]` at exp(i pi (2k + 1) / n): a transform of n
/// points of the coefficients times exp(i pi j / n).
fn evaluate(f: &[i8], g: &[i8]) -> Zeroizing<Vec<[f64; 2]>> {
    let n = f.len();
    let root = |j: usize| {
        let (sin, cos) = (std::f64::consts::PI * j as f64 / n as f64).sin_cos();
        [cos, sin]
    };
    let roots: Vec<[f64; 2]> = (0..n).map(root).collect();
    let mul = |a: [f64; 2], b: [f64; 2]| [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]];
    let mut values = Zeroizing::new(vec![[0.0; 2]; n]);
    let shift = usize::BITS - n.trailing_zeros();
    for j in 0..n {
        let coefficient = [f64::from(f[j]), f64::from(g[j])];
        values[j.reverse_bits() >> shift] = mul(coefficient, roots[j]);
    }
    // Cooley and Tukey, decimation in time.
    let mut half = 1;
    while half < n {
        for block in values.chunks_exact_mut(2 * half) {
            let (a, b) = block.split_at_mut(half);
            for (k, (x, y)) in a.iter_mut().zip(b).enumerate() {
                // exp(2 pi i k / (2 half)) is the root n k / half.
                let t = mul(*y, roots[n / half * k]);
                (*x, *y) = ([x[0] + t[0], x[1] + t[1]], [x[0] - t[0], x[1] - t[1]]);
            }
        }
        half *= 2;
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fn_dsa::{SigningKey, generate, params};

    fn keys() -> Vec<SigningKey> {
        ["FN-DSA-512-draft", "FN-DSA-1024-draft", "Falcon-512", "Falcon-1024"]
            .into_iter()
            .flat_map(|name| (0..3).map(move |seed| (name, seed)))
            .map(|(name, seed)| {
                generate(params(name.parse().unwrap()).unwrap(), &[seed; 32]).unwrap()
            })
            .collect()
    }

    #[test]
    fn generated_keys_pass_and_each_test_is_needed() {
        for key in keys() {
            let good = || Basis::decode(key.params(), key.bytes()).unwrap();
            let mut basis = good();
            basis.g_big[3] ^= 1;
            assert!(!basis.solves_ntru() && basis.is_short());
            let mut basis = good();
            basis.f.iter_mut().for_each(|x| *x = 6);
            assert!(!basis.is_short());
            let mut basis = good();
            // 1 + x^2 + x^4 + .. is 2 / (1 - x^2) at the roots: short, and small at nearly all of them.
            for (i, (x, y)) in basis.f.iter_mut().zip(basis.g.iter_mut()).enumerate() {
                (*x, *y) = (i8::from(i % 2 == 0), 0);
            }
            assert!(basis.is_short() && !basis.is_short_orthogonalised());
        }
    }

    #[test]
    fn values_modulo_a_prime_are_those_at_its_roots() {
        for n in [2, 8, 512, 1024] {
            let f: Vec<i64> = (0..n).map(|i| i * i * 7 % 255 - 127).collect();
            let mut values: Vec<i32> = f.iter().map(|&x| x as i32).collect();
            transform(&mut values);
            let mut found: Vec<i64> = Vec::new();
            for k in 0..n {
                // Of x^n + 1: odd powers of one of them.
                let root = power(power(ROOT, (1024 / n) as i32), 2 * k as i32 + 1);
                let p = i64::from(P);
                found.push(f.iter().rev().fold(0, |sum, x| (sum * i64::from(root) + x) % p));
            }
            let mut values: Vec<i64> =
                values.iter().map(|&x| i64::from(x).rem_euclid(P.into())).collect();
            let mut found: Vec<i64> = found.iter().map(|x| x.rem_euclid(P.into())).collect();
            values.sort_unstable();
            found.sort_unstable();
            assert_eq!(values, found, "{n}");
        }
    }

    #[test]
    fn the_largest_values_do_not_overflow() {
        // Debug builds see an overflow.
        for sign in [1, -1] {
            let mut values = vec![127 * sign; 1024];
            transform(&mut values);
            assert!(values.iter().all(|x| x.abs() < 10 * P));
        }
    }

    #[test]
    fn multiples_and_their_neighbours() {
        for k in [0, 1, -1, 77, -1234, i64::from(i32::MAX), i64::MAX / i64::from(P)] {
            let multiple = k * i64::from(P);
            assert!(is_multiple(multiple), "{k}");
            for near in [multiple - 1, multiple + 1, multiple - i64::from(P) / 2] {
                assert!(!is_multiple(near), "{k}");
            }
        }
    }

    #[test]
    fn values_at_the_roots_are_the_polynomials() {
        let f: Vec<i8> = (0..16).map(|i| i * 7 % 31 - 15).collect();
        let g: Vec<i8> = (0..16).map(|i| i * 5 % 29 - 14).collect();
        let values = evaluate(&f, &g);
        for (k, value) in values.iter().enumerate() {
            let mut expected = [0.0; 2];
            for j in 0..16 {
                let angle = std::f64::consts::PI * ((2 * k + 1) * j) as f64 / 16.0;
                let (a, b) = (f64::from(f[j]), f64::from(g[j]));
                expected[0] += a * angle.cos() - b * angle.sin();
                expected[1] += a * angle.sin() + b * angle.cos();
            }
            assert!((value[0] - expected[0]).abs() < 1e-9, "{k}");
            assert!((value[1] - expected[1]).abs() < 1e-9, "{k}");
        }
    }

    #[test]
    fn small_integers_are_those_of_the_crates() {
        for key in keys() {
            let basis = Basis::decode(key.params(), key.bytes()).unwrap();
            let (bits, fg_len) = (key.params().bits_fg(), key.params().n() * 5 / 8);
            let mut again = vec![0; fg_len.max(key.params().n() * bits as usize / 8)];
            if key.params().design == Design::Falcon {
                let len = fn_dsa_comm::codec::trim_i8_encode(&basis.f, bits, &mut again);
                assert_eq!(again[..len], key.bytes()[1..1 + len]);
            }
        }
        for (design, byte) in [(Design::Falcon, 0b1000_0010), (Design::FnDsaDraft, 0b0001_1000)] {
            // 1000 is the most negative of 4 bits.
            assert!(decode_small(design, &[byte], 4).is_none());
        }
        let falcon = decode_small(Design::Falcon, &[0x1e, 0xf2], 4).unwrap();
        assert_eq!(falcon[..], [1, -2, -1, 2]);
        let fn_dsa = decode_small(Design::FnDsaDraft, &[0x1e, 0xf2], 4).unwrap();
        assert_eq!(fn_dsa[..], [-2, 1, 2, -1]);
    }
}
