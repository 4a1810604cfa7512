//! SLH-DSA on sixteen lanes of SHA-256 (FIPS 205, section 11.2): which chains and hashes have which
//! lane, and which are too few for lanes.
//!
//! ```text
//!   chains of one shape, as those of a key and the leaves of FORS are --> sixteen begin and end together
//!   chains of any shape --> crate::common::chains::sha256: a lane whose chain has ended takes the next one
//!   the last ones, too few --> four streams of the SHA extensions, or general registers
//! ```
//!
//! Time depends on `start` and `steps` of the chains and on lengths, never on the hashed input.

use core::arch::x86_64::*;

use gabion_scheme::kernels::Kernels;
use gabion_scheme::kernels::slh::{SlhAddress, SlhChain, SlhContext, SlhHash};

use super::sha512::piece;
use crate::avx512::registers;
use crate::avx512::sha2::pieces::padding;
use crate::avx512::sha2::sha256::Streams;
use crate::avx512::sha2::sha256_lanes::{
    self, BIG_ENDIAN, BLOCK, LANES, Rows, advance, compress, halves, load_32, load_words, rows_mut,
    transpose, words_of_halves, words_to_rows,
};
use crate::common::chains::sha2::{ADDRESS, in_groups};
use crate::common::chains::sha256::{
    ADDRESS_ROW, Chains, HASH_ROW, OF_SECRET, SLH, Steps, VALUE_ROW, chain_many as in_lanes,
};
use crate::common::memory::{Table, wipe};
use crate::portable::Portable;
use crate::x86::sha_ni;

/// Sixteen lanes, and the streams that run batches too small for them.
#[derive(Clone, Copy)]
pub(crate) struct Lanes {
    pub(crate) streams: Option<Streams>,
}

impl<'a> Steps<SlhChain<'a>, LANES> for Lanes {
    #[inline(always)]
    fn steps<const V: usize>(self, chains: &mut Chains<LANES>, steps: u32) {
        // SAFETY: `Lanes` is only constructed where AVX-512 is available.
        unsafe { advance::<V, SLH>(rows_mut(chains), steps) }
    }

    #[inline(always)]
    fn few(self) -> usize {
        // A step of all lanes takes the same time however many are used. On Intel's processors that is as long as
        // eight steps by the SHA extensions, or four in general registers.
        if self.streams.is_some() { 9 } else { 4 }
    }

    #[inline(always)]
    fn run_few(self, jobs: &mut [SlhChain<'a>]) {
        match self.streams {
            // SAFETY: the token proves that the processor has the extensions.
            Some(streams) => unsafe { sha_ni::chain_many(streams, jobs) },
            None => Portable.slh_chain_many(jobs),
        }
    }

    #[inline(always)]
    fn clear(self) {
        // SAFETY: `Lanes` is only constructed where AVX-512 is available.
        unsafe { registers::clear() }
    }
}

/// Runs every chain to its end.
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn chain_many(isa: Lanes, jobs: &mut [SlhChain<'_>]) {
    let shape = |job: &SlhChain<'_>| (job.steps, job.sk_seed.is_some());
    let [first, ..] = jobs else { return };
    let first = shape(first);
    if jobs.len() <= isa.few() || jobs.iter().any(|job| shape(job) != first) {
        in_lanes(isa, jobs);
        return;
    }
    SlhChain::assert_all(jobs);
    for group in jobs.chunks_mut(LANES) {
        match group[0].context.n {
            _ if group.len() <= isa.few() => isa.run_few(group),
            16 => run_together::<4>(group),
            24 => run_together::<6>(group),
            _ => run_together::<8>(group),
        }
    }
    isa.clear();
}

/// Runs every hash of the SHA-2 family with n = 16, H and T_l, which are SHA-256.
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn hash_many(isa: Lanes, jobs: &mut [SlhHash<'_>]) {
    in_groups::<LANES, _>(jobs, |group| {
        if group.len() > isa.few() {
            hash(group);
            return;
        }
        match isa.streams {
            // SAFETY: the token proves that the processor has the extensions.
            Some(streams) => unsafe { sha_ni::hash_many(streams, group) },
            None => Portable.slh_hash_many(group),
        }
    });
    registers::clear();
}

/// The sources of the bytes of words 0 to 5 in an address: those of a block, then the hash address,
/// the first byte of each word topmost. And the mask of existing bytes.
static COMPRESSED: Table<u8, 64> = compressed().0;
const IN_ADDRESS: __mmask64 = compressed().1;

const fn compressed() -> (Table<u8, 64>, u64) {
    let (mut table, mut mask) = ([0; 64], 0);
    let mut i = 0;
    while i < ADDRESS {
        // Byte i of ADRSc (FIPS 205, section 11.2); the hash address is the last four.
        let from = match i {
            0 => 3,
            1..9 => 7 + i,
            _ => 10 + i,
        };
        let (word, byte) = if i < ADDRESS - 4 { (i / 4, i % 4) } else { (5, i - (ADDRESS - 4)) };
        let to = 4 * word + 3 - byte;
        table[to] = from as u8;
        table[32 + to] = 32 + from as u8;
        mask |= 1 << to | 1 << (32 + to);
        i += 1;
    }
    (Table(table), mask)
}

/// The rows of sixteen chains, by their keys, addresses and values of V words; the hash address is zero.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn rows_of<'a, const V: usize>(
    lane: impl Fn(usize) -> (&'a SlhContext, &'a SlhAddress, &'a [u8]),
) -> Rows {
    let [s0, s1, s2, s3, s4, s5, s6, s7] = sha256_lanes::states(|i| &lane(i).0.sha256);
    let table = registers::table(&COMPRESSED);
    let pairs = halves(|i| load_32(&lane(i).1.0));
    let [a0, a1, a2, a3, a4, ..] =
        words_of_halves(pairs.map(|pair| _mm512_maskz_permutexvar_epi8(IN_ADDRESS, table, pair)));
    let hash = _mm512_setzero_si512();
    let pairs = halves(|i| load_words::<V>(lane(i).2));
    let order = registers::table(&BIG_ENDIAN);
    let [v0, v1, v2, v3, v4, v5, v6, v7] =
        words_of_halves(pairs.map(|pair| _mm512_shuffle_epi8(pair, order)));
    [s0, s1, s2, s3, s4, s5, s6, s7, a0, a1, a2, a3, a4, hash, v0, v1, v2, v3, v4, v5, v6, v7]
}

/// Runs chains to their ends that begin and end together, sixteen at most, where values have V words.
/// Lanes beyond them repeat the first.
#[inline(never)]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn run_together<const V: usize>(jobs: &mut [SlhChain<'_>]) {
    let lane = |i: usize| &jobs[if i < jobs.len() { i } else { 0 }];
    let SlhChain { steps, sk_seed, .. } = jobs[0];
    let mut rows = rows_of::<V>(|i| {
        let job = lane(i);
        (job.context, &job.address, job.sk_seed.unwrap_or(job.value))
    });
    let hash = registers::table(&Table::<u32, LANES>(core::array::from_fn(|i| lane(i).start)));
    if sk_seed.is_some() {
        // The hash address of a secret is the tree index in a tree of FORS, or else zero.
        let a2 = rows[ADDRESS_ROW + 2];
        let is_fors = _mm512_test_epi32_mask(a2, _mm512_set1_epi32(0xff << 16));
        rows[ADDRESS_ROW + 2] = _mm512_xor_si512(a2, _mm512_set1_epi32(OF_SECRET));
        rows[HASH_ROW] = _mm512_maskz_mov_epi32(is_fors, hash);
        advance::<V, SLH>(&mut rows, 1);
        rows[ADDRESS_ROW + 2] = a2;
    }
    rows[HASH_ROW] = hash;
    advance::<V, SLH>(&mut rows, steps);
    let mut words = [_mm512_setzero_si512(); 8];
    words[..V].copy_from_slice(&rows[VALUE_ROW..VALUE_ROW + V]);
    for (job, row) in jobs.iter_mut().zip(words_to_rows(words)) {
        registers::store_hash(job.value, row);
    }
    wipe(&mut rows);
}

/// Hashes messages of one length, sixteen at most, side by side. Lanes beyond them repeat the first.
#[inline(never)]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn hash(jobs: &mut [SlhHash<'_>]) {
    let length = jobs[0].input.len();
    assert!(jobs.iter().all(|job| job.input.len() == length), "lanes of one length");
    let order = registers::table(&BIG_ENDIAN);
    let lane = |i: usize| &jobs[if i < jobs.len() { i } else { 0 }];
    let mut state = sha256_lanes::states(|i| &lane(i).context.sha256);
    let mut rows = [_mm512_setzero_si512(); LANES];
    // The bit that ends the message is followed by the length.
    let pieces = (ADDRESS + length + 1 + 8).div_ceil(BLOCK);
    for i in 0..pieces {
        let padding = padding::<BLOCK>(length, i, pieces);
        for (lane, row) in rows.iter_mut().enumerate() {
            let job = &jobs[if lane < jobs.len() { lane } else { 0 }];
            *row = _mm512_shuffle_epi8(_mm512_or_si512(piece(job, i), padding), order);
        }
        compress::<SLH>(&mut state, transpose(rows));
    }
    for (job, row) in jobs.iter_mut().zip(words_to_rows(state)) {
        registers::store_hash(job.output, row);
    }
    wipe(&mut rows);
}
