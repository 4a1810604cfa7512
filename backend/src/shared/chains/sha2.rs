//! The blocks of the SHA-2 family of SLH-DSA (FIPS 205, section 11.2), for streams side by side.
//!
//! ```text
//!   [state after PK.seed] <- ADRSc || input || padding      streams of one length, block by block
//! ```

use gabion_scheme::kernels::slh::SlhHash;

use crate::shared::memory::wipe;

/// Bytes of a compressed address ADRSc.
pub(crate) const ADDRESS: usize = 22;

/// Hands over N hashes at most at a time, neighbours whose inputs have one length: so the flows put
/// them.
#[inline(always)]
pub(crate) fn in_groups<const N: usize>(
    jobs: &mut [SlhHash<'_>],
    mut hash: impl FnMut(&mut [SlhHash<'_>]),
) {
    SlhHash::assert_all(jobs);
    for run in jobs.chunk_by_mut(|a, b| a.input.len() == b.input.len()) {
        for group in run.chunks_mut(N) {
            hash(group);
        }
    }
}

/// The blocks of B bytes, 64 or 128, of N messages `ADRSc || input` with the padding of FIPS 180-4,
/// section 5.1, where one block (PK.seed) precedes each. The inputs are of one length.
#[inline(always)]
pub(crate) fn for_each_block<const N: usize, const B: usize>(
    jobs: [&SlhHash<'_>; N],
    mut compress: impl FnMut([&[u8; B]; N]),
) {
    let inputs: [&[u8]; N] = jobs.map(|job| job.input);
    let length = inputs[0].len();
    assert!(inputs.iter().all(|input| input.len() == length), "streams of one length");
    // The first block, and after all whole ones the last, or the last two.
    let mut staged = [[0u8; B]; N];
    let head = length.min(B - ADDRESS);
    for (block, job) in staged.iter_mut().zip(&jobs) {
        block[..ADDRESS].copy_from_slice(&job.address.compressed());
        block[ADDRESS..ADDRESS + head].copy_from_slice(&job.input[..head]);
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
    let bits = 8 * (B + ADDRESS + length) as u64;
    for block in &mut staged {
        block[B - 8..].copy_from_slice(&bits.to_be_bytes());
    }
    compress(staged.each_ref());
    wipe(&mut staged);
}
