//! Verification over a batch: slh_verify_internal (FIPS 205, Algorithm 20) and its callers
//! (Algorithms 24 and 25).

use super::keys::VerifyKey;
use super::{OPS_MAX, Scratch, is_signable, sign, walk};
use crate::error::Status;
use crate::kernels::Kernels;
use crate::message::Message;

/// Verifies `sigs[lane][sig_len]` of `messages[lane]` with `keys[lane]`. `status[lane]` becomes
/// [`Status::Ok`], [`Status::InvalidSignature`], or [`Status::InvalidInput`] where the message has a
/// wrong form.
///
/// # Panics
/// If the lengths do not fit each other, or a key is blank or of another parameter set than the
/// first.
pub fn verify<K: Kernels>(
    kernels: &K,
    keys: &[&VerifyKey],
    messages: &[Message<'_>],
    sigs: &[u8],
    status: &mut [Status],
    scratch: &mut Scratch,
) {
    assert_eq!(keys.len(), status.len(), "one key per lane");
    let Some(p) = keys.first().map(|key| key.params()) else { return };
    assert_eq!(messages.len(), status.len(), "one message per lane");
    assert_eq!(sigs.len(), status.len() * p.sig_len(), "one signature per lane");
    assert!(keys.iter().all(|key| key.is_expanded() && key.params() == p), "keys of one set");
    let lanes = keys.chunks(OPS_MAX).zip(messages.chunks(OPS_MAX));
    let lanes = lanes.zip(sigs.chunks(OPS_MAX * p.sig_len())).zip(status.chunks_mut(OPS_MAX));
    for (((keys, messages), sigs), status) in lanes {
        let runs: Vec<bool> = messages.iter().map(is_signable).collect();
        let mut lanes = sign::lanes(kernels, p, keys, messages, sigs, &runs);
        walk::fors(kernels, p, &mut lanes, sigs, scratch);
        for layer in 0..p.d {
            walk::layer(kernels, p, layer, &mut lanes, sigs, scratch);
        }
        for ((lane, key), status) in lanes.iter().zip(keys).zip(status) {
            *status = match lane {
                None => Status::InvalidInput,
                Some(lane) if lane.message[..p.n] == *key.root() => Status::Ok,
                Some(_) => Status::InvalidSignature,
            };
        }
    }
}
