//! The part of OpenSSL's configuration format that decides which providers are loaded (config(5)):
//! sections, `key = value`, `section::key = value`, `.include`, `.pragma includedir`, comments and
//! continued lines.
//!
//! Values are not expanded. A value with `$`, quotes or escapes keeps them; code that needs a plain
//! name rejects it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Maximum depth of nested includes.
const DEPTH_MAX: usize = 8;

/// The name of the section before the first header.
pub(super) const DEFAULT_SECTION: &str = "default";

/// A parsed configuration file with the files that it includes.
#[derive(Debug)]
pub(super) struct Configuration {
    sections: BTreeMap<String, BTreeMap<String, String>>,
    /// The section at the end of the file.
    pub(super) last_section: String,
    /// The folder that relative names of included files refer to.
    include_folder: Option<PathBuf>,
}

impl Configuration {
    /// Parses the content of a file.
    pub(super) fn parse(content: &[u8]) -> Configuration {
        let mut configuration = Configuration {
            sections: BTreeMap::new(),
            last_section: DEFAULT_SECTION.to_string(),
            include_folder: None,
        };
        configuration.read(content, 0);
        configuration
    }

    /// Returns the last value of a key, which is the one that OpenSSL uses.
    pub(super) fn value(&self, section: &str, key: &str) -> Option<&str> {
        self.sections.get(section)?.get(key).map(String::as_str)
    }

    /// Returns whether the file contains a section of this name.
    pub(super) fn has_section(&self, section: &str) -> bool {
        self.sections.contains_key(section)
    }

    fn read(&mut self, content: &[u8], depth: usize) {
        let text = String::from_utf8_lossy(content);
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        let mut line = String::new();
        for part in text.split('\n') {
            line.push_str(part.strip_suffix('\r').unwrap_or(part));
            let escapes = line.len() - line.trim_end_matches('\\').len();
            if escapes % 2 == 1 {
                line.pop();
                continue;
            }
            self.statement(without_comment(&line).trim(), depth);
            line.clear();
        }
        self.statement(without_comment(&line).trim(), depth);
    }

    fn statement(&mut self, text: &str, depth: usize) {
        if let Some(header) = text.strip_prefix('[') {
            let name = header.split(']').next().unwrap_or_default().trim();
            self.last_section = name.to_string();
            self.sections.entry(name.to_string()).or_default();
        } else if let Some(target) = directive(text, ".include") {
            self.include(Path::new(target), depth);
        } else if let Some(setting) = directive(text, ".pragma") {
            let setting = setting.split_once([':', '=']).map(|(key, value)| (key.trim(), value));
            if let Some(("includedir", folder)) = setting {
                self.include_folder = Some(PathBuf::from(folder.trim()));
            }
        } else if let Some((key, value)) = text.split_once('=') {
            let (section, key) = match key.trim().split_once("::") {
                Some((section, key)) => (section.to_string(), key),
                None => (self.last_section.clone(), key.trim()),
            };
            let section = self.sections.entry(section).or_default();
            section.insert(key.to_string(), value.trim().to_string());
        }
    }

    /// Reads an included file, or the `.cnf` and `.conf` files of an included folder. Unreadable
    /// files are skipped, as by OpenSSL.
    fn include(&mut self, target: &Path, depth: usize) {
        let target = match &self.include_folder {
            Some(folder) => folder.join(target),
            None => target.to_path_buf(),
        };
        if depth == DEPTH_MAX {
            return;
        }
        let is_configuration = |file: &PathBuf| {
            file.extension().is_some_and(|extension| extension == "cnf" || extension == "conf")
        };
        let files = match std::fs::read_dir(&target) {
            Ok(entries) => {
                entries.flatten().map(|entry| entry.path()).filter(is_configuration).collect()
            }
            Err(_) => vec![target],
        };
        for file in files {
            if let Ok(content) = std::fs::read(&file) {
                self.read(&content, depth + 1);
            }
        }
    }
}

/// Returns the text after `.include` or `.pragma` and the spaces or `=` that follow it.
fn directive<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let rest = text.strip_prefix(name)?;
    let value = rest.trim_start().strip_prefix('=').unwrap_or(rest);
    (value.len() != rest.len() || rest.starts_with([' ', '\t'])).then(|| value.trim())
}

/// Returns a line without its comment, which starts at a `#` that is neither quoted nor escaped.
fn without_comment(line: &str) -> &str {
    let mut quote = None;
    let mut is_escaped = false;
    for (at, character) in line.char_indices() {
        match (character, quote) {
            _ if is_escaped => is_escaped = false,
            ('\\', _) => is_escaped = true,
            ('#', None) => return &line[..at],
            ('"' | '\'' | '`', None) => quote = Some(character),
            (_, Some(open)) if character == open => quote = None,
            _ => {}
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_values_comments_and_continuations_are_read() {
        let text = "\u{feff}openssl_conf = first # comment\nopenssl_conf=init\\\n_sect\n[ init_sect ]\n\
                    providers\t= p\nother::key = 'a#b'\r\n[p]\ndefault = d#x\n[init_sect]\nproviders = q\n\
                    # [none]\n[ last ] # c\n";
        let parsed = Configuration::parse(text.as_bytes());
        assert_eq!(parsed.value("default", "openssl_conf"), Some("init_sect"));
        assert_eq!(parsed.value("init_sect", "providers"), Some("q"));
        assert_eq!(parsed.value("other", "key"), Some("'a#b'"));
        assert_eq!(parsed.value("p", "default"), Some("d"));
        assert_eq!(parsed.last_section, "last");
        assert!(parsed.has_section("p") && !parsed.has_section("none"));
        assert_eq!(Configuration::parse(b"").last_section, "default");
    }

    #[test]
    fn included_files_and_folders_are_read_in_place() {
        let folder = tempfile::tempdir().unwrap();
        let parts = folder.path().join("parts");
        std::fs::create_dir(&parts).unwrap();
        std::fs::write(parts.join("a.cnf"), "[a]\nkey = 1\n").unwrap();
        std::fs::write(parts.join("b.txt"), "[b]\nkey = 1\n").unwrap();
        std::fs::write(folder.path().join("circle"), "key = 2\n.include circle\n").unwrap();
        let text = format!(
            ".pragma includedir:{}\n[x]\n.include = parts\nafter = 1\n[y]\n.include circle\n.included = 3\n",
            folder.path().display()
        );
        let parsed = Configuration::parse(text.as_bytes());
        assert!(parsed.has_section("a") && !parsed.has_section("b"));
        assert_eq!(parsed.value("a", "after"), Some("1"), "the section stays open");
        assert_eq!(parsed.value("y", "key"), Some("2"));
        assert_eq!(parsed.value("y", ".included"), Some("3"));
    }
}
