//! The tasks of batches, without their arrays: for messages, and to distinguish errors.

use std::fmt;

/// The kind of an operation, whatever its family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Task {
    /// Key pairs from seeds.
    Keygen,
    /// Public keys, decoded, checked and expanded.
    DecodePublic,
    /// Private keys, decoded, checked and expanded.
    DecodePrivate,
    /// Encapsulation.
    Encaps,
    /// Decapsulation.
    Decaps,
    /// The shared secret of a key exchange.
    Derive,
    /// Signing.
    Sign,
    /// Verification.
    Verify,
}

impl Task {
    /// The words that a message uses.
    pub fn name(self) -> &'static str {
        match self {
            Task::Keygen => "keygen",
            Task::DecodePublic => "decode a public key",
            Task::DecodePrivate => "decode a private key",
            Task::Encaps => "encaps",
            Task::Decaps => "decaps",
            Task::Derive => "derive",
            Task::Sign => "sign",
            Task::Verify => "verify",
        }
    }
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
