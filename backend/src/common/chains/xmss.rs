//! XMSS over streams of SHA-256 (RFC 8391, Algorithms 2 and 7; SP 800-208): which job has which stream.
//!
//! ```text
//!   jobs --longest first--> Queue --> streams that are free --> Streams (gabion_scheme): four compressions a step
//! ```
//!
//! [`gabion_scheme::kernels::xmss_sha256`] defines the blocks once, over rows of words. A row is as
//! wide as the instruction set has streams. A stream whose chain has ended takes the next one; the
//! last chains, too few to fill lanes, continue in another way.
//!
//! Time depends on `start` and `steps` of the chains, never on the hashed input.

use core::hint::black_box;

use gabion_scheme::kernels::xmss::{XmssAddress, XmssChain, XmssHash, XmssSecret};
use gabion_scheme::kernels::xmss_sha256::{Compress, Streams};

use super::Queue;

/// An instruction set with N streams of SHA-256.
pub(crate) trait Isa<const N: usize>: Compress<N> {
    /// Returns the instruction set for calls that use only the first `count` streams.
    fn with_streams(self, count: usize) -> Self;

    /// Returns the number of jobs up to which the other implementation is faster.
    fn few(self) -> usize;

    /// Runs a few chains in the other implementation.
    fn run_few(self, jobs: &mut [XmssChain<'_>]);

    /// Runs a few hashes in the other implementation.
    fn hash_few(self, jobs: &mut [XmssHash<'_>]);

    /// Derives a few secrets in the other implementation.
    fn make_few(self, jobs: &mut [XmssSecret<'_>]);

    /// Clears registers.
    fn clear(self);
}

/// The active chains. Streams below `count` have one.
struct ActiveChains<const N: usize> {
    streams: Streams<N>,
    jobs: [usize; N],
    /// Steps to go.
    left: [u32; N],
    count: usize,
}

impl<const N: usize> ActiveChains<N> {
    /// Starts a chain in a stream.
    #[inline]
    fn begin(&mut self, stream: usize, jobs: &[XmssChain<'_>], job: usize) {
        let chain = &jobs[job];
        let address = chain.address.with(XmssAddress::HASH, chain.start);
        self.streams.begin(stream, chain.context, &address);
        Streams::put(&mut self.streams.value, stream, chain.value);
        self.jobs[stream] = job;
        self.left[stream] = chain.steps;
    }

    /// Moves the last chain to a stream.
    #[inline]
    fn give_to_last(&mut self, stream: usize) {
        self.count -= 1;
        self.jobs[stream] = self.jobs[self.count];
        self.left[stream] = self.left[self.count];
        self.streams.move_stream(self.count, stream);
    }

    /// Finishes the remaining chains in the other implementation.
    #[inline]
    fn finish<I: Isa<N>>(&mut self, isa: I, jobs: &mut [XmssChain<'_>]) {
        let mut rest: [XmssChain<'_>; N] = core::array::from_fn(|stream| {
            // Streams beyond the last one are not run.
            let stream = stream.min(self.count - 1);
            let chain = &mut jobs[self.jobs[stream]];
            self.streams.take(stream, chain.value);
            let steps = self.left[stream];
            XmssChain {
                context: chain.context,
                address: chain.address,
                start: chain.start + (chain.steps - steps),
                steps,
                value: core::mem::take(&mut chain.value),
            }
        });
        isa.run_few(&mut rest[..self.count]);
        for (job, chain) in self.jobs[..self.count].iter().zip(rest) {
            jobs[*job].value = chain.value;
        }
    }
}

/// Runs every chain to its end.
#[inline(always)]
pub(crate) fn chain_many<I: Isa<N>, const N: usize>(isa: I, jobs: &mut [XmssChain<'_>]) {
    XmssChain::assert_all(jobs);
    match jobs.first().map(|job| job.context.n) {
        _ if jobs.len() <= isa.few() => isa.run_few(jobs),
        Some(24) => chain_many_of::<I, N, 6>(isa, jobs),
        Some(_) => chain_many_of::<I, N, 8>(isa, jobs),
        None => {}
    }
}

/// Runs chains whose values have V words.
#[inline(always)]
fn chain_many_of<I: Isa<N>, const N: usize, const V: usize>(isa: I, jobs: &mut [XmssChain<'_>]) {
    let mut queue = Queue::new();
    let mut all =
        ActiveChains::<N> { streams: Streams::ZERO, jobs: [0; N], left: [0; N], count: 0 };
    while all.count < N {
        let Some(job) = queue.pop(jobs) else { break };
        all.begin(all.count, jobs, job);
        all.count += 1;
    }
    while all.count > isa.few() {
        // One by one: what passes through vector registers, the scan of machine code takes for data.
        let left = all.left[..all.count].iter().map(|left| black_box(*left));
        let steps = left.fold(u32::MAX, u32::min);
        all.streams.steps::<V>(isa.with_streams(all.count), steps);
        let mut stream = 0;
        while stream < all.count {
            all.left[stream] -= steps;
            if all.left[stream] > 0 {
                stream += 1;
                continue;
            }
            all.streams.take(stream, jobs[all.jobs[stream]].value);
            if let Some(job) = queue.pop(jobs) {
                all.begin(stream, jobs, job);
                stream += 1;
            } else {
                // The chain moved here from the last stream has not been counted yet in this step.
                all.give_to_last(stream);
            }
        }
    }
    if all.count > 0 {
        all.finish(isa, jobs);
    }
    all.streams.wipe();
    isa.clear();
}

/// Runs every hash.
#[inline(always)]
pub(crate) fn hash_many<I: Isa<N>, const N: usize>(isa: I, jobs: &mut [XmssHash<'_>]) {
    XmssHash::assert_all(jobs);
    let Some(n) = jobs.first().map(|job| job.context.n) else { return };
    let mut streams = Streams::<N>::ZERO;
    for group in jobs.chunks_mut(N) {
        if group.len() <= isa.few() {
            isa.hash_few(group);
            continue;
        }
        for (stream, job) in group.iter().enumerate() {
            streams.begin(stream, job.context, &job.address);
            Streams::put(&mut streams.value, stream, job.input);
        }
        let isa = isa.with_streams(group.len());
        match n {
            24 => streams.node::<6>(isa),
            _ => streams.node::<8>(isa),
        }
        for (stream, job) in group.iter_mut().enumerate() {
            streams.take(stream, job.output);
        }
    }
    streams.wipe();
    isa.clear();
}

/// Makes every secret.
#[inline(always)]
pub(crate) fn secret_many<I: Isa<N>, const N: usize>(isa: I, jobs: &mut [XmssSecret<'_>]) {
    XmssSecret::assert_all(jobs);
    let Some(n) = jobs.first().map(|job| job.context.n) else { return };
    let mut streams = Streams::<N>::ZERO;
    for group in jobs.chunks_mut(N) {
        if group.len() <= isa.few() {
            isa.make_few(group);
            continue;
        }
        for (stream, job) in group.iter().enumerate() {
            streams.begin_secret(stream, job);
        }
        let isa = isa.with_streams(group.len());
        match n {
            24 => streams.secret::<6>(isa),
            _ => streams.secret::<8>(isa),
        }
        for (stream, job) in group.iter_mut().enumerate() {
            streams.take(stream, job.output);
        }
    }
    streams.wipe();
    isa.clear();
}
