//! The service's own keys, and what was opened of those for which others wrap what they import.

use std::sync::{Mutex, OnceLock};

use gabion_engine::KemPrivateKey;

use crate::error::Error;
use crate::rsa;
use crate::store::RecordPath;

/// A key of the service itself. Its private half never leaves the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnKey {
    /// The X-Wing key for which others wrap what they import.
    WrappingXWing,
    /// The RSA key for the same, as Vault has it. Making it takes seconds.
    WrappingRsa,
    /// The key that signs descriptions of keys.
    Attestation,
}

impl OwnKey {
    /// The name of its record.
    pub fn as_str(self) -> &'static str {
        match self {
            OwnKey::WrappingXWing => "wrapping-x-wing",
            OwnKey::WrappingRsa => "wrapping-rsa",
            OwnKey::Attestation => "attestation",
        }
    }

    pub(super) fn path(self) -> Result<RecordPath, Error> {
        Ok(RecordPath::new(format!("system/{}", self.as_str()))?)
    }
}

/// What was opened of them.
#[derive(Default)]
pub struct Wrappers {
    pub x_wing: OnceLock<KemPrivateKey>,
    pub rsa: OnceLock<rsa::PrivateKey>,
    /// An RSA key takes seconds: nobody makes a second one meanwhile, and other changes go on.
    pub drawing: Mutex<()>,
}
