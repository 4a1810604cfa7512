//! The part of the seam that X25519 uses: multiples of points of the Montgomery curve, many at a
//! time, in constant time.
//!
//! The functions of this module are the portable implementation, over curve25519-dalek. A backend
//! with vector lanes overrides them; the others use them unchanged.

use curve25519_dalek::edwards::EdwardsPoint;
use curve25519_dalek::montgomery::MontgomeryPoint;

use super::ed25519::scalar;

/// u of `[scalar]B`, B the base point (u = 9); scalars are below L and not 0.
pub fn base_multiples(scalars: &[[u8; 32]], out: &mut [[u8; 32]]) {
    for (bytes, out) in scalars.iter().zip(out) {
        *out = EdwardsPoint::mul_base(&scalar(bytes)).to_montgomery().0;
    }
}

/// u of multiples of the points whose u is given (RFC 7748, section 5): scalars are clamped, bit 255
/// of a u is dropped. All zero for points of small order.
pub fn multiples(scalars: &[[u8; 32]], points: &[[u8; 32]], out: &mut [[u8; 32]]) {
    for ((scalar, point), out) in scalars.iter().zip(points).zip(out) {
        // Clamps again, which changes nothing.
        *out = MontgomeryPoint(*point).mul_clamped(*scalar).0;
    }
}
