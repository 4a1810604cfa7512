//! Signing over a batch: slh_sign_internal (FIPS 205, Algorithm 19) and its callers (Algorithms 22
//! and 23).

use zeroize::Zeroizing;

use super::digest::{self, Indices, Input};
use super::forest::{self, Tree, TreeOutput};
use super::keys::SigningKey;
use super::params::{M_MAX, N_MAX, Params};
use super::pins::Pins;
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
/// First all trees are built over all lanes, with all nodes of the authentication paths and the
/// roots. Then each signature is walked up to its root, as a verifier does, and the walk makes the
/// values of each layer's WOTS+ signature. A WOTS+ key signs the root of a tree only if the walk
/// ends in it. Near the top, where many signatures share one tree, the tree must also have had that
/// root before or have been built twice: a WOTS+ key that signs two roots makes forgeries possible.
/// A signature that does not pass, or does not end in PK.root, never leaves: its lane has
/// [`Status::Fault`] and its output is zero. A lane whose message has a wrong form also has a zero
/// output ([`Status::InvalidInput`]). A tree of a lower layer, or of FORS, that was built wrongly
/// before the walk is not detected.
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
    // Private memory, which the caller cannot write to; partial output of a failed signature is
    // wiped with it.
    let mut made = Zeroizing::new(vec![0; sigs.len()]);
    let mut lanes = begin(kernels, p, (keys, messages, opt_rand), &mut made, status);
    fors_secrets(kernels, p, keys, &lanes, &mut made);
    let mut roots = Roots::new(p, lanes.len());
    fors_paths(kernels, p, keys, &lanes, (&mut made, &mut roots), scratch);
    layer_paths(kernels, p, keys, &lanes, (&mut made, &mut roots), scratch);
    roots.hold_to_what_was_signed(p, keys, &mut lanes, status);

    walk::fors(kernels, p, &mut lanes, &made, scratch);
    let sk_seeds: Vec<&[u8]> = keys.iter().map(|key| key.sk_seed()).collect();
    for layer in 0..p.d {
        let signed = roots.signed_by(layer);
        drop_disturbed(p, &mut lanes, &signed, status);
        walk::reveal(kernels, p, layer, &lanes, (&sk_seeds, &signed), &mut made);
        walk::layer(kernels, p, layer, &mut lanes, &made, scratch);
    }
    let outputs = sigs.chunks_exact_mut(p.sig_len()).zip(made.chunks_exact(p.sig_len()));
    for (((lane, key), (sig, made)), status) in lanes.iter().zip(keys).zip(outputs).zip(status) {
        match lane {
            Some(lane) if lane.message[..p.n] == *key.verify_key().root() => {
                sig.copy_from_slice(made);
                *status = Status::Ok;
            }
            Some(_) => {
                sig.fill(0);
                *status = Status::Fault;
            }
            None => sig.fill(0),
        }
    }
}

/// The roots that the WOTS+ keys of each lane sign, from the trees, before any walk.
struct Roots {
    /// The value that each layer's key signs, `[lane][d]`: the FORS key, then the roots of the
    /// trees below.
    signed: Vec<[u8; N_MAX]>,
    /// A second computation, for trees with a pin that are built for the first time.
    again: Vec<Option<[u8; N_MAX]>>,
    layers: usize,
}

impl Roots {
    fn new(p: &Params, lanes: usize) -> Self {
        let layers = p.d as usize;
        let (signed, again) = (vec![[0; N_MAX]; lanes * layers], vec![None; lanes * layers]);
        Roots { signed, again, layers }
    }

    /// Returns the values that the keys of one layer sign, by lane.
    fn signed_by(&self, layer: u32) -> Vec<[u8; N_MAX]> {
        self.signed.chunks_exact(self.layers).map(|lane| lane[layer as usize]).collect()
    }

    /// Ends the lanes in which a tree near the top has another root than before, or than when it was built again.
    fn hold_to_what_was_signed(
        &self,
        p: &Params,
        keys: &[&SigningKey],
        lanes: &mut [Option<Lane<'_>>],
        status: &mut [Status],
    ) {
        let roots = self.signed.chunks_exact(self.layers).zip(self.again.chunks_exact(self.layers));
        for (((lane, key), status), (signed, again)) in
            lanes.iter_mut().zip(keys).zip(status).zip(roots)
        {
            let Some(mut indices) = lane.as_ref().map(|lane| lane.indices) else { continue };
            // The key of a layer signs the root of the tree below.
            for (layer, (root, again)) in (0..).zip(signed.iter().zip(again).skip(1)) {
                if let Some(place) = Pins::place(p, layer, indices.tree) {
                    let is_twice = again.is_none_or(|again| again == *root);
                    if !is_twice || !key.pins().holds(place, &root[..p.n]) {
                        (*lane, *status) = (None, Status::Fault);
                        break;
                    }
                }
                indices.climb(p);
            }
        }
    }
}

/// Ends the lanes whose walk found something else than `signed[lane]`, before that is signed.
fn drop_disturbed(
    p: &Params,
    lanes: &mut [Option<Lane<'_>>],
    signed: &[[u8; N_MAX]],
    status: &mut [Status],
) {
    for ((lane, signed), status) in lanes.iter_mut().zip(signed).zip(status) {
        if lane.as_ref().is_some_and(|lane| lane.message[..p.n] != signed[..p.n]) {
            (*lane, *status) = (None, Status::Fault);
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

/// Computes H_msg and its indices (Algorithm 19, lines 5 to 13; Algorithm 20, lines 6 to 14): one
/// lane for each signature that runs, whose R stands in `sigs`.
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

/// The authentication paths of the FORS trees (Algorithm 16), and the FORS keys.
fn fors_paths<K: Kernels>(
    kernels: &K,
    p: &Params,
    keys: &[&SigningKey],
    lanes: &[Option<Lane<'_>>],
    (sigs, made): (&mut [u8], &mut Roots),
    scratch: &mut Scratch,
) {
    let count = lanes.iter().flatten().count();
    let mut roots = vec![0; count * p.k * p.n];
    let outputs = sigs.chunks_exact_mut(p.sig_len()).zip(keys).zip(lanes);
    let mut trees: Vec<_> = outputs
        .filter_map(|((sig, key), lane)| Some((sig, *key, lane.as_ref()?)))
        .flat_map(|(sig, key, lane)| {
            let parts = sig[p.n..][..p.fors_len()].chunks_exact_mut(p.fors_tree_len());
            parts.zip(&lane.indices.fors).map(move |(part, &index)| (key, lane, part, index))
        })
        .zip(roots.chunks_exact_mut(p.n))
        .map(|((key, lane, part, index), root)| {
            let leaf = index & ((1 << p.a) - 1);
            Tree {
                context: lane.context,
                sk_seed: key.sk_seed(),
                address: lane.fors(address_type::FORS_TREE),
                offset: index - leaf,
                output: TreeOutput::Path { leaf, path: &mut part[p.n..], root },
            }
        })
        .collect();
    forest::fors(kernels, p, &mut trees, scratch);
    drop(trees);
    let mut fors = vec![0; count * p.n];
    walk::fors_keys(kernels, p, lanes, &roots, &mut fors);
    let signed = lanes.iter().zip(made.signed.chunks_exact_mut(made.layers));
    let signed = signed.filter_map(|(lane, signed)| lane.as_ref().and(signed.first_mut()));
    for (signed, key) in signed.zip(fors.chunks_exact(p.n)) {
        signed[..p.n].copy_from_slice(key);
    }
}

/// The authentication paths of all layers (Algorithm 12) and the roots: the top one's from the key, the others
/// worked out, and twice where the key remembers what was signed and nothing was signed yet.
fn layer_paths<K: Kernels>(
    kernels: &K,
    p: &Params,
    keys: &[&SigningKey],
    lanes: &[Option<Lane<'_>>],
    (sigs, made): (&mut [u8], &mut Roots),
    scratch: &mut Scratch,
) {
    let mut trees = Vec::with_capacity(lanes.len() * p.d as usize);
    let roots = made.signed.chunks_exact_mut(made.layers);
    let roots = roots.zip(made.again.chunks_exact_mut(made.layers));
    let outputs = sigs.chunks_exact_mut(p.sig_len()).zip(roots);
    for (((sig, (signed, again)), key), lane) in outputs.zip(keys).zip(lanes) {
        let Some(lane) = lane else { continue };
        let mut indices = lane.indices;
        let (lower, top) = sig.split_at_mut(p.layer(p.d - 1).start);
        let layers = lower[p.layer(0).start..].chunks_exact_mut(p.xmss_len());
        // The key of a layer signs the root of the tree below.
        let roots = signed.iter_mut().zip(again).skip(1);
        for (layer, (part, (root, again))) in (0..).zip(layers.zip(roots)) {
            let tree = |output| Tree {
                context: lane.context,
                sk_seed: key.sk_seed(),
                address: SlhAddress::new(layer, indices.tree, address_type::TREE),
                offset: 0,
                output,
            };
            let (leaf, path, root) = (indices.leaf, &mut part[p.wots_len()..], &mut root[..p.n]);
            trees.push(tree(TreeOutput::Path { leaf, path, root }));
            let place = Pins::place(p, layer, indices.tree);
            if place.is_some_and(|place| !key.pins().is_set(place)) {
                trees.push(tree(TreeOutput::Root(&mut again.insert([0; N_MAX])[..p.n])));
            }
            indices.climb(p);
        }
        let path = top[p.wots_len()..].chunks_exact_mut(p.n);
        for (node, known) in path.zip(key.top_path(indices.leaf)) {
            node.copy_from_slice(known);
        }
    }
    forest::build(kernels, p, &mut trees, scratch);
}
