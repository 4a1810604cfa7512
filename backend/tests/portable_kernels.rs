//! The portable kernels against the standards' definitions.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.

mod conformance;

use gabion_backend::portable::Portable;
use gabion_scheme::kernels::Kernels;

#[test]
fn sponges() {
    conformance::sponge::check(&Portable);
}

#[test]
fn ml_kem_polynomials() {
    conformance::kem::check(&Portable);
    conformance::kem_sampling::check(&Portable);
}

#[test]
fn ml_dsa_polynomials() {
    conformance::dsa::check(&Portable);
}

#[test]
fn ml_dsa_rounding_and_hints() {
    conformance::dsa_rounding::check(&Portable);
}

#[test]
fn slh_dsa_hashes() {
    conformance::slh::check(&Portable);
}

#[test]
fn lms_hashes() {
    conformance::lms::check(&Portable);
}

#[test]
fn xmss_hashes() {
    conformance::xmss::check(&Portable);
}

#[test]
fn misuse() {
    conformance::misuse::check(&Portable);
}

#[test]
fn report() {
    assert_eq!((Portable.name(), Portable.lanes()), ("portable", 1));
}
