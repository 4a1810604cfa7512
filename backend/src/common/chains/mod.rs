//! Common parts of the vector kernels of hash-based signatures: the order in which chains take
//! lanes, and the lanes of the SHAKE family and of SHA-256.
//!
//! ```text
//!   jobs --longest first, in windows--> Queue --> lanes that are free    shake, sha256: lanes in memory
//!
//!   SLH-DSA, LMS  --Chain, Sha256Chain, Message--> what is hashed: a layout over the lanes
//!   XMSS          --Chain, xmss--> what is hashed: rows of words, compressed by the lanes
//! ```
//!
//! A lane keeps its chain to the end and then takes the next one. The longest go first, so that few
//! lanes are left alone with a long chain when nothing is queued any more: 35 chains of uneven
//! length, as one layer of a verification has, keep 8 lanes 95 % full.

use gabion_scheme::kernels::lms::LmsChain;
use gabion_scheme::kernels::slh::SlhChain;
use gabion_scheme::kernels::xmss::XmssChain;

pub(crate) mod layout;
pub(crate) mod sha2;
#[cfg(target_arch = "x86_64")]
pub(crate) mod sha256;
pub(crate) mod shake;
pub(crate) mod xmss;

/// Chains that are put in order at a time.
const WINDOW: usize = 256;
/// Classes of length; longer chains share the last.
const CLASSES: usize = 18;

/// A chain in the view of the scheduler of lanes.
pub(crate) trait Chain: Sized {
    /// Holds the jobs of one call to the seam's contract.
    fn assert_all(jobs: &[Self]);

    /// Returns how many steps there are, PRF apart.
    fn steps(&self) -> u32;

    /// Returns whether the chain begins with the hash PRF.
    fn has_secret(&self) -> bool;

    /// Returns the key by which chains are ordered: the more hashes, the greater; 0 without hashes.
    /// All from 17 on are considered equal.
    fn length(&self) -> usize;

    /// The value, replaced at the end.
    fn value(&mut self) -> &mut [u8];
}

impl Chain for SlhChain<'_> {
    #[inline(always)]
    fn assert_all(jobs: &[Self]) {
        SlhChain::assert_all(jobs);
    }

    #[inline(always)]
    fn steps(&self) -> u32 {
        self.steps
    }

    #[inline(always)]
    fn has_secret(&self) -> bool {
        self.sk_seed.is_some()
    }

    #[inline(always)]
    fn length(&self) -> usize {
        (self.steps as usize).min(CLASSES) + usize::from(self.sk_seed.is_some())
    }

    #[inline(always)]
    fn value(&mut self) -> &mut [u8] {
        self.value
    }
}

impl Chain for LmsChain<'_> {
    #[inline(always)]
    fn assert_all(jobs: &[Self]) {
        LmsChain::assert_all(jobs);
    }

    #[inline(always)]
    fn steps(&self) -> u32 {
        self.steps
    }

    #[inline(always)]
    fn has_secret(&self) -> bool {
        self.seed.is_some()
    }

    /// Returns the length in sixteenths of a whole chain, if that has 255 steps; a secret counts as
    /// one of them.
    #[inline(always)]
    fn length(&self) -> usize {
        let whole = (self.start + self.steps + 1) as usize;
        (self.steps as usize).div_ceil((whole / 16).max(1)) + usize::from(self.seed.is_some())
    }

    #[inline(always)]
    fn value(&mut self) -> &mut [u8] {
        self.value
    }
}

impl Chain for XmssChain<'_> {
    #[inline(always)]
    fn assert_all(jobs: &[Self]) {
        XmssChain::assert_all(jobs);
    }

    #[inline(always)]
    fn steps(&self) -> u32 {
        self.steps
    }

    #[inline(always)]
    fn has_secret(&self) -> bool {
        false
    }

    #[inline(always)]
    fn length(&self) -> usize {
        self.steps as usize
    }

    #[inline(always)]
    fn value(&mut self) -> &mut [u8] {
        self.value
    }
}

/// The chains that have not begun.
pub(crate) struct Queue {
    /// Places of the window's chains within the window, longest first.
    order: [u8; WINDOW],
    /// The length of `order`, and how many of its chains are taken.
    count: usize,
    taken: usize,
    /// First chain of the window, and the first beyond it.
    base: usize,
    next: usize,
}

impl Queue {
    /// Returns a queue from which nothing is taken yet.
    pub(crate) fn new() -> Self {
        Queue { order: [0; WINDOW], count: 0, taken: 0, base: 0, next: 0 }
    }

    /// The next chain to begin. Chains without any work are left out.
    #[inline]
    pub(crate) fn pop<C: Chain>(&mut self, jobs: &[C]) -> Option<usize> {
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
    fn advance<C: Chain>(&mut self, jobs: &[C]) {
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

/// Returns how many hashes a chain takes, counted down: class 0 has the most, the last class none.
#[inline]
fn class<C: Chain>(job: &C) -> usize {
    CLASSES - 1 - job.length().min(CLASSES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_scheme::kernels::lms::LmsFamily;
    use gabion_scheme::kernels::slh::{SlhAddress, SlhContext, SlhFamily};

    #[test]
    fn chains_of_lms_are_in_the_order_of_their_lengths() {
        for last in [1, 3, 15, 255] {
            let mut values = vec![[0u8; 32]; last as usize + 1];
            let jobs = values.iter_mut().zip(0..=last).map(|(value, start)| LmsChain {
                family: LmsFamily::Sha256,
                prefix: [0; 22],
                seed: None,
                start: start * 7 % (last + 1),
                steps: last - start * 7 % (last + 1),
                value,
            });
            let jobs: Vec<_> = jobs.collect();
            let mut queue = Queue::new();
            let order: Vec<_> = std::iter::from_fn(|| queue.pop(&jobs)).collect();
            assert_eq!(order.len(), last as usize, "all but the one without steps");
            let sixteenth = |&i: &usize| jobs[i].steps.div_ceil((last + 1).div_ceil(16));
            assert!(order.is_sorted_by_key(|i| std::cmp::Reverse(sixteenth(i))), "{last}");
        }
    }

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
