//! Verification over a batch (RFC 8554, Algorithms 6, 6a and 4b). Everything here is public.

use super::Scratch;
use super::hash::message_digest;
use super::keys::VerifyKey;
use super::params::N_MAX;
use super::signature::{Part, parts};
use crate::error::Status;
use crate::hbs::digit;
use crate::kernels::Kernels;
use crate::kernels::lms::{D_INTR, D_LEAF, D_PBLC, LmsChain, LmsHash, prefix};

/// Trees whose chains are worked on together: 4240 where w is 1, which are 230 KiB of descriptions and
/// 133 KiB of values; 544 where w is 8, which fill all lanes.
const PARTS_MAX: usize = 16;

/// Verifies `sigs[lane]` of `messages[lane]` with `keys[lane]`. `status[lane]` becomes [`Status::Ok`] or
/// [`Status::InvalidSignature`], whatever the bytes of the signature and their number.
///
/// All trees of all signatures are processed together, without waiting for the tree above. The
/// signature of a lower tree that several signatures share is verified once.
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
    let lanes = keys.chunks(PARTS_MAX).zip(messages.chunks(PARTS_MAX)).zip(sigs.chunks(PARTS_MAX));
    for (((keys, messages), sigs), status) in lanes.zip(status.chunks_mut(PARTS_MAX)) {
        let (mut all, mut counts) = (Vec::new(), Vec::new());
        for (lane, key) in keys.iter().enumerate() {
            let parts = parts(key, messages[lane], sigs[lane]);
            for part in parts.into_iter().flatten() {
                add(part, lane, &mut all, &mut counts);
            }
        }
        // Neighbours are of one hash function and, where there are several, of one length.
        let kind = |part: &Part<'_>| (part.public.lms.family, part.public.lms.n);
        all.sort_by_key(|(_, part)| (kind(part), part.values.len()));
        let mut good = [0; PARTS_MAX];
        for group in all.chunk_by(|(_, a), (_, b)| kind(a) == kind(b)) {
            for group in group.chunks(PARTS_MAX) {
                roots(kernels, group, scratch);
                for ((place, part), root) in group.iter().zip(scratch.nodes.chunks(N_MAX)) {
                    if root[..part.public.lms.n] == *part.public.root {
                        let of_lanes = good.iter_mut().zip(counts[*place]);
                        of_lanes.for_each(|(good, count)| *good += usize::from(count));
                    }
                }
            }
        }
        for ((key, status), good) in keys.iter().zip(status).zip(good) {
            // A signature whose form is wrong has no parts; a key has a level at least.
            let is_valid = good == key.levels();
            *status = if is_valid { Status::Ok } else { Status::InvalidSignature };
        }
    }
}

/// Adds a lane's part with its place among the counts, or counts one that is there once more: how often it stands in each
/// lane, since a tree that signs its own key has it twice in one signature.
fn add<'a>(
    part: Part<'a>,
    lane: usize,
    all: &mut Vec<(usize, Part<'a>)>,
    counts: &mut Vec<[u8; PARTS_MAX]>,
) {
    let place = match all.iter().find(|(_, known)| known.is_same(&part)) {
        Some((place, _)) => *place,
        None => {
            all.push((counts.len(), part));
            counts.push([0; PARTS_MAX]);
            counts.len() - 1
        }
    };
    // At most one a level.
    counts[place][lane] += 1;
}

/// The candidate of T[1] of every tree, into `scratch.nodes[part][N_MAX]`. The parts are of one hash
/// function and one n.
pub(super) fn roots<K: Kernels + ?Sized>(
    kernels: &K,
    parts: &[(usize, Part<'_>)],
    scratch: &mut Scratch,
) {
    leaves(kernels, parts, scratch);
    let Scratch { nodes, pairs, .. } = scratch;
    let highest = parts.iter().map(|(_, part)| part.public.lms.h).max().unwrap_or(0);
    for level in 0..highest {
        climb(kernels, parts, level, nodes, pairs);
    }
}

/// The candidate of the leaf of every tree, into `scratch.nodes[part][N_MAX]`. The parts are of one hash
/// function and one n.
pub(super) fn leaves<K: Kernels + ?Sized>(
    kernels: &K,
    parts: &[(usize, Part<'_>)],
    scratch: &mut Scratch,
) {
    let n = parts[0].1.public.lms.n;
    let Scratch { values, nodes, pairs } = scratch;
    values.clear();
    for (_, part) in parts {
        values.extend_from_slice(part.values);
    }
    run_chains(kernels, parts, values);
    for rows in [&mut *nodes, &mut *pairs] {
        rows.clear();
        rows.resize(parts.len() * 2 * N_MAX, 0);
    }
    nodes.truncate(parts.len() * N_MAX);
    // Kc, the candidate of the one-time public key (Algorithm 4b, step 3).
    let mut rest = &values[..];
    let jobs = parts.iter().zip(nodes.chunks_mut(N_MAX)).map(|((_, part), node)| {
        let (input, behind) = rest.split_at(part.values.len());
        rest = behind;
        hash(part, part.q, D_PBLC, input, &mut node[..n])
    });
    kernels.lms_hash_many(&mut jobs.collect::<Vec<_>>());
    // The leaf (Algorithm 6a, step 4).
    for (node, pair) in nodes.chunks(N_MAX).zip(pairs.chunks_mut(2 * N_MAX)) {
        pair[..n].copy_from_slice(&node[..n]);
    }
    let jobs = parts.iter().zip(nodes.chunks_mut(N_MAX)).zip(pairs.chunks(2 * N_MAX));
    let jobs = jobs.map(|(((_, part), node), pair)| {
        let leaf = (1 << part.public.lms.h) + part.q;
        hash(part, leaf, D_LEAF, &pair[..n], &mut node[..n])
    });
    kernels.lms_hash_many(&mut jobs.collect::<Vec<_>>());
}

/// Climbs from the nodes of a level to those above, in the trees that reach it.
fn climb<K: Kernels + ?Sized>(
    kernels: &K,
    parts: &[(usize, Part<'_>)],
    level: u32,
    nodes: &mut [u8],
    pairs: &mut [u8],
) {
    let n = parts[0].1.public.lms.n;
    for (((_, part), node), pair) in
        parts.iter().zip(nodes.chunks(N_MAX)).zip(pairs.chunks_mut(2 * N_MAX))
    {
        if level < part.public.lms.h {
            let sibling = &part.path[level as usize * n..][..n];
            let is_right = part.q >> level & 1 == 1;
            let (left, right) =
                if is_right { (sibling, &node[..n]) } else { (&node[..n], sibling) };
            pair[..n].copy_from_slice(left);
            pair[n..2 * n].copy_from_slice(right);
        }
    }
    let jobs = parts.iter().zip(nodes.chunks_mut(N_MAX)).zip(pairs.chunks(2 * N_MAX));
    let jobs = jobs.filter(|(((_, part), _), _)| level < part.public.lms.h);
    let jobs = jobs.map(|(((_, part), node), pair)| {
        let parent = ((1 << part.public.lms.h) + part.q) >> (level + 1);
        hash(part, parent, D_INTR, &pair[..2 * n], &mut node[..n])
    });
    kernels.lms_hash_many(&mut jobs.collect::<Vec<_>>());
}

/// Runs every chain to its end (Algorithm 4b, step 3): `values` in place, part after part.
fn run_chains<K: Kernels + ?Sized>(kernels: &K, parts: &[(usize, Part<'_>)], values: &mut [u8]) {
    let n = parts[0].1.public.lms.n;
    let mut jobs = Vec::with_capacity(values.len() / n);
    let mut rest = values.chunks_exact_mut(n);
    for (_, part) in parts {
        let ots = part.public.ots;
        let Part { public, q, randomizer, message, .. } = *part;
        let digest = message_digest(ots, public.id, q, randomizer, message);
        for (i, value) in rest.by_ref().take(ots.chains()).enumerate() {
            let start = digit(&digest, i, ots.w);
            jobs.push(LmsChain {
                family: ots.family,
                prefix: prefix(part.public.id, part.q, i as u16),
                seed: None,
                start,
                steps: ots.last() - start,
                value,
            });
        }
    }
    kernels.lms_chain_many(&mut jobs);
}

/// One hash of a part's tree.
fn hash<'a>(
    part: &Part<'_>,
    number: u32,
    domain: u16,
    input: &'a [u8],
    output: &'a mut [u8],
) -> LmsHash<'a> {
    let family = part.public.lms.family;
    LmsHash { family, prefix: prefix(part.public.id, number, domain), input, output }
}
