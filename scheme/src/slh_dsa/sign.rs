//! Signing over a batch: slh_sign_internal (FIPS 205, Algorithm 19) and its callers (Algorithms 22
//! and 23).

use super::digest::{self, Indices, Input};
use super::forest::{self, Tree};
use super::keys::SigningKey;
use super::params::{M_MAX, Params};
use super::walk::{self, Lane};
use super::{OPS_MAX, Scratch, is_signable};
use crate::ct;
use crate::error::Status;
use crate::kernels::Kernels;
use crate::kernels::slh::{SlhAddress, SlhChain, address_type};
use crate::message::Message;

/// Signs `messages[lane]` with `keys[lane]` into `sigs[lane][sig_len]`. `opt_rand[lane][n]` is
/// fresh randomness; without it every lane takes PK.seed, the deterministic variant.
///
/// First come all nodes of the authentication paths, over all trees of all lanes; then each
/// signature is walked up to its root as a verifier does, the values of each layer's WOTS+ signature
/// made on the way. A signature that does not end in PK.root never leaves: its lane says
/// [`Status::Fault`] and its output is zero, as is that of a lane whose message has a wrong form
/// ([`Status::InvalidInput`]).
///
/// # Panics
/// If the lengths do not fit each other, or a key is blank or of another parameter set than the
/// first.
pub fn sign<K: Kernels>(
    kernels: &K,
    keys: &[&SigningKey],
    messages: &[Message<'_>],
    opt_rand: Option<&[u8]>,
    sigs: &mut [u8],
    status: &mut [Status],
    scratch: &mut Scratch,
) {
    assert_eq!(keys.len(), status.len(), "one key per lane");
    let Some(p) = keys.first().map(|key| key.params()) else { return };
    assert_eq!(messages.len(), status.len(), "one message per lane");
    assert_eq!(sigs.len(), status.len() * p.sig_len(), "one signature per lane");
    assert!(opt_rand.is_none_or(|r| r.len() == status.len() * p.n), "n random bytes per lane");
    assert!(keys.iter().all(|key| key.is_expanded() && key.params() == p), "keys of one set");
    let lanes = keys.chunks(OPS_MAX).zip(messages.chunks(OPS_MAX));
    let outputs = sigs.chunks_mut(OPS_MAX * p.sig_len()).zip(status.chunks_mut(OPS_MAX));
    for (chunk, ((keys, messages), (sigs, status))) in lanes.zip(outputs).enumerate() {
        let from = chunk * OPS_MAX * p.n;
        let opt_rand = opt_rand.map(|r| &r[from..from + keys.len() * p.n]);
        sign_chunk(kernels, p, (keys, messages, opt_rand), sigs, status, scratch);
    }
    scratch.wipe();
}

fn sign_chunk<K: Kernels>(
    kernels: &K,
    p: &'static Params,
    (keys, messages, opt_rand): (&[&SigningKey], &[Message<'_>], Option<&[u8]>),
    sigs: &mut [u8],
    status: &mut [Status],
    scratch: &mut Scratch,
) {
    for (status, message) in status.iter_mut().zip(messages) {
        *status = if is_signable(message) { Status::NotRun } else { Status::InvalidInput };
    }
    let mut lanes = begin(kernels, p, (keys, messages, opt_rand), sigs, status);
    fors_secrets(kernels, p, keys, &lanes, sigs);
    fors_paths(kernels, p, keys, &lanes, sigs, scratch);
    layer_paths(kernels, p, keys, &lanes, sigs, scratch);

    walk::fors(kernels, p, &mut lanes, sigs, scratch);
    let sk_seeds: Vec<&[u8]> = keys.iter().map(|key| key.sk_seed()).collect();
    for layer in 0..p.d {
        walk::reveal(kernels, p, layer, &lanes, &sk_seeds, sigs);
        walk::layer(kernels, p, layer, &mut lanes, sigs, scratch);
    }
    let outputs = sigs.chunks_exact_mut(p.sig_len()).zip(status);
    for ((lane, key), (sig, status)) in lanes.iter().zip(keys).zip(outputs) {
        match lane {
            Some(lane) if lane.message[..p.n] == *key.verify_key().root() => *status = Status::Ok,
            Some(_) => {
                *status = Status::Fault;
                ct::wipe(sig);
            }
            None => sig.fill(0),
        }
    }
}

/// R and the message's digest (Algorithm 19, lines 2 to 13) of the lanes that are to run.
fn begin<'k, K: Kernels>(
    kernels: &K,
    p: &'static Params,
    (keys, messages, opt_rand): (&[&'k SigningKey], &[Message<'_>], Option<&[u8]>),
    sigs: &mut [u8],
    status: &[Status],
) -> Vec<Option<Lane<'k>>> {
    let runs = |lane: &usize| status[*lane] == Status::NotRun;
    if let Some(opt_rand) = opt_rand {
        ct::secret(opt_rand);
    }
    let outputs = sigs.chunks_exact_mut(p.sig_len()).enumerate().filter(|(lane, _)| runs(lane));
    let mut inputs: Vec<_> = outputs
        .map(|(lane, sig)| {
            let key = keys[lane];
            let addrnd = opt_rand.map_or(key.pk_seed(), |r| &r[lane * p.n..][..p.n]);
            Input::new(key.sk_prf(), addrnd, messages[lane], &mut sig[..p.n])
        })
        .collect();
    digest::prf_msg(kernels, p, &mut inputs);
    drop(inputs);
    let runs: Vec<bool> = (0..keys.len()).map(|lane| runs(&lane)).collect();
    let publics: Vec<_> = keys.iter().map(|key| key.verify_key()).collect();
    lanes(kernels, p, &publics, messages, sigs, &runs)
}

/// H_msg and what it says (Algorithm 19, lines 5 to 13; Algorithm 20, lines 6 to 14): a lane for
/// each signature that runs, whose R stands in `sigs`.
pub(super) fn lanes<'k, K: Kernels>(
    kernels: &K,
    p: &'static Params,
    keys: &[&'k super::VerifyKey],
    messages: &[Message<'_>],
    sigs: &[u8],
    runs: &[bool],
) -> Vec<Option<Lane<'k>>> {
    let mut digests = vec![[0u8; M_MAX]; keys.len()];
    let outputs = sigs.chunks_exact(p.sig_len()).zip(&mut digests).enumerate();
    let mut inputs: Vec<_> = outputs
        .filter(|(lane, _)| runs[*lane])
        .map(|(lane, (sig, digest))| {
            Input::new(&sig[..p.n], keys[lane].bytes(), messages[lane], &mut digest[..p.m])
        })
        .collect();
    digest::h_msg(kernels, p, &mut inputs);
    drop(inputs);
    let lanes = keys.iter().zip(&digests).zip(runs);
    lanes
        .map(|((key, digest), runs)| {
            runs.then(|| Lane::new(key.context(), Indices::new(p, digest)))
        })
        .collect()
}

/// fors_skGen (Algorithm 14) of the leaves that sign, into the signatures.
fn fors_secrets<K: Kernels>(
    kernels: &K,
    p: &Params,
    keys: &[&SigningKey],
    lanes: &[Option<Lane<'_>>],
    sigs: &mut [u8],
) {
    let outputs = sigs.chunks_exact_mut(p.sig_len()).zip(keys).zip(lanes);
    let mut jobs: Vec<_> = outputs
        .filter_map(|((sig, key), lane)| Some((sig, *key, lane.as_ref()?)))
        .flat_map(|(sig, key, lane)| {
            let parts = sig[p.n..][..p.fors_len()].chunks_exact_mut(p.fors_tree_len());
            parts.zip(&lane.indices.fors).map(move |(part, &start)| SlhChain {
                context: lane.context,
                address: lane.fors(address_type::FORS_TREE),
                sk_seed: Some(key.sk_seed()),
                start,
                steps: 0,
                value: &mut part[..p.n],
            })
        })
        .collect();
    kernels.slh_chain_many(&mut jobs);
    drop(jobs);
    // These secrets are the signature.
    ct::declassify(sigs);
}

/// The authentication paths of the FORS trees (Algorithm 16).
fn fors_paths<K: Kernels>(
    kernels: &K,
    p: &Params,
    keys: &[&SigningKey],
    lanes: &[Option<Lane<'_>>],
    sigs: &mut [u8],
    scratch: &mut Scratch,
) {
    let outputs = sigs.chunks_exact_mut(p.sig_len()).zip(keys).zip(lanes);
    let mut trees: Vec<_> = outputs
        .filter_map(|((sig, key), lane)| Some((sig, *key, lane.as_ref()?)))
        .flat_map(|(sig, key, lane)| {
            let parts = sig[p.n..][..p.fors_len()].chunks_exact_mut(p.fors_tree_len());
            parts.zip(&lane.indices.fors).map(move |(part, &index)| {
                let leaf = index & ((1 << p.a) - 1);
                Tree {
                    context: lane.context,
                    sk_seed: key.sk_seed(),
                    address: lane.fors(address_type::FORS_TREE),
                    offset: index - leaf,
                    signs: Some(leaf),
                    output: &mut part[p.n..],
                }
            })
        })
        .collect();
    forest::fors(kernels, p, &mut trees, scratch);
}

/// The authentication paths of all layers (Algorithm 12): the top one's from the key, the others
/// worked out.
fn layer_paths<K: Kernels>(
    kernels: &K,
    p: &Params,
    keys: &[&SigningKey],
    lanes: &[Option<Lane<'_>>],
    sigs: &mut [u8],
    scratch: &mut Scratch,
) {
    let mut trees = Vec::with_capacity(lanes.len() * p.d as usize);
    for ((sig, key), lane) in sigs.chunks_exact_mut(p.sig_len()).zip(keys).zip(lanes) {
        let Some(lane) = lane else { continue };
        let mut indices = lane.indices;
        let layers = sig[p.layer(0).start..].chunks_exact_mut(p.xmss_len());
        for (layer, part) in (0..p.d).zip(layers) {
            let auth = &mut part[p.wots_len()..];
            if layer + 1 == p.d {
                for (node, known) in auth.chunks_exact_mut(p.n).zip(key.top_path(indices.leaf)) {
                    node.copy_from_slice(known);
                }
            } else {
                trees.push(Tree {
                    context: lane.context,
                    sk_seed: key.sk_seed(),
                    address: SlhAddress::new(layer, indices.tree, address_type::TREE),
                    offset: 0,
                    signs: Some(indices.leaf),
                    output: auth,
                });
                indices.climb(p);
            }
        }
    }
    forest::build(kernels, p, &mut trees, scratch);
}
