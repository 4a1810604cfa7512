//! The block that `enable` adds to a configuration file between two markers, and `disable` removes.
//!
//! The block reopens sections of the file and sets only missing keys, so that the file's settings
//! (TLS versions, crypto policies, other providers) stay in force. Sections that the file lacks are
//! added under names of Gabion.

use std::path::Path;

use super::parse::{Configuration, DEFAULT_SECTION};
use crate::{Error, Result};

const BEGIN: &str = "# BEGIN gabion provider (`gabion provider disable` removes these lines)";
/// The first marker if the last line had no line break: the newline before the marker then belongs
/// to the block.
const BEGIN_AFTER_PART: &str = "# BEGIN gabion provider, with the newline before (`gabion provider disable` removes these lines)";
const END: &str = "# END gabion provider";

/// Names of sections that the file itself does not contain.
const INIT: &str = "gabion_init";
const PROVIDERS: &str = "gabion_providers";
const DEFAULT: &str = "gabion_default";
const MODULE: &str = "gabion_module";
const ALGORITHMS: &str = "gabion_algorithms";

/// The content of a file, split at the markers.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Content<'c> {
    before: &'c [u8],
    /// The markers and the lines between them.
    block: Option<&'c [u8]>,
    after: &'c [u8],
}

impl<'c> Content<'c> {
    /// Finds the lines between the markers.
    ///
    /// # Errors
    /// [`Error::Request`] if a marker is missing or appears twice.
    pub(super) fn divide(content: &'c [u8], file: &Path) -> Result<Self> {
        let marked = |marker: &str| -> Vec<(usize, usize)> {
            let mut at = 0;
            let lines = content.split_inclusive(|&byte| byte == b'\n').map(|line| {
                at += line.len();
                (at - line.len(), at, line)
            });
            let is_marker = |line: &[u8]| line.trim_ascii_end() == marker.as_bytes();
            lines.filter(|line| is_marker(line.2)).map(|line| (line.0, line.1)).collect()
        };
        let (full, part, ends) = (marked(BEGIN), marked(BEGIN_AFTER_PART), marked(END));
        let begin = match (full.as_slice(), part.as_slice()) {
            ([], []) if ends.is_empty() => {
                return Ok(Content { before: content, block: None, after: &[] });
            }
            ([begin], []) => Some(begin.0),
            // Lines that were added after the block need the newline.
            ([], [begin]) if ends.last().is_some_and(|end| end.1 < content.len()) => Some(begin.0),
            ([], [begin]) => Some(begin.0.saturating_sub(1)),
            _ => None,
        };
        match (begin, ends.as_slice()) {
            (Some(begin), [end]) if begin < end.0 => Ok(Content {
                before: &content[..begin],
                block: Some(&content[begin..end.1]),
                after: &content[end.1..],
            }),
            _ => Err(Error::Request(format!(
                "{} has not exactly one line `{BEGIN}` and one line `{END}` after it; remove what is left of \
                 the lines between by hand",
                file.display()
            ))),
        }
    }

    /// Returns the content without the block.
    pub(super) fn without_block(&self) -> Vec<u8> {
        [self.before, self.after].concat()
    }

    /// Returns the content with `lines` as the block, at its old position or at the end.
    pub(super) fn with_block(&self, lines: &str) -> Vec<u8> {
        // The last line must end with a line break.
        let begin = match self.before.last() {
            None | Some(b'\n') => format!("{BEGIN}\n"),
            Some(_) => format!("\n{BEGIN_AFTER_PART}\n"),
        };
        [self.before, begin.as_bytes(), lines.as_bytes(), format!("{END}\n").as_bytes(), self.after]
            .concat()
    }
}

/// Returns the lines that activate Gabion's provider in a file with this content, in addition to
/// the providers it already activates.
///
/// `module` is the module's full path; `None` if OpenSSL finds it by name.
///
/// # Errors
/// [`Error::Request`] if the file is incompatible with Gabion's provider, or does not name its
/// sections by plain names.
pub(super) fn lines(content: &Content, module: Option<&Path>, file: &Path) -> Result<String> {
    let host = Host { parsed: Configuration::parse(&content.without_block()), file };
    host.refuse_own_names()?;
    let mut lines = Lines::default();
    let init = match host.name(DEFAULT_SECTION, "openssl_conf")? {
        Some(init) => init,
        None => lines.set(DEFAULT_SECTION, "openssl_conf", INIT),
    };
    let providers = match host.name(init, "providers")? {
        Some(providers) => providers,
        None => lines.set(init, "providers", PROVIDERS),
    };
    let algorithms = match host.name(init, "alg_section")? {
        Some(algorithms) => algorithms,
        None => lines.set(init, "alg_section", ALGORITHMS),
    };
    host.refuse_other_preference(algorithms)?;
    // Once another provider is activated, OpenSSL does not load the default one automatically.
    let default = match host.name(providers, "default")? {
        Some(default) => default,
        None => lines.set(providers, "default", DEFAULT),
    };
    if !host.parsed.value(default, "activate").is_some_and(is_on) {
        lines.set(default, "activate", "1");
    }
    if host.parsed.value(providers, "gabion").is_some() {
        return Err(host.refusal(
            "names a provider `gabion` already, which does not load; remove that line first",
        ));
    }
    lines.set(providers, "gabion", MODULE);
    if let Some(module) = module {
        lines.set(MODULE, "module", &module.display().to_string());
    }
    // Programs continue without the module if it is removed.
    lines.set(MODULE, "soft_load", "1");
    lines.set(MODULE, "activate", "1");
    if host.parsed.value(algorithms, "default_properties").is_none() {
        lines.set(algorithms, "default_properties", PREFERENCE);
    }
    // Lines after the block, now or later, stay in their section.
    lines.open(&Configuration::parse(content.before).last_section);

    Ok(lines.text)
}

/// Algorithms that Gabion lacks come from the default provider.
const PREFERENCE: &str = "?provider=gabion";

/// The file without the block.
struct Host<'f> {
    parsed: Configuration,
    file: &'f Path,
}

impl Host<'_> {
    fn refusal(&self, what: &str) -> Error {
        Error::Request(format!("{} {what}", self.file.display()))
    }

    /// Returns the name of the section that a key refers to.
    fn name(&self, section: &str, key: &str) -> Result<Option<&str>> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        match self.parsed.value(section, key) {
            Some(name) if name.is_empty() || !name.chars().all(is_plain) => Err(self.refusal(&format!(
                "says `{key} = {name}`, which is not the plain name of a section; see `gabion provider config` \
                 for the lines to add by hand"
            ))),
            name => Ok(name),
        }
    }

    fn refuse_own_names(&self) -> Result<()> {
        let own = [INIT, PROVIDERS, DEFAULT, MODULE, ALGORITHMS];
        match own.into_iter().find(|name| self.parsed.has_section(name)) {
            Some(name) => Err(self.refusal(&format!(
                "already has a section [{name}], which `gabion provider enable` needs; rename or remove it"
            ))),
            None => Ok(()),
        }
    }

    /// Rejects a file whose default properties select other implementations: preferring Gabion
    /// would change or break that selection.
    fn refuse_other_preference(&self, algorithms: &str) -> Result<()> {
        if self.parsed.value(algorithms, "fips_mode").is_some_and(is_on) {
            return Err(
                self.refusal("says `fips_mode = yes`; Gabion's provider is not a FIPS module")
            );
        }
        match self.parsed.value(algorithms, "default_properties") {
            Some(other) if other.trim_matches(['"', '\'']) != PREFERENCE => {
                Err(self.refusal(&format!(
                    "says `default_properties = {other}`, and `gabion provider enable` needs `{PREFERENCE}` there"
                )))
            }
            _ => Ok(()),
        }
    }
}

fn is_on(value: &str) -> bool {
    ["1", "yes", "true", "on"].iter().any(|on| value.eq_ignore_ascii_case(on))
}

/// Settings by section.
#[derive(Default)]
struct Lines {
    text: String,
    section: Option<String>,
}

impl Lines {
    /// Adds a setting and returns its value.
    fn set<'v>(&mut self, section: &str, key: &str, value: &'v str) -> &'v str {
        self.open(section);
        self.text.push_str(&format!("{key} = {value}\n"));
        value
    }

    fn open(&mut self, section: &str) {
        if self.section.as_deref() != Some(section) {
            self.text.push_str(&format!("[{section}]\n"));
            self.section = Some(section.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "/etc/ssl/openssl.cnf";

    fn content(text: &str) -> Content<'_> {
        Content::divide(text.as_bytes(), Path::new(FILE)).unwrap()
    }

    fn enabled(text: &str) -> String {
        let content = content(text);
        let lines = lines(&content, Some(Path::new("/m/gabion.so")), Path::new(FILE)).unwrap();
        String::from_utf8(content.with_block(&lines)).unwrap()
    }

    fn refusal(text: &str) -> String {
        lines(&content(text), None, Path::new(FILE)).unwrap_err().to_string()
    }

    /// A shortened file of Debian, and that of Red Hat.
    const DEBIAN: &str = "openssl_conf = openssl_init\n[openssl_init]\nproviders = provider_sect\nssl_conf = ssl_sect\n\
                          [provider_sect]\ndefault = default_sect\n[default_sect]\n# activate = 1\n[ssl_sect]\n\
                          system_default = d\n[d]\nCipherString = DEFAULT:@SECLEVEL=2\n";
    const RED_HAT: &str = "openssl_conf = openssl_init\n[openssl_init]\nproviders = provider_sect\nalg_section = evp_properties\n\
                           [ evp_properties ]\n[provider_sect]\ndefault = default_sect\n[default_sect]\nactivate = 1\n[req]\n";

    #[test]
    fn sections_of_the_file_are_opened_again_and_missing_settings_added() {
        let own = "[gabion_module]\nmodule = /m/gabion.so\nsoft_load = 1\nactivate = 1\n";
        assert_eq!(
            enabled(DEBIAN),
            format!(
                "{DEBIAN}{BEGIN}\n[openssl_init]\nalg_section = gabion_algorithms\n[default_sect]\nactivate = 1\n\
                 [provider_sect]\ngabion = gabion_module\n{own}[gabion_algorithms]\n\
                 default_properties = ?provider=gabion\n[d]\n{END}\n"
            )
        );
        assert_eq!(
            enabled(RED_HAT),
            format!(
                "{RED_HAT}{BEGIN}\n[provider_sect]\ngabion = gabion_module\n{own}[evp_properties]\n\
                 default_properties = ?provider=gabion\n[req]\n{END}\n"
            )
        );
        let whole = enabled("");
        assert!(whole.contains("[default]\nopenssl_conf = gabion_init\n"), "{whole}");
        assert!(whole.contains("[gabion_providers]\ndefault = gabion_default\n"), "{whole}");
    }

    #[test]
    fn removal_gives_back_every_byte_also_after_other_edits() {
        for text in ["", "\n", "[a]", DEBIAN, RED_HAT, "a = 1\r\n# no end", "\u{fffd}\n\n"] {
            let once = enabled(text);
            assert_eq!(content(&once).without_block(), text.as_bytes(), "{text:?}");
            assert_eq!(enabled(&once), once, "{text:?}");
            let edited = format!("# first\n{once}[b]\nx = 1\n");
            let removed = String::from_utf8(content(&edited).without_block()).unwrap();
            assert!(removed.starts_with(&format!("# first\n{text}")), "{removed:?}");
            assert!(
                removed.ends_with("[b]\nx = 1\n") && !removed.contains("gabion"),
                "{removed:?}"
            );
            assert!(removed.contains("\n[b]\n"), "{removed:?}");
        }
    }

    #[test]
    fn a_marker_that_is_missing_or_there_twice_is_refused() {
        let once = enabled(DEBIAN);
        for text in [
            once.replace(END, ""),
            once.replace(BEGIN, ""),
            format!("{once}{once}"),
            format!("{END}\n{BEGIN}\n"),
        ] {
            let error = Content::divide(text.as_bytes(), Path::new(FILE)).unwrap_err();
            assert!(error.is_request() && error.to_string().contains("by hand"), "{error}");
        }
    }

    #[test]
    fn files_that_choose_other_implementations_are_refused() {
        let init = "openssl_conf = i\n[i]\nproviders = p\nalg_section = a\n";
        for (rest, words) in [
            ("[a]\ndefault_properties = fips=yes\n", "default_properties = fips=yes"),
            ("[a]\nfips_mode = yes\n", "FIPS"),
            ("[p]\ngabion = g\n", "names a provider `gabion`"),
            ("[p]\ndefault = $x\n", "plain name"),
            ("[gabion_module]\n", "section [gabion_module]"),
        ] {
            let error = refusal(&format!("{init}{rest}"));
            assert!(error.contains(words) && error.contains(FILE), "{error}");
        }
        let same = enabled(&format!("{init}[a]\ndefault_properties = ?provider=gabion\n"));
        assert_eq!(same.matches("default_properties").count(), 1, "{same}");
    }
}
