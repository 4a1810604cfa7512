//! Which source is built: asked for, its hash checked, and only then looked into.

use std::io::Read;
use std::path::{Component, Path, PathBuf};

use flate2::read::GzDecoder;

use super::archive::Archive;
use super::fetch;
use crate::pins::Pins;
use crate::{Error, Result};

/// The files that a packaged source lacks, in our own version: path in the tree, and content.
const OVERLAY: &[(&str, &str)] = &[
    ("util/providers.num", include_str!("../../openssl/overlay/util/providers.num")),
    ("util/mkdef.pl", include_str!("../../openssl/overlay/util/mkdef.pl")),
    ("util/mk-fipsmodule-cnf.pl", include_str!("../../openssl/overlay/util/mk-fipsmodule-cnf.pl")),
    ("apps/openssl.cnf", include_str!("../../openssl/overlay/apps/openssl.cnf")),
    ("apps/ct_log_list.cnf", include_str!("../../openssl/overlay/apps/ct_log_list.cnf")),
];

/// What the command line says about the source.
#[derive(Debug, Clone, Default)]
pub struct SourceRequest {
    /// A tarball's path, or its http(s) address; `None` for a pinned version.
    pub location: Option<String>,
    /// The SHA-256 the tarball must have; `None` means that it must be a pinned one.
    pub sha256: Option<String>,
}

impl SourceRequest {
    /// Refuses a request that contradicts itself, before anything is fetched.
    pub(crate) fn check(&self) -> Result<()> {
        let Some(hash) = &self.sha256 else {
            return Ok(());
        };
        if self.location.is_none() {
            return Err(Error::Request(
                "--sha256 goes with --source; the versions that are known are pinned already"
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

    /// Brings the archive that `--source` names here (through `folder`, when it must be fetched) and
    /// checks its hash, before a byte of it is looked at.
    ///
    /// # Errors
    /// [`Error::Integrity`] when the bytes are not the expected ones; [`Error::Program`] when
    /// fetching failed.
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

fn open_archive(archive: &Archive) -> tar::Archive<GzDecoder<&[u8]>> {
    tar::Archive::new(GzDecoder::new(&archive.bytes[..]))
}

fn not_an_archive(archive: &Archive, cause: &dyn std::fmt::Display) -> Error {
    Error::Integrity(format!(
        "{} is not a gzip-compressed tar archive of OpenSSL's source: {cause}",
        archive.from
    ))
}

/// The folder that holds `Configure`, given the path of an entry that may be it.
fn root_of(entry: &Path) -> Option<PathBuf> {
    (entry.file_name()? == "Configure").then(|| entry.parent().map(Path::to_path_buf))?
}

/// Unpacks `archive` below `folder` and adds the files it lacks; returns the tree's root.
///
/// # Errors
/// [`Error::Integrity`] when it is no OpenSSL source or an entry would leave `folder`.
pub(crate) fn unpack(archive: &Archive, folder: &Path) -> Result<PathBuf> {
    std::fs::create_dir_all(folder)
        .map_err(|cause| Error::io("cannot make the folder", folder, cause))?;
    let mut root: Option<PathBuf> = None;
    let mut tar = open_archive(archive);
    let entries = tar.entries().map_err(|cause| not_an_archive(archive, &cause))?;
    for entry in entries {
        let mut entry = entry.map_err(|cause| not_an_archive(archive, &cause))?;
        let path = entry.path().map_err(|cause| not_an_archive(archive, &cause))?.into_owned();
        // `unpack_in` skips what would leave the folder; in a source whose hash was checked such
        // an entry means that something is wrong, so say it.
        let plain = path.components().all(|part| matches!(part, Component::Normal(_)));
        let unpacked = plain
            && entry
                .unpack_in(folder)
                .map_err(|cause| Error::io("cannot unpack into", folder, cause))?;
        if !unpacked {
            return Err(not_an_archive(archive, &format!("entry {} is refused", path.display())));
        }
        if let Some(found) = root_of(&path) {
            let shallower = root
                .as_ref()
                .is_none_or(|known| found.components().count() < known.components().count());
            if shallower {
                root = Some(found);
            }
        }
    }
    let root = root.ok_or_else(|| not_an_archive(archive, &"it holds no Configure"))?;
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

/// Reads the OpenSSL version from `VERSION.dat` inside an archive.
///
/// # Errors
/// [`Error::Integrity`] when the archive holds no such file or it names no version.
pub(crate) fn version_of_archive(archive: &Archive) -> Result<String> {
    let mut tar = open_archive(archive);
    let entries = tar.entries().map_err(|cause| not_an_archive(archive, &cause))?;
    for entry in entries {
        let mut entry = entry.map_err(|cause| not_an_archive(archive, &cause))?;
        let is_version_file = entry
            .path()
            .is_ok_and(|path| path.file_name().is_some_and(|name| name == "VERSION.dat"));
        if !is_version_file {
            continue;
        }
        let mut text = String::new();
        entry.read_to_string(&mut text).map_err(|cause| not_an_archive(archive, &cause))?;
        return parse_version(&text)
            .ok_or_else(|| not_an_archive(archive, &"VERSION.dat names no version"));
    }
    Err(not_an_archive(archive, &"it holds no VERSION.dat"))
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
