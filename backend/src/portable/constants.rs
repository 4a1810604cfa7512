//! Compile-time number theory: the twiddle factors and inverses that the NTTs need.
//!
//! Everything here is evaluated by the compiler only, so the divisions below never meet a secret.

/// `base^exponent mod modulus`.
pub(super) const fn pow_mod(base: u64, mut exponent: u32, modulus: u64) -> u64 {
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
pub(super) const fn centred(x: u64, modulus: u64) -> i64 {
    let x = (x % modulus) as i64;
    let modulus = modulus as i64;
    if x > modulus / 2 { x - modulus } else { x }
}

/// The lowest `bits` bits of `x` in reverse order (FIPS 203, 2.3; FIPS 204, Algorithm 43).
pub(super) const fn bit_reverse(x: usize, bits: u32) -> u32 {
    (x as u32).reverse_bits() >> (32 - bits)
}

/// The inverse of an odd `q` modulo 2^32; its low half is the inverse modulo 2^16.
///
/// Newton's iteration doubles the number of right bits; an odd number is its own inverse modulo 8.
pub(super) const fn inverse_mod_2_32(q: u32) -> u32 {
    let mut inverse = q;
    let mut right_bits = 3;
    while right_bits < 32 {
        inverse = inverse.wrapping_mul(2u32.wrapping_sub(q.wrapping_mul(inverse)));
        right_bits *= 2;
    }
    inverse
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
    fn inverses() {
        for q in [1, 3, 3329, 8_380_417, u32::MAX] {
            assert_eq!(inverse_mod_2_32(q).wrapping_mul(q), 1, "inverse of {q}");
        }
    }
}
