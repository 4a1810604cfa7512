//! Many sponges over the lanes of an instruction set (FIPS 202, sections 4 and 5).
//!
//! ```text
//!   jobs --longest first--> queue --> lane 0..N : absorb, absorb, squeeze, ... --> next job
//!                                       |
//!                            one permutation of all lanes a step
//! ```
//!
//! Jobs of any function, rate and length share the lanes; a lane takes the next job as soon as its
//! current one ends. The longest job (by its bytes) starts first, so that the hash of a whole key
//! runs in parallel to many short ones and not after them. If an instruction set has a cheaper
//! narrow step, jobs move to the lower lanes as soon as these can hold all remaining jobs and the
//! queue is empty.
//!
//! If as many jobs of one shape as there are lanes follow each other at the start of a call or meet
//! in the lanes, they run in lockstep (`in_step`); a few short jobs with a long one take the narrow
//! step from the start (`is_narrow`).
//!
//! An instruction set implements [`Lanes`], and compiles the functions of this module for itself
//! with [`stations!`]. Everything here is `inline(always)` for that, and takes the token of the
//! instruction set as a proof that it is there.
//!
//! Lengths, rates and the schedule are public; the bytes are not. States and staged input are
//! zeroed at the end.

use gabion_scheme::kernels::{Sponge, Xof};

use crate::common::memory::{Plain, Table, unspecified, wipe};

mod in_step;
mod lanes;
mod queue;

pub(crate) use in_step::run_in_step;
pub(crate) use lanes::{Lanes, copy_any, stations};
use queue::Queue;

/// Bytes of a staged block: the largest rate, 168, in whole registers.
const ROW: usize = 192;
/// Space for bytes that are copied beyond the end of a piece.
const ROW_ROOM: usize = ROW + SHORT;
/// Bytes of the longest piece that is copied in one go.
pub(crate) const SHORT: usize = 64;
/// The most lanes that any instruction set has.
const LANES_MAX: usize = 8;

/// A state of each lane, word by word.
pub(crate) type State<V> = [V; 25];

/// A staged block of input, padded with zeros to [`ROW`] bytes.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Row(pub(crate) [u8; ROW_ROOM]);

// SAFETY: bytes only, and their number is a multiple of the alignment, so nothing pads them.
unsafe impl Plain for Row {}

/// The state of a lane.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Idle,
    /// Input is left, or the padding.
    Absorb,
    /// The padding is in; every permutation yields output.
    Squeeze,
}

/// A lane and its place in a job.
#[derive(Clone, Copy)]
pub(crate) struct Lane {
    phase: Phase,
    /// Index of the job.
    job: usize,
    rate: usize,
    /// The piece of input to read next, and how much of it is read.
    piece: usize,
    offset: usize,
    /// Bytes of output written.
    written: usize,
}

/// A lane without a job.
const IDLE: Lane = Lane { phase: Phase::Idle, job: 0, rate: 0, piece: 0, offset: 0, written: 0 };

/// Runs every sponge to its end.
#[inline(always)]
pub(crate) fn sponge_many<L: Lanes<N, M>, const N: usize, const M: usize>(
    isa: L,
    jobs: &mut [Sponge<'_>],
) {
    if let [job] = jobs {
        let lane = Lane { phase: Phase::Absorb, rate: job.xof.rate(), ..IDLE };
        if !job.output.is_empty() {
            isa.run_alone(&mut [0; 25], lane, job);
            isa.clear();
        }
        return;
    }
    // A lane's state counts from its first block on, and of a row what was staged.
    let mut state: State<L::Vector> = unspecified();
    let mut rows: [Row; N] = unspecified();
    let mut jobs = jobs;
    while jobs.len() >= N
        && isa.run_in_step(&mut state, &mut rows, jobs, core::array::from_fn(|lane| lane))
    {
        jobs = &mut jobs[N..];
    }
    let mut queue = Queue::new();
    let mut lanes = [IDLE; N];
    let width = if is_narrow::<L, N, M>(jobs) { M } else { N };
    loop {
        let (mut fresh, mut active) = (0u8, 0u8);
        for (l, lane) in lanes[..width].iter_mut().enumerate() {
            if lane.phase == Phase::Idle {
                let Some(job) = queue.pop::<L, N, M>(isa, jobs) else { continue };
                *lane = Lane { phase: Phase::Absorb, job, rate: jobs[job].xof.rate(), ..IDLE };
                fresh |= 1 << l;
            }
            active |= 1 << l;
        }
        if fresh == first_lanes(N)
            && isa.run_in_step(&mut state, &mut rows, jobs, lanes.map(|lane| lane.job))
        {
            lanes = [IDLE; N];
            continue;
        }
        if active.count_ones() <= 1 {
            // Nothing is queued: a lane would have taken it.
            if active != 0 {
                let l = active.trailing_zeros() as usize;
                let states = words_mut::<L, N, M>(&mut state);
                let mut words = states.each_ref().map(|word| word[l] * u64::from(fresh == 0));
                isa.run_alone(&mut words, lanes[l], &mut jobs[lanes[l].job]);
            }
            break;
        }
        let lower = first_lanes(M);
        if active.count_ones() as usize <= M && active > lower {
            compact::<L, N, M>(&mut state, &mut lanes, &mut fresh);
            active = lower;
        }
        if M < N && active <= lower {
            isa.absorb::<M>(&mut state, &mut lanes, &mut rows, jobs, fresh);
            isa.permute::<M>(&mut state);
            isa.squeeze::<M>(&state, &mut lanes, &mut rows, jobs);
        } else {
            isa.absorb::<N>(&mut state, &mut lanes, &mut rows, jobs, fresh);
            isa.permute::<N>(&mut state);
            isa.squeeze::<N>(&state, &mut lanes, &mut rows, jobs);
        }
    }
    wipe(&mut rows);
    wipe(&mut state);
    isa.clear();
}

/// Lanes 0 to `n` - 1, as bits.
#[inline(always)]
fn first_lanes(n: usize) -> u8 {
    const { assert!(LANES_MAX == 8) };
    (0xff_u32 >> (LANES_MAX - n)) as u8
}

/// The state as words: `[word][lane]`.
#[inline(always)]
fn words_mut<L: Lanes<N, M>, const N: usize, const M: usize>(
    state: &mut State<L::Vector>,
) -> &mut [[u64; N]; 25] {
    const { assert!(size_of::<L::Vector>() == 8 * N) };
    // SAFETY: same size (asserted above), lesser alignment, and plain data in both.
    unsafe { &mut *(state as *mut State<L::Vector>).cast() }
}

/// Returns whether a call does better with narrow steps from the start: where one long job would
/// keep a step of all lanes waiting after the others are done, as the hash of a whole key does in a
/// single operation.
///
/// Four lanes cost less than eight, but more than half of them on Intel; the weights lie between that
/// and AMD's half.
#[inline(always)]
fn is_narrow<L: Lanes<N, M>, const N: usize, const M: usize>(jobs: &[Sponge<'_>]) -> bool {
    const JOBS_MAX: usize = 24;
    const STEP: usize = 16;
    const NARROW_STEP: usize = 9;
    if M == N || jobs.len() > JOBS_MAX {
        return false;
    }
    let (mut total, mut longest) = (0, 0);
    for job in jobs {
        let input: usize = job.input.iter().map(|piece| piece.len()).sum();
        // About the number of permutations.
        let steps = ((input + job.output.len()) / 150).max(1);
        total += steps;
        longest = longest.max(steps);
    }
    let beside = (total - longest).div_ceil(N - 1);
    let wide = STEP * beside + NARROW_STEP * longest.saturating_sub(beside);
    let narrow = NARROW_STEP * total.div_ceil(M).max(longest);
    longest > beside + 1 && narrow < wide
}

/// Stages a message that is shorter than a block and consists of short pieces: nearly all of them.
/// Returns its length, or `None` where it is another one.
///
/// Pieces that may be empty are copied like others, without a branch that would go either way from
/// job to job.
#[inline(always)]
fn stage_short<L: Lanes<N, M>, const N: usize, const M: usize>(
    isa: L,
    rate: usize,
    job: &Sponge<'_>,
    row: &mut Row,
) -> Option<usize> {
    let lengths = job.input.map(<[u8]>::len);
    let longest = lengths.iter().fold(0, |a, b| a | b);
    let total: usize = lengths.iter().sum();
    // The lengths' bits together are no less than the longest of them.
    if longest > SHORT || total >= rate {
        return None;
    }
    if total <= SHORT && lengths[2] | lengths[3] | lengths[4] == 0 {
        isa.copy_pair(row, job.input[0], job.input[1]);
        return Some(total);
    }
    let mut filled = 0;
    for piece in &job.input {
        isa.copy_short(row, filled, piece);
        filled += piece.len();
    }
    zero_behind(row, total);
    Some(total)
}

/// Stages the lane's next block of input. Returns its length and whether it is the last; the
/// padding is left to the caller. Zeros follow up to the next word.
#[inline(always)]
fn stage_block<L: Lanes<N, M>, const N: usize, const M: usize>(
    isa: L,
    lane: &mut Lane,
    job: &Sponge<'_>,
    row: &mut Row,
) -> (usize, bool) {
    if lane.piece == 0
        && lane.offset == 0
        && let Some(filled) = stage_short(isa, lane.rate, job, row)
    {
        return (filled, true);
    }
    let mut filled = 0;
    while let Some(piece) = job.input.get(lane.piece) {
        let rest = &piece[lane.offset..];
        let taken = &rest[..rest.len().min(lane.rate - filled)];
        for part in taken.chunks(SHORT) {
            isa.copy_short(row, filled, part);
            filled += part.len();
        }
        // A message that fills its last block is followed by a block of padding.
        if filled == lane.rate {
            lane.offset += taken.len();
            return (filled, false);
        }
        lane.piece += 1;
        lane.offset = 0;
    }
    zero_behind(row, filled);
    (filled, true)
}

/// Zeros the bytes behind the message, up to the end of its last group of words.
#[inline(always)]
fn zero_behind(row: &mut Row, filled: usize) {
    row.0[filled..filled + SHORT].fill(0);
}

/// Runs one sponge from where it is to its end, and zeros its state.
#[inline(always)]
pub(crate) fn run_alone<L: Lanes<N, M>, const N: usize, const M: usize>(
    isa: L,
    words: &mut [u64; 25],
    mut lane: Lane,
    job: &mut Sponge<'_>,
) {
    let mut row = Row([0; ROW_ROOM]);
    loop {
        if lane.phase == Phase::Absorb {
            let (filled, last) = stage_block(isa, &mut lane, job, &mut row);
            let input = row.0.as_chunks::<8>().0;
            for (word, bytes) in words[..lane.rate / 8].iter_mut().zip(&input[..filled / 8 + 1]) {
                *word ^= u64::from_le_bytes(*bytes);
            }
            if last {
                words[filled / 8] ^= u64::from(job.xof.suffix()) << (8 * (filled % 8));
                words[lane.rate / 8 - 1] ^= 1 << 63;
                lane.phase = Phase::Squeeze;
            }
        }
        isa.permute_one(words);
        if lane.phase == Phase::Squeeze {
            let output = &mut job.output[lane.written..];
            let length = output.len().min(lane.rate);
            let (whole, rest) = output[..length].as_chunks_mut::<8>();
            for (bytes, word) in whole.iter_mut().zip(words.iter()) {
                *bytes = word.to_le_bytes();
            }
            if !rest.is_empty() {
                let last = words[length / 8].to_le_bytes();
                rest.copy_from_slice(&last[..rest.len()]);
            }
            lane.written += length;
            if lane.written == job.output.len() {
                break;
            }
        }
    }
    wipe(&mut row.0);
    wipe(words);
}

/// Register `g` of a row.
#[inline(always)]
fn register<L: Lanes<N, M>, const N: usize, const M: usize>(
    isa: L,
    row: &Row,
    g: usize,
) -> L::Vector {
    debug_assert!(8 * N * (g + 1) <= ROW);
    // SAFETY: the register lies within the row.
    unsafe { isa.load(row.0.as_ptr().add(8 * N * g), N) }
}

/// Bytes before and behind the only one that is not zero in [`SUFFIXES`].
const AROUND: usize = 8 * LANES_MAX;

/// The first bytes of padding: of SHAKE, and of SHA-3. A register that is read `p` bytes before the
/// middle has it in byte `p`.
static SUFFIXES: [Table<u8, { 3 * AROUND }>; 2] = {
    let mut tables = [Table([0; 3 * AROUND]); 2];
    tables[0].0[AROUND] = Xof::Shake128.suffix();
    tables[1].0[AROUND] = Xof::Sha3_256.suffix();
    tables
};

/// The input of a lane without input.
static UNREAD: Row = Row([0; ROW_ROOM]);

/// The blocks that a step absorbs.
struct Blocks<const N: usize> {
    /// For each lane, ROW readable bytes, and how many words of them count.
    sources: [*const u8; N],
    words: [usize; N],
    /// The position and first byte of the padding, if it begins here, and the groups of words that
    /// contain it.
    ends: [usize; N],
    suffixes: [&'static Table<u8, { 3 * AROUND }>; N],
    padded: u32,
    /// Bytes of the longest block, padding included.
    extent: usize,
    /// Lanes whose last bit of padding falls into a word.
    tops: [(usize, u8); 3],
}

/// Finds the next block of every lane below `W` that has input left.
///
/// A block in the midst of a long piece is read where it is; all others are put together in the
/// lane's row.
#[inline(always)]
fn next_blocks<L: Lanes<N, M>, const N: usize, const M: usize, const W: usize>(
    isa: L,
    lanes: &mut [Lane; N],
    rows: &mut [Row; N],
    jobs: &[Sponge<'_>],
) -> Blocks<N> {
    let mut blocks = Blocks {
        sources: [UNREAD.0.as_ptr(); N],
        words: [0; N],
        ends: [usize::MAX; N],
        suffixes: [&SUFFIXES[0]; N],
        padded: 0,
        extent: 0,
        tops: [(8, 0), (16, 0), (20, 0)],
    };
    for l in 0..W {
        let lane = &mut lanes[l];
        if lane.phase != Phase::Absorb {
            continue;
        }
        let job = &jobs[lane.job];
        if let Some(piece) = job.input.get(lane.piece)
            && piece.len() - lane.offset >= ROW
        {
            blocks.sources[l] = piece[lane.offset..].as_ptr();
            blocks.words[l] = lane.rate / 8;
            blocks.extent = blocks.extent.max(lane.rate);
            lane.offset += lane.rate;
            continue;
        }
        let (filled, last) = stage_block(isa, lane, job, &mut rows[l]);
        // Not before: writing the row ends the life of pointers taken from it.
        blocks.sources[l] = rows[l].0.as_ptr();
        blocks.words[l] = filled.div_ceil(8);
        blocks.extent = blocks.extent.max(filled + usize::from(last));
        if last {
            blocks.ends[l] = filled;
            blocks.padded |= 1 << (filled / (8 * N));
            let is_shake = job.xof.suffix() == Xof::Shake128.suffix();
            blocks.suffixes[l] = &SUFFIXES[usize::from(!is_shake)];
            lane.phase = Phase::Squeeze;
            let top = usize::from(lane.rate > 72) + usize::from(lane.rate > 136);
            blocks.tops[top].1 |= 1 << l;
        }
    }
    blocks
}

/// Absorbs one block in every lane below `W` (the others are idle) that has input left. Lanes in
/// `fresh` start from zero.
#[inline(always)]
pub(crate) fn absorb<L: Lanes<N, M>, const N: usize, const M: usize, const W: usize>(
    isa: L,
    state: &mut State<L::Vector>,
    lanes: &mut [Lane; N],
    rows: &mut [Row; N],
    jobs: &[Sponge<'_>],
    fresh: u8,
) {
    let blocks = next_blocks::<L, N, M, W>(isa, lanes, rows, jobs);
    if blocks.extent == 0 {
        return;
    }
    let groups = blocks.extent.div_ceil(8 * N);
    for g in 0..groups {
        let mut input = [isa.splat(0); N];
        for (l, input) in input.iter_mut().enumerate().take(W) {
            let count = blocks.words[l].saturating_sub(N * g).min(N);
            // SAFETY: each source has ROW readable bytes, and a block ends within them.
            *input = unsafe { isa.load(blocks.sources[l].add(8 * N * g), count) };
        }
        if blocks.padded >> g & 1 == 1 {
            // Not stored as bytes before: loading them with their neighbours would stall.
            for (l, input) in input.iter_mut().enumerate().take(W) {
                let before = blocks.ends[l].wrapping_sub(8 * N * g).min(8 * N);
                let suffix = blocks.suffixes[l].0.as_ptr();
                // SAFETY: `before` is AROUND at most, and a register ends within the table.
                let suffix = unsafe { isa.load(suffix.add(AROUND - before), N) };
                *input = isa.xor(*input, suffix);
            }
        }
        let input = isa.rows_to_words::<W>(input);
        for (word, input) in state[N * g..N * (g + 1)].iter_mut().zip(input) {
            *word = isa.xor(isa.only(*word, !fresh), input);
        }
    }
    if fresh != 0 {
        for word in &mut state[N * groups..] {
            *word = isa.only(*word, !fresh);
        }
    }
    for (word, lanes) in blocks.tops {
        if lanes != 0 {
            state[word] = isa.xor(state[word], isa.only(isa.splat(1 << 63), lanes));
        }
    }
}

/// Writes one block of output, or the rest, of every lane below `W` that is squeezing.
///
/// A lane that has whole registers left writes them straight to the output, and the next block
/// overwrites the surplus; the last block goes through the lane's row.
#[inline(always)]
pub(crate) fn squeeze<L: Lanes<N, M>, const N: usize, const M: usize, const W: usize>(
    isa: L,
    state: &State<L::Vector>,
    lanes: &mut [Lane; N],
    rows: &mut [Row; N],
    jobs: &mut [Sponge<'_>],
) {
    // For each lane room for all groups.
    let mut targets: [*mut u8; N] = rows.each_mut().map(|row| row.0.as_mut_ptr());
    let mut lengths = [0; N];
    let mut longest = 0;
    for (lane, length) in lanes.iter().zip(&mut lengths) {
        if lane.phase == Phase::Squeeze {
            *length = lane.rate.min(jobs[lane.job].output.len() - lane.written);
            longest = longest.max(*length);
        }
    }
    let groups = longest.div_ceil(8 * N);
    let mut through_row = 0u8;
    for l in 0..W {
        let lane = &mut lanes[l];
        if lane.phase == Phase::Squeeze {
            let rest = &mut jobs[lane.job].output[lane.written..];
            if rest.len() >= 8 * N * groups {
                targets[l] = rest.as_mut_ptr();
            } else {
                through_row |= 1 << l;
            }
        }
    }
    for g in 0..groups {
        let mut words = [isa.splat(0); N];
        words.copy_from_slice(&state[N * g..N * (g + 1)]);
        let output = isa.words_to_rows::<W>(words);
        for l in 0..W {
            // SAFETY: a row and any other target has room for `groups` registers, ROW at most.
            unsafe { isa.store(targets[l].add(8 * N * g), output[l], 8 * N) };
        }
    }
    for l in 0..W {
        let lane = &mut lanes[l];
        if lane.phase != Phase::Squeeze {
            continue;
        }
        let output = &mut *jobs[lane.job].output;
        if through_row >> l & 1 == 1 {
            let output = &mut output[lane.written..lane.written + lengths[l]];
            for (g, chunk) in output.chunks_mut(8 * N).enumerate() {
                let part = register(isa, &rows[l], g);
                // SAFETY: the length is that of the chunk.
                unsafe { isa.store(chunk.as_mut_ptr(), part, chunk.len()) };
            }
        }
        lane.written += lengths[l];
        if lane.written == output.len() {
            lane.phase = Phase::Idle;
        }
    }
}

/// Moves the few lanes above the narrow step to idle lanes within it.
#[inline(always)]
fn compact<L: Lanes<N, M>, const N: usize, const M: usize>(
    state: &mut State<L::Vector>,
    lanes: &mut [Lane; N],
    fresh: &mut u8,
) {
    let words = words_mut::<L, N, M>(state);
    for from in M..N {
        if lanes[from].phase == Phase::Idle {
            continue;
        }
        let Some(to) = lanes.iter().position(|lane| lane.phase == Phase::Idle) else {
            return;
        };
        lanes.swap(from, to);
        for word in &mut *words {
            word[to] = word[from];
        }
        *fresh |= (*fresh >> from & 1) << to;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_lanes_are_the_lowest_bits() {
        assert_eq!([1, 2, 4, 8].map(first_lanes), [1, 3, 15, 255]);
    }
}
