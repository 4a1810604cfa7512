//! FN-DSA and Falcon batches, one lane after the other: the crates below have lanes inside one
//! operation only, and share nothing between operations but the keys.

use gabion_scheme::error::{Error, Status};
use gabion_scheme::fn_dsa::{self, SigningKey, VerifyKey};

use crate::batch::{FnDsa, Keys};

/// Runs a checked batch.
pub(super) fn run(operation: &mut FnDsa<'_>, status: &mut [Status]) {
    match operation {
        FnDsa::Generate { params, seeds, keys } => {
            for ((seed, key), status) in seeds.iter().zip(keys.iter_mut()).zip(status) {
                let made = fn_dsa::generate(params, seed);
                *status = made.as_ref().err().copied().unwrap_or(Status::Ok);
                *key = made.ok();
            }
        }
        FnDsa::DecodePublic { params, bytes, keys } => {
            let lanes = bytes.chunks_exact(params.pk_len()).zip(keys.iter_mut());
            for ((bytes, key), status) in lanes.zip(status) {
                *status = decoded(VerifyKey::decode(params, bytes), key);
            }
        }
        FnDsa::DecodePrivate { params, bytes, keys } => {
            let lanes = bytes.chunks_exact(params.sk_len()).zip(keys.iter_mut());
            for ((bytes, key), status) in lanes.zip(status) {
                *status = decoded(SigningKey::decode(params, bytes), key);
            }
        }
        FnDsa::Sign { params, keys, messages, random, sig } => {
            let lanes = messages.iter().zip(random.iter());
            let outputs = sig.chunks_exact_mut(params.sig_len_max()).zip(status);
            for (lane, ((message, random), (sig, status))) in lanes.zip(outputs).enumerate() {
                let decode = |bytes: &[u8]| SigningKey::decode(params, bytes);
                let sign = |key: &SigningKey| fn_dsa::sign(key, message, random, sig);
                *status = with_key(keys, lane, params.sk_len(), decode, sign);
                if !status.is_ok() {
                    sig.fill(0);
                }
            }
        }
        FnDsa::Verify { params, keys, messages, sig, lengths } => {
            let lanes = messages.iter().zip(sig.chunks_exact(params.sig_len_max()));
            let lanes = lanes.zip(lengths.iter()).zip(status);
            for (lane, (((message, sig), length), status)) in lanes.enumerate() {
                let decode = |bytes: &[u8]| VerifyKey::decode(params, bytes);
                let verify = |key: &VerifyKey| fn_dsa::verify(key, message, &sig[..*length]);
                *status = with_key(keys, lane, params.pk_len(), decode, verify);
            }
        }
    }
}

/// Enters a decoded key; the verdict on it.
fn decoded<T>(key: Result<T, Error>, place: &mut Option<T>) -> Status {
    let status = key.as_ref().err().map_or(Status::Ok, Status::from_key_error);
    *place = key.ok();
    status
}

/// Calls `with` with the key of a lane, decoded first where it is fresh.
fn with_key<T>(
    keys: &Keys<'_, T>,
    lane: usize,
    len: usize,
    decode: impl FnOnce(&[u8]) -> Result<T, Error>,
    with: impl FnOnce(&T) -> Status,
) -> Status {
    match keys {
        Keys::Known(keys) => with(keys[lane]),
        Keys::Fresh(bytes) => match decode(&bytes[lane * len..(lane + 1) * len]) {
            Ok(key) => with(&key),
            Err(error) => Status::from_key_error(&error),
        },
    }
}
