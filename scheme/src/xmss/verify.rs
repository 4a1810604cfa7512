//! Verification over a batch (RFC 8391, Algorithms 14 and 17). Everything here is public.

use sha2::Digest;
use sha3::digest::{ExtendableOutput, Update, XofReader};

use super::Scratch;
use super::keys::VerifyKey;
use super::params::Set;
use super::signature::{Layer, Signature};
use super::{ots, tree};
use crate::error::Status;
use crate::kernels::Kernels;
use crate::kernels::xmss::address_type::OTS;
use crate::kernels::xmss::{N_MAX, XmssAddress, XmssContext, XmssFamily, domain, prefix};

/// Signatures that are worked on together: 1072 chains where n is 32, which fill all lanes, and are 70 KiB of
/// descriptions and 34 KiB of values.
const TOGETHER: usize = 16;

/// A signature on its way up.
struct Way<'a> {
    /// The index of its verdict.
    lane: usize,
    set: &'static Set,
    root: &'a [u8],
    context: &'a XmssContext,
    signature: Signature<'a>,
    /// The value that the next layer signs, n bytes: the digest of the message, or the root of the
    /// tree below.
    node: [u8; N_MAX],
}

/// Verifies `sigs[lane]` of `messages[lane]` with `keys[lane]`. `status[lane]` becomes [`Status::Ok`] or
/// [`Status::InvalidSignature`], whatever the bytes of the signature and their number.
///
/// # Panics
/// If the lengths do not fit each other, or a key is blank.
pub fn verify<K: Kernels + ?Sized>(
    kernels: &K,
    keys: &[&VerifyKey],
    messages: &[&[u8]],
    sigs: &[&[u8]],
    status: &mut [Status],
    scratch: &mut Scratch,
) {
    let lanes = status.len();
    assert!(
        keys.len() == lanes && messages.len() == lanes && sigs.len() == lanes,
        "a key, a message and a signature a lane"
    );
    assert!(keys.iter().all(|key| key.is_expanded()), "keys, and none blank");
    status.fill(Status::InvalidSignature);
    let mut ways: Vec<_> = (0..lanes)
        .filter_map(|lane| Way::new(lane, keys[lane], messages[lane], sigs[lane]))
        .collect();
    // Neighbours are of one hash function, and those under one key stay together.
    let kind = |way: &Way<'_>| (way.set.family, way.set.n);
    ways.sort_by_key(kind);
    for group in ways.chunk_by_mut(|a, b| kind(a) == kind(b)) {
        for group in group.chunks_mut(TOGETHER) {
            let layers = group.iter().map(|way| way.set.d).max().unwrap_or(0);
            for layer in 0..layers {
                climb_layer(kernels, group, layer, scratch);
            }
            for way in group {
                if way.node[..way.set.n] == *way.root {
                    status[way.lane] = Status::Ok;
                }
            }
        }
    }
}

impl<'a> Way<'a> {
    /// The beginning; `None` where the signature's form is wrong.
    fn new(lane: usize, key: &'a VerifyKey, message: &[u8], signature: &'a [u8]) -> Option<Self> {
        let (set, root, context) = key.parts()?;
        let signature = Signature::read(set, signature)?;
        let node = message_digest(context, signature.randomizer, root, signature.index, message);
        Some(Way { lane, set, root, context, signature, node })
    }

    /// Returns an existing layer with the common prefix of its hashes.
    fn part(&self, layer: u32) -> (&'a XmssContext, Layer<'a>) {
        (self.context, self.signature.layer(self.set, layer))
    }

    /// Returns whether both have an equal layer, and so an equal result of it.
    fn shares(&self, other: &Way<'_>, layer: u32) -> bool {
        self.set == other.set && self.node == other.node && self.part(layer) == other.part(layer)
    }
}

/// Works out the roots of a layer of signatures of one hash function and one n, which become their nodes.
fn climb_layer<K: Kernels + ?Sized>(
    kernels: &K,
    ways: &mut [Way<'_>],
    layer: u32,
    scratch: &mut Scratch,
) {
    // The index of each signature's part in `parts`.
    let mut part_of = [None; TOGETHER];
    let mut parts: Vec<usize> = Vec::with_capacity(ways.len());
    for (i, way) in ways.iter().enumerate().filter(|(_, way)| layer < way.set.d) {
        let same = parts.iter().position(|&part| ways[part].shares(way, layer));
        part_of[i] = Some(same.unwrap_or(parts.len()));
        if same.is_none() {
            parts.push(i);
        }
    }
    let layers: Vec<_> = parts.iter().map(|&part| ways[part].part(layer)).collect();
    let signed: Vec<_> = parts.iter().map(|&part| &ways[part].node[..ways[part].set.n]).collect();
    roots(kernels, &layers, &signed, scratch);
    for (way, part) in ways.iter_mut().zip(part_of) {
        let (n, Some(part)) = (way.set.n, part) else { continue };
        way.node[..n].copy_from_slice(&scratch.values[part * n..][..n]);
    }
}

/// The roots that signatures come to into `scratch.values`, `[part][n]`: as [`leaves`], and from there up.
pub(super) fn roots<K: Kernels + ?Sized>(
    kernels: &K,
    parts: &[(&XmssContext, Layer<'_>)],
    signed: &[&[u8]],
    scratch: &mut Scratch,
) {
    leaves(kernels, parts, signed, scratch);
    let heights = parts.iter().map(|(context, part)| part.path.len() / context.n);
    for level in 0..heights.max().unwrap_or(0) as u32 {
        tree::climb(kernels, parts, level, &mut scratch.values);
    }
}

/// Computes the leaves of signatures into `scratch.values`, `[part][n]`: each part has the common
/// prefix of its hashes and the value that it signs. All must use the same hash function and n.
pub(super) fn leaves<K: Kernels + ?Sized>(
    kernels: &K,
    parts: &[(&XmssContext, Layer<'_>)],
    signed: &[&[u8]],
    scratch: &mut Scratch,
) {
    let Scratch { values, above } = scratch;
    values.clear();
    for (_, part) in parts {
        values.extend_from_slice(part.values);
    }
    // The one-time keys (Algorithm 6).
    let mut jobs = Vec::new();
    let mut rest = &mut values[..];
    for ((context, part), signed) in parts.iter().zip(signed) {
        let (values, behind) = rest.split_at_mut(part.values.len());
        rest = behind;
        let address =
            XmssAddress::new(part.layer, part.tree, OTS).with(XmssAddress::KEY_PAIR, part.leaf);
        jobs.extend(ots::chains(context, address, signed, values));
    }
    kernels.xmss_chain_many(&mut jobs);
    let leaves: Vec<_> = (parts.iter())
        .map(|(context, part)| (*context, tree::l_tree_address(part.layer, part.tree, part.leaf)))
        .collect();
    tree::l_trees(kernels, &leaves, values, above);
}

/// H_msg (RFC 8391, section 4.1.9): of toByte(2, padding) || r || root || toByte(index, n) || message, n bytes
/// and zeros.
pub(super) fn message_digest(
    context: &XmssContext,
    randomizer: &[u8],
    root: &[u8],
    index: u64,
    message: &[u8],
) -> [u8; N_MAX] {
    let n = context.n;
    let mut number = [0; N_MAX];
    number[N_MAX - 8..].copy_from_slice(&index.to_be_bytes());
    let before = prefix(domain::H_MSG, n);
    let pieces = [before, randomizer, root, &number[N_MAX - n..], message];
    let mut digest = [0; N_MAX];
    match context.family {
        XmssFamily::Sha256 => {
            let hash =
                pieces.iter().fold(sha2::Sha256::new(), |hash, piece| hash.chain_update(piece));
            digest[..n].copy_from_slice(&hash.finalize()[..n]);
        }
        XmssFamily::Sha512 => {
            let hash =
                pieces.iter().fold(sha2::Sha512::new(), |hash, piece| hash.chain_update(piece));
            digest[..n].copy_from_slice(&hash.finalize()[..n]);
        }
        XmssFamily::Shake128 => {
            let mut hash = sha3::Shake128::default();
            pieces.iter().for_each(|piece| hash.update(piece));
            hash.finalize_xof().read(&mut digest[..n]);
        }
        XmssFamily::Shake256 => {
            let mut hash = sha3::Shake256::default();
            pieces.iter().for_each(|piece| hash.update(piece));
            hash.finalize_xof().read(&mut digest[..n]);
        }
    }
    digest
}
