//! Applies a unified diff to a source tree, exactly or not at all.
//!
//! ```text
//!   text --parse--> files, each with its hunks --check every line--> new contents --write--> tree
//! ```
//!
//! There is no fuzzy matching: a hunk must match its line number and every line of its context. A
//! patch that fits elsewhere or only almost was made for another source.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use crate::{Error, Result};

/// The patches that make libcrypto's ML-KEM and ML-DSA use libgabion: OpenSSL version and text.
const CORE_OFFLOAD: &[(&str, &str)] = &[
    ("3.5.5", OFFLOAD_3_5),
    ("3.5.7", OFFLOAD_3_5),
    // Untested, because no reachable place had this version. The patch must fit exactly, or the
    // build fails.
    ("3.5.9", OFFLOAD_3_5),
    ("4.0.3", include_str!("../../openssl/core-offload-4.0.3.patch")),
];
const OFFLOAD_3_5: &str = include_str!("../../openssl/core-offload-3.5.patch");

/// Returns the core patch of an OpenSSL version.
///
/// # Errors
/// [`Error::Request`], naming the versions that have one.
pub(crate) fn core_offload(version: &str) -> Result<&'static str> {
    let found = CORE_OFFLOAD.iter().find(|(known, _)| *known == version);
    found.map(|(_, text)| *text).ok_or_else(|| {
        let known: Vec<_> = CORE_OFFLOAD.iter().map(|(known, _)| *known).collect();
        Error::Request(format!(
            "no core patch exists for OpenSSL {version}; expected {}",
            known.join(" or ")
        ))
    })
}

/// A change within a file: its position, the old lines and the new lines.
#[derive(Debug, Default, PartialEq, Eq)]
struct Hunk<'a> {
    /// First line, counted from 0.
    start: usize,
    old: Vec<&'a str>,
    new: Vec<&'a str>,
}

/// All changes of a patch to one file.
#[derive(Debug, PartialEq, Eq)]
struct Change<'a> {
    path: &'a str,
    /// Whether the patch creates the file.
    is_new: bool,
    hunks: Vec<Hunk<'a>>,
}

/// Applies `patch` below `tree`. All files are read and checked before the first one is written.
///
/// # Errors
/// [`Error::Integrity`] if the patch is malformed or does not fit exactly; no file is changed then.
/// [`Error::Io`] if a file cannot be read or written.
pub(crate) fn apply(tree: &Path, patch: &str) -> Result<()> {
    let mut contents = BTreeMap::new();
    for change in parse(patch)? {
        let place = tree.join(change.path);
        let old = if change.is_new {
            if place.exists() {
                return Err(misfit(change.path, 1, "the file already exists"));
            }
            String::new()
        } else {
            std::fs::read_to_string(&place)
                .map_err(|cause| Error::io("cannot read", &place, cause))?
        };
        contents.insert(place, patched(&change, &old)?);
    }
    for (place, content) in contents {
        let write = || -> std::io::Result<()> {
            if let Some(folder) = place.parent() {
                std::fs::create_dir_all(folder)?;
            }
            std::fs::write(&place, content)
        };
        write().map_err(|cause| Error::io("cannot write", &place, cause))?;
    }
    Ok(())
}

/// Returns the content of a file after its change.
fn patched(change: &Change<'_>, old: &str) -> Result<String> {
    let lines: Vec<&str> = old.split_inclusive('\n').collect();
    let mut made = String::with_capacity(old.len() * 2);
    let mut at = 0;
    for hunk in &change.hunks {
        let between = lines.get(at..hunk.start);
        let between =
            between.ok_or_else(|| misfit(change.path, hunk.start + 1, "it is shorter"))?;
        made.extend(between.iter().copied());
        at = hunk.start + hunk.old.len();
        let there = lines.get(hunk.start..at).unwrap_or(&lines[hunk.start..]);
        for (i, expected) in hunk.old.iter().enumerate() {
            let found = there.get(i).map_or("its end", |line| line.trim_end_matches('\n'));
            if there.get(i).and_then(|line| line.strip_suffix('\n')) != Some(*expected) {
                let what = format!("{found:?} stands there; expected {expected:?}");
                return Err(misfit(change.path, hunk.start + i + 1, &what));
            }
        }
        for line in &hunk.new {
            made.push_str(line);
            made.push('\n');
        }
    }
    made.extend(lines[at..].iter().copied());
    Ok(made)
}

fn misfit(path: &str, line: usize, what: &str) -> Error {
    Error::Integrity(format!(
        "the patch does not fit {path}, line {line}: {what}. Is the source changed already? Nothing \
         was built"
    ))
}

fn malformed(number: usize, what: &str) -> Error {
    Error::Integrity(format!("line {number} of the patch: {what}"))
}

/// Parses a unified diff; text before the first file is ignored.
fn parse(patch: &str) -> Result<Vec<Change<'_>>> {
    let mut changes: Vec<Change<'_>> = Vec::new();
    let mut lines = patch.lines().enumerate().map(|(i, line)| (i + 1, line)).peekable();
    while let Some((number, line)) = lines.next() {
        if let Some(old) = line.strip_prefix("--- ") {
            let new = lines.next().and_then(|(_, line)| line.strip_prefix("+++ b/"));
            let path = new.ok_or_else(|| malformed(number, "no `+++ b/` line follows"))?;
            let plain = Path::new(path).components().all(|c| matches!(c, Component::Normal(_)));
            if !plain || path.is_empty() {
                return Err(malformed(number, "a path that leaves the tree"));
            }
            let is_new = old == "/dev/null";
            if !is_new && old.strip_prefix("a/") != Some(path) {
                return Err(malformed(number, "two names for one file"));
            }
            changes.push(Change { path, is_new, hunks: Vec::new() });
        } else if line.starts_with("@@ ") {
            let change = changes.last_mut();
            let change = change.ok_or_else(|| malformed(number, "a hunk of no file"))?;
            let numbers = hunk_head(line).ok_or_else(|| malformed(number, "not a hunk's head"))?;
            let (old_start, old_lines, new_lines) = numbers;
            let start = if old_lines == 0 { old_start } else { old_start.saturating_sub(1) };
            let mut hunk = Hunk { start, ..Hunk::default() };
            while hunk.old.len() < old_lines || hunk.new.len() < new_lines {
                let (number, line) =
                    lines.next().ok_or_else(|| malformed(number, "the hunk is cut short"))?;
                let (kind, text) = line.split_at_checked(1).unwrap_or((" ", ""));
                match kind {
                    " " => {
                        hunk.old.push(text);
                        hunk.new.push(text);
                    }
                    "-" => hunk.old.push(text),
                    "+" => hunk.new.push(text),
                    _ => return Err(malformed(number, "not a line of a hunk")),
                }
            }
            let end = change.hunks.last().map_or(0, |last| last.start + last.old.len());
            if (hunk.old.len(), hunk.new.len()) != (old_lines, new_lines) || hunk.start < end {
                return Err(malformed(number, "the hunk's head does not fit its lines"));
            }
            change.hunks.push(hunk);
        } else if !changes.is_empty() {
            return Err(malformed(number, "neither a hunk nor a file"));
        }
    }
    if changes.is_empty() || changes.iter().any(|change| change.hunks.is_empty()) {
        return Err(malformed(0, "it changes nothing"));
    }
    Ok(changes)
}

/// Parses `@@ -a,b +c,d @@` into the first line, and the numbers of old and new lines.
fn hunk_head(line: &str) -> Option<(usize, usize, usize)> {
    let mut words = line.strip_prefix("@@ -")?.split(' ');
    let range = |word: &str| -> Option<(usize, usize)> {
        let (start, lines) = word.split_once(',').unwrap_or((word, "1"));
        Some((start.parse().ok()?, lines.parse().ok()?))
    };
    let (start, old_lines) = range(words.next()?)?;
    let (_, new_lines) = range(words.next()?.strip_prefix('+')?)?;
    (words.next() == Some("@@")).then_some((start, old_lines, new_lines))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "one\ntwo\nthree\nfour\nfive\n";
    const PATCH: &str = "Why.\n\n--- a/d/f.c\n+++ b/d/f.c\n@@ -2,3 +2,4 @@ head\n two\n-three\n+3\n+3a\n \
                         four\n--- /dev/null\n+++ b/d/new.h\n@@ -0,0 +1,2 @@\n+first\n+\n";

    fn tree(content: &str) -> tempfile::TempDir {
        let tree = tempfile::tempdir().unwrap();
        std::fs::create_dir(tree.path().join("d")).unwrap();
        std::fs::write(tree.path().join("d/f.c"), content).unwrap();
        tree
    }

    #[test]
    fn a_patch_that_fits_changes_and_adds() {
        let tree = tree(FILE);
        apply(tree.path(), PATCH).unwrap();
        let read = |name: &str| std::fs::read_to_string(tree.path().join(name)).unwrap();
        assert_eq!(read("d/f.c"), "one\ntwo\n3\n3a\nfour\nfive\n");
        assert_eq!(read("d/new.h"), "first\n\n");
        // The patch does not fit its own result.
        assert!(matches!(apply(tree.path(), PATCH), Err(Error::Integrity(_))));
    }

    #[test]
    fn patch_requires_exact_line_and_context() {
        for content in [
            "zero\none\ntwo\nthree\nfour\nfive\n",
            "one\ntwo\nthree\nfour!\nfive\n",
            "one\ntwo\n three\nfour\n",
            "one\ntwo\nthree\nfour",
            "one\n",
            "",
        ] {
            let tree = tree(content);
            let error = apply(tree.path(), PATCH).unwrap_err();
            assert!(matches!(error, Error::Integrity(_)), "{content:?}: {error}");
            assert_eq!(std::fs::read_to_string(tree.path().join("d/f.c")).unwrap(), content);
            assert!(!tree.path().join("d/new.h").exists(), "{content:?}: half of it was written");
        }
    }

    #[test]
    fn a_malformed_patch_is_refused() {
        let tree = tree(FILE);
        for (from, to) in [
            ("d/new.h", "../new.h"),
            ("d/new.h", "/tmp/new.h"),
            ("b/d/f.c", "b/d/g.c"),
            ("-2,3", "-2,4"),
            ("+2,4", "+2,3"),
            ("@@ -2", "@@ 2"),
            ("+3a", "3a"),
            ("+++ b/d/f.c\n", ""),
            ("+first\n+\n", "+first\n"),
        ] {
            let patch = PATCH.replacen(from, to, 1);
            assert_ne!(patch, PATCH);
            assert!(matches!(apply(tree.path(), &patch), Err(Error::Integrity(_))), "{to:?}");
        }
        assert!(apply(tree.path(), "").is_err());
    }

    #[test]
    fn the_shipped_patches_parse_and_share_their_new_files() {
        let new_files = |patch: &'static str| {
            let changes = parse(patch).unwrap();
            let is_hooked = |path| changes.iter().any(|change| change.path == path);
            assert!(
                is_hooked("crypto/ml_kem/ml_kem.c") && is_hooked("crypto/ml_dsa/ml_dsa_sign.c")
            );
            changes.into_iter().filter(|change| change.is_new).collect::<Vec<_>>()
        };
        let [(_, first), rest @ ..] = CORE_OFFLOAD else { panic!("no patch is shipped") };
        assert_eq!(new_files(first).len(), 2);
        for (version, patch) in rest {
            assert!(new_files(first) == new_files(patch), "{version} has other new files");
        }
        assert!(core_offload("3.5.5").is_ok());
        let refusal = core_offload("3.6.3").unwrap_err();
        assert!(refusal.is_request() && refusal.to_string().contains("3.5.9 or 4.0.3"));
    }

    /// The table that the patch declares is filled from gabion.h here, so a difference in the
    /// arguments of a function does not compile.
    #[test]
    fn the_table_of_functions_is_that_of_gabion_h() {
        let place = tempfile::tempdir().unwrap();
        let (_, patch) = CORE_OFFLOAD[0];
        for change in parse(patch).unwrap() {
            if change.is_new {
                let name = Path::new(change.path).file_name().unwrap();
                std::fs::write(place.path().join(name), patched(&change, "").unwrap()).unwrap();
            }
        }
        let header = std::fs::read_to_string(place.path().join("gabion_offload.h")).unwrap();
        let table = header.split("typedef struct ossl_gabion_table_st {").nth(1).unwrap();
        let table = table.split('}').next().unwrap();
        let fields: Vec<_> =
            table.split("(*").skip(1).filter_map(|rest| rest.split(')').next()).collect();
        assert_eq!(fields.len(), 15);
        // In the patch, handles are `void` and the message has another name; everything else is
        // equal.
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../front/capi/include");
        let mut public = std::fs::read_to_string(folder.join("gabion.h")).unwrap();
        for handle in ["gabion_private_key", "gabion_public_key"] {
            let opaque = format!("typedef struct {handle} {handle};");
            assert!(public.contains(&opaque));
            public = public.replace(&opaque, &format!("typedef void {handle};"));
        }
        let header = header.replace("const OSSL_GABION_MESSAGE *", "const gabion_message *");
        let mut program = format!(
            "{public}\n{header}\n_Static_assert(GABION_ABI == OSSL_GABION_ABI, \"interface\");\n\
             _Static_assert(sizeof(gabion_message) == sizeof(OSSL_GABION_MESSAGE), \"size\");\n"
        );
        for field in ["message", "message_len", "context", "context_len", "prehash"] {
            program += &format!(
                "_Static_assert(offsetof(gabion_message, {field}) == \
                 offsetof(OSSL_GABION_MESSAGE, {field}), \"{field}\");\n"
            );
        }
        program += "OSSL_GABION_TABLE table = {\n";
        for field in &fields {
            program += &format!("  .{field} = gabion_{field},\n");
        }
        program += "};\n";
        let compile = |program: &str| {
            let source = place.path().join("table.c");
            std::fs::write(&source, program).unwrap();
            let mut cc = std::process::Command::new("cc");
            cc.args(["-std=gnu11", "-fsyntax-only", "-Werror", "-Wall"]).arg(&source);
            cc.output().unwrap()
        };
        let output = compile(&program);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let other =
            program.replace("size_t secret_len)\n    GABION", "int secret_len)\n    GABION");
        assert!(other != program && !compile(&other).status.success(), "nothing was compared");
    }
}
