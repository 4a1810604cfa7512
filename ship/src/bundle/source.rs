//! Obtains the source to build. The hash is checked before the archive is opened.

use std::io::{ErrorKind, Write};
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};

use super::archive::Archive;
use super::fetch;
use crate::pins::Pins;
use crate::{Error, Result};

/// The files missing in the packaged source, replaced by Gabion's own: path in the tree, and
/// content.
const OVERLAY: &[(&str, &str)] = &[
    ("util/providers.num", include_str!("../../openssl/overlay/util/providers.num")),
    ("util/mkdef.pl", include_str!("../../openssl/overlay/util/mkdef.pl")),
    ("util/mk-fipsmodule-cnf.pl", include_str!("../../openssl/overlay/util/mk-fipsmodule-cnf.pl")),
    ("apps/openssl.cnf", include_str!("../../openssl/overlay/apps/openssl.cnf")),
    ("apps/ct_log_list.cnf", include_str!("../../openssl/overlay/apps/ct_log_list.cnf")),
];

/// The source options of the command line.
#[derive(Debug, Clone, Default)]
pub struct SourceRequest {
    /// The path or http(s) address of a tarball; `None` for a pinned version.
    pub location: Option<String>,
    /// The SHA-256 of the tarball; `None` if it must be a pinned one.
    pub sha256: Option<String>,
}

impl SourceRequest {
    /// Rejects contradictory options before anything is fetched.
    pub(crate) fn check(&self) -> Result<()> {
        let Some(hash) = &self.sha256 else {
            return Ok(());
        };
        if self.location.is_none() {
            return Err(Error::Request(
                "--sha256 requires --source; the versions that are known are pinned already"
                    .to_string(),
            ));
        }
        if hash.len() != 64 || !hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(Error::Request(format!(
                "--sha256 {hash} is not a SHA-256 value; expected 64 hexadecimal digits"
            )));
        }
        Ok(())
    }

    /// Reads the archive of `--source`, downloading it through `folder` if necessary, and checks
    /// its hash before interpreting any byte of it.
    ///
    /// # Errors
    /// [`Error::Integrity`] if the hash differs; [`Error::Program`] if the download failed.
    pub(crate) fn obtain(&self, location: &str, pins: &Pins, folder: &Path) -> Result<Archive> {
        let from = format!("--source {location}");
        let archive = if location.starts_with("http://") || location.starts_with("https://") {
            let path = folder.join("source.tar.gz");
            fetch::download(location, &path).map_err(|reason| {
                Error::Program(format!("{location} could not be downloaded: {reason}"))
            })?;
            Archive::read(&path, from)?
        } else {
            Archive::read(Path::new(location), from)?
        };
        let sha256 = &archive.sha256;
        let expected = match &self.sha256 {
            Some(expected) if !expected.eq_ignore_ascii_case(sha256) => {
                format!("the {expected} given by --sha256")
            }
            None if pins.version_of(sha256).is_none() => {
                format!("a pinned source (OpenSSL {}) or `--sha256 {sha256}`", pins.known())
            }
            _ => return Ok(archive),
        };
        Err(Error::Integrity(format!(
            "{location} has SHA-256 {sha256}; expected {expected}. Nothing was built"
        )))
    }
}

/// Runs `tar -xz` or `tar -tz` with the archive as standard input, and returns the output.
fn tar(archive: &Archive, arguments: &[&str], folder: &Path) -> Result<Vec<u8>> {
    let failed = |cause| Error::Program(format!("cannot run tar: {cause}"));
    let mut child = Command::new("tar")
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let input = child.stdin.take();
    let (written, output) = std::thread::scope(|scope| {
        let writer = std::thread::Builder::new()
            .spawn_scoped(scope, || input.map_or(Ok(()), |mut pipe| pipe.write_all(&archive.bytes)))
            .map_err(failed);
        // Without a writer, `input` is dropped and tar ends.
        let output = child.wait_with_output().map_err(failed);
        let written = writer.map(|writer| writer.join().unwrap_or(Ok(())));
        (written, output)
    });
    let (written, output) = (written?, output?);
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(not_an_archive(
            archive,
            &text.lines().find(|line| !line.is_empty()).unwrap_or("tar failed"),
        ));
    }
    match written {
        // tar may end before it reads the padding after the last entry.
        Err(cause) if cause.kind() != ErrorKind::BrokenPipe => Err(failed(cause)),
        _ => Ok(output.stdout),
    }
}

fn not_an_archive(archive: &Archive, cause: &dyn std::fmt::Display) -> Error {
    Error::Integrity(format!(
        "{} is not a gzip-compressed tar archive of OpenSSL's source: {cause}",
        archive.from
    ))
}

/// Returns the paths of all entries of the archive.
fn entries(archive: &Archive) -> Result<Vec<PathBuf>> {
    let listing = tar(archive, &["-tzf", "-"], Path::new("/"))?;
    let paths: Vec<PathBuf> =
        String::from_utf8_lossy(&listing).lines().map(PathBuf::from).collect();
    // tar rejects or renames entries outside the folder; in a source whose hash was verified, such
    // entries are an error.
    let is_plain =
        |path: &&PathBuf| path.components().all(|part| matches!(part, Component::Normal(_)));
    match paths.iter().find(|path| !is_plain(path)) {
        Some(path) => Err(not_an_archive(archive, &format!("entry {} is refused", path.display()))),
        None => Ok(paths),
    }
}

/// Returns the entry with this file name that is nearest to the archive's root.
fn shallowest<'a>(entries: &'a [PathBuf], name: &str) -> Option<&'a Path> {
    let named = entries.iter().filter(|path| path.file_name().is_some_and(|found| found == name));
    named.min_by_key(|path| path.components().count()).map(PathBuf::as_path)
}

/// Unpacks `archive` below `folder` and adds the missing files. Returns the root of the tree.
///
/// # Errors
/// [`Error::Integrity`] if it is not an OpenSSL source or an entry would leave `folder`.
pub(crate) fn unpack(archive: &Archive, folder: &Path) -> Result<PathBuf> {
    std::fs::create_dir_all(folder)
        .map_err(|cause| Error::io("cannot make the folder", folder, cause))?;
    let entries = entries(archive)?;
    let root = shallowest(&entries, "Configure")
        .and_then(Path::parent)
        .ok_or_else(|| not_an_archive(archive, &"it holds no Configure"))?;
    tar(archive, &["--no-same-owner", "-xzf", "-"], folder)?;
    let tree = folder.join(root);
    add_missing_files(&tree)?;
    Ok(tree)
}

fn add_missing_files(tree: &Path) -> Result<()> {
    for (name, content) in OVERLAY {
        let path = tree.join(name);
        if path.exists() {
            continue;
        }
        let write = || -> std::io::Result<()> {
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent)?;
            }
            std::fs::write(&path, content)
        };
        write().map_err(|cause| Error::io("cannot write", &path, cause))?;
    }
    Ok(())
}

/// Reads the OpenSSL version from `VERSION.dat` in an archive.
///
/// # Errors
/// [`Error::Integrity`] if the file is missing or contains no version.
pub(crate) fn version_of_archive(archive: &Archive) -> Result<String> {
    let entries = entries(archive)?;
    let file = shallowest(&entries, "VERSION.dat")
        .and_then(Path::to_str)
        .ok_or_else(|| not_an_archive(archive, &"it holds no VERSION.dat"))?;
    let text = tar(archive, &["-xzOf", "-", "--", file], Path::new("/"))?;
    parse_version(&String::from_utf8_lossy(&text))
        .ok_or_else(|| not_an_archive(archive, &"VERSION.dat names no version"))
}

fn parse_version(text: &str) -> Option<String> {
    let value = |key: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix('='))
            .map(|value| value.trim().trim_matches('"').to_string())
    };
    let tag = value("PRE_RELEASE_TAG").filter(|tag| !tag.is_empty());
    let numbers = [value("MAJOR")?, value("MINOR")?, value("PATCH")?];
    if numbers.iter().any(|number| number.parse::<u32>().is_err()) {
        return None;
    }
    let numbers = numbers.join(".");
    Some(match tag {
        Some(tag) => format!("{numbers}-{tag}"),
        None => numbers,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_dat_gives_the_version() {
        let text = "MAJOR=3\nMINOR=5\nPATCH=5\nPRE_RELEASE_TAG=\nRELEASE_DATE=\"x\"\n";
        assert_eq!(parse_version(text).as_deref(), Some("3.5.5"));
        let beta = "MAJOR=4\nMINOR=1\nPATCH=0\nPRE_RELEASE_TAG=beta1\n";
        assert_eq!(parse_version(beta).as_deref(), Some("4.1.0-beta1"));
        assert_eq!(parse_version("MAJOR=x\nMINOR=1\nPATCH=0\n"), None);
        assert_eq!(parse_version(""), None);
    }

    #[test]
    fn a_hash_without_a_source_or_of_the_wrong_length_is_a_bad_request() {
        let lone = SourceRequest { location: None, sha256: Some("0".repeat(64)) };
        assert!(lone.check().unwrap_err().is_request());
        let short = SourceRequest { location: Some("x".into()), sha256: Some("abc".into()) };
        assert!(short.check().unwrap_err().is_request());
    }

    #[test]
    fn garbage_is_refused_and_not_unpacked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("source.tar.gz");
        std::fs::write(&path, b"this is no archive").unwrap();
        let archive = Archive::read(&path, "x".to_string()).unwrap();
        let target = folder.path().join("tree");
        assert!(matches!(unpack(&archive, &target), Err(Error::Integrity(_))));
        assert!(matches!(version_of_archive(&archive), Err(Error::Integrity(_))));
        assert_eq!(std::fs::read_dir(&target).unwrap().count(), 0);
    }
}
