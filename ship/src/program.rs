//! Determines which OpenSSL a program would use, from its file, before it starts.
//!
//! ```text
//!   script ──#!──> program ──loader's list──> the bundle's libcrypto   fine
//!                     │                       another libcrypto        against
//!                     │                       none ──> an OpenSSL within? unseen
//!                     └─ setuid, capabilities: the loader ignores the environment   against
//! ```
//!
//! Libraries that a program opens later (such as modules of an interpreter) and its child processes
//! are not covered: use `gabion preflight --pid` on the running process.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::bundle::Layout;
use crate::trust;

/// The dynamic loaders of the system, which list a program's libraries without running it.
const LOADERS: [&str; 2] = ["/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"];
/// Maximum number of nested script interpreters.
const SCRIPTS_MAX: usize = 4;
const ELF: &[u8] = b"\x7fELF";

/// The findings of [`look`], one sentence each.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// The program would run code that was not checked.
    pub(crate) against: Vec<String>,
    /// The program may run code that was not checked, but its file does not show it.
    pub(crate) unseen: Vec<String>,
}

/// Inspects the program that `exec` would start with these variables.
pub(crate) fn look(name: &OsStr, layout: &Layout, variables: &[(&str, OsString)]) -> Findings {
    let path = variables.iter().find(|(name, _)| *name == "PATH").map(|(_, path)| path);
    let path = path.cloned().unwrap_or_default();
    let mut findings = Findings::default();
    let Some(program) = find(name, &path).and_then(|program| interpreter_of(program, &path)) else {
        return findings;
    };
    let shown = program.display();
    if ignores_environment(&program) {
        findings.against.push(format!(
            "{shown} runs with more rights than its caller (set-user-ID, set-group-ID or capabilities), \
             so that it sees none of the bundle's environment"
        ));
        return findings;
    }
    let loaded = loaded(&program, variables);
    let bundle = layout.lib().canonicalize().ok();
    let foreign = loaded.iter().filter(|file| {
        file.canonicalize().ok().and_then(|file| Some(file.parent()?.to_path_buf())) != bundle
    });
    findings.against.extend(foreign.map(|file| {
        format!("{shown} loads {}, which is not the bundle's and was not checked", file.display())
    }));
    if loaded.is_empty()
        && let Some(version) = embedded(&program)
    {
        findings.unseen.push(format!(
            "{shown} contains an OpenSSL ({version}) and loads no library of the bundle: the checks \
             do not cover it; `gabion preflight --pid` says what a running process uses"
        ));
    }
    findings
}

/// Returns the program that a command name refers to.
fn find(name: &OsStr, path: &OsStr) -> Option<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(name));
    }
    std::env::split_paths(path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// Returns the ELF program that would run; for a script, its interpreter. Returns `None` for other
/// files.
fn interpreter_of(mut program: PathBuf, path: &OsStr) -> Option<PathBuf> {
    for _ in 0..SCRIPTS_MAX {
        let mut head = Vec::new();
        std::fs::File::open(&program).ok()?.take(256).read_to_end(&mut head).ok()?;
        if head.starts_with(ELF) {
            return Some(program);
        }
        let line = head.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
        let mut words =
            line.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
        let interpreter = PathBuf::from(OsStr::from_bytes(words.next()?));
        program = if interpreter.file_name() == Some(OsStr::new("env")) {
            let is_name = |word: &&[u8]| !word.starts_with(b"-") && !word.contains(&b'=');
            find(OsStr::from_bytes(words.find(is_name)?), path)?
        } else {
            interpreter
        };
    }
    None
}

/// Returns whether the kernel would start it in secure mode, in which the loader and libcrypto
/// ignore variables.
fn ignores_environment(program: &Path) -> bool {
    let Ok(data) = std::fs::metadata(program) else { return false };
    let sets = |bit, owner, ours| data.mode() & bit != 0 && owner != ours;
    if sets(0o4000, data.uid(), trust::user()) || sets(0o2000, data.gid(), trust::group()) {
        return true;
    }
    // Root does not gain capabilities.
    let mut value = [0; 64];
    trust::user() != 0
        && rustix::fs::getxattr(program, "security.capability", &mut value).is_ok_and(|n| n > 0)
}

/// Returns the libcrypto and libssl that the loader would load.
fn loaded(program: &Path, variables: &[(&str, OsString)]) -> Vec<PathBuf> {
    let Some(loader) = LOADERS.iter().find(|loader| Path::new(loader).is_file()) else {
        return Vec::new();
    };
    let mut command = Command::new(loader);
    command.arg("--list").arg(program).stdin(Stdio::null());
    command.envs(variables.iter().map(|(name, value)| (*name, value)));
    // For a static program, the loader prints an error.
    let listed = command.output().map(|output| output.stdout).unwrap_or_default();
    let listed = String::from_utf8_lossy(&listed);
    // Lines have the form `NAME => FILE (0x..)`, or `FILE (0x..)` for preloaded libraries.
    let file = |line: &str| {
        let (line, _) = line.trim_start().rsplit_once(" (0x")?;
        let file = line.split_once(" => ").map_or(line, |(_, file)| file);
        Some(PathBuf::from(file))
    };
    let of_openssl = |file: &PathBuf| {
        let name = file.file_name().unwrap_or_default().as_bytes();
        name.starts_with(b"libcrypto.so") || name.starts_with(b"libssl.so")
    };
    listed.lines().filter_map(file).filter(of_openssl).collect()
}

/// Returns the version text of an OpenSSL linked into a program, such as `OpenSSL 3.0.15 3 Sep
/// 2024`.
fn embedded(program: &Path) -> Option<String> {
    const MARK: &[u8] = b"OpenSSL ";
    let bytes = std::fs::read(program).ok()?;
    let mut at = 0;
    while let Some(found) = bytes[at..].iter().position(|&byte| byte == MARK[0]) {
        at += found;
        if bytes[at..].starts_with(MARK)
            && let Some(version) = version_text(&bytes[at..])
        {
            return Some(version);
        }
        at += 1;
    }
    None
}

/// Returns the first five words if they are a name, a version and a date.
fn version_text(bytes: &[u8]) -> Option<String> {
    let end = bytes.iter().take(64).position(|byte| !(b' '..=b'~').contains(byte));
    let text = std::str::from_utf8(&bytes[..end.unwrap_or(bytes.len().min(64))]).ok()?;
    // OpenSSL 1.1.1 prints two spaces before its date.
    let words: Vec<&str> = text.split_ascii_whitespace().take(5).collect();
    let [name, version, day, month, year] = words[..] else { return None };
    let year = year.get(..4)?;
    let number = |text: &str| text.parse::<u16>().is_ok();
    let is_version = version.starts_with(|c: char| c.is_ascii_digit()) && version.contains('.');
    (is_version && number(day) && month.len() == 3 && number(year))
        .then(|| format!("{name} {version} {day} {month} {year}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_text_is_a_name_a_version_and_a_date() {
        let text = |bytes: &[u8]| version_text(bytes);
        assert_eq!(
            text(b"OpenSSL 3.0.15+quic 3 Sep 2024\0x").as_deref(),
            Some("OpenSSL 3.0.15+quic 3 Sep 2024")
        );
        assert!(text(b"OpenSSL 1.1.1w  11 Sep 2023\0").is_some());
        assert_eq!(text(b"OpenSSL 3.5 or newer is needed\0"), None);
        assert_eq!(text(b"OpenSSL "), None);
    }

    #[test]
    fn a_script_is_its_interpreter() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("script");
        let path = OsStr::new("/usr/bin:/bin");
        for (line, wanted) in [("#!/bin/sh -e\n", "sh"), ("#!/usr/bin/env -S A=b ls\n", "ls")] {
            std::fs::write(&script, line).unwrap();
            let found = interpreter_of(script.clone(), path).unwrap();
            assert_eq!(found.file_name(), Some(OsStr::new(wanted)));
        }
        std::fs::write(&script, format!("#!{}\n", script.display())).unwrap();
        assert_eq!(interpreter_of(script.clone(), path), None, "a circle");
        std::fs::write(&script, "text").unwrap();
        assert_eq!(interpreter_of(script, path), None);
    }
}
