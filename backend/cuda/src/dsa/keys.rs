//! Key generation, and keys expanded for their use on the device.
//!
//! The canary of key generation is one lane.

use std::collections::HashMap;

use gabion_backend::{BatchOutcome, Keys};
use gabion_scheme::Status;
use gabion_scheme::ml_dsa::{MU_LEN, Params, SEED_LEN};

use super::{CANARIES, POLY, launch, threads, warps, words};
use crate::arguments::DsaKeyArguments;
use crate::canary::DsaCanary;
use crate::chunk::{Chunk, InFlight, KeyBytes, Remaining, chunks, pieces};
use crate::cuda::Cuda;
use crate::device::{Arguments, Device, Fault};
use crate::layout::{Layout, Region, largest_fit};
use crate::slots::SlotGuard;

/// Lanes of a chunk that fill a device, below which a batch is not cut.
const ENOUGH: usize = 16384;
/// Entries of resident keys begin at multiples of this.
const ENTRY_ALIGNMENT: usize = 256;
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
) -> BatchOutcome {
    let fits = |lanes| Arrays::new(p, lanes + 1).bytes <= cuda.slot_bytes();
    let sizes = pieces(status.len(), largest_fit(status.len(), fits), ENOUGH);
    let (mut pks, mut sks, mut statuses) =
        (Remaining::new(pk), Remaining::new(sk), Remaining::new(status));
    chunks(cuda, sizes, |guard, from, lanes| {
        let out = (pks.next(lanes * p.pk_len()), sks.next(lanes * p.sk_len()));
        keygen(guard, p, &seeds[from..from + lanes], out, statuses.next(lanes))
    })
}

/// The arrays of key generation.
struct Arrays {
    seeds: Region,
    sk: Region,
    rho_prime: Region,
    halves: Region,
    vectors: Region,
    pk: Region,
    keys: Region,
    matrix: Region,
    status: Region,
    bytes: usize,
    secret: usize,
    tails: Vec<Region>,
}

impl Arrays {
    /// Lays them out for `n` lanes, including the canary.
    fn new(p: &Params, n: usize) -> Self {
        let mut layout = Layout::default();
        let mut arrays = Arrays {
            seeds: layout.array(n, SEED_LEN),
            sk: layout.array(n, p.sk_len()),
            rho_prime: layout.array(n, MU_LEN),
            halves: layout.array(n, (p.l + p.k) * 128),
            vectors: layout.array(n, p.l * POLY),
            pk: Region::default(),
            keys: Region::default(),
            matrix: Region::default(),
            status: Region::default(),
            bytes: 0,
            secret: 0,
            tails: Vec::new(),
        };
        layout.secrets_end();
        arrays.pk = layout.array(n, p.pk_len());
        arrays.keys = layout.array(n, size_of::<u64>());
        arrays.matrix = layout.array(n, HEADER + p.k * p.l * POLY);
        arrays.status = layout.array(n, size_of::<u32>());
        (arrays.bytes, arrays.secret) = (layout.bytes(), layout.secret());
        arrays.tails = layout.tails();
        arrays
    }
}

fn keygen<'a, D: Device>(
    guard: &mut SlotGuard<'a, D>,
    p: &'static Params,
    seeds: &'a [[u8; SEED_LEN]],
    (pk, sk): (&'a mut [u8], &'a mut [u8]),
    status: &'a mut [Status],
) -> Result<InFlight<'a, D>, Fault> {
    let canary = DsaCanary::for_params(p).ok_or(Fault::NoMemory)?;
    let n = seeds.len() + 1;
    let at = Arrays::new(p, n);
    guard.reserve(at.bytes, at.secret, &at.tails)?;
    let address = |place: Region| guard.address(place.offset);
    let arguments = DsaKeyArguments {
        seeds: address(at.seeds),
        pk: address(at.pk),
        sk: address(at.sk),
        rho_prime: address(at.rho_prime),
        halves: address(at.halves),
        vectors: address(at.vectors),
        keys: address(at.keys),
        status: address(at.status),
        n: n as u32,
        generation: guard.generation(),
        ..DsaKeyArguments::default()
    };
    let (matrix, each) = (address(at.matrix), HEADER + p.k * p.l * POLY);
    let matrices = words((0..n).map(|i| matrix + (i * each) as u64));
    let (lanes, status_words, answers) = (seeds.len(), at.status, Vec::new());
    let mut chunk = Chunk {
        guard,
        set: super::set(p),
        arguments,
        lanes,
        canaries: 1,
        status: status_words,
        answers,
    };
    chunk.send(at.seeds, seeds.as_flattened(), &[canary.seed.as_flattened()])?;
    chunk.send_own(at.keys, matrices)?;
    chunk.guard.clear(at.status.offset, at.status.bytes)?;
    let blocks = [
        ("keygen_seed", threads(n)),
        ("keygen_sample", threads(n * (p.l + p.k)) + threads(n * p.k * p.l)),
        ("keygen_transform", warps(n * (p.l + p.k))),
        ("keygen_row", warps(n * p.k)),
        ("keygen_finish", threads(n)),
    ];
    for (step, blocks) in blocks {
        // SAFETY: the arguments of these kernels, whose arrays are laid out for `n` operations.
        unsafe { launch(chunk.guard, p, step, &arguments, blocks)? };
    }
    chunk.expect(at.pk, &[&canary.pk])?;
    chunk.expect(at.sk, &[&canary.sk])?;
    chunk.fetch(at.pk, pk)?;
    chunk.fetch(at.sk, sk)?;
    chunk.start(status, &[Status::Ok])
}

/// Returns how many different keys a batch has; as many as lanes where they are sent encoded.
pub(super) fn count<T>(keys: &Keys<'_, T>, id: impl Fn(&T) -> u64) -> usize {
    match keys {
        Keys::Fresh(_) => usize::MAX,
        Keys::Known(keys) => {
            let mut ids: Vec<u64> = keys.iter().map(|key| id(key)).collect();
            ids.sort_unstable();
            ids.dedup();
            ids.len()
        }
    }
}

/// Keys that a chunk of so many lanes has room for, at most, if the batch has `count` different ones: one for each lane,
/// or each once and the canary's.
pub(super) fn room(count: usize, lanes: usize) -> usize {
    if count == usize::MAX { lanes + CANARIES } else { count.min(lanes) + 1 }
}

/// The keys of a chunk: the encoded bytes, their expanded form, and where both are.
pub(super) struct Expansion {
    pub(super) params: &'static Params,
    pub(super) is_private: bool,
    /// Room for encoded keys and for expanded ones, and the addresses of the latter: of each lane, and of those that are
    /// made.
    pub(super) encoded: Region,
    pub(super) expanded: Region,
    pub(super) keys: Region,
    pub(super) new_keys: Region,
    /// The canary's keys.
    pub(super) canary: [&'static [u8]; CANARIES],
}

impl Expansion {
    /// Expands the keys: resident, if possible, or otherwise in the slot. `arguments` are for
    /// arrays of as many operations as there is space for keys.
    pub(super) fn run<'a, D: Device, A: Arguments>(
        &self,
        chunk: &mut Chunk<'_, 'a, D, A>,
        keys: &KeyBytes<'a>,
        arguments: DsaKeyArguments,
    ) -> Result<(), Fault> {
        let p = self.params;
        let (expanded, encoded) = if self.is_private {
            (private_bytes(p), p.sk_len())
        } else {
            (public_bytes(p), p.pk_len())
        };
        // An entry of a resident key: the expanded one, and the encoded one after it.
        let each = (expanded + encoded).next_multiple_of(ENTRY_ALIGNMENT);
        let kind = (p.algorithm, self.is_private);
        let canary = self.canary[CANARIES - 1];
        if let Some((resident, new)) = chunk.hold(kind, (each, expanded), keys, canary)? {
            if !new.is_empty() {
                let n = new.len() as u32;
                chunk.send_own(self.new_keys, words(new.into_iter()))?;
                let keys = chunk.guard.address(self.new_keys.offset);
                let encoded_at = expanded as u32;
                self.expand(chunk, &DsaKeyArguments { keys, n, encoded_at, ..arguments })?;
            }
            return chunk.send_own(self.keys, words(resident.into_iter()));
        }
        let start = chunk.guard.address(self.expanded.offset);
        let address = |index: usize| start + (index * expanded) as u64;
        let count = match keys {
            KeyBytes::Contiguous(bytes) => {
                chunk.send(self.encoded, bytes, &self.canary)?;
                let n = chunk.lanes + chunk.canaries;
                chunk.send_own(self.keys, words((0..n).map(address)))?;
                n
            }
            KeyBytes::Separate(keys) => {
                // Each key once, and the canary's.
                let mut places = HashMap::new();
                let mut bytes = Vec::with_capacity(self.encoded.bytes);
                let mut lanes = Vec::with_capacity(chunk.lanes + chunk.canaries);
                for (id, key) in keys {
                    let next = places.len();
                    let place = *places.entry(*id).or_insert(next);
                    if place == next {
                        bytes.extend_from_slice(key);
                    }
                    lanes.push(address(place));
                }
                bytes.extend_from_slice(canary);
                lanes.resize(chunk.lanes + chunk.canaries, address(places.len()));
                chunk.send_own(self.encoded, bytes)?;
                chunk.send_own(self.keys, words(lanes.into_iter()))?;
                places.len() + 1
            }
        };
        chunk.send_own(self.new_keys, words((0..count).map(address)))?;
        let keys = chunk.guard.address(self.new_keys.offset);
        self.expand(chunk, &DsaKeyArguments { keys, n: count as u32, ..arguments })
    }

    /// Runs the kernels that expand `n` keys.
    fn expand<D: Device, A: Arguments>(
        &self,
        chunk: &mut Chunk<'_, '_, D, A>,
        arguments: &DsaKeyArguments,
    ) -> Result<(), Fault> {
        let (p, n) = (self.params, arguments.n as usize);
        let first = threads(n) + threads(n * p.k * p.l);
        let polys = p.l + p.l.div_ceil(2) + p.k / 2 + p.k;
        let private = [
            ("expand_private", first),
            ("private_transform", warps(n * polys)),
            ("private_row", warps(n * p.k)),
            ("expand_finish", threads(n)),
        ];
        let public = [("expand_public", first), ("public_transform", warps(n * p.k))];
        for &(step, blocks) in if self.is_private { &private[..] } else { &public } {
            // SAFETY: the arguments of these kernels; there is room for `n` keys, and each is where the arguments say.
            unsafe { launch(chunk.guard, p, step, arguments, blocks)? };
        }
        Ok(())
    }
}
