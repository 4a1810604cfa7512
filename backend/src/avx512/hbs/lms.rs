//! LMS on sixteen lanes of SHA-256 (RFC 8554): chains, and blocks of tree hashes.
//!
//! The choice between lanes and the SHA extensions for large inputs is the same as for SLH-DSA
//! ([`sha256_lanes`] has the figures): a step of a chain is one block in both. The last chains, too
//! few for lanes, continue by the extensions or in general registers.
//!
//! Time depends on `start` and `steps` of the chains and on lengths, never on the hashed input.

use core::arch::x86_64::*;

use gabion_scheme::kernels::Kernels;
use gabion_scheme::kernels::lms::{LmsChain, LmsHash};
use gabion_scheme::kernels::slh::SHA256_START;

use crate::avx512::sha2::pieces::{self, padding};
use crate::avx512::sha2::sha256::Streams;
use crate::avx512::sha2::sha256_lanes::{
    self, BIG_ENDIAN, BLOCK, LANES, advance, compress, rows_mut, transpose, words_to_rows,
};
use crate::avx512::{Avx512, registers};
use crate::common::chains::sha2::{ADDRESS, in_groups};
use crate::common::chains::sha256::{Chains, LMS, Steps, chain_many as in_lanes};
use crate::common::memory::wipe;
use crate::portable::Portable;
use crate::x86::sha_ni;

/// Sixteen lanes, and the streams that run batches too small for them.
#[derive(Clone, Copy)]
struct Lanes {
    streams: Option<Streams>,
}

impl<'a> Steps<LmsChain<'a>, LANES> for Lanes {
    #[inline(always)]
    fn steps<const V: usize>(self, chains: &mut Chains<LANES>, steps: u32) {
        // SAFETY: `Lanes` is only constructed where AVX-512 is available.
        unsafe { advance::<V, LMS>(rows_mut(chains), steps) }
    }

    #[inline(always)]
    fn few(self) -> usize {
        // As for SLH-DSA.
        if self.streams.is_some() { 9 } else { 4 }
    }

    #[inline(always)]
    fn run_few(self, jobs: &mut [LmsChain<'a>]) {
        match self.streams {
            // SAFETY: the token proves that the processor has the extensions.
            Some(streams) => unsafe { sha_ni::chain_many(streams, jobs) },
            None => Portable.lms_chain_many(jobs),
        }
    }

    #[inline(always)]
    fn clear(self) {
        // SAFETY: `Lanes` is only constructed where AVX-512 is available.
        unsafe { registers::clear() }
    }
}

/// Runs every chain of SHA-256 to its end.
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn chain_many(kernels: Avx512, jobs: &mut [LmsChain<'_>]) {
    match kernels {
        // SAFETY: the token proves that the processor has the extensions.
        Avx512 { streams: Some(streams), lanes: false, .. } => unsafe {
            sha_ni::chain_many(streams, jobs)
        },
        Avx512 { streams, .. } => in_lanes(Lanes { streams }, jobs),
    }
}

/// Runs every hash of SHA-256.
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn hash_many(kernels: Avx512, jobs: &mut [LmsHash<'_>]) {
    let Avx512 { streams, lanes, .. } = kernels;
    let isa = Lanes { streams };
    in_groups::<LANES, _>(jobs, |group| match streams {
        _ if lanes && group.len() > isa.few() => hash(group),
        // SAFETY: the token proves that the processor has the extensions.
        Some(streams) => unsafe { sha_ni::lms_hash_many(streams, group) },
        None => Portable.lms_hash_many(group),
    });
    registers::clear();
}

/// The 64 bytes at `64 * i` of a prefix and an input.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn piece(job: &LmsHash<'_>, i: usize) -> __m512i {
    if i > 0 {
        return pieces::later(job.input, i);
    }
    pieces::first(registers::load(&job.prefix, 0), job.input)
}

/// Hashes messages of one length, sixteen at most, side by side. Lanes beyond them repeat the first.
#[inline(never)]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn hash(jobs: &mut [LmsHash<'_>]) {
    let length = jobs[0].input.len();
    assert!(jobs.iter().all(|job| job.input.len() == length), "lanes of one length");
    let order = registers::table(&BIG_ENDIAN);
    let mut state = sha256_lanes::states(|_| &SHA256_START);
    let mut rows = [_mm512_setzero_si512(); LANES];
    // The bit that ends the message is followed by the length.
    let pieces = (ADDRESS + length + 1 + 8).div_ceil(BLOCK);
    for i in 0..pieces {
        let padding = padding::<0>(length, i, pieces);
        for (lane, row) in rows.iter_mut().enumerate() {
            let job = &jobs[if lane < jobs.len() { lane } else { 0 }];
            *row = _mm512_shuffle_epi8(_mm512_or_si512(piece(job, i), padding), order);
        }
        compress::<LMS>(&mut state, transpose(rows));
    }
    for (job, row) in jobs.iter_mut().zip(words_to_rows(state)) {
        registers::store_hash(job.output, row);
    }
    wipe(&mut rows);
}
