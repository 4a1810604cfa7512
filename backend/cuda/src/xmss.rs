//! XMSS and XMSS^MT on a device: nodes of a tree that is made, and verification.
//!
//! A signature whose form is wrong is refused here. The others run together with those of their hash function and n,
//! whatever their heights and layers.

use gabion_backend::{BatchOutcome, Xmss};
use gabion_scheme::Status;
use gabion_scheme::kernels::xmss::{XmssFamily, domain, prefix};
use gabion_scheme::xmss::{Nodes, Scheme, Set, VerifyKey, index_of};

use crate::arguments::XmssArguments;
use crate::chunk::{Chunk, Remaining, chunks, pieces};
use crate::cuda::Cuda;
use crate::device::{Device, Fault};
use crate::hbs::{
    CANARIES, Frame, NODE_CANARIES, XmssLeaf, XmssSigned, by_kind, fly_nodes, nodes_that_fit,
    send_all, sizes,
};
use crate::layout::{Layout, Region};
use crate::slots::SlotGuard;

/// Bytes of an `XmssLane` of `kernels/xmss.cuh`.
const LANE: usize = 40;
/// Bytes of two states of SHA-256, and of the value that a layer signs.
const STATES: usize = 64;
const SIGNED: usize = 64;
/// Leaves of a chunk of nodes that are enough to fill a device, 51 chains or more each.
const LEAVES_ENOUGH: usize = 1 << 13;

/// Runs a checked batch.
pub(crate) fn run<D: Device>(
    cuda: &Cuda<D>,
    xmss: &mut Xmss<'_>,
    status: &mut [Status],
) -> BatchOutcome {
    let ran = match xmss {
        Xmss::Verify { scheme, keys, messages, signatures } => {
            verify(cuda, *scheme, (keys, messages, signatures), status)
        }
        Xmss::Nodes { piece, .. } => {
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
fn name(set: &Set) -> &'static str {
    match (set.family, set.n) {
        (XmssFamily::Sha256, 24) => "xmss_sha256_n24",
        (XmssFamily::Sha256, _) => "xmss_sha256_n32",
        (XmssFamily::Sha512, _) => "xmss_sha512_n64",
        (XmssFamily::Shake128, _) => "xmss_shake128_n32",
        (XmssFamily::Shake256, 24) => "xmss_shake256_n24",
        (XmssFamily::Shake256, 32) => "xmss_shake256_n32",
        (XmssFamily::Shake256, _) => "xmss_shake256_n64",
    }
}

/// The arrays of an operation; unused ones are empty.
#[derive(Default)]
struct Arrays {
    secrets: Region,
    states: Region,
    values: Region,
    keys: Region,
    input: Region,
    lanes: Region,
    signed: Region,
    out: Region,
    frame: Frame,
}

impl Arrays {
    /// Lays them out for nodes of that height, including the canary's.
    fn of_nodes(set: &Set, n: usize, low: u32) -> Self {
        let mut layout = Layout::default();
        let leaves = ((n - NODE_CANARIES) << low) + NODE_CANARIES;
        let mut arrays = Arrays {
            secrets: layout.array(2, set.n),
            states: layout.array(2, STATES),
            values: layout.array(leaves, set.chains() * set.n),
            ..Arrays::default()
        };
        layout.secrets_end();
        arrays.keys = layout.array(2, 2 * set.n);
        arrays.out = layout.array(n, set.n);
        Arrays { frame: Frame::new(layout, n), ..arrays }
    }

    /// Lays them out for signatures with so many bytes of input in total.
    fn of_signatures(set: &Set, n: usize, input: usize) -> Self {
        let mut layout = Layout::default();
        let arrays = Arrays {
            keys: layout.array(n, 2 * set.n),
            input: layout.array(1, input),
            lanes: layout.array(n, LANE),
            states: layout.array(n, STATES),
            signed: layout.array(n, SIGNED),
            values: layout.array(n, set.chains() * set.n),
            ..Arrays::default()
        };
        Arrays { frame: Frame::new(layout, n), ..arrays }
    }

    /// A chunk over them, for so many lanes and canaries.
    fn chunk<'t, 'a, D: Device>(
        &self,
        guard: &'t mut SlotGuard<'a, D>,
        set: &Set,
        operations: (usize, usize),
    ) -> Result<Chunk<'t, 'a, D, XmssArguments>, Fault> {
        self.frame.chunk(guard, name(set), operations, |at| XmssArguments {
            keys: at(self.keys),
            secrets: at(self.secrets),
            input: at(self.input),
            lanes: at(self.lanes),
            states: at(self.states),
            signed: at(self.signed),
            values: at(self.values),
            out: at(self.out),
            ..XmssArguments::default()
        })
    }
}

/// Compresses one-time keys, so many of them: level by level, as long as there are pairs.
fn l_trees<D: Device>(
    chunk: &mut Chunk<'_, '_, D, XmssArguments>,
    set: &Set,
    leaves: usize,
) -> Result<(), Fault> {
    let mut count = set.chains();
    chunk.arguments.level = 0;
    while count > 1 {
        chunk.launch_jobs("l_tree", leaves * (count / 2))?;
        chunk.arguments.level += 1;
        count = count.div_ceil(2);
    }
    Ok(())
}

// --- Nodes ----------------------------------------------------------------------------------------------------------

/// Makes neighbouring nodes of a row.
fn nodes<D: Device>(cuda: &Cuda<D>, job: Nodes<'_>, status: &mut [Status]) -> BatchOutcome {
    let Nodes { set, seed, secret, layer, tree, low, first, output } = job;
    if !set.can_sign() {
        return BatchOutcome::Declined;
    }
    let bytes = |nodes: usize| Arrays::of_nodes(set, nodes + NODE_CANARIES, low).frame.bytes;
    let fit = nodes_that_fit(bytes, cuda.slot_bytes(), set.chains() << low);
    let sizes = pieces(status.len(), fit, LEAVES_ENOUGH.div_ceil(1 << low));
    let (mut outputs, mut statuses) = (Remaining::new(output), Remaining::new(status));
    chunks(cuda, sizes, |guard, from, nodes| {
        let canary = XmssLeaf::for_set(set).ok_or(Fault::NoMemory)?;
        let at = Arrays::of_nodes(set, nodes + NODE_CANARIES, low);
        let mut chunk = at.chunk(guard, set, (nodes, NODE_CANARIES))?;
        let arguments = &mut chunk.arguments;
        (arguments.layer, arguments.tree, arguments.low) = (layer, tree, low);
        arguments.first = (first + from as u32) << low;
        chunk.send(at.secrets, secret, &[&canary.secret])?;
        // The root is not used.
        chunk.send_own(at.keys, [&vec![0; set.n], seed, &canary.key].concat())?;
        chunk.clear_status()?;
        let leaves = (nodes << low) + NODE_CANARIES;
        chunk.launch_jobs("begin", 2)?;
        for step in ["secrets", "chains"] {
            chunk.launch_jobs(step, leaves * set.chains())?;
        }
        l_trees(&mut chunk, set, leaves)?;
        let out = (outputs.next(nodes * set.n), statuses.next(nodes));
        fly_nodes(chunk, low, (at.out, &canary.node(low)), out)
    })
}

// --- Signatures -----------------------------------------------------------------------------------------------------

/// A well-formed signature with its key and message.
struct WellFormedSignature<'a> {
    lane: usize,
    set: &'static Set,
    /// The encoding of the key.
    key: &'a [u8],
    message: &'a [u8],
    signature: &'a [u8],
    index: u64,
}

impl<'a> WellFormedSignature<'a> {
    fn new(
        lane: usize,
        key: &'a VerifyKey,
        message: &'a [u8],
        signature: &'a [u8],
    ) -> Option<Self> {
        let set = key.set()?;
        let index = index_of(set, signature)?;
        Some(WellFormedSignature { lane, set, key: key.bytes(), message, signature, index })
    }

    /// Bytes of it and of the message of H_msg among the inputs.
    fn input_len(&self) -> usize {
        let Set { n, .. } = *self.set;
        self.signature.len() + prefix(domain::H_MSG, n).len() + 3 * n + self.message.len()
    }
}

/// A chunk's signatures, packed for the kernels.
#[derive(Default)]
struct PackedSignatures {
    keys: Vec<u8>,
    input: Vec<u8>,
    lanes: Vec<u8>,
}

impl PackedSignatures {
    fn push(&mut self, signed: &WellFormedSignature<'_>) {
        let WellFormedSignature { set, key, message, signature, index, .. } = *signed;
        let n = set.n;
        self.keys.extend_from_slice(&key[4..]);
        let layers = self.input.len() + set.index_len() + n;
        self.input.extend_from_slice(signature);
        // toByte(2, padding) || r || root || toByte(index, n) || message (RFC 8391, section 4.1.9).
        let begin = self.input.len();
        let (randomizer, root) = (&signature[set.index_len()..][..n], &key[4..4 + n]);
        for part in [prefix(domain::H_MSG, n), randomizer, root, &vec![0; n - 8]] {
            self.input.extend_from_slice(part);
        }
        self.input.extend_from_slice(&index.to_be_bytes());
        self.input.extend_from_slice(message);
        let length = (self.input.len() - begin) as u32;
        for word in [index, layers as u64, begin as u64] {
            self.lanes.extend_from_slice(&word.to_le_bytes());
        }
        for word in [length, set.tree_height(), set.d, 0] {
            self.lanes.extend_from_slice(&word.to_le_bytes());
        }
    }
}

/// Verifies signatures of any form.
fn verify<D: Device>(
    cuda: &Cuda<D>,
    scheme: Scheme,
    (keys, messages, signatures): (&[&VerifyKey], &[&[u8]], &[&[u8]]),
    status: &mut [Status],
) -> BatchOutcome {
    status.fill(Status::InvalidSignature);
    let lanes = keys.iter().zip(messages).zip(signatures).enumerate();
    let signed = lanes.filter_map(|(lane, ((key, message), signature))| {
        WellFormedSignature::new(lane, key, message, signature)
    });
    let mut signed: Vec<_> = signed.collect();
    by_kind(
        &mut signed,
        |signed| (signed.set.family, signed.set.n),
        |group, verdicts| verify_group(cuda, scheme, group, verdicts),
        |signed, verdict| status[signed.lane] = verdict,
    )
}

/// Verifies signatures of one hash function and n.
fn verify_group<D: Device>(
    cuda: &Cuda<D>,
    scheme: Scheme,
    group: &[WellFormedSignature<'_>],
    verdicts: &mut [Status],
) -> BatchOutcome {
    let Some(set) = group.first().map(|signed| signed.set) else { return BatchOutcome::Done };
    let Some(canary) = XmssSigned::for_set(scheme, set) else { return BatchOutcome::Declined };
    let own = canary
        .signatures
        .each_ref()
        .map(|signature| WellFormedSignature::new(0, &canary.key, canary.message, signature));
    let [Some(good), Some(bad)] = own else { return BatchOutcome::Declined };
    let own = good.input_len() + bad.input_len();
    let fits = |count, bytes| {
        Arrays::of_signatures(set, count + CANARIES, bytes + own).frame.bytes <= cuda.slot_bytes()
    };
    let sizes = sizes(group.iter().map(WellFormedSignature::input_len), fits);
    let mut statuses = Remaining::new(verdicts);
    chunks(cuda, sizes, |guard, from, lanes| {
        let mut packed = PackedSignatures::default();
        let all = group[from..from + lanes].iter().chain([&good, &bad]);
        all.clone().for_each(|signed| packed.push(signed));
        let depth = all.map(|signed| signed.set.d).max().unwrap_or(0);
        let n = lanes + CANARIES;
        let at = Arrays::of_signatures(set, n, packed.input.len());
        let mut chunk = at.chunk(guard, set, (lanes, CANARIES))?;
        let PackedSignatures { keys, input, lanes: packed } = packed;
        send_all(&mut chunk, [(at.keys, keys), (at.input, input), (at.lanes, packed)])?;
        chunk.launch_jobs("begin", n)?;
        for layer in 0..depth {
            chunk.arguments.layer = layer;
            chunk.launch_jobs("chains", n * set.chains())?;
            l_trees(&mut chunk, set, n)?;
            chunk.launch_jobs("climb", n)?;
        }
        chunk.launch_jobs("check", n)?;
        chunk.start(statuses.next(lanes), &[Status::Ok, Status::InvalidSignature])
    })
}
