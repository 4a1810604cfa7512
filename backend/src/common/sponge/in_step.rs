//! Runs as many jobs of one shape as there are lanes, from beginning to end: one function, equal
//! lengths everywhere.
//!
//! The matrices, the noise and the masks of both schemes come in such groups, and so do the hashes
//! of keys if a batch fills the lanes. Lanes need no separate state here, which elsewhere makes up
//! a third of the cost of a permutation.
//!
//! Loops, not `map`, go over registers: a closure without the target features becomes a call.

use gabion_scheme::kernels::Sponge;

use super::{IDLE, Lane, Lanes, Phase, ROW, Row, SHORT, State, register, stage_block, words_mut};

/// Runs the jobs of a group if they are of one shape; says whether it did.
#[inline(always)]
pub(crate) fn run_in_step<L: Lanes<N, M>, const N: usize, const M: usize>(
    isa: L,
    state: &mut State<L::Vector>,
    rows: &mut [Row; N],
    jobs: &mut [Sponge<'_>],
    group: [usize; N],
) -> bool {
    let first = &jobs[group[0]];
    let (xof, length, input) = (first.xof, first.output.len(), first.input);
    let alike = |job: &Sponge<'_>| {
        // One by one: lengths gathered into arrays would be compared by way of memory, and wait.
        let mut pieces = job.input.iter().zip(&input);
        job.xof == xof && job.output.len() == length && pieces.all(|(a, b)| a.len() == b.len())
    };
    if !group[1..].iter().all(|&index| alike(&jobs[index])) {
        return false;
    }
    let rate = xof.rate();
    let [a, b, rest @ ..] = input.map(<[u8]>::len);
    let filled = if a + b <= SHORT && a + b < rate && rest == [0; 3] {
        absorb_pair(isa, state, rows, jobs, group);
        a + b
    } else {
        absorb_all(isa, state, rows, jobs, group)
    };
    let suffix = u64::from(xof.suffix()) << (8 * (filled % 8));
    state[filled / 8] = isa.xor(state[filled / 8], isa.splat(suffix));
    let last = rate / 8 - 1;
    state[last] = isa.xor(state[last], isa.splat(1 << 63));

    let outputs = group.map(|index| jobs[index].output.as_mut_ptr());
    let mut written = 0;
    while written < length {
        isa.permute::<N>(state);
        let block = rate.min(length - written);
        for g in 0..block.div_ceil(8 * N) {
            let (at, left) = (written + 8 * N * g, block - 8 * N * g);
            // SAFETY: each output has `length` bytes, and the stores end at the end of a block,
            // `written + block` at most.
            unsafe { put(isa, state, g, &outputs, at, left) };
        }
        written += block;
    }
    true
}

/// Stores words `N * group` and on of each lane: `left` bytes of them, or a register, from byte `at`
/// of its output.
///
/// # Safety
/// Each output has room for so many bytes there.
#[inline(always)]
unsafe fn put<L: Lanes<N, M>, const N: usize, const M: usize>(
    isa: L,
    state: &mut State<L::Vector>,
    group: usize,
    outputs: &[*mut u8; N],
    at: usize,
    left: usize,
) {
    if left == 8 {
        // The last word of a block of SHAKE256.
        let words = words_mut::<L, N, M>(state)[N * group];
        for (output, word) in outputs.iter().zip(words) {
            // SAFETY: room for eight bytes, by contract.
            unsafe { output.add(at).cast::<[u8; 8]>().write(word.to_le_bytes()) };
        }
        return;
    }
    let mut words = [isa.splat(0); N];
    words.copy_from_slice(&state[N * group..N * (group + 1)]);
    for (output, row) in outputs.iter().zip(isa.words_to_rows::<N>(words)) {
        // SAFETY: room for that many bytes, by contract.
        unsafe { isa.store(output.add(at), row, left) };
    }
}

/// States that have taken in messages of two short pieces; no padding yet.
#[inline(always)]
fn absorb_pair<L: Lanes<N, M>, const N: usize, const M: usize>(
    isa: L,
    state: &mut State<L::Vector>,
    rows: &mut [Row; N],
    jobs: &[Sponge<'_>],
    group: [usize; N],
) {
    for (row, index) in rows.iter_mut().zip(group) {
        let [a, b, ..] = jobs[index].input;
        isa.copy_pair(row, a, b);
    }
    for g in 0..SHORT / (8 * N) {
        let mut input = [isa.splat(0); N];
        for (input, row) in input.iter_mut().zip(&*rows) {
            *input = register(isa, row, g);
        }
        state[N * g..N * (g + 1)].copy_from_slice(&isa.rows_to_words::<N>(input));
    }
    state[SHORT / 8..].fill(isa.splat(0));
}

/// States that have taken in the messages, permuted as often as there are whole blocks. Returns how
/// much of the last block is filled; no padding yet.
#[inline(always)]
fn absorb_all<L: Lanes<N, M>, const N: usize, const M: usize>(
    isa: L,
    state: &mut State<L::Vector>,
    rows: &mut [Row; N],
    jobs: &[Sponge<'_>],
    group: [usize; N],
) -> usize {
    let rate = jobs[group[0]].xof.rate();
    state.fill(isa.splat(0));
    // The place of all lanes, since they have the same lengths.
    let mut place = Lane { phase: Phase::Absorb, rate, ..IDLE };
    loop {
        let piece = jobs[group[0]].input.get(place.piece).map_or(0, |piece| piece.len());
        if piece >= place.offset + ROW {
            // In the midst of a long piece, which is read where it is.
            let mut sources = [core::ptr::null(); N];
            for (source, index) in sources.iter_mut().zip(group) {
                *source = jobs[index].input[place.piece][place.offset..].as_ptr();
            }
            // SAFETY: ROW bytes are left in the piece of each lane, which is as long as the first.
            unsafe { add_block(isa, state, sources, rate / 8) };
            place.offset += rate;
        } else {
            let (before, mut filled, mut last) = (place, 0, false);
            for (row, index) in rows.iter_mut().zip(group) {
                place = before;
                (filled, last) = stage_block(isa, &mut place, &jobs[index], row);
            }
            let sources = rows.each_ref().map(|row| row.0.as_ptr());
            // SAFETY: a row has more than ROW bytes.
            unsafe { add_block(isa, state, sources, filled.div_ceil(8)) };
            if last {
                return filled;
            }
        }
        isa.permute::<N>(state);
    }
}

/// Adds the first `words` words of each source to its lane.
///
/// # Safety
/// Each source has [`ROW`] readable bytes.
#[inline(always)]
unsafe fn add_block<L: Lanes<N, M>, const N: usize, const M: usize>(
    isa: L,
    state: &mut State<L::Vector>,
    sources: [*const u8; N],
    words: usize,
) {
    let mut groups = words.div_ceil(N);
    if words % N == 1 {
        // The last word of a block of SHAKE256 or SHA3-256, alone in its group.
        groups -= 1;
        // SAFETY: `words` is 21 at most, so the word lies within ROW bytes.
        let input = unsafe { isa.gather(sources.map(|source| source.add(8 * (words - 1)))) };
        state[words - 1] = isa.xor(state[words - 1], input);
    }
    for g in 0..groups {
        let count = N.min(words - N * g);
        let mut input = [isa.splat(0); N];
        for (input, source) in input.iter_mut().zip(sources) {
            // SAFETY: `words` is 21 at most, so these registers lie within ROW bytes.
            *input = unsafe { isa.load(source.add(8 * N * g), count) };
        }
        for (word, input) in state[N * g..].iter_mut().zip(isa.rows_to_words::<N>(input)) {
            *word = isa.xor(*word, input);
        }
    }
}
