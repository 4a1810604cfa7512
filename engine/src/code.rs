//! The origin of the code that runs an algorithm: a backend's kernels, a library, or both.

use gabion_backend::Backend;
use gabion_scheme::Algorithm;
use gabion_scheme::algorithms::{Family, Part};

use crate::ecc::{self, Curve};

/// The name of Gabion's arithmetic outside the backends.
const OWN: &str = "gabion";

/// Returns the origin of the code that runs an algorithm on a backend: the name of the backend or
/// of a library (a crate), or several joined by ` + `. The backend's name alone does not tell,
/// because FN-DSA, curves and RSA use the same code on all backends.
pub fn code_of(algorithm: Algorithm, backend: &dyn Backend) -> String {
    let mut names: Vec<&str> = Vec::new();
    let parts = algorithm.info().parts;
    let parts = if parts.is_empty() { &[Part::Algorithm(algorithm)] } else { parts };
    for &part in parts {
        for name in code_of_part(part, backend) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names.join(" + ")
}

fn code_of_part(part: Part, backend: &dyn Backend) -> Vec<&'static str> {
    let Part::Algorithm(algorithm) = part else { return vec!["rsa"] };
    let has_curve_lanes = backend.lanes() >= ecc::lanes::LANES_OF_CURVES;
    match algorithm.info().family {
        Family::FnDsa => vec!["fn-dsa"],
        Family::Ed25519 if !has_curve_lanes => vec!["curve25519-dalek"],
        Family::Ecdh | Family::Ecdsa => match Curve::of(algorithm) {
            // Public keys of single operations are the library's also where there are lanes.
            Some(Curve::X25519) if has_curve_lanes => {
                vec![backend.name(), ecc::library(Curve::X25519)]
            }
            Some(Curve::P384) => vec![ecc::library(Curve::P384), OWN],
            Some(curve) => vec![ecc::library(curve)],
            None => vec![backend.name()],
        },
        Family::MlKem
        | Family::MlDsa
        | Family::SlhDsa
        | Family::Hss
        | Family::Xmss
        | Family::Ed25519 => vec![backend.name()],
        // Their parts were named, which have no parts themselves.
        Family::Hybrid | Family::Composite => vec![],
    }
}

#[cfg(all(test, not(loom)))]
#[allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.
mod tests {
    use super::*;
    use crate::{Config, Engine};

    #[test]
    fn code_names_the_library_that_runs_an_algorithm() {
        let engine = Engine::new(&Config { backend: Some("portable".into()), ..Config::default() });
        let engine = engine.unwrap();
        let code = |algorithm| code_of(algorithm, engine.backend_first(algorithm).unwrap());
        assert_eq!(code(Algorithm::MlKem768), "portable");
        assert_eq!(code(Algorithm::Falcon512), "fn-dsa");
        assert_eq!(code(Algorithm::Ed25519), "curve25519-dalek");
        assert_eq!(code(Algorithm::EcdsaP521), "p521");
        assert_eq!(code(Algorithm::MlDsa65Rsa4096PssSha512), "portable + rsa");
        assert_eq!(code(Algorithm::MlDsa87EcdsaP521Sha512), "portable + p521");
        for algorithm in Algorithm::all() {
            let family = algorithm.info().family;
            let hashes = [Family::SlhDsa, Family::Hss, Family::Xmss].contains(&family);
            let kernels = hashes || [Family::MlKem, Family::MlDsa].contains(&family);
            assert_eq!(code(algorithm) == "portable", kernels, "{algorithm}");
        }
    }
}
