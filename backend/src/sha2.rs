//! The round constants of SHA-2 (FIPS 180-4, section 4.2), worked out by the compiler.

/// Of SHA-512: 64 bits of the fractional parts of the cube roots of the first 80 primes.
pub(crate) const SHA512_ROUNDS: [u64; 80] = {
    let mut constants = [0; 80];
    let (mut found, mut candidate) = (0, 2);
    while found < 80 {
        if is_prime(candidate) {
            constants[found] = fraction_of_cube_root(candidate);
            found += 1;
        }
        candidate += 1;
    }
    constants
};

/// Of SHA-256: 32 bits of the same, of the first 64 primes.
pub(crate) const SHA256_ROUNDS: [u32; 64] = {
    let mut constants = [0; 64];
    let mut i = 0;
    while i < 64 {
        constants[i] = (SHA512_ROUNDS[i] >> 32) as u32;
        i += 1;
    }
    constants
};

const fn is_prime(n: u32) -> bool {
    let mut divisor = 2;
    while divisor * divisor <= n {
        if n.is_multiple_of(divisor) {
            return false;
        }
        divisor += 1;
    }
    true
}

/// The largest x with x^3 < p * 2^192, less its whole part, which lies above 64 bits.
const fn fraction_of_cube_root(p: u32) -> u64 {
    // Below 2^67, bit by bit from the top.
    let mut x = 0u128;
    let mut bit = 67;
    while bit > 0 {
        bit -= 1;
        if cube_over_2_192(x | 1 << bit) < p {
            x |= 1 << bit;
        }
    }
    x as u64
}

/// x^3 / 2^192 for x below 2^67, with limbs of 32 bits.
const fn cube_over_2_192(x: u128) -> u32 {
    let x = [x as u32, (x >> 32) as u32, (x >> 64) as u32];
    let mut product = [1, 0, 0, 0, 0, 0, 0];
    let mut power = 0;
    while power < 3 {
        let mut next = [0u32; 7];
        let mut i = 0;
        while i < 3 {
            let (mut carry, mut j) = (0u64, 0);
            while i + j < 7 {
                let sum = next[i + j] as u64 + x[i] as u64 * product[j] as u64 + carry;
                next[i + j] = sum as u32;
                carry = sum >> 32;
                j += 1;
            }
            i += 1;
        }
        product = next;
        power += 1;
    }
    product[6]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_and_the_last_are_those_of_the_standard() {
        assert_eq!(SHA512_ROUNDS[0], 0x428a_2f98_d728_ae22);
        assert_eq!(SHA512_ROUNDS[79], 0x6c44_198c_4a47_5817);
        assert_eq!(SHA256_ROUNDS[63], 0xc671_78f2);
    }
}
