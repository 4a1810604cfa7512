//! Links between the pages.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders whose pages are checked, and whose headings are known.
const FOLDERS: &[&str] = &[
    "",
    "docs",
    "docs/start",
    "docs/guide",
    "docs/operate",
    "docs/reference",
    "docs/internals",
    "docs/adr",
    "bench",
    "bench/peers",
    "fuzz",
    "tests/vectors",
];

/// Every relative link of a page leads to a file, and one that names a heading of a page to that heading.
pub fn check(root: &Path, findings: &mut Vec<String>) {
    let mut pages: Vec<PathBuf> = FOLDERS
        .iter()
        .filter_map(|folder| fs::read_dir(root.join(folder)).ok())
        .flat_map(|entries| entries.flatten().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .filter_map(|path| path.canonicalize().ok())
        .collect();
    pages.sort();
    let read = |page: PathBuf| fs::read_to_string(&page).ok().map(|text| (page, text));
    let texts: HashMap<PathBuf, String> = pages.iter().cloned().filter_map(read).collect();
    for page in &pages {
        let Some(text) = texts.get(page) else {
            continue;
        };
        let links = text.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
        for link in links.filter(|link| !link.is_empty() && !link.contains("://")) {
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let folder = page.parent().unwrap_or(root);
            let target = if file.is_empty() { page.clone() } else { folder.join(file) };
            let Ok(target) = target.canonicalize() else {
                findings.push(format!("{}: no file {file}", page.display()));
                continue;
            };
            let there = texts.get(&target).map(|text| anchors(text));
            if !heading.is_empty() && there.is_some_and(|all| !all.iter().any(|a| a == heading)) {
                findings.push(format!("{}: no heading {link}", page.display()));
            }
        }
    }
}

/// The names by which links reach the headings of a page: letters, digits, `_` and `-` in lower case, and `-`
/// for each space.
fn anchors(text: &str) -> Vec<String> {
    let heading = |line: &str| {
        let title =
            line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#'))?;
        let kept = title.trim().to_lowercase().replace(' ', "-");
        Some(kept.chars().filter(|&c| c.is_alphanumeric() || c == '_' || c == '-').collect())
    };
    text.lines().filter_map(heading).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_no_file_and_no_heading_are_found() {
        let root = std::env::temp_dir().join(format!("gabion-links-{}", std::process::id()));
        fs::create_dir_all(root.join("docs")).unwrap();
        let page = "# A page\n## What `it` does, and not\n[a](#a-page) [b](docs/b.md#some-words) [c](https://x.y/#z)\n";
        fs::write(root.join("A.md"), page).unwrap();
        fs::write(root.join("docs/b.md"), "# Some words\n[a](../A.md#what-it-does-and-not)\n")
            .unwrap();
        let findings = || {
            let mut findings = Vec::new();
            check(&root, &mut findings);
            findings
        };
        assert_eq!(findings(), Vec::<String>::new());
        let wrong = "[a](#b-page) [b](docs/b.md#other-words) [c](docs/c.md) [d](docs/b.md)\n";
        fs::write(root.join("A.md"), wrong).unwrap();
        // The one in docs/b.md leads to a heading that is gone.
        assert_eq!(findings().len(), 4, "{:?}", findings());
        fs::remove_dir_all(root).unwrap();
    }
}
