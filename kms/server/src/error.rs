//! Why a server does not start.

/// Why a server does not start or goes on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting that can't be one.
    #[error("{0}")]
    Settings(
        /// What is wrong.
        String,
    ),
    /// A socket, a file, a thread.
    #[error("cannot {what}: {cause}")]
    System {
        /// What was tried.
        what: String,
        /// Why it failed.
        cause: std::io::Error,
    },
    /// The service itself.
    #[error(transparent)]
    Kms(#[from] gabion_kms::Error),
    /// TLS.
    #[error("cannot set up TLS: {0}")]
    Tls(#[from] rustls::Error),
}

impl Error {
    /// What a failed call of the system was for.
    pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Error {
        let what = what.into();
        move |cause| Error::System { what, cause }
    }
}
