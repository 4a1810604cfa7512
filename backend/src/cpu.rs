//! The flows of the standards on a processor: one backend for each set of kernels.

use std::cell::RefCell;

use gabion_scheme::error::Status;
use gabion_scheme::kernels::Kernels;
use gabion_scheme::ml_dsa::{self, SigningKey, VerifyKey};
use gabion_scheme::ml_kem::{self, DecapsKey, EncapsKey};

use crate::batch::{Backend, Batch, Keys, Operation};

/// Lanes that are worked on together. A matrix of ML-KEM-1024 is 8 KiB, one of ML-DSA-87 56 KiB:
/// sixteen ML-KEM lanes and eight ML-DSA lanes with their keys stay within a second-level cache.
const KEM_CHUNK: usize = 16;
const DSA_CHUNK: usize = 8;

/// Working memory of one thread; holds no secret between batches.
#[derive(Default)]
struct Scratch {
    kem: ml_kem::Scratch,
    dsa: ml_dsa::Scratch,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// A processor as a backend, over the kernels `K`.
pub struct Cpu<K: Kernels>(K);

impl<K: Kernels> Cpu<K> {
    /// A backend over these kernels.
    pub fn new(kernels: K) -> Self {
        Cpu(kernels)
    }
}

/// Every processor backend that this machine can run, best first; the portable one is always there.
pub fn cpus() -> Vec<Box<dyn Backend>> {
    let mut all: Vec<Box<dyn Backend>> = Vec::new();
    #[cfg(target_arch = "x86_64")]
    if let Some(kernels) = crate::avx512::Avx512::detect() {
        all.push(Box::new(Cpu::new(kernels)));
    }
    all.push(Box::new(Cpu::new(crate::portable::Portable)));
    all
}

impl<K: Kernels> Backend for Cpu<K> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn lanes(&self) -> usize {
        self.0.lanes()
    }

    fn run(&self, batch: &mut Batch<'_>) {
        SCRATCH.with_borrow_mut(|scratch| run(&self.0, batch, scratch));
    }
}

fn run<K: Kernels>(k: &K, batch: &mut Batch<'_>, scratch: &mut Scratch) {
    let status = &mut *batch.status;
    match &mut batch.operation {
        Operation::KemKeygen { params: p, seeds, ek, dk } => {
            let outputs = ek.chunks_mut(KEM_CHUNK * p.ek_len());
            let outputs = outputs.zip(dk.chunks_mut(KEM_CHUNK * p.dk_len()));
            for (seeds, (ek, dk)) in seeds.chunks(KEM_CHUNK).zip(outputs) {
                let mut keys = vec![DecapsKey::blank(p); seeds.len()];
                ml_kem::keygen(k, p, seeds, &mut keys, &mut scratch.kem);
                let outputs = ek.chunks_exact_mut(p.ek_len()).zip(dk.chunks_exact_mut(p.dk_len()));
                for (key, (ek, dk)) in keys.iter().zip(outputs) {
                    ek.copy_from_slice(key.encaps_key().bytes());
                    dk.copy_from_slice(key.bytes());
                }
            }
            status.fill(Status::Ok);
        }
        Operation::KemGenerate { params: p, seeds, keys } => {
            for (seeds, keys) in seeds.chunks(KEM_CHUNK).zip(keys.chunks_mut(KEM_CHUNK)) {
                ml_kem::keygen(k, p, seeds, keys, &mut scratch.kem);
            }
            status.fill(Status::Ok);
        }
        Operation::KemDecodePublic { params: p, bytes, keys } => {
            let lanes = bytes.chunks(KEM_CHUNK * p.ek_len()).zip(keys.chunks_mut(KEM_CHUNK));
            for ((bytes, keys), status) in lanes.zip(status.chunks_mut(KEM_CHUNK)) {
                ml_kem::expand_encaps_keys(k, p, bytes, keys, status);
            }
        }
        Operation::KemDecodePrivate { params: p, bytes, keys } => {
            let lanes = bytes.chunks(KEM_CHUNK * p.dk_len()).zip(keys.chunks_mut(KEM_CHUNK));
            for ((bytes, keys), status) in lanes.zip(status.chunks_mut(KEM_CHUNK)) {
                ml_kem::expand_decaps_keys(k, p, bytes, keys, status);
            }
        }
        Operation::KemEncaps { params: p, keys, m, ct, shared } => {
            let outputs = ct.chunks_mut(KEM_CHUNK * p.ct_len()).zip(shared.chunks_mut(KEM_CHUNK));
            let lanes = m.chunks(KEM_CHUNK).zip(outputs).zip(status.chunks_mut(KEM_CHUNK));
            for (at, ((m, (ct, shared)), status)) in lanes.enumerate() {
                let known = |known: &[&EncapsKey], scratch: &mut ml_kem::Scratch, ct: &mut [u8],
                             shared: &mut [[u8; 32]]| {
                    ml_kem::encaps(k, p, known, m, ct, shared, scratch);
                };
                let range = at * KEM_CHUNK..at * KEM_CHUNK + m.len();
                match keys {
                    Keys::Known(keys) => {
                        known(&keys[range], &mut scratch.kem, ct, shared);
                        status.fill(Status::Ok);
                    }
                    Keys::Fresh(bytes) => {
                        let mut keys = vec![EncapsKey::blank(p); m.len()];
                        let len = p.ek_len();
                        let bytes = &bytes[range.start * len..range.end * len];
                        ml_kem::expand_encaps_keys(k, p, bytes, &mut keys, status);
                        known(&keys.iter().collect::<Vec<_>>(), &mut scratch.kem, ct, shared);
                        zero_failed(status, ct, p.ct_len());
                        zero_failed(status, shared.as_flattened_mut(), 32);
                    }
                }
            }
        }
        Operation::KemDecaps { params: p, keys, ct, shared } => {
            let lanes = ct.chunks(KEM_CHUNK * p.ct_len()).zip(shared.chunks_mut(KEM_CHUNK));
            for (at, ((ct, shared), status)) in
                lanes.zip(status.chunks_mut(KEM_CHUNK)).enumerate()
            {
                let range = at * KEM_CHUNK..at * KEM_CHUNK + status.len();
                match keys {
                    Keys::Known(keys) => {
                        ml_kem::decaps(k, p, &keys[range], ct, shared, &mut scratch.kem);
                        status.fill(Status::Ok);
                    }
                    Keys::Fresh(bytes) => {
                        let mut keys = vec![DecapsKey::blank(p); status.len()];
                        let len = p.dk_len();
                        let bytes = &bytes[range.start * len..range.end * len];
                        ml_kem::expand_decaps_keys(k, p, bytes, &mut keys, status);
                        let known: Vec<_> = keys.iter().collect();
                        ml_kem::decaps(k, p, &known, ct, shared, &mut scratch.kem);
                        zero_failed(status, shared.as_flattened_mut(), 32);
                    }
                }
            }
        }
        operation => run_dsa(k, operation, status, &mut scratch.dsa),
    }
}

fn run_dsa<K: Kernels>(
    k: &K,
    operation: &mut Operation<'_>,
    status: &mut [Status],
    scratch: &mut ml_dsa::Scratch,
) {
    match operation {
        Operation::DsaKeygen { params: p, seeds, pk, sk } => {
            let outputs = pk.chunks_mut(DSA_CHUNK * p.pk_len());
            let outputs = outputs.zip(sk.chunks_mut(DSA_CHUNK * p.sk_len()));
            for (seeds, (pk, sk)) in seeds.chunks(DSA_CHUNK).zip(outputs) {
                let mut keys = vec![SigningKey::blank(p); seeds.len()];
                ml_dsa::keygen(k, p, seeds, &mut keys, scratch);
                let outputs = pk.chunks_exact_mut(p.pk_len()).zip(sk.chunks_exact_mut(p.sk_len()));
                for (key, (pk, sk)) in keys.iter().zip(outputs) {
                    pk.copy_from_slice(key.verify_key().bytes());
                    sk.copy_from_slice(key.bytes());
                }
            }
            status.fill(Status::Ok);
        }
        Operation::DsaGenerate { params: p, seeds, keys } => {
            for (seeds, keys) in seeds.chunks(DSA_CHUNK).zip(keys.chunks_mut(DSA_CHUNK)) {
                ml_dsa::keygen(k, p, seeds, keys, scratch);
            }
            status.fill(Status::Ok);
        }
        Operation::DsaDecodePublic { params: p, bytes, keys } => {
            let lanes = bytes.chunks(DSA_CHUNK * p.pk_len()).zip(keys.chunks_mut(DSA_CHUNK));
            for ((bytes, keys), status) in lanes.zip(status.chunks_mut(DSA_CHUNK)) {
                ml_dsa::expand_verify_keys(k, p, bytes, keys, status, scratch);
            }
        }
        Operation::DsaDecodePrivate { params: p, bytes, keys } => {
            let lanes = bytes.chunks_exact(p.sk_len()).zip(keys.iter_mut());
            for ((bytes, key), status) in lanes.zip(status.iter_mut()) {
                *status = match SigningKey::decode(k, p, bytes) {
                    Ok(decoded) => {
                        *key = decoded;
                        Status::Ok
                    }
                    Err(_) => Status::InvalidKey,
                };
            }
        }
        Operation::DsaSign { params: p, keys, messages, rnd, sig } => match keys {
            Keys::Known(keys) => ml_dsa::sign(k, p, keys, messages, rnd, sig, status, scratch),
            Keys::Fresh(bytes) => {
                for (at, status) in status.chunks_mut(DSA_CHUNK).enumerate() {
                    let lanes = at * DSA_CHUNK..at * DSA_CHUNK + status.len();
                    let bytes = &bytes[lanes.start * p.sk_len()..lanes.end * p.sk_len()];
                    let sig = &mut sig[lanes.start * p.sig_len()..lanes.end * p.sig_len()];
                    let keys: Vec<_> = bytes
                        .chunks_exact(p.sk_len())
                        .map(|bytes| SigningKey::decode(k, p, bytes))
                        .collect();
                    sign_good_keys(k, p, &keys, &messages[lanes.clone()], &rnd[lanes], sig, status, scratch);
                }
            }
        },
        Operation::DsaVerify { params: p, keys, messages, sig } => match keys {
            Keys::Known(keys) => {
                let sigs = sig.chunks(DSA_CHUNK * p.sig_len());
                let lanes = keys.chunks(DSA_CHUNK).zip(messages.chunks(DSA_CHUNK)).zip(sigs);
                for (((keys, messages), sig), status) in lanes.zip(status.chunks_mut(DSA_CHUNK)) {
                    ml_dsa::verify(k, p, keys, messages, sig, status, scratch);
                }
            }
            Keys::Fresh(bytes) => {
                let mut keys = vec![VerifyKey::blank(p); DSA_CHUNK.min(status.len())];
                let sigs = sig.chunks(DSA_CHUNK * p.sig_len());
                let lanes = bytes.chunks(DSA_CHUNK * p.pk_len()).zip(messages.chunks(DSA_CHUNK));
                for (((bytes, messages), sig), status) in
                    lanes.zip(sigs).zip(status.chunks_mut(DSA_CHUNK))
                {
                    let keys = &mut keys[..status.len()];
                    let mut expanded = [Status::NotRun; DSA_CHUNK];
                    let expanded = &mut expanded[..status.len()];
                    ml_dsa::expand_verify_keys(k, p, bytes, keys, expanded, scratch);
                    let known: Vec<_> = keys.iter().collect();
                    ml_dsa::verify(k, p, &known, messages, sig, status, scratch);
                    for (status, expanded) in status.iter_mut().zip(expanded.iter()) {
                        if !expanded.is_ok() {
                            *status = *expanded;
                        }
                    }
                }
            }
        },
        _ => {}
    }
}

/// Signs the lanes whose key decoded; the others say [`Status::InvalidKey`].
#[allow(clippy::too_many_arguments)] // The arrays of one batch.
fn sign_good_keys<K: Kernels>(
    k: &K,
    p: &'static ml_dsa::Params,
    keys: &[Result<SigningKey, gabion_scheme::Error>],
    messages: &[ml_dsa::Message<'_>],
    rnd: &[[u8; 32]],
    sig: &mut [u8],
    status: &mut [Status],
    scratch: &mut ml_dsa::Scratch,
) {
    let good: Vec<usize> = (0..keys.len()).filter(|&lane| keys[lane].is_ok()).collect();
    let known: Vec<&SigningKey> = keys.iter().flatten().collect();
    let messages: Vec<_> = good.iter().map(|&lane| messages[lane]).collect();
    let rnd: Vec<_> = good.iter().map(|&lane| rnd[lane]).collect();
    let mut out = vec![0u8; good.len() * p.sig_len()];
    let mut verdicts = vec![Status::NotRun; good.len()];
    ml_dsa::sign(k, p, &known, &messages, &rnd, &mut out, &mut verdicts, scratch);
    status.fill(Status::InvalidKey);
    sig.fill(0);
    for ((&lane, verdict), signature) in
        good.iter().zip(verdicts).zip(out.chunks_exact(p.sig_len()))
    {
        status[lane] = verdict;
        sig[lane * p.sig_len()..(lane + 1) * p.sig_len()].copy_from_slice(signature);
    }
}

/// Clears the output of every lane that did not succeed.
fn zero_failed(status: &[Status], out: &mut [u8], len: usize) {
    for (status, out) in status.iter().zip(out.chunks_exact_mut(len)) {
        if !status.is_ok() {
            out.fill(0);
        }
    }
}
