//! SLH-DSA batches. The flow bounds its working set; fresh keys are expanded in groups here.

use gabion_scheme::ct;
use gabion_scheme::error::Status;
use gabion_scheme::kernels::Kernels;
use gabion_scheme::message::Message;
use gabion_scheme::slh_dsa::{self, OPS_MAX, Params, Scratch, SigningKey, VerifyKey};

use crate::batch::{Keys, Slh};

/// Runs a checked batch.
pub(super) fn run<K: Kernels>(
    k: &K,
    operation: &mut Slh<'_>,
    status: &mut [Status],
    scratch: &mut Scratch,
) {
    match operation {
        Slh::Generate { params, seeds, keys } => {
            slh_dsa::keygen(k, params, seeds, keys, scratch);
            status.fill(Status::Ok);
        }
        Slh::DecodePublic { params, bytes, keys } => {
            slh_dsa::expand_verify_keys(params, bytes, keys, status);
        }
        Slh::DecodePrivate { params, bytes, keys } => {
            slh_dsa::expand_signing_keys(k, params, bytes, keys, status, scratch);
        }
        Slh::Sign { params, keys, messages, opt_rand, sig } => match keys {
            Keys::Known(keys) => {
                slh_dsa::sign(k, keys, messages, *opt_rand, sig, status, scratch);
            }
            Keys::Fresh(bytes) => {
                let outputs = sig.chunks_mut(OPS_MAX * params.sig_len());
                let outputs = outputs.zip(status.chunks_mut(OPS_MAX));
                let inputs = bytes.chunks(OPS_MAX * params.sk_len()).zip(messages.chunks(OPS_MAX));
                for (chunk, ((bytes, messages), (sig, status))) in inputs.zip(outputs).enumerate() {
                    let from = chunk * OPS_MAX * params.n;
                    let opt_rand = opt_rand.map(|r| &r[from..][..status.len() * params.n]);
                    sign_fresh(k, params, bytes, (messages, opt_rand), (sig, status), scratch);
                }
            }
        },
        Slh::Verify { params, keys, messages, sig } => match keys {
            Keys::Known(keys) => slh_dsa::verify(k, keys, messages, sig, status, scratch),
            Keys::Fresh(bytes) => {
                let mut expanded = vec![VerifyKey::blank(params); status.len()];
                slh_dsa::expand_verify_keys(params, bytes, &mut expanded, status);
                let known: Vec<_> = expanded.iter().collect();
                slh_dsa::verify(k, &known, messages, sig, status, scratch);
            }
        },
    }
}

/// Signs the lanes whose key decodes; the others say so and are zero.
fn sign_fresh<K: Kernels>(
    k: &K,
    p: &'static Params,
    bytes: &[u8],
    (messages, opt_rand): (&[Message<'_>], Option<&[u8]>),
    (sig, status): (&mut [u8], &mut [Status]),
    scratch: &mut Scratch,
) {
    let mut keys: Vec<_> = status.iter().map(|_| SigningKey::blank(p)).collect();
    slh_dsa::expand_signing_keys(k, p, bytes, &mut keys, status, scratch);
    sig.fill(0);
    let good: Vec<usize> = (0..keys.len()).filter(|&lane| status[lane].is_ok()).collect();
    let known: Vec<&SigningKey> = good.iter().map(|&lane| &keys[lane]).collect();
    let messages: Vec<_> = good.iter().map(|&lane| messages[lane]).collect();
    let mut random: Option<Vec<u8>> = opt_rand.map(|random| {
        let lanes = good.iter().map(|&lane| &random[lane * p.n..][..p.n]);
        lanes.collect::<Vec<_>>().concat()
    });
    let mut out = vec![0u8; good.len() * p.sig_len()];
    let mut verdicts = vec![Status::NotRun; good.len()];
    slh_dsa::sign(k, &known, &messages, random.as_deref(), &mut out, &mut verdicts, scratch);
    if let Some(random) = &mut random {
        ct::wipe(random);
    }
    for ((&lane, verdict), made) in good.iter().zip(verdicts).zip(out.chunks_exact(p.sig_len())) {
        status[lane] = verdict;
        sig[lane * p.sig_len()..][..p.sig_len()].copy_from_slice(made);
    }
}
