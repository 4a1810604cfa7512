//! ML-KEM: polynomials straight from seeds, eight sponges side by side (FIPS 203, Algorithms 7 and
//! 8 and equation 4.3).
//!
//! ```text
//!   8 seeds --> 25 words of 8 lanes --permute--> transpose --> 8 rows --rejection or CBD--> 8 polynomials
//! ```
//!
//! The general scheduler would write the squeezed blocks to memory for another kernel to read
//! later, from the second-level cache. Here they are sampled at once, and if an entry of A runs
//! short, which one in 120 does, all eight squeeze another block for an eighth of a permutation
//! each.

use core::arch::x86_64::*;

use gabion_scheme::kernels::kem::{KemNoise, KemUniform, UNIFORM_BLOCKS};
use gabion_scheme::kernels::{KEM_Q, KemPoly, N, Xof};

use super::kem_pack::{binomial_2, cbd};
use super::pack;
use crate::avx512::keccak::{
    State, permute_8, permute_low_4, permute_short_8, permute_short_low_4, transpose,
};
use crate::avx512::registers;
use crate::common::memory::{unspecified, wipe};

/// Polynomials that are made side by side.
const LANES: usize = 8;
/// Bytes of a block of SHAKE128.
const RATE: usize = Xof::Shake128.rate();
/// Space for three blocks and the bytes that a whole register writes beyond them, or for two blocks
/// of SHAKE256.
const ROOM: usize = 576;

/// The bytes of each lane.
type Rows = [[u8; ROOM]; LANES];

/// Returns a seed, followed by `tail`: the other absorbed bytes, and the first bits of padding.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn message(seed: &[u8; 32], tail: i64) -> __m512i {
    let tail = _mm512_maskz_mov_epi64(1 << 4, _mm512_set1_epi64(tail));
    _mm512_or_si512(registers::load(seed, 0), tail)
}

/// Permutes the first `count` lanes.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn permute(state: &mut State, count: usize) {
    if count <= 4 { permute_low_4(state) } else { permute_8(state) }
}

/// Words `8 * g` to `8 * g + 7` of the states as a register of each lane.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn rows(state: &State, g: usize) -> [__m512i; LANES] {
    let mut words = [_mm512_setzero_si512(); LANES];
    words.copy_from_slice(&state[LANES * g..LANES * (g + 1)]);
    transpose(words)
}

/// Writes the first `groups` registers of each lane from byte `at` of its row on.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn squeeze(state: &State, groups: usize, squeezed: &mut Rows, at: usize) {
    for g in 0..groups {
        for (row, bytes) in rows(state, g).into_iter().zip(squeezed.iter_mut()) {
            registers::store(bytes, at + 64 * g, row, 64);
        }
    }
}

/// See [`gabion_scheme::kernels::Kernels::kem_sample_ntt_vartime`]. All of it is public.
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn sample_ntt_vartime(jobs: &mut [KemUniform<'_>]) {
    let mut squeezed: Rows = unspecified();
    for group in jobs.chunks_mut(LANES) {
        let mut messages = [_mm512_setzero_si512(); LANES];
        for (message_of, job) in messages.iter_mut().zip(group.iter()) {
            let index = i64::from(u16::from_le_bytes(job.index));
            *message_of = message(job.rho, index | i64::from(Xof::Shake128.suffix()) << 16);
        }
        let mut state = [_mm512_setzero_si512(); 25];
        state[..LANES].copy_from_slice(&transpose(messages));
        state[RATE / 8 - 1] = _mm512_set1_epi64(1 << 63);
        for block in 0..UNIFORM_BLOCKS {
            permute(&mut state, group.len());
            squeeze(&state, 3, &mut squeezed, RATE * block);
        }
        let mut counts = [N; LANES];
        for ((job, bytes), count) in group.iter_mut().zip(&squeezed).zip(&mut counts) {
            *count = parse_first(bytes, job.out);
        }
        while counts != [N; LANES] {
            permute(&mut state, group.len());
            squeeze(&state, 3, &mut squeezed, 0);
            for ((job, bytes), count) in group.iter_mut().zip(&squeezed).zip(&mut counts) {
                *count = parse(&bytes[..RATE], job.out, *count);
            }
        }
    }
}

/// Candidates of 48 bytes, and which of them are accepted.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn candidates(bytes: &[u8], at: usize) -> (__m512i, __mmask32) {
    let candidates = pack::unpack_words::<12>(registers::load(bytes, at));
    (candidates, _mm512_cmplt_epi16_mask(candidates, _mm512_set1_epi16(KEM_Q)))
}

/// SampleNTT from the first [`UNIFORM_BLOCKS`] blocks: how many coefficients there are.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn parse_first(bytes: &[u8; ROOM], out: &mut KemPoly) -> usize {
    /// Registers of candidates for which there is room even if all are accepted.
    const SURE: usize = N / 32;
    let target = registers::kem_bytes_mut(out);
    let mut count = 0;
    for i in 0..SURE {
        let (candidates, accepted) = candidates(bytes, 48 * i);
        let coefficients = _mm512_maskz_compress_epi16(accepted, candidates);
        // SAFETY: `count` is 32 i at most, so the register ends within the polynomial.
        unsafe { _mm512_storeu_si512(target.as_mut_ptr().add(2 * count).cast(), coefficients) };
        count += accepted.count_ones() as usize;
    }
    parse(&bytes[48 * SURE..UNIFORM_BLOCKS * RATE], out, count)
}

/// SampleNTT from more bytes, 3 or more, after the first `count` coefficients; how many there are then.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn parse(bytes: &[u8], out: &mut KemPoly, mut count: usize) -> usize {
    let out = registers::kem_bytes_mut(out);
    let mut at = 0;
    while at < bytes.len() && count < N {
        let (candidates, accepted) = candidates(bytes, at);
        let accepted = accepted & registers::first((bytes.len() - at) / 3 * 2) as u32;
        let coefficients = _mm512_maskz_compress_epi16(accepted, candidates);
        registers::store(out, 2 * count, coefficients, 2 * (N - count));
        count += accepted.count_ones() as usize;
        at += 48;
    }
    count.min(N)
}

/// See [`gabion_scheme::kernels::Kernels::kem_sample_cbd`].
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn sample_cbd(eta: usize, jobs: &mut [KemNoise<'_>]) {
    assert!(eta == 2 || eta == 3, "eta is 2 or 3, not {eta}");
    let mut squeezed: Rows = unspecified();
    let mut state: State = unspecified();
    let mut block = [_mm512_setzero_si512(); 13];
    for group in jobs.chunks_mut(LANES) {
        let mut messages = [_mm512_setzero_si512(); LANES];
        for (message_of, job) in messages.iter_mut().zip(group.iter()) {
            let suffix = i64::from(Xof::Shake256.suffix()) << 8;
            *message_of = message(job.seed, i64::from(job.index) | suffix);
        }
        block[..LANES].copy_from_slice(&transpose(messages));
        if group.len() <= 4 {
            permute_short_low_4(&block, &mut state);
        } else {
            permute_short_8(&block, &mut state);
        }
        if eta == 2 {
            let (first, second) = (rows(&state, 0), rows(&state, 1));
            for ((job, first), second) in group.iter_mut().zip(first).zip(second) {
                binomial_2(first, second, registers::kem_mut(job.out));
            }
            continue;
        }
        squeeze(&state, 3, &mut squeezed, 0);
        permute(&mut state, group.len());
        squeeze(&state, 1, &mut squeezed, Xof::Shake256.rate());
        for (job, bytes) in group.iter_mut().zip(&squeezed) {
            cbd(eta, &bytes[..64 * 3], core::slice::from_mut(job.out));
        }
    }
    if eta == 3 {
        wipe(&mut squeezed);
    }
    wipe(&mut block);
    wipe(&mut state);
    registers::clear();
}
