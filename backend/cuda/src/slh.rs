//! SLH-DSA on a device: which arrays lie where, and which kernels run over which trees.
//!
//! The memory for computing a tree is large, above all for the small sets: 1 MB for one FORS tree
//! of SLH-DSA-*-256s. So trees and layers are computed in groups, as many at a time as fit into the
//! slot.
//!
//! The canary of a verification is one valid and one invalid signature; the canary of signing and
//! key generation is one lane. A signature is verified on the device before it leaves, and near the
//! top of the hypertree a known key reports whether it signed other roots before.

use gabion_backend::{BatchOutcome, Keys, Slh};
use gabion_scheme::algorithms::Algorithm;
use gabion_scheme::message::{Header, Message};
use gabion_scheme::slh_dsa::{Params, SigningKey, from_trees};
use gabion_scheme::{Status, ct};

use crate::arguments::SlhArguments;
use crate::canary::SlhCanary;
use crate::chunk::{Chunk, KeyBytes, PER_THREAD, Remaining, chunks, pieces};
use crate::cuda::Cuda;
use crate::device::{Device, Fault};
use crate::layout::{Layout, Region, largest_fit};
use crate::slots::SlotGuard;

/// `SlhTask` and `SlhKind` of `kernels/slh_dsa.cuh`.
const KEYGEN: u32 = 0;
const SIGN: u32 = 1;
const VERIFY: u32 = 2;
const HYPERTREE: u32 = 0;
const FORS: u32 = 1;
const WALK: u32 = 2;
/// Words of an operation's indices, of which some are the tree's; bytes of its messages' space.
const INDICES: usize = 40;
const TREE: usize = 36;
const ROOM: usize = 320;
/// Operations of a block of the walk at most, and blocks that fill a device, below which a block has fewer.
const OF_WALK: u32 = 16;
const BLOCKS: u32 = 128;
/// Values of a WOTS+ chain.
const CHAIN: usize = 16;
/// Lanes of the canary, at most.
const CANARIES: usize = 2;
/// Bytes of a message, at most: its bits are counted in a word.
const MESSAGE_MAX: usize = 1 << 28;

/// Lanes of a chunk that fill a device, below which a batch is not cut.
fn lanes_to_fill(p: &Params, task: u32) -> usize {
    match task {
        VERIFY => 4096,
        // Trees of 8 or 16 leaves, or of hundreds.
        _ if p.h_prime <= 4 => 2048,
        _ => 128,
    }
}

/// Runs a checked batch.
pub(crate) fn run<D: Device>(
    cuda: &Cuda<D>,
    slh: &mut Slh<'_>,
    status: &mut [Status],
) -> BatchOutcome {
    let ran = match slh {
        Slh::Generate { params: p, seeds, keys } => {
            let mut trees = vec![0; keys.len() * p.top_tree_len()];
            let ran = top_trees(cuda, p, (seeds, p.seed_len()), &mut trees, status);
            if ran == BatchOutcome::Done {
                from_trees(p, seeds, &trees, keys, status);
            }
            ran
        }
        Slh::DecodePrivate { params: p, bytes, keys } => {
            let mut trees = vec![0; keys.len() * p.top_tree_len()];
            let ran = top_trees(cuda, p, (bytes, p.sk_len()), &mut trees, status);
            if ran == BatchOutcome::Done {
                from_trees(p, bytes, &trees, keys, status);
            }
            ran
        }
        Slh::DecodePublic { .. } => BatchOutcome::Declined,
        Slh::Sign { params: p, keys, messages, opt_rand, sig } => {
            let ran = sign(cuda, p, (keys, messages, *opt_rand), sig, status);
            if ran != BatchOutcome::Done {
                ct::wipe(sig);
            }
            ran
        }
        Slh::Verify { params: p, keys, messages, sig } => {
            verify(cuda, p, keys, messages, sig, status)
        }
    };
    if ran != BatchOutcome::Done {
        status.fill(Status::NotRun);
    }
    ran
}

/// The top trees of keys, encoded or as seeds, of `len` bytes each.
fn top_trees<D: Device>(
    cuda: &Cuda<D>,
    p: &'static Params,
    (keys, len): (&[u8], usize),
    trees: &mut [u8],
    status: &mut [Status],
) -> BatchOutcome {
    let lanes = status.len();
    let fits = |lanes| Arrays::new(p, KEYGEN, lanes + CANARIES, 0, len).bytes <= cuda.slot_bytes();
    let sizes = pieces(lanes, largest_fit(lanes, fits), lanes_to_fill(p, KEYGEN));
    let (mut trees, mut statuses) = (Remaining::new(trees), Remaining::new(status));
    chunks(cuda, sizes, |guard, from, lanes| {
        let canary = SlhCanary::for_params(p).ok_or(Fault::NoMemory)?;
        let keys = &keys[from * len..(from + lanes) * len];
        let mut chunk = begin(guard, p, KEYGEN, (lanes, 1), 0, len)?;
        let at = Arrays::new(p, KEYGEN, lanes + 1, 0, len);
        chunk.send(at.keys, keys, &[&canary.sk[..len]])?;
        chunk.clear_status()?;
        chunk.launch(("begin", 1, PER_THREAD))?;
        chunk.arguments.count = 1;
        chunk.arguments.first = p.d - 1;
        hypertree(&mut chunk, p)?;
        chunk.launch(("finish", 1, PER_THREAD))?;
        chunk.expect(at.nodes, &[&canary.pk[p.n..]])?;
        chunk.fetch(at.nodes, trees.next(lanes * p.top_tree_len()))?;
        chunk.start(statuses.next(lanes), &[Status::Ok])
    })
}

fn sign<D: Device>(
    cuda: &Cuda<D>,
    p: &'static Params,
    (keys, messages, opt_rand): (&Keys<'_, SigningKey>, &[Message<'_>], Option<&[u8]>),
    sig: &mut [u8],
    status: &mut [Status],
) -> BatchOutcome {
    let sizes = sizes(cuda, p, SIGN, messages);
    let lanes = status.len();
    let root_len = (p.d as usize + 1) * p.n;
    // Known keys compare the signed roots and their trees.
    let is_known = matches!(keys, Keys::Known(_));
    let known = if is_known { lanes } else { 0 };
    let (mut roots, mut indices) = (vec![0; known * root_len], vec![0; known * INDICES * 4]);
    {
        let (mut sigs, mut statuses) = (Remaining::new(sig), Remaining::new(status));
        let (mut all_roots, mut all_indices) =
            (Remaining::new(&mut roots), Remaining::new(&mut indices));
        let ran = chunks(cuda, sizes, |guard, from, lanes| {
            let canary = SlhCanary::for_params(p).ok_or(Fault::NoMemory)?;
            let packed = PackedMessages::new(&messages[from..from + lanes], &canary.message, 1);
            let bytes = packed.bytes.len();
            let keys = KeyBytes::new(keys, from, lanes, p.sk_len(), |key| (key.id(), key.bytes()));
            let mut chunk = begin(guard, p, SIGN, (lanes, 1), bytes, p.sk_len())?;
            let at = Arrays::new(p, SIGN, lanes + 1, bytes, p.sk_len());
            chunk.send_keys(at.keys, &keys, &canary.sk)?;
            chunk.send_own(at.messages, packed.bytes)?;
            chunk.send_own(at.spans, packed.spans)?;
            match opt_rand {
                Some(all) => {
                    let own = &all[from * p.n..(from + lanes) * p.n];
                    // The deterministic variant.
                    chunk.send(at.opt_rand, own, &[&canary.pk[..p.n]])?;
                }
                None => chunk.arguments.opt_rand = 0,
            }
            chunk.clear_status()?;
            chunk.launch(("begin", 1, PER_THREAD))?;
            trees(&mut chunk, p, &at)?;
            if is_known {
                chunk.fetch(at.roots, all_roots.next(lanes * root_len))?;
                chunk.fetch(at.indices, all_indices.next(lanes * INDICES * 4))?;
            }
            walk(&mut chunk, p, &at)?;
            chunk.expect(at.sig, &[&canary.sig])?;
            chunk.fetch(at.sig, sigs.next(lanes * p.sig_len()))?;
            chunk.start(statuses.next(lanes), &[Status::Ok])
        });
        if ran != BatchOutcome::Done {
            return ran;
        }
    }
    settle(p, (keys, messages), (&roots, &indices), sig, status);
    BatchOutcome::Done
}

/// Clears the signatures of failed lanes: messages that can't be signed, faults, and roots that
/// differ from those that a known key signed before (`indices` gives their trees).
fn settle(
    p: &Params,
    (keys, messages): (&Keys<'_, SigningKey>, &[Message<'_>]),
    (roots, indices): (&[u8], &[u8]),
    sig: &mut [u8],
    status: &mut [Status],
) {
    let root_len = (p.d as usize + 1) * p.n;
    let outputs = sig.chunks_exact_mut(p.sig_len()).zip(messages);
    for (lane, ((sig, message), status)) in outputs.zip(&mut *status).enumerate() {
        if !is_signable(message) {
            *status = Status::InvalidInput;
        } else if *status == Status::InvalidSignature {
            *status = Status::Fault;
        } else if let Keys::Known(keys) = keys {
            let roots = &roots[lane * root_len + p.n..(lane + 1) * root_len];
            let word = |at| -> u64 {
                let bytes = &indices[4 * (lane * INDICES + at)..][..4];
                u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]).into()
            };
            if !status.is_ok() || !keys[lane].holds(word(TREE) | word(TREE + 1) << 32, roots) {
                *status = Status::Fault;
            }
        }
        if !status.is_ok() {
            ct::wipe(sig);
        }
    }
}

fn verify<D: Device>(
    cuda: &Cuda<D>,
    p: &'static Params,
    keys: &Keys<'_, gabion_scheme::slh_dsa::VerifyKey>,
    messages: &[Message<'_>],
    sig: &[u8],
    status: &mut [Status],
) -> BatchOutcome {
    let sizes = sizes(cuda, p, VERIFY, messages);
    let mut statuses = Remaining::new(status);
    let ran = chunks(cuda, sizes, |guard, from, lanes| {
        let canary = SlhCanary::for_params(p).ok_or(Fault::NoMemory)?;
        let packed = PackedMessages::new(&messages[from..from + lanes], &canary.message, CANARIES);
        let bytes = packed.bytes.len();
        let keys = KeyBytes::new(keys, from, lanes, p.pk_len(), |key| (key.id(), key.bytes()));
        let mut chunk = begin(guard, p, VERIFY, (lanes, CANARIES), bytes, p.pk_len())?;
        let at = Arrays::new(p, VERIFY, lanes + CANARIES, bytes, p.pk_len());
        chunk.send_keys(at.keys, &keys, &canary.pk)?;
        chunk.send_own(at.messages, packed.bytes)?;
        chunk.send_own(at.spans, packed.spans)?;
        let sig = &sig[from * p.sig_len()..(from + lanes) * p.sig_len()];
        chunk.send(at.sig, sig, &[&canary.sig, &canary.bad_sig])?;
        chunk.clear_status()?;
        chunk.launch(("begin", 1, PER_THREAD))?;
        walk(&mut chunk, p, &at)?;
        chunk.start(statuses.next(lanes), &[Status::Ok, Status::InvalidSignature])
    });
    if ran == BatchOutcome::Done {
        for (status, message) in status.iter_mut().zip(messages) {
            if !is_signable(message) {
                *status = Status::InvalidInput;
            }
        }
    }
    ran
}

/// The trees of FORS, then those of the hypertree, and the WOTS+ signatures in between.
fn trees<D: Device>(
    chunk: &mut Chunk<'_, '_, D, SlhArguments>,
    p: &Params,
    at: &Arrays,
) -> Result<(), Fault> {
    let len = p.wots_chains() as u32;
    let n = chunk.lanes + chunk.canaries;
    let room = chunk.guard.room(at.nodes.offset) / n;
    let of_group = |each: usize, all: usize| (room.saturating_sub(ALIGNED) / each).clamp(1, all);

    let group = of_group(p.n * ((2 << p.a) - 1), p.k);
    chunk.arguments.kind = FORS;
    for first in (0..p.k).step_by(group) {
        let count = group.min(p.k - first) as u32;
        (chunk.arguments.first, chunk.arguments.count) = (first as u32, count);
        chunk.launch(("fors_leaves", count << p.a, PER_THREAD))?;
        levels(chunk, p.a)?;
    }
    chunk.launch(("compress", 1, PER_THREAD))?;

    let group = of_group(Arrays::layer_len(p), p.d as usize);
    for first in (0..p.d).step_by(group) {
        let count = (group as u32).min(p.d - first);
        (chunk.arguments.first, chunk.arguments.count) = (first, count);
        // One after the other, where the nodes of FORS were.
        let nodes = n * count as usize * p.top_tree_len();
        let ends = n * ((count as usize) << p.h_prime) * p.wots_chains() * p.n;
        let begin = chunk.arguments.nodes;
        chunk.arguments.ends = begin + nodes.next_multiple_of(16) as u64;
        chunk.arguments.table = chunk.arguments.ends + ends.next_multiple_of(16) as u64;
        hypertree(chunk, p)?;
        chunk.launch(("reveal", count * len, PER_THREAD))?;
    }
    Ok(())
}

/// The bytes of an operation's space that rounding addresses up takes at most.
const ALIGNED: usize = 64;

/// The trees of a group of layers.
fn hypertree<D: Device>(
    chunk: &mut Chunk<'_, '_, D, SlhArguments>,
    p: &Params,
) -> Result<(), Fault> {
    let leaves = chunk.arguments.count << p.h_prime;
    chunk.arguments.kind = HYPERTREE;
    chunk.launch(("chains", leaves * p.wots_chains() as u32, PER_THREAD))?;
    chunk.launch(("compress", leaves, PER_THREAD))?;
    levels(chunk, p.h_prime)
}

/// Hashes from leaves to roots.
fn levels<D: Device>(chunk: &mut Chunk<'_, '_, D, SlhArguments>, height: u32) -> Result<(), Fault> {
    for level in 1..=height {
        chunk.arguments.level = level;
        chunk.launch(("level", chunk.arguments.count << (height - level), PER_THREAD))?;
    }
    Ok(())
}

/// Walks from signatures to verdicts.
fn walk<D: Device>(
    chunk: &mut Chunk<'_, '_, D, SlhArguments>,
    p: &Params,
    at: &Arrays,
) -> Result<(), Fault> {
    chunk.arguments.ends = chunk.guard.address(at.nodes.offset);
    chunk.arguments.kind = WALK;
    chunk.launch(("walk_fors", p.k as u32, PER_THREAD))?;
    chunk.launch(("compress", 1, PER_THREAD))?;
    for layer in 0..p.d {
        chunk.arguments.first = layer;
        chunk.launch(("walk_layer", 1, chunk.arguments.of_walk))?;
    }
    chunk.launch(("finish", 1, PER_THREAD))
}

fn is_signable(message: &Message<'_>) -> bool {
    message.check().is_ok() && !matches!(message, Message::Mu(_))
}

/// Calls `each` with the pieces of M', but not for a malformed message, which is rejected whatever
/// the device returns.
fn each_part(message: &Message<'_>, each: impl FnMut(&[u8])) {
    if is_signable(message) {
        Header::new(message).formatted(message).into_iter().for_each(each);
    }
}

/// A chunk's messages, packed for the kernels: M' one after the other, and where each is.
struct PackedMessages {
    bytes: Vec<u8>,
    spans: Vec<u8>,
}

impl PackedMessages {
    fn new(messages: &[Message<'_>], canary: &[u8], canaries: usize) -> Self {
        let mut packed = PackedMessages { bytes: Vec::new(), spans: Vec::new() };
        messages.iter().for_each(|message| packed.push(message));
        let own = Message::Pure { context: &[], message: canary };
        (0..canaries).for_each(|_| packed.push(&own));
        packed
    }

    fn push(&mut self, message: &Message<'_>) {
        let begin = self.bytes.len() as u64;
        each_part(message, |part| self.bytes.extend_from_slice(part));
        let length = self.bytes.len() as u64 - begin;
        self.spans.extend_from_slice(&begin.to_le_bytes());
        self.spans.extend_from_slice(&length.to_le_bytes());
    }
}

/// Lanes of each chunk, so that arrays and messages of a chunk fit into a slot; none if those of one lane don't.
fn sizes<D: Device>(
    cuda: &Cuda<D>,
    p: &'static Params,
    task: u32,
    messages: &[Message<'_>],
) -> Option<Vec<usize>> {
    if messages.is_empty() {
        return Some(Vec::new());
    }
    let canary = CANARIES * (SlhCanary::MESSAGE.len() + 2);
    let key_len = if task == VERIFY { p.pk_len() } else { p.sk_len() };
    let fits = |lanes: usize, bytes: usize| {
        Arrays::new(p, task, lanes + CANARIES, bytes, key_len).bytes <= cuda.slot_bytes()
    };
    let fit = largest_fit(messages.len(), |lanes| fits(lanes, canary));
    let even = pieces(messages.len(), fit, lanes_to_fill(p, task))?.first().copied()?;
    let mut sizes = Vec::new();
    let (mut lanes, mut bytes) = (0, canary);
    for message in messages {
        let mut len = 0;
        each_part(message, |part| len += part.len());
        if lanes > 0 && (lanes == even || !fits(lanes + 1, bytes + len)) {
            sizes.push(lanes);
            (lanes, bytes) = (0, canary);
        }
        (lanes, bytes) = (lanes + 1, bytes + len);
        if len > MESSAGE_MAX || !fits(lanes, bytes) {
            return None;
        }
    }
    sizes.push(lanes);
    Some(sizes)
}

/// The arrays of an operation; unused ones are empty. The working memory of trees comes last, with
/// space for one tree at a time; the rest of the slot provides more.
struct Arrays {
    keys: Region,
    opt_rand: Region,
    messages: Region,
    spans: Region,
    context: Region,
    room: Region,
    indices: Region,
    roots: Region,
    fors_roots: Region,
    walk: Region,
    status: Region,
    sig: Region,
    nodes: Region,
    bytes: usize,
    tails: Vec<Region>,
}

impl Arrays {
    fn new(p: &Params, task: u32, n: usize, message_bytes: usize, key_len: usize) -> Self {
        let mut layout = Layout::default();
        let of = |is_needed: bool| if is_needed { n } else { 0 };
        let (signs, keygen) = (task == SIGN, task == KEYGEN);
        let work = match task {
            KEYGEN => p.top_tree_len(),
            SIGN => ALIGNED + (p.n * ((2 << p.a) - 1)).max(Self::layer_len(p)),
            _ => p.wots_chains() * p.n,
        };
        let mut arrays = Arrays {
            keys: layout.array(n, key_len),
            opt_rand: layout.array(of(signs), p.n),
            messages: layout.array(usize::from(!keygen), message_bytes),
            spans: layout.array(of(!keygen), 2 * size_of::<u64>()),
            context: layout.array(n, 96),
            room: layout.array(of(!keygen), ROOM),
            indices: layout.array(n, INDICES * size_of::<u32>()),
            roots: layout.array(n, (p.d as usize + 1) * p.n),
            fors_roots: layout.array(of(!keygen), p.k * p.n),
            walk: layout.array(of(!keygen), p.n),
            status: layout.array(n, size_of::<u32>()),
            sig: layout.array(of(!keygen), p.sig_len()),
            nodes: layout.array(n, work),
            bytes: 0,
            tails: Vec::new(),
        };
        if keygen {
            layout.array(n, Self::ends_len(p));
        }
        (arrays.bytes, arrays.tails) = (layout.bytes(), layout.tails());
        arrays
    }

    /// Bytes of the ends of all chains of a tree.
    fn ends_len(p: &Params) -> usize {
        (p.wots_chains() * p.n) << p.h_prime
    }

    /// Returns the working memory of a layer of an operation: nodes, ends of chains, and the chains
    /// that sign.
    fn layer_len(p: &Params) -> usize {
        p.top_tree_len() + Self::ends_len(p) + p.wots_chains() * CHAIN * p.n
    }
}

/// Returns how a parameter set's hash functions are called in the kernels' names.
fn set_name(p: &Params) -> &'static str {
    use Algorithm::*;
    match p.algorithm {
        SlhDsaSha2_128s | SlhDsaSha2_128f => "slh_sha2_128",
        SlhDsaSha2_192s | SlhDsaSha2_192f => "slh_sha2_192",
        SlhDsaSha2_256s | SlhDsaSha2_256f => "slh_sha2_256",
        SlhDsaShake128s | SlhDsaShake128f => "slh_shake_128",
        SlhDsaShake192s | SlhDsaShake192f => "slh_shake_192",
        _ => "slh_shake_256",
    }
}

/// Lays out the arrays for `lanes` lanes and the canaries after them; `key_len` bytes a key.
fn begin<'t, 'a, D: Device>(
    guard: &'t mut SlotGuard<'a, D>,
    p: &Params,
    task: u32,
    (lanes, canaries): (usize, usize),
    message_bytes: usize,
    key_len: usize,
) -> Result<Chunk<'t, 'a, D, SlhArguments>, Fault> {
    let n = lanes + canaries;
    let arrays = Arrays::new(p, task, n, message_bytes, key_len);
    // Signing takes what trees can use of the rest, too.
    let all = match task {
        SIGN => {
            let most = (p.k * p.n * ((2 << p.a) - 1)).max(p.d as usize * Arrays::layer_len(p));
            let wanted = arrays.nodes.offset + n * (most + ALIGNED);
            arrays.bytes.max(wanted.min(guard.slot_bytes()))
        }
        _ => arrays.bytes,
    };
    // Of verification everything is public; of the rest everything is cleared afterwards.
    match task {
        VERIFY => guard.reserve(all, 0, &arrays.tails)?,
        _ => guard.reserve(all, all, &[])?,
    }
    let at = |place: Region| guard.address(place.offset);
    let arguments = SlhArguments {
        keys: at(arrays.keys),
        opt_rand: at(arrays.opt_rand),
        messages: at(arrays.messages),
        spans: at(arrays.spans),
        sig: at(arrays.sig),
        context: at(arrays.context),
        room: at(arrays.room),
        indices: at(arrays.indices),
        roots: at(arrays.roots),
        fors_roots: at(arrays.fors_roots),
        nodes: at(arrays.nodes),
        ends: guard.address(arrays.nodes.offset + arrays.nodes.bytes.next_multiple_of(256)),
        table: 0,
        walk: at(arrays.walk),
        status: at(arrays.status),
        n: n as u32,
        generation: guard.generation(),
        task,
        key_stride: key_len as u32,
        pk_offset: if task == VERIFY { 0 } else { 2 * p.n as u32 },
        d: p.d,
        h_prime: p.h_prime,
        a: p.a,
        k: p.k as u32,
        of_walk: (n as u32 / BLOCKS).clamp(1, OF_WALK),
        ..SlhArguments::default()
    };
    let (set, status, answers) = (set_name(p), arrays.status, Vec::new());
    Ok(Chunk { guard, set, arguments, lanes, canaries, status, answers })
}
