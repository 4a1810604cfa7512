//! SHA-512 by the extension that comes with SHA3 (FEAT_SHA512), two streams side by side
//! (FIPS 180-4, section 6.4): for H and T_l of SLH-DSA with n above 16 (FIPS 205, section 11.2.2),
//! and for whole messages (Ed25519).
//!
//! Two rounds are two instructions, one of which waits for the other: two streams fill their gaps.
//!
//! Time depends on lengths only.

use core::arch::aarch64::*;

use gabion_scheme::kernels::sha512::{SHA512_INITIAL, Sha512};
use gabion_scheme::kernels::slh::SlhHash;

use super::registers;
use crate::common::chains::sha2::{for_each_block, in_groups};
use crate::common::memory::wipe;
use crate::common::sha2::SHA512_ROUNDS;

/// Streams that run side by side.
const STREAMS: usize = 2;
/// Bytes of a block.
const BLOCK: usize = 128;

/// The round constants, in memory for the loop.
static ROUNDS: [u64; 80] = SHA512_ROUNDS;

/// Words a and b, c and d, e and f, g and h.
type State = [uint64x2_t; 4];
/// A block, two words a register.
type Block = [uint64x2_t; 8];

/// One block into each of N states, side by side.
#[inline]
#[target_feature(enable = "neon,sha3")]
fn compress<const N: usize>(states: &mut [State; N], blocks: &[Block; N]) {
    let before = *states;
    let mut w = *blocks;
    for (pair, constants) in ROUNDS.as_chunks::<2>().0.iter().enumerate() {
        // SAFETY: two words.
        let constants = unsafe { vld1q_u64(constants.as_ptr()) };
        for (state, w) in states.iter_mut().zip(&mut w) {
            let next = w[0];
            // The two words of the schedule that are used sixteen rounds later; the last ones go
            // unused.
            let later = if pair < 32 {
                let middle = vextq_u64::<1>(w[4], w[5]);
                vsha512su1q_u64(vsha512su0q_u64(w[0], w[1]), w[7], middle)
            } else {
                next
            };
            *w = [w[1], w[2], w[3], w[4], w[5], w[6], w[7], later];
            let words = vaddq_u64(next, constants);
            let [ab, cd, ef, gh] = *state;
            let sum = vaddq_u64(vextq_u64::<1>(words, words), gh);
            let (fg, de) = (vextq_u64::<1>(ef, gh), vextq_u64::<1>(cd, ef));
            let sum = vsha512hq_u64(sum, fg, de);
            *state = [vsha512h2q_u64(sum, cd, ab), ab, vaddq_u64(cd, sum), ef];
        }
    }
    for (state, before) in states.iter_mut().zip(before) {
        for (word, before) in state.iter_mut().zip(before) {
            *word = vaddq_u64(*word, before);
        }
    }
}

#[inline]
#[target_feature(enable = "neon")]
fn load_state(words: &[u64; 8]) -> State {
    let mut state = [vdupq_n_u64(0); 4];
    for (state, words) in state.iter_mut().zip(words.as_chunks::<2>().0) {
        // SAFETY: two words.
        *state = unsafe { vld1q_u64(words.as_ptr()) };
    }
    state
}

#[inline]
#[target_feature(enable = "neon")]
fn load_block(block: &[u8; BLOCK]) -> Block {
    let mut words = [vdupq_n_u64(0); 8];
    for (words, bytes) in words.iter_mut().zip(block.as_chunks().0) {
        *words = vreinterpretq_u64_u8(vrev64q_u8(registers::load_16(bytes)));
    }
    words
}

/// Writes the first bytes of a hash value: a multiple of 8.
#[inline]
#[target_feature(enable = "neon")]
fn store_value(state: State, target: &mut [u8]) {
    for (words, bytes) in state.into_iter().zip(target.chunks_mut(16)) {
        let words = vrev64q_u8(vreinterpretq_u8_u64(words));
        match bytes.len() {
            // SAFETY: sixteen bytes.
            16 => unsafe { vst1q_u8(bytes.as_mut_ptr(), words) },
            // SAFETY: eight bytes.
            8 => unsafe { vst1_u8(bytes.as_mut_ptr(), vget_low_u8(words)) },
            rest => panic!("a hash value is whole words, not {rest} bytes more"),
        }
    }
}

/// Runs every hash of the SHA-2 family with n above 16, H and T_l, which are SHA-512.
#[target_feature(enable = "neon,sha3")]
pub(super) fn hash_many(jobs: &mut [SlhHash<'_>]) {
    in_groups::<STREAMS, _>(jobs, |group| match group {
        [_] => hash::<1>(group),
        _ => hash::<STREAMS>(group),
    });
    registers::clear();
}

/// Hashes up to N messages of the same length.
#[inline(never)]
#[target_feature(enable = "neon,sha3")]
fn hash<const N: usize>(jobs: &mut [SlhHash<'_>]) {
    let mut states = [[vdupq_n_u64(0); 4]; N];
    for (state, job) in states.iter_mut().zip(&*jobs) {
        *state = load_state(&job.context.sha512);
    }
    for_each_block::<N, BLOCK, _>(jobs, |blocks| {
        let mut words = [[vdupq_n_u64(0); 8]; N];
        for (words, block) in words.iter_mut().zip(blocks) {
            *words = load_block(block);
        }
        compress(&mut states, &words);
    });
    for (job, state) in jobs.iter_mut().zip(states) {
        store_value(state, job.output);
    }
    wipe(states.as_flattened_mut());
}

/// Hashes messages of any lengths from SHA-512's own initial state.
#[target_feature(enable = "neon,sha3")]
pub(super) fn hash_whole(jobs: &mut [Sha512<'_>]) {
    for job in jobs {
        let mut state = [load_state(&SHA512_INITIAL)];
        job.for_each_block(|block| compress(&mut state, &[load_block(block)]));
        store_value(state[0], job.digest);
        wipe(state.as_flattened_mut());
    }
    registers::clear();
}
