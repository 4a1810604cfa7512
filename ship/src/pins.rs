//! Which OpenSSL sources are known: versions and SHA-256 values, from `ship/openssl/pins.json`.

use serde::Deserialize;

use crate::{Error, Result};

const PINS_JSON: &str = include_str!("../openssl/pins.json");
const CERTIFIED_JSON: &str = include_str!("../openssl/certified-modules.json");

/// A package of the Rust registry that carries OpenSSL's source.
#[derive(Debug, Clone, Deserialize)]
pub struct Package {
    /// Package name.
    pub name: String,
    /// Exact package version, build metadata included.
    pub version: String,
    /// SHA-256 of the `.crate` file, lower-case hexadecimal.
    pub sha256: String,
}

/// One OpenSSL version that a bundle can be built from.
#[derive(Debug, Clone, Deserialize)]
pub struct Pin {
    /// OpenSSL version, for example `3.5.5`.
    pub version: String,
    /// Where the source comes from unless `--source` says otherwise.
    pub package: Package,
    /// SHA-256 of the upstream `openssl-<version>.tar.gz`, lower-case hexadecimal, where it is known.
    pub tarball_sha256: Option<String>,
}

/// The whole of `pins.json`.
#[derive(Debug, Clone, Deserialize)]
pub struct Pins {
    /// The version that is built when none is named.
    pub usual: String,
    /// Every known version.
    pub versions: Vec<Pin>,
}

#[derive(Deserialize)]
struct CertifiedModules {
    modules: Vec<String>,
}

/// Reads the pins that were compiled in.
///
/// # Errors
/// [`Error::Integrity`] when the compiled-in file is not valid; a unit test rules that out.
pub fn pins() -> Result<Pins> {
    serde_json::from_str(PINS_JSON)
        .map_err(|cause| Error::Integrity(format!("ship/openssl/pins.json: {cause}")))
}

impl Pins {
    /// The pin of `version`.
    ///
    /// # Errors
    /// [`Error::Request`], naming the pinned versions, when there is none.
    pub fn find(&self, version: &str) -> Result<&Pin> {
        self.versions.iter().find(|pin| pin.version == version).ok_or_else(|| {
            Error::Request(format!(
                "OpenSSL {version} is not pinned; expected {}. Another source can be built with \
                 `--source FILE|URL --sha256 HEX`",
                self.known()
            ))
        })
    }

    /// The pinned versions, as a list for a message.
    #[must_use]
    pub fn known(&self) -> String {
        self.versions.iter().map(|pin| pin.version.as_str()).collect::<Vec<_>>().join(", ")
    }

    /// The version whose package or tarball has this SHA-256, if one does.
    #[must_use]
    pub fn version_of(&self, sha256: &str) -> Option<&str> {
        self.versions
            .iter()
            .find(|pin| {
                pin.tarball_sha256.as_deref() == Some(sha256) || pin.package.sha256 == sha256
            })
            .map(|pin| pin.version.as_str())
    }
}

/// True when a validated-module certificate covers the FIPS module with this SHA-256.
#[must_use]
pub fn is_certified_module(sha256: &str) -> bool {
    // An unreadable list certifies nothing, which is the safe answer.
    serde_json::from_str::<CertifiedModules>(CERTIFIED_JSON)
        .is_ok_and(|list| list.modules.iter().any(|known| known.eq_ignore_ascii_case(sha256)))
}

/// Compares dotted version numbers by their numeric parts, so that 3.10 is newer than 3.9.
#[must_use]
pub fn version_numbers(version: &str) -> Vec<u32> {
    version.split(['.', '-', '+']).map_while(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_version_is_pinned_and_every_hash_is_one() {
        let pins = pins().unwrap();
        assert_eq!(pins.find(&pins.usual).unwrap().version, pins.usual);
        for pin in &pins.versions {
            assert_eq!(pins.find(&pin.version).unwrap().package.sha256, pin.package.sha256);
            for hash in pin.tarball_sha256.iter().chain([&pin.package.sha256]) {
                assert_eq!(hash.len(), 64);
                assert!(hash.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)));
            }
        }
    }

    #[test]
    fn an_unpinned_version_is_refused_with_the_list() {
        let refusal = pins().unwrap().find("1.0.2").unwrap_err();
        assert!(refusal.is_request());
        assert!(refusal.to_string().contains("3.5.5"), "{refusal}");
    }

    #[test]
    fn no_module_is_certified_yet() {
        assert!(
            serde_json::from_str::<CertifiedModules>(CERTIFIED_JSON).unwrap().modules.is_empty()
        );
        assert!(!is_certified_module(&"0".repeat(64)));
    }

    #[test]
    fn versions_compare_by_number() {
        assert!(version_numbers("3.10.0") > version_numbers("3.9.1"));
        assert!(version_numbers("4.0.3") > version_numbers("3.5.5"));
        assert_eq!(version_numbers("3.6.0-dev"), vec![3, 6, 0]);
    }
}
