//! How a command fails: a message for a person and an exit code for a script.

use std::fmt;

/// A failed command. The variant decides the exit code.
#[derive(Debug)]
pub enum Failure {
    /// The answer is no: a signature does not verify, a check fails. Exit code 1.
    No(String),
    /// The command line, or a file it names, is not what was expected. Exit code 2.
    Usage(String),
    /// The environment is not ready: no bundle, no FIPS provider. Exit code 3.
    NotReady(String),
}

impl Failure {
    /// The process exit code of this failure.
    pub fn exit_code(&self) -> u8 {
        match self {
            Failure::No(_) => 1,
            Failure::Usage(_) => 2,
            Failure::NotReady(_) => 3,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::No(text) | Failure::Usage(text) | Failure::NotReady(text) => f.write_str(text),
        }
    }
}

impl From<gabion_engine::Error> for Failure {
    fn from(error: gabion_engine::Error) -> Failure {
        use gabion_engine::Error;
        let text = error.to_string();
        match error {
            Error::BadSignature => Failure::No(text),
            Error::Input(_)
            | Error::WrongAlgorithm { .. }
            | Error::NotBuilt(_)
            | Error::Lane { .. }
            | Error::KeyFile(_)
            | Error::TooMany { .. } => Failure::Usage(text),
            // No randomness, no such backend, no healthy backend, and what the future adds.
            _ => Failure::NotReady(text),
        }
    }
}

impl From<gabion_bench::Error> for Failure {
    fn from(error: gabion_bench::Error) -> Failure {
        use gabion_bench::Error;
        match error {
            Error::Usage(text) => Failure::Usage(text),
            Error::NotReady(text) => Failure::NotReady(text),
            error => Failure::No(error.to_string()),
        }
    }
}

impl From<gabion_ship::Error> for Failure {
    fn from(error: gabion_ship::Error) -> Failure {
        if error.is_request() {
            Failure::Usage(error.to_string())
        } else {
            Failure::NotReady(error.to_string())
        }
    }
}
