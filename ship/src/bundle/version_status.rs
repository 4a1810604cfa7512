//! Compares a bundle with the known versions of OpenSSL.

use serde::Serialize;

use super::Manifest;
use super::compile::now_text;
use crate::advisories::{self, Advisory};
use crate::pins::version_numbers;

/// The comparison of a bundle with the known versions, returned by [`Manifest::version_status`].
#[derive(Debug, Clone, Serialize)]
pub struct VersionStatus {
    /// The OpenSSL version of the bundle.
    pub version: String,
    /// The origin of its source, if recorded.
    pub taken_from: Option<String>,
    /// The newest known version of its line; `None` if the line is unknown.
    pub newest: Option<String>,
    /// Why a newer version was not available at build time.
    pub not_had: Vec<String>,
    /// The advisories that affect its version, most severe first.
    pub advisories: Vec<Advisory>,
    /// The version of the FIPS module.
    pub module_version: String,
    /// The advisories that affect the module.
    pub module_advisories: Vec<Advisory>,
    /// Warnings for the operator, one sentence each; empty for the newest version.
    pub warnings: Vec<String>,
}

impl Manifest {
    /// Compares the bundle with the compiled-in table of advisories.
    #[must_use]
    pub fn version_status(&self) -> VersionStatus {
        let known = advisories::of(&self.version);
        let module = advisories::of_module(self.module_version());
        let mut warnings = Vec::new();
        let version = &self.version;
        match &known.line {
            Some(line) if version_numbers(version) < version_numbers(&line.newest) => {
                let mut warning = format!(
                    "OpenSSL {version} is not {}, the newest of the {} line that is known ({})",
                    line.newest, line.line, known.read
                );
                if !self.not_had.is_empty() {
                    warning.push_str(", which was not available when it was built");
                }
                warnings.push(warning);
            }
            Some(_) => {}
            None => warnings.push(format!(
                "nothing is known of advisories for OpenSSL {version}: the table has other lines"
            )),
        }
        if let Some(line) = known.line.as_ref().filter(|line| *line.ends < *now_text()) {
            warnings.push(format!("OpenSSL ended the {} line on {}", line.line, line.ends));
        }
        if !known.advisories.is_empty() {
            warnings.push(format!(
                "advisories that concern OpenSSL {version}: {}; `gabion doctor --json` names each",
                known.summary()
            ));
        }
        if self.fips_module.is_some() && !module.advisories.is_empty() {
            warnings.push(format!(
                "advisories that concern the FIPS module of {}: {}",
                self.module_version(),
                module.summary()
            ));
        }
        VersionStatus {
            version: version.clone(),
            taken_from: self.taken_from.clone(),
            newest: known.line.map(|line| line.newest),
            not_had: self.not_had.clone(),
            advisories: known.advisories,
            module_version: self.module_version().to_string(),
            module_advisories: module.advisories,
            warnings,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(version: &str) -> Manifest {
        let text = format!(
            "{{\"version\": \"{version}\", \"source_sha256\": \"\", \"options\": [], \"built\": \"\", \
             \"fips_module_sha256\": \"\", \"gabion_version\": \"\"}}"
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn outdated_version_warns_with_reason() {
        assert_eq!(manifest("3.5.9").version_status().warnings, Vec::<String>::new());
        let mut older = manifest("3.5.7");
        older.not_had = vec!["3.5.9 from upstream: no".to_string()];
        let status = older.version_status();
        assert_eq!(status.newest.as_deref(), Some("3.5.9"));
        assert!(status.warnings[0].contains("is not 3.5.9"), "{:?}", status.warnings);
        assert!(status.warnings[0].ends_with("was not available when it was built"));
        assert_eq!(status.not_had, older.not_had);
        assert!(status.warnings[1].contains("CVE-2026-84782"), "{:?}", status.warnings);
        assert!(manifest("9.8.7").version_status().warnings[0].contains("nothing is known"));
    }

    #[test]
    fn a_module_of_another_version_is_judged_by_its_own() {
        let mut bundle = manifest("3.5.9");
        bundle.fips_module = Some(super::super::ModuleRecord {
            version: "3.5.4".to_string(),
            taken_from: String::new(),
            source_sha256: String::new(),
        });
        let status = bundle.version_status();
        assert_eq!((status.version.as_str(), status.module_version.as_str()), ("3.5.9", "3.5.4"));
        assert_eq!(status.warnings.len(), 1);
        assert!(status.warnings[0].contains("FIPS module of 3.5.4: 1 Moderate, 1 Low"));
    }
}
