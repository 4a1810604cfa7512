//! ML-KEM on a device: the layout of the arrays, the kernels, and the checks before a result
//! leaves.
//!
//! The canary is one lane, and for decapsulation a second one whose ciphertext is rejected.

use gabion_backend::{BatchOutcome, Kem};
use gabion_scheme::algorithms::Algorithm;
use gabion_scheme::ml_kem::{Params, SECRET_LEN, SEED_LEN};
use gabion_scheme::{Status, ct};

use crate::arguments::KemArguments;
use crate::canary::KemCanary;
use crate::chunk::{Chunk, InFlight, KeyBytes, PER_THREAD, PER_WARP, Remaining, chunks, pieces};
use crate::cuda::Cuda;
use crate::device::{Device, Fault};
use crate::layout::{Layout, Region, largest_fit};
use crate::slots::SlotGuard;

/// Bytes of a polynomial.
const POLY: usize = 512;
/// Lanes of the canary, at most.
const CANARIES: usize = 2;
/// Bytes of H(ek).
const HASH_LEN: usize = 32;
/// Entries of resident keys begin at multiples of this.
const ENTRY_ALIGNMENT: usize = 256;
/// Lanes of a chunk that fill a device, below which a batch is not cut.
const ENOUGH: usize = 16384;

/// Runs a checked batch.
pub(crate) fn run<D: Device>(
    cuda: &Cuda<D>,
    kem: &mut Kem<'_>,
    status: &mut [Status],
) -> BatchOutcome {
    let lanes = status.len();
    let sizes = |p: &Params, what| {
        let fits = |n| Arrays::new(p, what, n + CANARIES).bytes <= cuda.slot_bytes();
        pieces(lanes, largest_fit(lanes, fits), ENOUGH)
    };
    let mut statuses = Remaining::new(status);
    let ran = match kem {
        Kem::Keygen { params: p, seeds, ek, dk } => {
            let (mut eks, mut dks) = (Remaining::new(ek), Remaining::new(dk));
            chunks(cuda, sizes(p, KemOperation::Keygen), |guard, from, lanes| {
                let out = (eks.next(lanes * p.ek_len()), dks.next(lanes * p.dk_len()));
                keygen(guard, p, &seeds[from..from + lanes], out, statuses.next(lanes))
            })
        }
        Kem::Publish { params: p, seeds, ek } => {
            let mut eks = Remaining::new(ek);
            chunks(cuda, sizes(p, KemOperation::Publish), |guard, from, lanes| {
                let out = (eks.next(lanes * p.ek_len()), &mut [][..]);
                keygen(guard, p, &seeds[from..from + lanes], out, statuses.next(lanes))
            })
        }
        Kem::Encaps { params: p, keys, m, ct, shared } => {
            let (mut cts, mut secrets) = (Remaining::new(ct), Remaining::new(shared));
            chunks(cuda, sizes(p, KemOperation::Encaps), |guard, from, lanes| {
                let keys =
                    KeyBytes::new(keys, from, lanes, p.ek_len(), |key| (key.id(), key.bytes()));
                let out = (cts.next(lanes * p.ct_len()), secrets.next(lanes));
                encaps(guard, p, &keys, &m[from..from + lanes], out, statuses.next(lanes))
            })
        }
        Kem::Decaps { params: p, keys, ct, shared } => {
            let mut secrets = Remaining::new(shared);
            chunks(cuda, sizes(p, KemOperation::Decaps), |guard, from, lanes| {
                let keys =
                    KeyBytes::new(keys, from, lanes, p.dk_len(), |key| (key.id(), key.bytes()));
                let ct = &ct[from * p.ct_len()..(from + lanes) * p.ct_len()];
                decaps(guard, p, &keys, ct, secrets.next(lanes), statuses.next(lanes))
            })
        }
        Kem::Generate { .. } | Kem::DecodePublic { .. } | Kem::DecodePrivate { .. } => {
            BatchOutcome::Declined
        }
    };
    if ran != BatchOutcome::Done {
        forget(kem, status);
    }
    ran
}

/// Wipes the outputs of an incomplete batch.
fn forget(kem: &mut Kem<'_>, status: &mut [Status]) {
    match kem {
        Kem::Keygen { ek, dk, .. } => {
            ct::wipe(ek);
            ct::wipe(dk);
        }
        Kem::Publish { ek, .. } => ct::wipe(ek),
        Kem::Encaps { ct, shared, .. } => {
            ct::wipe(ct);
            ct::wipe(shared);
        }
        Kem::Decaps { shared, .. } => ct::wipe(shared),
        Kem::Generate { .. } | Kem::DecodePublic { .. } | Kem::DecodePrivate { .. } => {}
    }
    status.fill(Status::NotRun);
}

/// The operation of a batch, which determines the arrays it needs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum KemOperation {
    Keygen,
    /// Key generation without decapsulation keys.
    Publish,
    Encaps,
    Decaps,
}

/// The arrays of an operation; unused ones are empty.
struct Arrays {
    seeds: Region,
    dk: Region,
    message: Region,
    shared: Region,
    pairs: Region,
    rejected: Region,
    hat: Region,
    noise: Region,
    prf: Region,
    again: Region,
    keys: Region,
    new_keys: Region,
    ek: Region,
    ct: Region,
    matrix: Region,
    valid: Region,
    status: Region,
    bytes: usize,
    secret: usize,
    tails: Vec<Region>,
}

impl Arrays {
    fn new(p: &Params, what: KemOperation, n: usize) -> Self {
        let mut layout = Layout::default();
        let of = |is_needed: bool| if is_needed { n } else { 0 };
        let decaps = what == KemOperation::Decaps;
        let keygen = matches!(what, KemOperation::Keygen | KemOperation::Publish);
        let mut arrays = Arrays {
            seeds: layout.array(of(keygen), SEED_LEN),
            dk: layout.array(of(decaps || what == KemOperation::Keygen), p.dk_len()),
            message: layout.array(of(!keygen), SECRET_LEN),
            shared: layout.array(of(!keygen), SECRET_LEN),
            pairs: layout.array(n, 2 * SECRET_LEN),
            rejected: layout.array(of(decaps), SECRET_LEN),
            hat: layout.array(n, p.k * POLY),
            noise: layout.array(of(keygen), p.k * POLY),
            prf: layout.array(n, (2 * p.k + 1) * 64 * p.eta1),
            again: layout.array(of(decaps), p.ct_len()),
            keys: Region::default(),
            new_keys: Region::default(),
            ek: Region::default(),
            ct: Region::default(),
            matrix: Region::default(),
            valid: Region::default(),
            status: Region::default(),
            bytes: 0,
            secret: 0,
            tails: Vec::new(),
        };
        layout.secrets_end();
        arrays.keys = layout.array(of(!keygen), size_of::<u64>());
        arrays.new_keys = layout.array(of(!keygen), size_of::<u64>());
        arrays.ek = layout.array(of(!decaps), p.ek_len());
        arrays.ct = layout.array(of(!keygen), p.ct_len());
        arrays.matrix = layout.array(n, p.k * p.k * POLY);
        arrays.valid = layout.array(n, size_of::<u32>());
        arrays.status = layout.array(n, size_of::<u32>());
        (arrays.bytes, arrays.secret) = (layout.bytes(), layout.secret());
        arrays.tails = layout.tails();
        arrays
    }
}

/// Lays out the arrays for `lanes` lanes and the canaries after them.
fn lay_out<'t, 'a, D: Device>(
    guard: &'t mut SlotGuard<'a, D>,
    p: &Params,
    what: KemOperation,
    (lanes, canaries): (usize, usize),
) -> Result<(Chunk<'t, 'a, D, KemArguments>, Arrays), Fault> {
    let set = match p.algorithm {
        Algorithm::MlKem512 => "kem512",
        Algorithm::MlKem768 => "kem768",
        _ => "kem1024",
    };
    let n = lanes + canaries;
    let arrays = Arrays::new(p, what, n);
    guard.reserve(arrays.bytes, arrays.secret, &arrays.tails)?;
    let at = |place: Region| guard.address(place.offset);
    // In decapsulation those within decapsulation keys.
    let (ek, ek_stride) = if what == KemOperation::Decaps {
        (at(arrays.dk) + 384 * p.k as u64, p.dk_len())
    } else {
        (at(arrays.ek), p.ek_len())
    };
    let arguments = KemArguments {
        seeds: at(arrays.seeds),
        ek,
        dk: if what == KemOperation::Publish { 0 } else { at(arrays.dk) },
        message: at(arrays.message),
        ct: at(arrays.ct),
        again: at(arrays.again),
        shared: at(arrays.shared),
        pairs: at(arrays.pairs),
        rejected: at(arrays.rejected),
        matrix: at(arrays.matrix),
        hat: at(arrays.hat),
        noise: at(arrays.noise),
        prf: at(arrays.prf),
        keys: 0,
        valid: at(arrays.valid),
        status: at(arrays.status),
        ek_stride: ek_stride as u32,
        n: n as u32,
        generation: guard.generation(),
        reserved: 0,
    };
    let (answers, status) = (Vec::new(), arrays.status);
    Ok((Chunk { guard, set, arguments, lanes, canaries, status, answers }, arrays))
}

/// Puts the keys of a chunk in place: resident if possible, and sent otherwise. Returns whether
/// A-hat has to be sampled.
fn place_keys<'a, D: Device>(
    chunk: &mut Chunk<'_, 'a, D, KemArguments>,
    at: &Arrays,
    (p, what): (&'static Params, KemOperation),
    keys: &KeyBytes<'a>,
    canary: &'static [u8],
) -> Result<bool, Fault> {
    let is_private = what == KemOperation::Decaps;
    let (matrix, k) = (p.k * p.k * POLY, p.k as u32);
    let each = matrix + if is_private { p.dk_len() } else { p.ek_len() + HASH_LEN };
    let each = each.next_multiple_of(ENTRY_ALIGNMENT);
    let kind = (p.algorithm, is_private);
    let Some((addresses, new)) = chunk.hold(kind, (each, matrix), keys, canary)? else {
        chunk.send_keys(if is_private { at.dk } else { at.ek }, keys, canary)?;
        return Ok(true);
    };
    let words = |addresses: &[u64]| {
        let mut bytes = vec![0; 8 * addresses.len()];
        for (word, address) in bytes.as_chunks_mut().0.iter_mut().zip(addresses) {
            *word = address.to_le_bytes();
        }
        bytes
    };
    let ek_at = if is_private { matrix + 384 * p.k } else { matrix };
    chunk.arguments.ek_stride = ek_at as u32;
    if !new.is_empty() {
        chunk.send_own(at.new_keys, words(&new))?;
        let keys = chunk.guard.address(at.new_keys.offset);
        let arguments = KemArguments { keys, n: new.len() as u32, ..chunk.arguments };
        chunk.run_with(&arguments, new.len(), &[("sample_matrix", k * k, PER_THREAD)])?;
        if !is_private {
            chunk.run_with(&arguments, new.len(), &[("resident_hash", 1, PER_THREAD)])?;
        }
    }
    chunk.send_own(at.keys, words(&addresses))?;
    chunk.arguments.keys = chunk.guard.address(at.keys.offset);
    Ok(false)
}

fn keygen<'a, D: Device>(
    guard: &mut SlotGuard<'a, D>,
    p: &'static Params,
    seeds: &'a [[u8; SEED_LEN]],
    (ek, dk): (&'a mut [u8], &'a mut [u8]),
    status: &'a mut [Status],
) -> Result<InFlight<'a, D>, Fault> {
    let canary = KemCanary::for_params(p).ok_or(Fault::NoMemory)?;
    let k = p.k as u32;
    let what = if dk.is_empty() { KemOperation::Publish } else { KemOperation::Keygen };
    let (mut chunk, at) = lay_out(guard, p, what, (seeds.len(), 1))?;
    chunk.send(at.seeds, seeds.as_flattened(), &[canary.seed.as_flattened()])?;
    chunk.run(&[
        ("seed", 1, PER_THREAD),
        ("sample_matrix", k * k, PER_THREAD),
        ("keygen_noise", 2 * k, PER_THREAD),
        ("transform_all", 2 * k, PER_WARP),
        ("keygen_row", k, PER_WARP),
        ("keygen_finish", 1, PER_THREAD),
    ])?;
    chunk.expect(at.ek, &[&canary.ek])?;
    chunk.fetch(at.ek, ek)?;
    if what == KemOperation::Keygen {
        chunk.expect(at.dk, &[&canary.dk])?;
        chunk.fetch(at.dk, dk)?;
    }
    chunk.start(status, &[Status::Ok])
}

fn encaps<'a, D: Device>(
    guard: &mut SlotGuard<'a, D>,
    p: &'static Params,
    keys: &KeyBytes<'a>,
    m: &'a [[u8; SECRET_LEN]],
    (ct, shared): (&'a mut [u8], &'a mut [[u8; SECRET_LEN]]),
    status: &'a mut [Status],
) -> Result<InFlight<'a, D>, Fault> {
    let canary = KemCanary::for_params(p).ok_or(Fault::NoMemory)?;
    let k = p.k as u32;
    let (mut chunk, at) = lay_out(guard, p, KemOperation::Encaps, (m.len(), 1))?;
    let samples = place_keys(&mut chunk, &at, (p, KemOperation::Encaps), keys, &canary.ek)?;
    chunk.send(at.message, m.as_flattened(), &[canary.m.as_flattened()])?;
    chunk.run(&[
        ("encaps_hash", 1, PER_THREAD),
        ("sample_matrix", if samples { k * k } else { 0 }, PER_THREAD),
        ("noise", 2 * k + 1, PER_THREAD),
        ("transform", k, PER_WARP),
        ("encrypt_row", k + 1, PER_WARP),
        ("encaps_finish", 1, PER_THREAD),
    ])?;
    chunk.expect(at.ct, &[&canary.ct])?;
    chunk.expect(at.shared, &[canary.shared.as_flattened()])?;
    chunk.fetch(at.ct, ct)?;
    chunk.fetch(at.shared, shared.as_flattened_mut())?;
    chunk.start(status, &[Status::Ok])
}

fn decaps<'a, D: Device>(
    guard: &mut SlotGuard<'a, D>,
    p: &'static Params,
    keys: &KeyBytes<'a>,
    ct: &'a [u8],
    shared: &'a mut [[u8; SECRET_LEN]],
    status: &'a mut [Status],
) -> Result<InFlight<'a, D>, Fault> {
    let canary = KemCanary::for_params(p).ok_or(Fault::NoMemory)?;
    let k = p.k as u32;
    let (mut chunk, at) = lay_out(guard, p, KemOperation::Decaps, (shared.len(), 2))?;
    let samples = place_keys(&mut chunk, &at, (p, KemOperation::Decaps), keys, &canary.dk)?;
    chunk.send(at.ct, ct, &[&canary.ct, &canary.bad_ct])?;
    chunk.run(&[
        ("decaps_unpack", k, PER_WARP),
        ("decaps_message", 1, PER_WARP),
        ("decaps_hash", 1, PER_THREAD),
        ("sample_matrix", if samples { k * k } else { 0 }, PER_THREAD),
        ("noise", 2 * k + 1, PER_THREAD),
        ("transform", k, PER_WARP),
        ("encrypt_row_again", k + 1, PER_WARP),
        ("decaps_finish", 1, PER_THREAD),
    ])?;
    chunk.expect(at.shared, &[canary.shared.as_flattened(), canary.bad_shared.as_flattened()])?;
    chunk.fetch(at.shared, shared.as_flattened_mut())?;
    chunk.start(status, &[Status::Ok; 2])
}
