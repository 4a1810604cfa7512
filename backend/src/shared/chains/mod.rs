//! What the vector kernels of SLH-DSA share: in which order chains take lanes, and the lanes of the
//! SHAKE family and of SHA-256.
//!
//! ```text
//!   jobs --longest first, in windows--> Queue --> lanes that are free    shake, sha256: lanes in memory
//! ```
//!
//! A lane keeps its chain to the end and then takes the next one. The longest go first, so that few
//! lanes are left alone with a long chain when nothing is queued any more: 35 chains of uneven
//! length, as one layer of a verification has, keep 8 lanes 95 % full.

use gabion_scheme::kernels::slh::SlhChain;

pub(crate) mod sha2;
#[cfg(target_arch = "x86_64")]
pub(crate) mod sha256;
pub(crate) mod shake;

/// Chains that are put in order at a time.
const WINDOW: usize = 256;
/// Classes of length; what is longer shares the last.
const CLASSES: usize = 18;

/// The chains that have not begun.
pub(crate) struct Queue {
    /// Places of the window's chains within the window, longest first.
    order: [u8; WINDOW],
    /// How many of `order` there are, and how many are taken.
    count: usize,
    taken: usize,
    /// First chain of the window, and the first beyond it.
    base: usize,
    next: usize,
}

impl Queue {
    /// Nothing is taken yet.
    pub(crate) fn new() -> Self {
        Queue { order: [0; WINDOW], count: 0, taken: 0, base: 0, next: 0 }
    }

    /// The next chain to begin. Chains without any work are left out.
    #[inline]
    pub(crate) fn pop(&mut self, jobs: &[SlhChain<'_>]) -> Option<usize> {
        while self.taken == self.count {
            if self.next == jobs.len() {
                return None;
            }
            self.advance(jobs);
        }
        let job = self.base + usize::from(self.order[self.taken]);
        self.taken += 1;
        Some(job)
    }

    /// Moves the window on and sorts it by length, which counting does in two passes.
    #[inline(never)]
    fn advance(&mut self, jobs: &[SlhChain<'_>]) {
        self.base = self.next;
        self.next = jobs.len().min(self.base + WINDOW);
        let window = &jobs[self.base..self.next];
        // Of class c there are `ends[c + 1]`; then, where the next of class c goes.
        let mut ends = [0usize; CLASSES + 1];
        for job in window {
            ends[class(job) + 1] += 1;
        }
        for c in 1..=CLASSES {
            ends[c] += ends[c - 1];
        }
        for (place, job) in window.iter().enumerate() {
            let end = &mut ends[class(job)];
            self.order[*end] = place as u8;
            *end += 1;
        }
        // The last class is that of chains without work; its beginning is the end of the others.
        self.count = ends[CLASSES - 2];
        self.taken = 0;
    }
}

/// How many hashes a chain takes, counted down: class 0 has the most, the last class none.
#[inline]
fn class(job: &SlhChain<'_>) -> usize {
    let hashes = (job.steps as usize).min(CLASSES) + usize::from(job.sk_seed.is_some());
    CLASSES - 1 - hashes.min(CLASSES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_scheme::kernels::slh::{SlhAddress, SlhContext, SlhFamily};

    #[test]
    fn longest_first_and_each_once() {
        let context = SlhContext::new(SlhFamily::Shake, &[1; 16]);
        let secret = [2u8; 16];
        for count in [0usize, 1, 7, 255, 256, 257, 700] {
            let mut values = vec![[0u8; 16]; count];
            let hashes = |i: usize| (i * 7 % 17, i.is_multiple_of(3));
            let jobs: Vec<_> = (values.iter_mut().enumerate())
                .map(|(i, value)| SlhChain {
                    context: &context,
                    address: SlhAddress::default(),
                    sk_seed: hashes(i).1.then_some(&secret[..]),
                    start: 0,
                    steps: hashes(i).0 as u32,
                    value,
                })
                .collect();
            let mut queue = Queue::new();
            let mut order = Vec::new();
            while let Some(job) = queue.pop(&jobs) {
                order.push(job);
            }
            assert!(queue.pop(&jobs).is_none());
            let total = |i: usize| hashes(i).0 + usize::from(hashes(i).1);
            for window in order.chunk_by(|a, b| a / WINDOW == b / WINDOW) {
                assert!(window.is_sorted_by_key(|&i| std::cmp::Reverse(total(i))));
            }
            order.sort_unstable();
            let working: Vec<_> = (0..count).filter(|&i| total(i) > 0).collect();
            assert_eq!(order, working);
        }
    }
}
