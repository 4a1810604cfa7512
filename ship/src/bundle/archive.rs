//! An archive of OpenSSL's source, read once and hashed.

use std::io::Read;
use std::path::Path;

use crate::{Error, Result};

/// Maximum size of an archive: four times an OpenSSL release.
pub(super) const ARCHIVE_MAX: u64 = 256 << 20;

/// A source archive whose hash was verified.
///
/// It is kept in memory: the unpacked bytes are the hashed ones, even if the file changes
/// meanwhile.
pub(crate) struct Archive {
    pub(super) bytes: Vec<u8>,
    pub(crate) sha256: String,
    /// The origin of the archive, for messages.
    pub(crate) from: String,
}

impl Archive {
    /// Reads a file once.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be read, [`Error::Integrity`] if it is too long for a source
    /// archive.
    pub(crate) fn read(path: &Path, from: String) -> Result<Self> {
        let failed = |cause| Error::io("cannot read", path, cause);
        let file = std::fs::File::open(path).map_err(failed)?;
        let mut bytes = Vec::new();
        file.take(ARCHIVE_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() as u64 > ARCHIVE_MAX {
            return Err(Error::Integrity(format!(
                "{} is longer than {ARCHIVE_MAX} bytes; expected an archive of OpenSSL's source",
                path.display()
            )));
        }
        let sha256 = crate::sha256_text(&bytes);
        Ok(Archive { bytes, sha256, from })
    }

    /// Reads a file as [`Self::read`] does, and checks its hash.
    ///
    /// # Errors
    /// Fails like [`Self::read`]; [`Error::Integrity`] if the hash differs.
    pub(crate) fn expect(path: &Path, from: String, sha256: &str) -> Result<Self> {
        let archive = Archive::read(path, from)?;
        if archive.sha256 == sha256 {
            return Ok(archive);
        }
        Err(Error::Integrity(format!(
            "the downloaded file has SHA-256 {}; expected the pinned value {sha256}",
            archive.sha256
        )))
    }
}
