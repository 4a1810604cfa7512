//! ML-KEM on a device: which arrays lie where, which kernels run, and what is checked before anything leaves.
//!
//! The canary is one lane, and for decapsulation a second one whose ciphertext is rejected.

use gabion_backend::{Kem, Ran};
use gabion_scheme::algorithms::Algorithm;
use gabion_scheme::ml_kem::{Params, SECRET_LEN, SEED_LEN};
use gabion_scheme::{Status, ct};

use crate::arguments::KemArguments;
use crate::canary::KemCanary;
use crate::chunk::{Chunk, KeyBytes, PER_THREAD, PER_WARP, checked, chunks};
use crate::cuda::Cuda;
use crate::device::{Device, Fault};
use crate::layout::{Layout, Place};
use crate::slots::Taken;

/// Bytes of a polynomial.
const POLY: usize = 512;
/// Lanes of the canary, at most.
const CANARIES: usize = 2;

/// Runs a checked batch.
pub(crate) fn run<D: Device>(cuda: &Cuda<D>, kem: &mut Kem<'_>, status: &mut [Status]) -> Ran {
    let ran = match kem {
        Kem::Keygen { params, seeds, ek, dk } => {
            chunks(cuda, fitting(params, cuda.slot_bytes()), status.len(), |taken, from, lanes| {
                let (ek_len, dk_len) = (params.ek_len(), params.dk_len());
                let outputs = (
                    &mut ek[from * ek_len..(from + lanes) * ek_len],
                    &mut dk[from * dk_len..(from + lanes) * dk_len],
                );
                let status = &mut status[from..from + lanes];
                keygen(taken, params, &seeds[from..from + lanes], outputs, status)
            })
        }
        Kem::Encaps { params, keys, m, ct, shared } => {
            chunks(cuda, fitting(params, cuda.slot_bytes()), status.len(), |taken, from, lanes| {
                let ct_len = params.ct_len();
                let keys = KeyBytes::new(keys, from, lanes, params.ek_len(), |key| key.bytes());
                let ct = &mut ct[from * ct_len..(from + lanes) * ct_len];
                let outputs = (ct, &mut shared[from..from + lanes]);
                let status = &mut status[from..from + lanes];
                encaps(taken, params, &keys, &m[from..from + lanes], outputs, status)
            })
        }
        Kem::Decaps { params, keys, ct, shared } => {
            chunks(cuda, fitting(params, cuda.slot_bytes()), status.len(), |taken, from, lanes| {
                let ct_len = params.ct_len();
                let keys = KeyBytes::new(keys, from, lanes, params.dk_len(), |key| key.bytes());
                let ct = &ct[from * ct_len..(from + lanes) * ct_len];
                let (shared, status) =
                    (&mut shared[from..from + lanes], &mut status[from..from + lanes]);
                decaps(taken, params, &keys, ct, shared, status)
            })
        }
        Kem::Generate { .. } | Kem::DecodePublic { .. } | Kem::DecodePrivate { .. } => {
            Ran::Declined
        }
    };
    if ran != Ran::Done {
        forget(kem, status);
    }
    ran
}

/// Leaves nothing of a batch that did not come to its end.
fn forget(kem: &mut Kem<'_>, status: &mut [Status]) {
    match kem {
        Kem::Keygen { ek, dk, .. } => {
            ct::wipe(ek);
            ct::wipe(dk);
        }
        Kem::Encaps { ct, shared, .. } => {
            ct::wipe(ct);
            ct::wipe(shared);
        }
        Kem::Decaps { shared, .. } => ct::wipe(shared),
        Kem::Generate { .. } | Kem::DecodePublic { .. } | Kem::DecodePrivate { .. } => {}
    }
    status.fill(Status::NotRun);
}

/// Lanes that fit into a slot beside the canary.
fn fitting(p: &Params, slot_bytes: usize) -> usize {
    let with = |lanes: usize| Arrays::new(p, lanes + CANARIES).bytes;
    // What a lane takes, not counting what alignment adds.
    let each = (with(1 << 20) - with(0)) >> 20;
    let mut fit = slot_bytes.saturating_sub(with(0)) / each;
    while fit > 0 && with(fit) > slot_bytes {
        fit -= 1;
    }
    fit
}

/// Where the arrays of all three operations lie.
struct Arrays {
    seeds: Place,
    ek: Place,
    dk: Place,
    message: Place,
    ct: Place,
    again: Place,
    shared: Place,
    pairs: Place,
    rejected: Place,
    matrix: Place,
    hat: Place,
    noise: Place,
    valid: Place,
    status: Place,
    bytes: usize,
}

impl Arrays {
    fn new(p: &Params, n: usize) -> Self {
        let mut layout = Layout::default();
        let mut arrays = Arrays {
            seeds: layout.array(n, SEED_LEN),
            ek: layout.array(n, p.ek_len()),
            dk: layout.array(n, p.dk_len()),
            message: layout.array(n, SECRET_LEN),
            ct: layout.array(n, p.ct_len()),
            again: layout.array(n, p.ct_len()),
            shared: layout.array(n, SECRET_LEN),
            pairs: layout.array(n, 2 * SECRET_LEN),
            rejected: layout.array(n, SECRET_LEN),
            matrix: layout.array(n, p.k * p.k * POLY),
            hat: layout.array(n, p.k * POLY),
            noise: layout.array(n, (p.k + 1) * POLY),
            valid: layout.array(n, size_of::<u32>()),
            status: layout.array(n, size_of::<u32>()),
            bytes: 0,
        };
        arrays.bytes = layout.bytes();
        arrays
    }
}

/// Lays out the arrays for `lanes` lanes and the canaries after them. `ek_in_dk` where encapsulation keys are those within
/// decapsulation keys.
fn lay_out<'a, 'b, D: Device>(
    taken: &'a mut Taken<'b, D>,
    p: &Params,
    (lanes, canaries): (usize, usize),
    ek_in_dk: bool,
) -> Result<(Chunk<'a, 'b, D, KemArguments>, Arrays), Fault> {
    let set = match p.algorithm {
        Algorithm::MlKem512 => "kem512",
        Algorithm::MlKem768 => "kem768",
        _ => "kem1024",
    };
    let n = lanes + canaries;
    let arrays = Arrays::new(p, n);
    taken.reserve(arrays.bytes)?;
    let at = |place: Place| taken.address(place.offset);
    let (ek, ek_stride) = if ek_in_dk {
        (at(arrays.dk) + 384 * p.k as u64, p.dk_len())
    } else {
        (at(arrays.ek), p.ek_len())
    };
    let arguments = KemArguments {
        seeds: at(arrays.seeds),
        ek,
        dk: at(arrays.dk),
        message: at(arrays.message),
        ct: at(arrays.ct),
        again: at(arrays.again),
        shared: at(arrays.shared),
        pairs: at(arrays.pairs),
        rejected: at(arrays.rejected),
        matrix: at(arrays.matrix),
        hat: at(arrays.hat),
        noise: at(arrays.noise),
        valid: at(arrays.valid),
        status: at(arrays.status),
        ek_stride: ek_stride as u32,
        n: n as u32,
        generation: taken.generation(),
        reserved: 0,
    };
    Ok((Chunk { taken, set, arguments, lanes, canaries, status: arrays.status }, arrays))
}

fn keygen<D: Device>(
    taken: &mut Taken<'_, D>,
    p: &'static Params,
    seeds: &[[u8; SEED_LEN]],
    (ek, dk): (&mut [u8], &mut [u8]),
    status: &mut [Status],
) -> Result<(), Fault> {
    let canary = KemCanary::of(p).ok_or(Fault::NoMemory)?;
    let k = p.k as u32;
    let mut run = || {
        let (mut chunk, at) = lay_out(taken, p, (seeds.len(), 1), false)?;
        chunk.send(at.seeds, seeds.as_flattened(), &[canary.seed.as_flattened()])?;
        chunk.run(&[
            ("seed", 1, PER_THREAD),
            ("sample_matrix", k * k, PER_THREAD),
            ("keygen_noise", 2 * k, PER_THREAD),
            ("transform_all", 2 * k, PER_WARP),
            ("keygen_row", k, PER_WARP),
            ("keygen_finish", 1, PER_THREAD),
        ])?;
        chunk.verdicts(status, &[Status::Ok])?;
        chunk.canary_is(at.ek, &[&canary.ek])?;
        chunk.canary_is(at.dk, &[&canary.dk])?;
        chunk.fetch(at.ek, status, ek)?;
        chunk.fetch(at.dk, status, dk)
    };
    let done = run();
    checked(taken, done)
}

fn encaps<D: Device>(
    taken: &mut Taken<'_, D>,
    p: &'static Params,
    keys: &KeyBytes<'_>,
    m: &[[u8; SECRET_LEN]],
    (ct, shared): (&mut [u8], &mut [[u8; SECRET_LEN]]),
    status: &mut [Status],
) -> Result<(), Fault> {
    let canary = KemCanary::of(p).ok_or(Fault::NoMemory)?;
    let k = p.k as u32;
    let mut run = || {
        let (mut chunk, at) = lay_out(taken, p, (m.len(), 1), false)?;
        chunk.send_keys(at.ek, keys, &canary.ek)?;
        chunk.send(at.message, m.as_flattened(), &[canary.m.as_flattened()])?;
        chunk.run(&[
            ("encaps_hash", 1, PER_THREAD),
            ("sample_matrix", k * k, PER_THREAD),
            ("sample_y", k, PER_THREAD),
            ("sample_e", k + 1, PER_THREAD),
            ("transform", k, PER_WARP),
            ("encrypt_row", k + 1, PER_WARP),
            ("encaps_finish", 1, PER_THREAD),
        ])?;
        chunk.verdicts(status, &[Status::Ok])?;
        chunk.canary_is(at.ct, &[&canary.ct])?;
        chunk.canary_is(at.shared, &[canary.shared.as_flattened()])?;
        chunk.fetch(at.ct, status, ct)?;
        chunk.fetch(at.shared, status, shared.as_flattened_mut())
    };
    let done = run();
    checked(taken, done)
}

fn decaps<D: Device>(
    taken: &mut Taken<'_, D>,
    p: &'static Params,
    keys: &KeyBytes<'_>,
    ct: &[u8],
    shared: &mut [[u8; SECRET_LEN]],
    status: &mut [Status],
) -> Result<(), Fault> {
    let canary = KemCanary::of(p).ok_or(Fault::NoMemory)?;
    let k = p.k as u32;
    let mut run = || {
        let (mut chunk, at) = lay_out(taken, p, (shared.len(), 2), true)?;
        chunk.send_keys(at.dk, keys, &canary.dk)?;
        chunk.send(at.ct, ct, &[&canary.ct, &canary.bad_ct])?;
        chunk.run(&[
            ("decaps_unpack", k, PER_WARP),
            ("decaps_message", 1, PER_WARP),
            ("decaps_hash", 1, PER_THREAD),
            ("sample_matrix", k * k, PER_THREAD),
            ("sample_y", k, PER_THREAD),
            ("sample_e", k + 1, PER_THREAD),
            ("transform", k, PER_WARP),
            ("encrypt_row_again", k + 1, PER_WARP),
            ("decaps_finish", 1, PER_THREAD),
        ])?;
        chunk.verdicts(status, &[Status::Ok; 2])?;
        let expected = [canary.shared.as_flattened(), canary.bad_shared.as_flattened()];
        chunk.canary_is(at.shared, &expected)?;
        chunk.fetch(at.shared, status, shared.as_flattened_mut())
    };
    let done = run();
    checked(taken, done)
}
