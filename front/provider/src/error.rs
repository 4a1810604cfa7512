//! Why a call fails, and how OpenSSL's error queue hears of it.

use std::ffi::{CStr, c_char};

use crate::ffi::Item;
use crate::served::Served;

/// Why an entry point did not do what it was asked. No message carries a secret.
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
        /// What was expected.
        expected: &'static str,
    },
    /// A parameter that the algorithm does not have.
    #[error("{algorithm} takes no parameter `{key}`")]
    NoSuchParameter {
        /// The algorithm.
        algorithm: Served,
        /// The parameter's name.
        key: &'static str,
    },
    /// A private key in none of the forms that somebody has chosen.
    #[error(
        "`{list}` names no format that this {algorithm} private key can have or has; expected \
         seed-priv, priv-only or seed-only"
    )]
    NoFormat {
        /// The key's algorithm.
        algorithm: Served,
        /// The provider's parameter.
        list: &'static str,
    },
    /// A byte string of the wrong length.
    #[error("{what} has {got} bytes; expected {expected}")]
    Length {
        /// What it was to be.
        what: &'static str,
        /// The length that is needed.
        expected: usize,
        /// The length that came.
        got: usize,
    },
    /// A buffer that the output does not fit in.
    #[error("the buffer for {what} has {got} bytes; expected at least {expected}")]
    TooSmall {
        /// What was to be written.
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
        algorithm: Served,
        /// The part that is missing.
        part: &'static str,
        /// What was asked.
        operation: &'static str,
    },
    /// The forms of one key that came together do not belong together.
    #[error("the {algorithm} public key does not belong to the private key")]
    KeysDiffer {
        /// The algorithm of both.
        algorithm: Served,
    },
    /// A pairwise test failed.
    #[error("the {0} key pair failed its pairwise test")]
    Pairwise(Served),
    /// The call does not fit the interface.
    #[error("{0}")]
    Misuse(&'static str),
    /// The code panicked; the panic was stopped at the border.
    #[error("internal fault, please report it: {0}")]
    Panic(String),
}

impl Failure {
    /// A parameter of the wrong type.
    pub fn wrong_type(key: &'static CStr, expected: &'static str) -> Self {
        Failure::Parameter { key: key.to_str().unwrap_or("?"), expected }
    }

    /// A byte string of the wrong length.
    pub fn length(what: &'static str, expected: usize, got: usize) -> Self {
        Failure::Length { what, expected, got }
    }

    /// The number in OpenSSL's error code; its text stands in [`REASONS`].
    pub fn reason(&self) -> u32 {
        use gabion_engine::Error;
        match self {
            Failure::Parameter { .. }
            | Failure::NoSuchParameter { .. }
            | Failure::NoFormat { .. }
            | Failure::TooSmall { .. }
            | Failure::Misuse(_) => 2,
            Failure::MissingKey { .. } => 3,
            Failure::KeysDiffer { .. } => 4,
            Failure::Engine(Error::Entropy(_)) => 5,
            Failure::Engine(Error::NoSuchBackend { .. }) => 6,
            Failure::Pairwise(_) | Failure::Engine(Error::NoBackend(_)) => 7,
            Failure::Panic(_) => 8,
            // What every library of OpenSSL's says where there is no memory.
            Failure::Engine(Error::NoMemory(_)) => ERR_R_MALLOC_FAILURE,
            Failure::Length { .. } | Failure::Engine(_) => 1,
        }
    }

    /// Whether the fault is ours or the machine's, not the caller's. Such a fault is also told on
    /// stderr: OpenSSL may drop the error and go on with another provider. A lack of memory is not: it
    /// passes, and the rest of the process says the same.
    pub fn is_fault(&self) -> bool {
        (5..ERR_R_MALLOC_FAILURE).contains(&self.reason())
    }
}

/// ERR_R_MALLOC_FAILURE of err.h: 256, fatal, a reason of every library's.
const ERR_R_MALLOC_FAILURE: u32 = 256 | 3 << 18;

const fn reason(id: u32, text: &'static CStr) -> Item {
    Item { id, text: text.as_ptr() }
}

/// The texts of the numbers in [`Failure::reason`], as OpenSSL takes them.
pub static REASONS: [Item; 9] = [
    reason(1, c"invalid input"),
    reason(2, c"invalid argument"),
    reason(3, c"missing key"),
    reason(4, c"keys do not belong together"),
    reason(5, c"no randomness"),
    reason(6, c"no such backend"),
    reason(7, c"integrity check failed"),
    reason(8, c"internal fault"),
    Item { id: 0, text: std::ptr::null::<c_char>() },
];

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_engine::{Algorithm, EntropyError, Error};

    #[test]
    fn faults_are_told_apart_from_bad_input() {
        let entropy = Failure::Engine(Error::Entropy(EntropyError("x".into())));
        let backend = Failure::Engine(Error::NoBackend(Algorithm::MlKem512));
        for fault in [entropy, backend, Failure::Panic("x".into())] {
            assert!(fault.is_fault(), "{fault}");
        }
        let length = gabion_engine::Error::BadSignature;
        let memory = gabion_engine::Error::NoMemory("x");
        for input in [Failure::Engine(length), Failure::Engine(memory), Failure::Misuse("x")] {
            assert!(!input.is_fault(), "{input}");
        }
    }

    #[test]
    fn every_reason_has_a_text_and_the_list_ends() {
        for (index, item) in REASONS.iter().enumerate() {
            let last = index + 1 == REASONS.len();
            assert_eq!(item.text.is_null(), last);
            assert_eq!(item.id as usize, if last { 0 } else { index + 1 });
        }
    }
}
