//! Signing: Algorithm 7's loop as rounds over a queue on the device (`kernels/ml_dsa_sign.cuh`).
//!
//! How many attempts a signature takes is known once the device has made it. So all rounds are
//! enqueued at once: enough rounds for nearly every chunk, with enough attempts for nearly every
//! round. The device works on the entries of its queue, and a round with an empty queue does
//! nothing. If a lane has no signature after the last round, the host enqueues more. For distinct
//! operations that is less likely than 2^-40; equal ones take equally many attempts, so that a
//! batch with many of them exceeds the planned number of rounds.
//!
//! The canary is two lanes: a malformed private key, if keys are sent to be checked, and a
//! signature.

use gabion_backend::{BatchOutcome, Keys};
use gabion_scheme::message::Message;
use gabion_scheme::ml_dsa::{MU_LEN, Params, SigningKey};
use gabion_scheme::{Status, ct};

use super::keys::{self, Expansion, private_bytes};
use super::{
    CANARIES, POLY, PackedMessages, Texts, canary_text, launch, pieces_with_messages, threads,
    warps,
};
use crate::arguments::{DsaKeyArguments, DsaSignArguments};
use crate::canary::DsaCanary;
use crate::chunk::{Chunk, InFlight, KeyBytes, Remaining, chunks};
use crate::cuda::Cuda;
use crate::device::{Device, Fault};
use crate::layout::{Layout, Region};
use crate::slots::SlotGuard;

/// Lanes of a chunk that fill a device, below which a batch is not cut.
const ENOUGH: usize = 32768;
/// Attempts of a round, at most: 128 threads with one each, of which the hash of an attempt is the work, for twice the
/// multiprocessors that the largest devices have.
const ATTEMPTS: usize = 32768;
/// The number of attempts up to which an operation gets several in a round: below it, a round takes
/// as long as the sequence of its hashes, regardless of the number of attempts.
const TARGET: usize = 8192;
/// Attempts of one operation in a round, at most, as a power of two (`DSA_WIDTH` in the kernels).
const WIDTH: u32 = 4;
/// The accepted probability that a chunk of distinct operations has too few rounds. Equal ones take
/// equally many attempts, so those may need more.
const TOO_FEW: f64 = 1.0 / (1u64 << 40) as f64;
/// Rounds that are asked for together where those were too few.
const MORE: usize = 16;

/// Runs a checked batch; `(messages, rnd)` and `sig` as in [`gabion_backend::Dsa::Sign`].
pub(super) fn run<D: Device>(
    cuda: &Cuda<D>,
    p: &'static Params,
    keys: &Keys<'_, SigningKey>,
    (messages, rnd): (&[Message<'_>], &[[u8; 32]]),
    sig: &mut [u8],
    status: &mut [Status],
) -> BatchOutcome {
    let Some(own) = DsaCanary::for_params(p).map(|canary| canary_text(&canary.message)) else {
        return BatchOutcome::Declined;
    };
    let count = keys::count(keys, SigningKey::id);
    let bytes = |lanes: usize, text| {
        let n = lanes + CANARIES;
        Arrays::new(p, (n, keys::room(count, lanes)), text + own, n.min(TARGET)).bytes
    };
    let slot_bytes = cuda.slot_bytes();
    let sizes = pieces_with_messages(messages, slot_bytes, ENOUGH, bytes);
    let (mut sigs, mut statuses) = (Remaining::new(&mut *sig), Remaining::new(&mut *status));
    let ran = chunks(cuda, sizes, |guard, from, lanes| {
        let inputs = Inputs {
            keys: KeyBytes::new(keys, from, lanes, p.sk_len(), |key| (key.id(), key.bytes())),
            messages: &messages[from..from + lanes],
            rnd: &rnd[from..from + lanes],
            room: keys::room(count, lanes),
            slot_bytes,
        };
        sign(guard, p, inputs, sigs.next(lanes * p.sig_len()), statuses.next(lanes))
    });
    if ran == BatchOutcome::Done {
        let lanes = status.iter_mut().zip(messages).zip(sig.chunks_exact_mut(p.sig_len()));
        for ((status, message), sig) in lanes {
            if status.is_ok() && message.check().is_err() {
                *status = Status::InvalidInput;
                ct::wipe(sig);
            }
        }
    }
    ran
}

/// The arrays of signing.
struct Arrays {
    sk: Region,
    rnd: Region,
    expanded: Region,
    vectors: Region,
    faults: Region,
    rho: Region,
    y: Region,
    y_hat: Region,
    w: Region,
    commitments: Region,
    c_tilde: Region,
    balls: Region,
    c_hat: Region,
    hints: Region,
    verdicts: Region,
    done: Region,
    secret: usize,
    pk: Region,
    texts: Texts,
    keys: Region,
    new_keys: Region,
    key_status: Region,
    tried: Region,
    ring: Region,
    rounds: Region,
    appended: Region,
    sig: Region,
    status: Region,
    bytes: usize,
    tails: Vec<Region>,
}

impl Arrays {
    /// Lays them out for `n` lanes, including canaries, and so many keys, and attempts in a round.
    fn new(p: &Params, (n, keys): (usize, usize), message_bytes: usize, attempts: usize) -> Self {
        let mut layout = Layout::default();
        let word = size_of::<u32>();
        let rounds = rounds_max(n, attempts) + 1;
        let (sk, rnd) = (layout.array(keys, p.sk_len()), layout.array(n, 32));
        let expanded = layout.array(keys, private_bytes(p));
        let vectors = layout.array(keys, p.l * POLY);
        let (faults, rho) = (layout.array(keys, word), layout.array(n, 64));
        let (y, y_hat) =
            (layout.array(attempts, p.l * 32 * p.z_bits), layout.array(attempts, p.l * POLY));
        let w = layout.array(attempts, p.k * POLY);
        let commitments = layout.array(attempts, MU_LEN + 32 * p.w1_bits * p.k);
        let (c_tilde, balls) = (layout.array(attempts, 64), layout.array(attempts, 64));
        let (c_hat, hints) = (layout.array(attempts, POLY), layout.array(attempts, p.k * 32));
        let (verdicts, done) = (layout.array(attempts, word), layout.array(attempts, word));
        layout.secrets_end();
        Arrays {
            sk,
            rnd,
            expanded,
            vectors,
            faults,
            rho,
            y,
            y_hat,
            w,
            commitments,
            c_tilde,
            balls,
            c_hat,
            hints,
            verdicts,
            done,
            secret: layout.secret(),
            pk: layout.array(keys, p.pk_len()),
            texts: Texts::new(&mut layout, n, message_bytes),
            keys: layout.array(n, size_of::<u64>()),
            new_keys: layout.array(keys, size_of::<u64>()),
            key_status: layout.array(keys, word),
            tried: layout.array(n, word),
            ring: layout.array(n + attempts, word),
            rounds: layout.array(rounds, 4 * word),
            appended: layout.array(rounds, word),
            sig: layout.array(n, p.sig_len()),
            status: layout.array(n, word),
            bytes: layout.bytes(),
            tails: layout.tails(),
        }
    }

    /// Lays them out with as many attempts in a round as fit into the slot and are useful: one for
    /// each operation, or several for few operations.
    fn with_attempts(
        p: &Params,
        (n, keys): (usize, usize),
        message_bytes: usize,
        slot_bytes: usize,
    ) -> (Self, usize) {
        let several = (1..=WIDTH).rev().map(|width| n << width).filter(|&all| all <= TARGET);
        let fewer = [ATTEMPTS, ATTEMPTS / 2].map(|all| n.min(all));
        let mut choices = several
            .chain(fewer)
            .map(|attempts| (Self::new(p, (n, keys), message_bytes, attempts), attempts));
        let fits = choices.find(|(arrays, _)| arrays.bytes <= slot_bytes);
        let least = n.min(TARGET);
        fits.unwrap_or_else(|| (Self::new(p, (n, keys), message_bytes, least), least))
    }
}

/// The inputs of a signing chunk.
struct Inputs<'a> {
    keys: KeyBytes<'a>,
    messages: &'a [Message<'a>],
    rnd: &'a [[u8; 32]],
    room: usize,
    slot_bytes: usize,
}

fn sign<'a, D: Device>(
    guard: &mut SlotGuard<'a, D>,
    p: &'static Params,
    inputs: Inputs<'a>,
    sig: &'a mut [u8],
    status: &'a mut [Status],
) -> Result<InFlight<'a, D>, Fault> {
    let canary = DsaCanary::for_params(p).ok_or(Fault::NoMemory)?;
    let packed = PackedMessages::new(inputs.messages, &canary.message);
    let n = status.len() + CANARIES;
    let size = (n, inputs.room);
    let (at, attempts) = Arrays::with_attempts(p, size, packed.bytes.len(), inputs.slot_bytes);
    guard.reserve(at.bytes, at.secret, &at.tails)?;
    let (arguments, of_keys) = arguments(guard, &at, n, n + attempts);
    let (lanes, canaries, answers) = (status.len(), CANARIES, Vec::new());
    let set = super::set(p);
    let mut chunk = Chunk { guard, set, arguments, lanes, canaries, status: at.status, answers };
    let expansion = Expansion {
        params: p,
        is_private: true,
        encoded: at.sk,
        expanded: at.expanded,
        keys: at.keys,
        new_keys: at.new_keys,
        canary: [&canary.bad_sk, &canary.sk],
    };
    expansion.run(&mut chunk, &inputs.keys, of_keys)?;
    chunk.send(at.rnd, inputs.rnd.as_flattened(), &[&[0; CANARIES * 32]])?;
    chunk.send_own(at.texts.messages, packed.bytes)?;
    chunk.send_own(at.texts.spans, packed.spans)?;
    chunk.send_own(at.texts.mu, packed.mu)?;
    for place in [at.rounds, at.appended, at.done, at.status] {
        chunk.guard.clear(place.offset, place.bytes)?;
    }
    // SAFETY: the arguments of these kernels, whose arrays are laid out for `n` operations.
    unsafe {
        launch(chunk.guard, p, "sign_hash", &arguments, threads(n))?;
    }
    let limits = schedule(p, n, attempts);
    let asked = limits.len();
    for (number, limit) in limits.into_iter().enumerate() {
        run_round(chunk.guard, p, &arguments, (number, limit))?;
    }
    chunk.expect(at.sig, &[&canary.sig])?;
    chunk.fetch(at.sig, sig)?;
    // By known keys the canary signs twice.
    let is_known = matches!(inputs.keys, KeyBytes::Separate(_));
    let first = if is_known { Status::Ok } else { Status::InvalidKey };
    let mut rounds = asked..rounds_max(n, attempts);
    let more = move |guard: &mut SlotGuard<'a, D>| {
        let mut is_more = false;
        for number in rounds.by_ref().take(MORE) {
            run_round(guard, p, &arguments, (number, n.min(attempts)))?;
            is_more = true;
        }
        Ok(is_more)
    };
    Ok(chunk.start(status, &[first, Status::Ok])?.with_next_round(Box::new(more)))
}

/// Runs one iteration of Algorithm 7's loop for the queued operations.
fn run_round<D: Device>(
    guard: &mut SlotGuard<'_, D>,
    p: &Params,
    arguments: &DsaSignArguments,
    (number, attempts): (usize, usize),
) -> Result<(), Fault> {
    let (round, limit) = (number as u32, attempts as u32);
    let target = limit.min(TARGET as u32);
    let arguments = &DsaSignArguments { round, limit, target, ..*arguments };
    let blocks = [
        ("sign_mask", threads(attempts * p.l)),
        ("sign_mask_transform", warps(attempts * p.l)),
        ("sign_row", warps(attempts * p.k)),
        ("sign_challenge", threads(attempts)),
        ("sign_challenge_transform", warps(attempts)),
        ("sign_low", warps(attempts * (p.k / 2))),
        ("sign_response", warps(attempts * p.l.div_ceil(2))),
        ("sign_hint", warps(attempts * p.k)),
        ("sign_select", warps(attempts)),
    ];
    for (step, blocks) in blocks {
        // SAFETY: the arguments of these kernels; arrays of attempts are laid out for `limit` of them and more, those of
        // rounds for more than `round`.
        unsafe { launch(guard, p, step, arguments, blocks)? };
    }
    Ok(())
}

/// Returns the kernels' arguments for `n` operations.
fn arguments<D: Device>(
    guard: &SlotGuard<'_, D>,
    at: &Arrays,
    n: usize,
    ring_size: usize,
) -> (DsaSignArguments, DsaKeyArguments) {
    let address = |place: Region| guard.address(place.offset);
    let sign = DsaSignArguments {
        keys: address(at.keys),
        messages: address(at.texts.messages),
        spans: address(at.texts.spans),
        mu: address(at.texts.mu),
        rnd: address(at.rnd),
        rho: address(at.rho),
        tried: address(at.tried),
        ring: address(at.ring),
        rounds: address(at.rounds),
        appended: address(at.appended),
        y: address(at.y),
        y_hat: address(at.y_hat),
        w: address(at.w),
        commitments: address(at.commitments),
        c_tilde: address(at.c_tilde),
        balls: address(at.balls),
        c_hat: address(at.c_hat),
        hints: address(at.hints),
        verdicts: address(at.verdicts),
        done: address(at.done),
        sig: address(at.sig),
        status: address(at.status),
        n: n as u32,
        generation: guard.generation(),
        round: 0,
        limit: 0,
        target: 0,
        ring_size: ring_size as u32,
    };
    let keys = DsaKeyArguments {
        pk: address(at.pk),
        sk: address(at.sk),
        vectors: address(at.vectors),
        faults: address(at.faults),
        status: address(at.key_status),
        generation: guard.generation(),
        ..DsaKeyArguments::default()
    };
    (sign, keys)
}

/// The probability that an attempt is rejected, rounded up. FIPS 204, table 1, has the expected number of attempts: 4.25, 5.1
/// and 3.85.
fn rejection_rate(p: &Params) -> f64 {
    match p.l {
        4 => 0.77,
        5 => 0.81,
        _ => 0.745,
    }
}

/// Rounds for `n` operations with room for so many attempts, at most: 160 attempts of each, of which one is good but with a
/// probability below 2^-48, even where all operations are the same.
fn rounds_max(n: usize, attempts: usize) -> usize {
    64 + 160 * n.div_ceil(attempts.max(1))
}

/// Attempts of each round for `n` operations with room for `attempts`: as many rounds as are enough but for one chunk in
/// 2^40, and as many attempts as are left to make but for rare rounds, whose rest the next ones do.
fn schedule(p: &Params, n: usize, attempts: usize) -> Vec<usize> {
    let mut limits = Vec::new();
    // Operations in the queue, on average; below 1 how likely one is.
    let mut queued = n as f64;
    while queued > TOO_FEW && limits.len() < rounds_max(n, attempts) {
        let nearly_all = (queued + 6.0 * queued.sqrt() + 8.0).min(n as f64).ceil() as usize;
        let active = nearly_all.min(attempts);
        let width = (1..=WIDTH).rev().find(|width| active << width <= attempts.min(TARGET));
        let width = width.unwrap_or(0);
        limits.push(active << width);
        let rejected = rejection_rate(p).powi(1 << width);
        queued -= queued.min(active as f64) * (1.0 - rejected);
    }
    limits
}

#[cfg(test)]
mod tests {
    use gabion_scheme::algorithms::Algorithm;
    use gabion_scheme::ml_dsa::params;

    use super::*;

    #[test]
    fn rounds_are_enough_and_attempts_have_room() {
        for set in [Algorithm::MlDsa44, Algorithm::MlDsa65, Algorithm::MlDsa87] {
            let p = params(set).unwrap();
            for (n, attempts) in [
                (3, 3),
                (3, 48),
                (100, 100),
                (100, 1600),
                (5000, 5000),
                (5000, 8192),
                (65538, 32768),
                (1 << 20, 32768),
            ] {
                let limits = schedule(p, n, attempts);
                assert!(limits.iter().all(|&limit| limit <= attempts && limit > 0));
                assert!(limits.len() < rounds_max(n, attempts), "{n} {attempts} {}", limits.len());
                // One attempt after the other: as many as the last one of `n` needs, with the probability that is meant.
                let all: usize = limits.iter().sum();
                assert!(all as f64 > n as f64 / (1.0 - rejection_rate(p)));
            }
        }
    }
}
