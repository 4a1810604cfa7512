//! SHA-256 by the SHA2 extension, two streams side by side (FIPS 180-4, section 6.2), and what
//! SLH-DSA (FIPS 205, section 11.2) and LMS (RFC 8554) make of it.
//!
//! ```text
//!   chain   [state after PK.seed] <- ADRSc || value || padding      one block a step; the value
//!                                                                   never leaves its registers
//!   hash    [state after PK.seed] <- ADRSc || input || padding      block by block
//! ```
//!
//! LMS begins with the initial state, and has I, q, i and j, or I, r and D, in place of ADRSc.
//!
//! Four rounds are two instructions that wait for the two before them, and take two more for the
//! schedule. On Arm's cores one unit does them all, one a cycle, with a latency of four (their
//! optimisation guides): 56 for a block, which one stream spreads over some 64 cycles and two fill.
//!
//! Time depends on lengths and on `start` and `steps`, never on the hashed input.

use core::arch::aarch64::*;

use gabion_scheme::kernels::lms::{LmsChain, PREFIX};
use gabion_scheme::kernels::slh::SlhChain;

use super::registers;
use crate::common::chains::Queue;
use crate::common::chains::layout::Sha256Chain;
use crate::common::chains::sha2::{ADDRESS, Message, for_each_block, in_groups};
use crate::common::memory::{Plain, Table, wipe};
use crate::common::sha2::SHA256_ROUNDS;

/// Streams that run side by side.
const STREAMS: usize = 2;

/// The round constants, in memory for the loop.
static ROUNDS: [u32; 64] = SHA256_ROUNDS;

/// Words a to d and e to h.
type State = [uint32x4_t; 2];
/// A block, word by word.
type Block = [uint32x4_t; 4];

/// One block into each of N states, side by side.
#[inline]
#[target_feature(enable = "neon,sha2")]
fn compress<const N: usize>(states: &mut [State; N], blocks: &[Block; N]) {
    let before = *states;
    let mut w = *blocks;
    for (group, constants) in ROUNDS.as_chunks::<4>().0.iter().enumerate() {
        // SAFETY: four words.
        let constants = unsafe { vld1q_u32(constants.as_ptr()) };
        for (state, w) in states.iter_mut().zip(&mut w) {
            let next = w[0];
            // The four words of the schedule that are used sixteen rounds later; the last ones go
            // unused.
            let later = if group < 12 {
                vsha256su1q_u32(vsha256su0q_u32(w[0], w[1]), w[2], w[3])
            } else {
                next
            };
            *w = [w[1], w[2], w[3], later];
            let words = vaddq_u32(next, constants);
            let [abcd, efgh] = *state;
            *state = [vsha256hq_u32(abcd, efgh, words), vsha256h2q_u32(efgh, abcd, words)];
        }
    }
    for (state, before) in states.iter_mut().zip(before) {
        *state = [vaddq_u32(state[0], before[0]), vaddq_u32(state[1], before[1])];
    }
}

/// The words of 16 bytes.
#[inline]
#[target_feature(enable = "neon")]
fn words(bytes: uint8x16_t) -> uint32x4_t {
    vreinterpretq_u32_u8(vrev32q_u8(bytes))
}

/// The bytes of four words.
#[inline]
#[target_feature(enable = "neon")]
fn bytes(words: uint32x4_t) -> uint8x16_t {
    vrev32q_u8(vreinterpretq_u8_u32(words))
}

/// The state after PK.seed.
#[inline]
#[target_feature(enable = "neon")]
fn load_state(words: &[u32; 8]) -> State {
    // SAFETY: eight words are two registers.
    unsafe { [vld1q_u32(words.as_ptr()), vld1q_u32(words[4..].as_ptr())] }
}

#[inline]
#[target_feature(enable = "neon")]
fn load_block(block: &[u8; 64]) -> Block {
    let mut w = [vdupq_n_u32(0); 4];
    for (w, bytes) in w.iter_mut().zip(block.as_chunks().0) {
        *w = words(registers::load_16(bytes));
    }
    w
}

/// Reads n bytes, 16, 24 or 32, as the words of a hash value.
#[inline]
#[target_feature(enable = "neon")]
fn load_value(value: &[u8]) -> State {
    let (low, high) = value.split_at(16);
    // SAFETY: 16 bytes and, as matched, 8 or 16 more.
    let (low, high) = unsafe {
        let low = vld1q_u8(low.as_ptr());
        match high.len() {
            0 => (low, vdupq_n_u8(0)),
            8 => (low, vcombine_u8(vld1_u8(high.as_ptr()), vdup_n_u8(0))),
            16 => (low, vld1q_u8(high.as_ptr())),
            more => panic!("n is 16, 24 or 32, not {}", 16 + more),
        }
    };
    [words(low), words(high)]
}

/// Writes n bytes, 16, 24 or 32.
#[inline]
#[target_feature(enable = "neon")]
fn store_value(value: State, target: &mut [u8]) {
    let (low, high) = target.split_at_mut(16);
    // SAFETY: 16 bytes and, as matched, 8 or 16 more.
    unsafe {
        vst1q_u8(low.as_mut_ptr(), bytes(value[0]));
        match high.len() {
            0 => {}
            8 => vst1_u8(high.as_mut_ptr(), vget_low_u8(bytes(value[1]))),
            16 => vst1q_u8(high.as_mut_ptr(), bytes(value[1])),
            more => panic!("n is 16, 24 or 32, not {}", 16 + more),
        }
    }
}

/// The sources of the words of a chain's block, for one n: byte indices into the value, and added
/// constants.
///
/// ADRSc takes 22 bytes, so words of the block straddle those of the value by 16 bits. The prefix
/// of a value of LMS takes 23.
pub(super) struct Layout {
    /// The shuffles for words 4 to 7 of the block, 8 to 11 and 12 to 15.
    shuffles: [Table<u8, 16>; 3],
    /// Words 8 to 15 without the value: the bit that ends the message, and its length.
    padding: [[u32; 4]; 2],
    /// The increment of the step number in `Lane::hash`.
    one: u64,
}

impl Layout {
    /// Returns the layout for hash values of n bytes behind `head` bytes, after `before` bytes in
    /// separate blocks.
    const fn new(n: usize, head: usize, before: usize) -> Self {
        const NOTHING: u8 = 0x80;
        // The two words of the number end where the value begins.
        let one = 1 << (8 * (24 - head));
        let mut layout = Layout { shuffles: [Table([NOTHING; 16]); 3], padding: [[0; 4]; 2], one };
        let mut i = 0;
        while i < n {
            // In registers the first byte of a word is the topmost.
            let to = head + i;
            layout.shuffles[to / 16 - 1].0[to % 16 / 4 * 4 + 3 - to % 4] =
                (i / 4 * 4 + 3 - i % 4) as u8;
            i += 1;
        }
        let end = head + n;
        layout.padding[end / 16 - 2][end % 16 / 4] = 0x80 << (8 * (3 - end % 4));
        layout.padding[1][3] = 8 * (before + end) as u32;
        layout
    }
}

static SLH_LAYOUTS: [Layout; 3] =
    [Layout::new(16, ADDRESS, 64), Layout::new(24, ADDRESS, 64), Layout::new(32, ADDRESS, 64)];
static LMS_LAYOUTS: [Layout; 2] = [Layout::new(24, PREFIX + 1, 0), Layout::new(32, PREFIX + 1, 0)];

/// A chain that runs on streams.
pub(super) trait StreamChain: Sha256Chain {
    /// Returns the layout of its blocks.
    fn layout(&self) -> &'static Layout;

    /// Words 5 and 4 of the block without the value, by the words before it and the number of a step.
    fn hash(head: &[u8; 24]) -> u64;
}

impl StreamChain for SlhChain<'_> {
    fn layout(&self) -> &'static Layout {
        &SLH_LAYOUTS[self.context.n / 8 - 2]
    }

    /// 16 bits of the address, the hash address, and 16 bits of zeros.
    fn hash(head: &[u8; 24]) -> u64 {
        let [.., a, b, _, _, c, d, e, f] = *head;
        u64::from_be_bytes([a, b, c, d, e, f, 0, 0])
    }
}

impl StreamChain for LmsChain<'_> {
    fn layout(&self) -> &'static Layout {
        &LMS_LAYOUTS[self.value.len() / 8 - 3]
    }

    /// q, i, j, and 8 bits of zeros.
    fn hash(head: &[u8; 24]) -> u64 {
        let [.., a, b, c, d, _, e, f, g] = *head;
        u64::from_be_bytes([a, b, c, d, e, f, g, 0])
    }
}

/// One chain on its way.
#[derive(Clone, Copy)]
#[repr(C)]
struct Lane {
    /// The state that every step starts from.
    start: State,
    /// Words 0 to 3 of the block.
    address: uint32x4_t,
    /// Words 5 and 4 of the block without the value, as one number ([`StreamChain::hash`]).
    hash: uint64x2_t,
    /// The input of the next step.
    value: State,
}

// SAFETY: registers only, which have no padding between them, and any bits are a value.
unsafe impl Plain for Lane {}

impl Lane {
    #[inline]
    #[target_feature(enable = "neon")]
    fn new<C: StreamChain>(chain: &C, is_prf: bool) -> Self {
        let (start, value) = (load_state(chain.start()), load_value(chain.input()));
        let mut lane = Lane { start, address: vdupq_n_u32(0), hash: vdupq_n_u64(0), value };
        lane.set_head(chain, is_prf);
        lane
    }

    #[inline]
    #[target_feature(enable = "neon")]
    fn set_head<C: StreamChain>(&mut self, chain: &C, is_prf: bool) {
        let head = chain.head(is_prf);
        self.hash = vcombine_u64(vcreate_u64(C::hash(&head)), vcreate_u64(0));
        if let Some(first) = head.first_chunk() {
            self.address = words(registers::load_16(first));
        }
    }

    /// The block of the address and the value, and the next address.
    #[inline]
    #[target_feature(enable = "neon")]
    fn next_block(&mut self, layout: &Layout) -> Block {
        let low = vreinterpretq_u8_u32(self.value[0]);
        let both = uint8x16x2_t(low, vreinterpretq_u8_u32(self.value[1]));
        let words_4 = vqtbl1q_u8(low, registers::table(&layout.shuffles[0]));
        let words_8 = vqtbl2q_u8(both, registers::table(&layout.shuffles[1]));
        let words_12 = vqtbl2q_u8(both, registers::table(&layout.shuffles[2]));
        let hash = vrev64q_u32(vreinterpretq_u32_u64(self.hash));
        self.hash = vaddq_u64(self.hash, vcombine_u64(vcreate_u64(layout.one), vcreate_u64(0)));
        // SAFETY: four words each.
        let (padding_8, padding_12) = unsafe {
            (vld1q_u32(layout.padding[0].as_ptr()), vld1q_u32(layout.padding[1].as_ptr()))
        };
        [
            self.address,
            vorrq_u32(vreinterpretq_u32_u8(words_4), hash),
            vorrq_u32(vreinterpretq_u32_u8(words_8), padding_8),
            vorrq_u32(vreinterpretq_u32_u8(words_12), padding_12),
        ]
    }
}

/// Advances each of N lanes by the same number of steps.
#[inline(never)]
#[target_feature(enable = "neon,sha2")]
fn advance<const N: usize>(lanes: &mut [Lane; N], layout: &Layout, steps: u32) {
    for _ in 0..steps {
        let mut states = [[vdupq_n_u32(0); 2]; N];
        let mut blocks = [[vdupq_n_u32(0); 4]; N];
        for (lane, (state, block)) in lanes.iter_mut().zip(states.iter_mut().zip(&mut blocks)) {
            (*state, *block) = (lane.start, lane.next_block(layout));
        }
        compress(&mut states, &blocks);
        for (lane, state) in lanes.iter_mut().zip(states) {
            lane.value = state;
        }
    }
}

/// A lane's progress: which chain it has, whether it is at PRF, and how many steps are to go.
#[derive(Clone, Copy)]
struct LaneProgress {
    job: usize,
    is_prf: bool,
    left: u32,
}

/// Starts a chain.
#[inline]
#[target_feature(enable = "neon")]
fn begin<C: StreamChain>(jobs: &[C], job: usize) -> (Lane, LaneProgress) {
    let chain = &jobs[job];
    let is_prf = chain.has_secret();
    let left = if is_prf { 1 } else { chain.steps() };
    (Lane::new(chain, is_prf), LaneProgress { job, is_prf, left })
}

/// Continues from PRF to the first step, or writes the value and returns that the chain has ended.
#[inline]
#[target_feature(enable = "neon")]
fn ends<C: StreamChain>(lane: &mut Lane, place: &mut LaneProgress, jobs: &mut [C]) -> bool {
    let chain = &mut jobs[place.job];
    if place.is_prf && chain.steps() > 0 {
        *place = LaneProgress { is_prf: false, left: chain.steps(), ..*place };
        lane.set_head(chain, false);
        return false;
    }
    store_value(lane.value, chain.value());
    true
}

/// Runs every chain of SHA-256 to its end.
///
/// Both lanes take steps together until one of them has no more, and then it takes the next chain.
#[target_feature(enable = "neon,sha2")]
pub(super) fn chain_many<C: StreamChain>(jobs: &mut [C]) {
    C::assert_all(jobs);
    let mut queue = Queue::new();
    let Some(first) = queue.pop(jobs) else {
        return;
    };
    let layout = jobs[first].layout();
    let (lane, place) = begin(jobs, first);
    let (mut lanes, mut places) = ([lane; STREAMS], [place; STREAMS]);
    let mut count = 1;
    loop {
        while count < STREAMS
            && let Some(job) = queue.pop(jobs)
        {
            (lanes[count], places[count]) = begin(jobs, job);
            count += 1;
        }
        if count == 0 {
            break;
        }
        let steps = places[..count].iter().fold(u32::MAX, |steps, place| steps.min(place.left));
        if count == STREAMS {
            advance(&mut lanes, layout, steps);
        } else {
            advance(core::array::from_mut(&mut lanes[0]), layout, steps);
        }
        // From the last one: the chain that takes a lane over has been here already.
        for l in (0..count).rev() {
            places[l].left -= steps;
            if places[l].left == 0 && ends(&mut lanes[l], &mut places[l], jobs) {
                count -= 1;
                (lanes[l], places[l]) = (lanes[count], places[count]);
            }
        }
    }
    wipe(&mut lanes);
    registers::clear();
}

/// Runs every hash of SHA-256: of SLH-DSA's SHA-2 family with n = 16, and of LMS.
#[target_feature(enable = "neon,sha2")]
pub(super) fn hash_many<M: Message>(jobs: &mut [M]) {
    in_groups::<STREAMS, M>(jobs, |group| match group {
        [_] => hash::<1, M>(group),
        _ => hash::<STREAMS, M>(group),
    });
    registers::clear();
}

/// One block into the first state, or into both, where a word of both is a row. The states go elsewhere.
#[inline(never)]
#[target_feature(enable = "neon,sha2")]
pub(super) fn compress_rows(
    from: &[[u32; 2]; 8],
    block: &[&[u32; 2]; 16],
    into: &mut [[u32; 2]; 8],
    count: usize,
) {
    // Word 4 * i + j of each stream.
    let words = |rows: &[&[u32; 2]], stream: usize, i: usize| {
        let words: [u32; 4] = core::array::from_fn(|j| rows[4 * i + j][stream]);
        // SAFETY: four words.
        unsafe { vld1q_u32(words.as_ptr()) }
    };
    let from = from.each_ref();
    let mut states: [State; 2] =
        core::array::from_fn(|stream| core::array::from_fn(|i| words(&from, stream, i)));
    let mut blocks: [Block; 2] =
        core::array::from_fn(|stream| core::array::from_fn(|i| words(block, stream, i)));
    if count == 1 {
        compress(core::array::from_mut(&mut states[0]), core::array::from_ref(&blocks[0]));
    } else {
        compress(&mut states, &blocks);
    }
    for (stream, halves) in states.iter().enumerate() {
        for (i, half) in halves.iter().enumerate() {
            let mut words = [0; 4];
            // SAFETY: four words.
            unsafe { vst1q_u32(words.as_mut_ptr(), *half) };
            for (row, word) in into[4 * i..].iter_mut().zip(words) {
                row[stream] = word;
            }
        }
    }
    wipe(states.as_flattened_mut());
    wipe(blocks.as_flattened_mut());
}

/// Hashes up to N messages of the same length.
#[inline(never)]
#[target_feature(enable = "neon,sha2")]
fn hash<const N: usize, M: Message>(jobs: &mut [M]) {
    let mut states = [[vdupq_n_u32(0); 2]; N];
    for (state, job) in states.iter_mut().zip(&*jobs) {
        *state = load_state(job.state());
    }
    for_each_block::<N, 64, M>(jobs, |blocks| {
        let mut words = [[vdupq_n_u32(0); 4]; N];
        for (words, block) in words.iter_mut().zip(blocks) {
            *words = load_block(block);
        }
        compress(&mut states, &words);
    });
    for (job, state) in jobs.iter_mut().zip(states) {
        store_value(state, job.output());
    }
    wipe(states.as_flattened_mut());
}
