//! The known OpenSSL sources: versions and SHA-256 values, from `ship/openssl/pins.json`.

use serde::{Deserialize, Serialize};

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
    /// OpenSSL version, for example `3.5.9`.
    pub version: String,
    /// SHA-256 of the upstream `openssl-<version>.tar.gz`, lower-case hexadecimal. Debian's
    /// `openssl_<version>.orig.tar.gz` is the same file.
    pub tarball_sha256: String,
    /// Whether Debian's archive has had this version.
    #[serde(default)]
    pub debian: bool,
    /// The package that contains it, if there is one.
    pub package: Option<Package>,
}

/// The content of `pins.json`.
#[derive(Debug, Clone, Deserialize)]
pub struct Pins {
    /// The default line, whose newest version is built unless another is requested.
    pub line: String,
    /// The versions of that line, newest first; the first available one is used.
    pub usual: Vec<String>,
    /// Every known version.
    pub versions: Vec<Pin>,
}

#[derive(Deserialize)]
struct CertifiedModules {
    modules: Vec<String>,
    versions: Vec<ModuleVersion>,
}

/// The validation status of a FIPS provider version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModuleVersion {
    /// The version.
    pub version: String,
    /// The certificate, or the progress of its validation.
    pub status: String,
}

/// Returns the compiled-in pins.
///
/// # Errors
/// [`Error::Integrity`] if the compiled-in file is invalid; a unit test rules that out.
pub fn pins() -> Result<Pins> {
    serde_json::from_str(PINS_JSON)
        .map_err(|cause| Error::Integrity(format!("ship/openssl/pins.json: {cause}")))
}

impl Pins {
    /// Returns the pin of `version`.
    ///
    /// # Errors
    /// [`Error::Request`], naming the pinned versions, if it is not pinned.
    pub fn find(&self, version: &str) -> Result<&Pin> {
        self.versions.iter().find(|pin| pin.version == version).ok_or_else(|| {
            Error::Request(format!(
                "OpenSSL {version} is not pinned; expected {}. Another source can be built with \
                 `--source FILE|URL --sha256 HEX`",
                self.known()
            ))
        })
    }

    /// Returns the default version.
    #[must_use]
    pub fn newest(&self) -> &str {
        self.usual.first().map_or("", String::as_str)
    }

    /// Returns the pinned versions as a list for messages.
    #[must_use]
    pub fn known(&self) -> String {
        self.versions.iter().map(|pin| pin.version.as_str()).collect::<Vec<_>>().join(", ")
    }

    /// Returns the version whose package or tarball has this SHA-256.
    #[must_use]
    pub fn version_of(&self, sha256: &str) -> Option<&str> {
        let has = |pin: &&Pin| {
            let package = pin.package.as_ref();
            pin.tarball_sha256 == sha256 || package.is_some_and(|package| package.sha256 == sha256)
        };
        self.versions.iter().find(has).map(|pin| pin.version.as_str())
    }
}

/// Returns whether a validation certificate covers the FIPS module with this SHA-256.
#[must_use]
pub fn is_certified_module(sha256: &str) -> bool {
    // An unreadable list certifies nothing, which is safe.
    certified()
        .is_some_and(|list| list.modules.iter().any(|known| known.eq_ignore_ascii_case(sha256)))
}

/// Returns the validation status of a FIPS provider version, or `None` if it is unknown.
#[must_use]
pub fn module_version(version: &str) -> Option<ModuleVersion> {
    certified()?.versions.into_iter().find(|known| known.version == version)
}

fn certified() -> Option<CertifiedModules> {
    serde_json::from_str(CERTIFIED_JSON).ok()
}

/// Returns the numeric parts of a version, which sort 3.10 after 3.9.
#[must_use]
pub fn version_numbers(version: &str) -> Vec<u32> {
    version.split(['.', '-', '+']).map_while(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advisories;

    #[test]
    fn the_usual_versions_are_pinned_newest_first_and_every_hash_is_one() {
        let pins = pins().unwrap();
        for version in &pins.usual {
            assert_eq!(pins.find(version).unwrap().version, *version);
            assert_eq!(advisories::line_of(version).as_ref(), Some(&pins.line));
        }
        let numbers: Vec<_> = pins.usual.iter().map(|version| version_numbers(version)).collect();
        assert!(numbers.is_sorted_by(|newer, older| newer > older));
        for pin in &pins.versions {
            let package = pin.package.as_ref().map(|package| &package.sha256);
            for hash in package.into_iter().chain([&pin.tarball_sha256]) {
                assert_eq!(hash.len(), 64);
                assert!(hash.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)));
                assert_eq!(pins.version_of(hash), Some(pin.version.as_str()));
            }
        }
    }

    /// A known version that is not pinned could not be built.
    #[test]
    fn the_newest_of_every_line_is_pinned() {
        let pins = pins().unwrap();
        for pin in &pins.versions {
            let line = advisories::of(&pin.version).line.unwrap();
            assert!(pins.find(&line.newest).is_ok(), "{line:?}");
        }
        assert_eq!(advisories::of(pins.newest()).line.unwrap().newest, pins.newest());
    }

    #[test]
    fn an_unpinned_version_is_refused_with_the_list() {
        let refusal = pins().unwrap().find("1.0.2").unwrap_err();
        assert!(refusal.is_request());
        assert!(refusal.to_string().contains("3.5.5"), "{refusal}");
    }

    #[test]
    fn no_module_is_certified_yet() {
        assert!(certified().unwrap().modules.is_empty());
        assert!(!is_certified_module(&"0".repeat(64)));
        assert!(module_version("3.1.2").unwrap().status.contains("4985"));
        assert_eq!(module_version("3.5.7"), None);
    }

    #[test]
    fn versions_compare_by_number() {
        assert!(version_numbers("3.10.0") > version_numbers("3.9.1"));
        assert!(version_numbers("4.0.3") > version_numbers("3.5.5"));
        assert_eq!(version_numbers("3.6.0-dev"), vec![3, 6, 0]);
    }
}
