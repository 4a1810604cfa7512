//! SHA-256 by the SHA extensions, several streams side by side (FIPS 180-4, section 6.2), and what
//! SLH-DSA (FIPS 205, section 11.2), LMS (RFC 8554) and XMSS (RFC 8391) make of it.
//!
//! ```text
//!   chain   [state after PK.seed] <- ADRSc || value || padding      one block a step; the value
//!           [initial state] <- I || q || i || j || value || padding   never leaves its registers
//!   hash    [state after PK.seed] <- ADRSc || input || padding      block by block
//!           [initial state] <- I || r || D || input || padding
//! ```
//!
//! The two differ in a [`Layout`] and in how a [`Lane`] is filled ([`StreamChain`]). XMSS hashes rows of words
//! ([`Rows`]), which are turned into blocks and back.
//!
//! A round waits for the one before it, four cycles for two rounds on Zen 4, while the unit could
//! begin another every cycle. So streams share it, four at best; an instruction set that has a
//! quicker way for four than this module's supplies it ([`FourStreams`]). On Zen 4 two streams take no longer
//! than one; on Intel's processors, and with more streams, less is gained.
//!
//! The extensions have no encoding of AVX. Since Golden Cove, Intel's processors take some 250 cycles to go
//! from such an instruction to one of AVX, and back, while the upper part of any register is in use, many times
//! in a compression. So nothing here is compiled with AVX, what has two functions to be called from
//! AVX is never made part of the caller, and the compiler empties the upper parts before the call.
//!
//! Time depends on lengths and on `start` and `steps`, never on the hashed input.

use core::arch::x86_64::*;
use core::hint::black_box;

use gabion_scheme::kernels::lms::{LmsChain, LmsHash, OF_SECRET as OF_LMS_SECRET, PREFIX};
use gabion_scheme::kernels::slh::address_type::FORS_TREE;
use gabion_scheme::kernels::slh::{SHA256_START, SlhAddress, SlhChain, SlhHash};
use gabion_scheme::kernels::xmss::{XmssChain, XmssHash, XmssSecret};
use gabion_scheme::kernels::xmss_sha256::{Compress, Row};

use crate::common::chains::sha2::{ADDRESS, Message};
use crate::common::chains::sha256::OF_SECRET;
use crate::common::chains::xmss::{self as streams, Isa};
use crate::common::chains::{Chain, Queue};
use crate::common::sha2::SHA256_ROUNDS;

/// Streams that run side by side.
pub(crate) const STREAMS: usize = 4;
/// Chains that are under way at a time: two groups of streams.
const LANES: usize = 2 * STREAMS;
/// Bytes of the two values that a node of a tree hashes, where n is 16.
const NODE: usize = 32;

/// Constants on a cache line.
#[repr(C, align(64))]
pub(crate) struct CacheAligned<T>(T);

pub(crate) static ROUNDS: CacheAligned<[u32; 64]> = CacheAligned(SHA256_ROUNDS);

/// A state as the instructions have it: words f, e, b, a and h, g, d, c, lowest first.
pub(crate) type State = [__m128i; 2];
/// A block, word by word.
pub(crate) type Block = [__m128i; 4];

/// One block into each of N states, side by side.
#[inline]
#[target_feature(enable = "sha,ssse3,bmi2")]
fn compress<const N: usize>(states: &mut [State; N], blocks: &[Block; N]) {
    let before = *states;
    let mut w = *blocks;
    let four_rounds = |states: &mut [State; N], w: &mut [Block; N], group: usize| {
        // SAFETY: `group` is below 16, and every bit pattern is a register.
        let constants = unsafe { *ROUNDS.0.as_ptr().cast::<__m128i>().add(group) };
        for (state, w) in states.iter_mut().zip(w) {
            if group >= 4 {
                let [first, second, third, last] = core::array::from_fn(|i| w[(group + i) % 4]);
                let sum = _mm_add_epi32(
                    _mm_sha256msg1_epu32(first, second),
                    _mm_alignr_epi8::<4>(last, third),
                );
                w[group % 4] = _mm_sha256msg2_epu32(sum, last);
            }
            let words = _mm_add_epi32(w[group % 4], constants);
            let [abef, cdgh] = state;
            *cdgh = _mm_sha256rnds2_epu32(*cdgh, *abef, words);
            *abef = _mm_sha256rnds2_epu32(*abef, *cdgh, _mm_shuffle_epi32::<0x0e>(words));
        }
    };
    // Written out, so that places in the schedule are constants.
    four_rounds(states, &mut w, 0);
    four_rounds(states, &mut w, 1);
    four_rounds(states, &mut w, 2);
    four_rounds(states, &mut w, 3);
    four_rounds(states, &mut w, 4);
    four_rounds(states, &mut w, 5);
    four_rounds(states, &mut w, 6);
    four_rounds(states, &mut w, 7);
    four_rounds(states, &mut w, 8);
    four_rounds(states, &mut w, 9);
    four_rounds(states, &mut w, 10);
    four_rounds(states, &mut w, 11);
    four_rounds(states, &mut w, 12);
    four_rounds(states, &mut w, 13);
    four_rounds(states, &mut w, 14);
    four_rounds(states, &mut w, 15);
    for (state, before) in states.iter_mut().zip(before) {
        state[0] = _mm_add_epi32(state[0], before[0]);
        state[1] = _mm_add_epi32(state[1], before[1]);
    }
}

/// Four streams of SHA-256 on an instruction set.
pub(crate) trait FourStreams: Copy {
    /// Runs one step in each lane: its value becomes the hash of the block that the layout makes of
    /// its address and its value, and its hash address is incremented.
    fn step(self, lanes: &mut [Lane; STREAMS], shuffles: &Shuffles);

    /// One block into each state.
    fn compress(self, states: &mut [State; STREAMS], blocks: &[Block; STREAMS]);

    /// Clears registers.
    fn clear(self);
}

/// Four streams by this module's own code.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plain(());

impl Plain {
    /// Returns the token, if the processor has the SHA extensions and AVX2.
    pub(crate) fn detect() -> Option<Self> {
        let supported = is_x86_feature_detected!("sha")
            && is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi2");
        supported.then_some(Plain(()))
    }
}

impl FourStreams for Plain {
    #[inline(always)]
    fn step(self, lanes: &mut [Lane; STREAMS], shuffles: &Shuffles) {
        // SAFETY: the token proves that the processor supports the features.
        unsafe { step(lanes, shuffles) }
    }

    #[inline(always)]
    fn compress(self, states: &mut [State; STREAMS], blocks: &[Block; STREAMS]) {
        // SAFETY: the token proves that the processor supports the features.
        unsafe { compress(states, blocks) }
    }

    #[inline(always)]
    fn clear(self) {
        // SAFETY: the token proves that the processor supports the features.
        unsafe { _mm256_zeroall() }
    }
}

/// A hash value as it lies in a state: words b, a, d, c and f, e, h, g, lowest first.
pub(crate) type Value = [__m128i; 2];

/// The hash value of a state.
#[inline]
#[target_feature(enable = "sha,ssse3,bmi2")]
fn value_of(state: State) -> Value {
    [_mm_unpackhi_epi64(state[0], state[1]), _mm_unpacklo_epi64(state[0], state[1])]
}

/// Each half of a register the other way round: bytes in memory to a [`Value`], and back.
#[inline]
#[target_feature(enable = "sha,ssse3,bmi2")]
fn swap_halves(x: __m128i) -> __m128i {
    _mm_shuffle_epi8(x, _mm_set_epi64x(0x0809_0a0b_0c0d_0e0f, 0x0001_0203_0405_0607))
}

/// Reads n bytes.
#[inline]
#[target_feature(enable = "sha,ssse3,bmi2")]
fn load_value(bytes: &[u8]) -> Value {
    assert!(matches!(bytes.len(), 16 | 24 | 32), "n is 16, 24 or 32");
    // SAFETY: 16 bytes are there, and 8 or 16 more where the length says so.
    unsafe {
        let low = _mm_loadu_si128(bytes.as_ptr().cast());
        let high = match bytes.len() {
            16 => _mm_setzero_si128(),
            24 => _mm_loadl_epi64(bytes.as_ptr().add(16).cast()),
            _ => _mm_loadu_si128(bytes.as_ptr().add(16).cast()),
        };
        [swap_halves(low), swap_halves(high)]
    }
}

/// Writes n bytes.
#[inline]
#[target_feature(enable = "sha,ssse3,bmi2")]
fn store_value(value: Value, bytes: &mut [u8]) {
    assert!(matches!(bytes.len(), 16 | 24 | 32), "n is 16, 24 or 32");
    let [low, high] = value.map(|half| swap_halves(half));
    // SAFETY: as in `load_value`.
    unsafe {
        _mm_storeu_si128(bytes.as_mut_ptr().cast(), low);
        match bytes.len() {
            16 => {}
            24 => _mm_storel_epi64(bytes.as_mut_ptr().add(16).cast(), high),
            _ => _mm_storeu_si128(bytes.as_mut_ptr().add(16).cast(), high),
        }
    }
}

/// The state after PK.seed, as the instructions have it.
#[inline]
#[target_feature(enable = "sha,ssse3,bmi2")]
fn load_state(words: &[u32; 8]) -> State {
    // SAFETY: eight words are two registers, which need no alignment here.
    let [abcd, efgh] = unsafe {
        let words = words.as_ptr().cast::<__m128i>();
        [_mm_loadu_si128(words), _mm_loadu_si128(words.add(1))]
    };
    let (badc, fehg) = (_mm_shuffle_epi32::<0xb1>(abcd), _mm_shuffle_epi32::<0xb1>(efgh));
    [_mm_unpacklo_epi64(fehg, badc), _mm_unpackhi_epi64(fehg, badc)]
}

/// The sources of the words of a chain's block, for one n: byte indices into the halves of the
/// value, and added constants.
///
/// ADRSc takes 22 bytes, so words of the block straddle those of the value by 16 bits. The prefix
/// of a value of LMS takes 23.
pub(crate) struct Layout {
    /// The shuffles for words 4 to 7 from the low half, 8 to 11 from both, 12 to 15 from the high
    /// half.
    shuffles: [[u8; 16]; 4],
    /// Words 8 to 15 without the value: the bit that ends the message, and its length.
    padding: [[u32; 4]; 2],
    /// The increment of the step number at its position in an address.
    one: [u64; 2],
}

impl Layout {
    /// Returns the layout for hash values of n bytes behind `head` bytes, after `before` bytes in
    /// separate blocks.
    const fn new(n: usize, head: usize, before: usize) -> Self {
        const NOTHING: u8 = 0x80;
        // The two words of the number end where the value begins.
        let one = [1 << (8 * (24 - head)), 0];
        let mut layout = Layout { shuffles: [[NOTHING; 16]; 4], padding: [[0; 4]; 2], one };
        let mut i = 0;
        while i < n {
            // Byte i of the value is byte `head + i` of the block; within a word the first byte is the
            // topmost. In the value, each half of a register is the other way round.
            let (word, byte) = ((head + i) / 4, 3 - (head + i) % 4);
            // Low half: words 4 to 11; high half: 8 to 15.
            let shuffle = word / 4 - 1 + i / 16;
            layout.shuffles[shuffle][4 * (word % 4) + byte] = (i % 16 / 8 * 8 + 7 - i % 8) as u8;
            i += 1;
        }
        let end = head + n;
        layout.padding[end / 16 - 2][end / 4 % 4] = 0x80 << (8 * (3 - end % 4));
        layout.padding[1][3] = 8 * (before + end) as u32;
        layout
    }
}

static SLH_LAYOUTS: [Layout; 3] = [slh(16), slh(24), slh(32)];
static LMS_LAYOUTS: [Layout; 2] = [lms(24), lms(32)];

/// The block of PK.seed, then ADRSc.
const fn slh(n: usize) -> Layout {
    Layout::new(n, ADDRESS, 64)
}

/// I, q, i and j.
const fn lms(n: usize) -> Layout {
    Layout::new(n, PREFIX + 1, 0)
}

/// An address, made ready.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
pub(crate) struct Address {
    /// Words 0 to 3 of the block.
    words: __m128i,
    /// Words 4 and 5 without the value, as one number in the low half: 16 bits, the hash address, and 16
    /// bits of zeros; or q, i, j, and 8 bits of zeros.
    hash: __m128i,
}

impl Address {
    /// Returns the address of a chain's hash at a place. It is read in place: a copy that was just
    /// written by bytes would have to reach the cache first.
    #[inline]
    #[target_feature(enable = "sha,ssse3,bmi2")]
    fn new(address: &SlhAddress, hash: u32) -> Self {
        let bytes = &address.0;
        // SAFETY: 32 bytes are two registers.
        let (low, high) = unsafe {
            let bytes = bytes.as_ptr().cast::<__m128i>();
            (_mm_loadu_si128(bytes), _mm_loadu_si128(bytes.add(1)))
        };
        // Bytes 3 and 8 to 15; bytes 19 to 25: words with the first byte topmost.
        let low = _mm_shuffle_epi8(
            low,
            _mm_set_epi8(-1, -1, -1, -1, 15, -1, -1, -1, 11, 12, 13, 14, 3, 8, 9, 10),
        );
        let high = _mm_shuffle_epi8(
            high,
            _mm_set_epi8(6, 7, 8, 9, -1, 3, 4, 5, -1, -1, -1, -1, -1, -1, -1, -1),
        );
        let chain = u16::from_be_bytes([bytes[26], bytes[27]]);
        let hash = (u64::from(chain) << 48 | u64::from(hash) << 16) as i64;
        Address { words: _mm_or_si128(low, high), hash: _mm_cvtsi64_si128(hash) }
    }

    /// Returns the address of the secret at the start of a chain ([`SlhAddress::of_secret`]).
    #[inline]
    #[target_feature(enable = "sha,ssse3,bmi2")]
    fn of_secret(address: &SlhAddress, start: u32) -> Self {
        let hash = if address.kind() == FORS_TREE { start } else { 0 };
        let Address { words, hash } = Address::new(address, hash);
        Address { words: _mm_xor_si128(words, _mm_set_epi64x(i64::from(OF_SECRET), 0)), hash }
    }

    /// I, q and i before a step j of LMS.
    #[inline]
    #[target_feature(enable = "sha,ssse3,bmi2")]
    fn of_lms(prefix: &[u8; PREFIX], j: u8) -> Self {
        let [.., q0, q1, q2, q3, i0, i1] = *prefix;
        let order = _mm_set_epi64x(0x0c0d_0e0f_0809_0a0b, 0x0405_0607_0001_0203);
        // SAFETY: of 22 bytes, 16 are a register.
        let words = unsafe { _mm_loadu_si128(prefix.as_ptr().cast()) };
        let hash = u64::from_be_bytes([q0, q1, q2, q3, i0, i1, j, 0]);
        Address { words: _mm_shuffle_epi8(words, order), hash: _mm_cvtsi64_si128(hash as i64) }
    }
}

/// One chain on its way.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
pub(crate) struct Lane {
    /// The state that every step starts from.
    pub(crate) start: State,
    /// The address of the next step.
    pub(crate) address: Address,
    /// The value that it hashes.
    pub(crate) value: Value,
}

impl Lane {
    /// A chain at its beginning, which is PRF where it has a secret.
    #[inline]
    #[target_feature(enable = "sha,ssse3,bmi2")]
    fn of(chain: &SlhChain<'_>) -> Self {
        let (address, value) = match chain.sk_seed {
            Some(secret) => (Address::of_secret(&chain.address, chain.start), secret),
            None => (Address::new(&chain.address, chain.start), &*chain.value),
        };
        Lane { start: load_state(&chain.context.sha256), address, value: load_value(value) }
    }

    /// A chain of LMS at its beginning, which is its secret where it has a seed.
    #[inline]
    #[target_feature(enable = "sha,ssse3,bmi2")]
    fn of_lms(chain: &LmsChain<'_>) -> Self {
        let (j, value) = match chain.seed {
            Some(seed) => (OF_LMS_SECRET, seed),
            None => (chain.start as u8, &*chain.value),
        };
        let address = Address::of_lms(&chain.prefix, j);
        Lane { start: load_state(&SHA256_START), address, value: load_value(value) }
    }
}

/// A chain that runs on streams.
pub(crate) trait StreamChain: Chain {
    /// Returns the layout of its blocks.
    fn layout(&self) -> &'static Layout;

    /// Returns the lane at the start of the chain, which is PRF if it has a secret.
    fn lane(&self) -> Lane;

    /// Returns the address of its first step, after PRF.
    fn first(&self) -> Address;
}

impl StreamChain for SlhChain<'_> {
    #[inline(always)]
    fn layout(&self) -> &'static Layout {
        &SLH_LAYOUTS[self.context.n / 8 - 2]
    }

    #[inline(always)]
    fn lane(&self) -> Lane {
        // SAFETY: functions of this module call it, which have the extensions.
        unsafe { Lane::of(self) }
    }

    #[inline(always)]
    fn first(&self) -> Address {
        // SAFETY: as above.
        unsafe { Address::new(&self.address, self.start) }
    }
}

impl StreamChain for LmsChain<'_> {
    #[inline(always)]
    fn layout(&self) -> &'static Layout {
        &LMS_LAYOUTS[self.value.len() / 8 - 3]
    }

    #[inline(always)]
    fn lane(&self) -> Lane {
        // SAFETY: as above.
        unsafe { Lane::of_lms(self) }
    }

    #[inline(always)]
    fn first(&self) -> Address {
        // SAFETY: as above.
        unsafe { Address::of_lms(&self.prefix, self.start as u8) }
    }
}

/// A lane's progress: which chain it has, and whether it is at PRF.
#[derive(Clone, Copy)]
struct LaneProgress {
    job: usize,
    is_prf: bool,
}

/// The lanes, of which those below `count` have a chain.
struct Lanes {
    lanes: [Lane; LANES],
    places: [LaneProgress; LANES],
    /// Steps to go, of PRF or of F.
    left: [u32; LANES],
    count: usize,
}

impl Lanes {
    /// Starts a chain in the next lane.
    #[inline]
    #[target_feature(enable = "sha,ssse3,bmi2")]
    fn begin<C: StreamChain>(&mut self, jobs: &[C], job: usize) {
        let chain = &jobs[job];
        let is_prf = chain.has_secret();
        self.lanes[self.count] = chain.lane();
        self.places[self.count] = LaneProgress { job, is_prf };
        self.left[self.count] = if is_prf { 1 } else { chain.steps() };
        self.count += 1;
    }

    /// Continues from PRF to F, or writes the value and moves the last chain to the lane.
    #[inline]
    #[target_feature(enable = "sha,ssse3,bmi2")]
    fn end<C: StreamChain>(&mut self, lane: usize, jobs: &mut [C]) {
        let LaneProgress { job, is_prf } = self.places[lane];
        let chain = &mut jobs[job];
        if is_prf && chain.steps() > 0 {
            self.places[lane].is_prf = false;
            self.left[lane] = chain.steps();
            self.lanes[lane].address = chain.first();
            return;
        }
        store_value(self.lanes[lane].value, chain.value());
        self.count -= 1;
        self.lanes[lane] = self.lanes[self.count];
        self.places[lane] = self.places[self.count];
        self.left[lane] = self.left[self.count];
    }
}

/// A layout in registers.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
pub(crate) struct Shuffles {
    shuffles: [__m128i; 4],
    padding: [__m128i; 2],
    one: __m128i,
}

impl Shuffles {
    #[inline]
    #[target_feature(enable = "sha,ssse3,bmi2")]
    fn load(layout: &Layout) -> Self {
        // SAFETY: arrays of 16 bytes are registers, which need no alignment here.
        unsafe {
            Shuffles {
                shuffles: layout.shuffles.each_ref().map(|s| _mm_loadu_si128(s.as_ptr().cast())),
                padding: layout.padding.each_ref().map(|p| _mm_loadu_si128(p.as_ptr().cast())),
                one: _mm_loadu_si128(layout.one.as_ptr().cast()),
            }
        }
    }

    /// The block of an address and a value.
    #[inline]
    #[target_feature(enable = "sha,ssse3,bmi2")]
    fn block(&self, address: Address, value: Value) -> Block {
        let [low, high] = value;
        let parts = [low, low, high, high];
        let [words_4, words_8, more_8, words_12] =
            core::array::from_fn(|i| _mm_shuffle_epi8(parts[i], self.shuffles[i]));
        [
            address.words,
            // The two words of the number, the upper one first.
            _mm_or_si128(words_4, _mm_shuffle_epi32::<0xe1>(address.hash)),
            _mm_or_si128(_mm_or_si128(words_8, more_8), self.padding[0]),
            _mm_or_si128(words_12, self.padding[1]),
        ]
    }
}

/// One step in each of N lanes.
#[inline]
#[target_feature(enable = "sha,ssse3,bmi2")]
fn step<const N: usize>(lanes: &mut [Lane; N], shuffles: &Shuffles) {
    let mut states = lanes.each_ref().map(|lane| lane.start);
    let blocks = lanes.each_ref().map(|lane| shuffles.block(lane.address, lane.value));
    compress(&mut states, &blocks);
    for (lane, state) in lanes.iter_mut().zip(states) {
        lane.value = value_of(state);
        lane.address.hash = _mm_add_epi64(lane.address.hash, shuffles.one);
    }
}

/// Advances each lane by the same number of steps.
///
/// Groups take turns, because a step of one group can begin while another's is ending.
#[inline(never)]
#[target_feature(enable = "sha,ssse3,bmi2")]
fn advance<F: FourStreams>(four: F, lanes: &mut [Lane], layout: &Layout, steps: u32) {
    let shuffles = Shuffles::load(layout);
    // One group, or two halves.
    let middle = if lanes.len() > STREAMS { lanes.len().div_ceil(2) } else { lanes.len() };
    for _ in 0..steps {
        let (first, second) = lanes.split_at_mut(middle);
        for group in [first, second] {
            if let Ok(group) = <&mut [Lane; STREAMS]>::try_from(&mut *group) {
                four.step(group, &shuffles);
            } else if let Ok(group) = <&mut [Lane; 3]>::try_from(&mut *group) {
                step(group, &shuffles);
            } else if let Ok(group) = <&mut [Lane; 2]>::try_from(&mut *group) {
                step(group, &shuffles);
            } else if let Ok(group) = <&mut [Lane; 1]>::try_from(group) {
                step(group, &shuffles);
            }
        }
    }
}

/// Runs chains to their ends that begin and end together, as many as there are lanes at most.
#[inline]
#[target_feature(enable = "sha,ssse3,bmi2")]
fn run_together<F: FourStreams, C: StreamChain>(
    four: F,
    lanes: &mut [Lane; LANES],
    jobs: &mut [C],
    layout: &Layout,
) {
    let (steps, has_secret) = (jobs[0].steps(), jobs[0].has_secret());
    for (lane, job) in lanes.iter_mut().zip(&*jobs) {
        *lane = job.lane();
    }
    let lanes = &mut lanes[..jobs.len()];
    if has_secret {
        advance(four, lanes, layout, 1);
        for (lane, job) in lanes.iter_mut().zip(&*jobs) {
            lane.address = job.first();
        }
    }
    advance(four, lanes, layout, steps);
    for (lane, job) in lanes.iter().zip(jobs) {
        store_value(lane.value, job.value());
    }
}

/// Runs every chain of SHA-256 to its end.
///
/// All lanes step together until one of them has finished its chain, and then it takes the next
/// one. Chains of one shape, such as the leaves of FORS, end together, so that no search for
/// finished lanes is needed.
#[inline(never)] // Into AVX code; see above.
#[target_feature(enable = "sha,ssse3,bmi2")]
pub(crate) fn chain_many<F: FourStreams, C: StreamChain>(four: F, jobs: &mut [C]) {
    C::assert_all(jobs);
    let [first, ..] = jobs else { return };
    let layout = first.layout();
    let zero = _mm_setzero_si128();
    let blank =
        Lane { start: [zero; 2], address: Address { words: zero, hash: zero }, value: [zero; 2] };
    let shape = |job: &C| (job.steps(), job.has_secret());
    let of_first = shape(first);
    if jobs.iter().all(|job| shape(job) == of_first) {
        let mut lanes = [blank; LANES];
        for group in jobs.chunks_mut(LANES) {
            run_together(four, &mut lanes, group, layout);
        }
        wipe(&mut lanes);
        four.clear();
        return;
    }
    let mut queue = Queue::new();
    let mut lanes = Lanes {
        lanes: [blank; LANES],
        places: [LaneProgress { job: 0, is_prf: false }; LANES],
        left: [0; LANES],
        count: 0,
    };
    loop {
        while lanes.count < LANES {
            let Some(job) = queue.pop(jobs) else { break };
            lanes.begin(jobs, job);
        }
        if lanes.count == 0 {
            break;
        }
        // One by one: what passes through vector registers, the scan of machine code takes for data.
        let left = lanes.left[..lanes.count].iter().map(|left| black_box(*left));
        let steps = left.fold(u32::MAX, u32::min);
        advance(four, &mut lanes.lanes[..lanes.count], layout, steps);
        // From the last one: the chain that takes a lane over has been here already.
        for lane in (0..lanes.count).rev() {
            lanes.left[lane] -= steps;
            if lanes.left[lane] == 0 {
                lanes.end(lane, jobs);
            }
        }
    }
    wipe(&mut lanes.lanes);
    four.clear();
}

/// Runs every hash of the SHA-2 family with n = 16, H and T_l, which are SHA-256.
#[inline(never)] // Into AVX code; see above.
#[target_feature(enable = "sha,ssse3,bmi2")]
pub(crate) fn hash_many<F: FourStreams>(four: F, jobs: &mut [SlhHash<'_>]) {
    SlhHash::assert_all(jobs);
    // Neighbours of one length run side by side, as the flows hand them over.
    for run in jobs.chunk_by_mut(|a, b| a.input.len() == b.input.len()) {
        if run[0].input.len() == NODE {
            run.chunks_mut(LANES).for_each(|group| hash_nodes(four, group));
            continue;
        }
        run.chunks_mut(STREAMS).for_each(|group| hash_group(four, group));
    }
    four.clear();
}

/// Runs every hash of LMS.
#[inline(never)] // Into AVX code; see above.
#[target_feature(enable = "sha,ssse3,bmi2")]
pub(crate) fn lms_hash_many<F: FourStreams>(four: F, jobs: &mut [LmsHash<'_>]) {
    LmsHash::assert_all(jobs);
    for run in jobs.chunk_by_mut(|a, b| a.input.len() == b.input.len()) {
        run.chunks_mut(STREAMS).for_each(|group| hash_group(four, group));
    }
    four.clear();
}

/// Streams of XMSS, of which the first so many are in use.
#[derive(Clone, Copy)]
struct Rows<F> {
    four: F,
    count: usize,
}

impl<F: FourStreams> Compress<STREAMS> for Rows<F> {
    #[inline(always)]
    fn compress(
        self,
        from: &[Row<STREAMS>; 8],
        block: [&Row<STREAMS>; 16],
        into: &mut [Row<STREAMS>; 8],
    ) {
        // SAFETY: functions of this module make this, which have the extensions.
        unsafe { compress_rows(self, from, &block, into) }
    }
}

impl<F: FourStreams> Isa<STREAMS> for Rows<F> {
    #[inline(always)]
    fn with_streams(self, count: usize) -> Self {
        Rows { count, ..self }
    }

    #[inline(always)]
    fn few(self) -> usize {
        0
    }

    #[inline(always)]
    fn run_few(self, _: &mut [XmssChain<'_>]) {}

    #[inline(always)]
    fn hash_few(self, _: &mut [XmssHash<'_>]) {}

    #[inline(always)]
    fn make_few(self, _: &mut [XmssSecret<'_>]) {}

    #[inline(always)]
    fn clear(self) {
        self.four.clear();
    }
}

/// Word i of four streams, for four i, to four words of each stream; and back.
#[inline]
#[target_feature(enable = "sha,ssse3,bmi2")]
fn transpose(rows: [&Row<STREAMS>; 4]) -> [__m128i; STREAMS] {
    // A loop: `map` is compiled without the extensions, and its closure is not inlined.
    let mut words = [_mm_setzero_si128(); 4];
    for (words, row) in words.iter_mut().zip(rows) {
        // SAFETY: a row is as long as a register, and needs no alignment here.
        *words = unsafe { _mm_loadu_si128(row.as_ptr().cast()) };
    }
    quads(words)
}

/// The columns of four rows.
#[inline]
#[target_feature(enable = "sha,ssse3,bmi2")]
fn quads([a, b, c, d]: [__m128i; 4]) -> [__m128i; 4] {
    let (ab_0, ab_2) = (_mm_unpacklo_epi32(a, b), _mm_unpackhi_epi32(a, b));
    let (cd_0, cd_2) = (_mm_unpacklo_epi32(c, d), _mm_unpackhi_epi32(c, d));
    [
        _mm_unpacklo_epi64(ab_0, cd_0),
        _mm_unpackhi_epi64(ab_0, cd_0),
        _mm_unpacklo_epi64(ab_2, cd_2),
        _mm_unpackhi_epi64(ab_2, cd_2),
    ]
}

/// One block into each state that is in use, row by row; the states go elsewhere.
#[inline(never)]
#[target_feature(enable = "sha,ssse3,bmi2")]
fn compress_rows<F: FourStreams>(
    rows: Rows<F>,
    from: &[Row<STREAMS>; 8],
    block: &[&Row<STREAMS>; 16],
    into: &mut [Row<STREAMS>; 8],
) {
    let [a, b, c, d, e, f, g, h] = from.each_ref();
    let (abef, cdgh) = (transpose([f, e, b, a]), transpose([h, g, d, c]));
    let mut states: [State; STREAMS] = core::array::from_fn(|i| [abef[i], cdgh[i]]);
    let mut blocks = [[_mm_setzero_si128(); 4]; STREAMS];
    for (i, rows) in block.as_chunks::<4>().0.iter().enumerate() {
        for (block, words) in blocks.iter_mut().zip(transpose(*rows)) {
            block[i] = words;
        }
    }
    match rows.count {
        1 => {
            let (one, block) = (&mut states[0], &blocks[0]);
            compress(core::array::from_mut(one), core::array::from_ref(block));
        }
        2 => {
            let (mut two, mut block) = ([states[0], states[1]], [blocks[0], blocks[1]]);
            compress(&mut two, &block);
            states[..2].copy_from_slice(&two);
            wipe(&mut two);
            wipe(&mut block);
        }
        _ => rows.four.compress(&mut states, &blocks),
    }
    let [f, e, b, a] = quads(states.map(|[abef, _]| abef));
    let [h, g, d, c] = quads(states.map(|[_, cdgh]| cdgh));
    for (row, words) in into.iter_mut().zip([a, b, c, d, e, f, g, h]) {
        // SAFETY: as in `transpose`.
        unsafe { _mm_storeu_si128(row.as_mut_ptr().cast(), words) };
    }
    wipe(&mut states);
    wipe(&mut blocks);
}

/// Runs every chain of XMSS to its end.
#[inline(never)] // Into AVX code; see above.
#[target_feature(enable = "sha,ssse3,bmi2")]
pub(crate) fn xmss_chain_many<F: FourStreams>(four: F, jobs: &mut [XmssChain<'_>]) {
    streams::chain_many(Rows { four, count: STREAMS }, jobs);
}

/// Runs every hash of XMSS.
#[inline(never)] // Into AVX code; see above.
#[target_feature(enable = "sha,ssse3,bmi2")]
pub(crate) fn xmss_hash_many<F: FourStreams>(four: F, jobs: &mut [XmssHash<'_>]) {
    streams::hash_many(Rows { four, count: STREAMS }, jobs);
}

/// Makes every secret of XMSS.
#[inline(never)] // Into AVX code; see above.
#[target_feature(enable = "sha,ssse3,bmi2")]
pub(crate) fn xmss_secret_many<F: FourStreams>(four: F, jobs: &mut [XmssSecret<'_>]) {
    streams::secret_many(Rows { four, count: STREAMS }, jobs);
}

/// Hashes of one length, as many as there are streams at most.
#[inline]
#[target_feature(enable = "sha,ssse3,bmi2")]
fn hash_group<F: FourStreams, M: Message>(four: F, group: &mut [M]) {
    match group {
        [a] => hash([a], |states, blocks| compress(states, blocks)),
        [a, b] => hash([a, b], |states, blocks| compress(states, blocks)),
        [a, b, c] => hash([a, b, c], |states, blocks| compress(states, blocks)),
        [a, b, c, d] => hash([a, b, c, d], |states, blocks| four.compress(states, blocks)),
        _ => {}
    }
}

/// Hashes of two values of 16 bytes, as many as there are lanes at most: one block, which is that of
/// F over a value of 32 bytes.
#[inline(never)]
#[target_feature(enable = "sha,ssse3,bmi2")]
fn hash_nodes<F: FourStreams>(four: F, jobs: &mut [SlhHash<'_>]) {
    let lane = |job: &SlhHash<'_>| Lane {
        start: load_state(&job.context.sha256),
        address: Address::new(&job.address, job.address.hash()),
        value: load_value(job.input),
    };
    let mut lanes = [lane(&jobs[0]); LANES];
    for (slot, job) in lanes.iter_mut().zip(&*jobs).skip(1) {
        *slot = lane(job);
    }
    advance(four, &mut lanes[..jobs.len()], &SLH_LAYOUTS[NODE / 8 - 2], 1);
    for (job, lane) in jobs.iter_mut().zip(&lanes) {
        store_value(lane.value, job.output);
    }
    wipe(&mut lanes);
}

/// Hashes of one length, side by side.
#[inline(never)]
#[target_feature(enable = "sha,ssse3,bmi2")]
fn hash<const N: usize, M: Message>(
    jobs: [&mut M; N],
    compress: impl Fn(&mut [State; N], &[Block; N]),
) {
    let length = jobs[0].input().len();
    let mut states: [State; N] = core::array::from_fn(|i| load_state(jobs[i].state()));
    // The first block, and after all whole ones the last, or the last two.
    let mut ends = [[0u8; 128]; N];
    let head = length.min(64 - ADDRESS);
    for (end, job) in ends.iter_mut().zip(&jobs) {
        end[..ADDRESS].copy_from_slice(&job.prefix());
        end[ADDRESS..ADDRESS + head].copy_from_slice(&job.input()[..head]);
    }
    let mut filled = ADDRESS + head;
    if filled == 64 {
        let blocks = ends.each_ref().map(|end| load_block(end, 0));
        compress(&mut states, &blocks);
        let mut at = head;
        while at + 64 <= length {
            let blocks = jobs.each_ref().map(|job| load_block(job.input(), at));
            compress(&mut states, &blocks);
            at += 64;
        }
        for (end, job) in ends.iter_mut().zip(&jobs) {
            *end = [0; 128];
            end[..length - at].copy_from_slice(&job.input()[at..]);
        }
        filled = length - at;
    }
    let blocks = if filled + 1 + 8 > 64 { 2 } else { 1 };
    let before = if M::IS_KEYED { 64 } else { 0 };
    let bits = 8 * (before + ADDRESS + length) as u64;
    for end in &mut ends {
        end[filled] = 0x80;
        end[64 * blocks - 8..64 * blocks].copy_from_slice(&bits.to_be_bytes());
    }
    for block in 0..blocks {
        let blocks = ends.each_ref().map(|end| load_block(end, 64 * block));
        compress(&mut states, &blocks);
    }
    for (job, state) in jobs.into_iter().zip(states) {
        let [low, high] = value_of(state);
        store_value([low, high], job.output());
    }
    wipe(&mut ends);
}

/// The block at `bytes[at..]`.
#[inline]
#[target_feature(enable = "sha,ssse3,bmi2")]
fn load_block(bytes: &[u8], at: usize) -> Block {
    let bytes = &bytes[at..at + 64];
    let order = _mm_set_epi64x(0x0c0d_0e0f_0809_0a0b, 0x0405_0607_0001_0203);
    // SAFETY: four registers make up the 64 bytes.
    core::array::from_fn(|i| unsafe {
        _mm_shuffle_epi8(_mm_loadu_si128(bytes.as_ptr().cast::<__m128i>().add(i)), order)
    })
}

/// Zeros memory that held secrets.
#[inline]
#[target_feature(enable = "sha,ssse3,bmi2")]
fn wipe<T: Copy>(data: &mut [T]) {
    // SAFETY: the wiped data is lanes and bytes, for which all zero is a valid value; the empty
    // instruction makes the stores observable.
    unsafe {
        core::ptr::write_bytes(data.as_mut_ptr(), 0, data.len());
        core::arch::asm!("/* {0} */", in(reg) data.as_ptr(), options(nostack, preserves_flags));
    }
}
