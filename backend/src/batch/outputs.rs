//! Clearing what a batch must not give out.

use gabion_scheme::ct;
use gabion_scheme::error::Status;
use gabion_scheme::{ml_dsa, ml_kem};

use super::{Batch, Operation};

impl Batch<'_> {
    /// Clears the output of every lane whose status is not [`Status::Ok`]: bytes become zero, keys
    /// blank. What a backend owes its caller anyway, for those that may not have kept to it.
    pub fn clear_failed(&mut self) {
        for lane in 0..self.status.len() {
            if !self.status[lane].is_ok() {
                self.operation.clear(lane);
            }
        }
    }

    /// Takes everything back: no status, no output. For a batch whose backend can't be trusted.
    pub fn reset(&mut self) {
        self.status.fill(Status::NotRun);
        self.clear_failed();
    }
}

impl Operation<'_> {
    /// Clears the output of one lane.
    fn clear(&mut self, lane: usize) {
        match self {
            Operation::KemKeygen { params, ek, dk, .. } => {
                wipe(ek, lane, params.ek_len());
                wipe(dk, lane, params.dk_len());
            }
            Operation::KemGenerate { params, keys, .. }
            | Operation::KemDecodePrivate { params, keys, .. } => {
                keys[lane] = ml_kem::DecapsKey::blank(params);
            }
            Operation::KemDecodePublic { params, keys, .. } => {
                keys[lane] = ml_kem::EncapsKey::blank(params);
            }
            Operation::KemEncaps { params, ct, shared, .. } => {
                wipe(ct, lane, params.ct_len());
                ct::wipe(&mut shared[lane]);
            }
            Operation::KemDecaps { shared, .. } => ct::wipe(&mut shared[lane]),
            Operation::DsaKeygen { params, pk, sk, .. } => {
                wipe(pk, lane, params.pk_len());
                wipe(sk, lane, params.sk_len());
            }
            Operation::DsaGenerate { params, keys, .. }
            | Operation::DsaDecodePrivate { params, keys, .. } => {
                keys[lane] = ml_dsa::SigningKey::blank(params);
            }
            Operation::DsaDecodePublic { params, keys, .. } => {
                keys[lane] = ml_dsa::VerifyKey::blank(params);
            }
            Operation::DsaSign { params, sig, .. } => wipe(sig, lane, params.sig_len()),
            Operation::DsaVerify { .. } => {}
            Operation::Slh(operation) => operation.clear(lane),
            Operation::Ed25519(operation) => operation.clear(lane),
            Operation::FnDsa(operation) => operation.clear(lane),
            Operation::X25519(operation) => operation.clear(lane),
        }
    }
}

/// Zeroes the lane's `len` bytes of an array `[lane][len]`.
fn wipe(bytes: &mut [u8], lane: usize, len: usize) {
    ct::wipe(&mut bytes[lane * len..(lane + 1) * len]);
}
