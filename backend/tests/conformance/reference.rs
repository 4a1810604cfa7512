//! The standards' definitions in plain integer arithmetic, and inputs to try them with.

use gabion_scheme::kernels::{DSA_Q, DsaPoly, KEM_Q, KemPoly, N};

pub const KQ: i64 = KEM_Q as i64;
pub const DQ: i64 = DSA_Q as i64;

/// A small generator (xorshift64*), so that failures repeat.
pub struct Rng(u64);

impl Rng {
    pub fn new(start: u64) -> Self {
        Rng(start.wrapping_mul(2).wrapping_add(1))
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 11) % bound
    }

    /// Uniform in `low..=high`.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low + 1) as u64) as i64
    }

    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| (self.next() >> 56) as u8).collect()
    }
}

/// Coefficients within `low..=high`: `which` chooses an extreme pattern, or random from 6 on.
fn pattern(rng: &mut Rng, which: usize, low: i64, high: i64) -> [i64; N] {
    std::array::from_fn(|i| match which {
        0 => low,
        1 => high,
        2 => [low, high][i % 2],
        3 => [low, high][i / 2 % 2],
        4 => [low, high][i / 128],
        5 => [low, high][rng.below(2) as usize],
        _ => rng.between(low, high),
    })
}

/// `count` polynomials within `low..=high`, the extreme patterns among them.
pub fn kem_polys(rng: &mut Rng, count: usize, low: i64, high: i64) -> Vec<KemPoly> {
    let first = rng.below(8) as usize;
    (0..count)
        .map(|i| KemPoly(pattern(rng, (first + i) % 8, low, high).map(|x| x as i16)))
        .collect()
}

/// `count` polynomials within `low..=high`, the extreme patterns among them.
pub fn dsa_polys(rng: &mut Rng, count: usize, low: i64, high: i64) -> Vec<DsaPoly> {
    let first = rng.below(8) as usize;
    (0..count)
        .map(|i| DsaPoly(pattern(rng, (first + i) % 8, low, high).map(|x| x as i32)))
        .collect()
}

/// The coefficients as integers in 0..q.
pub fn kem_canonical(p: &KemPoly) -> [i64; N] {
    p.0.map(|x| i64::from(x).rem_euclid(KQ))
}

/// The coefficients as integers in 0..q.
pub fn dsa_canonical(p: &DsaPoly) -> [i64; N] {
    p.0.map(|x| i64::from(x).rem_euclid(DQ))
}

/// Asserts |x| < bound.
pub fn assert_kem_below(p: &KemPoly, bound: i64, what: &str) {
    assert!(
        p.0.iter().all(|&x| i64::from(x).abs() < bound),
        "{what}: a coefficient of {bound} or above"
    );
}

/// Asserts |x| < bound.
pub fn assert_dsa_below(p: &DsaPoly, bound: i64, what: &str) {
    assert!(
        p.0.iter().all(|&x| i64::from(x).abs() < bound),
        "{what}: a coefficient of {bound} or above"
    );
}

pub fn pow_mod(base: i64, exponent: u64, q: i64) -> i64 {
    let mut result = 1;
    for bit in (0..64).rev() {
        result = result * result % q;
        if exponent >> bit & 1 == 1 {
            result = result * base % q;
        }
    }
    result
}

/// BitRev of `bits` bits, a bit at a time.
pub fn bit_rev(x: u64, bits: u32) -> u64 {
    (0..bits).map(|i| (x >> i & 1) << (bits - 1 - i)).sum()
}

/// `x mod+- m`: the representative in -ceil(m/2) < r <= floor(m/2) (FIPS 204, section 2.3).
pub fn mod_pm(x: i64, m: i64) -> i64 {
    let r = x.rem_euclid(m);
    if r > m / 2 { r - m } else { r }
}

/// The product of two polynomials modulo X^256 + 1 and q.
pub fn multiply(a: &[i64; N], b: &[i64; N], q: i64) -> [i64; N] {
    let mut product = [0; N];
    for (i, x) in a.iter().enumerate() {
        for (j, y) in b.iter().enumerate() {
            let term = x * y % q;
            let sign = if i + j < N { 1 } else { -1 };
            product[(i + j) % N] += sign * term;
        }
    }
    product.map(|x| x.rem_euclid(q))
}

/// The gamma of pair `i` (FIPS 203, equation 4.12): 17^(2 BitRev7(i) + 1).
pub fn kem_gamma(i: usize) -> i64 {
    pow_mod(17, 2 * bit_rev(i as u64, 7) + 1, KQ)
}

/// FIPS 203, equation 4.12: the residues modulo X^2 - gamma_i, in order of i.
pub fn kem_ntt(f: &[i64; N]) -> [i64; N] {
    let mut f_hat = [0; N];
    for i in 0..N / 2 {
        let gamma = kem_gamma(i);
        let mut power = 1;
        for j in 0..N / 2 {
            f_hat[2 * i] = (f_hat[2 * i] + f[2 * j] * power) % KQ;
            f_hat[2 * i + 1] = (f_hat[2 * i + 1] + f[2 * j + 1] * power) % KQ;
            power = power * gamma % KQ;
        }
    }
    f_hat
}

/// FIPS 203, Algorithm 11 (MultiplyNTTs).
pub fn kem_multiply_ntts(f: &[i64; N], g: &[i64; N]) -> [i64; N] {
    let mut h = [0; N];
    for i in 0..N / 2 {
        let (f0, f1, g0, g1) = (f[2 * i], f[2 * i + 1], g[2 * i], g[2 * i + 1]);
        h[2 * i] = (f0 * g0 + f1 * g1 % KQ * kem_gamma(i)) % KQ;
        h[2 * i + 1] = (f0 * g1 + f1 * g0) % KQ;
    }
    h
}

/// FIPS 204, equation 2.4: the values at 1753^(2 BitRev8(i) + 1), in order of i.
pub fn dsa_ntt(w: &[i64; N]) -> [i64; N] {
    std::array::from_fn(|i| {
        let x = pow_mod(1753, 2 * bit_rev(i as u64, 8) + 1, DQ);
        w.iter().rev().fold(0, |value, coefficient| (value * x + coefficient) % DQ)
    })
}

/// BitsToBytes of 256 values, least significant bit first, a bit at a time.
pub fn pack(values: &[i64; N], bits: usize) -> Vec<u8> {
    let mut out = vec![0u8; N / 8 * bits];
    for (i, &value) in values.iter().enumerate() {
        assert!((0..1 << bits).contains(&value), "{value} does not fit {bits} bits");
        for j in 0..bits {
            let at = i * bits + j;
            out[at / 8] |= ((value >> j & 1) as u8) << (at % 8);
        }
    }
    out
}

/// BytesToBits, 256 values of `bits` bits, a bit at a time.
pub fn unpack(bytes: &[u8], bits: usize) -> [i64; N] {
    std::array::from_fn(|i| {
        (0..bits)
            .map(|j| i64::from(bytes[(i * bits + j) / 8] >> ((i * bits + j) % 8) & 1) << j)
            .sum()
    })
}
