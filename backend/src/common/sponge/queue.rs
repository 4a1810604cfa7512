//! In which order the jobs of a call start.

use gabion_scheme::kernels::Sponge;

use super::lanes::Lanes;
use crate::common::memory::Table;

/// Jobs that are put in order at a time. A longer call is fed to the lanes in pieces of this size
/// without draining them in between.
const WINDOW: usize = 256;

/// About how long a sponge runs: a class, 0 if it yields nothing. A class is a number of 128-byte
/// units to two binary digits; an order needs no exact count of permutations.
#[inline(always)]
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
pub(super) struct Queue {
    /// Classes of the window's jobs.
    classes: Table<[u8; 64], { WINDOW / 64 }>,
    /// Classes that are still to come, as bits.
    waiting: u64,
    /// Jobs of the present class, as bits.
    present: [u64; WINDOW / 64],
    /// First job of the window, and first job beyond it.
    base: usize,
    next: usize,
}

impl Queue {
    #[inline(always)]
    pub(super) fn new() -> Self {
        let classes = Table([[0; 64]; WINDOW / 64]);
        Queue { classes, waiting: 0, present: [0; WINDOW / 64], base: 0, next: 0 }
    }

    /// The next job to start.
    #[inline(always)]
    pub(super) fn pop<L: Lanes<N, M>, const N: usize, const M: usize>(
        &mut self,
        isa: L,
        jobs: &[Sponge<'_>],
    ) -> Option<usize> {
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
                for (bits, classes) in self.present.iter_mut().zip(&self.classes.0) {
                    *bits = isa.equal(classes, class as u8);
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
        self.classes.0 = [[0; 64]; WINDOW / 64];
        let slots = self.classes.0.as_flattened_mut();
        for (slot, job) in slots.iter_mut().zip(&jobs[self.base..self.next]) {
            *slot = class(job);
            self.waiting |= 1 << *slot;
        }
        self.waiting &= !1;
    }
}
