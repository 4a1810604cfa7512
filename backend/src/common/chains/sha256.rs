//! Chains over lanes of SHA-256: of the SHA-2 family of SLH-DSA (FIPS 205, section 11.2), and of LMS (RFC
//! 8554, Algorithm 4b).
//!
//! ```text
//!   word of the block   0   1   2   3   4          5             6 ...                   5 + V  15
//!   SLH-DSA             ADRSc              hash address value  value   value ... 1 and zeros    length
//!   LMS                 I               q          i, j, value   value   value ... 1 and zeros    length
//! ```
//!
//! The bytes before the value are 22 in SLH-DSA, so a word of the block is half one word of the
//! value and half the next; in LMS they are 23, so a word is a quarter of one. All stays transposed
//! from step to step: a row is one word of every lane. A lane whose chain has ended takes the next
//! one. The last chains, too few to fill lanes, go on in another way.
//!
//! Time depends on `start` and `steps` of the chains, never on the hashed input.

use core::hint::black_box;

use gabion_scheme::kernels::lms::LmsChain;
use gabion_scheme::kernels::slh::SlhChain;
use gabion_scheme::kernels::slh::address_type::{FORS_PRF, FORS_TREE, WOTS_HASH, WOTS_PRF};

use super::Queue;
use super::layout::Sha256Chain;
use crate::common::memory::{Plain, wipe};

/// The inputs of the next step of each of N chains.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Chains<const N: usize> {
    /// The states that every step starts from: after PK.seed, or the initial one.
    pub(crate) start: [[u32; N]; 8],
    /// Words 0 to 4 of the block, the last without the hash address.
    pub(crate) address: [[u32; N]; 5],
    /// The hash address; of LMS i and j.
    pub(crate) hash: [u32; N],
    /// The first V words of it.
    pub(crate) value: [[u32; N]; 8],
}

/// Rows of [`Chains`], and where each kind begins.
pub(crate) const ROWS: usize = 22;
pub(crate) const ADDRESS_ROW: usize = 8;
pub(crate) const HASH_ROW: usize = 13;
pub(crate) const VALUE_ROW: usize = 14;

/// The number of bits of a block's word that are the end of the previous word of the value, which
/// differs between the layouts.
pub(crate) const SLH: i32 = 16;
pub(crate) const LMS: i32 = 8;

/// The bit that ends the message, in the word with the end of the value.
pub(crate) const fn end_mark(shift: i32) -> i32 {
    0x80 << (shift - 8)
}

/// Bits of a message with a value of `words` words, the block of PK.seed before it included.
pub(crate) const fn message_bits(shift: i32, words: usize) -> i32 {
    let before = if shift == SLH { 64 + 22 } else { 23 };
    8 * (before + 4 * words as i32)
}

/// The difference between the types of a chain and of its secret, in word 2 of the block.
pub(crate) const OF_SECRET: i32 = {
    const { assert!(WOTS_HASH ^ WOTS_PRF == FORS_TREE ^ FORS_PRF && WOTS_HASH == 0) };
    ((WOTS_HASH ^ WOTS_PRF) << 16) as i32
};

// SAFETY: whole numbers only, whose size is a multiple of the alignment.
unsafe impl Plain for Chains<8> {}
// SAFETY: as above.
unsafe impl Plain for Chains<16> {}

impl<const N: usize> Chains<N> {
    /// Empty chains.
    pub(crate) const ZERO: Self =
        Chains { start: [[0; N]; 8], address: [[0; N]; 5], hash: [0; N], value: [[0; N]; 8] };
}

/// A chain that can be interrupted: taken out of its lane and continued elsewhere.
pub(crate) trait Interruptible: Sha256Chain {
    /// Bytes of a value.
    fn n(&self) -> usize;

    /// The chain from PRF on, or after so many steps. It has the value until it is given back.
    fn rest(&mut self, is_prf: bool, done: u32) -> Self;

    /// Restores the value.
    fn give_back(&mut self, rest: Self);
}

impl Interruptible for SlhChain<'_> {
    #[inline(always)]
    fn n(&self) -> usize {
        self.context.n
    }

    #[inline(always)]
    fn rest(&mut self, is_prf: bool, done: u32) -> Self {
        SlhChain {
            context: self.context,
            address: self.address,
            sk_seed: self.sk_seed.filter(|_| is_prf),
            start: self.start + done,
            steps: self.steps - done,
            value: core::mem::take(&mut self.value),
        }
    }

    #[inline(always)]
    fn give_back(&mut self, rest: Self) {
        self.value = rest.value;
    }
}

impl Interruptible for LmsChain<'_> {
    #[inline(always)]
    fn n(&self) -> usize {
        self.value.len()
    }

    #[inline(always)]
    fn rest(&mut self, is_prf: bool, done: u32) -> Self {
        LmsChain {
            family: self.family,
            prefix: self.prefix,
            seed: self.seed.filter(|_| is_prf),
            start: self.start + done,
            steps: self.steps - done,
            value: core::mem::take(&mut self.value),
        }
    }

    #[inline(always)]
    fn give_back(&mut self, rest: Self) {
        self.value = rest.value;
    }
}

/// An instruction set with N lanes of SHA-256, for chains of one kind.
pub(crate) trait Steps<C, const N: usize>: Copy {
    /// Advances every lane by the same number of steps: the value of V words becomes the hash of
    /// its block, and the hash address is incremented.
    fn steps<const V: usize>(self, chains: &mut Chains<N>, steps: u32);

    /// Returns the number of chains up to which the other implementation is faster.
    fn few(self) -> usize;

    /// Runs a few chains in the other implementation.
    fn run_few(self, jobs: &mut [C]);

    /// Clears registers.
    fn clear(self);
}

/// A lane's progress: which chain it has, and whether it is at PRF.
#[derive(Clone, Copy, Default)]
struct LaneProgress {
    job: usize,
    is_prf: bool,
}

/// All lanes, of which those below `count` have a chain.
struct Lanes<const N: usize> {
    chains: Chains<N>,
    places: [LaneProgress; N],
    /// Steps to go, of PRF or of F.
    left: [u32; N],
    count: usize,
}

impl<const N: usize> Lanes<N> {
    /// Writes words into the column of a lane.
    #[inline]
    fn put(rows: &mut [[u32; N]], lane: usize, bytes: &[u8]) {
        for (row, bytes) in rows.iter_mut().zip(bytes.as_chunks().0) {
            row[lane] = u32::from_be_bytes(*bytes);
        }
    }

    /// Writes words 0 to 4 of the block and the hash address into the column of a lane.
    #[inline]
    fn put_head(&mut self, lane: usize, head: &[u8; 24]) {
        Self::put(&mut self.chains.address, lane, head);
        let [.., e, f, g, h] = *head;
        self.chains.hash[lane] = u32::from_be_bytes([e, f, g, h]);
    }

    /// Starts a chain in a lane.
    #[inline]
    fn begin<C: Sha256Chain>(&mut self, lane: usize, jobs: &[C], job: usize) {
        let chain = &jobs[job];
        for (row, word) in self.chains.start.iter_mut().zip(chain.start()) {
            row[lane] = *word;
        }
        let is_prf = chain.has_secret();
        self.put_head(lane, &chain.head(is_prf));
        Self::put(&mut self.chains.value, lane, chain.input());
        self.places[lane] = LaneProgress { job, is_prf };
        self.left[lane] = if is_prf { 1 } else { chain.steps() };
    }

    /// Writes the value of a lane.
    #[inline]
    fn take_value(&self, lane: usize, value: &mut [u8]) {
        for (bytes, row) in value.as_chunks_mut().0.iter_mut().zip(&self.chains.value) {
            // One by one: LLVM would gather them.
            *bytes = black_box(row[lane]).to_be_bytes();
        }
    }

    /// Continues from PRF to F, or writes the value and returns that the chain has ended.
    #[inline]
    fn ends<C: Sha256Chain>(&mut self, lane: usize, jobs: &mut [C]) -> bool {
        let LaneProgress { job, is_prf } = self.places[lane];
        let chain = &mut jobs[job];
        if is_prf && chain.steps() > 0 {
            self.places[lane].is_prf = false;
            self.left[lane] = chain.steps();
            self.put_head(lane, &chain.head(false));
            return false;
        }
        self.take_value(lane, chain.value());
        true
    }

    /// Moves the contents of one lane to another.
    #[inline]
    fn move_lane(&mut self, from: usize, to: usize) {
        self.places[to] = self.places[from];
        self.left[to] = self.left[from];
        let Chains { start, address, hash, value } = &mut self.chains;
        for row in start.iter_mut().chain(address).chain(value).chain([hash]) {
            row[to] = row[from];
        }
    }

    /// Finishes the remaining chains in the other implementation.
    #[inline]
    fn finish<C: Interruptible, L: Steps<C, N>>(&mut self, isa: L, jobs: &mut [C]) {
        let mut rest: [C; N] = core::array::from_fn(|lane| {
            // Lanes beyond the last one are not run.
            let lane = lane.min(self.count - 1);
            let LaneProgress { job, is_prf } = self.places[lane];
            let chain = &mut jobs[job];
            if !is_prf {
                self.take_value(lane, chain.value());
            }
            let done = if is_prf { 0 } else { chain.steps() - self.left[lane] };
            chain.rest(is_prf, done)
        });
        isa.run_few(&mut rest[..self.count]);
        for (place, chain) in self.places[..self.count].iter().zip(rest) {
            jobs[place.job].give_back(chain);
        }
    }
}

/// Runs every chain to its end.
///
/// All lanes take steps together until one of them has no more, and then it takes the next chain.
#[inline(always)]
pub(crate) fn chain_many<C: Interruptible, L: Steps<C, N>, const N: usize>(isa: L, jobs: &mut [C])
where
    Chains<N>: Plain,
{
    C::assert_all(jobs);
    match jobs.first().map(Interruptible::n) {
        _ if jobs.len() <= isa.few() => isa.run_few(jobs),
        Some(16) => chain_many_of::<C, L, N, 4>(isa, jobs),
        Some(24) => chain_many_of::<C, L, N, 6>(isa, jobs),
        Some(_) => chain_many_of::<C, L, N, 8>(isa, jobs),
        None => {}
    }
}

/// Runs chains whose values have V words.
#[inline(always)]
fn chain_many_of<C: Interruptible, L: Steps<C, N>, const N: usize, const V: usize>(
    isa: L,
    jobs: &mut [C],
) where
    Chains<N>: Plain,
{
    let mut lanes = Lanes::<N> {
        chains: Chains::ZERO,
        places: [LaneProgress::default(); N],
        left: [0; N],
        count: 0,
    };
    let mut queue = Queue::new();
    while lanes.count < N {
        let Some(job) = queue.pop(jobs) else { break };
        lanes.begin(lanes.count, jobs, job);
        lanes.count += 1;
    }
    while lanes.count > isa.few() {
        // One by one: what passes through vector registers, the scan of machine code takes for data.
        let left = lanes.left[..lanes.count].iter().map(|left| black_box(*left));
        let steps = left.fold(u32::MAX, u32::min);
        isa.steps::<V>(&mut lanes.chains, steps);
        let mut lane = 0;
        while lane < lanes.count {
            lanes.left[lane] -= steps;
            if lanes.left[lane] > 0 || !lanes.ends(lane, jobs) {
                lane += 1;
            } else if let Some(job) = queue.pop(jobs) {
                lanes.begin(lane, jobs, job);
                lane += 1;
            } else {
                // The chain moved here from the last lane has not been counted yet in this step.
                lanes.count -= 1;
                lanes.move_lane(lanes.count, lane);
            }
        }
    }
    if lanes.count > 0 {
        lanes.finish(isa, jobs);
    }
    wipe(core::slice::from_mut(&mut lanes.chains));
    isa.clear();
}
