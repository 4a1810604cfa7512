//! Many sponges over eight lanes (FIPS 202, sections 4 and 5).
//!
//! ```text
//!   jobs --longest first--> queue --> lane 0..8 : absorb, absorb, squeeze, ... --> next job
//!                                       |
//!                            one permutation of all lanes a step
//! ```
//!
//! Jobs of any function, rate and length share the lanes; a lane takes the next job as soon as
//! its own ends. The longest job (by its bytes) starts first, so that the hash of
//! a whole key runs beside many short ones and not after them. Once four lanes or fewer are left
//! with nothing queued, they move to the lower half and a step costs half.
//!
//! Eight jobs of one kind that start together need no lanes of their own (`run_in_step`), and few
//! jobs beside a long one take four lanes from the start (`is_narrow`).
//!
//! Lengths, rates and the schedule are public; the bytes are not. States and staged input are
//! zeroed at the end.

use core::arch::x86_64::*;

use gabion_scheme::kernels::{Sponge, Xof};

use super::constants::Table;
use super::keccak::{
    LANES, State, permute_1, permute_8, permute_low_4, rows_to_words, transpose, words_to_rows,
};
use super::registers;

/// Jobs that are put in order at a time. A longer call is fed to the lanes in pieces of this size
/// without draining them in between.
const WINDOW: usize = 256;
/// Bytes of a staged block: the largest rate, 168, in whole registers.
const ROW: usize = 192;
/// Room for one more register, since pieces are copied 64 bytes at a time.
const ROW_ROOM: usize = ROW + 64;

/// A staged block of input, padded with zeros to [`ROW`] bytes.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Row([u8; ROW_ROOM]);

// SAFETY: bytes only, and their number is a multiple of the alignment, so nothing pads them.
unsafe impl registers::Plain for Row {}

/// What a lane is doing.
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
struct Lane {
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

/// About how long a sponge runs: a class, 0 if it yields nothing. A class is a number of 128-byte
/// units to two binary digits; an order needs no exact count of permutations.
#[inline]
fn class(job: &Sponge<'_>) -> u8 {
    let input: usize = job.input.iter().map(|piece| piece.len()).sum();
    let output = job.output.len();
    if output == 0 {
        return 0;
    }
    let units = 2 + (input + output) / 128;
    let exponent = units.ilog2();
    (2 * exponent as usize + (units >> (exponent - 1) & 1)).min(63) as u8
}

/// The jobs that are not started yet, longest class first within a window.
struct Queue {
    /// Classes of the window's jobs.
    classes: Table<u8, WINDOW>,
    /// Classes that are still to come, as bits.
    waiting: u64,
    /// Jobs of the present class, as bits.
    present: [u64; WINDOW / 64],
    /// First job of the window, and first job beyond it.
    base: usize,
    next: usize,
}

impl Queue {
    #[inline]
    fn new() -> Self {
        let classes = Table([0; WINDOW]);
        Queue { classes, waiting: 0, present: [0; WINDOW / 64], base: 0, next: 0 }
    }

    /// The next job to start.
    #[inline]
    #[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
    fn pop(&mut self, jobs: &[Sponge<'_>]) -> Option<usize> {
        loop {
            for (i, bits) in self.present.iter_mut().enumerate() {
                if *bits != 0 {
                    let job = self.base + 64 * i + bits.trailing_zeros() as usize;
                    *bits &= *bits - 1;
                    return Some(job);
                }
            }
            if self.waiting != 0 {
                let class = self.waiting.ilog2();
                self.waiting ^= 1 << class;
                let class = _mm512_set1_epi8(class as i8);
                for (i, bits) in self.present.iter_mut().enumerate() {
                    let classes = registers::load(&self.classes.0, 64 * i);
                    *bits = _mm512_cmpeq_epi8_mask(classes, class);
                }
            } else if self.next < jobs.len() {
                self.advance(jobs);
            } else {
                return None;
            }
        }
    }

    /// Moves the window on. Jobs without output drop out.
    fn advance(&mut self, jobs: &[Sponge<'_>]) {
        self.base = self.next;
        self.next = jobs.len().min(self.base + WINDOW);
        self.classes.0 = [0; WINDOW];
        for (slot, job) in self.classes.0.iter_mut().zip(&jobs[self.base..self.next]) {
            *slot = class(job);
            self.waiting |= 1 << *slot;
        }
        self.waiting &= !1;
    }
}

impl Row {
    /// Register `g` of the row.
    #[inline]
    #[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
    fn register(&self, g: usize) -> __m512i {
        debug_assert!(64 * g < ROW_ROOM);
        // SAFETY: `g` is below 4, and a row is four registers, aligned.
        unsafe { *self.0.as_ptr().cast::<__m512i>().add(g) }
    }
}

/// Stages a message that is shorter than a block and consists of pieces of 64 bytes at most: nearly
/// all of them. Returns its length, or `None` where it is another one.
///
/// Pieces that may be empty are copied like others, without a branch that would go either way from
/// job to job.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn stage_short(rate: usize, job: &Sponge<'_>, row: &mut Row) -> Option<usize> {
    let lengths = job.input.map(<[u8]>::len);
    let longest = lengths.iter().fold(0, |a, b| a | b);
    let total: usize = lengths.iter().sum();
    if longest > 64 || total >= rate {
        return None;
    }
    let mut filled = 0;
    let mut copy = |piece: &[u8]| {
        // Nothing may be mapped where an empty piece points.
        let source = if piece.is_empty() { &UNREAD.0 } else { piece };
        let mask = _bzhi_u64(!0, piece.len() as u32);
        // SAFETY: the mask lets no byte beyond the piece be read.
        let v = unsafe { _mm512_maskz_loadu_epi8(mask, source.as_ptr().cast()) };
        registers::store(&mut row.0, filled, v, 64);
        filled += piece.len();
    };
    copy(job.input[0]);
    copy(job.input[1]);
    if lengths[2] | lengths[3] | lengths[4] != 0 {
        copy(job.input[2]);
        copy(job.input[3]);
        copy(job.input[4]);
    }
    registers::store(&mut row.0, total, _mm512_setzero_si512(), 64);
    Some(total)
}

/// Stages the lane's next block of input. Returns its length and whether it is the last; the
/// padding is left to the caller. Zeros follow up to the next word.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn stage_block(lane: &mut Lane, job: &Sponge<'_>, row: &mut Row) -> (usize, bool) {
    if lane.piece == 0
        && lane.offset == 0
        && let Some(filled) = stage_short(lane.rate, job, row)
    {
        return (filled, true);
    }
    let mut filled = 0;
    while let Some(piece) = job.input.get(lane.piece) {
        let rest = &piece[lane.offset..];
        let taken = &rest[..rest.len().min(lane.rate - filled)];
        let mut done = 0;
        while done < taken.len() {
            // Whole registers, zeros behind the end.
            registers::store(&mut row.0, filled + done, registers::load(taken, done), 64);
            done += 64;
        }
        filled += taken.len();
        // A message that fills its last block is followed by a block of padding.
        if filled == lane.rate {
            lane.offset += taken.len();
            return (filled, false);
        }
        lane.piece += 1;
        lane.offset = 0;
    }
    registers::store(&mut row.0, filled, _mm512_setzero_si512(), 64);
    (filled, true)
}

/// A lane without a job.
const IDLE: Lane = Lane { phase: Phase::Idle, job: 0, rate: 0, piece: 0, offset: 0, written: 0 };

/// Whether a call does better on four lanes: where one long job would keep a step of eight lanes
/// waiting after the others are done, as the hash of a whole key does in a single operation.
///
/// Four lanes cost half of eight on Zen 4 and two thirds on Intel; the weights lie in between.
fn is_narrow(jobs: &[Sponge<'_>]) -> bool {
    const JOBS_MAX: usize = 24;
    const STEP_OF_8: usize = 16;
    const STEP_OF_4: usize = 9;
    if jobs.len() > JOBS_MAX {
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
    let beside = (total - longest).div_ceil(7);
    let wide = STEP_OF_8 * beside + STEP_OF_4 * longest.saturating_sub(beside);
    let narrow = STEP_OF_4 * total.div_ceil(4).max(longest);
    longest > beside + 1 && narrow < wide
}

/// Runs every sponge to its end.
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(super) fn sponge_many(jobs: &mut [Sponge<'_>]) {
    if let [job] = jobs {
        let lane = Lane { phase: Phase::Absorb, rate: job.xof.rate(), ..IDLE };
        if !job.output.is_empty() {
            run_alone(&mut [0; 25], lane, job);
            registers::clear();
        }
        return;
    }
    let mut queue = Queue::new();
    // A lane's state counts from its first block on, and of a row what was staged.
    let mut state: State = registers::unspecified();
    let mut rows: [Row; LANES] = registers::unspecified();
    let mut lanes = [IDLE; LANES];
    let width = if is_narrow(jobs) { LANES / 2 } else { LANES };
    loop {
        let (mut fresh, mut active) = (0u8, 0u8);
        for (l, lane) in lanes[..width].iter_mut().enumerate() {
            if lane.phase == Phase::Idle {
                let Some(job) = queue.pop(jobs) else { continue };
                *lane = Lane { phase: Phase::Absorb, job, rate: jobs[job].xof.rate(), ..IDLE };
                fresh |= 1 << l;
            }
            active |= 1 << l;
        }
        if fresh == 0xff && run_in_step(&mut state, &mut rows, jobs, lanes.map(|lane| lane.job)) {
            lanes = [IDLE; LANES];
            continue;
        }
        if active.count_ones() <= 1 {
            // Nothing is queued: a lane would have taken it.
            if active != 0 {
                let l = active.trailing_zeros() as usize;
                let mut words = words_mut(&mut state).map(|word| word[l] * u64::from(fresh == 0));
                run_alone(&mut words, lanes[l], &mut jobs[lanes[l].job]);
            }
            break;
        }
        if active.count_ones() <= 4 && active > 0xf {
            compact(&mut state, &mut lanes, &mut fresh);
            active = 0xf;
        }
        if active <= 0xf {
            absorb::<4>(&mut state, &mut lanes, &mut rows, jobs, fresh);
            permute_low_4(&mut state);
            squeeze::<4>(&state, &mut lanes, &mut rows, jobs);
        } else {
            absorb::<8>(&mut state, &mut lanes, &mut rows, jobs, fresh);
            permute_8(&mut state);
            squeeze::<8>(&state, &mut lanes, &mut rows, jobs);
        }
    }
    registers::wipe(&mut rows);
    registers::wipe(&mut state);
    registers::clear();
}

/// Runs one sponge from where it is to its end, and zeros its state.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn run_alone(words: &mut [u64; 25], mut lane: Lane, job: &mut Sponge<'_>) {
    let mut row = Row([0; ROW_ROOM]);
    loop {
        if lane.phase == Phase::Absorb {
            let (filled, last) = stage_block(&mut lane, job, &mut row);
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
        permute_1(words);
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
    registers::wipe(&mut row.0);
    registers::wipe(words);
}

/// Runs eight jobs of one function and of the same lengths from beginning to end, if they are such
/// and their input is short; says whether it did.
///
/// The matrices, the noise and the masks of both schemes come in such groups. No lane has a state
/// of its own here, which makes up a third of the price of a permutation where they do.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn run_in_step(
    state: &mut State,
    rows: &mut [Row; LANES],
    jobs: &mut [Sponge<'_>],
    group: [usize; LANES],
) -> bool {
    let (xof, length) = (jobs[group[0]].xof, jobs[group[0]].output.len());
    let rate = xof.rate();
    let mut filled = None;
    for (row, index) in rows.iter_mut().zip(group) {
        let job = &jobs[index];
        if job.xof != xof || job.output.len() != length {
            return false;
        }
        let Some(n) = stage_short(rate, job, row) else {
            return false;
        };
        if *filled.get_or_insert(n) != n {
            return false;
        }
    }
    let filled = filled.unwrap_or(0);
    // Zeros follow each message up to the end of its last group of eight words.
    for g in 0..3 {
        let words = if 64 * g < filled {
            transpose(rows.each_ref().map(|row| row.register(g)))
        } else {
            [_mm512_setzero_si512(); 8]
        };
        state[8 * g..8 * g + 8].copy_from_slice(&words);
    }
    state[24] = _mm512_setzero_si512();
    let suffix = i64::from(xof.suffix()) << (8 * (filled % 8));
    state[filled / 8] = _mm512_xor_si512(state[filled / 8], _mm512_set1_epi64(suffix));
    let last = rate / 8 - 1;
    state[last] = _mm512_xor_si512(state[last], _mm512_set1_epi64(i64::MIN));

    let outputs = group.map(|index| jobs[index].output.as_mut_ptr());
    let mut written = 0;
    while written < length {
        permute_8(state);
        let block = rate.min(length - written);
        for g in 0..block.div_ceil(64) {
            let mut words = [_mm512_setzero_si512(); 8];
            words.copy_from_slice(&state[8 * g..8 * g + 8]);
            let words = transpose(words);
            let mask = registers::first(block - 64 * g);
            for (output, row) in outputs.iter().zip(words) {
                // SAFETY: each output has `length` bytes, and the mask ends at the end of a block,
                // `written + block` at most.
                unsafe { _mm512_mask_storeu_epi8(output.add(written + 64 * g).cast(), mask, row) };
            }
        }
        written += block;
    }
    true
}

/// The first bytes of padding: of SHAKE, and of SHA-3.
static SUFFIXES: [Table<u8, 64>; 2] =
    [Table([Xof::Shake128.suffix(); 64]), Table([Xof::Sha3_256.suffix(); 64])];

/// What a lane without input has at hand: a masked load is slow where nothing is mapped.
static UNREAD: Row = Row([0; ROW_ROOM]);

/// Absorbs one block in every lane below `W` (4 or 8, and the others idle) that has input left.
/// Lanes in `fresh` start from zero.
///
/// A block in the midst of a long piece is read where it is; all others are put together in the
/// lane's row.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn absorb<const W: usize>(
    state: &mut State,
    lanes: &mut [Lane; LANES],
    rows: &mut [Row; LANES],
    jobs: &[Sponge<'_>],
    fresh: u8,
) {
    // For each lane ROW readable bytes, and which words of them count.
    let mut sources = [UNREAD.0.as_ptr(); LANES];
    let mut words = [0u32; LANES];
    // Where the padding begins in each group of 64 bytes, as a bit, and with which byte.
    let mut suffixes = [[0u64; LANES]; 3];
    let mut bytes = [&SUFFIXES[0]; LANES];
    let mut padded = 0;
    let mut extent = 0;
    // Lanes whose last bit of padding falls into word 8, 16 or 20.
    let mut ends = [(8, 0u8), (16, 0), (20, 0)];
    for l in 0..W {
        let lane = &mut lanes[l];
        if lane.phase != Phase::Absorb {
            continue;
        }
        let job = &jobs[lane.job];
        if let Some(piece) = job.input.get(lane.piece)
            && piece.len() - lane.offset >= ROW
        {
            sources[l] = piece[lane.offset..].as_ptr();
            words[l] = (1 << (lane.rate / 8)) - 1;
            extent = extent.max(lane.rate);
            lane.offset += lane.rate;
            continue;
        }
        let (filled, last) = stage_block(lane, job, &mut rows[l]);
        // Not before: writing the row ends the life of pointers taken from it.
        sources[l] = rows[l].0.as_ptr();
        words[l] = (1 << filled.div_ceil(8)) - 1;
        extent = extent.max(filled + usize::from(last));
        if last {
            suffixes[filled / 64][l] = 1 << (filled % 64);
            padded |= 1 << (filled / 64);
            bytes[l] = &SUFFIXES[usize::from(job.xof.suffix() != SUFFIXES[0].0[0])];
            lane.phase = Phase::Squeeze;
            let end = usize::from(lane.rate > 72) + usize::from(lane.rate > 136);
            ends[end].1 |= 1 << l;
        }
    }
    if extent == 0 {
        return;
    }
    let groups = extent.div_ceil(64);
    for g in 0..groups {
        let mut input = [_mm512_setzero_si512(); LANES];
        for l in 0..W {
            let mask = (words[l] >> (8 * g)) as u8;
            // SAFETY: each source has ROW readable bytes, three registers, and `g` is below 3.
            input[l] = unsafe { _mm512_maskz_loadu_epi64(mask, sources[l].add(64 * g).cast()) };
        }
        if padded >> g & 1 == 1 {
            // Not stored as bytes before: loading them with their neighbours would stall.
            for l in 0..W {
                let suffix = registers::table(bytes[l]);
                input[l] = _mm512_mask_mov_epi8(input[l], suffixes[g][l], suffix);
            }
        }
        let input = rows_to_words::<W>(input);
        for (word, input) in state[8 * g..8 * g + 8].iter_mut().zip(input) {
            *word = _mm512_xor_si512(_mm512_maskz_mov_epi64(!fresh, *word), input);
        }
    }
    if fresh != 0 {
        for word in &mut state[8 * groups..] {
            *word = _mm512_maskz_mov_epi64(!fresh, *word);
        }
    }
    let top = _mm512_set1_epi64(i64::MIN);
    for (word, mask) in ends {
        if mask != 0 {
            state[word] = _mm512_mask_xor_epi64(state[word], mask, state[word], top);
        }
    }
}

/// Writes one block of output, or the rest, of every lane below `W` that is squeezing.
///
/// A lane that has whole registers left writes them straight to the output, and the next block
/// overwrites the surplus; the last block goes through the lane's row.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn squeeze<const W: usize>(
    state: &State,
    lanes: &mut [Lane; LANES],
    rows: &mut [Row; LANES],
    jobs: &mut [Sponge<'_>],
) {
    // For each lane room for all groups.
    let mut targets: [*mut u8; LANES] = rows.each_mut().map(|row| row.0.as_mut_ptr());
    let mut lengths = [0; LANES];
    let mut longest = 0;
    for (lane, length) in lanes.iter().zip(&mut lengths) {
        if lane.phase == Phase::Squeeze {
            *length = lane.rate.min(jobs[lane.job].output.len() - lane.written);
            longest = longest.max(*length);
        }
    }
    let groups = longest.div_ceil(64);
    let mut through_row = 0u8;
    for l in 0..W {
        let lane = &mut lanes[l];
        if lane.phase == Phase::Squeeze {
            let rest = &mut jobs[lane.job].output[lane.written..];
            if rest.len() >= 64 * groups {
                targets[l] = rest.as_mut_ptr();
            } else {
                through_row |= 1 << l;
            }
        }
    }
    for g in 0..groups {
        let mut words = [_mm512_setzero_si512(); 8];
        words.copy_from_slice(&state[8 * g..8 * g + 8]);
        let output = words_to_rows::<W>(words);
        for l in 0..W {
            // SAFETY: a row and any other target has room for `groups` registers, 3 at most.
            unsafe { _mm512_storeu_si512(targets[l].add(64 * g).cast(), output[l]) };
        }
    }
    for l in 0..W {
        let lane = &mut lanes[l];
        if lane.phase != Phase::Squeeze {
            continue;
        }
        let output = &mut *jobs[lane.job].output;
        if through_row >> l & 1 == 1 {
            for g in 0..lengths[l].div_ceil(64) {
                let (at, left) = (lane.written + 64 * g, lengths[l] - 64 * g);
                registers::store(output, at, rows[l].register(g), left);
            }
        }
        lane.written += lengths[l];
        if lane.written == output.len() {
            lane.phase = Phase::Idle;
        }
    }
}

/// Moves the lanes of the upper half, few as they are, to idle lanes of the lower half.
fn compact(state: &mut State, lanes: &mut [Lane; LANES], fresh: &mut u8) {
    let words = words_mut(state);
    for from in LANES / 2..LANES {
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

/// The state as words: `[word][lane]`.
fn words_mut(state: &mut State) -> &mut [[u64; LANES]; 25] {
    // SAFETY: same size, lesser alignment, and every bit pattern is valid in both.
    unsafe { &mut *(state as *mut State).cast() }
}

#[cfg(test)]
mod tests {
    use super::super::Avx512;
    use crate::portable::Portable;
    use gabion_scheme::kernels::{Kernels, SPONGE_PARTS, Sponge, Xof};

    const XOFS: [Xof; 4] = [Xof::Shake128, Xof::Shake256, Xof::Sha3_256, Xof::Sha3_512];

    /// A small generator of test data (xorshift64*).
    struct Random(u64);

    impl Random {
        fn below(&mut self, n: usize) -> usize {
            self.0 ^= self.0 >> 12;
            self.0 ^= self.0 << 25;
            self.0 ^= self.0 >> 27;
            (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % n
        }
    }

    /// Runs the same jobs on both; each is (function, lengths of the pieces, length of output).
    fn compare(specs: &[(Xof, [usize; SPONGE_PARTS], usize)], r: &mut Random) {
        let Some(kernels) = Avx512::detect() else {
            return;
        };
        let inputs: Vec<[Vec<u8>; SPONGE_PARTS]> = specs
            .iter()
            .map(|(_, lens, _)| lens.map(|len| (0..len).map(|_| r.below(256) as u8).collect()))
            .collect();
        let outputs = [&kernels as &dyn Kernels, &Portable].map(|kernels| {
            let mut outputs: Vec<Vec<u8>> =
                specs.iter().map(|(_, _, len)| vec![0xa5; *len]).collect();
            let mut jobs: Vec<Sponge<'_>> = (specs.iter().zip(&inputs).zip(&mut outputs))
                .map(|((spec, input), output)| Sponge {
                    xof: spec.0,
                    input: core::array::from_fn(|i| &input[i][..]),
                    output,
                })
                .collect();
            kernels.sponge_many(&mut jobs);
            outputs
        });
        for (i, spec) in specs.iter().enumerate() {
            assert_eq!(outputs[0][i], outputs[1][i], "job {i} of {}: {spec:?}", specs.len());
        }
    }

    #[test]
    fn every_length_round_the_rates() {
        let mut r = Random(1);
        for xof in XOFS {
            let rate = xof.rate();
            let longest = 2 * rate + 9;
            let specs: Vec<_> = (0..=longest)
                .map(|n| (xof, [n.min(5), 0, n.saturating_sub(5), 0, 0], (n * 7) % 700))
                .collect();
            compare(&specs, &mut r);
            let specs: Vec<_> =
                (0..=longest).map(|n| (xof, [33, n, 1, 64, 0], longest - n)).collect();
            compare(&specs, &mut r);
        }
    }

    #[test]
    fn jobs_in_step() {
        let mut r = Random(4);
        for xof in XOFS {
            for input in [0, 1, 8, 33, 34, 63, 64, 66, 71, 72, 128, 135, 136, 167, 168] {
                for output in [0, 1, 32, 64, 71, 128, 136, 168, 192, 504, 505, 840] {
                    let count = [8, 16, 19][r.below(3)];
                    let spec = (xof, [input - input / 2, 0, input / 2, 0, 0], output);
                    compare(&vec![spec; count], &mut r);
                }
            }
        }
    }

    #[test]
    fn mixed_jobs_of_every_count() {
        let mut r = Random(2);
        for count in (0..=17).chain([31, 255, 256, 257, 600]) {
            for _ in 0..4 {
                let specs: Vec<_> = (0..count)
                    .map(|_| {
                        let longest = [3, 40, 70, 200, 1500][r.below(5)];
                        let lens = core::array::from_fn(|_| r.below(3) / 2 * r.below(longest));
                        let out = [32, 64, 128, 192, 504, 840, r.below(1000)][r.below(7)];
                        (XOFS[r.below(4)], lens, out)
                    })
                    .collect();
                compare(&specs, &mut r);
            }
        }
    }

    #[test]
    fn very_long_jobs() {
        let mut r = Random(3);
        let specs: Vec<_> =
            (0..3).map(|i| (XOFS[i], [20_000 * i, 1, 30_000, 0, 7], 32 + 20_000 * i)).collect();
        compare(&specs, &mut r);
    }
}
