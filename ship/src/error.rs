//! What can go wrong around OpenSSL, in words for the person at the keyboard.

use std::path::{Path, PathBuf};

/// The result of a `ship` call.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure of the bundle, its environment or the module's installation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A request that cannot be carried out as written: an option or a variable is wrong.
    #[error("{0}")]
    Request(String),

    /// Bytes are not the pinned ones, or something is damaged.
    #[error("{0}")]
    Integrity(String),

    /// The machine or the bundle lacks something that is needed.
    #[error("{0}")]
    NotReady(String),

    /// OpenSSL was tried and does not do what it should.
    #[error("{0}")]
    CheckFailed(String),

    /// A program that was started failed, or could not be started.
    #[error("{0}")]
    Program(String),

    /// A file could not be read or written.
    #[error("{what} {}: {}", path.display(), with_causes(cause))]
    Io {
        /// What was tried, for example "cannot read".
        what: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        cause: std::io::Error,
    },
}

impl Error {
    /// An [`Error::Io`] about `path`.
    pub(crate) fn io(what: &'static str, path: &Path, cause: std::io::Error) -> Self {
        Error::Io { what, path: path.to_path_buf(), cause }
    }

    /// True when the command line is at fault rather than the machine (exit code 2, not 3).
    #[must_use]
    pub fn is_request(&self) -> bool {
        matches!(self, Error::Request(_))
    }
}

/// An error and what caused it, since unpacking an archive wraps the system's reason in its own.
fn with_causes(error: &std::io::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}
