//! Hashes of trees of SLH-DSA on four lanes of SHA-512: H and T_l where n is above 16 (FIPS 205, section
//! 11.2.2).
//!
//! Time depends on lengths only.

use core::arch::x86_64::*;

use gabion_scheme::kernels::slh::SlhHash;

use super::keccak::transpose;
use super::registers;
use super::sha512::{BIG_ENDIAN, BLOCK, LANES, absorb, load_states};
use crate::common::chains::sha2::for_each_block;
use crate::common::memory::wipe;

/// Hashes four messages at most, all of one length, side by side. Lanes beyond them repeat the first.
#[inline(never)]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn hash(jobs: &mut [SlhHash<'_>]) {
    let lanes: [&SlhHash<'_>; LANES] =
        core::array::from_fn(|lane| &jobs[if lane < jobs.len() { lane } else { 0 }]);
    let mut state = [_mm256_setzero_si256(); 8];
    for (half, words) in state.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        *words = load_states(lanes.map(|job| &job.context.sha512.as_chunks().0[half]));
    }
    for_each_block::<LANES, BLOCK, _>(jobs, |blocks| absorb(&mut state, blocks.each_ref()));
    let order = registers::table(&BIG_ENDIAN);
    let [a, b, c, d, ..] = state;
    for (job, row) in jobs.iter_mut().zip(transpose([a, b, c, d])) {
        registers::store(job.output, _mm256_shuffle_epi8(row, order));
    }
    wipe(&mut state);
    registers::clear();
}
