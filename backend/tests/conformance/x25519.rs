//! X25519 against curve25519-dalek, on ordinary points and on those of small order and odd encoding.

use curve25519_dalek::montgomery::MontgomeryPoint;
use curve25519_dalek::scalar::{Scalar, clamp_integer};
use gabion_scheme::kernels::Kernels;

use super::counts;
use super::reference::Rng;

fn bytes(rng: &mut Rng) -> [u8; 32] {
    core::array::from_fn(|_| (rng.next() >> 56) as u8)
}

/// u = 0, 1, p - 1 (small order), p, p + 1, 2^255 - 1 (not reduced), each with bit 255 and without;
/// then random ones, one in two on the twist.
fn point(rng: &mut Rng, i: usize) -> [u8; 32] {
    let near_p = |low: u8| {
        let mut bytes = [0xff; 32];
        (bytes[0], bytes[31]) = (low, 0x7f);
        bytes
    };
    let small = |low: u8| {
        let mut bytes = [0; 32];
        bytes[0] = low;
        bytes
    };
    let special = [small(0), small(1), near_p(0xec), near_p(0xed), near_p(0xee), near_p(0xff)];
    let mut point = special.get(i / 2 % 10).copied().unwrap_or_else(|| bytes(rng));
    if i % 2 == 1 {
        point[31] ^= 0x80;
    }
    point
}

/// Runs every check of this file.
pub fn check(k: &dyn Kernels) {
    let mut rng = Rng::new(7748);
    let extreme = [[0; 32], [0xff; 32], [0x55; 32], [0xaa; 32]];
    // A few at once may have kernels of their own: often enough to meet every kind of point.
    let few = (0..60).map(|round| 1 + round % 3);
    for count in counts().chain([70]).chain(few) {
        let first = rng.next() as usize % 20;
        let scalar = |i: usize| extreme.get(i % 7).copied().unwrap_or_else(|| bytes(&mut rng));
        let scalars: Vec<_> = (0..count).map(scalar).map(clamp_integer).collect();
        let points: Vec<_> = (0..count).map(|i| point(&mut rng, i + first)).collect();
        let mut out = vec![[1; 32]; count];
        k.x25519_multiples(&scalars, &points, &mut out);
        for (i, out) in out.iter().enumerate() {
            let expected = MontgomeryPoint(points[i]).mul_clamped(scalars[i]);
            assert_eq!(*out, expected.0, "{i} of {count}: {:02x?}", points[i]);
        }
        let reduced = |scalar: &[u8; 32]| Scalar::from_bytes_mod_order(*scalar).to_bytes();
        let reduced: Vec<_> = scalars.iter().map(reduced).collect();
        k.x25519_base_multiples(&reduced, &mut out);
        for (i, out) in out.iter().enumerate() {
            let expected = MontgomeryPoint::mul_base_clamped(scalars[i]);
            assert_eq!(*out, expected.0, "base, {i} of {count}");
        }
    }
}
