//! An archive of OpenSSL's source: read once, and hashed.

use std::io::Read;
use std::path::Path;

use crate::{Error, Result};

/// The largest archive that is read: four times what a release of OpenSSL has.
pub(super) const ARCHIVE_MAX: u64 = 256 << 20;

/// A source archive whose hash was checked.
///
/// It is in memory: what is unpacked is what was hashed, whatever happens to the file meanwhile.
pub(crate) struct Archive {
    pub(super) bytes: Vec<u8>,
    pub(crate) sha256: String,
    /// Where it came from, for people.
    pub(crate) from: String,
}

impl Archive {
    /// Reads a file, once.
    ///
    /// # Errors
    /// [`Error::Io`] when it cannot be read, [`Error::Integrity`] when it is no source by its length.
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

    /// As [`Self::read`], and refused unless it has this hash.
    ///
    /// # Errors
    /// As [`Self::read`]; [`Error::Integrity`] for other bytes.
    pub(crate) fn expect(path: &Path, from: String, sha256: &str) -> Result<Self> {
        let archive = Archive::read(path, from)?;
        if archive.sha256 == sha256 {
            return Ok(archive);
        }
        Err(Error::Integrity(format!(
            "what came has SHA-256 {}; expected {sha256}, which is pinned",
            archive.sha256
        )))
    }
}
