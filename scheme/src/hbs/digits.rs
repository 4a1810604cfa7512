//! Winternitz digits (RFC 8554, sections 3.1.3 and 4.4; RFC 8391, section 2.6).

/// Digit i of w bits, 1, 2, 4 or 8, of a byte string: coef(S, i, w).
pub(crate) fn digit(bytes: &[u8], i: usize, w: u32) -> u32 {
    let in_byte = 8 / w as usize;
    let shift = 8 - w * (i % in_byte + 1) as u32;
    u32::from(bytes[i / in_byte]) >> shift & ((1 << w) - 1)
}

/// Returns the checksum of a digest's digits of w bits, before the shift: the sum of each digit's
/// distance from its greatest value (RFC 8554, Algorithm 2). For 32 bytes and w of 8 it is 8160 at
/// most.
pub(crate) fn checksum(digest: &[u8], w: u32) -> u32 {
    let digits = digest.len() * 8 / w as usize;
    (0..digits).map(|i| (1 << w) - 1 - digit(digest, i, w)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of RFC 8554, section 3.1.3.
    #[test]
    fn digits_are_those_of_the_standard() {
        let s = [0x12, 0x34];
        assert_eq!((digit(&s, 7, 1), digit(&s, 0, 4)), (0, 1));
        assert_eq!([3, 2, 1, 0].map(|i| digit(&s, i, 4)), [4, 3, 2, 1]);
        assert_eq!((0..8).map(|i| digit(&s, i, 2)).collect::<Vec<_>>(), [0, 1, 0, 2, 0, 3, 1, 0]);
        assert_eq!([0, 1].map(|i| digit(&s, i, 8)), [0x12, 0x34]);
        assert_eq!((0..16).map(|i| digit(&s, i, 1)).sum::<u32>(), 5);
    }

    #[test]
    fn checksum_sums_the_missing_steps() {
        for (w, most) in [(1, 256), (2, 3 * 128), (4, 15 * 64), (8, 255 * 32)] {
            assert_eq!(checksum(&[0; 32], w), most);
            assert_eq!(checksum(&[0xff; 32], w), 0);
            assert_eq!(checksum(&[[0xff; 31].as_slice(), &[0xfe]].concat(), w), 1);
        }
    }
}
