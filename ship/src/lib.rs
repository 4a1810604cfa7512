//! The OpenSSL bundle, its environment and checks, and the installation of Gabion's provider
//! module.
//!
//! ```text
//!   pins ──> bundle::fetch ──> bundle::build  ──> PREFIX/{bin,lib,ssl}, gabion-bundle.json
//!                                                   │
//!   environment (GABION_OPENSSL_*) ─────────────────┼──> exec: run a command in it
//!                                                   └──> preflight: is its FIPS provider usable?
//!   provider ──> gabion.so into a bundle or an OpenSSL that is already installed
//!   system_config ──> gabion.so into the configuration of every program of the host, and out again
//! ```
//!
//! Nothing here links OpenSSL: it is inspected only through its `openssl` command, in the
//! environment that a user's program would have.

#![forbid(unsafe_code)]

pub mod advisories;
pub mod bundle;
pub mod environment;
mod error;
pub mod exec;
pub mod pins;
pub mod preflight;
mod program;
pub mod progress;
pub mod provider;
pub mod system_config;
pub mod trust;

pub use error::{Error, Result};

use std::path::Path;

use sha2::{Digest, Sha256};

/// Returns the SHA-256 of a file as 64 lower-case hexadecimal digits.
///
/// # Errors
/// [`Error::Io`] if the file cannot be read.
pub fn sha256_file(path: &Path) -> Result<String> {
    let mut file =
        std::fs::File::open(path).map_err(|cause| Error::io("cannot read", path, cause))?;
    let mut hash = Hash(Sha256::new());
    std::io::copy(&mut file, &mut hash).map_err(|cause| Error::io("cannot read", path, cause))?;
    Ok(hex(&hash.0.finalize()))
}

/// A hash as the destination of a copy.
struct Hash(Sha256);

impl std::io::Write for Hash {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Returns the SHA-256 of bytes as 64 lower-case hexadecimal digits.
pub(crate) fn sha256_text(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Replaces the content of `path` atomically: writes a temporary file in the same folder and
/// renames it.
///
/// A reader sees either the old or the new content. Returns `false` without writing if the file
/// already has this content.
///
/// # Errors
/// [`Error::Io`] if the folder is not writable; the old file is then unchanged.
pub(crate) fn replace_file(path: &Path, content: &[u8], mode: u32) -> Result<bool> {
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;

    if std::fs::read(path).is_ok_and(|old| old == content) {
        return Ok(false);
    }
    let write = || -> std::io::Result<()> {
        let folder = path.parent().unwrap_or(Path::new("."));
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(content)?;
        file.as_file().set_permissions(std::fs::Permissions::from_mode(mode))?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        Ok(())
    };
    write().map_err(|cause| Error::io("cannot write", path, cause))?;
    Ok(true)
}
