//! The tweakable hashes of SLH-DSA (FIPS 205, section 11), one after the other.
//!
//! ```text
//!   SHAKE   PK.seed || ADRS  || message          one block of SHAKE256 for F, PRF and H
//!   SHA-2   [PK.seed || 0..] || ADRSc || message the bracket's state comes with the context
//! ```

use gabion_scheme::ct;
use gabion_scheme::kernels::slh::{SlhAddress, SlhChain, SlhContext, SlhFamily, SlhHash};
use gabion_scheme::kernels::{Sponge, Xof};
use sha2::block_api::compress256;

use super::keccak;
use crate::common::sha512::{self, Blocks};

/// Every chain to its end.
pub(super) fn chain_many(jobs: &mut [SlhChain<'_>]) {
    SlhChain::assert_all(jobs);
    for job in jobs {
        match job.context.family {
            SlhFamily::Shake => chain(job, shake_f),
            SlhFamily::Sha2 => chain(job, sha256_f),
        }
    }
}

/// Every hash.
pub(super) fn hash_many(jobs: &mut [SlhHash<'_>]) {
    SlhHash::assert_all(jobs);
    for job in jobs {
        match (job.context.family, job.context.n) {
            (SlhFamily::Shake, n) => {
                let input = [&job.context.pk_seed[..n], &job.address.0, job.input];
                keccak::run(&mut Sponge::new(Xof::Shake256, input, job.output));
            }
            (SlhFamily::Sha2, 16) => sha256(job.context, &job.address, job.input, job.output),
            (SlhFamily::Sha2, _) => sha512_of_tree(&sha512::Portable, job),
        }
    }
}

/// One chain over F, which is PRF as well: both hash n bytes under an address.
fn chain(job: &mut SlhChain<'_>, f: impl Fn(&SlhContext, &SlhAddress, &mut [u8])) {
    if let Some(sk_seed) = job.sk_seed {
        job.value.copy_from_slice(sk_seed);
        f(job.context, &job.address.of_secret(job.start), job.value);
    }
    for j in job.start..job.start + job.steps {
        f(job.context, &job.address.with_hash(j), job.value);
    }
}

/// SHAKE256(PK.seed || ADRS || value, 8n) (section 11.1): one permutation of three whole numbers
/// of words.
fn shake_f(context: &SlhContext, address: &SlhAddress, value: &mut [u8]) {
    let n = context.n;
    let mut state = [0u64; 25];
    let message = [&context.pk_seed[..n], &address.0, &*value];
    let words = message.iter().flat_map(|part| part.as_chunks::<8>().0);
    for (lane, word) in state.iter_mut().zip(words) {
        *lane = u64::from_le_bytes(*word);
    }
    let rate = Xof::Shake256.rate();
    state[(2 * n + 32) / 8] = u64::from(Xof::Shake256.suffix());
    state[rate / 8 - 1] = 0x80 << 56;
    keccak::keccak_f1600(&mut state);
    for (bytes, lane) in value.as_chunks_mut::<8>().0.iter_mut().zip(&state) {
        *bytes = lane.to_le_bytes();
    }
    ct::wipe(&mut state);
}

/// The first n bytes of SHA-256(PK.seed || 0^(64 - n) || ADRSc || value) (section 11.2).
fn sha256_f(context: &SlhContext, address: &SlhAddress, value: &mut [u8]) {
    let n = context.n;
    let mut block = [0u8; 64];
    block[..22].copy_from_slice(&address.compressed());
    block[22..22 + n].copy_from_slice(value);
    block[22 + n] = 0x80;
    block[56..].copy_from_slice(&(8 * (64 + 22 + n as u64)).to_be_bytes());
    let mut state = context.sha256;
    compress256(&mut state, std::slice::from_ref(&block));
    store_256(&state, value);
    ct::wipe(&mut state);
    ct::wipe(&mut block);
}

/// SHA-256 of a tree hash, cut to n bytes.
fn sha256(context: &SlhContext, address: &SlhAddress, input: &[u8], output: &mut [u8]) {
    let mut state = context.sha256;
    for_each_block::<64>(&address.compressed(), input, |block| {
        compress256(&mut state, std::slice::from_ref(block));
    });
    store_256(&state, output);
    ct::wipe(&mut state);
}

/// SHA-512 of a tree hash, cut to n bytes (section 11.2.2).
#[inline(never)] // Into code for one instruction set, whose scan would read it as a kernel.
pub(crate) fn sha512_of_tree(blocks: &dyn Blocks, job: &mut SlhHash<'_>) {
    let mut state = job.context.sha512;
    for_each_block::<128>(&job.address.compressed(), job.input, |block| {
        blocks.compress(&mut state, std::slice::from_ref(block));
    });
    for (bytes, word) in job.output.chunks_mut(8).zip(&state) {
        bytes.copy_from_slice(&word.to_be_bytes()[..bytes.len()]);
    }
    ct::wipe(&mut state);
}

fn store_256(state: &[u32; 8], out: &mut [u8]) {
    for (bytes, word) in out.chunks_mut(4).zip(state) {
        bytes.copy_from_slice(&word.to_be_bytes()[..bytes.len()]);
    }
}

/// The blocks of B bytes of `address || input` with the padding of FIPS 180-4, section 5.1, for a
/// message that one block (PK.seed) precedes.
fn for_each_block<const B: usize>(
    address: &[u8; 22],
    input: &[u8],
    mut compress: impl FnMut(&[u8; B]),
) {
    let mut block = [0u8; B];
    block[..22].copy_from_slice(address);
    let (head, rest) = input.split_at(input.len().min(B - 22));
    block[22..22 + head.len()].copy_from_slice(head);
    let mut at = 22 + head.len();
    if at == B {
        compress(&block);
        let (whole, rest) = rest.as_chunks::<B>();
        whole.iter().for_each(&mut compress);
        block[..rest.len()].copy_from_slice(rest);
        at = rest.len();
    }
    block[at] = 0x80;
    block[at + 1..].fill(0);
    // The length takes an eighth of a block; its unused high bits are zero.
    if at + 1 > B - B / 8 {
        compress(&block);
        block.fill(0);
    }
    let bits = 8 * (B + 22 + input.len()) as u64;
    block[B - 8..].copy_from_slice(&bits.to_be_bytes());
    compress(&block);
    ct::wipe(&mut block);
}
