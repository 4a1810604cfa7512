//! From a signature up to the root: fors_pkFromSig and xmss_pkFromSig (FIPS 205, Algorithms 17 and
//! 11), one layer of many signatures at a time.
//!
//! ```text
//!   secrets --F--> leaves --H, path--> k roots --T_k--> message of layer 0
//!   message --digits--> chains --F--> ends --T_len--> leaf --H, path--> message of the next layer
//! ```
//!
//! Verifying is this and a comparison; signing makes each layer's WOTS+ values before it takes the
//! layer's step, so that chains go on from where the signature left them, and compares at each layer.

use super::Scratch;
use super::digest::Indices;
use super::params::{LEN_MAX, N_MAX, Params, W_LAST};
use crate::ct;
use crate::kernels::Kernels;
use crate::kernels::slh::{SlhAddress, SlhChain, SlhContext, SlhHash, address_type};

/// One signature on its way up.
pub(super) struct Lane<'a> {
    pub(super) context: &'a SlhContext,
    /// Tree and leaf of the layer that comes next; FORS leaves.
    pub(super) indices: Indices,
    /// The value that the next layer signs, in the first n bytes: the FORS public key, then roots.
    pub(super) message: [u8; N_MAX],
}

impl<'a> Lane<'a> {
    #[inline]
    pub(super) fn new(context: &'a SlhContext, indices: Indices) -> Self {
        Lane { context, indices, message: [0; N_MAX] }
    }

    /// The address that all chains of the lane's WOTS+ key at a layer begin with.
    #[inline]
    fn wots(&self, layer: u32, kind: u32) -> SlhAddress {
        SlhAddress::new(layer, self.indices.tree, kind).with_key_pair(self.indices.leaf)
    }

    /// The address of the lane's FORS key.
    #[inline]
    pub(super) fn fors(&self, kind: u32) -> SlhAddress {
        self.wots(0, kind)
    }
}

/// A node and the authentication path from it to a root.
struct Path<'a> {
    context: &'a SlhContext,
    /// Layer and tree, and key pair in FORS.
    address: SlhAddress,
    /// The node's index at level 0.
    index: u32,
    auth: &'a [u8],
}

/// The lanes that run, each with its part of `parts`, whose length says how many bytes each has.
fn running<'l, 'a, S>(
    lanes: &'l [Option<Lane<'a>>],
    parts: impl Iterator<Item = S>,
) -> impl Iterator<Item = (&'l Lane<'a>, S)> {
    lanes.iter().zip(parts).filter_map(|(lane, part)| Some((lane.as_ref()?, part)))
}

/// fors_pkFromSig (Algorithm 17) of every lane that runs; `sigs` is `[lane][sig_len]`.
pub(super) fn fors<K: Kernels>(
    kernels: &K,
    p: &Params,
    lanes: &mut [Option<Lane<'_>>],
    sigs: &[u8],
    s: &mut Scratch,
) {
    let count = lanes.iter().flatten().count();
    ct::resize(&mut s.nodes, count * p.k * p.n, 0);
    let trees = || {
        running(lanes, sigs.chunks_exact(p.sig_len())).flat_map(|(lane, sig)| {
            let parts = sig[p.n..][..p.fors_len()].chunks_exact(p.fors_tree_len());
            lane.indices.fors.iter().zip(parts).map(move |(&index, part)| (lane, index, part))
        })
    };
    let mut leaves: Vec<_> = trees()
        .zip(s.nodes.chunks_exact_mut(p.n))
        .map(|((lane, start, part), value)| {
            value.copy_from_slice(&part[..p.n]);
            let address = lane.fors(address_type::FORS_TREE);
            SlhChain { context: lane.context, address, sk_seed: None, start, steps: 1, value }
        })
        .collect();
    kernels.slh_chain_many(&mut leaves);
    drop(leaves);
    let paths: Vec<_> = trees()
        .map(|(lane, index, part)| Path {
            context: lane.context,
            address: lane.fors(address_type::FORS_TREE),
            index,
            auth: &part[p.n..],
        })
        .collect();
    climb(kernels, p.n, &paths, &mut s.nodes, &mut s.parents);
    drop(paths);
    let mut keys = vec![0; count * p.n];
    fors_keys(kernels, p, lanes, &s.nodes, &mut keys);
    for (lane, key) in lanes.iter_mut().flatten().zip(keys.chunks_exact(p.n)) {
        lane.message[..p.n].copy_from_slice(key);
    }
}

/// T_k of the k roots of every lane that runs (Algorithm 17, lines 21 to 24): `roots` is `[lane][k][n]`, `keys`
/// `[lane][n]`, both of the lanes that run.
pub(super) fn fors_keys<K: Kernels>(
    kernels: &K,
    p: &Params,
    lanes: &[Option<Lane<'_>>],
    roots: &[u8],
    keys: &mut [u8],
) {
    let places = roots.chunks_exact(p.k * p.n).zip(keys.chunks_exact_mut(p.n));
    let mut hashes: Vec<_> = lanes
        .iter()
        .flatten()
        .zip(places)
        .map(|(lane, (input, output))| SlhHash {
            context: lane.context,
            address: lane.fors(address_type::FORS_ROOTS),
            input,
            output,
        })
        .collect();
    kernels.slh_hash_many(&mut hashes);
}

/// Computes the values of a layer's WOTS+ signatures from the secrets: wots_sign (Algorithm 7) into
/// the signatures. `sk_seeds[lane]` is SK.seed; the first n bytes of `signed[lane]` are the message
/// to sign, not the lane's own message, from which [`layer`] computes the digits once more.
pub(super) fn reveal<K: Kernels>(
    kernels: &K,
    p: &Params,
    layer: u32,
    lanes: &[Option<Lane<'_>>],
    (sk_seeds, signed): (&[&[u8]], &[[u8; N_MAX]]),
    sigs: &mut [u8],
) {
    let parts =
        sigs.chunks_exact_mut(p.sig_len()).map(|sig| &mut sig[p.layer(layer)][..p.wots_len()]);
    let mut jobs = Vec::with_capacity(lanes.len() * p.len());
    for (lane, ((sk_seed, signed), values)) in
        running(lanes, sk_seeds.iter().zip(signed).zip(parts))
    {
        let address = lane.wots(layer, address_type::WOTS_HASH);
        let chains = (0..).zip(digits(p, signed)).zip(values.chunks_exact_mut(p.n));
        jobs.extend(chains.map(|((chain, digit), value)| SlhChain {
            context: lane.context,
            address: address.with_chain(chain),
            sk_seed: Some(sk_seed),
            start: 0,
            steps: digit.into(),
            value,
        }));
    }
    kernels.slh_chain_many(&mut jobs);
    drop(jobs);
    // The values that the digits choose are the signature.
    ct::declassify(sigs);
}

/// xmss_pkFromSig (Algorithm 11) of one layer of every lane that runs: its message becomes the root
/// of its tree, and its indices those of the next layer.
pub(super) fn layer<K: Kernels>(
    kernels: &K,
    p: &Params,
    layer: u32,
    lanes: &mut [Option<Lane<'_>>],
    sigs: &[u8],
    s: &mut Scratch,
) {
    let count = lanes.iter().flatten().count();
    let parts =
        || sigs.chunks_exact(p.sig_len()).map(|sig| sig[p.layer(layer)].split_at(p.wots_len()));
    // wots_pkFromSig (Algorithm 8): the chains to their ends, and T_len.
    ct::resize(&mut s.values, count * p.wots_len(), 0);
    let mut jobs = Vec::with_capacity(count * p.len());
    let values = s.values.chunks_exact_mut(p.wots_len());
    for ((lane, (wots, _)), values) in running(lanes, parts()).zip(values) {
        values.copy_from_slice(wots);
        let address = lane.wots(layer, address_type::WOTS_HASH);
        let chains = (0..).zip(digits(p, &lane.message)).zip(values.chunks_exact_mut(p.n));
        jobs.extend(chains.map(|((chain, digit), value)| SlhChain {
            context: lane.context,
            address: address.with_chain(chain),
            sk_seed: None,
            start: digit.into(),
            steps: W_LAST - u32::from(digit),
            value,
        }));
    }
    kernels.slh_chain_many(&mut jobs);
    drop(jobs);
    ct::resize(&mut s.nodes, count * p.n, 0);
    let ends = s.values.chunks_exact(p.wots_len()).zip(s.nodes.chunks_exact_mut(p.n));
    let mut hashes: Vec<_> = lanes
        .iter()
        .flatten()
        .zip(ends)
        .map(|(lane, (input, output))| SlhHash {
            context: lane.context,
            address: lane.wots(layer, address_type::WOTS_PK),
            input,
            output,
        })
        .collect();
    kernels.slh_hash_many(&mut hashes);
    drop(hashes);
    let paths: Vec<_> = running(lanes, parts())
        .map(|(lane, (_, auth))| Path {
            context: lane.context,
            address: SlhAddress::new(layer, lane.indices.tree, address_type::TREE),
            index: lane.indices.leaf,
            auth,
        })
        .collect();
    climb(kernels, p.n, &paths, &mut s.nodes, &mut s.parents);
    drop(paths);
    for (lane, root) in lanes.iter_mut().flatten().zip(s.nodes.chunks_exact(p.n)) {
        lane.message[..p.n].copy_from_slice(root);
        lane.indices.climb(p);
    }
}

/// Climbs from each node to the root of its tree, level by level (Algorithm 11, lines 8 to 18;
/// Algorithm 17, lines 7 to 18). `nodes` is `[path][n]`.
fn climb<K: Kernels>(
    kernels: &K,
    n: usize,
    paths: &[Path<'_>],
    nodes: &mut [u8],
    pairs: &mut Vec<u8>,
) {
    let height = paths.first().map_or(0, |path| path.auth.len() / n);
    ct::resize(pairs, 2 * nodes.len(), 0);
    for level in 0..height as u32 {
        let siblings = paths.iter().zip(nodes.chunks_exact(n));
        for (pair, (path, node)) in pairs.chunks_exact_mut(2 * n).zip(siblings) {
            let sibling = &path.auth[level as usize * n..][..n];
            let (left, right) = pair.split_at_mut(n);
            if path.index >> level & 1 == 0 {
                left.copy_from_slice(node);
                right.copy_from_slice(sibling);
            } else {
                left.copy_from_slice(sibling);
                right.copy_from_slice(node);
            }
        }
        let places = paths.iter().zip(pairs.chunks_exact(2 * n)).zip(nodes.chunks_exact_mut(n));
        let mut jobs: Vec<_> = places
            .map(|((path, input), output)| SlhHash {
                context: path.context,
                address: path.address.with_chain(level + 1).with_hash(path.index >> (level + 1)),
                input,
                output,
            })
            .collect();
        kernels.slh_hash_many(&mut jobs);
    }
}

/// Returns the digits of a message of n bytes and of its checksum (Algorithm 7, lines 1 to 7),
/// `[len]`.
fn digits(p: &Params, message: &[u8; N_MAX]) -> [u8; LEN_MAX] {
    let mut digits = [0; LEN_MAX];
    for (pair, byte) in digits.as_chunks_mut::<2>().0.iter_mut().zip(&message[..p.n]) {
        *pair = [byte >> 4, byte & 15];
    }
    let len_1 = 2 * p.n;
    let sum: u32 = digits[..len_1].iter().map(|&digit| W_LAST - u32::from(digit)).sum();
    // len_2 = 3 digits of 4 bits, the highest first: at most 64 * 15 < 2^12.
    digits[len_1] = (sum >> 8) as u8;
    digits[len_1 + 1] = (sum >> 4) as u8 & 15;
    digits[len_1 + 2] = sum as u8 & 15;
    digits
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Algorithm, slh_dsa::params};

    #[test]
    fn digits_end_with_their_checksum() {
        for algorithm in Algorithm::all() {
            let Some(p) = params(algorithm) else { continue };
            for message in [[0; N_MAX], [0xff; N_MAX], std::array::from_fn(|i| (i * 77) as u8)] {
                let digits = digits(p, &message);
                let len_1 = 2 * p.n;
                for (i, &digit) in digits[..len_1].iter().enumerate() {
                    assert_eq!(digit, message[i / 2] >> (4 * (1 - i % 2)) & 15);
                }
                let lacking: u32 = digits[..len_1].iter().map(|&d| 15 - u32::from(d)).sum();
                let sum = digits[len_1..][..3].iter().fold(0, |sum, &d| sum << 4 | u32::from(d));
                assert_eq!(sum, lacking);
                assert!(digits.iter().all(|&digit| digit < 16));
            }
        }
    }
}
