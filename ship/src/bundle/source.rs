//! Where OpenSSL's source comes from: a pinned package, a file or an address; hash first, always.

use std::io::Read;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};

use flate2::read::GzDecoder;

use crate::pins::{Package, Pin, Pins};
use crate::{Error, Result, sha256_file};

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
    /// A tarball's path, or its http(s) address; `None` for the pinned package.
    pub location: Option<String>,
    /// The SHA-256 the tarball must have; `None` means that it must be a pinned one.
    pub sha256: Option<String>,
}

/// A source archive that lies on this machine and whose hash was checked.
pub(crate) struct Archive {
    pub(crate) path: PathBuf,
    pub(crate) sha256: String,
}

impl SourceRequest {
    /// Refuses a request that contradicts itself, before anything is fetched.
    pub(crate) fn check(&self) -> Result<()> {
        let Some(hash) = &self.sha256 else {
            return Ok(());
        };
        if self.location.is_none() {
            return Err(Error::Request(
                "--sha256 goes with --source; the packaged source is pinned already".to_string(),
            ));
        }
        if hash.len() != 64 || !hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(Error::Request(format!(
                "--sha256 {hash} is not a SHA-256 value; expected 64 hexadecimal digits"
            )));
        }
        Ok(())
    }

    /// Brings the archive here (into `folder`, when it must be fetched) and checks its hash.
    ///
    /// # Errors
    /// [`Error::Integrity`] when the bytes are not the expected ones; [`Error::Program`] when
    /// fetching failed.
    pub(crate) fn obtain(&self, pins: &Pins, version: &str, folder: &Path) -> Result<Archive> {
        self.check()?;
        let Some(location) = &self.location else {
            return packaged(pins.find(version)?, folder);
        };
        let path = if location.starts_with("http://") || location.starts_with("https://") {
            let path = folder.join("source.tar.gz");
            download(location, &path)?;
            path
        } else {
            PathBuf::from(location)
        };
        let sha256 = sha256_file(&path)?;
        match &self.sha256 {
            Some(expected) if !expected.eq_ignore_ascii_case(&sha256) => {
                Err(hash_refusal(location, &sha256, &format!("the {expected} given by --sha256")))
            }
            None if pins.version_of(&sha256).is_none() => Err(hash_refusal(
                location,
                &sha256,
                &format!("a pinned source (OpenSSL {}) or `--sha256 {sha256}`", pins.known()),
            )),
            _ => Ok(Archive { path, sha256 }),
        }
    }
}

fn hash_refusal(location: &str, found: &str, expected: &str) -> Error {
    Error::Integrity(format!(
        "{location} has SHA-256 {found}; expected {expected}. Nothing was built"
    ))
}

/// Finds the pinned package among cargo's downloads, or lets cargo download it.
///
/// cargo is the downloader because it already knows the mirror that this machine is to use.
fn packaged(pin: &Pin, folder: &Path) -> Result<Archive> {
    if let Some(archive) = find_downloaded(&pin.package)? {
        return Ok(archive);
    }
    cargo_fetch(&pin.package, folder)?;
    find_downloaded(&pin.package)?.ok_or_else(|| {
        Error::Integrity(format!(
            "cargo fetched {} {}, but no .crate file with SHA-256 {} is in its cache; give the \
             upstream tarball with `--source FILE|URL` instead",
            pin.package.name, pin.package.version, pin.package.sha256
        ))
    })
}

/// Looks through `CARGO_HOME/registry/cache/*/` for the package with the pinned hash.
fn find_downloaded(package: &Package) -> Result<Option<Archive>> {
    let home = std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo")));
    let Some(registries) = home
        .map(|home| home.join("registry/cache"))
        .and_then(|cache| std::fs::read_dir(cache).ok())
    else {
        return Ok(None);
    };
    let file_name = format!("{}-{}.crate", package.name, package.version);
    for registry in registries.flatten() {
        let path = registry.path().join(&file_name);
        if path.is_file() && sha256_file(&path)? == package.sha256 {
            return Ok(Some(Archive { path, sha256: package.sha256.clone() }));
        }
    }
    Ok(None)
}

fn cargo_fetch(package: &Package, folder: &Path) -> Result<()> {
    let project = folder.join("fetch");
    let manifest = format!(
        "[package]\nname = \"fetch-openssl-source\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\
         publish = false\n[dependencies]\n{} = \"={}\"\n[workspace]\n",
        package.name,
        package.version.split('+').next().unwrap_or(&package.version),
    );
    let write = || -> std::io::Result<()> {
        std::fs::create_dir_all(project.join("src"))?;
        std::fs::write(project.join("src/lib.rs"), "")?;
        std::fs::write(project.join("Cargo.toml"), &manifest)
    };
    write().map_err(|cause| Error::io("cannot write", &project, cause))?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(&cargo)
        .arg("fetch")
        .current_dir(&project)
        .stdin(Stdio::null())
        .output()
        .map_err(|cause| {
            Error::NotReady(format!(
                "cannot run {} to fetch OpenSSL's source: {cause}; install Rust, or give the \
                 upstream tarball with `--source FILE|URL`",
                Path::new(&cargo).display()
            ))
        })?;
    if output.status.success() {
        return Ok(());
    }
    Err(Error::Program(format!(
        "`cargo fetch` of {} {} failed:\n{}",
        package.name,
        package.version,
        String::from_utf8_lossy(&output.stderr).trim_end()
    )))
}

/// Downloads with curl, or with wget where there is no curl.
fn download(address: &str, to: &Path) -> Result<()> {
    let mut curl = Command::new("curl");
    curl.args(["--fail", "--location", "--silent", "--show-error", "--output"]).arg(to);
    let mut wget = Command::new("wget");
    wget.args(["--quiet", "--output-document"]).arg(to);
    for mut program in [curl, wget] {
        match program.arg("--").arg(address).stdin(Stdio::null()).output() {
            Ok(output) if output.status.success() => return Ok(()),
            Ok(output) => {
                return Err(Error::Program(format!(
                    "{address} could not be downloaded: {}",
                    String::from_utf8_lossy(&output.stderr).trim_end()
                )));
            }
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => {}
            Err(cause) => return Err(Error::Program(format!("cannot start a download: {cause}"))),
        }
    }
    Err(Error::NotReady(format!(
        "neither curl nor wget is installed; download {address} and give the file with --source"
    )))
}

fn open_archive(path: &Path) -> Result<tar::Archive<GzDecoder<std::io::BufReader<std::fs::File>>>> {
    let file = std::fs::File::open(path).map_err(|cause| Error::io("cannot read", path, cause))?;
    Ok(tar::Archive::new(GzDecoder::new(std::io::BufReader::new(file))))
}

fn not_an_archive(path: &Path, cause: &dyn std::fmt::Display) -> Error {
    Error::Integrity(format!(
        "{} is not a gzip-compressed tar archive of OpenSSL's source: {cause}",
        path.display()
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
pub(crate) fn unpack(archive: &Path, folder: &Path) -> Result<PathBuf> {
    std::fs::create_dir_all(folder)
        .map_err(|cause| Error::io("cannot make the folder", folder, cause))?;
    let mut root: Option<PathBuf> = None;
    let mut tar = open_archive(archive)?;
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
pub fn version_of_archive(archive: &Path) -> Result<String> {
    let mut tar = open_archive(archive)?;
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
        let target = folder.path().join("tree");
        assert!(matches!(unpack(&path, &target), Err(Error::Integrity(_))));
        assert!(matches!(version_of_archive(&path), Err(Error::Integrity(_))));
        assert_eq!(std::fs::read_dir(&target).unwrap().count(), 0);
    }
}
