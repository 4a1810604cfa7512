//! LMS and HSS on a device: nodes of a tree that is made, and verification.
//!
//! A signature of HSS contains one LMS signature per level, none of which waits for another: each
//! is a separate operation, and the signature is valid if all of them are. Operations with the same
//! set of one-time signatures run together, whatever the heights of their trees.

use gabion_backend::{BatchOutcome, Hss};
use gabion_scheme::Status;
use gabion_scheme::kernels::lms::{D_MESG, prefix};
use gabion_scheme::lms::{LmOts, LmsFamily, Nodes, Part, VerifyKey, parts};

use crate::arguments::LmsArguments;
use crate::chunk::{Chunk, InFlight, Remaining, chunks, pieces};
use crate::cuda::Cuda;
use crate::device::{Device, Fault};
use crate::hbs::{
    CANARIES, Frame, LmsLeaf, LmsSigned, NODE_CANARIES, by_kind, fly_nodes, nodes_that_fit,
    send_all, sizes,
};
use crate::layout::{Layout, Region};
use crate::slots::SlotGuard;

/// Bytes of an `LmsPart` of `kernels/lms.cuh`, and of Q and its checksum.
const PART: usize = 40;
const DIGEST: usize = 64;
/// Chains of a chunk of nodes that are enough to fill a device.
const CHAINS_ENOUGH: usize = 1 << 19;

/// Runs a checked batch.
pub(crate) fn run<D: Device>(
    cuda: &Cuda<D>,
    hss: &mut Hss<'_>,
    status: &mut [Status],
) -> BatchOutcome {
    let ran = match hss {
        Hss::Verify { keys, messages, signatures } => {
            verify(cuda, (keys, messages, signatures), status)
        }
        Hss::Nodes { piece } => {
            let ran = nodes(cuda, piece.job(), status);
            if ran != BatchOutcome::Done {
                (0..piece.nodes()).for_each(|node| piece.clear(node));
            }
            ran
        }
    };
    if ran != BatchOutcome::Done {
        status.fill(Status::NotRun);
    }
    ran
}

/// Returns how a hash function and n are called in the kernels' names.
fn name(ots: &LmOts) -> &'static str {
    match (ots.family, ots.n) {
        (LmsFamily::Sha256, 24) => "lms_sha256_n24",
        (LmsFamily::Sha256, _) => "lms_sha256_n32",
        (LmsFamily::Shake256, 24) => "lms_shake256_n24",
        (LmsFamily::Shake256, _) => "lms_shake256_n32",
    }
}

/// The arrays of an operation; unused ones are empty.
#[derive(Default)]
struct Arrays {
    keys: Region,
    values: Region,
    nodes: Region,
    input: Region,
    parts: Region,
    digests: Region,
    out: Region,
    frame: Frame,
}

impl Arrays {
    /// Lays them out for nodes of that height, including the canary's.
    fn of_nodes(ots: &LmOts, n: usize, low: u32) -> Self {
        let mut layout = Layout::default();
        let leaves = ((n - NODE_CANARIES) << low) + NODE_CANARIES;
        let mut arrays = Arrays {
            keys: layout.array(2, 16 + ots.n),
            values: layout.array(leaves, ots.chains() * ots.n),
            ..Arrays::default()
        };
        layout.secrets_end();
        arrays.nodes = layout.array(leaves, ots.n);
        arrays.out = layout.array(n, ots.n);
        Arrays { frame: Frame::new(layout, n), ..arrays }
    }

    /// Lays them out for parts with so many bytes of input in total.
    fn of_parts(ots: &LmOts, n: usize, input: usize) -> Self {
        let mut layout = Layout::default();
        let arrays = Arrays {
            keys: layout.array(n, 16 + ots.n),
            input: layout.array(1, input),
            parts: layout.array(n, PART),
            digests: layout.array(n, DIGEST),
            values: layout.array(n, ots.chains() * ots.n),
            nodes: layout.array(n, ots.n),
            ..Arrays::default()
        };
        Arrays { frame: Frame::new(layout, n), ..arrays }
    }

    /// A chunk over them, for so many lanes and canaries.
    fn chunk<'t, 'a, D: Device>(
        &self,
        guard: &'t mut SlotGuard<'a, D>,
        ots: &LmOts,
        operations: (usize, usize),
    ) -> Result<Chunk<'t, 'a, D, LmsArguments>, Fault> {
        self.frame.chunk(guard, name(ots), operations, |at| LmsArguments {
            keys: at(self.keys),
            input: at(self.input),
            parts: at(self.parts),
            digests: at(self.digests),
            values: at(self.values),
            nodes: at(self.nodes),
            out: at(self.out),
            w: ots.w,
            chains: ots.chains() as u32,
            shift: ots.shift(),
            ..LmsArguments::default()
        })
    }
}

// --- Nodes ----------------------------------------------------------------------------------------------------------

/// Makes neighbouring nodes of a row.
fn nodes<D: Device>(cuda: &Cuda<D>, job: Nodes<'_>, status: &mut [Status]) -> BatchOutcome {
    let Nodes { lms, ots, id, seed, low, first, output } = job;
    let bytes = |nodes: usize| Arrays::of_nodes(ots, nodes + NODE_CANARIES, low).frame.bytes;
    let fit = nodes_that_fit(bytes, cuda.slot_bytes(), ots.chains() << low);
    let sizes = pieces(status.len(), fit, CHAINS_ENOUGH.div_ceil(ots.chains() << low));
    let (mut outputs, mut statuses) = (Remaining::new(output), Remaining::new(status));
    chunks(cuda, sizes, |guard, from, nodes| {
        let canary = LmsLeaf::for_set(ots).ok_or(Fault::NoMemory)?;
        let at = Arrays::of_nodes(ots, nodes + NODE_CANARIES, low);
        let mut chunk = at.chunk(guard, ots, (nodes, NODE_CANARIES))?;
        chunk.arguments.low = low;
        chunk.arguments.first = (first + from as u32) << low;
        chunk.arguments.base = 1 << lms.h;
        // In one allocation from the start: what grows leaves copies behind.
        chunk.send_own(at.keys, [&id[..], seed, &canary.key].concat())?;
        chunk.clear_status()?;
        let leaves = (nodes << low) + NODE_CANARIES;
        chunk.launch_jobs("chains", leaves * ots.chains())?;
        chunk.launch_jobs("leaf", leaves)?;
        let out = (outputs.next(nodes * ots.n), statuses.next(nodes));
        fly_nodes(chunk, low, (at.out, &canary.node(low)), out)
    })
}

// --- Signatures -----------------------------------------------------------------------------------------------------

/// Returns the length of a part's inputs: values, path, and the message of its digest.
fn input_len(part: &Part<'_>) -> usize {
    part.values.len()
        + part.path.len()
        + prefix(part.public.id, part.q, D_MESG).len()
        + part.randomizer.len()
        + part.message.len()
}

/// A chunk's parts, packed for the kernels.
#[derive(Default)]
struct PackedParts {
    keys: Vec<u8>,
    input: Vec<u8>,
    parts: Vec<u8>,
}

impl PackedParts {
    fn push(&mut self, part: &Part<'_>) {
        let Part { public, q, randomizer, values, path, message } = *part;
        self.keys.extend_from_slice(public.id);
        self.keys.extend_from_slice(public.root);
        let values_at = self.input.len();
        let path_at = values_at + values.len();
        let begin = path_at + path.len();
        // I || u32str(q) || u16str(D_MESG) || C || message (RFC 8554, Algorithm 4b).
        for bytes in [values, path, &prefix(public.id, q, D_MESG), randomizer, message] {
            self.input.extend_from_slice(bytes);
        }
        let length = (self.input.len() - begin) as u32;
        for word in [values_at, path_at, begin] {
            self.parts.extend_from_slice(&(word as u64).to_le_bytes());
        }
        for word in [length, q, public.lms.h, 0] {
            self.parts.extend_from_slice(&word.to_le_bytes());
        }
    }
}

/// Verifies signatures of any form.
fn verify<D: Device>(
    cuda: &Cuda<D>,
    (keys, messages, signatures): (&[&VerifyKey], &[&[u8]], &[&[u8]]),
    status: &mut [Status],
) -> BatchOutcome {
    status.fill(Status::InvalidSignature);
    let mut all = Vec::new();
    let lanes = keys.iter().zip(messages).zip(signatures).zip(&mut *status).enumerate();
    for (lane, (((key, message), signature), status)) in lanes {
        if let Some(parts) = parts(key, message, signature) {
            *status = Status::Ok;
            all.extend(parts.into_iter().map(|part| (lane, part)));
        }
    }
    by_kind(
        &mut all,
        |(_, part)| part.public.ots.typecode,
        |group, verdicts| verify_group(cuda, group, verdicts),
        |(lane, _), verdict| {
            if !verdict.is_ok() {
                status[*lane] = verdict;
            }
        },
    )
}

/// Verifies parts of one set of one-time signatures.
fn verify_group<D: Device>(
    cuda: &Cuda<D>,
    group: &[(usize, Part<'_>)],
    verdicts: &mut [Status],
) -> BatchOutcome {
    let Some(ots) = group.first().map(|(_, part)| part.public.ots) else {
        return BatchOutcome::Done;
    };
    let Some(canary) = LmsSigned::for_set(ots) else { return BatchOutcome::Declined };
    let own = canary.signatures.each_ref().map(|signature| {
        parts(&canary.key, canary.message, signature).and_then(|parts| parts.into_iter().next())
    });
    let [Some(good), Some(bad)] = own else { return BatchOutcome::Declined };
    let own = input_len(&good) + input_len(&bad);
    let fits = |count, bytes| {
        Arrays::of_parts(ots, count + CANARIES, bytes + own).frame.bytes <= cuda.slot_bytes()
    };
    let sizes = sizes(group.iter().map(|(_, part)| input_len(part)), fits);
    let mut statuses = Remaining::new(verdicts);
    chunks(cuda, sizes, |guard, from, lanes| {
        verify_chunk(guard, ots, &group[from..from + lanes], [&good, &bad], statuses.next(lanes))
    })
}

/// Begins a chunk of parts, followed by the canary's.
fn verify_chunk<'a, D: Device>(
    guard: &mut SlotGuard<'a, D>,
    ots: &LmOts,
    group: &[(usize, Part<'_>)],
    own: [&Part<'_>; CANARIES],
    verdicts: &'a mut [Status],
) -> Result<InFlight<'a, D>, Fault> {
    let mut packed = PackedParts::default();
    group.iter().map(|(_, part)| part).chain(own).for_each(|part| packed.push(part));
    let n = group.len() + CANARIES;
    let at = Arrays::of_parts(ots, group.len() + CANARIES, packed.input.len());
    let mut chunk = at.chunk(guard, ots, (group.len(), CANARIES))?;
    let PackedParts { keys, input, parts } = packed;
    send_all(&mut chunk, [(at.keys, keys), (at.input, input), (at.parts, parts)])?;
    chunk.launch_jobs("digest", n)?;
    chunk.launch_jobs("chains", n * ots.chains())?;
    chunk.launch_jobs("leaf", n)?;
    chunk.launch_jobs("climb", n)?;
    chunk.start(verdicts, &[Status::Ok, Status::InvalidSignature])
}
