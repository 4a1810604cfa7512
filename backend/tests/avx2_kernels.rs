//! The AVX2 kernels against the standards' definitions, where this processor has AVX2.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.
#![cfg(target_arch = "x86_64")]

mod conformance;

use gabion_backend::avx2::Avx2;
use gabion_scheme::kernels::Kernels;

/// Runs `check` on the kernels, or says on stderr that this processor lacks AVX2.
fn on_avx2(check: impl Fn(&Avx2)) {
    match Avx2::detect() {
        Some(kernels) => check(&kernels),
        None => eprintln!("Skipped: this processor lacks AVX2."),
    }
}

#[test]
fn sponges() {
    on_avx2(|k| conformance::sponge::check(k));
}

#[test]
fn ml_kem_polynomials() {
    on_avx2(|k| {
        conformance::kem::check(k);
        conformance::kem_sampling::check(k);
    });
}

#[test]
fn ml_dsa_polynomials() {
    on_avx2(|k| conformance::dsa::check(k));
}

#[test]
fn ml_dsa_rounding_and_hints() {
    on_avx2(|k| conformance::dsa_rounding::check(k));
}

#[test]
fn slh_dsa_hashes() {
    on_avx2(|k| conformance::slh::check(k));
}

#[test]
fn slh_dsa_hashes_without_the_sha_extensions() {
    on_avx2(|k| conformance::slh::check(&k.without_sha()));
}

#[test]
fn lms_hashes() {
    on_avx2(|k| conformance::lms::check(k));
}

#[test]
fn lms_hashes_without_the_sha_extensions() {
    on_avx2(|k| conformance::lms::check(&k.without_sha()));
}

#[test]
fn xmss_hashes() {
    on_avx2(|k| conformance::xmss::check(k));
}

#[test]
fn xmss_hashes_without_the_sha_extensions() {
    on_avx2(|k| conformance::xmss::check(&k.without_sha()));
}

#[test]
fn ed25519_curve_work_and_sha512() {
    on_avx2(|k| conformance::ed25519::check(k));
}

#[test]
fn misuse() {
    on_avx2(|k| conformance::misuse::check(k));
}

#[test]
fn report() {
    on_avx2(|k| assert_eq!((k.name(), k.lanes()), ("avx2", 4)));
}
