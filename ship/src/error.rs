//! Errors of the bundle, its environment and the installation of the module.

use std::path::{Path, PathBuf};

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure of the bundle, its environment or the module's installation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An invalid option or variable.
    #[error("{0}")]
    Request(String),

    /// Data that differs from its pinned hash, or is damaged.
    #[error("{0}")]
    Integrity(String),

    /// The machine or the bundle lacks a requirement.
    #[error("{0}")]
    NotReady(String),

    /// OpenSSL was tested and does not work as required.
    #[error("{0}")]
    CheckFailed(String),

    /// A program could not be started, or failed.
    #[error("{0}")]
    Program(String),

    /// A file could not be read or written.
    #[error("{what} {}: {}", path.display(), with_causes(cause))]
    Io {
        /// The failed action, for example "cannot read".
        what: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        cause: std::io::Error,
    },
}

impl Error {
    /// Returns an [`Error::Io`] about `path`.
    pub(crate) fn io(what: &'static str, path: &Path, cause: std::io::Error) -> Self {
        Error::Io { what, path: path.to_path_buf(), cause }
    }

    /// Returns whether the command line is at fault, and not the machine (exit code 2, not 3).
    #[must_use]
    pub fn is_request(&self) -> bool {
        matches!(self, Error::Request(_))
    }
}

/// Formats an error and its causes: unpacking an archive wraps the system's error.
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
