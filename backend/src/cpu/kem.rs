//! ML-KEM batches, in chunks that stay in cache.

use gabion_scheme::error::Status;
use gabion_scheme::kernels::Kernels;
use gabion_scheme::ml_kem::{self, DecapsKey, EncapsKey, Params, SECRET_LEN, SEED_LEN};

use super::zero_failed;
use crate::batch::{Kem, Keys};

/// Lanes that are worked on together. The largest matrix (ML-KEM-1024) is 8 KiB and its squeezed
/// bytes are as many: sixteen lanes stay within a second-level cache of 512 KiB.
const CHUNK: usize = 16;

/// Working memory of one batch; holds no secret between batches.
#[derive(Default)]
pub(super) struct Scratch {
    flow: ml_kem::Scratch,
    /// Buffers for expanding fresh keys: at most [`CHUNK`] of one parameter set. Allocating them
    /// anew took a tenth of an operation.
    encaps: Vec<EncapsKey>,
    decaps: Vec<DecapsKey>,
}

/// Runs a checked batch.
pub(super) fn run<K: Kernels>(
    k: &K,
    operation: &mut Kem<'_>,
    status: &mut [Status],
    scratch: &mut Scratch,
) {
    match operation {
        Kem::Keygen { params, seeds, ek, dk } => {
            keygen(k, params, seeds, ek, dk, scratch);
            status.fill(Status::Ok);
        }
        Kem::Publish { params, seeds, ek } => {
            let chunks = seeds.chunks(CHUNK).zip(ek.chunks_mut(CHUNK * params.ek_len()));
            for (seeds, ek) in chunks {
                ml_kem::publish(k, params, seeds, ek, &mut scratch.flow);
            }
            status.fill(Status::Ok);
        }
        Kem::Generate { params, seeds, keys } => {
            generate(k, params, seeds, keys, scratch);
            status.fill(Status::Ok);
        }
        Kem::DecodePublic { params, bytes, keys } => {
            decode_public(k, params, bytes, keys, status, scratch);
        }
        Kem::DecodePrivate { params, bytes, keys } => {
            decode_private(k, params, bytes, keys, status, scratch);
        }
        Kem::Encaps { params, keys, m, ct, shared } => {
            encaps(k, params, keys, (m, ct, shared), status, scratch);
        }
        Kem::Decaps { params, keys, ct, shared } => {
            decaps(k, params, keys, (ct, shared), status, scratch);
        }
    }
}

/// The first `n` keys of a buffer, of parameter set `p`.
fn room<'a, T>(
    keys: &'a mut Vec<T>,
    n: usize,
    p: &'static Params,
    params: impl Fn(&T) -> &'static Params,
    blank: impl Fn(&'static Params) -> T,
) -> &'a mut [T] {
    if keys.first().is_some_and(|key| params(key) != p) {
        keys.clear();
    }
    while keys.len() < n {
        keys.push(blank(p));
    }
    &mut keys[..n]
}

/// A guard that wipes keys when it is dropped.
struct WipeGuard<'a>(&'a mut [DecapsKey]);

impl Drop for WipeGuard<'_> {
    fn drop(&mut self) {
        self.0.iter_mut().for_each(DecapsKey::wipe);
    }
}

/// Encoded key pairs from seeds.
fn keygen<K: Kernels>(
    k: &K,
    p: &'static Params,
    seeds: &[[u8; SEED_LEN]],
    ek: &mut [u8],
    dk: &mut [u8],
    scratch: &mut Scratch,
) {
    let outputs = ek.chunks_mut(CHUNK * p.ek_len()).zip(dk.chunks_mut(CHUNK * p.dk_len()));
    for (seeds, (ek, dk)) in seeds.chunks(CHUNK).zip(outputs) {
        ml_kem::keygen_encoded(k, p, seeds, ek, dk, &mut scratch.flow);
    }
}

/// Expanded key pairs from seeds.
fn generate<K: Kernels>(
    k: &K,
    p: &'static Params,
    seeds: &[[u8; SEED_LEN]],
    keys: &mut [DecapsKey],
    scratch: &mut Scratch,
) {
    for (seeds, keys) in seeds.chunks(CHUNK).zip(keys.chunks_mut(CHUNK)) {
        ml_kem::keygen(k, p, seeds, keys, &mut scratch.flow);
    }
}

/// Expanded encapsulation keys from their encoding.
fn decode_public<K: Kernels>(
    k: &K,
    p: &'static Params,
    bytes: &[u8],
    keys: &mut [EncapsKey],
    status: &mut [Status],
    scratch: &mut Scratch,
) {
    let lanes = bytes.chunks(CHUNK * p.ek_len()).zip(keys.chunks_mut(CHUNK));
    for ((bytes, keys), status) in lanes.zip(status.chunks_mut(CHUNK)) {
        ml_kem::expand_encaps_keys(k, p, bytes, keys, status, &mut scratch.flow);
    }
}

/// Expanded decapsulation keys from their encoding.
fn decode_private<K: Kernels>(
    k: &K,
    p: &'static Params,
    bytes: &[u8],
    keys: &mut [DecapsKey],
    status: &mut [Status],
    scratch: &mut Scratch,
) {
    let lanes = bytes.chunks(CHUNK * p.dk_len()).zip(keys.chunks_mut(CHUNK));
    for ((bytes, keys), status) in lanes.zip(status.chunks_mut(CHUNK)) {
        ml_kem::expand_decaps_keys(k, p, bytes, keys, status, &mut scratch.flow);
    }
}

/// Encapsulations; `(m, ct, shared)` as in [`ml_kem::encaps`].
fn encaps<K: Kernels>(
    k: &K,
    p: &'static Params,
    keys: &Keys<'_, EncapsKey>,
    (m, ct, shared): (&[[u8; SECRET_LEN]], &mut [u8], &mut [[u8; SECRET_LEN]]),
    status: &mut [Status],
    scratch: &mut Scratch,
) {
    let outputs = ct.chunks_mut(CHUNK * p.ct_len()).zip(shared.chunks_mut(CHUNK));
    let lanes = m.chunks(CHUNK).zip(outputs).zip(status.chunks_mut(CHUNK));
    for (chunk, ((m, (ct, shared)), status)) in lanes.enumerate() {
        let range = chunk * CHUNK..chunk * CHUNK + m.len();
        match keys {
            Keys::Known(keys) => {
                ml_kem::encaps(k, p, &keys[range], m, ct, shared, &mut scratch.flow);
                status.fill(Status::Ok);
            }
            Keys::Fresh(bytes) => {
                let bytes = &bytes[range.start * p.ek_len()..range.end * p.ek_len()];
                let Scratch { flow, encaps, .. } = &mut *scratch;
                let keys = room(encaps, m.len(), p, EncapsKey::params, EncapsKey::blank);
                let mut decoded = [Status::NotRun; CHUNK];
                let decoded = &mut decoded[..status.len()];
                ml_kem::expand_encaps_keys(k, p, bytes, keys, decoded, flow);
                let known: Vec<_> = keys.iter().collect();
                ml_kem::encaps(k, p, &known, m, ct, shared, flow);
                status.copy_from_slice(decoded);
                zero_failed(status, ct, p.ct_len());
                zero_failed(status, shared.as_flattened_mut(), SECRET_LEN);
            }
        }
    }
}

/// Decapsulations; `(ct, shared)` as in [`ml_kem::decaps`].
fn decaps<K: Kernels>(
    k: &K,
    p: &'static Params,
    keys: &Keys<'_, DecapsKey>,
    (ct, shared): (&[u8], &mut [[u8; SECRET_LEN]]),
    status: &mut [Status],
    scratch: &mut Scratch,
) {
    let lanes = ct.chunks(CHUNK * p.ct_len()).zip(shared.chunks_mut(CHUNK));
    for (chunk, ((ct, shared), status)) in lanes.zip(status.chunks_mut(CHUNK)).enumerate() {
        let range = chunk * CHUNK..chunk * CHUNK + status.len();
        match keys {
            Keys::Known(keys) => {
                ml_kem::decaps(k, p, &keys[range], ct, shared, &mut scratch.flow);
                status.fill(Status::Ok);
            }
            Keys::Fresh(bytes) => {
                let bytes = &bytes[range.start * p.dk_len()..range.end * p.dk_len()];
                let Scratch { flow, decaps, .. } = &mut *scratch;
                let keys = room(decaps, status.len(), p, DecapsKey::params, DecapsKey::blank);
                let keys = WipeGuard(keys);
                let mut decoded = [Status::NotRun; CHUNK];
                let decoded = &mut decoded[..status.len()];
                ml_kem::expand_decaps_keys(k, p, bytes, keys.0, decoded, flow);
                let known: Vec<_> = keys.0.iter().collect();
                ml_kem::decaps(k, p, &known, ct, shared, flow);
                status.copy_from_slice(decoded);
                zero_failed(status, shared.as_flattened_mut(), SECRET_LEN);
            }
        }
    }
}
