//! The part of the seam that Ed25519 uses: whole curve operations, many at a time.
//!
//! An instruction set supplies the work on the curve: multiples of the base point, and the equation
//! that verification checks. Hashing, scalars modulo L and the rules on encodings stay in the flow
//! ([`crate::ed25519`]), so that all backends follow the same rules.
//!
//! The functions of this module are the portable implementation, over curve25519-dalek. A backend
//! with vector lanes overrides them; the others use them unchanged.

use std::sync::atomic::{AtomicU32, Ordering};

use curve25519_dalek::edwards::{CompressedEdwardsY, EdwardsPoint};
pub use curve25519_dalek::scalar::Scalar;
use curve25519_dalek::traits::{IsIdentity, VartimeMultiscalarMul};
use once_cell::race::OnceBox;

/// An affine point in the form that is added: y + x, y - x and 2dxy modulo 2^255 - 19, five limbs of
/// radix 2^51 each (below 2^51 + 2^15), and one word unused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct PointRow(pub [u64; 16]);

/// Bits that lie between the pieces of [`EdPoint::rows`].
pub const ROW_PIECE_BITS: usize = 65;
/// Pieces of [`EdPoint::rows`].
pub const ROW_PIECES: usize = 4;
/// Rows of one piece: the multiples 1 to 16.
pub const ROWS_PER_PIECE: usize = 16;
/// Bytes that [`EdPoint::rows`] take once they are made: 8 KiB.
pub const ROWS_LEN: usize = ROW_PIECES * ROWS_PER_PIECE * size_of::<PointRow>();

/// Uses of a key after which its multiples are worth making: they cost about as much as one
/// verification, and save more than half of each.
const USES_BEFORE_ROWS: u32 = 2;

/// A public key's point A, decoded, with precomputed multiples of the backend. Public.
#[derive(Debug)]
pub struct EdPoint {
    encoded: [u8; 32],
    /// -A.
    negated: EdwardsPoint,
    /// Multiples of -A: `rows[16 j + i - 1] = i * 2^(65 j) * -A` for i in 1..=16, j in 0..4.
    rows: OnceBox<Vec<PointRow>>,
    /// Verifications so far, until the rows are made.
    uses: AtomicU32,
}

impl EdPoint {
    /// Decodes a point (RFC 8032, section 5.1.3), a y of p and above and a set sign for x = 0
    /// included: which encodings are admitted is the flow's to say. None if there is no such point.
    pub fn decode(encoded: &[u8; 32]) -> Option<EdPoint> {
        let negated = -CompressedEdwardsY(*encoded).decompress()?;
        let (rows, uses) = (OnceBox::new(), AtomicU32::new(0));
        Some(EdPoint { encoded: *encoded, negated, rows, uses })
    }

    /// The bytes that were decoded.
    pub fn encoded(&self) -> &[u8; 32] {
        &self.encoded
    }

    /// Multiples of -A (see the field), for backends that use them; `make` makes them once the key
    /// has been used some times. Counts a use.
    pub fn rows(&self, make: impl FnOnce() -> Vec<PointRow>) -> Option<&[PointRow]> {
        if let Some(rows) = self.rows.get() {
            return Some(rows);
        }
        if self.uses.fetch_add(1, Ordering::Relaxed) < USES_BEFORE_ROWS {
            return None;
        }
        // At worst two threads make it. No thread waits: a forked child lacks the thread that makes
        // the rows.
        let make = || {
            let rows = make();
            assert_eq!(rows.len(), ROW_PIECES * ROWS_PER_PIECE, "rows are made whole");
            Box::new(rows)
        };
        Some(self.rows.get_or_init(make))
    }
}

/// The key of a verification.
#[derive(Clone, Copy)]
pub enum EdKey<'a> {
    /// Encoded; decoded on the way.
    Encoded(&'a [u8; 32]),
    /// Decoded before.
    Decoded(&'a EdPoint),
}

impl<'a> EdKey<'a> {
    /// The encoded key.
    pub fn encoded(self) -> &'a [u8; 32] {
        match self {
            EdKey::Encoded(bytes) => bytes,
            EdKey::Decoded(point) => point.encoded(),
        }
    }
}

/// The equation of a verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EdEquation {
    /// The encoding of `[s]B - [k]A` is R, byte for byte (RFC 8032, section 5.1.7, without the
    /// cofactor).
    Cofactorless,
    /// `[8]([s]B - [k]A - R)` is the neutral element (ZIP 215).
    Cofactored,
}

/// One verification's numbers.
#[derive(Clone, Copy)]
pub struct EdVerify<'a> {
    /// A.
    pub key: EdKey<'a>,
    /// The encoding of R.
    pub r: &'a [u8; 32],
    /// S, below L.
    pub s: &'a [u8; 32],
    /// The hash modulo L, as a number below L: for an A with a small-order part it is this very
    /// number that counts.
    pub k: &'a [u8; 32],
}

/// A number modulo L.
pub fn scalar(bytes: &[u8; 32]) -> Scalar {
    Scalar::from_bytes_mod_order(*bytes)
}

/// A number of 128 bits modulo L.
pub fn short_scalar(bytes: &[u8; 16]) -> Scalar {
    Scalar::from(u128::from_le_bytes(*bytes))
}

/// The encodings of `[scalar]B`; scalars are below L. Constant time.
pub fn base_multiples(scalars: &[[u8; 32]], out: &mut [[u8; 32]]) {
    for (bytes, out) in scalars.iter().zip(out) {
        *out = EdwardsPoint::mul_base(&scalar(bytes)).compress().0;
    }
}

/// Returns whether the equation holds; false where A, or in the cofactored equation R, is no point.
pub fn verify_vartime(equation: EdEquation, job: &EdVerify<'_>) -> bool {
    let decoded;
    let negated = match job.key {
        EdKey::Decoded(point) => &point.negated,
        EdKey::Encoded(bytes) => match CompressedEdwardsY(*bytes).decompress() {
            Some(point) => {
                decoded = -point;
                &decoded
            }
            None => return false,
        },
    };
    let (k, s) = (scalar(job.k), scalar(job.s));
    let point = EdwardsPoint::vartime_double_scalar_mul_basepoint(&k, negated, &s);
    match equation {
        EdEquation::Cofactorless => point.compress().0 == *job.r,
        EdEquation::Cofactored => CompressedEdwardsY(*job.r)
            .decompress()
            .is_some_and(|r| (point - r).mul_by_cofactor().is_identity()),
    }
}

/// Returns whether `[8] sum of z ([s]B - [k]A - R)` is the neutral element, and every A and R a
/// point; `z` holds one number for each job.
pub fn sum_vartime(jobs: &[EdVerify<'_>], z: &[[u8; 16]]) -> bool {
    let mut scalars = vec![Scalar::ZERO];
    let mut points = vec![curve25519_dalek::constants::ED25519_BASEPOINT_POINT];
    for (job, z) in jobs.iter().zip(z) {
        let z = short_scalar(z);
        let negated = match job.key {
            EdKey::Decoded(point) => Some(point.negated),
            EdKey::Encoded(bytes) => CompressedEdwardsY(*bytes).decompress().map(|point| -point),
        };
        let (Some(negated), Some(r)) = (negated, CompressedEdwardsY(*job.r).decompress()) else {
            return false;
        };
        scalars[0] += z * scalar(job.s);
        scalars.extend([z * scalar(job.k), z]);
        points.extend([negated, -r]);
    }
    EdwardsPoint::vartime_multiscalar_mul(&scalars, &points).mul_by_cofactor().is_identity()
}
