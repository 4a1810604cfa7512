//! Key generation, and keys expanded for their use on the device.
//!
//! The canary of key generation is one lane.

use gabion_backend::Ran;
use gabion_scheme::Status;
use gabion_scheme::ml_dsa::{MU_LEN, Params, SEED_LEN};

use super::{POLY, addresses, launch, threads, warps};
use crate::arguments::DsaKeyArguments;
use crate::canary::DsaCanary;
use crate::chunk::{Chunk, Flying, Rest, chunks, pieces};
use crate::cuda::Cuda;
use crate::device::{Device, Fault};
use crate::layout::{Layout, Place};
use crate::slots::Taken;

/// Lanes of a chunk that fill a device, below which a batch is not cut.
const ENOUGH: usize = 16384;
/// Bytes of an expanded key before its polynomials (`DsaKey` in `kernels/ml_dsa.cuh`).
const HEADER: usize = 128;

/// Bytes of an expanded public key: A-hat and t1-hat.
pub(super) fn public_bytes(p: &Params) -> usize {
    HEADER + (p.k * p.l + p.k) * POLY
}

/// Bytes of an expanded private key: A-hat, s1-hat and s2-hat in pairs, t0-hat.
pub(super) fn private_bytes(p: &Params) -> usize {
    HEADER + (p.k * p.l + p.l.div_ceil(2) + p.k / 2 + p.k) * POLY
}

/// Runs a checked key generation.
pub(super) fn run<D: Device>(
    cuda: &Cuda<D>,
    p: &'static Params,
    seeds: &[[u8; SEED_LEN]],
    (pk, sk): (&mut [u8], &mut [u8]),
    status: &mut [Status],
) -> Ran {
    let sizes = pieces(status.len(), fitting(p, cuda.slot_bytes()), ENOUGH);
    if sizes.is_empty() && !status.is_empty() {
        return Ran::Declined;
    }
    let (mut pks, mut sks, mut statuses) = (Rest::new(pk), Rest::new(sk), Rest::new(status));
    chunks(cuda, &sizes, |taken, from, lanes| {
        let out = (pks.next(lanes * p.pk_len()), sks.next(lanes * p.sk_len()));
        keygen(taken, p, &seeds[from..from + lanes], out, statuses.next(lanes))
    })
}

/// Lanes that fit into a slot beside the canary.
fn fitting(p: &Params, slot_bytes: usize) -> usize {
    let each = Arrays::new(p, 1 << 10).bytes >> 10;
    let mut fit = slot_bytes / each;
    while fit > 0 && Arrays::new(p, fit + 1).bytes > slot_bytes {
        fit -= 1;
    }
    fit
}

/// Where the arrays of key generation lie.
struct Arrays {
    seeds: Place,
    sk: Place,
    rho_prime: Place,
    halves: Place,
    vectors: Place,
    pk: Place,
    keys: Place,
    matrix: Place,
    status: Place,
    bytes: usize,
    secret: usize,
}

impl Arrays {
    /// For `n` lanes, the canary among them.
    fn new(p: &Params, n: usize) -> Self {
        let mut layout = Layout::default();
        let mut arrays = Arrays {
            seeds: layout.array(n, SEED_LEN),
            sk: layout.array(n, p.sk_len()),
            rho_prime: layout.array(n, MU_LEN),
            halves: layout.array(n, (p.l + p.k) * 128),
            vectors: layout.array(n, p.l * POLY),
            pk: Place::default(),
            keys: Place::default(),
            matrix: Place::default(),
            status: Place::default(),
            bytes: 0,
            secret: 0,
        };
        layout.secrets_end();
        arrays.pk = layout.array(n, p.pk_len());
        arrays.keys = layout.array(n, size_of::<u64>());
        arrays.matrix = layout.array(n, HEADER + p.k * p.l * POLY);
        arrays.status = layout.array(n, size_of::<u32>());
        (arrays.bytes, arrays.secret) = (layout.bytes(), layout.secret());
        arrays
    }
}

fn keygen<'a, D: Device>(
    taken: &mut Taken<'a, D>,
    p: &'static Params,
    seeds: &'a [[u8; SEED_LEN]],
    (pk, sk): (&'a mut [u8], &'a mut [u8]),
    status: &'a mut [Status],
) -> Result<Flying<'a>, Fault> {
    let canary = DsaCanary::of(p).ok_or(Fault::NoMemory)?;
    let n = seeds.len() + 1;
    let at = Arrays::new(p, n);
    taken.reserve(at.bytes, at.secret)?;
    let address = |place: Place| taken.address(place.offset);
    let arguments = DsaKeyArguments {
        seeds: address(at.seeds),
        pk: address(at.pk),
        sk: address(at.sk),
        rho_prime: address(at.rho_prime),
        halves: address(at.halves),
        vectors: address(at.vectors),
        keys: address(at.keys),
        faults: 0,
        status: address(at.status),
        n: n as u32,
        generation: taken.generation(),
    };
    let matrices = addresses(address(at.matrix), n, HEADER + p.k * p.l * POLY);
    let (lanes, status_words, answers) = (seeds.len(), at.status, Vec::new());
    let mut chunk = Chunk {
        taken,
        set: super::set(p),
        arguments,
        lanes,
        canaries: 1,
        status: status_words,
        answers,
    };
    chunk.send(at.seeds, seeds.as_flattened(), &[canary.seed.as_flattened()])?;
    chunk.send_own(at.keys, matrices)?;
    chunk.taken.clear(at.status.offset, at.status.bytes)?;
    let blocks = [
        ("keygen_seed", threads(n)),
        ("keygen_sample", threads(n * (p.l + p.k)) + threads(n * p.k * p.l)),
        ("keygen_transform", warps(n * (p.l + p.k))),
        ("keygen_row", warps(n * p.k)),
        ("keygen_finish", threads(n)),
    ];
    for (step, blocks) in blocks {
        // SAFETY: the arguments of these kernels, whose arrays are laid out for `n` operations.
        unsafe { launch(chunk.taken, p, step, &arguments, blocks)? };
    }
    chunk.expect(at.pk, &[&canary.pk])?;
    chunk.expect(at.sk, &[&canary.sk])?;
    chunk.fetch(at.pk, pk)?;
    chunk.fetch(at.sk, sk)?;
    chunk.fly(status, &[Status::Ok])
}

/// Expands public keys: `pk`, `keys`, `status` and `n` of the arguments.
///
/// # Safety
/// The arguments are of arrays in what was reserved of the slot.
pub(super) unsafe fn expand_public<D: Device>(
    taken: &mut Taken<'_, D>,
    p: &Params,
    arguments: &DsaKeyArguments,
) -> Result<(), Fault> {
    let n = arguments.n as usize;
    // SAFETY: the caller's.
    unsafe {
        launch(taken, p, "expand_public", arguments, threads(n) + threads(n * p.k * p.l))?;
        launch(taken, p, "public_transform", arguments, warps(n * p.k))
    }
}

/// Expands and checks private keys: all of the arguments but what key generation needs.
///
/// # Safety
/// The arguments are of arrays in what was reserved of the slot.
pub(super) unsafe fn expand_private<D: Device>(
    taken: &mut Taken<'_, D>,
    p: &Params,
    arguments: &DsaKeyArguments,
) -> Result<(), Fault> {
    let n = arguments.n as usize;
    let polys = p.l + p.l.div_ceil(2) + p.k / 2 + p.k;
    // SAFETY: the caller's.
    unsafe {
        launch(taken, p, "expand_private", arguments, threads(n) + threads(n * p.k * p.l))?;
        launch(taken, p, "private_transform", arguments, warps(n * polys))?;
        launch(taken, p, "private_row", arguments, warps(n * p.k))?;
        launch(taken, p, "expand_finish", arguments, threads(n))
    }
}
