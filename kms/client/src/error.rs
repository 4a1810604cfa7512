//! The crate's errors.

use gabion_kms_wire::native::Problem;

/// Why a call has no answer.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An address, a file or a variable that can't be one.
    #[error("{0}")]
    Settings(
        /// What is wrong.
        String,
    ),
    /// Nobody answers there.
    #[error("the service does not answer at {address}: {reason}")]
    Unreachable {
        /// Where.
        address: String,
        /// Why.
        reason: String,
    },
    /// The connection ended before the answer did. The request may have been done.
    #[error(
        "the connection to {address} was lost before the answer came, so that nobody knows whether it was done: {reason}"
    )]
    Lost {
        /// Where.
        address: String,
        /// Why.
        reason: String,
    },
    /// What came is no answer of this service.
    #[error("{address} gave an answer that can't be the service's: {reason}")]
    Foreign {
        /// Where.
        address: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The message can't be read to its end. Nothing was done.
    #[error("the message {0}")]
    Message(
        /// Why.
        String,
    ),
    /// The service says no.
    #[error("{}", said(.0))]
    Refused(
        /// Why.
        Box<Problem>,
    ),
}

/// What a person needs of a refusal.
fn said(problem: &Problem) -> String {
    let hint = problem.hint.as_ref().map(|hint| format!("\n       {hint}"));
    format!("{} ({}){}", problem.message, problem.code, hint.unwrap_or_default())
}
