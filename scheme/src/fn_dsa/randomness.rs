//! The crates' trait for randomness, over what one lane was given.

use falcon::RngError;
use fn_dsa::{CryptoRng, RngCore};
use sha3::digest::{ExtendableOutput, Update, XofReader};
use sha3::{Shake256, Shake256Reader};
use zeroize::Zeroize;

use super::params::RANDOM_LEN;

/// The random bytes of a lane: first the given bytes, then unlimited output of SHAKE256 from a
/// seed.
pub(super) struct Randomness {
    given: [u8; RANDOM_LEN],
    /// The number of unread bytes of `given`, which are the last ones.
    left: usize,
    rest: Shake256Reader,
}

impl Randomness {
    /// First `given` (40 bytes at most) as it is, then SHAKE256(given).
    pub(super) fn from_bytes(given: &[u8]) -> Self {
        let mut source = Self::expand(&[given]);
        source.left = given.len().min(RANDOM_LEN);
        source.given[RANDOM_LEN - source.left..].copy_from_slice(&given[..source.left]);
        source
    }

    /// SHAKE256 of the parts, one behind the other.
    pub(super) fn expand(parts: &[&[u8]]) -> Self {
        let mut sponge = Shake256::default();
        for part in parts {
            sponge.update(part);
        }
        Randomness { given: [0; RANDOM_LEN], left: 0, rest: sponge.finalize_xof() }
    }
}

impl Drop for Randomness {
    fn drop(&mut self) {
        self.given.zeroize();
    }
}

impl CryptoRng for Randomness {}

impl RngCore for Randomness {
    fn next_u32(&mut self) -> u32 {
        let mut bytes = [0; 4];
        self.fill_bytes(&mut bytes);
        u32::from_le_bytes(bytes)
    }

    fn next_u64(&mut self) -> u64 {
        let mut bytes = [0; 8];
        self.fill_bytes(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    fn fill_bytes(&mut self, out: &mut [u8]) {
        let (first, rest) = out.split_at_mut(self.left.min(out.len()));
        let start = RANDOM_LEN - self.left;
        first.copy_from_slice(&self.given[start..start + first.len()]);
        self.left -= first.len();
        if !rest.is_empty() {
            self.rest.read(rest);
        }
    }

    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), RngError> {
        self.fill_bytes(out);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_randomness_precedes_sponge_output() {
        let given: [u8; 32] = std::array::from_fn(|i| i as u8);
        let mut sponge = [0; 100];
        Randomness::expand(&[&given[..7], &given[7..]]).fill_bytes(&mut sponge);
        let expected: Vec<u8> = given.iter().chain(&sponge).copied().collect();
        for step in [1, 3, 8, 31, 32, 33, 64] {
            let mut source = Randomness::from_bytes(&given);
            let mut out = vec![0; expected.len()];
            for chunk in out.chunks_mut(step) {
                source.fill_bytes(chunk);
            }
            assert_eq!(out, expected, "in steps of {step}");
        }
    }

    #[test]
    fn the_sponge_is_shake256() {
        let mut out = [0; 4];
        Randomness::expand(&[]).fill_bytes(&mut out);
        // FIPS 202: SHAKE256 of the empty string.
        assert_eq!(out, [0x46, 0xb9, 0xdd, 0x2b]);
    }
}
