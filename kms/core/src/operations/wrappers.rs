//! The service's own keys, and a cache of those for which clients wrap imported keys.

use std::sync::{Mutex, OnceLock};

use gabion_engine::KemPrivateKey;

use crate::error::Error;
use crate::rsa;
use crate::store::RecordPath;

/// A key of the service itself. Its private key never leaves the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnKey {
    /// The X-Wing key for which clients wrap imported keys.
    WrappingXWing,
    /// The RSA key for which clients wrap imported keys, compatible with Vault. Generating it takes
    /// seconds.
    WrappingRsa,
    /// The key that signs descriptions of keys.
    Attestation,
}

impl OwnKey {
    /// Returns the name of its record.
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

/// The expanded keys.
#[derive(Default)]
pub struct Wrappers {
    pub x_wing: OnceLock<KemPrivateKey>,
    pub rsa: OnceLock<rsa::PrivateKey>,
    /// Serializes the generation of the RSA key, which takes seconds, without blocking other
    /// changes.
    pub drawing: Mutex<()>,
}
