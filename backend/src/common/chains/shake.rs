//! Chains and tree hashes of the SHAKE family of SLH-DSA over lanes (FIPS 205, section 11.1).
//!
//! ```text
//!   block[w] = word w of each lane:    PK.seed | ADRS | value | padding
//!                                                  |      |
//!                     hash address, one more each step    `-- the first words of the hash
//! ```
//!
//! F and PRF of any n are one permutation, and between two steps of a chain only the value and the
//! hash address change. A lane whose chain has ended takes the next one.
//!
//! Time depends on `start` and `steps` of the chains and on lengths, never on the hashed input.

use core::hint::black_box;

use gabion_scheme::kernels::slh::{SlhAddress, SlhChain, SlhHash};
use gabion_scheme::kernels::{Sponge, Xof};

use super::Queue;
use crate::common::memory::{Plain, wipe};

/// Words of an address.
pub(crate) const ADDRESS: usize = 4;
/// Words of the longest message, two values of 32 bytes and an address, and of padding.
pub(crate) const WORDS: usize = 13;
/// Tree hashes that are described at a time.
const HASHES: usize = 32;

/// The blocks of N lanes. All further words of the block are zero, but for the last bit of padding,
/// which is the top bit of word 16.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Block<const N: usize> {
    /// The words.
    pub(crate) words: [[u64; N]; WORDS],
    /// The hash address of the next step.
    pub(crate) hash: [u64; N],
    /// The word of the address whose upper half it goes to, the last byte first, without it.
    pub(crate) around: [u64; N],
    /// Keeps the size a multiple of the alignment.
    filler: [u64; N],
}

// SAFETY: whole numbers only, whose size is a multiple of the alignment for 2, 4 and 8 lanes.
unsafe impl Plain for Block<2> {}
// SAFETY: as above.
unsafe impl Plain for Block<4> {}
// SAFETY: as above.
unsafe impl Plain for Block<8> {}

/// An instruction set with N lanes.
pub(crate) trait Steps<const N: usize>: Copy {
    /// Advances lanes 0 to `count` - 1, and possibly others, by the same number of steps: each puts
    /// the hash address into word `V + 3`, increments it, and replaces words `V + 4` to `2 * V +
    /// 3`, the value, by the first V words of the permuted block.
    fn steps<const V: usize>(self, block: &mut Block<N>, steps: u32, count: usize);

    /// Clears registers.
    fn clear(self);
}

/// The place of the word with the hash address, where values have V words.
pub(crate) const fn hash_word(v: usize) -> usize {
    v + ADDRESS - 1
}

/// The place of the first word of the value, where values have V words.
pub(crate) const fn value_word(v: usize) -> usize {
    v + ADDRESS
}

/// One chain on its way.
#[derive(Clone, Copy)]
struct Lane {
    job: usize,
    /// Whether it is at PRF.
    is_prf: bool,
}

/// All lanes, where values have V words.
struct Lanes<const N: usize, const V: usize> {
    block: Block<N>,
    lanes: [Lane; N],
    /// Steps to go, of PRF or of F.
    left: [u32; N],
    /// Lanes below this one have a chain.
    count: usize,
}

impl<const N: usize, const V: usize> Lanes<N, V> {
    /// Returns lanes without a chain.
    fn new() -> Self {
        let zero = [0; N];
        let mut block = Block { words: [zero; WORDS], hash: zero, around: zero, filler: zero };
        block.words[2 * V + ADDRESS] = [u64::from(Xof::Shake256.suffix()); N];
        Lanes { block, lanes: [Lane { job: 0, is_prf: false }; N], left: [0; N], count: 0 }
    }

    /// Writes whole words into the column of a lane, from word `at` on.
    #[inline]
    fn put(&mut self, lane: usize, at: usize, bytes: &[u8]) {
        for (word, bytes) in self.block.words[at..].iter_mut().zip(bytes.as_chunks::<8>().0) {
            word[lane] = u64::from_le_bytes(*bytes);
        }
    }

    /// Writes an address into the column of a lane.
    #[inline]
    fn put_address(&mut self, lane: usize, address: &SlhAddress, hash: u32) {
        self.put(lane, V, &address.0[..8 * (ADDRESS - 1)]);
        let [.., a, b, c, d, _, _, _, _] = address.0;
        self.block.around[lane] = u64::from(u32::from_le_bytes([a, b, c, d]));
        self.block.hash[lane] = u64::from(hash);
    }

    /// Starts a chain in a lane.
    #[inline]
    fn begin(&mut self, lane: usize, jobs: &[SlhChain<'_>], job: usize) {
        let chain = &jobs[job];
        self.put(lane, 0, &chain.context.pk_seed[..8 * V]);
        match chain.sk_seed {
            Some(secret) => {
                let address = chain.address.of_secret(chain.start);
                let [.., a, b, c, d] = address.0;
                self.put_address(lane, &address, u32::from_be_bytes([a, b, c, d]));
                self.put(lane, value_word(V), secret);
                self.lanes[lane] = Lane { job, is_prf: true };
                self.left[lane] = 1;
            }
            None => {
                self.put_address(lane, &chain.address, chain.start);
                self.put(lane, value_word(V), chain.value);
                self.lanes[lane] = Lane { job, is_prf: false };
                self.left[lane] = chain.steps;
            }
        }
    }

    /// Continues from PRF to F, or writes the value and returns that the chain has ended.
    #[inline]
    fn ends(&mut self, lane: usize, jobs: &mut [SlhChain<'_>]) -> bool {
        let Lane { job, is_prf } = self.lanes[lane];
        let chain = &mut jobs[job];
        if is_prf && chain.steps > 0 {
            self.put_address(lane, &chain.address, chain.start);
            self.lanes[lane].is_prf = false;
            self.left[lane] = chain.steps;
            return false;
        }
        let value = &self.block.words[value_word(V)..];
        for (word, bytes) in value.iter().zip(chain.value.as_chunks_mut::<8>().0) {
            // One by one: LLVM would gather them.
            *bytes = black_box(word[lane]).to_le_bytes();
        }
        true
    }

    /// Moves the contents of one lane to another.
    fn move_lane(&mut self, from: usize, to: usize) {
        self.lanes[to] = self.lanes[from];
        self.left[to] = self.left[from];
        let Block { words, hash, around, .. } = &mut self.block;
        for word in words.iter_mut().chain([hash, around]) {
            word[to] = word[from];
        }
    }
}

/// Runs every chain to its end.
///
/// All lanes take steps together until one of them has no more, and then it takes the next chain.
#[inline(always)]
pub(crate) fn chain_many<L: Steps<N>, const N: usize>(isa: L, jobs: &mut [SlhChain<'_>])
where
    Block<N>: Plain,
{
    SlhChain::assert_all(jobs);
    match jobs.first().map(|job| job.context.n) {
        Some(16) => chain_many_of::<L, N, 2>(isa, jobs),
        Some(24) => chain_many_of::<L, N, 3>(isa, jobs),
        Some(_) => chain_many_of::<L, N, 4>(isa, jobs),
        None => {}
    }
}

#[inline(always)]
fn chain_many_of<L: Steps<N>, const N: usize, const V: usize>(isa: L, jobs: &mut [SlhChain<'_>])
where
    Block<N>: Plain,
{
    let mut queue = Queue::new();
    let mut lanes = Lanes::<N, V>::new();
    while lanes.count < N {
        let Some(job) = queue.pop(jobs) else { break };
        lanes.begin(lanes.count, jobs, job);
        lanes.count += 1;
    }
    while lanes.count > 0 {
        // One by one: what passes through vector registers, the scan of machine code takes for data.
        let left = lanes.left[..lanes.count].iter().map(|left| black_box(*left));
        let steps = left.fold(u32::MAX, u32::min);
        isa.steps::<V>(&mut lanes.block, steps, lanes.count);
        let mut l = 0;
        while l < lanes.count {
            lanes.left[l] -= steps;
            if lanes.left[l] > 0 || !lanes.ends(l, jobs) {
                l += 1;
            } else if let Some(job) = queue.pop(jobs) {
                lanes.begin(l, jobs, job);
                l += 1;
            } else {
                // The chain moved here from the last lane has not been counted yet in this step.
                lanes.count -= 1;
                lanes.move_lane(lanes.count, l);
            }
        }
    }
    wipe(std::slice::from_mut(&mut lanes.block));
    isa.clear();
}

/// Runs every hash: H, which is one permutation, and T_l.
#[inline(always)]
pub(crate) fn hash_many(jobs: &mut [SlhHash<'_>], sponge_many: impl Fn(&mut [Sponge<'_>])) {
    SlhHash::assert_all(jobs);
    for jobs in jobs.chunks_mut(HASHES) {
        let mut sponges: [Sponge<'_>; HASHES] =
            core::array::from_fn(|_| Sponge::new(Xof::Shake256, [], &mut []));
        let count = jobs.len();
        for (sponge, job) in sponges.iter_mut().zip(jobs) {
            let seed = &job.context.pk_seed[..job.context.n];
            *sponge = Sponge::new(Xof::Shake256, [seed, &job.address.0, job.input], job.output);
        }
        sponge_many(&mut sponges[..count]);
    }
}
