//! Which kernel runs a hash of SLH-DSA, and the blocks of tree hashes of the SHA-2 family.

use gabion_scheme::kernels::Kernels;
use gabion_scheme::kernels::slh::{SlhChain, SlhFamily, SlhHash};

use super::{Neon, sha256, sha512, sponge};
use crate::memory::wipe;
use crate::portable::Portable;
use crate::slh::shake;

/// Bytes of a compressed address ADRSc.
pub(super) const ADDRESS: usize = 22;

/// Runs every chain to its end.
pub(super) fn chain_many(isa: Neon, jobs: &mut [SlhChain<'_>]) {
    match (jobs.first().map(|job| job.context.family), isa) {
        (Some(SlhFamily::Shake), Neon { sha3: Some(sha3), .. }) => shake::chain_many(sha3, jobs),
        (Some(SlhFamily::Sha2), Neon { sha2: Some(_), .. }) => {
            // SAFETY: the token proves that the processor has the extension.
            unsafe { sha256::chain_many(jobs) }
        }
        _ => Portable.slh_chain_many(jobs),
    }
}

/// Runs every hash.
pub(super) fn hash_many(isa: Neon, jobs: &mut [SlhHash<'_>]) {
    match (jobs.first().map(|job| (job.context.family, job.context.n)), isa) {
        (Some((SlhFamily::Shake, _)), Neon { sha3: Some(sha3), .. }) => {
            // SAFETY: the token proves that the processor has the extension.
            shake::hash_many(jobs, |sponges| unsafe { sponge::sponge_many(sha3, sponges) });
        }
        (Some((SlhFamily::Sha2, 16)), Neon { sha2: Some(_), .. }) => {
            // SAFETY: the token proves that the processor has the extension.
            unsafe { sha256::hash_many(jobs) }
        }
        (Some((SlhFamily::Sha2, 24 | 32)), Neon { sha3: Some(_), .. }) => {
            // SAFETY: the token proves that the processor has the extension.
            unsafe { sha512::hash_many(jobs) }
        }
        _ => Portable.slh_hash_many(jobs),
    }
}

/// The blocks of B bytes, 64 or 128, of N messages `ADRSc || input` with the padding of FIPS 180-4,
/// section 5.1, where one block (PK.seed) precedes each. The inputs are of one length.
#[inline(always)]
pub(super) fn for_each_block<const N: usize, const B: usize>(
    jobs: &[&mut SlhHash<'_>; N],
    mut compress: impl FnMut([&[u8; B]; N]),
) {
    let inputs: [&[u8]; N] = jobs.each_ref().map(|job| job.input);
    let length = inputs[0].len();
    assert!(inputs.iter().all(|input| input.len() == length), "streams of one length");
    // The first block, and after all whole ones the last, or the last two.
    let mut staged = [[0u8; B]; N];
    let head = length.min(B - ADDRESS);
    for (block, job) in staged.iter_mut().zip(jobs) {
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
