//! Whose code an algorithm runs in: a backend's kernels, a library's, or both beside each other.

use gabion_backend::Backend;
use gabion_scheme::Algorithm;
use gabion_scheme::algorithms::Family;

use crate::ecc::{self, Curve};

/// The name that our own arithmetic has which is no kernel of a backend.
const OWN: &str = "gabion";

/// Whose code runs an algorithm on a backend: the backend's name, that of a library (a crate), or several with
/// ` + ` between them. A backend's name alone says only which one is asked: FN-DSA, curves and RSA are not written
/// anew for each of them.
pub fn code_of(algorithm: Algorithm, backend: &dyn Backend) -> String {
    let mut names: Vec<&str> = Vec::new();
    for part in parts(algorithm) {
        for name in code_of_part(part, backend) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names.join(" + ")
}

/// What a hybrid or a composite is made of, by the names of the table or, as with RSA, by others.
fn parts(algorithm: Algorithm) -> Vec<Part> {
    let info = algorithm.info();
    if info.parts.is_empty() {
        return vec![Part::Algorithm(algorithm)];
    }
    // Composites write curves without the second dash.
    let part = |name: &&str| {
        let known = name.parse().or_else(|_| name.replace("ECDSA-P", "ECDSA-P-").parse());
        known.map_or(Part::Rsa, Part::Algorithm)
    };
    info.parts.iter().map(part).collect()
}

enum Part {
    Algorithm(Algorithm),
    /// The one that composites have and the table does not.
    Rsa,
}

fn code_of_part(part: Part, backend: &dyn Backend) -> Vec<&'static str> {
    let Part::Algorithm(algorithm) = part else { return vec!["rsa"] };
    let has_curve_lanes = backend.lanes() >= ecc::lanes::LANES_OF_CURVES;
    match (algorithm.info().family, Curve::of(algorithm)) {
        (Family::FnDsa, _) => vec!["fn-dsa"],
        (Family::Ed25519, _) if has_curve_lanes => vec![backend.name()],
        (Family::Ed25519, _) => vec!["curve25519-dalek"],
        // Public keys of single operations are the library's also where there are lanes.
        (_, Some(Curve::X25519)) if has_curve_lanes => {
            vec![backend.name(), ecc::library(Curve::X25519)]
        }
        (_, Some(Curve::P384)) => vec![ecc::library(Curve::P384), OWN],
        (_, Some(curve)) => vec![ecc::library(curve)],
        _ => vec![backend.name()],
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{Config, Engine};

    #[test]
    fn only_what_a_backend_has_kernels_for_has_its_name() {
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
            let kernels = [Family::MlKem, Family::MlDsa, Family::SlhDsa].contains(&family);
            assert_eq!(code(algorithm) == "portable", kernels, "{algorithm}");
        }
    }
}
