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

/// Bytes of a compressed address ADRSc, and of what stands before an input of LMS.
pub(crate) const ADDRESS: usize = 22;
const _: () = assert!(ADDRESS == PREFIX);

/// What one hash of a tree is made of.
pub(crate) trait Message: Sized {
    /// Whether a block of the key, PK.seed, precedes it.
    const IS_KEYED: bool;

    /// Holds the jobs of one call to the seam's contract.
    fn assert_all(jobs: &[Self]);

    /// The state of SHA-256 that it starts from.
    fn state(&self) -> &[u32; 8];

    /// What stands before the input.
    fn prefix(&self) -> [u8; ADDRESS];

    /// The input.
    fn input(&self) -> &[u8];

    /// Where the hash goes.
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

/// Hands over N hashes at most at a time, neighbours whose inputs have one length: so the flows put
/// them.
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

/// The blocks of B bytes, 64 or 128, of N messages `prefix || input` with the padding of FIPS 180-4,
/// section 5.1, where one block precedes each that is keyed. The inputs are of one length.
#[inline(always)]
pub(crate) fn for_each_block<const N: usize, const B: usize, M: Message>(
    jobs: [&M; N],
    mut compress: impl FnMut([&[u8; B]; N]),
) {
    let inputs: [&[u8]; N] = jobs.map(|job| job.input());
    let length = inputs[0].len();
    assert!(inputs.iter().all(|input| input.len() == length), "streams of one length");
    // The first block, and after all whole ones the last, or the last two.
    let mut staged = [[0u8; B]; N];
    let head = length.min(B - ADDRESS);
    for (block, job) in staged.iter_mut().zip(&jobs) {
        block[..ADDRESS].copy_from_slice(&job.prefix());
        block[ADDRESS..ADDRESS + head].copy_from_slice(&job.input()[..head]);
    }
    let mut filled = ADDRESS + head;
    if filled == B {
        compress(staged.each_ref());
        let blocks = inputs.map(|input| input[head..].as_chunks::<B>());
        for i in 0..blocks[0].0.len() {
            compress(blocks.map(|(whole, _)| &whole[i]));
        }
        for (block, (_, rest)) in staged.iter_mut().zip(blocks) {
            block[..rest.len()].copy_from_slice(rest);
        }
        filled = blocks[0].1.len();
    }
    for block in &mut staged {
        block[filled] = 0x80;
        block[filled + 1..].fill(0);
    }
    // The length takes an eighth of a block; what it leaves unused are high bits, zero.
    if filled + 1 > B - B / 8 {
        compress(staged.each_ref());
        staged = [[0; B]; N];
    }
    let before = if M::IS_KEYED { B } else { 0 };
    let bits = 8 * (before + ADDRESS + length) as u64;
    for block in &mut staged {
        block[B - 8..].copy_from_slice(&bits.to_be_bytes());
    }
    compress(staged.each_ref());
    wipe(&mut staged);
}
