//! The self-test that a backend passes before an algorithm first runs on it.
//!
//! The test checks known answers of every operation, in batches whose lanes have different answers.
//! A backend with lanes is tested with every width up to nine and with more than sixteen, so that
//! full groups and every remainder run, and with single operations, which use different code. It
//! also checks properties without a known answer: modified bytes at the ends and in the middle,
//! encodings that must be rejected, bounds from both sides, and randomness that must only affect
//! its lane.
//!
//! The expected digests were computed with another implementation (OpenSSL 3.5.5: `genpkey` from a
//! seed, `pkeyutl -encap` with given randomness, `-decap` of a corrupted ciphertext, deterministic
//! `-sign` with a context), from the seeds and messages of [`known_answers`](crate::known_answers).
//! The tests of each family are in `family/`. `mutants` plants bugs, each of which must be
//! detected.

#[cfg(test)]
mod mutants;

use crate::ecc;
use crate::family::{self, hybrid};
use crate::known_answers::LANES_FEW;
use crate::route::slot::{SelfTests, TestFailure};

use gabion_backend::Backend;
use gabion_scheme::algorithms::Family;
use gabion_scheme::ed25519::Rules;
use gabion_scheme::{Algorithm, ml_dsa, ml_kem, slh_dsa};

/// The self-tests that a slot runs.
pub(crate) const TESTS: SelfTests = SelfTests { parts, run };

/// Lanes of the long test: a group of eight and one more.
const LANES_MANY: usize = 9;

/// The algorithms whose self-tests are part of this one's. They are tested once for all that need
/// them, so that a process tests ML-DSA-65 once and not with each of its composites.
pub(crate) fn parts(algorithm: Algorithm) -> Vec<Algorithm> {
    // RSA has no row in the table; the crate verifies its signatures.
    let of_row = algorithm.info().part_algorithms();
    let mut tested: Vec<_> = of_row.map(|part| substitute_for(part).unwrap_or(part)).collect();
    tested.extend(substitute_for(algorithm));
    tested
}

/// Returns the algorithm whose self-test also covers `algorithm`.
fn substitute_for(algorithm: Algorithm) -> Option<Algorithm> {
    match algorithm {
        // One curve, and a signature has a key as an exchange has one.
        Algorithm::EcdhP256 => Some(Algorithm::EcdsaP256),
        Algorithm::EcdhP384 => Some(Algorithm::EcdsaP384),
        Algorithm::EcdhP521 => Some(Algorithm::EcdsaP521),
        _ => family::slh_dsa::self_test::substitute_for(algorithm),
    }
}

/// Tests an algorithm on one backend, without its [`parts`].
pub(crate) fn run(backend: &dyn Backend, algorithm: Algorithm) -> Result<(), TestFailure> {
    // The engine requests only algorithms of this build; each family is checked again, so that its
    // code can be omitted.
    if let Some(parts) =
        hybrid::Parts::for_algorithm(algorithm).filter(|_| Family::Hybrid.is_built())
    {
        return Ok(hybrid::self_test(parts)?);
    }
    if !parts(algorithm).is_empty() {
        return Ok(());
    }
    let lanes = if backend.lanes() > 1 { LANES_MANY } else { LANES_FEW };
    if let Some(curve) = ecc::Curve::of(algorithm) {
        // Code for single operations does not belong to a backend, but is tested too.
        ecc::self_test(curve)?;
        return match curve {
            ecc::Curve::X25519 => Ok(ecc::lanes::self_test(backend, lanes)?),
            _ => Ok(()),
        };
    }
    if let Some(params) =
        gabion_scheme::fn_dsa::params(algorithm).filter(|_| Family::FnDsa.is_built())
    {
        return Ok(family::fn_dsa::self_test::run(backend, params)
            .map_err(|what| format!("{algorithm} self-test: {what}"))?);
    }
    let verdict = if let Some(params) =
        ml_kem::params(algorithm).filter(|_| Family::MlKem.is_built())
    {
        family::ml_kem::self_test::run(backend, params)
    } else if let Some(params) = ml_dsa::params(algorithm).filter(|_| Family::MlDsa.is_built()) {
        family::ml_dsa::self_test::run(backend, params)
    } else if let Some(params) = slh_dsa::params(algorithm).filter(|_| Family::SlhDsa.is_built()) {
        family::slh_dsa::self_test::run(backend, params)
    } else if let Some(rules) = ed25519_rules(algorithm).filter(|_| Family::Ed25519.is_built()) {
        family::ed25519::self_test::run(backend, rules, lanes)
    } else if algorithm == Algorithm::Hss && Family::Hss.is_built() {
        family::hss::self_test::run(backend)
    } else if let Some(scheme) = algorithm.xmss().filter(|_| Family::Xmss.is_built()) {
        family::xmss::self_test::run(backend, scheme)
    } else {
        Err("there is no self-test for it".to_owned())
    };
    verdict.map_err(|what| format!("{algorithm} self-test: {what}").into())
}

/// The rules that an Ed25519's name stands for; none for another algorithm.
fn ed25519_rules(algorithm: Algorithm) -> Option<Rules> {
    match algorithm {
        Algorithm::Ed25519 => Some(Rules::Strict),
        Algorithm::Ed25519Zip215 => Some(Rules::Zip215),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_backend::cpus;

    /// Components are tested before the algorithms that contain them, and have no components
    /// themselves: a testing thread never waits for itself.
    #[test]
    fn parts_have_no_parts() {
        let mut with_parts = 0;
        for algorithm in Algorithm::all() {
            let of = parts(algorithm);
            assert!(of.iter().all(|&part| parts(part).is_empty()), "{algorithm}");
            with_parts += usize::from(!of.is_empty());
        }
        // 15 composites, 8 hybrids, 6 small sets of SLH-DSA, 3 of ECDH.
        assert_eq!(with_parts, 32);
    }

    #[test]
    fn every_algorithm_passes_on_every_backend() {
        for backend in cpus() {
            for algorithm in Algorithm::all() {
                assert_eq!(run(&*backend, algorithm), Ok(()), "{}", backend.name());
            }
        }
    }
}
