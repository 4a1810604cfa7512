//! Inventory: the keys and certificates in files and folders.
//!
//! ```text
//!   paths ─> walk (regular files, sorted) ─> at most 1 MiB of each ─> content::inspect ─> Asset
//! ```
//!
//! Nothing is changed, no key leaves the process, and a file that cannot be read is a warning.

pub mod content;
mod openssh;

use std::collections::HashSet;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::Serialize;
use zeroize::Zeroizing;

pub use content::{Content, Entry, Kind, inspect};

/// Maximum size of a file that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Bytes that decide whether the rest of a file is read.
const HEAD_BYTES: u64 = 8 << 10;
/// Maximum depth of folders below a path.
const DEPTH_MAX: usize = 32;
/// Maximum number of files.
const FILES_MAX: usize = 1_000_000;
/// Maximum number of keys and certificates.
const ASSETS_MAX: usize = 100_000;
/// Maximum number of warnings that are kept.
const WARNINGS_MAX: usize = 1000;

/// A key or certificate, and where it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Asset {
    /// The path of the file, below the path that was given.
    pub path: String,
    /// The key or certificate.
    #[serde(flatten)]
    pub entry: Entry,
}

/// The keys and certificates in some paths.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Inventory {
    /// The keys and certificates, by path and position.
    pub assets: Vec<Asset>,
    /// The number of files that were looked at.
    pub files: usize,
    /// Files and folders that could not be read, and why; at most 1,000.
    pub warnings: Vec<String>,
    /// The number of further warnings.
    pub warnings_omitted: usize,
    /// Device and inode of each file, so that a second name does not list it twice.
    #[serde(skip)]
    seen: HashSet<(u64, u64)>,
}

/// Numbers of assets, for a summary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Certificates.
    pub certificates: usize,
    /// Private keys.
    pub private_keys: usize,
    /// Public keys.
    pub public_keys: usize,
    /// Assets that resist quantum computers.
    pub post_quantum: usize,
    /// Assets that do not.
    pub classical: usize,
    /// Encrypted private keys whose algorithm is unknown.
    pub unknown: usize,
    /// Certificates that have expired.
    pub expired: usize,
}

impl Inventory {
    /// Walks the paths. Symbolic links to files are followed, links to folders only if they are
    /// one of `paths`.
    #[must_use]
    pub fn scan(paths: &[PathBuf]) -> Inventory {
        let mut inventory = Inventory::default();
        for path in paths {
            inventory.visit(path, 0);
        }
        inventory
    }

    /// Counts the assets; `now` is in Unix seconds.
    #[must_use]
    pub fn summary(&self, now: i64) -> Summary {
        let mut summary = Summary::default();
        for Asset { entry, .. } in &self.assets {
            match entry.kind {
                Kind::Certificate => summary.certificates += 1,
                Kind::PrivateKey => summary.private_keys += 1,
                Kind::PublicKey => summary.public_keys += 1,
            }
            match entry.is_post_quantum() {
                Some(true) => summary.post_quantum += 1,
                Some(false) => summary.classical += 1,
                None => summary.unknown += 1,
            }
            let is_expired = entry.certificate.as_ref().is_some_and(|one| one.not_after < now);
            summary.expired += usize::from(is_expired);
        }
        summary
    }

    fn warn(&mut self, path: &Path, reason: impl std::fmt::Display) {
        match self.warnings.len() < WARNINGS_MAX {
            true => self.warnings.push(format!("{}: {reason}", path.display())),
            false => self.warnings_omitted += 1,
        }
    }

    fn is_full(&self) -> bool {
        self.files >= FILES_MAX || self.assets.len() >= ASSETS_MAX
    }

    fn visit(&mut self, path: &Path, depth: usize) {
        let metadata = match fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(cause) => return self.warn(path, cause),
        };
        if metadata.is_file() {
            return self.visit_file(path, &metadata);
        }
        if !metadata.is_dir() || depth > 0 && path.is_symlink() {
            return;
        }
        if depth > DEPTH_MAX {
            return self.warn(path, format_args!("not read: deeper than {DEPTH_MAX} folders"));
        }
        let entries = fs::read_dir(path).and_then(|entries| {
            let paths = entries.take(FILES_MAX).map(|entry| Ok(entry?.path()));
            paths.collect::<io::Result<Vec<PathBuf>>>()
        });
        match entries {
            Ok(mut paths) => {
                paths.sort();
                for path in paths {
                    self.visit(&path, depth + 1);
                }
            }
            Err(cause) => self.warn(path, cause),
        }
    }

    fn visit_file(&mut self, path: &Path, metadata: &Metadata) {
        if self.is_full() || !self.seen.insert((metadata.dev(), metadata.ino())) {
            return;
        }
        self.files += 1;
        let content = match read(path) {
            Ok(Some(bytes)) if bytes.len() as u64 > FILE_BYTES_MAX => {
                return self.warn(path, "not read: larger than 1 MiB");
            }
            Ok(Some(bytes)) => inspect(&bytes),
            Ok(None) => return,
            Err(cause) => return self.warn(path, cause),
        };
        for reason in content.damaged {
            self.warn(path, reason);
        }
        let room = ASSETS_MAX - self.assets.len();
        let name = path.to_string_lossy();
        let entries = content.entries.into_iter().take(room);
        self.assets.extend(entries.map(|entry| Asset { path: name.clone().into_owned(), entry }));
        if self.is_full() {
            self.warn(path, "further files are not read: the inventory is full");
        }
    }
}

/// Reads a file, or one byte more than the maximum. Returns `None` if its start shows that it
/// contains no key, or if it is larger than the maximum and does not start with PEM.
fn read(path: &Path) -> io::Result<Option<Zeroizing<Vec<u8>>>> {
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let mut file: File = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Ok(None);
    }
    let expected = metadata.len().min(FILE_BYTES_MAX) + 1;
    let mut bytes = Zeroizing::new(Vec::with_capacity(usize::try_from(expected).unwrap_or(0)));
    file.by_ref().take(HEAD_BYTES).read_to_end(&mut bytes)?;
    let is_der = bytes.first() == Some(&0x30);
    let is_large = metadata.len() > FILE_BYTES_MAX;
    let has_pem = || bytes.windows(11).any(|window| window == b"-----BEGIN ");
    if !is_der && bytes.contains(&0) || is_large && !has_pem() {
        return Ok(None);
    }
    let rest = (FILE_BYTES_MAX + 1).saturating_sub(bytes.len() as u64);
    file.take(rest).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_engine::Algorithm;
    use gabion_rustls::testing::{Key, chain};

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    fn paths(inventory: &Inventory) -> Vec<&str> {
        let names = inventory.assets.iter().map(|asset| asset.path.rsplit('/').next().unwrap());
        names.collect()
    }

    const ED25519: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZ\
                           GhscHR4f a@b\n";

    #[test]
    fn folders_are_walked_once_and_in_order() {
        let folder = folder();
        let root = folder.path();
        for name in ["b.pub", "deep/a.pub", "deep/deeper/c.pub"] {
            fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
            fs::write(root.join(name), ED25519).unwrap();
        }
        fs::write(root.join("text"), "ssh-ed25519 is a type of key").unwrap();
        fs::write(root.join("program"), b"\x7fELF\0ssh-ed25519").unwrap();
        std::os::unix::fs::symlink("b.pub", root.join("again.pub")).unwrap();
        std::os::unix::fs::symlink("..", root.join("deep/loop")).unwrap();
        std::os::unix::fs::symlink("missing", root.join("broken")).unwrap();
        fs::hard_link(root.join("b.pub"), root.join("hard.pub")).unwrap();
        let inventory = Inventory::scan(&[root.to_path_buf(), root.join("deep")]);
        // A link is a name like any other: the first one counts.
        assert_eq!(paths(&inventory), ["again.pub", "a.pub", "c.pub"]);
        assert_eq!(inventory.files, 5);
        assert_eq!(inventory.warnings.len(), 1, "{:?}", inventory.warnings);
        assert!(inventory.warnings[0].contains("broken"), "{:?}", inventory.warnings);
        let linked = Inventory::scan(&[root.join("deep/loop/deep")]);
        assert_eq!(paths(&linked), ["a.pub", "c.pub"]);
    }

    #[test]
    fn large_and_special_files_are_not_read() {
        let folder = folder();
        let root = folder.path();
        let large = FILE_BYTES_MAX as usize + 1;
        fs::write(root.join("large.log"), vec![b'a'; large]).unwrap();
        let pem = format!("-----BEGIN CERTIFICATE-----\n{}", "a".repeat(large));
        fs::write(root.join("large.pem"), pem).unwrap();
        let exact = format!("{ED25519}{}", "#".repeat(large - 1 - ED25519.len()));
        fs::write(root.join("exact"), exact).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, root.join("fifo"), 0o600.into()).unwrap();
        let mut deep = root.to_path_buf();
        for _ in 0..DEPTH_MAX + 1 {
            deep.push("d");
        }
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("key.pub"), ED25519).unwrap();
        let inventory = Inventory::scan(&[root.to_path_buf()]);
        assert_eq!(paths(&inventory), ["exact"]);
        let [folders, bytes] = &inventory.warnings[..] else { panic!("{:?}", inventory.warnings) };
        assert!(bytes.contains("large.pem: not read: larger than 1 MiB"), "{bytes}");
        assert!(folders.contains("deeper than 32 folders"), "{folders}");
    }

    #[test]
    fn summary_counts_every_asset() {
        let folder = folder();
        let classical = chain(Key::Engine(Algorithm::EcdsaP256), 0);
        let post_quantum = chain(Key::Engine(Algorithm::MlDsa44), 0);
        fs::write(folder.path().join("c.der"), &classical.certificates[0]).unwrap();
        fs::write(folder.path().join("p.der"), &post_quantum.certificates[0]).unwrap();
        fs::write(folder.path().join("p.key"), post_quantum.file.secret_der()).unwrap();
        let inventory = Inventory::scan(&[folder.path().to_path_buf()]);
        let not_after = inventory.assets[0].entry.certificate.as_ref().unwrap().not_after;
        let expected = Summary {
            certificates: 2,
            private_keys: 1,
            post_quantum: 2,
            classical: 1,
            ..Summary::default()
        };
        assert_eq!(inventory.summary(not_after), expected);
        assert_eq!(inventory.summary(not_after + 1), Summary { expired: 2, ..expected });
    }
}
