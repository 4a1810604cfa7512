//! The encodings that the strict rules admit. Everything here is public.

/// p = 2^255 - 19, the least significant byte first.
const P: [u8; 32] = {
    let mut p = [0xff; 32];
    (p[0], p[31]) = (0xed, 0x7f);
    p
};

/// y of the points whose order divides 8, but for 0, 1 and p - 1: of one that has order 8, and of
/// its opposite's sum with the point of order 2 (p minus the first).
const ORDER_8: [[u8; 32]; 2] = [
    [
        0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45, 0xc3, 0xf4, 0x89, 0xf2, 0xef, 0x98,
        0xf0, 0xd5, 0xdf, 0xac, 0x05, 0xd3, 0xc6, 0x33, 0x39, 0xb1, 0x38, 0x02, 0x88, 0x6d, 0x53,
        0xfc, 0x05,
    ],
    [
        0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b, 0x76, 0x0d, 0x10, 0x67,
        0x0f, 0x2a, 0x20, 0x53, 0xfa, 0x2c, 0x39, 0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77, 0x92, 0xac,
        0x03, 0x7a,
    ],
];

/// Returns whether bytes may be a point under the strict rules: y is below p, and is not that of a
/// point of small order. Such a y belongs to points of small order only, so that the sign does not
/// matter; and as x = 0 has small order, nothing is left whose sign could be wrong. Says nothing
/// about whether there is a point with this y.
pub(super) fn is_admitted(bytes: &[u8; 32]) -> bool {
    let mut y = *bytes;
    y[31] &= 0x7f;
    let is_below_p = y.iter().rev().lt(P.iter().rev());
    let is_small = |low: u8, rest: u8, top: u8| {
        y[0] == low && y[1..31].iter().all(|&byte| byte == rest) && y[31] == top
    };
    let has_small_order = is_small(0, 0, 0)
        || is_small(1, 0, 0)
        || is_small(0xec, 0xff, 0x7f)
        || ORDER_8.contains(&y);
    is_below_p && !has_small_order
}

#[cfg(test)]
mod tests {
    use super::*;
    use curve25519_dalek::constants::EIGHT_TORSION;
    use curve25519_dalek::edwards::CompressedEdwardsY;

    #[test]
    fn points_of_small_order_are_refused() {
        for point in EIGHT_TORSION {
            let mut bytes = point.compress().0;
            assert!(!is_admitted(&bytes), "{bytes:02x?}");
            bytes[31] ^= 0x80;
            assert!(!is_admitted(&bytes), "{bytes:02x?}");
            bytes[5] ^= 1;
            assert!(is_admitted(&bytes), "{bytes:02x?}");
        }
    }

    #[test]
    fn refused_encodings_are_not_canonical_or_small_order() {
        let mut bytes = P;
        for low in 0..=255u8 {
            for sign in [0x7f, 0xff] {
                (bytes[0], bytes[31]) = (low, sign);
                // 2^255 - 20 is -1, of small order; from 2^255 - 19 on y is not canonical.
                assert_eq!(is_admitted(&bytes), low < 0xec, "{bytes:02x?}");
                if let Some(point) = CompressedEdwardsY(bytes).decompress() {
                    let is_good = point.compress().0 == bytes && !point.is_small_order();
                    assert_eq!(is_admitted(&bytes), is_good, "{bytes:02x?}");
                }
            }
        }
    }
}
