//! X25519 batches.

use gabion_scheme::error::Status;
use gabion_scheme::kernels::Kernels;
use gabion_scheme::x25519;

use crate::batch::X25519;

/// Runs a checked batch.
pub(super) fn run<K: Kernels>(k: &K, operation: &mut X25519<'_>, status: &mut [Status]) {
    match operation {
        X25519::Public { private, public } => {
            x25519::public_keys(k, private, public);
            status.fill(Status::Ok);
        }
        X25519::Derive { private, peers, shared } => {
            x25519::derive(k, private, peers, shared, status);
        }
    }
}
