//! ML-DSA on a device: key generation, signing and verification.
//!
//! - `keys`: key generation; expansion of encoded keys to what the kernels use.
//! - `sign`: the loop of signing as rounds over a queue that is on the device.
//! - `verify`: verification.

mod keys;
mod sign;
mod verify;

use gabion_backend::{BatchOutcome, Dsa};
use gabion_scheme::algorithms::Algorithm;
use gabion_scheme::message::{Header, Message};
use gabion_scheme::ml_dsa::{MU_LEN, Params};
use gabion_scheme::{Status, ct};

use crate::chunk::{PER_THREAD, PER_WARP, pieces};
use crate::cuda::Cuda;
use crate::device::{Arguments, Device, Fault, Launch};
use crate::layout::{Layout, Region};
use crate::slots::SlotGuard;

/// Bytes of a polynomial.
const POLY: usize = 1024;
/// The length value that marks a message whose mu is given (`MU_GIVEN` in `kernels/ml_dsa.cuh`).
const MU_GIVEN: u64 = u64::MAX;
/// M' begins at multiples of this, with zeros before the next one.
const WORD: usize = 8;
/// Lanes of the canary of signing and verification.
const CANARIES: usize = 2;

/// Runs a checked batch.
pub(crate) fn run<D: Device>(
    cuda: &Cuda<D>,
    dsa: &mut Dsa<'_>,
    status: &mut [Status],
) -> BatchOutcome {
    let ran = match dsa {
        Dsa::Keygen { params, seeds, pk, sk } => keys::run(cuda, params, seeds, (pk, sk), status),
        Dsa::Sign { params, keys, messages, rnd, sig } => {
            sign::run(cuda, params, keys, (messages, rnd), sig, status)
        }
        Dsa::Verify { params, keys, messages, sig } => {
            verify::run(cuda, params, keys, (messages, sig), status)
        }
        Dsa::Generate { .. } | Dsa::DecodePublic { .. } | Dsa::DecodePrivate { .. } => {
            BatchOutcome::Declined
        }
    };
    if ran != BatchOutcome::Done {
        forget(dsa, status);
    }
    ran
}

/// Wipes the outputs of an incomplete batch.
fn forget(dsa: &mut Dsa<'_>, status: &mut [Status]) {
    match dsa {
        Dsa::Keygen { pk, sk, .. } => {
            ct::wipe(pk);
            ct::wipe(sk);
        }
        Dsa::Sign { sig, .. } => ct::wipe(sig),
        _ => {}
    }
    status.fill(Status::NotRun);
}

/// Returns how a parameter set is called in the kernels' names.
fn set(p: &Params) -> &'static str {
    match p.algorithm {
        Algorithm::MlDsa44 => "dsa44",
        Algorithm::MlDsa65 => "dsa65",
        _ => "dsa87",
    }
}

/// Runs one kernel over so many blocks.
///
/// # Safety
/// The arguments are the kernel's, and their arrays are in what was reserved of the slot, for as many jobs.
unsafe fn launch<D: Device, A: Arguments>(
    guard: &mut SlotGuard<'_, D>,
    p: &Params,
    step: &str,
    arguments: &A,
    blocks: usize,
) -> Result<(), Fault> {
    let kernel = format!("gabion_{}_{step}", set(p));
    let blocks = u32::try_from(blocks).map_err(|_| Fault::NoMemory)?;
    // SAFETY: the caller's.
    unsafe { guard.launch(&Launch::new(&kernel, arguments, blocks)) }
}

/// Blocks of so many threads, and of so many warps.
fn threads(jobs: usize) -> usize {
    jobs.div_ceil(PER_THREAD as usize)
}
fn warps(jobs: usize) -> usize {
    jobs.div_ceil(PER_WARP as usize)
}

/// Words as the device has them.
fn words(words: impl Iterator<Item = u64>) -> Vec<u8> {
    words.flat_map(u64::to_le_bytes).collect()
}

/// Lanes of each chunk of operations on messages, so that its arrays fit into a slot; none if those of one lane don't.
/// `bytes` says how many they take for so many lanes and bytes of messages, canaries not counted; `enough` lanes fill a
/// device.
fn pieces_with_messages(
    messages: &[Message<'_>],
    slot_bytes: usize,
    enough: usize,
    bytes: impl Fn(usize, usize) -> usize,
) -> Option<Vec<usize>> {
    let lanes_max = pieces(messages.len(), usize::MAX, enough)?.first().copied().unwrap_or(1);
    let mut pieces = Vec::new();
    let (mut lanes, mut text) = (0, 0);
    for message in messages {
        let len = formatted_len(message);
        if lanes > 0 && (lanes == lanes_max || bytes(lanes + 1, text + len) > slot_bytes) {
            pieces.push(lanes);
            (lanes, text) = (0, 0);
        }
        (lanes, text) = (lanes + 1, text + len);
        if bytes(lanes, text) > slot_bytes {
            return None;
        }
    }
    pieces.extend(Some(lanes).filter(|&lanes| lanes > 0));
    Some(pieces)
}

/// Calls `each` with the pieces of M', but not for a malformed message, which is rejected whatever
/// the device returns.
fn each_part(message: &Message<'_>, each: impl FnMut(&[u8])) {
    if message.check().is_ok() {
        let header = Header::new(message);
        header.formatted(message).into_iter().for_each(each);
    }
}

/// Bytes of M' as it is sent.
fn formatted_len(message: &Message<'_>) -> usize {
    let mut len = 0;
    each_part(message, |part| len += part.len());
    len.next_multiple_of(WORD)
}

/// A chunk's messages, packed for the kernels: M' one after the other, the position of each, and
/// given values of mu.
#[derive(Default)]
struct PackedMessages {
    bytes: Vec<u8>,
    spans: Vec<u8>,
    mu: Vec<u8>,
}

impl PackedMessages {
    /// Those of a chunk, and one for each of the canary's lanes.
    fn new(messages: &[Message<'_>], canary: &[u8]) -> Self {
        let mut packed = PackedMessages::default();
        let own = Message::Pure { context: &[], message: canary };
        messages.iter().chain(&[own; CANARIES]).for_each(|message| packed.push(message));
        packed
    }

    fn push(&mut self, message: &Message<'_>) {
        let begin = self.bytes.len();
        each_part(message, |part| self.bytes.extend_from_slice(part));
        let (length, mu) = match message {
            Message::Mu(mu) => (MU_GIVEN, **mu),
            _ => ((self.bytes.len() - begin) as u64, [0; MU_LEN]),
        };
        self.bytes.resize(self.bytes.len().next_multiple_of(WORD), 0);
        self.spans.extend_from_slice(&(begin as u64).to_le_bytes());
        self.spans.extend_from_slice(&length.to_le_bytes());
        self.mu.extend_from_slice(&mu);
    }
}

/// Bytes that the canary's messages add to a chunk.
fn canary_text(message: &[u8]) -> usize {
    CANARIES * formatted_len(&Message::Pure { context: &[], message })
}

/// The regions of a chunk's messages.
struct Texts {
    messages: Region,
    spans: Region,
    mu: Region,
}

impl Texts {
    fn new(layout: &mut Layout, n: usize, message_bytes: usize) -> Self {
        Texts {
            messages: layout.array(1, message_bytes),
            spans: layout.array(n, 2 * size_of::<u64>()),
            mu: layout.array(n, MU_LEN),
        }
    }
}
