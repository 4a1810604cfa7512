//! The number of packages behind the shipped programs, checked against a record (ADR 0090).

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The recorded counts, in the format that [`show`] prints.
const RECORD: &str = "xtask/packages.txt";
/// Packages above the record that are accepted without a new record.
const SLACK: usize = 5;

/// Names of counts, each with the package and the edges that `cargo tree` follows on this machine.
const TREES: [(&str, &str, &str); 3] = [
    ("gabion", "gabion-cli", "normal"),
    ("gabion-with-build", "gabion-cli", "normal,build"),
    ("gabion-provider", "gabion-provider", "normal"),
];

/// Returns a line for each count, its name and the number of packages.
///
/// # Errors
/// Returns what cargo says if it fails, for example because Cargo.lock does not match the manifests.
pub fn show(root: &Path) -> Result<String, String> {
    Ok(count(root)?.iter().map(|(name, count)| format!("{name} {count}\n")).collect())
}

/// Finds counts that are above the record by more than [`SLACK`].
pub fn check(root: &Path, findings: &mut Vec<String>) {
    let recorded = fs::read_to_string(root.join(RECORD)).map_err(|error| error.to_string());
    match recorded.and_then(|recorded| Ok((recorded, count(root)?))) {
        Ok((recorded, counted)) => compare(&recorded, &counted, findings),
        Err(error) => findings.push(format!("{RECORD}: packages cannot be counted: {error}")),
    }
}

fn count(root: &Path) -> Result<Vec<(&'static str, usize)>, String> {
    let mut counts = Vec::new();
    for (name, package, edges) in TREES {
        let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .args(["tree", "--locked", "--prefix", "none", "--no-dedupe"])
            .args(["--package", package, "--edges", edges])
            .current_dir(root)
            .output()
            .map_err(|error| format!("cargo tree: {error}"))?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
        }
        counts.push((name, packages(&String::from_utf8_lossy(&output.stdout))));
    }
    let lock = fs::read_to_string(root.join("Cargo.lock")).map_err(|error| error.to_string())?;
    counts.push(("locked", lock.lines().filter(|line| *line == "[[package]]").count()));
    Ok(counts)
}

/// The different packages in lines such as `zeroize_derive v1.5.0 (proc-macro)`.
fn packages(tree: &str) -> usize {
    let package = |line: &str| line.split(' ').take(2).collect::<Vec<_>>().join(" ");
    tree.lines().filter(|line| !line.is_empty()).map(package).collect::<BTreeSet<_>>().len()
}

fn compare(recorded: &str, counted: &[(&str, usize)], findings: &mut Vec<String>) {
    for (name, count) in counted {
        let line = recorded.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        match line.and_then(|number| number.parse::<usize>().ok()) {
            Some(most) if *count <= most + SLACK => {}
            Some(most) => findings.push(format!(
                "{RECORD}: `{name}` has {count} packages, and {most} are recorded; name the new packages in a \
                 decision record, and raise the number (cargo run -p xtask -- packages > {RECORD})"
            )),
            None => findings.push(format!("{RECORD}: no number for `{name}`")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_package_counts_once() {
        let tree =
            "a v1.0.0 (/a)\nb v2.0.0\nb v2.1.0 (proc-macro)\nb v2.0.0 (*)\n\na v1.0.0 (/a)\n";
        assert_eq!(packages(tree), 3);
    }

    #[test]
    fn more_than_five_packages_above_the_record_are_found() {
        let found = |count| {
            let mut findings = Vec::new();
            compare("gabion-with-build 9\ngabion 10\n", &[("gabion", count)], &mut findings);
            findings
        };
        assert!(found(0).is_empty() && found(15).is_empty());
        assert!(found(16)[0].contains("`gabion` has 16 packages, and 10 are recorded"));
    }

    #[test]
    fn a_count_without_a_record_is_found() {
        let mut findings = Vec::new();
        compare("gabion ten\nlocked\n", &[("gabion", 1), ("locked", 1)], &mut findings);
        assert_eq!(findings.len(), 2);
    }
}
