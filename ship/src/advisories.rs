//! OpenSSL's security advisories by version, from `ship/openssl/advisories.json`.
//!
//! ```text
//!   version 3.5.7 ──line 3.5──> corrected in 3.5.8, 3.5.9 .. ──> what concerns it
//! ```
//!
//! The table is compiled in, with the date on which it was written. It is never fetched, so that no
//! network response can change what a build reports.

use serde::{Deserialize, Serialize};

use crate::pins::version_numbers;

const ADVISORIES_JSON: &str = include_str!("../openssl/advisories.json");

/// The whole of `advisories.json`.
#[derive(Debug, Deserialize)]
struct Table {
    read: String,
    lines: Vec<Line>,
    advisories: Vec<Advisory>,
}

/// A release line, such as 3.5.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// Major and minor number.
    pub line: String,
    /// The newest release of the line when the table was written.
    pub newest: String,
    /// The end of support by OpenSSL, `YYYY-MM-DD`.
    pub ends: String,
}

/// The severity of an advisory, as rated by OpenSSL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Severity {
    /// `Low`.
    Low,
    /// `Moderate`.
    Moderate,
    /// `High`.
    High,
    /// `Critical`.
    Critical,
}

/// One advisory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Advisory {
    /// `CVE-2026-45447`.
    pub id: String,
    /// The severity rated by OpenSSL.
    pub severity: Severity,
    /// The date of publication.
    pub date: String,
    /// A one-line title.
    pub title: String,
    /// For each affected line, the first release with the correction.
    fixed: std::collections::BTreeMap<String, String>,
    /// The lines whose FIPS module is affected.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    fips: Vec<String>,
}

/// The advisories that affect one version.
#[derive(Debug, Clone, Serialize)]
pub struct VersionAdvisories {
    /// The date of the table.
    pub read: String,
    /// The line of the version; `None` if the table does not contain it.
    pub line: Option<Line>,
    /// The advisories that affect the version, most severe first.
    pub advisories: Vec<Advisory>,
}

impl Advisory {
    fn concerns(&self, version: &str) -> bool {
        let fixed = line_of(version).and_then(|line| self.fixed.get(&line));
        fixed.is_some_and(|fixed| version_numbers(version) < version_numbers(fixed))
    }
}

/// Returns the known advisories for an OpenSSL version.
#[must_use]
pub fn of(version: &str) -> VersionAdvisories {
    known(version, |_, _| true)
}

/// Returns the known advisories for a FIPS module of this version.
#[must_use]
pub fn of_module(version: &str) -> VersionAdvisories {
    known(version, |advisory, line| advisory.fips.iter().any(|fips| fips == line))
}

fn known(version: &str, wanted: impl Fn(&Advisory, &str) -> bool) -> VersionAdvisories {
    // A unit test parses the file; if it were unreadable, nothing would be known and `line` would
    // be `None`.
    let Ok(table) = serde_json::from_str::<Table>(ADVISORIES_JSON) else {
        return VersionAdvisories { read: "never".to_string(), line: None, advisories: Vec::new() };
    };
    let name = line_of(version).unwrap_or_default();
    let mut advisories: Vec<Advisory> = table
        .advisories
        .into_iter()
        .filter(|advisory| advisory.concerns(version) && wanted(advisory, &name))
        .collect();
    advisories.sort_by(|a, b| (b.severity, &b.date).cmp(&(a.severity, &a.date)));
    let line = table.lines.into_iter().find(|line| line.line == name);
    VersionAdvisories { read: table.read, line, advisories }
}

/// Returns the line of a version: `3.5` for `3.5.7`.
#[must_use]
pub fn line_of(version: &str) -> Option<String> {
    match version_numbers(version)[..] {
        [major, minor, ..] => Some(format!("{major}.{minor}")),
        _ => None,
    }
}

impl VersionAdvisories {
    /// Summarizes the advisories, naming those rated High or Critical: `1 High (CVE-2026-84782), 3
    /// Moderate, 20 Low`.
    #[must_use]
    pub fn summary(&self) -> String {
        let of = |severity| self.advisories.iter().filter(move |a| a.severity == severity);
        let mut parts = Vec::new();
        for severity in [Severity::Critical, Severity::High, Severity::Moderate, Severity::Low] {
            let ids: Vec<&str> = of(severity).map(|advisory| advisory.id.as_str()).collect();
            match ids.len() {
                0 => {}
                count if severity >= Severity::High => {
                    parts.push(format!("{count} {severity:?} ({})", ids.join(", ")));
                }
                count => parts.push(format!("{count} {severity:?}")),
            }
        }
        parts.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(version: &str) -> Vec<String> {
        of(version).advisories.into_iter().map(|advisory| advisory.id).collect()
    }

    #[test]
    fn the_table_is_whole_and_in_order() {
        let table: Table = serde_json::from_str(ADVISORIES_JSON).unwrap();
        assert!(table.advisories.is_sorted_by_key(|advisory| &advisory.date));
        for advisory in &table.advisories {
            assert!(advisory.id.starts_with("CVE-20") && !advisory.fixed.is_empty());
            assert!(advisory.date <= table.read, "{advisory:?}");
            for (line, fixed) in &advisory.fixed {
                assert_eq!(line_of(fixed).as_ref(), Some(line), "{advisory:?}");
                // A correction that no known release contains does not count.
                let newest = table.lines.iter().find(|known| known.line == *line).unwrap();
                assert!(version_numbers(fixed) <= version_numbers(&newest.newest), "{advisory:?}");
            }
            assert!(advisory.fips.iter().all(|line| advisory.fixed.contains_key(line)));
        }
        let mut ids: Vec<&str> = table.advisories.iter().map(|a| a.id.as_str()).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), table.advisories.len(), "one is there twice");
    }

    #[test]
    fn version_has_advisories_fixed_later_in_its_line() {
        assert!(ids("3.5.5").contains(&"CVE-2026-45447".to_string()));
        assert!(!ids("3.5.7").contains(&"CVE-2026-45447".to_string()));
        assert_eq!(ids("3.5.7")[0], "CVE-2026-84782", "the worst comes first");
        for newest in ["3.5.9", "3.6.5", "4.0.3"] {
            assert_eq!(ids(newest), Vec::<String>::new());
        }
        // Only the 3.6 line is affected: 3.5 never was.
        assert!(ids("3.6.2").contains(&"CVE-2026-35188".to_string()));
        assert!(!ids("3.5.6").contains(&"CVE-2026-35188".to_string()));
        assert!(of("3.5.7").summary().starts_with("1 High (CVE-2026-84782), 3 Moderate, "));
    }

    #[test]
    fn fips_module_has_its_own_advisories() {
        let ids = |version| {
            let all = of_module(version).advisories.into_iter();
            all.map(|advisory| advisory.id).collect::<Vec<_>>()
        };
        assert_eq!(ids("3.5.4"), ["CVE-2026-31790", "CVE-2026-42770"]);
        assert_eq!(ids("3.5.7"), Vec::<String>::new());
    }

    #[test]
    fn unknown_release_line_has_no_advisories() {
        assert_eq!(of("9.8.7").line, None);
        assert_eq!(of("").line, None);
        assert_eq!(of("3.5.7").line.unwrap().newest, "3.5.9");
    }
}
