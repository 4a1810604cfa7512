//! ML-DSA batches, in chunks that stay in cache.

use gabion_scheme::ct;
use gabion_scheme::error::Status;
use gabion_scheme::kernels::Kernels;
use gabion_scheme::message::Message;
use gabion_scheme::ml_dsa::{self, Params, SEED_LEN, Scratch, SigningKey, VerifyKey};

use crate::batch::{Dsa, Keys};

/// Lanes whose keys are expanded together: eight matrices of ML-DSA-87 are 448 KiB.
const CHUNK: usize = 8;
/// The chunk size of signing: a rejected attempt leaves its lane to another signature of the chunk,
/// so that larger chunks leave fewer lanes idle at the end. 2.5 MiB of ML-DSA-87; larger chunks
/// gained nothing (bench/where-cycles-go.md).
const SIGN_CHUNK: usize = 32;

/// Runs a checked batch.
pub(super) fn run<K: Kernels>(
    k: &K,
    operation: &mut Dsa<'_>,
    status: &mut [Status],
    scratch: &mut Scratch,
) {
    match operation {
        Dsa::Keygen { params, seeds, pk, sk } => {
            keygen(k, params, seeds, pk, sk, scratch);
            status.fill(Status::Ok);
        }
        Dsa::Generate { params, seeds, keys } => {
            generate(k, params, seeds, keys, scratch);
            status.fill(Status::Ok);
        }
        Dsa::DecodePublic { params, bytes, keys } => {
            decode_public(k, params, bytes, keys, status, scratch);
        }
        Dsa::DecodePrivate { params, bytes, keys } => {
            decode_private(k, params, bytes, keys, status, scratch);
        }
        Dsa::Sign { params, keys, messages, rnd, sig } => {
            sign(k, params, keys, (messages, rnd, sig), status, scratch);
        }
        Dsa::Verify { params, keys, messages, sig } => {
            verify(k, params, keys, (messages, sig), status, scratch);
        }
    }
}

fn blank_keys(p: &'static Params, n: usize) -> Vec<SigningKey> {
    (0..n).map(|_| SigningKey::blank(p)).collect()
}

/// Encoded key pairs from seeds.
fn keygen<K: Kernels>(
    k: &K,
    p: &'static Params,
    seeds: &[[u8; SEED_LEN]],
    pk: &mut [u8],
    sk: &mut [u8],
    scratch: &mut Scratch,
) {
    let mut keys = blank_keys(p, CHUNK.min(seeds.len()));
    let outputs = pk.chunks_mut(CHUNK * p.pk_len()).zip(sk.chunks_mut(CHUNK * p.sk_len()));
    for (seeds, (pk, sk)) in seeds.chunks(CHUNK).zip(outputs) {
        let keys = &mut keys[..seeds.len()];
        ml_dsa::keygen(k, p, seeds, keys, scratch);
        let outputs = pk.chunks_exact_mut(p.pk_len()).zip(sk.chunks_exact_mut(p.sk_len()));
        for (key, (pk, sk)) in keys.iter().zip(outputs) {
            pk.copy_from_slice(key.verify_key().bytes());
            sk.copy_from_slice(key.bytes());
        }
    }
}

/// Expanded key pairs from seeds.
fn generate<K: Kernels>(
    k: &K,
    p: &'static Params,
    seeds: &[[u8; SEED_LEN]],
    keys: &mut [SigningKey],
    scratch: &mut Scratch,
) {
    for (seeds, keys) in seeds.chunks(CHUNK).zip(keys.chunks_mut(CHUNK)) {
        ml_dsa::keygen(k, p, seeds, keys, scratch);
    }
}

/// Expanded public keys from their encoding.
fn decode_public<K: Kernels>(
    k: &K,
    p: &'static Params,
    bytes: &[u8],
    keys: &mut [VerifyKey],
    status: &mut [Status],
    scratch: &mut Scratch,
) {
    let lanes = bytes.chunks(CHUNK * p.pk_len()).zip(keys.chunks_mut(CHUNK));
    for ((bytes, keys), status) in lanes.zip(status.chunks_mut(CHUNK)) {
        ml_dsa::expand_verify_keys(k, p, bytes, keys, status, scratch);
    }
}

/// Expanded private keys from their encoding, each checked on its own.
fn decode_private<K: Kernels>(
    k: &K,
    p: &'static Params,
    bytes: &[u8],
    keys: &mut [SigningKey],
    status: &mut [Status],
    scratch: &mut Scratch,
) {
    let lanes = bytes.chunks(CHUNK * p.sk_len()).zip(keys.chunks_mut(CHUNK));
    for ((bytes, keys), status) in lanes.zip(status.chunks_mut(CHUNK)) {
        ml_dsa::expand_signing_keys(k, p, bytes, keys, status, scratch);
    }
}

/// Signatures; `(messages, rnd, sig)` as in [`ml_dsa::sign`].
fn sign<K: Kernels>(
    k: &K,
    p: &'static Params,
    keys: &Keys<'_, SigningKey>,
    (messages, rnd, sig): (&[Message<'_>], &[[u8; 32]], &mut [u8]),
    status: &mut [Status],
    scratch: &mut Scratch,
) {
    let bytes = match keys {
        // Known keys need no chunks: the flow refills its slots from the whole batch.
        Keys::Known(keys) => {
            return ml_dsa::sign(k, keys, messages, rnd, sig, status, scratch);
        }
        Keys::Fresh(bytes) => bytes,
    };
    let mut expanded = blank_keys(p, SIGN_CHUNK.min(status.len()));
    let outputs = sig.chunks_mut(SIGN_CHUNK * p.sig_len()).zip(status.chunks_mut(SIGN_CHUNK));
    let inputs = messages.chunks(SIGN_CHUNK).zip(rnd.chunks(SIGN_CHUNK));
    for ((bytes, inputs), (sig, status)) in
        bytes.chunks(SIGN_CHUNK * p.sk_len()).zip(inputs).zip(outputs)
    {
        let keys = &mut expanded[..status.len()];
        let mut decoded = [Status::NotRun; SIGN_CHUNK];
        let decoded = &mut decoded[..status.len()];
        ml_dsa::expand_signing_keys(k, p, bytes, keys, decoded, scratch);
        sign_good_keys(k, p, (keys, decoded), inputs, (sig, status), scratch);
    }
}

/// Signs the lanes whose key decoded; the others keep the status of decoding and stay zero.
fn sign_good_keys<K: Kernels>(
    k: &K,
    p: &'static Params,
    (keys, decoded): (&[SigningKey], &[Status]),
    (messages, rnd): (&[Message<'_>], &[[u8; 32]]),
    (sig, status): (&mut [u8], &mut [Status]),
    scratch: &mut Scratch,
) {
    let good: Vec<usize> = (0..keys.len()).filter(|&lane| decoded[lane].is_ok()).collect();
    let known: Vec<&SigningKey> = good.iter().map(|&lane| &keys[lane]).collect();
    let messages: Vec<_> = good.iter().map(|&lane| messages[lane]).collect();
    let mut rnd: Vec<_> = good.iter().map(|&lane| rnd[lane]).collect();
    let mut out = vec![0u8; good.len() * p.sig_len()];
    let mut verdicts = vec![Status::NotRun; good.len()];
    ml_dsa::sign(k, &known, &messages, &rnd, &mut out, &mut verdicts, scratch);
    ct::wipe(&mut rnd);
    status.copy_from_slice(decoded);
    sig.fill(0);
    for ((&lane, verdict), signature) in
        good.iter().zip(verdicts).zip(out.chunks_exact(p.sig_len()))
    {
        status[lane] = verdict;
        sig[lane * p.sig_len()..(lane + 1) * p.sig_len()].copy_from_slice(signature);
    }
}

/// Verifications; `(messages, sig)` as in [`ml_dsa::verify`].
fn verify<K: Kernels>(
    k: &K,
    p: &'static Params,
    keys: &Keys<'_, VerifyKey>,
    (messages, sig): (&[Message<'_>], &[u8]),
    status: &mut [Status],
    scratch: &mut Scratch,
) {
    let bytes = match keys {
        // Known keys need no chunks: the flow makes its own, of more lanes than these.
        Keys::Known(keys) => {
            return ml_dsa::verify(k, keys, messages, sig, status, scratch);
        }
        Keys::Fresh(bytes) => bytes,
    };
    let mut expanded: Vec<_> = (0..CHUNK.min(status.len())).map(|_| VerifyKey::blank(p)).collect();
    let inputs = messages.chunks(CHUNK).zip(sig.chunks(CHUNK * p.sig_len()));
    for ((bytes, (messages, sig)), status) in
        bytes.chunks(CHUNK * p.pk_len()).zip(inputs).zip(status.chunks_mut(CHUNK))
    {
        let keys = &mut expanded[..status.len()];
        let mut decoded = [Status::NotRun; CHUNK];
        let decoded = &mut decoded[..status.len()];
        ml_dsa::expand_verify_keys(k, p, bytes, keys, decoded, scratch);
        let known: Vec<_> = keys.iter().collect();
        ml_dsa::verify(k, &known, messages, sig, status, scratch);
        for (status, decoded) in status.iter_mut().zip(decoded) {
            if !decoded.is_ok() {
                *status = *decoded;
            }
        }
    }
}
