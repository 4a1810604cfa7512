//! Why a call fails, and how OpenSSL's error queue hears of it.

use std::ffi::CStr;

use gabion_engine::InputError as Input;

use crate::key_types::KeyType;

/// The reason why an entry point failed. Messages contain no secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The engine's own error.
    #[error(transparent)]
    Engine(#[from] gabion_engine::Error),
    /// A parameter of the wrong type, or out of range.
    #[error("parameter `{key}` must be {expected}")]
    Parameter {
        /// The parameter's name.
        key: &'static str,
        /// The expected value.
        expected: &'static str,
    },
    /// A parameter that the algorithm does not have.
    #[error("{algorithm} takes no parameter `{key}`")]
    NoSuchParameter {
        /// The algorithm.
        algorithm: KeyType,
        /// The parameter's name.
        key: &'static str,
    },
    /// A private key that supports none of the configured formats.
    #[error(
        "`{list}` names no format that this {algorithm} private key can have or has; expected \
         seed-priv, priv-only or seed-only"
    )]
    NoFormat {
        /// The key's algorithm.
        algorithm: KeyType,
        /// The provider's parameter.
        list: &'static str,
    },
    /// A seed, or randomness that is given, of the wrong length.
    #[error("{what} has {got} bytes; expected {expected}")]
    Seed {
        /// The purpose of the memory.
        what: &'static str,
        /// The length that is needed.
        expected: usize,
        /// The length that came.
        got: usize,
    },
    /// A ciphertext of the wrong length.
    #[error("the ciphertext has {got} bytes; expected {expected}")]
    Ciphertext {
        /// The length that is needed.
        expected: usize,
        /// The length that came.
        got: usize,
    },
    /// A digest where the algorithm hashes by itself.
    #[error("the algorithm hashes by itself; pass NULL or an empty name")]
    Digest,
    /// An operation without a key.
    #[error("no key was set")]
    NoKey,
    /// A key of no form.
    #[error("no key came in; expected `seed`, `priv` or `pub`")]
    NothingCame,
    /// A null pointer where an output goes.
    #[error("{0}")]
    NoRoom(&'static str),
    /// A null pointer where a length goes.
    #[error("{0}")]
    NoLength(&'static str),
    /// A byte string of the wrong length.
    #[error("{what} has {got} bytes; expected {expected}")]
    Length {
        /// The kind of data.
        what: &'static str,
        /// The length that is needed.
        expected: usize,
        /// The length that came.
        got: usize,
    },
    /// A buffer that the output does not fit in.
    #[error("the buffer for {what} has {got} bytes; expected at least {expected}")]
    TooSmall {
        /// The data to write.
        what: &'static str,
        /// How many bytes it has.
        expected: usize,
        /// How many bytes there was room for.
        got: usize,
    },
    /// The key lacks the part that the operation needs.
    #[error("the {algorithm} key has no {part}; {operation} needs one")]
    MissingKey {
        /// The algorithm that was asked for.
        algorithm: KeyType,
        /// The part that is missing.
        part: &'static str,
        /// The requested operation.
        operation: &'static str,
    },
    /// The call does not fit the interface.
    #[error("{0}")]
    Misuse(&'static str),
    /// The code panicked; the panic was stopped at the border.
    #[error("internal fault, please report it: {0}")]
    Panic(String),
}

impl Failure {
    /// Returns the failure for a parameter of the wrong type.
    pub fn wrong_type(key: &'static CStr, expected: &'static str) -> Self {
        Failure::Parameter { key: key.to_str().unwrap_or("?"), expected }
    }

    /// Returns the failure for a byte string of the wrong length.
    pub fn length(what: &'static str, expected: usize, got: usize) -> Self {
        Failure::Length { what, expected, got }
    }

    /// Returns the failure for a seed, or given randomness, of the wrong length.
    pub fn seed(what: &'static str, expected: usize, got: usize) -> Self {
        Failure::Seed { what, expected, got }
    }

    /// OpenSSL's error code: that of the default provider where it has one for this, so that
    /// programs which look at codes find the one that they know; of the library of all providers
    /// (ERR_LIB_PROV) in any case, whose reasons libcrypto has texts for.
    ///
    /// Reasons of our own would be ours to register, and libcrypto takes such ones back when it
    /// frees the provider. A key that a program frees after `OPENSSL_cleanup`, in a destructor of
    /// C++, frees the provider last of all, and the table of texts is gone by then: libcrypto would
    /// crash.
    pub fn code(&self) -> u32 {
        const LIB_PROV: u32 = 57 << 23;
        LIB_PROV | self.reason()
    }

    /// A reason of proverr.h, or one of err.h that every library has.
    fn reason(&self) -> u32 {
        use gabion_engine::{Error, Status};
        match self {
            Failure::Digest => INVALID_DIGEST,
            Failure::Seed { .. } => INVALID_SEED_LENGTH,
            Failure::Ciphertext { .. } => WRONG_CIPHERTEXT_SIZE,
            Failure::NoKey => NO_KEY_SET,
            Failure::NothingCame | Failure::MissingKey { .. } => MISSING_KEY,
            Failure::NoRoom(_) => NULL_OUTPUT_BUFFER,
            Failure::NoLength(_) => NULL_LENGTH_POINTER,
            Failure::TooSmall { .. } => OUTPUT_BUFFER_TOO_SMALL,
            Failure::NoFormat { .. } => ML_DSA_NO_FORMAT,
            Failure::Engine(Error::KeyFile(_)) => BAD_ENCODING,
            Failure::Engine(Error::Input(error)) => match error {
                // Of what reaches the engine, only keys may have another length.
                Input::Length { .. } => INVALID_KEY_LENGTH,
                Input::PublicKey { .. } | Input::PrivateKey { .. } => INVALID_KEY,
                _ => INVALID_DATA,
            },
            Failure::Parameter { .. } | Failure::NoSuchParameter { .. } | Failure::Misuse(_) => {
                PASSED_INVALID_ARGUMENT
            }
            Failure::Engine(Error::Entropy(_)) => ERROR_RETRIEVING_ENTROPY,
            Failure::Engine(
                Error::NoSuchBackend { .. }
                | Error::NoDevice { .. }
                | Error::BackendUnavailable { .. },
            ) => NOT_SUPPORTED,
            Failure::Engine(Error::Pairwise(_) | Error::NoBackend(_)) => SELF_TEST_KAT_FAILURE,
            Failure::Engine(Error::Ledger(_)) => OPERATION_FAIL,
            Failure::Panic(_) | Failure::Engine(Error::Lane { status: Status::Fault, .. }) => {
                INTERNAL_ERROR
            }
            // The reason that all OpenSSL libraries report when memory is exhausted.
            Failure::Engine(Error::NoMemory(_)) => MALLOC_FAILURE,
            Failure::Length { .. } | Failure::Engine(_) => INVALID_DATA,
        }
    }

    /// Returns whether the fault is ours or the machine's, not the caller's. Such a fault is also
    /// told on stderr: OpenSSL may drop the error and go on with another provider. A lack of memory
    /// is not: it passes, and the rest of the process says the same.
    pub fn is_fault(&self) -> bool {
        use gabion_engine::{Error, Status};
        matches!(
            self,
            Failure::Engine(
                Error::Entropy(_)
                    | Error::NoSuchBackend { .. }
                    | Error::NoDevice { .. }
                    | Error::NoBackend(_)
                    | Error::Pairwise(_)
                    | Error::Lane { status: Status::Fault, .. }
            ) | Failure::Panic(_)
        )
    }
}

// Of proverr.h.
const INVALID_KEY_LENGTH: u32 = 105;
const OUTPUT_BUFFER_TOO_SMALL: u32 = 106;
const NO_KEY_SET: u32 = 114;
const INVALID_DATA: u32 = 115;
const INVALID_DIGEST: u32 = 122;
const MISSING_KEY: u32 = 128;
const NOT_SUPPORTED: u32 = 136;
const BAD_ENCODING: u32 = 141;
const INVALID_SEED_LENGTH: u32 = 154;
const INVALID_KEY: u32 = 158;
const ERROR_RETRIEVING_ENTROPY: u32 = 189;
const SELF_TEST_KAT_FAILURE: u32 = 215;
const ML_DSA_NO_FORMAT: u32 = 245;
const NULL_LENGTH_POINTER: u32 = 247;
const NULL_OUTPUT_BUFFER: u32 = 248;
const WRONG_CIPHERTEXT_SIZE: u32 = 251;

// Of err.h, reasons of every library's; those marked fatal have both bits.
const COMMON: u32 = 2 << 18;
const FATAL: u32 = 3 << 18;
const PASSED_INVALID_ARGUMENT: u32 = 262 | COMMON;
const OPERATION_FAIL: u32 = 263 | FATAL;
const INTERNAL_ERROR: u32 = 259 | FATAL;
const MALLOC_FAILURE: u32 = 256 | FATAL;

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_engine::{Algorithm, EntropyError, Error, Status};

    #[test]
    fn faults_are_told_apart_from_bad_input() {
        let entropy = Failure::Engine(Error::Entropy(EntropyError("x".into())));
        let backend = Failure::Engine(Error::NoBackend(Algorithm::MlKem512));
        let (algorithm, task) = (Algorithm::MlDsa44, gabion_engine::Task::Sign);
        let lane = Failure::Engine(Error::Lane { algorithm, task, status: Status::Fault });
        assert_eq!(lane.reason(), INTERNAL_ERROR);
        for fault in [entropy, backend, lane, Failure::Panic("x".into())] {
            assert!(fault.is_fault(), "{fault}");
        }
        let length = gabion_engine::Error::BadSignature;
        let memory = gabion_engine::Error::NoMemory("x");
        for input in [Failure::Engine(length), Failure::Engine(memory), Failure::Misuse("x")] {
            assert!(!input.is_fault(), "{input}");
        }
    }
}
