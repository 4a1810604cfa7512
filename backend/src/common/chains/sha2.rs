//! The blocks of tree hashes of SLH-DSA (FIPS 205, section 11.2) and of LMS (RFC 8554), for streams side by
//! side.
//!
//! ```text
//!   SLH-DSA  [state after PK.seed] <- ADRSc       || input || padding
//!   LMS      [initial state]       <- I || r || D || input || padding    streams of one length, block by block
//! ```

use gabion_scheme::kernels::lms::{LmsHash, PREFIX};
use gabion_scheme::kernels::slh::{SHA256_START, SlhHash};

use crate::common::memory::wipe;

/// The length of a compressed address ADRSc, and of the prefix of an input of LMS.
pub(crate) const ADDRESS: usize = 22;
const _: () = assert!(ADDRESS == PREFIX);

/// The inputs of one hash of a tree.
pub(crate) trait Message: Sized {
    /// Whether a block of the key, PK.seed, precedes it.
    const IS_KEYED: bool;

    /// Holds the jobs of one call to the seam's contract.
    fn assert_all(jobs: &[Self]);

    /// The state of SHA-256 that it starts from.
    fn state(&self) -> &[u32; 8];

    /// Returns the bytes before the input.
    fn prefix(&self) -> [u8; ADDRESS];

    /// The input.
    fn input(&self) -> &[u8];

    /// Returns the output buffer of the hash.
    fn output(&mut self) -> &mut [u8];
}

impl Message for SlhHash<'_> {
    const IS_KEYED: bool = true;

    #[inline(always)]
    fn assert_all(jobs: &[Self]) {
        SlhHash::assert_all(jobs);
    }

    #[inline(always)]
    fn state(&self) -> &[u32; 8] {
        &self.context.sha256
    }

    #[inline(always)]
    fn prefix(&self) -> [u8; ADDRESS] {
        self.address.compressed()
    }

    #[inline(always)]
    fn input(&self) -> &[u8] {
        self.input
    }

    #[inline(always)]
    fn output(&mut self) -> &mut [u8] {
        self.output
    }
}

impl Message for LmsHash<'_> {
    const IS_KEYED: bool = false;

    #[inline(always)]
    fn assert_all(jobs: &[Self]) {
        LmsHash::assert_all(jobs);
    }

    #[inline(always)]
    fn state(&self) -> &[u32; 8] {
        &SHA256_START
    }

    #[inline(always)]
    fn prefix(&self) -> [u8; ADDRESS] {
        self.prefix
    }

    #[inline(always)]
    fn input(&self) -> &[u8] {
        self.input
    }

    #[inline(always)]
    fn output(&mut self) -> &mut [u8] {
        self.output
    }
}

/// Calls `hash` with groups of at most N hashes, which are neighbours with inputs of equal length,
/// as the flows order them.
#[inline(always)]
pub(crate) fn in_groups<const N: usize, M: Message>(
    jobs: &mut [M],
    mut hash: impl FnMut(&mut [M]),
) {
    M::assert_all(jobs);
    for run in jobs.chunk_by_mut(|a, b| a.input().len() == b.input().len()) {
        for group in run.chunks_mut(N) {
            hash(group);
        }
    }
}

/// Calls `compress` with each block of the messages `prefix || input` of up to N jobs, padded by FIPS
/// 180-4, section 5.1. Blocks have B bytes, 64 or 128; those without a job are zero or hold padding.
/// Keyed messages have one block before these, which the caller has hashed. All inputs have the same
/// length.
///
/// The blocks are copied side by side. With references to them instead, LLVM allocated registers of
/// `avx2::slh_sha256::hash` differently from one build to the next.
#[inline(always)]
pub(crate) fn for_each_block<const N: usize, const B: usize, M: Message>(
    jobs: &[M],
    mut compress: impl FnMut(&[[u8; B]; N]),
) {
    let length = jobs[0].input().len();
    assert!(jobs.len() <= N && jobs.iter().all(|job| job.input().len() == length));
    let mut blocks = [[0u8; B]; N];
    let head = length.min(B - ADDRESS);
    for (block, job) in blocks.iter_mut().zip(jobs) {
        block[..ADDRESS].copy_from_slice(&job.prefix());
        block[ADDRESS..ADDRESS + head].copy_from_slice(&job.input()[..head]);
    }
    let mut filled = ADDRESS + head;
    if filled == B {
        compress(&blocks);
        let whole = (length - head) / B;
        for i in 0..whole {
            for (block, job) in blocks.iter_mut().zip(jobs) {
                *block = job.input()[head..].as_chunks().0[i];
            }
            compress(&blocks);
        }
        filled = (length - head) % B;
        for (block, job) in blocks.iter_mut().zip(jobs) {
            block[..filled].copy_from_slice(&job.input()[length - filled..]);
        }
    }
    for block in &mut blocks {
        block[filled] = 0x80;
        block[filled + 1..].fill(0);
    }
    // The length takes an eighth of a block; its unused high bits are zero.
    if filled + 1 > B - B / 8 {
        compress(&blocks);
        blocks = [[0; B]; N];
    }
    let before = if M::IS_KEYED { B } else { 0 };
    let bits = 8 * (before + ADDRESS + length) as u64;
    for block in &mut blocks {
        block[B - 8..].copy_from_slice(&bits.to_be_bytes());
    }
    compress(&blocks);
    wipe(&mut blocks);
}
