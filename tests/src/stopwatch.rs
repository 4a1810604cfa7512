//! Kernels that measure others: the hashes of a batch, and the time of its arithmetic.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use gabion_engine::{Backend, Batch, BatchOutcome};
use gabion_scheme::kernels::ed25519::{EdEquation, EdVerify};
use gabion_scheme::kernels::sha512::Sha512;
use gabion_scheme::kernels::slh::{SlhChain, SlhContext, SlhFamily, SlhHash};
use gabion_scheme::kernels::{DsaPoly, KemPoly, Kernels, Sponge};

/// Returns a time; its unit is the time-stamp counter's tick, or a nanosecond on other processors.
fn now() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: reading the counter has no precondition.
    return unsafe { core::arch::x86_64::_rdtsc() };
    #[cfg(not(target_arch = "x86_64"))]
    {
        use std::time::Instant;
        static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        START.get_or_init(Instant::now).elapsed().as_nanos() as u64
    }
}

/// The counts since the last query.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Totals {
    /// Permutations Keccak-f\[1600\] in sponges.
    pub permutations: f64,
    /// Permutations in chains of SLH-DSA, which absorb and squeeze less.
    pub shake_steps: f64,
    /// Compressions of SHA-256.
    pub sha256: f64,
    /// Compressions of SHA-512.
    pub sha512: f64,
    /// Ticks in kernels that do not hash, without the cost of reading the clock.
    pub arithmetic: f64,
    /// Ticks in the backend as a whole, less the same.
    pub all: f64,
    /// Lanes that it ran.
    pub lanes: f64,
}

#[derive(Default)]
struct Counters {
    permutations: AtomicU64,
    shake_steps: AtomicU64,
    sha256: AtomicU64,
    sha512: AtomicU64,
    arithmetic: AtomicU64,
    calls: AtomicU64,
    all: AtomicU64,
    lanes: AtomicU64,
}

/// A reader of the counts of [`Stopwatch`] and [`TimedBackend`].
#[derive(Clone, Default)]
pub struct Watch(Arc<Counters>);

impl Watch {
    /// Kernels and a backend over `inner` that count here; `wrap` makes the backend of the kernels.
    pub fn backend<K: Kernels, B: Backend>(
        &self,
        inner: K,
        wrap: impl FnOnce(Stopwatch<K>) -> B,
    ) -> TimedBackend<B> {
        let inner = wrap(Stopwatch { inner, counters: Arc::clone(&self.0) });
        TimedBackend { inner, counters: Arc::clone(&self.0) }
    }

    /// Returns the counts since the last call of this function.
    pub fn take(&self) -> Totals {
        let counters = &*self.0;
        let take = |counter: &AtomicU64| counter.swap(0, Ordering::Relaxed) as f64;
        // Half of the two looks at the clock around a kernel falls into its time, all of it into
        // the backend's.
        let looks = take(&counters.calls) * look();
        Totals {
            permutations: take(&counters.permutations),
            shake_steps: take(&counters.shake_steps),
            sha256: take(&counters.sha256),
            sha512: take(&counters.sha512),
            arithmetic: (take(&counters.arithmetic) - looks / 2.0).max(0.0),
            all: (take(&counters.all) - looks).max(0.0),
            lanes: take(&counters.lanes),
        }
    }
}

/// Ticks that two looks at the clock take.
fn look() -> f64 {
    let mut samples: Vec<u64> = (0..1001)
        .map(|_| {
            let start = now();
            std::hint::black_box(now());
            now() - start
        })
        .collect();
    samples.sort_unstable();
    samples[samples.len() / 2] as f64
}

/// A backend that counts its lanes and the time it takes.
pub struct TimedBackend<B> {
    inner: B,
    counters: Arc<Counters>,
}

impl<B: Backend> Backend for TimedBackend<B> {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn lanes(&self) -> usize {
        self.inner.lanes()
    }

    fn run(&self, batch: &mut Batch<'_>) -> BatchOutcome {
        let start = now();
        let ran = self.inner.run(batch);
        self.counters.all.fetch_add(now() - start, Ordering::Relaxed);
        self.counters.lanes.fetch_add(batch.lanes() as u64, Ordering::Relaxed);
        ran
    }
}

/// Forwards everything to `inner`, counts hashes and times the other kernels.
pub struct Stopwatch<K> {
    inner: K,
    counters: Arc<Counters>,
}

impl<K: Kernels> Stopwatch<K> {
    fn time<R>(&self, call: impl FnOnce(&K) -> R) -> R {
        let start = now();
        let result = call(&self.inner);
        self.counters.arithmetic.fetch_add(now() - start, Ordering::Relaxed);
        self.counters.calls.fetch_add(1, Ordering::Relaxed);
        result
    }

    /// Counts `times` tweakable hashes of `len` bytes, H or T_l where `long`.
    fn tweaks(&self, context: &SlhContext, len: usize, times: usize, long: bool) {
        let counters = &self.counters;
        // A message ends with one byte of padding (SHAKE) or with one and the length (SHA-2).
        let (counter, blocks) = match context.family {
            SlhFamily::Shake if long => (&counters.permutations, (context.n + 32 + len) / 136 + 1),
            SlhFamily::Shake => (&counters.shake_steps, 1),
            SlhFamily::Sha2 if long && context.n > 16 => {
                (&counters.sha512, (22 + len + 17).div_ceil(128))
            }
            SlhFamily::Sha2 => (&counters.sha256, (22 + len + 9).div_ceil(64)),
        };
        counter.fetch_add((times * blocks) as u64, Ordering::Relaxed);
    }
}

/// Kernels that are timed and passed on.
macro_rules! timed {
    ($(fn $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        $(fn $name(&self, $($argument: $type),*) $(-> $result)? {
            self.time(|inner| inner.$name($($argument),*))
        })*
    };
}

impl<K: Kernels> Kernels for Stopwatch<K> {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn lanes(&self) -> usize {
        self.inner.lanes()
    }

    fn sponge_many(&self, jobs: &mut [Sponge<'_>]) {
        for job in jobs.iter() {
            let input: usize = job.input.iter().map(|piece| piece.len()).sum();
            let squeezes = job.output.len().div_ceil(job.xof.rate()).max(1);
            let count = (input / job.xof.rate() + squeezes) as u64;
            self.counters.permutations.fetch_add(count, Ordering::Relaxed);
        }
        self.inner.sponge_many(jobs);
    }

    fn slh_chain_many(&self, jobs: &mut [SlhChain<'_>]) {
        for job in jobs.iter() {
            let times = job.steps as usize + usize::from(job.sk_seed.is_some());
            self.tweaks(job.context, job.context.n, times, false);
        }
        self.inner.slh_chain_many(jobs);
    }

    fn slh_hash_many(&self, jobs: &mut [SlhHash<'_>]) {
        for job in jobs.iter() {
            self.tweaks(job.context, job.input.len(), 1, true);
        }
        self.inner.slh_hash_many(jobs);
    }

    fn sha512_many(&self, jobs: &mut [Sha512<'_>]) {
        let blocks: usize = jobs.iter().map(Sha512::blocks).sum();
        self.counters.sha512.fetch_add(blocks as u64, Ordering::Relaxed);
        self.inner.sha512_many(jobs);
    }

    timed! {
        fn kem_rej_uniform_vartime(bytes: &[u8], out: &mut KemPoly) -> usize;
        fn dsa_rej_uniform_vartime(bytes: &[u8], out: &mut DsaPoly) -> usize;
        fn dsa_rej_bounded_vartime(eta: usize, bytes: &[u8], out: &mut DsaPoly) -> usize;
        fn dsa_norm_below(polys: &[DsaPoly], bound: i32) -> bool;
    }
    crate::plain_kernels!(timed);
    crate::lms_kernels!(timed);
    crate::xmss_kernels!(timed);
}
