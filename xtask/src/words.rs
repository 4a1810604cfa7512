//! Text: phrases that make readers decode a sentence, first lines of documentation that say nothing,
//! long lines, and the subjects of commits. `xtask words` prints the counts.
//!
//! The counts may only fall: `tidy` fails if one exceeds its limit, and if a limit could be lower.
//! Messages, the string literals of sources other than tests, must contain none of the phrases.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::tokens;

/// Phrases that are counted in pages and comments, and that messages must not contain.
const PHRASES: &[&str] = &[
    "whoever",
    "nobody",
    "somebody",
    "anybody",
    "beside",
    "is none",
    "are none",
    "of before",
    "what it",
    "is told of",
    "of its own",
];

/// More phrases that messages must not contain.
const MESSAGE_PHRASES: &[&str] = &["is no name of", "not there"];

/// Folders and files whose string literals are not messages to users.
const WITHOUT_MESSAGES: &[&str] =
    &["bench/peers/", "fuzz/", "tests/", "xtask/", "/tests/", "/tests.rs", "/testing"];

/// How documentation must not begin.
const EMPTY_STARTS: &[&str] = &["The same", "As ", "What "];

/// Columns of pages and comments.
const WIDTH: usize = 100;

/// By how much a count may be below its limit before the limit has to be lowered.
const SLACK: usize = 25;

/// The largest count of each kind that `tidy` accepts, in the order of [`Counts::each`].
const LIMITS: [usize; 5] = [2, 12, 4, 8, 1144];

/// The findings in the tracked files.
#[derive(Default)]
struct Counts {
    page_phrases: usize,
    comment_phrases: usize,
    empty_starts: usize,
    wide_page_lines: usize,
    wide_comment_lines: usize,
}

impl Counts {
    /// Each count with its name.
    fn each(&self) -> [(&'static str, usize); 5] {
        [
            ("phrases in pages", self.page_phrases),
            ("phrases in comments", self.comment_phrases),
            ("documentation that begins with `The same`, `As` or `What`", self.empty_starts),
            ("wide lines of pages", self.wide_page_lines),
            ("wide comment lines", self.wide_comment_lines),
        ]
    }

    /// Adds a page. Tables, code, and lines with a link or an address may be wide.
    fn add_page(&mut self, text: &str) {
        for line in text.lines() {
            self.page_phrases += phrases(line);
            let may_be_wide = line.starts_with('|')
                || line.starts_with("    ")
                || line.contains("](")
                || line.contains("://");
            self.wide_page_lines += usize::from(!may_be_wide && line.chars().count() > WIDTH);
        }
    }

    /// Adds the comment lines of a source.
    fn add_source(&mut self, text: &str) {
        let mut in_documentation = false;
        for line in text.lines() {
            let comment = line.trim_start();
            let documentation =
                comment.strip_prefix("///").or_else(|| comment.strip_prefix("//!")).map(str::trim);
            if let Some(first) = documentation.filter(|_| !in_documentation) {
                let is_empty = EMPTY_STARTS.iter().any(|start| first.starts_with(start));
                self.empty_starts += usize::from(is_empty);
            }
            in_documentation = documentation.is_some();
            if comment.starts_with("//") {
                self.comment_phrases += phrases(comment);
                self.wide_comment_lines += usize::from(line.chars().count() > WIDTH);
            }
        }
    }
}

/// Counts the phrases in a line.
fn phrases(line: &str) -> usize {
    let line = line.to_lowercase();
    PHRASES.iter().map(|phrase| line.matches(phrase).count()).sum()
}

/// Counts over the tracked pages, without decision records, and Rust sources, without bench/peers.
fn count(root: &Path) -> Result<Counts, String> {
    let mut counts = Counts::default();
    for file in git(root, &["ls-files"])?.lines() {
        let is_page = file.ends_with(".md") && !file.starts_with("docs/adr/");
        let is_source = file.ends_with(".rs") && !file.starts_with("bench/peers/");
        // This list of phrases is not text.
        if !(is_page || is_source) || file == "xtask/src/words.rs" {
            continue;
        }
        // A deleted file is tracked until the deletion is committed.
        let Ok(text) = fs::read_to_string(root.join(file)) else { continue };
        if is_page { counts.add_page(&text) } else { counts.add_source(&text) }
    }
    Ok(counts)
}

/// Reports the phrases in string literals of the tracked Rust sources, without tests.
fn check_messages(root: &Path, findings: &mut Vec<String>) -> Result<(), String> {
    for file in git(root, &["ls-files", "*.rs"])?.lines() {
        let is_left_out = WITHOUT_MESSAGES
            .iter()
            .any(|part| file.starts_with(part) || part.starts_with('/') && file.contains(part));
        let Ok(text) = fs::read_to_string(root.join(file)) else { continue };
        if !is_left_out {
            let found = messages(&text).map_err(|why| format!("{file}: {why}"))?;
            findings.extend(found.iter().map(|found| format!("{file}:{found}")));
        }
    }
    Ok(())
}

/// Returns the line of each phrase in a string literal, and the phrase.
fn messages(source: &str) -> Result<Vec<String>, String> {
    let tokens = tokens::read(source)?;
    let mut texts = Vec::new();
    tokens::texts(&tokens, &mut texts);
    let mut found = Vec::new();
    for (text, line) in texts {
        // A literal may continue on the next line, after a backslash.
        let text: Vec<&str> = text.split_whitespace().filter(|word| *word != "\\").collect();
        let text = text.join(" ").to_lowercase();
        for phrase in PHRASES.iter().chain(MESSAGE_PHRASES).filter(|phrase| text.contains(**phrase))
        {
            found.push(format!("{line}: `{phrase}` in a message: name the thing directly"));
        }
    }
    Ok(found)
}

/// Returns the counts, one a line, with their limits.
pub fn show(root: &Path) -> Result<String, String> {
    let mut text = String::new();
    for ((name, found), limit) in count(root)?.each().into_iter().zip(LIMITS) {
        let _ = writeln!(text, "{found:>6} of at most {limit:>5}  {name}");
    }
    Ok(text)
}

/// Reports counts beyond their limits, limits that can be lowered, and subjects of commits.
pub fn check(root: &Path, findings: &mut Vec<String>) {
    match count(root) {
        Ok(counts) => {
            for ((name, found), limit) in counts.each().into_iter().zip(LIMITS) {
                findings.extend(against_limit(name, found, limit));
            }
        }
        Err(error) => findings.push(error),
    }
    if let Err(error) = check_messages(root, findings) {
        findings.push(error);
    }
    match subjects(root) {
        Ok(subjects) => findings.extend(subjects.iter().filter_map(|subject| refuse(subject))),
        Err(error) => findings.push(error),
    }
}

fn against_limit(name: &str, found: usize, limit: usize) -> Option<String> {
    if found > limit {
        Some(format!("{found} {name}, at most {limit} allowed; `xtask words` prints all counts"))
    } else if found + SLACK < limit {
        Some(format!("{found} {name}: lower the limit of {limit} in xtask/src/words.rs to {found}"))
    } else {
        None
    }
}

/// Returns the subjects of the commits after the one that added this file. In a clone that is not
/// deep enough, git shows its oldest commit as the one that added every file.
fn subjects(root: &Path) -> Result<Vec<String>, String> {
    let added = ["log", "--diff-filter=A", "--format=%H", "--", "xtask/src/words.rs"];
    let added = git(root, &added)?;
    let Some(first) = added.lines().last() else { return Ok(Vec::new()) };
    let range = format!("{first}..HEAD");
    let subjects = git(root, &["log", "--no-merges", "--format=%s", &range])?;
    Ok(subjects.lines().map(str::to_owned).collect())
}

/// Returns what is wrong with a commit's subject, which is `area: imperative`; several areas have
/// commas between them.
pub fn refuse(subject: &str) -> Option<String> {
    let is_area = |area: &str| {
        !area.is_empty()
            && area
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_/.".contains(c))
    };
    let wrong = match subject.split_once(": ") {
        Some((areas, change)) if areas.split(", ").all(is_area) => {
            if change.is_empty() || change.ends_with('.') {
                "has no change after the area, or a full stop"
            } else if subject.chars().count() > 72 {
                "is longer than 72 characters"
            } else {
                return None;
            }
        }
        _ => "does not begin with an area, such as `kms: `",
    };
    Some(format!("commit subject `{subject}` {wrong}"))
}

fn git(root: &Path, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new("git")
        .args(arguments)
        .current_dir(root)
        .output()
        .map_err(|error| format!("git: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_phrases_starts_and_wide_lines() {
        let mut counts = Counts::default();
        let wide = "x".repeat(WIDTH + 1);
        counts.add_page(&format!("Whoever it is, there is none.\n{wide}\n| {wide}\n    {wide}\n"));
        counts.add_source(&format!(
            "/// The same.\n/// What holds.\nfn f() {{}} // {wide}\n//{wide}\n"
        ));
        counts.add_source("/// Returns it.\nlet x = \"nobody\";\n    // nobody\n//! As before.\n");
        assert_eq!(counts.each().map(|(_, count)| count), [2, 1, 2, 1, 1]);
    }

    #[test]
    fn phrases_in_messages_are_found() {
        let source = r#"
/// Nobody.
#[doc = "nobody"]
#[error("no such key; there \
    is none")]
fn f() {
    // nobody
    println!("{x} is no name of a key");
    g(b"nobody", c"nobody", r"nobody", 'n');
}
#[cfg(test)]
mod tests { const T: &str = "nobody"; }
#[test]
fn t() { f("nobody"); }
fn g() { f("Somebody"); }
"#;
        let found: Vec<String> = messages(source).unwrap();
        let found: Vec<&str> = found.iter().filter_map(|one| one.split(" in").next()).collect();
        assert_eq!(
            found,
            [
                "4: `is none`",
                "8: `is no name of`",
                "9: `nobody`",
                "9: `nobody`",
                "9: `nobody`",
                "15: `somebody`"
            ]
        );
    }

    #[test]
    fn counts_may_only_fall() {
        assert_eq!(against_limit("words", 10, 10), None);
        assert_eq!(against_limit("words", 10, 10 + SLACK), None);
        assert!(against_limit("words", 11, 10).is_some());
        assert!(against_limit("words", 10, 11 + SLACK).unwrap().contains("to 10"));
    }

    #[test]
    fn subjects_name_an_area_and_are_short() {
        for subject in ["kms: reject bodies", "kms, hbs: mend it", "front/cli: print 1.5 MB"] {
            assert_eq!(refuse(subject), None, "{subject}");
        }
        let long = format!("kms: {}", "x".repeat(68));
        for subject in ["Mend it", "KMS: mend it", "kms: mend it.", "kms:mend", ": mend", &long] {
            assert!(refuse(subject).is_some(), "{subject}");
        }
    }
}
