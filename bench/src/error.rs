//! How a measurement fails.

use gabion_cli::failure::Failure;

use crate::ossl;

/// Why nothing was measured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An option's value, or a file it names, is not one that can be measured.
    #[error("{0}")]
    Usage(String),
    /// OpenSSL, a provider, a backend or a file is missing.
    #[error("{0}")]
    NotReady(String),
    /// The measured operation failed, or did not do what was requested: not worth timing.
    #[error("{0}")]
    Failed(String),
}

impl From<ossl::Error> for Error {
    fn from(error: ossl::Error) -> Error {
        match error {
            ossl::Error::NotReady(text) => Error::NotReady(text),
            ossl::Error::Call(text) => Error::Failed(text),
        }
    }
}

impl From<gabion_engine::Error> for Error {
    fn from(error: gabion_engine::Error) -> Error {
        match error {
            gabion_engine::Error::NoSuchBackend { .. } => Error::Usage(error.to_string()),
            gabion_engine::Error::NoBackend(_)
            | gabion_engine::Error::NoDevice { .. }
            | gabion_engine::Error::BackendUnavailable { .. }
            | gabion_engine::Error::NoMemory(_)
            | gabion_engine::Error::Entropy(_) => Error::NotReady(error.to_string()),
            // Inputs made here are valid: whatever else is refused was refused wrongly.
            other => Error::Failed(other.to_string()),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        match error {
            Error::Usage(text) => Failure::Usage(text),
            Error::NotReady(text) => Failure::NotReady(text),
            Error::Failed(text) => Failure::No(text),
        }
    }
}
