//! Errors of starting and running a server.

/// An error of starting or running a server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An invalid setting.
    #[error("{0}")]
    Settings(
        /// The problem.
        String,
    ),
    /// An error of a socket, a file or a thread.
    #[error("cannot {what}: {cause}")]
    System {
        /// The operation that failed.
        what: String,
        /// The cause.
        cause: std::io::Error,
    },
    /// An error of the service.
    #[error(transparent)]
    Kms(#[from] gabion_kms::Error),
    /// An error of TLS.
    #[error("cannot set up TLS: {0}")]
    Tls(#[from] rustls::Error),
}

impl Error {
    /// Adds the failed operation to a system error.
    pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Error {
        let what = what.into();
        move |cause| Error::System { what, cause }
    }
}
