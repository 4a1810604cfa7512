//! The NEON kernels against the standards' definitions, with the extensions that this processor has
//! and without.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.
#![cfg(target_arch = "aarch64")]

mod conformance;

use gabion_backend::neon::Neon;
use gabion_scheme::kernels::Kernels;

/// Runs `check` on the kernels, or says on stderr that this processor lacks NEON.
fn on_neon(check: impl Fn(&Neon)) {
    match Neon::detect() {
        Some(kernels) => check(&kernels),
        None => eprintln!("Skipped: this processor lacks NEON."),
    }
}

/// Runs a check with the extensions and without: only hashes differ.
fn on_both(check: impl Fn(&Neon)) {
    on_neon(|k| {
        check(k);
        check(&k.without_extensions());
    });
}

#[test]
fn sponges() {
    on_both(|k| conformance::sponge::check(k));
}

#[test]
fn ml_kem_polynomials() {
    on_neon(|k| {
        conformance::kem::check(k);
        conformance::kem_sampling::check(k);
    });
}

#[test]
fn ml_dsa_polynomials() {
    on_neon(|k| conformance::dsa::check(k));
}

#[test]
fn ml_dsa_rounding_and_hints() {
    on_neon(|k| conformance::dsa_rounding::check(k));
}

#[test]
fn slh_dsa_hashes() {
    on_both(|k| conformance::slh::check(k));
}

#[test]
fn lms_hashes() {
    on_both(|k| conformance::lms::check(k));
}

#[test]
fn xmss_hashes() {
    on_both(|k| conformance::xmss::check(k));
}

#[test]
fn misuse() {
    on_neon(|k| conformance::misuse::check(k));
}

#[test]
fn report() {
    on_neon(|k| {
        assert_eq!((k.name(), k.without_extensions().lanes()), ("neon", 1));
        // Two with the SHA3 extension, which the emulator has: there it must have been found.
        let lanes = k.lanes();
        let emulated = std::env::var_os("GABION_TEST_NEEDS_EXTENSIONS").is_some();
        assert!(lanes == 2 || lanes == 1 && !emulated, "{lanes} lanes");
    });
}
