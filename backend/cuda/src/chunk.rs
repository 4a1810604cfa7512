//! Some lanes of a batch in a slot, with the canary after them: what every operation does to send, run, check and fetch.

use gabion_backend::{Keys, Ran};
use gabion_scheme::{Status, ct};

use crate::cuda::Cuda;
use crate::device::{Arguments, Device, Fault, Launch};
use crate::layout::Place;
use crate::slots::Taken;

/// Jobs of a block of 128 threads: a thread each, or a warp each.
pub(crate) const PER_THREAD: u32 = 128;
pub(crate) const PER_WARP: u32 = 4;
/// High bits of a status word (`Verdict` in `kernels/platform.cuh`).
const DONE: u32 = 0xa500_0000;
const INVALID_KEY: u32 = 0x3c00_0000;
const INVALID_SIGNATURE: u32 = 0x6900_0000;

/// A kernel: its name after the parameter set's, jobs of an operation, and jobs of a block.
pub(crate) type Step = (&'static str, u32, u32);

/// Runs a batch in chunks of at most `fit` lanes, each with a slot: `(slot, first lane, lanes)`.
pub(crate) fn chunks<D: Device>(
    cuda: &Cuda<D>,
    fit: usize,
    lanes: usize,
    mut each: impl FnMut(&mut Taken<'_, D>, usize, usize) -> Result<(), Fault>,
) -> Ran {
    if fit == 0 {
        return Ran::Declined;
    }
    let mut from = 0;
    while from < lanes {
        let now = fit.min(lanes - from);
        let mut taken = match cuda.slot() {
            Ok(taken) => taken,
            Err(ran) => return ran,
        };
        if each(&mut taken, from, now).is_err() {
            return Ran::Lost;
        }
        from += now;
    }
    Ran::Done
}

/// Remembers in the slot that its device is not to be trusted, if anything went wrong.
pub(crate) fn checked<D: Device>(
    taken: &mut Taken<'_, D>,
    done: Result<(), Fault>,
) -> Result<(), Fault> {
    if done.is_err() {
        taken.distrust();
    }
    done
}

/// The encoded keys of a chunk, wherever they are.
pub(crate) enum KeyBytes<'a> {
    /// One after the other.
    Together(&'a [u8]),
    /// Each by itself.
    Apart(Vec<&'a [u8]>),
}

impl<'a> KeyBytes<'a> {
    /// Those of `lanes` lanes; an encoded key has `len` bytes, which are `bytes` of a known one.
    pub(crate) fn new<T>(
        keys: &Keys<'a, T>,
        from: usize,
        lanes: usize,
        len: usize,
        bytes: impl Fn(&'a T) -> &'a [u8],
    ) -> Self {
        match keys {
            Keys::Fresh(all) => KeyBytes::Together(&all[from * len..(from + lanes) * len]),
            Keys::Known(keys) => {
                KeyBytes::Apart(keys[from..from + lanes].iter().map(|key| bytes(key)).collect())
            }
        }
    }
}

/// A chunk that runs: its slot, and what its kernels are given.
pub(crate) struct Chunk<'a, 'b, D: Device, A: Arguments> {
    pub(crate) taken: &'a mut Taken<'b, D>,
    /// How the parameter set is called in the kernels' names.
    pub(crate) set: &'static str,
    /// Of the kernels of that set; every address in them is of an array of the slot, for all lanes and canaries.
    pub(crate) arguments: A,
    pub(crate) lanes: usize,
    pub(crate) canaries: usize,
    /// Where the status words are.
    pub(crate) status: Place,
}

impl<D: Device, A: Arguments> Chunk<'_, '_, D, A> {
    /// Sends an array, and what the canary has there after it.
    pub(crate) fn send(&mut self, to: Place, bytes: &[u8], canary: &[&[u8]]) -> Result<(), Fault> {
        let mut offset = to.offset;
        for part in [bytes].iter().chain(canary) {
            self.taken.upload(offset, part)?;
            offset += part.len();
        }
        Ok(())
    }

    /// Sends keys, and the canary's once for each of its lanes.
    pub(crate) fn send_keys(
        &mut self,
        to: Place,
        keys: &KeyBytes<'_>,
        canary: &[u8],
    ) -> Result<(), Fault> {
        let canaries = vec![canary; self.canaries];
        match keys {
            KeyBytes::Together(bytes) => self.send(to, bytes, &canaries),
            KeyBytes::Apart(keys) => {
                let mut bytes = keys.concat();
                let sent = self.send(to, &bytes, &canaries);
                ct::wipe(&mut bytes);
                sent
            }
        }
    }

    /// Runs the kernels one after the other, and waits for the last one.
    pub(crate) fn run(&mut self, steps: &[Step]) -> Result<(), Fault> {
        let n = (self.lanes + self.canaries) as u32;
        for (step, jobs, of_block) in steps {
            let kernel = format!("gabion_{}_{step}", self.set);
            let launch = Launch::new(&kernel, &self.arguments, (n * jobs).div_ceil(*of_block));
            // SAFETY: who made the chunk laid out the arrays for as many operations as the arguments say, and the
            // arguments are those of the kernels of this set.
            unsafe { self.taken.launch(&launch)? };
        }
        self.taken.finish()
    }

    /// The verdicts of all lanes, if each has one of this owner's and those of the canary are as `expected`.
    pub(crate) fn verdicts(
        &mut self,
        status: &mut [Status],
        expected: &[Status],
    ) -> Result<(), Fault> {
        let generation = self.taken.generation();
        let mut words = vec![0u8; self.status.bytes];
        self.taken.download(self.status.offset, &mut words)?;
        let mut all = words.chunks_exact(4).map(|word| {
            let word = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
            match word ^ generation {
                DONE => Some(Status::Ok),
                INVALID_KEY => Some(Status::InvalidKey),
                INVALID_SIGNATURE => Some(Status::InvalidSignature),
                _ => None,
            }
        });
        for status in &mut *status {
            *status = all.next().flatten().ok_or(Fault::Failed)?;
        }
        if all.eq(expected.iter().map(|&status| Some(status))) {
            Ok(())
        } else {
            Err(Fault::Failed)
        }
    }

    /// Whether the canary's part of an array, at the end of it, is what it should be.
    pub(crate) fn canary_is(&mut self, place: Place, expected: &[&[u8]]) -> Result<(), Fault> {
        let mut got = vec![0; expected.iter().map(|part| part.len()).sum()];
        self.taken.download(place.offset + place.bytes - got.len(), &mut got)?;
        if got == expected.concat() { Ok(()) } else { Err(Fault::Failed) }
    }

    /// Fetches the lanes of an array, and clears those without success.
    pub(crate) fn fetch(
        &mut self,
        place: Place,
        status: &[Status],
        out: &mut [u8],
    ) -> Result<(), Fault> {
        self.taken.download(place.offset, out)?;
        let len = out.len() / self.lanes.max(1);
        for (status, out) in status.iter().zip(out.chunks_exact_mut(len)) {
            if !status.is_ok() {
                ct::wipe(out);
            }
        }
        Ok(())
    }
}
