//! Errors of operations, and the status of one lane.

use thiserror::Error as ThisError;

/// Why a call or a key was refused. No message carries a secret.
#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// A byte string of the wrong length.
    #[error("{what} has {got} bytes; expected {expected}")]
    Length {
        /// The input that has the wrong length.
        what: &'static str,
        /// The length that the standard prescribes.
        expected: usize,
        /// The length that came.
        got: usize,
    },
    /// A public key that the standard's input checks refuse.
    #[error("invalid {algorithm} public key: {reason}")]
    PublicKey {
        /// The parameter set.
        algorithm: &'static str,
        /// The check that failed.
        reason: &'static str,
    },
    /// A private key that the standard's input checks refuse.
    #[error("invalid {algorithm} private key: {reason}")]
    PrivateKey {
        /// The parameter set.
        algorithm: &'static str,
        /// The check that failed.
        reason: &'static str,
    },
    /// A malformed signature.
    #[error("not the form of an {algorithm} signature: {reason}")]
    Signature {
        /// The parameter set.
        algorithm: &'static str,
        /// The reason why it is invalid.
        reason: &'static str,
    },
    /// A context string above 255 bytes (FIPS 204, Algorithm 2, line 1).
    #[error("the context has {0} bytes; at most 255 are allowed")]
    ContextTooLong(usize),
    /// A digest whose length does not fit its pre-hash function.
    #[error("a {hash} digest has {expected} bytes; got {got}")]
    DigestLength {
        /// The pre-hash function.
        hash: &'static str,
        /// The digest length of the hash.
        expected: usize,
        /// The length that came.
        got: usize,
    },
    /// A batch whose arrays or keys do not fit its lanes and its parameter set.
    #[error(
        "an array of the batch does not fit {lanes} lanes, or a key is blank, refused or of another \
         parameter set; nothing was run"
    )]
    Batch {
        /// The number of lanes: one for each status.
        lanes: usize,
    },
    /// A signature could not be made within the bound on rejections (FIPS 204, appendix C).
    #[error("signing did not end within {0} attempts")]
    TooManyAttempts(usize),
    /// A key with a state that has made all signatures it can make, or has fewer left than were asked for.
    #[error(
        "the key makes {most} signatures, and fewer are left than were asked for; make a new key"
    )]
    Exhausted {
        /// The number of signatures that the key makes.
        most: u64,
    },
    /// Integrity: a result failed its self-check and was discarded.
    #[error("a computation of {0} failed its own check; nothing was given out")]
    Fault(
        /// The algorithm.
        &'static str,
    ),
    /// A resource: the system gave no memory. The same call may succeed later.
    #[error("the system gave no memory for {0}; try again later")]
    NoMemory(
        /// The object that could not be allocated.
        &'static str,
    ),
    /// An operation was asked of an algorithm that does not have it.
    #[error("{algorithm} has no operation `{operation}`")]
    Unsupported {
        /// The algorithm's name.
        algorithm: &'static str,
        /// The operation that was requested.
        operation: &'static str,
    },
}

impl Error {
    /// Checks that a byte string has the length that the standard prescribes.
    ///
    /// # Errors
    /// [`Error::Length`], which names `what` and both lengths.
    pub fn check_length(what: &'static str, expected: usize, bytes: &[u8]) -> Result<(), Error> {
        if bytes.len() == expected {
            return Ok(());
        }
        Err(Error::Length { what, expected, got: bytes.len() })
    }
}

/// The verdict on one lane of a batch. A lane is good only when it says [`Status::Ok`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
#[non_exhaustive]
pub enum Status {
    /// Nothing has run: the status before the batch, so that a lost batch does not count as a
    /// success.
    #[default]
    NotRun = 0,
    /// Done, and the output is complete.
    Ok = 1,
    /// The lane's public or private key fails the standard's input checks.
    InvalidKey = 2,
    /// The lane's input (ciphertext, context, digest) has the wrong form.
    InvalidInput = 3,
    /// The signature does not verify.
    InvalidSignature = 4,
    /// The result of this lane failed its self-check.
    Fault = 5,
    /// The system gave no memory for the lane; the same may succeed later.
    NoMemory = 6,
}

impl Status {
    /// The verdict on a lane whose key was refused, or that lacked the memory to tell.
    pub fn from_key_error(error: &Error) -> Self {
        match error {
            Error::NoMemory(_) => Status::NoMemory,
            Error::Fault(_) => Status::Fault,
            _ => Status::InvalidKey,
        }
    }

    /// Returns whether the lane's output may be used.
    pub fn is_ok(self) -> bool {
        self == Status::Ok
    }
}
