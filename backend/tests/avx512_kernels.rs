//! The AVX-512 kernels against the standards' definitions, where this processor has AVX-512.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.
#![cfg(target_arch = "x86_64")]

mod conformance;

use gabion_backend::avx512::Avx512;
use gabion_scheme::kernels::Kernels;

/// Runs `check` on the kernels, or says on stderr that this processor lacks AVX-512.
fn on_avx512(check: impl Fn(&Avx512)) {
    match Avx512::detect() {
        Some(kernels) => check(&kernels),
        None => eprintln!("Skipped: this processor lacks AVX-512."),
    }
}

#[test]
fn sponges() {
    on_avx512(|k| conformance::sponge::check(k));
}

#[test]
fn ml_kem_polynomials() {
    on_avx512(|k| {
        conformance::kem::check(k);
        conformance::kem_sampling::check(k);
    });
}

#[test]
fn ml_dsa_polynomials() {
    on_avx512(|k| conformance::dsa::check(k));
}

#[test]
fn ml_dsa_rounding_and_hints() {
    on_avx512(|k| conformance::dsa_rounding::check(k));
}

#[test]
fn slh_dsa_hashes() {
    on_avx512(|k| conformance::slh::check(k));
}

#[test]
fn slh_dsa_hashes_with_sixteen_lanes_and_the_sha_extensions() {
    on_avx512(|k| conformance::slh::check(&k.with_lanes()));
}

#[test]
fn slh_dsa_hashes_without_the_sha_extensions() {
    on_avx512(|k| conformance::slh::check(&k.without_sha()));
}

#[test]
fn slh_dsa_hashes_by_the_sha_extensions_alone() {
    on_avx512(|k| match k.without_lanes() {
        Some(kernels) => conformance::slh::check(&kernels),
        None => eprintln!("Skipped: this processor lacks the SHA extensions."),
    });
}

#[test]
fn lms_hashes() {
    on_avx512(|k| conformance::lms::check(k));
}

#[test]
fn lms_hashes_with_sixteen_lanes_and_the_sha_extensions() {
    on_avx512(|k| conformance::lms::check(&k.with_lanes()));
}

#[test]
fn lms_hashes_without_the_sha_extensions() {
    on_avx512(|k| conformance::lms::check(&k.without_sha()));
}

#[test]
fn lms_hashes_by_the_sha_extensions_alone() {
    on_avx512(|k| match k.without_lanes() {
        Some(kernels) => conformance::lms::check(&kernels),
        None => eprintln!("Skipped: this processor lacks the SHA extensions."),
    });
}

#[test]
fn xmss_hashes() {
    on_avx512(|k| conformance::xmss::check(k));
}

#[test]
fn xmss_hashes_with_sixteen_lanes_and_the_sha_extensions() {
    on_avx512(|k| conformance::xmss::check(&k.with_lanes()));
}

#[test]
fn xmss_hashes_without_the_sha_extensions() {
    on_avx512(|k| conformance::xmss::check(&k.without_sha()));
}

#[test]
fn xmss_hashes_by_the_sha_extensions_alone() {
    on_avx512(|k| match k.without_lanes() {
        Some(kernels) => conformance::xmss::check(&kernels),
        None => eprintln!("Skipped: this processor lacks the SHA extensions."),
    });
}

#[test]
fn x25519_curve() {
    on_avx512(|k| conformance::x25519::check(k));
}

#[test]
fn ed25519_curve() {
    on_avx512(|k| conformance::ed25519::check(k));
}

#[test]
fn misuse() {
    on_avx512(|k| conformance::misuse::check(k));
}

#[test]
fn report() {
    let name = if cfg!(emulated_lanes) { "avx512-emulated" } else { "avx512" };
    on_avx512(|k| assert_eq!((k.name(), k.lanes()), (name, 8)));
    let name = if cfg!(emulated_lanes) { "avx512-emulated-with-lanes" } else { "avx512" };
    on_avx512(|k| assert_eq!(k.with_lanes().name(), name));
}
