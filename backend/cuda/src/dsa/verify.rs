//! Verification.
//!
//! The canary is two lanes: a good signature, and one that is not.

use gabion_backend::{BatchOutcome, Keys};
use gabion_scheme::Status;
use gabion_scheme::message::Message;
use gabion_scheme::ml_dsa::{MU_LEN, Params, VerifyKey};

use super::keys::{self, Expansion, public_bytes};
use super::{
    CANARIES, POLY, PackedMessages, Texts, canary_text, launch, pieces_with_messages, threads,
    warps,
};
use crate::arguments::{DsaKeyArguments, DsaVerifyArguments};
use crate::canary::DsaCanary;
use crate::chunk::{Chunk, InFlight, KeyBytes, Remaining, chunks};
use crate::cuda::Cuda;
use crate::device::{Device, Fault};
use crate::layout::{Layout, Region};
use crate::slots::SlotGuard;

/// Lanes of a chunk that fill a device, below which a batch is not cut.
const ENOUGH: usize = 16384;

/// Runs a checked verification; `(messages, sig)` as in [`gabion_backend::Dsa::Verify`].
pub(super) fn run<D: Device>(
    cuda: &Cuda<D>,
    p: &'static Params,
    keys: &Keys<'_, VerifyKey>,
    (messages, sig): (&[Message<'_>], &[u8]),
    status: &mut [Status],
) -> BatchOutcome {
    let Some(own) = DsaCanary::for_params(p).map(|canary| canary_text(&canary.message)) else {
        return BatchOutcome::Declined;
    };
    let count = keys::count(keys, VerifyKey::id);
    let bytes = |lanes: usize, text| {
        Arrays::new(p, lanes + CANARIES, keys::room(count, lanes), text + own).bytes
    };
    let sizes = pieces_with_messages(messages, cuda.slot_bytes(), ENOUGH, bytes);
    let mut statuses = Remaining::new(status);
    let ran = chunks(cuda, sizes, |guard, from, lanes| {
        let inputs = Inputs {
            keys: KeyBytes::new(keys, from, lanes, p.pk_len(), |key| (key.id(), key.bytes())),
            messages: &messages[from..from + lanes],
            sig: &sig[from * p.sig_len()..(from + lanes) * p.sig_len()],
            room: keys::room(count, lanes),
        };
        verify(guard, p, inputs, statuses.next(lanes))
    });
    if ran == BatchOutcome::Done {
        for (status, message) in status.iter_mut().zip(messages) {
            if message.check().is_err() {
                *status = Status::InvalidInput;
            }
        }
    }
    ran
}

/// The arrays of verification.
struct Arrays {
    pk: Region,
    sig: Region,
    texts: Texts,
    keys: Region,
    new_keys: Region,
    expanded: Region,
    key_status: Region,
    balls: Region,
    vectors: Region,
    commitments: Region,
    valid: Region,
    status: Region,
    bytes: usize,
    tails: Vec<Region>,
}

impl Arrays {
    /// Lays them out for `n` lanes, including canaries, and so many keys.
    fn new(p: &Params, n: usize, keys: usize, message_bytes: usize) -> Self {
        let mut layout = Layout::default();
        let mut arrays = Arrays {
            pk: layout.array(keys, p.pk_len()),
            sig: layout.array(n, p.sig_len()),
            texts: Texts::new(&mut layout, n, message_bytes),
            keys: layout.array(n, size_of::<u64>()),
            new_keys: layout.array(keys, size_of::<u64>()),
            expanded: layout.array(keys, public_bytes(p)),
            key_status: layout.array(keys, size_of::<u32>()),
            balls: layout.array(n, 64),
            vectors: layout.array(n, (p.l + 1) * POLY),
            commitments: layout.array(n, MU_LEN + 32 * p.w1_bits * p.k),
            valid: layout.array(n, size_of::<u32>()),
            status: layout.array(n, size_of::<u32>()),
            bytes: 0,
            tails: Vec::new(),
        };
        (arrays.bytes, arrays.tails) = (layout.bytes(), layout.tails());
        arrays
    }
}

/// The inputs of a verifying chunk.
struct Inputs<'a> {
    keys: KeyBytes<'a>,
    messages: &'a [Message<'a>],
    sig: &'a [u8],
    room: usize,
}

fn verify<'a, D: Device>(
    guard: &mut SlotGuard<'a, D>,
    p: &'static Params,
    inputs: Inputs<'a>,
    status: &'a mut [Status],
) -> Result<InFlight<'a, D>, Fault> {
    let canary = DsaCanary::for_params(p).ok_or(Fault::NoMemory)?;
    let packed = PackedMessages::new(inputs.messages, &canary.message);
    let n = status.len() + CANARIES;
    let at = Arrays::new(p, n, inputs.room, packed.bytes.len());
    // Everything is public.
    guard.reserve(at.bytes, 0, &at.tails)?;
    let address = |place: Region| guard.address(place.offset);
    let arguments = DsaVerifyArguments {
        keys: address(at.keys),
        sig: address(at.sig),
        messages: address(at.texts.messages),
        spans: address(at.texts.spans),
        mu: address(at.texts.mu),
        balls: address(at.balls),
        vectors: address(at.vectors),
        commitments: address(at.commitments),
        valid: address(at.valid),
        status: address(at.status),
        n: n as u32,
        generation: guard.generation(),
    };
    let of_keys = DsaKeyArguments {
        pk: address(at.pk),
        status: address(at.key_status),
        generation: guard.generation(),
        ..DsaKeyArguments::default()
    };
    let (lanes, canaries, answers) = (status.len(), CANARIES, Vec::new());
    let set = super::set(p);
    let mut chunk = Chunk { guard, set, arguments, lanes, canaries, status: at.status, answers };
    let expansion = Expansion {
        params: p,
        is_private: false,
        encoded: at.pk,
        expanded: at.expanded,
        keys: at.keys,
        new_keys: at.new_keys,
        canary: [&canary.pk; CANARIES],
    };
    expansion.run(&mut chunk, &inputs.keys, of_keys)?;
    chunk.send(at.sig, inputs.sig, &[&canary.sig, &canary.bad_sig])?;
    chunk.send_own(at.texts.messages, packed.bytes)?;
    chunk.send_own(at.texts.spans, packed.spans)?;
    chunk.send_own(at.texts.mu, packed.mu)?;
    chunk.guard.clear(at.status.offset, at.status.bytes)?;
    // SAFETY: the arguments of these kernels, whose arrays are laid out for `n` operations.
    unsafe {
        launch(chunk.guard, p, "verify_hash", &arguments, threads(n))?;
        launch(chunk.guard, p, "verify_transform", &arguments, warps(n * (p.l + 1)))?;
        launch(chunk.guard, p, "verify_row", &arguments, warps(n * p.k))?;
        launch(chunk.guard, p, "verify_finish", &arguments, threads(n))?;
    }
    chunk.start(status, &[Status::Ok, Status::InvalidSignature])
}
