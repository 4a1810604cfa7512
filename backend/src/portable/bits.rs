//! Packing of 256 coefficients into fields of a fixed width, and back.
//!
//! Both standards write coefficients least significant bit first (BitsToBytes: FIPS 203,
//! Algorithm 3; FIPS 204, Algorithm 12), so a group of coefficients whose bits end on a byte border
//! is one little-endian integer. `u128` holds such a group for every width up to 20 bits.

use gabion_scheme::kernels::N;

/// Returns the number of coefficients in one group: 8 if they fit 128 bits, 4 for the wide ones (18
/// and 20 bits).
const fn group(bits: usize) -> usize {
    if bits <= 16 { 8 } else { 4 }
}

/// Writes `value(0..256)`, `BITS` bits each, into `32 * BITS` bytes. Values are below 2^BITS.
#[inline(always)]
pub(super) fn pack<const BITS: usize>(out: &mut [u8], value: impl Fn(usize) -> u32) {
    assert_eq!(out.len(), N / 8 * BITS, "a packed polynomial has 32 bytes a bit");
    let group_bytes = const { group(BITS) * BITS / 8 };
    for (g, chunk) in out.chunks_exact_mut(group_bytes).enumerate() {
        let mut acc = 0u128;
        for i in 0..const { group(BITS) } {
            acc |= u128::from(value(g * group(BITS) + i)) << (i * BITS);
        }
        chunk.copy_from_slice(&acc.to_le_bytes()[..group_bytes]);
    }
}

/// Reads `32 * BITS` bytes as 256 fields of `BITS` bits and hands each to `put`.
#[inline(always)]
pub(super) fn unpack<const BITS: usize>(bytes: &[u8], mut put: impl FnMut(usize, u32)) {
    assert_eq!(bytes.len(), N / 8 * BITS, "a packed polynomial has 32 bytes a bit");
    let group_bytes = const { group(BITS) * BITS / 8 };
    let mask = const { (1u32 << BITS) - 1 };
    for (g, chunk) in bytes.chunks_exact(group_bytes).enumerate() {
        let mut le = [0u8; 16];
        le[..group_bytes].copy_from_slice(chunk);
        let acc = u128::from_le_bytes(le);
        for i in 0..const { group(BITS) } {
            put(g * group(BITS) + i, (acc >> (i * BITS)) as u32 & mask);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packs, compares bit by bit, and unpacks again.
    fn check<const BITS: usize>() {
        let values: [u32; N] =
            std::array::from_fn(|i| (i as u32 + 1).wrapping_mul(0x9e37_79b1) >> (32 - BITS));
        for values in [values, [(1 << BITS) - 1; N], [0; N]] {
            let mut bytes = vec![0xa5; 32 * BITS];
            pack::<BITS>(&mut bytes, |i| values[i]);
            for (at, bit) in (0..N * BITS).map(|at| (at, bytes[at / 8] >> (at % 8) & 1)) {
                let want = values[at / BITS] >> (at % BITS) & 1;
                assert_eq!(u32::from(bit), want, "bit {at} of {BITS}-bit fields");
            }
            let mut back = [0; N];
            unpack::<BITS>(&bytes, |i, v| back[i] = v);
            assert_eq!(back, values, "{BITS}-bit fields");
        }
    }

    #[test]
    fn every_width() {
        check::<1>();
        check::<3>();
        check::<4>();
        check::<5>();
        check::<6>();
        check::<10>();
        check::<11>();
        check::<12>();
        check::<13>();
        check::<18>();
        check::<20>();
    }
}
