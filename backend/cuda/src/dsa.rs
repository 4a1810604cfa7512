//! Verification of ML-DSA on a device.
//!
//! The canary is two lanes: a good signature, and one that is not.

use gabion_backend::{Dsa, Ran};
use gabion_scheme::Status;
use gabion_scheme::algorithms::Algorithm;
use gabion_scheme::message::{Header, Message};
use gabion_scheme::ml_dsa::{MU_LEN, Params};

use crate::arguments::DsaArguments;
use crate::canary::DsaCanary;
use crate::chunk::{Chunk, Flying, KeyBytes, PER_THREAD, PER_WARP, Rest, chunks};
use crate::cuda::Cuda;
use crate::device::{Device, Fault};
use crate::layout::{Layout, Place};
use crate::slots::Taken;

/// Bytes of a polynomial.
const POLY: usize = 1024;
/// Bytes of a block of SHAKE256.
const BLOCK: usize = 136;
/// Lanes of the canary.
const CANARIES: usize = 2;
/// What stands for the length of a message whose mu is given.
const MU_GIVEN: u64 = u64::MAX;

/// Runs a checked batch.
pub(crate) fn run<D: Device>(cuda: &Cuda<D>, dsa: &mut Dsa<'_>, status: &mut [Status]) -> Ran {
    let Dsa::Verify { params: p, keys, messages, sig } = dsa else {
        return Ran::Declined;
    };
    let (p, messages, sig) = (*p, *messages, *sig);
    let sizes = pieces(p, messages, cuda.slot_bytes());
    let mut statuses = Rest::new(status);
    let ran = chunks(cuda, sizes, |taken, from, lanes| {
        let inputs = Inputs {
            keys: KeyBytes::new(keys, from, lanes, p.pk_len(), |key| (key.id(), key.bytes())),
            messages: &messages[from..from + lanes],
            sig: &sig[from * p.sig_len()..(from + lanes) * p.sig_len()],
        };
        verify(taken, p, inputs, statuses.next(lanes))
    });
    if ran != Ran::Done {
        status.fill(Status::NotRun);
        return ran;
    }
    for (status, message) in status.iter_mut().zip(messages) {
        if message.check().is_err() {
            *status = Status::InvalidInput;
        }
    }
    ran
}

/// Lanes of each chunk, so that arrays and messages of a chunk fit into a slot; none if those of one lane don't.
fn pieces(p: &Params, messages: &[Message<'_>], slot_bytes: usize) -> Option<Vec<usize>> {
    let canary = DsaCanary::of(p)?.message.len() + 2;
    let mut pieces = Vec::new();
    let (mut lanes, mut bytes) = (0, canary);
    for message in messages {
        let mut len = 0;
        each_part(message, |part| len += part.len());
        if lanes > 0 && Arrays::new(p, lanes + 1 + CANARIES, bytes + len).bytes > slot_bytes {
            pieces.push(lanes);
            (lanes, bytes) = (0, canary);
        }
        (lanes, bytes) = (lanes + 1, bytes + len);
        if Arrays::new(p, lanes + CANARIES, bytes).bytes > slot_bytes {
            return None;
        }
    }
    pieces.push(lanes);
    Some(pieces)
}

/// Hands over M' in pieces: none of a message of the wrong form, which is refused whatever the device says.
fn each_part(message: &Message<'_>, each: impl FnMut(&[u8])) {
    if message.check().is_ok() {
        let header = Header::new(message);
        header.formatted(message).into_iter().for_each(each);
    }
}

/// Where the arrays lie.
struct Arrays {
    pk: Place,
    sig: Place,
    messages: Place,
    spans: Place,
    mu: Place,
    stream: Place,
    matrix: Place,
    vectors: Place,
    w1: Place,
    valid: Place,
    status: Place,
    bytes: usize,
}

impl Arrays {
    fn new(p: &Params, n: usize, message_bytes: usize) -> Self {
        let mut layout = Layout::default();
        let mut arrays = Arrays {
            pk: layout.array(n, p.pk_len()),
            sig: layout.array(n, p.sig_len()),
            messages: layout.array(1, message_bytes),
            spans: layout.array(n, 2 * size_of::<u64>()),
            mu: layout.array(n, MU_LEN),
            stream: layout.array(n, BLOCK),
            matrix: layout.array(n, p.k * p.l * POLY),
            vectors: layout.array(n, (p.l + 1 + p.k) * POLY),
            w1: layout.array(n, 32 * p.w1_bits * p.k),
            valid: layout.array(n, size_of::<u32>()),
            status: layout.array(n, size_of::<u32>()),
            bytes: 0,
        };
        arrays.bytes = layout.bytes();
        arrays
    }
}

/// What a chunk verifies.
struct Inputs<'a> {
    keys: KeyBytes<'a>,
    messages: &'a [Message<'a>],
    sig: &'a [u8],
}

/// The messages of a chunk as the kernels take them: M' one after the other, where each is, and what is given as mu.
#[derive(Default)]
struct Packed {
    bytes: Vec<u8>,
    spans: Vec<u8>,
    mu: Vec<u8>,
}

impl Packed {
    fn push(&mut self, message: &Message<'_>) {
        let begin = self.bytes.len() as u64;
        each_part(message, |part| self.bytes.extend_from_slice(part));
        let (length, mu) = match message {
            Message::Mu(mu) => (MU_GIVEN, **mu),
            _ => (self.bytes.len() as u64 - begin, [0; MU_LEN]),
        };
        self.spans.extend_from_slice(&begin.to_le_bytes());
        self.spans.extend_from_slice(&length.to_le_bytes());
        self.mu.extend_from_slice(&mu);
    }
}

fn verify<'a, D: Device>(
    taken: &mut Taken<'a, D>,
    p: &'static Params,
    inputs: Inputs<'a>,
    status: &'a mut [Status],
) -> Result<Flying<'a>, Fault> {
    let canary = DsaCanary::of(p).ok_or(Fault::NoMemory)?;
    let mut packed = Packed::default();
    inputs.messages.iter().for_each(|message| packed.push(message));
    let own = Message::Pure { context: &[], message: &canary.message };
    (0..CANARIES).for_each(|_| packed.push(&own));

    let n = status.len() + CANARIES;
    let (mut chunk, at) = lay_out(taken, p, n, packed.bytes.len())?;
    chunk.send_keys(at.pk, &inputs.keys, &canary.pk)?;
    chunk.send(at.sig, inputs.sig, &[&canary.sig, &canary.bad_sig])?;
    chunk.send_own(at.messages, packed.bytes)?;
    chunk.send_own(at.spans, packed.spans)?;
    chunk.send_own(at.mu, packed.mu)?;
    let (k, l) = (p.k as u32, p.l as u32);
    chunk.run(&[
        ("hash", 1, PER_THREAD),
        ("sample_matrix", k * l, PER_THREAD),
        ("challenge", 1, PER_THREAD),
        ("transform", l + 1 + k, PER_WARP),
        ("row", k, PER_WARP),
        ("finish", 1, PER_THREAD),
    ])?;
    chunk.fly(status, &[Status::Ok, Status::InvalidSignature])
}

/// Lays out the arrays for `n` lanes, canaries among them.
fn lay_out<'t, 'a, D: Device>(
    taken: &'t mut Taken<'a, D>,
    p: &Params,
    n: usize,
    message_bytes: usize,
) -> Result<(Chunk<'t, 'a, D, DsaArguments>, Arrays), Fault> {
    let set = match p.algorithm {
        Algorithm::MlDsa44 => "dsa44",
        Algorithm::MlDsa65 => "dsa65",
        _ => "dsa87",
    };
    let arrays = Arrays::new(p, n, message_bytes);
    taken.reserve(arrays.bytes, 0)?;
    let at = |place: Place| taken.address(place.offset);
    let arguments = DsaArguments {
        pk: at(arrays.pk),
        sig: at(arrays.sig),
        messages: at(arrays.messages),
        spans: at(arrays.spans),
        mu: at(arrays.mu),
        stream: at(arrays.stream),
        matrix: at(arrays.matrix),
        vectors: at(arrays.vectors),
        w1: at(arrays.w1),
        valid: at(arrays.valid),
        status: at(arrays.status),
        n: n as u32,
        generation: taken.generation(),
    };
    let (lanes, status, answers) = (n - CANARIES, arrays.status, Vec::new());
    Ok((Chunk { taken, set, arguments, lanes, canaries: CANARIES, status, answers }, arrays))
}
