//! What was opened of the service's own keys, for which others wrap what they import.

use std::sync::{Mutex, OnceLock};

use gabion_engine::KemPrivateKey;

use crate::rsa;

/// What was opened of them.
#[derive(Default)]
pub struct Wrappers {
    pub x_wing: OnceLock<KemPrivateKey>,
    pub rsa: OnceLock<rsa::PrivateKey>,
    /// An RSA key takes seconds: nobody makes a second one meanwhile, and other changes go on.
    pub drawing: Mutex<()>,
}
