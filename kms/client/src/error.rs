//! The crate's errors.

use gabion_kms_wire::native::Problem;

/// The reason why a call failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An invalid address, file or variable.
    #[error("{0}")]
    Settings(
        /// The problem.
        String,
    ),
    /// The service cannot be reached. No request was sent.
    #[error("the service does not answer at {address}: {reason}")]
    Unreachable {
        /// The address.
        address: String,
        /// The cause.
        reason: String,
    },
    /// The connection was closed before the response was complete. The request may have been
    /// processed.
    #[error(
        "outcome unknown: the connection to {address} was lost before the response arrived: {reason}"
    )]
    Lost {
        /// The address.
        address: String,
        /// The cause.
        reason: String,
    },
    /// The response is not one of this service.
    #[error("unexpected response from {address}: {reason}")]
    Foreign {
        /// The address.
        address: String,
        /// The problem.
        reason: String,
    },
    /// The message could not be read completely. Nothing was signed or verified.
    #[error("the message {0}")]
    Message(
        /// The cause.
        String,
    ),
    /// The service returned an error.
    #[error("{}", said(.0))]
    Refused(
        /// The error response.
        Box<Problem>,
    ),
}

/// Formats an error response for users.
fn said(problem: &Problem) -> String {
    let hint = problem.hint.as_ref().map(|hint| format!("\n       {hint}"));
    format!("{} ({}){}", problem.message, problem.code, hint.unwrap_or_default())
}
