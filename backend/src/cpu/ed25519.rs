//! Ed25519 batches.

use gabion_scheme::ed25519::{self, VerifyKeys};
use gabion_scheme::error::Status;
use gabion_scheme::kernels::Kernels;

use crate::batch::{Ed25519, Keys};

/// Runs a checked batch.
pub(super) fn run<K: Kernels>(k: &K, operation: &mut Ed25519<'_>, status: &mut [Status]) {
    match operation {
        Ed25519::Generate { seeds, keys } => {
            ed25519::keygen(k, seeds, keys);
            status.fill(Status::Ok);
        }
        Ed25519::Sign { keys, messages, sig } => {
            ed25519::sign(k, keys, messages, sig);
            status.fill(Status::Ok);
        }
        Ed25519::Verify { rules, keys, messages, sig, z } => {
            let keys = match keys {
                Keys::Fresh(bytes) => VerifyKeys::Fresh(*rules, bytes.as_chunks().0),
                Keys::Known(keys) => VerifyKeys::Decoded(*rules, keys),
            };
            let sig = sig.as_chunks().0;
            match z {
                Some(z) => ed25519::verify_sum(k, keys, messages, sig, z, status),
                None => ed25519::verify(k, keys, messages, sig, status),
            }
        }
    }
}
