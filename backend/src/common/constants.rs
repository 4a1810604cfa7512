//! Compile-time number theory: the roots of unity and the inverses that the NTTs need, and the forms
//! in which vector kernels multiply by them.
//!
//! Everything here is evaluated by the compiler only, so the divisions below never meet a secret.

/// `base^exponent mod modulus`.
pub(crate) const fn pow_mod(base: u64, mut exponent: u32, modulus: u64) -> u64 {
    let mut result = 1;
    let mut square = base % modulus;
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = result * square % modulus;
        }
        square = square * square % modulus;
        exponent >>= 1;
    }
    result
}

/// The representative of `x` modulo an odd `modulus` that is nearest to zero.
pub(crate) const fn centred(x: u64, modulus: u64) -> i64 {
    let x = (x % modulus) as i64;
    let modulus = modulus as i64;
    if x > modulus / 2 { x - modulus } else { x }
}

/// The lowest `bits` bits of `x` in reverse order (FIPS 203, 2.3; FIPS 204, Algorithm 43).
pub(crate) const fn bit_reverse(x: usize, bits: u32) -> u32 {
    (x as u32).reverse_bits() >> (32 - bits)
}

/// The inverse of an odd `q` modulo 2^32; its low half is the inverse modulo 2^16.
///
/// Newton's iteration doubles the number of right bits; an odd number is its own inverse modulo 8.
pub(crate) const fn inverse_mod_2_32(q: u32) -> u32 {
    let mut inverse = q;
    let mut right_bits = 3;
    while right_bits < 32 {
        inverse = inverse.wrapping_mul(2u32.wrapping_sub(q.wrapping_mul(inverse)));
        right_bits *= 2;
    }
    inverse
}

/// The contents of two registers of `W` items: indices into the pair as it lies in memory.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) type Pair<const W: usize> = [[usize; W]; 2];

/// A pair of registers as it lies in memory.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) const fn in_order<const W: usize>() -> Pair<W> {
    let mut pair = [[0; W]; 2];
    let mut i = 0;
    while i < W {
        pair[0][i] = i;
        pair[1][i] = W + i;
        i += 1;
    }
    pair
}

/// Returns even runs of `run` items of both registers, alternating, and odd runs. This brings
/// operands that lie `run` items apart to equal places of two registers, and is its own inverse.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) const fn exchange<const W: usize>(x: &Pair<W>, run: usize) -> Pair<W> {
    let mut out = [[0; W]; 2];
    let mut i = 0;
    while i < W {
        let from = i / run % 2;
        out[0][i] = x[from][i - from * run];
        out[1][i] = x[from][i - from * run + run];
        i += 1;
    }
    out
}

/// For each set of eight, the places of its members, in order.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) static MEMBERS: [[u8; 8]; 256] = {
    let mut members = [[0; 8]; 256];
    let mut set = 0;
    while set < 256 {
        let (mut place, mut count) = (0, 0);
        while place < 8 {
            if set >> place & 1 == 1 {
                members[set][count] = place as u8;
                count += 1;
            }
            place += 1;
        }
        set += 1;
    }
    members
};

/// Constants of ML-KEM.
pub(crate) mod kem {
    use gabion_scheme::kernels::KEM_Q;

    use super::{bit_reverse, centred, inverse_mod_2_32, pow_mod};

    const Q: u64 = KEM_Q as u64;
    /// The primitive 256th root of unity (FIPS 203, section 4.3).
    const ROOT: u64 = 17;
    /// q^-1 mod 2^16, signed.
    pub(crate) const Q_INVERSE: i16 = inverse_mod_2_32(KEM_Q as u32) as i16;

    /// A constant z as Montgomery's method with R = 2^16 takes it: z R mod q, centred, and that
    /// times q^-1 mod 2^16.
    #[derive(Clone, Copy)]
    pub(crate) struct Factor(pub(crate) i16, pub(crate) i16);

    impl Factor {
        pub(crate) const fn new(z: u64) -> Self {
            let montgomery = centred((z % Q) << 16, Q) as i16;
            Factor(montgomery, montgomery.wrapping_mul(Q_INVERSE))
        }
    }

    /// zeta^BitRev7(i): the roots of Algorithms 9 and 10.
    pub(crate) const fn zeta(i: usize) -> u64 {
        pow_mod(ROOT, bit_reverse(i, 7), Q)
    }

    /// zeta^(2 BitRev7(i) + 1): the gammas of Algorithm 11.
    pub(crate) const fn gamma(i: usize) -> u64 {
        pow_mod(ROOT, 2 * bit_reverse(i, 7) + 1, Q)
    }
}

/// Constants of ML-DSA.
pub(crate) mod dsa {
    use gabion_scheme::kernels::DSA_Q;

    #[cfg(target_arch = "x86_64")]
    use super::centred;
    use super::{bit_reverse, inverse_mod_2_32, pow_mod};

    const Q: u64 = DSA_Q as u64;
    /// The primitive 512th root of unity (FIPS 204, section 2.5).
    const ROOT: u64 = 1753;
    /// q^-1 mod 2^32.
    pub(crate) const Q_INVERSE: i32 = inverse_mod_2_32(DSA_Q as u32) as i32;

    /// A constant z as Barrett's method takes it: z, centred, and round(2^32 z / q).
    #[cfg(target_arch = "x86_64")]
    #[derive(Clone, Copy)]
    pub(crate) struct Factor(pub(crate) i32, pub(crate) i32);

    #[cfg(target_arch = "x86_64")]
    impl Factor {
        pub(crate) const fn new(z: u64) -> Self {
            let z = centred(z, Q);
            let numerator = (z << 32) + Q as i64 / 2;
            Factor(z as i32, numerator.div_euclid(Q as i64) as i32)
        }
    }

    /// The coefficient of a half byte (Algorithm 15); 0 for a rejected one.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    pub(crate) const fn half_byte(eta: i8, b: i8) -> i8 {
        match eta {
            2 if b < 15 => 2 - b % 5,
            4 if b < 9 => 4 - b,
            _ => 0,
        }
    }

    /// zeta^BitRev8(i): the roots of Algorithms 41 and 42.
    pub(crate) const fn zeta(i: usize) -> u64 {
        pow_mod(ROOT, bit_reverse(i, 8), Q)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers() {
        assert_eq!(pow_mod(3, 0, 7), 1);
        assert_eq!(pow_mod(17, 128, 3329), 3328);
        for base in 1..100 {
            assert_eq!(pow_mod(base, 3328, 3329), 1, "Fermat, {base}");
            assert_eq!(pow_mod(base, 5, 1009), base.pow(5) % 1009);
        }
    }

    #[test]
    fn centred_is_nearest_to_zero() {
        for x in 0..40 {
            let r = centred(x, 13);
            assert!((-6..=6).contains(&r) && (x as i64 - r) % 13 == 0, "{x} to {r}");
        }
    }

    #[test]
    fn bits_in_reverse() {
        assert_eq!(bit_reverse(0b000_0001, 7), 0b100_0000);
        assert_eq!(bit_reverse(0b1100_0010, 8), 0b0100_0011);
        assert!((0..128).all(|x| bit_reverse(bit_reverse(x, 7) as usize, 7) as usize == x));
    }

    #[test]
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    fn exchanges() {
        let pair = in_order::<4>();
        assert_eq!(exchange(&pair, 1), [[0, 4, 2, 6], [1, 5, 3, 7]]);
        assert_eq!(exchange(&pair, 2), [[0, 1, 4, 5], [2, 3, 6, 7]]);
        assert_eq!(exchange(&exchange(&pair, 1), 1), pair);
    }

    #[test]
    fn inverses() {
        for q in [1, 3, 3329, 8_380_417, u32::MAX] {
            assert_eq!(inverse_mod_2_32(q).wrapping_mul(q), 1, "inverse of {q}");
        }
    }
}
