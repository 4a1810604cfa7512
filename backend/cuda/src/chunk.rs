//! Some lanes of a batch in a slot, with the canary after them: what every operation does to send, run, check and fetch.
//!
//! Chunks of a batch overlap: while one runs, another one is copied to the device and a third one from it.
//! [`chunks`] begins each, which asks the device for all of it, and lands it, which waits and checks.

use std::collections::VecDeque;

use gabion_backend::{BatchOutcome, Keys};
use gabion_scheme::{Status, ct};

use crate::cuda::Cuda;
use crate::device::{Arguments, Device, Fault, Launch};
use crate::layout::Region;
use crate::resident::{CANARY, FilledEntries, Kind};
use crate::slots::SlotGuard;

/// Jobs of a block of 128 threads: a thread each, or a warp each.
pub(crate) const PER_THREAD: u32 = 128;
pub(crate) const PER_WARP: u32 = 4;
/// High bits of a status word (`Verdict` in `kernels/platform.cuh`).
const DONE: u32 = 0xa500_0000;
const INVALID_KEY: u32 = 0x3c00_0000;
const INVALID_SIGNATURE: u32 = 0x6900_0000;
/// Chunks of one batch on the device together, at most.
const IN_FLIGHT_MAX: usize = 3;

/// A kernel: its name after the parameter set's, jobs of an operation, and jobs of a block. Without jobs it is left out.
pub(crate) type Step = (&'static str, u32, u32);

/// Equal pieces of `lanes` lanes, of at most `fit` each; as many as may run together, if that leaves `enough` for each.
/// None if not even one lane fits.
pub(crate) fn pieces(lanes: usize, fit: usize, enough: usize) -> Option<Vec<usize>> {
    if lanes > 0 && fit == 0 {
        return None;
    }
    let at_least = lanes.div_ceil(fit.max(1));
    let count = at_least.max((lanes / enough.max(1)).min(2 * IN_FLIGHT_MAX));
    let piece = |i| lanes / count + usize::from(i < lanes % count);
    Some((0..count).map(piece).collect())
}

/// Runs a batch in chunks of these sizes, each with a slot: `begin` is given the slot, the first lane and the lanes.
/// Chunks land in order. No sizes: what the batch needs does not fit, and it is declined. Outputs of a batch that is not done may hold anything.
pub(crate) fn chunks<'a, D: Device>(
    cuda: &'a Cuda<D>,
    sizes: Option<Vec<usize>>,
    mut begin: impl FnMut(&mut SlotGuard<'a, D>, usize, usize) -> Result<InFlight<'a, D>, Fault>,
) -> BatchOutcome {
    let Some(sizes) = sizes else { return BatchOutcome::Declined };
    let mut in_flight: VecDeque<(SlotGuard<'a, D>, InFlight<'a, D>)> = VecDeque::new();
    let land = |(mut guard, in_flight): (SlotGuard<'a, D>, InFlight<'a, D>)| {
        let landed = in_flight.land(&mut guard);
        if landed.is_err() {
            guard.distrust();
        }
        landed.is_ok()
    };
    let mut from = 0;
    for lanes in sizes {
        let mut guard = loop {
            let slot = if in_flight.is_empty() {
                match cuda.slot() {
                    Ok(guard) => Some(guard),
                    Err(ran) => return ran,
                }
            } else if in_flight.len() < IN_FLIGHT_MAX {
                cuda.slot_now()
            } else {
                None
            };
            match (slot, in_flight.is_empty()) {
                (Some(guard), _) => break guard,
                (None, true) => return BatchOutcome::Lost,
                (None, false) => {
                    if !in_flight.pop_front().is_none_or(land) {
                        return BatchOutcome::Lost;
                    }
                }
            }
        };
        match begin(&mut guard, from, lanes) {
            Ok(begun) => in_flight.push_back((guard, begun)),
            Err(_) => {
                guard.distrust();
                return BatchOutcome::Lost;
            }
        }
        from += lanes;
    }
    if in_flight.into_iter().map(land).fold(true, |all, one| all & one) {
        BatchOutcome::Done
    } else {
        BatchOutcome::Lost
    }
}

/// The part of a slice that was not handed out yet.
pub(crate) struct Remaining<'a, T>(&'a mut [T]);

impl<'a, T> Remaining<'a, T> {
    pub(crate) fn new(all: &'a mut [T]) -> Self {
        Remaining(all)
    }

    /// The next `n`, or as many as there are.
    pub(crate) fn next(&mut self, n: usize) -> &'a mut [T] {
        let all = std::mem::take(&mut self.0);
        let (now, later) = all.split_at_mut(n.min(all.len()));
        self.0 = later;
        now
    }
}

/// The encoded keys of a chunk, wherever they are.
pub(crate) enum KeyBytes<'a> {
    /// Contiguous.
    Contiguous(&'a [u8]),
    /// Each by itself, with the number that names it.
    Separate(Vec<(u64, &'a [u8])>),
}

impl<'a> KeyBytes<'a> {
    /// Those of `lanes` lanes; an encoded key has `len` bytes; of a known one its number and bytes are `known`.
    pub(crate) fn new<T>(
        keys: &Keys<'a, T>,
        from: usize,
        lanes: usize,
        len: usize,
        known: impl Fn(&'a T) -> (u64, &'a [u8]),
    ) -> Self {
        match keys {
            Keys::Fresh(all) => KeyBytes::Contiguous(&all[from * len..(from + lanes) * len]),
            Keys::Known(keys) => {
                KeyBytes::Separate(keys[from..from + lanes].iter().map(|key| known(key)).collect())
            }
        }
    }
}

/// A chunk before it runs: its slot, and the arguments of its kernels.
pub(crate) struct Chunk<'t, 'a, D: Device, A: Arguments> {
    pub(crate) guard: &'t mut SlotGuard<'a, D>,
    /// The name of the parameter set in the kernels' names.
    pub(crate) set: &'static str,
    /// The arguments of the set's kernels; every address in them is of an array of the slot, for
    /// all lanes and canaries.
    pub(crate) arguments: A,
    pub(crate) lanes: usize,
    pub(crate) canaries: usize,
    /// The region of the status words.
    pub(crate) status: Region,
    /// The expected outputs of the canary.
    pub(crate) answers: Vec<Answer>,
}

/// A fetched output of the canary, by its number, and the expected value.
pub(crate) struct Answer {
    fetched: usize,
    expected: Vec<u8>,
}

impl<'a, D: Device, A: Arguments> Chunk<'_, 'a, D, A> {
    /// Sends an array, followed by the canary's part.
    pub(crate) fn send(
        &mut self,
        to: Region,
        bytes: &'a [u8],
        canary: &[&[u8]],
    ) -> Result<(), Fault> {
        self.guard.upload(to.offset, bytes)?;
        self.guard.upload_own(to.offset + bytes.len(), canary.concat())
    }

    /// Sends an array that was made for this, the canary's part with it.
    pub(crate) fn send_own(&mut self, to: Region, bytes: Vec<u8>) -> Result<(), Fault> {
        self.guard.upload_own(to.offset, bytes)
    }

    /// Sends keys, followed by the canary's key once for each of its lanes.
    pub(crate) fn send_keys(
        &mut self,
        to: Region,
        keys: &KeyBytes<'a>,
        canary: &[u8],
    ) -> Result<(), Fault> {
        let canaries = vec![canary; self.canaries];
        match keys {
            KeyBytes::Contiguous(bytes) => self.send(to, bytes, &canaries),
            KeyBytes::Separate(keys) => {
                // In one allocation from the start: what grows leaves copies behind.
                let mut bytes = Vec::with_capacity(to.bytes);
                let all = keys.iter().map(|(_, key)| *key).chain(canaries);
                all.for_each(|key| bytes.extend_from_slice(key));
                self.send_own(to, bytes)
            }
        }
    }

    /// Runs the kernels one after the other.
    pub(crate) fn run(&mut self, steps: &[Step]) -> Result<(), Fault> {
        let arguments = self.arguments;
        self.clear_status()?;
        self.run_with(&arguments, self.lanes + self.canaries, steps)
    }

    /// Clears the status words, before anything runs.
    pub(crate) fn clear_status(&mut self) -> Result<(), Fault> {
        self.guard.clear(self.status.offset, self.status.bytes)
    }

    /// Runs a kernel over so many jobs, a thread each.
    pub(crate) fn launch_jobs(&mut self, step: &'static str, jobs: usize) -> Result<(), Fault> {
        let arguments = self.arguments;
        self.run_with(&arguments, jobs, &[(step, 1, PER_THREAD)])
    }

    /// Runs kernels over `n` operations, which these arguments are for.
    pub(crate) fn run_with(
        &mut self,
        arguments: &A,
        n: usize,
        steps: &[Step],
    ) -> Result<(), Fault> {
        for (step, jobs, of_block) in steps.iter().filter(|(_, jobs, _)| *jobs > 0) {
            let kernel = format!("gabion_{}_{step}", self.set);
            let blocks = (n as u64 * u64::from(*jobs)).div_ceil(u64::from(*of_block));
            let blocks = u32::try_from(blocks).map_err(|_| Fault::NoMemory)?;
            let launch = Launch::new(&kernel, arguments, blocks);
            // SAFETY: who made the chunk laid out the arrays for as many operations as the arguments say, and the
            // arguments are those of the kernels of this set.
            unsafe { self.guard.launch(&launch)? };
        }
        Ok(())
    }

    /// Runs one kernel over all operations.
    pub(crate) fn launch(&mut self, step: Step) -> Result<(), Fault> {
        let arguments = self.arguments;
        self.run_with(&arguments, self.lanes + self.canaries, &[step])
    }

    /// Makes the keys of all lanes resident, if they are known and if that is possible: one entry
    /// of `each` bytes for a key, with the encoded key at `offset`. Returns the address of each
    /// lane's entry, and the addresses of new entries, which have to be filled.
    pub(crate) fn hold(
        &mut self,
        kind: Kind,
        (each, offset): (usize, usize),
        keys: &KeyBytes<'a>,
        canary: &'static [u8],
    ) -> Result<Option<FilledEntries>, Fault> {
        let KeyBytes::Separate(known) = keys else { return Ok(None) };
        let mut ids: Vec<u64> = known.iter().map(|(id, _)| *id).collect();
        ids.resize(ids.len() + self.canaries, CANARY);
        let Some((addresses, missing)) = self.guard.hold(kind, each, &ids)? else {
            return Ok(None);
        };
        for &lane in &missing {
            let bytes = known.get(lane).map_or(canary, |(_, bytes)| *bytes);
            // SAFETY: an entry of `each` bytes, in which the key fits at `offset`.
            unsafe { self.guard.fill(addresses[lane] + offset as u64, bytes)? };
        }
        let new = missing.iter().map(|&lane| addresses[lane]).collect();
        Ok(Some((addresses, new)))
    }

    /// Registers the expected contents of the canary's part of an array, at its end.
    pub(crate) fn expect(&mut self, place: Region, expected: &[&[u8]]) -> Result<(), Fault> {
        let expected = expected.concat();
        let fetched =
            self.guard.fetch(place.offset + place.bytes - expected.len(), expected.len())?;
        self.answers.push(Answer { fetched, expected });
        Ok(())
    }

    /// Fetches the lanes of an array.
    pub(crate) fn fetch(&mut self, place: Region, out: &'a mut [u8]) -> Result<(), Fault> {
        self.guard.download(place.offset, out)
    }

    /// Fetches the status words and returns the chunk in flight. `verdicts` are the canary's.
    pub(crate) fn start(
        self,
        status: &'a mut [Status],
        verdicts: &[Status],
    ) -> Result<InFlight<'a, D>, Fault> {
        let words = self.guard.fetch(self.status.offset, self.status.bytes)?;
        let verdicts = verdicts.to_vec();
        Ok(InFlight { status, words, verdicts, answers: self.answers, next_round: None })
    }
}

/// Launches another round of work if lanes are unfinished, and returns whether it did.
pub(crate) type NextRound<'a, D> =
    Box<dyn FnMut(&mut SlotGuard<'a, D>) -> Result<bool, Fault> + 'a>;

/// A chunk in flight on the device.
pub(crate) struct InFlight<'a, D: Device> {
    status: &'a mut [Status],
    /// The number of the status words among the fetched copies.
    words: usize,
    verdicts: Vec<Status>,
    answers: Vec<Answer>,
    next_round: Option<NextRound<'a, D>>,
}

impl<'a, D: Device> InFlight<'a, D> {
    /// Adds rounds that run while a lane has no status word; the rounds that were launched are nearly always enough.
    pub(crate) fn with_next_round(mut self, next_round: NextRound<'a, D>) -> Self {
        self.next_round = Some(next_round);
        self
    }

    /// Waits, checks, and clears the outputs of lanes without success.
    fn land(mut self, guard: &mut SlotGuard<'a, D>) -> Result<(), Fault> {
        guard.finish()?;
        if let Some(next_round) = &mut self.next_round {
            let is_open = |words: &[u8]| words.chunks_exact(4).any(|word| word == [0; 4]);
            while is_open(guard.fetched_bytes(self.words)) && next_round(guard)? {
                guard.download_again()?;
                guard.finish()?;
            }
        }
        let generation = guard.generation();
        let mut all = guard.fetched_bytes(self.words).chunks_exact(4).map(|word| {
            let word = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
            match word ^ generation {
                DONE => Some(Status::Ok),
                INVALID_KEY => Some(Status::InvalidKey),
                INVALID_SIGNATURE => Some(Status::InvalidSignature),
                _ => None,
            }
        });
        for status in &mut *self.status {
            *status = all.next().flatten().ok_or(Fault::Failed)?;
        }
        if !all.eq(self.verdicts.iter().map(|&status| Some(status))) {
            return Err(Fault::Failed);
        }
        if self.answers.iter().any(|it| guard.fetched_bytes(it.fetched) != it.expected) {
            return Err(Fault::Failed);
        }
        for out in guard.outputs() {
            let len = out.len() / self.status.len().max(1);
            for (status, out) in self.status.iter().zip(out.chunks_exact_mut(len.max(1))) {
                if !status.is_ok() {
                    ct::wipe(out);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_equal_and_all_of_it() {
        assert_eq!(pieces(0, 10, 1), Some(vec![]));
        assert_eq!(pieces(5, 0, 1), None);
        assert_eq!(pieces(5, 10, 10), Some(vec![5]));
        assert_eq!(pieces(11, 5, 100), Some(vec![4, 4, 3]));
        // Enough for some that run together.
        assert_eq!(pieces(100, 100, 40), Some(vec![50, 50]));
        assert_eq!(pieces(6000, 6000, 10), Some(vec![1000; 6]));
        assert_eq!(pieces(1, 1, 1), Some(vec![1]));
    }
}
