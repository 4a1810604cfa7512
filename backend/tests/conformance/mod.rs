//! The conformance tests of [`Kernels`]: the standards' definitions, computed slowly with integers,
//! and the bounds and shapes of the trait's contract.
//!
//! ```text
//!   tests/portable_kernels.rs --+
//!   tests/..._kernels.rs -------+--> check_all(&K) --> sponge, kem, dsa, slh, lms, curves, misuse
//!                                                        `--> reference (definitions)
//! ```
//!
//! Residues are brought into 0..q before they are compared; bounds are asserted separately. Numbers
//! of polynomials and sponges go round the lane counts of vector units (1..=17, 33).

use gabion_scheme::kernels::Kernels;

pub mod dsa;
pub mod dsa_rounding;
pub mod ed25519;
pub mod kem;
pub mod kem_sampling;
pub mod lms;
pub mod misuse;
pub mod reference;
pub mod slh;
mod slh_fors;
pub mod sponge;
pub mod x25519;
pub mod xmss;

/// Runs every check against `k`.
#[allow(dead_code)]
pub fn check_all(k: &dyn Kernels) {
    sponge::check(k);
    kem::check(k);
    kem_sampling::check(k);
    dsa::check(k);
    dsa_rounding::check(k);
    slh::check(k);
    lms::check(k);
    xmss::check(k);
    ed25519::check(k);
    x25519::check(k);
    misuse::check(k);
}

/// Returns how many polynomials or sponges the calls of a check hold.
pub fn counts() -> impl Iterator<Item = usize> {
    (0..=17).chain([33])
}
