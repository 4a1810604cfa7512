//! The memory layout of the polynomials of ML-KEM and ML-DSA; [`crate::kernels`] explains their
//! meaning.

use zeroize::Zeroize;

/// The modulus of ML-KEM (FIPS 203, section 2.4).
pub const KEM_Q: i16 = 3329;
/// The modulus of ML-DSA (FIPS 204, section 4): 2^23 - 2^13 + 1.
pub const DSA_Q: i32 = 8_380_417;
/// Coefficients in a polynomial of either scheme.
pub const N: usize = 256;

/// A polynomial of ML-KEM: 256 coefficients modulo [`KEM_Q`].
#[derive(Clone, Debug, PartialEq, Eq, Zeroize)]
#[repr(C, align(64))]
pub struct KemPoly(pub [i16; N]);

/// A polynomial of ML-DSA: 256 coefficients modulo [`DSA_Q`].
#[derive(Clone, Debug, PartialEq, Eq, Zeroize)]
#[repr(C, align(64))]
pub struct DsaPoly(pub [i32; N]);

impl Default for KemPoly {
    fn default() -> Self {
        KemPoly([0; N])
    }
}

impl Default for DsaPoly {
    fn default() -> Self {
        DsaPoly([0; N])
    }
}
