//! Links between the pages.

use std::fs;
use std::path::{Path, PathBuf};

/// Every relative link of the pages at the top and in docs/ leads to a file.
pub fn check(root: &Path, findings: &mut Vec<String>) {
    let mut pages: Vec<PathBuf> = ["", "docs", "docs/adr"]
        .iter()
        .filter_map(|folder| fs::read_dir(root.join(folder)).ok())
        .flat_map(|entries| entries.flatten().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    pages.sort();
    for page in pages {
        let Ok(text) = fs::read_to_string(&page) else {
            continue;
        };
        for target in text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next()) {
            let is_relative = !target.is_empty() && !target.contains("://");
            let folder = page.parent().unwrap_or(root);
            if is_relative && !folder.join(target).exists() {
                findings.push(format!("{}: no file {target}", page.display()));
            }
        }
    }
}
