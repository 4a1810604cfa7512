//! Kernels that only hash: permutations of Keccak and compressions of SHA-256, again and again in registers.

use std::time::{Duration, Instant};

use gabion_backend::portable::keccak_f1600;
use gabion_cuda::{Device, HashArguments, Launch};
use gabion_rows::gpu::{self, Kernel};
use gabion_rows::operations::{Key, Operation, Subject};
use sha2::block_api::compress256;

use super::card::{Card, InstrumentedCard};
use crate::Error;

/// Steps of a launch; the first launch has fewer.
const STEPS: u32 = 512;
const STEPS_FIRST: u32 = 3;
/// Threads of a block.
const BLOCK: u32 = 128;
/// Threads of a multiprocessor, at most; several times as many run one after the other.
const RESIDENT: u32 = 2048;
/// The time limit of a launch.
const AT_MOST: Duration = Duration::from_secs(10);
/// States that are compared.
const COMPARED: usize = 64;

/// Such a kernel.
#[derive(Clone, Copy, Debug)]
pub struct Raw {
    algorithm: &'static str,
    kernel: &'static str,
    /// Bytes of a state.
    state: usize,
    /// One step on a processor.
    step: fn(&mut [u8]),
}

/// All of them.
pub const ALL: [Raw; 2] = [
    Raw {
        algorithm: "Keccak-f[1600]",
        kernel: "gabion_keccak_repeated",
        state: 200,
        step: permute,
    },
    Raw { algorithm: "SHA-256", kernel: "gabion_sha256_repeated", state: 32, step: compress },
];

impl Raw {
    /// `algorithm:derive:fresh`: a step from one state to the next.
    pub fn name(&self) -> String {
        format!("{}:{}:{}", self.algorithm, Operation::Derive.word(), Key::Fresh.word())
    }

    /// Returns the case as rows identify it.
    pub fn subject(&self) -> Subject {
        let algorithm = self.algorithm.to_owned();
        Subject { algorithm, operation: Operation::Derive, key: Key::Fresh }
    }

    /// Returns the number of states that run together, and the cost of a step.
    pub fn measure<D: Card>(
        &self,
        device: &InstrumentedCard<D>,
        info: &gpu::Device,
        seconds: f64,
    ) -> Result<(usize, Kernel), Error> {
        let n = info.multiprocessors.max(1) * RESIDENT;
        let failed = |fault| Error::Failed(format!("{}: {fault:?}", self.kernel));
        let bytes = n as usize * self.state;
        let at = device.allocate(bytes).map_err(failed)?;
        let launch = |length: u32| {
            let arguments = HashArguments { messages: at, out: at, length, n };
            let launch = Launch::new(self.kernel, &arguments, n.div_ceil(BLOCK));
            // SAFETY: as many states as the arguments say, which change in place.
            unsafe { device.launch(0, &launch)? };
            device.finish(0, AT_MOST)
        };
        let mut states: Vec<u8> =
            (0..bytes).map(|i| (i * 167 + i / self.state * 59) as u8).collect();
        // SAFETY: as many bytes as there are on the device; they stay until it has finished.
        unsafe { device.upload(0, at, states.as_ptr(), bytes) }.map_err(failed)?;
        launch(STEPS_FIRST).map_err(failed)?;
        let mut made = vec![0; bytes];
        // SAFETY: likewise.
        unsafe { device.download(0, at, made.as_mut_ptr(), bytes) }.map_err(failed)?;
        device.finish(0, AT_MOST).map_err(failed)?;
        let both = states.chunks_exact_mut(self.state).zip(made.chunks_exact(self.state));
        // From the first one to the last one.
        for (state, made) in both.step_by((n as usize / COMPARED).max(1)) {
            (0..STEPS_FIRST).for_each(|_| (self.step)(state));
            if state != made {
                let text = format!("{}: not what a processor gives", self.kernel);
                return Err(Error::Failed(text));
            }
        }
        device.profile(true);
        let (begun, mut launches) = (Instant::now(), 0u64);
        let ran = loop {
            if let Err(fault) = launch(STEPS) {
                break Err(failed(fault));
            }
            launches += 1;
            if begun.elapsed().as_secs_f64() >= seconds {
                break Ok(());
            }
        };
        let elapsed = begun.elapsed().as_nanos() as f64;
        let times = device.card().times();
        device.profile(false);
        ran?;
        let ns: f64 = times.iter().map(|time| time.ns).sum();
        // A device that times nothing is timed from outside.
        let ns = if ns > 0.0 { ns } else { elapsed };
        let operations = launches * u64::from(n) * u64::from(STEPS);
        let ns_per_op = ns / operations as f64;
        Ok((n as usize, Kernel { ops_per_s: 1e9 / ns_per_op, ns_per_op, operations }))
    }
}

fn permute(state: &mut [u8]) {
    let (words, _) = state.as_chunks_mut::<8>();
    let mut lanes: [u64; 25] = std::array::from_fn(|i| u64::from_le_bytes(words[i]));
    keccak_f1600(&mut lanes);
    words.iter_mut().zip(lanes).for_each(|(word, lane)| *word = lane.to_le_bytes());
}

/// Compresses the block that consists of the state twice.
fn compress(state: &mut [u8]) {
    let (words, _) = state.as_chunks_mut::<4>();
    let mut h: [u32; 8] = std::array::from_fn(|i| u32::from_le_bytes(words[i]));
    let mut block = [0; 64];
    for (bytes, word) in block.chunks_exact_mut(4).zip(h.iter().chain(&h)) {
        bytes.copy_from_slice(&word.to_be_bytes());
    }
    compress256(&mut h, &[block]);
    words.iter_mut().zip(h).for_each(|(word, h)| *word = h.to_le_bytes());
}
