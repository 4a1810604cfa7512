//! The masks y of ML-DSA: none serves twice and none has a pattern, in whatever lane, round, piece or thread; and what
//! becomes of the private key if one does (D. J. Bernstein, "Exploiting ML-DSA bugs", 2026).
//!
//! ```text
//!   z = y + c s1     one y for two messages    z - z' = (c - c') s1                   s1 by one division
//!                    y in pairs                z[2i] - z[2i+1] = (c s1)[2i] - ...     s1 by linear equations
//! ```
//!
//! Both attacks are run against signatures of kernels with a bug planted, where they have to find s1, and against ours,
//! where they must not.

use std::collections::HashSet;
use std::num::NonZero;
use std::sync::{Arc, Mutex};

use gabion_backend::{Backend, Cpu};
use gabion_engine::{Config, Engine, Limits, OsEntropy, Queue, Randomness};
use gabion_scheme::kernels::{DSA_Q, DsaPoly, N};
use gabion_tests::observer::{KernelObserver, ObservedKernels};

use super::*;

/// The bug in masks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    None,
    /// rho'' is equal for every message.
    SharedMask,
    /// Every second coefficient equals the one before it.
    Pairs,
}

/// Keeps what every mask was squeezed to, and plants a bug in it.
#[derive(Clone)]
struct Masks {
    bug: Bug,
    seen: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Masks {
    /// Kernels whose masks are kept.
    fn of<K>(inner: K, bug: Bug) -> ObservedKernels<K, Masks> {
        ObservedKernels { inner, touch: Masks { bug, seen: Arc::default() } }
    }

    fn take(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut *self.seen.lock().expect("no panic"))
    }
}

/// ExpandMask (FIPS 204, Algorithm 34): rho'' and two bytes to a polynomial of 18 or 20 bits a coefficient.
fn is_mask(job: &Sponge<'_>) -> bool {
    let input: usize = job.input.iter().map(|piece| piece.len()).sum();
    job.xof == Xof::Shake256 && input == 66 && matches!(job.output.len(), 576 | 640)
}

impl KernelObserver for Masks {
    fn sponges(&self, jobs: &mut [Sponge<'_>]) {
        for job in jobs.iter_mut().filter(|job| is_mask(job)) {
            match self.bug {
                Bug::None => {}
                Bug::SharedMask => {
                    let nonce = job.input.concat().split_off(64);
                    let pieces = [&[7; 64][..], &nonce];
                    Portable.sponge_many(&mut [Sponge::new(Xof::Shake256, pieces, job.output)]);
                }
                Bug::Pairs => {
                    // Four coefficients at a time.
                    let bits = job.output.len() / 32;
                    for bytes in job.output.chunks_exact_mut(bits / 2) {
                        let mut word = [0; 16];
                        word[..bits / 2].copy_from_slice(bytes);
                        let word = u128::from_le_bytes(word);
                        let one = |place: usize| word >> (place * bits) & ((1 << bits) - 1);
                        let both = |place: usize| one(place) | one(place) << bits;
                        let word = both(0) | both(2) << (2 * bits);
                        bytes.copy_from_slice(&word.to_le_bytes()[..bits / 2]);
                    }
                }
            }
            self.seen.lock().expect("no panic").push(job.output.to_vec());
        }
    }
}

/// The coefficients of a mask.
fn coefficients(mask: &[u8]) -> Vec<u32> {
    let bits = mask.len() / 32;
    let bit = |at: usize| u32::from(mask[at / 8] >> (at % 8) & 1);
    (0..N).map(|i| (0..bits).map(|j| bit(i * bits + j) << j).sum()).collect()
}

/// Returns whether masks repeat, as a whole or by their ends, or have a pattern: coefficients that
/// agree at some distance more often than four times, where one in 2^10 is to be expected.
fn is_sound(masks: &[Vec<u8>]) -> bool {
    let distinct: HashSet<&[u8]> = masks.iter().map(|mask| &mask[..]).collect();
    let starts: HashSet<&[u8]> = masks.iter().map(|mask| &mask[..18]).collect();
    let ends: HashSet<&[u8]> = masks.iter().map(|mask| &mask[mask.len() - 18..]).collect();
    let has_pattern = |mask: &Vec<u8>| {
        let y = coefficients(mask);
        (0..8).any(|log| (0..N).filter(|&i| y[i] == y[(i + (1 << log)) % N]).count() > 4)
    };
    [distinct.len(), starts.len(), ends.len()] == [masks.len(); 3] && !masks.iter().any(has_pattern)
}

/// Signatures by every door of an engine over these kernels, hedged: the masks that they took.
fn masks_of_every_door<K: Kernels + Clone + 'static>(kernels: &K, bug: Bug) -> Vec<Vec<u8>> {
    let masks = Masks::of(kernels.clone(), bug);
    if bug != Bug::None {
        // The self-test would not pass.
        let _ = attacked(&masks, sets()[0]);
        return masks.touch.take();
    }
    let backend: Box<dyn Backend> = Box::new(Cpu::new(masks.clone()));
    let engine = Engine::with_backends(vec![backend], &Config::default()).expect("an engine");
    let engine = Arc::new(engine);
    let mut all = Vec::new();
    for algorithm in [Algorithm::MlDsa44, Algorithm::MlDsa87] {
        let key = engine.signature_generate(algorithm, &OsEntropy).expect("a key");
        masks.touch.take();
        let message = Message::Pure { context: b"", message: b"the same" };
        engine.sign(&key, message, &OsEntropy).expect("a signature");
        let n = 2 * 64 + 3;
        let mut sigs = vec![0; n * algorithm.info().output.max()];
        let (mut lengths, mut status) = (vec![0; n], vec![Status::NotRun; n]);
        let (keys, messages) = (vec![&key; n], vec![message; n]);
        let fresh = Randomness::Fresh(&OsEntropy);
        let many = engine.sign_many(&keys, &messages, fresh, &mut sigs, &mut lengths, &mut status);
        many.expect("signatures");
        let cores = engine.parallel(NonZero::new(2).expect("not zero"));
        let entropy = Some(&OsEntropy as _);
        cores
            .sign_many(&keys, &messages, entropy, &mut sigs, &mut lengths, &mut status)
            .expect("signatures");
        let queue = Queue::new(Arc::clone(&engine), OsEntropy, Limits::default());
        let queue = queue.with_workers(NonZero::<usize>::MIN).expect("a thread");
        let tickets: Vec<_> =
            (0..20).map(|_| queue.submit_sign(&key, message).expect("room")).collect();
        tickets.into_iter().for_each(|ticket| drop(ticket.wait().expect("a signature")));
        all.extend(masks.touch.take());
    }
    all
}

/// A key and signatures of different messages by it.
fn attacked<K: Kernels>(kernels: &K, p: &'static Params) -> (SigningKey, Vec<u8>) {
    const LANES: usize = 20;
    let key = keys_of(kernels, p, 1).remove(0);
    let bodies = bodies(LANES);
    let rnd: Vec<[u8; 32]> = (0..LANES).map(|lane| painted(lane, 0x11)).collect();
    let (status, sigs) = sign(kernels, &[&key; LANES], &pure(&bodies), &rnd);
    assert_eq!(status, [Status::Ok; LANES]);
    (key, sigs)
}

/// The first polynomial of s1, as the private key has it behind rho, K and tr.
fn first_of_s1(key: &SigningKey, p: &Params) -> DsaPoly {
    let (bits, eta) = if p.algorithm == Algorithm::MlDsa65 { (4, 4) } else { (3, 2) };
    let mut poly = DsaPoly::default();
    Portable.dsa_bit_unpack(bits, eta, &key.bytes()[128..][..32 * bits], &mut poly);
    poly
}

/// c (SampleInBall, FIPS 204, Algorithm 29) and the first polynomial of z of a signature.
fn parts_of(p: &Params, sig: &[u8]) -> (DsaPoly, DsaPoly) {
    let (c_len, tau, bits) = match p.algorithm {
        Algorithm::MlDsa44 => (32, 39, 18),
        Algorithm::MlDsa65 => (48, 49, 20),
        _ => (64, 60, 20),
    };
    let mut stream = [0; 8 * 136];
    let squeeze = Sponge::new(Xof::Shake256, [&sig[..c_len]], &mut stream);
    Portable.sponge_many(&mut [squeeze]);
    let (signs, mut bytes) = (stream[..8].to_vec(), stream[8..].iter());
    let mut c = DsaPoly::default();
    for (count, i) in (N - tau..N).enumerate() {
        let j = bytes.by_ref().find(|&&byte| usize::from(byte) <= i).expect("enough bytes");
        let j = usize::from(*j);
        c.0[i] = c.0[j];
        c.0[j] = 1 - 2 * i32::from(signs[count / 8] >> (count % 8) & 1);
    }
    let mut z = DsaPoly::default();
    Portable.dsa_bit_unpack(bits, 1 << (bits - 1), &sig[c_len..][..32 * bits], &mut z);
    (c, z)
}

fn power(base: i64, mut exponent: u32) -> i64 {
    let (mut result, mut base) = (1, base);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = result * base % i64::from(DSA_Q);
        }
        base = base * base % i64::from(DSA_Q);
        exponent >>= 1;
    }
    result
}

fn inverse(x: i32) -> i32 {
    power(i64::from(x.rem_euclid(DSA_Q)), DSA_Q as u32 - 2) as i32
}

fn difference(a: &DsaPoly, b: &DsaPoly) -> DsaPoly {
    DsaPoly(std::array::from_fn(|i| a.0[i] - b.0[i]))
}

/// (z - z') / (c - c') of two signatures, if it is as small as s1.
fn divide(p: &Params, one: &[u8], other: &[u8]) -> Option<DsaPoly> {
    let ((c, z), (c_other, z_other)) = (parts_of(p, one), parts_of(p, other));
    let mut dividend = [difference(&z, &z_other)];
    let mut divisor = [difference(&c, &c_other)];
    Portable.dsa_ntt(&mut dividend);
    Portable.dsa_ntt(&mut divisor);
    let inverses = DsaPoly(divisor[0].0.map(inverse));
    let mut quotient = [DsaPoly::default()];
    Portable.dsa_pointwise(&mut quotient, &inverses, &dividend);
    Portable.dsa_inv_ntt(&mut quotient);
    small(quotient[0].0)
}

/// Coefficients next to zero, if all are within eta.
fn small(values: [i32; N]) -> Option<DsaPoly> {
    let centred = values.map(|x| (x.rem_euclid(DSA_Q) + DSA_Q / 2) % DSA_Q - DSA_Q / 2);
    centred.iter().all(|x| x.abs() <= 4).then_some(DsaPoly(centred))
}

/// s1 by two signatures that share a mask, if any two do.
fn by_division(p: &Params, sigs: &[u8]) -> Option<DsaPoly> {
    let sigs: Vec<&[u8]> = sigs.chunks_exact(p.sig_len()).collect();
    let pairs = (0..sigs.len()).flat_map(|i| (0..i).map(move |j| (i, j)));
    pairs.into_iter().find_map(|(i, j)| divide(p, sigs[i], sigs[j]))
}

/// s1 by the equations z\[2i\] - z\[2i + 1\] = (c s1)\[2i\] - (c s1)\[2i + 1\], if they have a small solution.
fn by_pairs(p: &Params, sigs: &[u8]) -> Option<DsaPoly> {
    let q = i64::from(DSA_Q);
    let mut rows: Vec<Vec<i64>> = Vec::new();
    for sig in sigs.chunks_exact(p.sig_len()).take(3) {
        let (c, z) = parts_of(p, sig);
        // The factor of s1[t] in coefficient m of c s1.
        let factor = |m: usize, t: usize| if m >= t { c.0[m - t] } else { -c.0[N + m - t] };
        for i in (0..N).step_by(2) {
            let row = (0..N).map(|t| i64::from(factor(i, t) - factor(i + 1, t)));
            let right = i64::from(z.0[i] - z.0[i + 1]);
            rows.push(row.chain([right]).map(|x| x.rem_euclid(q)).collect());
        }
    }
    for column in 0..N {
        let pivot = (column..rows.len()).find(|&row| rows[row][column] != 0)?;
        rows.swap(column, pivot);
        let scale = power(rows[column][column], DSA_Q as u32 - 2);
        rows[column].iter_mut().for_each(|x| *x = *x * scale % q);
        let pivot = rows[column].clone();
        for (_, row) in rows.iter_mut().enumerate().filter(|(at, _)| *at != column) {
            let factor = row[column];
            if factor != 0 {
                let pairs = row[column..].iter_mut().zip(&pivot[column..]);
                pairs.for_each(|(x, y)| *x = (*x + (q - factor) * y) % q);
            }
        }
    }
    // Equations beyond the 256 that are needed have to hold, too.
    let holds = rows[N..].iter().all(|row| row[N] == 0);
    holds.then(|| small(std::array::from_fn(|i| rows[i][N] as i32))).flatten()
}

/// No mask repeats or has a pattern: over lanes, refilled ones among them, rounds, batches, pieces of them, threads and
/// queues.
fn masks_are_distinct<K: Kernels + Clone + 'static>(kernels: &K) {
    let masks = masks_of_every_door(kernels, Bug::None);
    assert!(masks.len() > 2 * 280 * 4, "{} masks were seen", masks.len());
    assert!(is_sound(&masks));
    for bug in [Bug::SharedMask, Bug::Pairs] {
        assert!(!is_sound(&masks_of_every_door(kernels, bug)), "{bug:?} is not seen");
    }
}

/// The attacks find s1 where a bug is planted, and nothing in our signatures, with whatever lanes they were made.
fn keys_fall_to_bugs_alone<K: Kernels + Clone>(kernels: &K) {
    for p in sets() {
        let run = |bug| attacked(&Masks::of(kernels.clone(), bug), p);
        let (key, sigs) = run(Bug::SharedMask);
        assert_eq!(by_division(p, &sigs), Some(first_of_s1(&key, p)), "{}", p.name());
        let (key, sigs) = run(Bug::Pairs);
        assert_eq!(by_pairs(p, &sigs), Some(first_of_s1(&key, p)), "{}", p.name());
        let (_, sigs) = run(Bug::None);
        assert_eq!((by_division(p, &sigs), by_pairs(p, &sigs)), (None, None), "{}", p.name());
    }
}

gabion_tests::on_every_backend!(masks_are_distinct, keys_fall_to_bugs_alone);
