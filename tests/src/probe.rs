//! Kernels that watch, widen or hinder others, to reach paths that no seed is known for.

use std::sync::atomic::{AtomicUsize, Ordering};

use gabion_scheme::kernels::ed25519::{EdEquation, EdVerify};
use gabion_scheme::kernels::sha512::Sha512;
use gabion_scheme::kernels::slh::{SlhChain, SlhContext, SlhFamily, SlhHash};
use gabion_scheme::kernels::{DsaPoly, KemPoly, Kernels, N, Sponge};

/// Forwards everything to `inner`, with the changes that its switches select.
pub struct Probe<'a, K> {
    inner: &'a K,
    lanes: usize,
    /// Rejection sampling finds one coefficient too few in inputs of up to this many bytes.
    starve_up_to: usize,
    /// `dsa_norm_below` answers no for this bound.
    refuse_bound: Option<i32>,
    calls: AtomicUsize,
    permutations: AtomicUsize,
    slh: [AtomicUsize; 4],
    /// Tweakable hashes are counted only, and all zero.
    dry: bool,
}

/// The costs of the tweakable hashes of SLH-DSA since the last query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tweaks {
    /// Calls of either kernel.
    pub calls: usize,
    /// Keccak permutations.
    pub keccak: usize,
    /// Compressions of SHA-256.
    pub sha256: usize,
    /// Compressions of SHA-512.
    pub sha512: usize,
}

/// The costs of sponges since the last query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sponges {
    /// Calls of `sponge_many`.
    pub calls: usize,
    /// Keccak permutations of all jobs together.
    pub permutations: usize,
}

impl<'a, K: Kernels> Probe<'a, K> {
    /// Only watches.
    pub fn new(inner: &'a K) -> Self {
        Probe {
            inner,
            lanes: inner.lanes(),
            starve_up_to: 0,
            refuse_bound: None,
            calls: AtomicUsize::new(0),
            permutations: AtomicUsize::new(0),
            slh: Default::default(),
            dry: false,
        }
    }

    /// Claims another number of lanes.
    pub fn with_lanes(mut self, lanes: usize) -> Self {
        self.lanes = lanes;
        self
    }

    /// Lets rejection sampling fail on inputs of up to `bytes` bytes.
    pub fn starving(mut self, bytes: usize) -> Self {
        self.starve_up_to = bytes;
        self
    }

    /// Lets every ML-DSA norm check against `bound` fail.
    pub fn refusing(mut self, bound: i32) -> Self {
        self.refuse_bound = Some(bound);
        self
    }

    /// Counts the tweakable hashes of SLH-DSA without computing them: all are zero.
    pub fn dry(mut self) -> Self {
        self.dry = true;
        self
    }

    /// Returns the costs of sponges since the last call of this function.
    pub fn sponges(&self) -> Sponges {
        Sponges {
            calls: self.calls.swap(0, Ordering::Relaxed),
            permutations: self.permutations.swap(0, Ordering::Relaxed),
        }
    }

    /// Returns the costs of the tweakable hashes of SLH-DSA since the last call of this function.
    pub fn tweaks(&self) -> Tweaks {
        let [calls, keccak, sha256, sha512] = &self.slh;
        let [calls, keccak, sha256, sha512] =
            [calls, keccak, sha256, sha512].map(|count| count.swap(0, Ordering::Relaxed));
        Tweaks { calls, keccak, sha256, sha512 }
    }

    /// Counts `times` tweakable hashes of `len` bytes, H or T_l where `long`.
    fn count_tweaks(&self, context: &SlhContext, len: usize, times: usize, long: bool) {
        // A message ends with one byte of padding (SHAKE) or with one and the length (SHA-2).
        let (count, blocks) = match context.family {
            SlhFamily::Shake => (1, (context.n + 32 + len) / 136 + 1),
            SlhFamily::Sha2 if long && context.n > 16 => (3, (22 + len + 17).div_ceil(128)),
            SlhFamily::Sha2 => (2, (22 + len + 9).div_ceil(64)),
        };
        self.slh[count].fetch_add(times * blocks, Ordering::Relaxed);
    }

    /// Returns the result of rejection sampling in place of `count`; `last` is the coefficient that
    /// is then missing.
    fn starve<T: Default>(&self, bytes: &[u8], count: usize, last: &mut T) -> usize {
        if bytes.len() > self.starve_up_to {
            return count;
        }
        *last = T::default();
        count.min(N - 1)
    }
}

/// Kernels that are passed on.
macro_rules! passed_on {
    ($(fn $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        $(fn $name(&self, $($argument: $type),*) $(-> $result)? {
            self.inner.$name($($argument),*)
        })*
    };
}

impl<K: Kernels> Kernels for Probe<'_, K> {
    fn name(&self) -> &'static str {
        "probe"
    }

    fn lanes(&self) -> usize {
        self.lanes
    }

    fn sponge_many(&self, jobs: &mut [Sponge<'_>]) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        for job in jobs.iter() {
            let input: usize = job.input.iter().map(|piece| piece.len()).sum();
            let squeezes = job.output.len().div_ceil(job.xof.rate()).max(1);
            let permutations = input / job.xof.rate() + squeezes;
            self.permutations.fetch_add(permutations, Ordering::Relaxed);
        }
        self.inner.sponge_many(jobs);
    }

    fn kem_rej_uniform_vartime(&self, bytes: &[u8], out: &mut KemPoly) -> usize {
        let count = self.inner.kem_rej_uniform_vartime(bytes, out);
        self.starve(bytes, count, &mut out.0[N - 1])
    }

    fn dsa_rej_uniform_vartime(&self, bytes: &[u8], out: &mut DsaPoly) -> usize {
        let count = self.inner.dsa_rej_uniform_vartime(bytes, out);
        self.starve(bytes, count, &mut out.0[N - 1])
    }

    fn dsa_rej_bounded_vartime(&self, eta: usize, bytes: &[u8], out: &mut DsaPoly) -> usize {
        let count = self.inner.dsa_rej_bounded_vartime(eta, bytes, out);
        self.starve(bytes, count, &mut out.0[N - 1])
    }

    fn dsa_norm_below(&self, polys: &[DsaPoly], bound: i32) -> bool {
        self.inner.dsa_norm_below(polys, bound) && self.refuse_bound != Some(bound)
    }

    fn slh_chain_many(&self, jobs: &mut [SlhChain<'_>]) {
        self.slh[0].fetch_add(1, Ordering::Relaxed);
        for job in jobs.iter() {
            let times = job.steps as usize + usize::from(job.sk_seed.is_some());
            self.count_tweaks(job.context, job.context.n, times, false);
        }
        if self.dry {
            jobs.iter_mut().for_each(|job| job.value.fill(0));
            return;
        }
        self.inner.slh_chain_many(jobs);
    }

    fn slh_hash_many(&self, jobs: &mut [SlhHash<'_>]) {
        self.slh[0].fetch_add(1, Ordering::Relaxed);
        for job in jobs.iter() {
            self.count_tweaks(job.context, job.input.len(), 1, true);
        }
        if self.dry {
            return jobs.iter_mut().for_each(|job| job.output.fill(0));
        }
        self.inner.slh_hash_many(jobs);
    }

    fn sha512_many(&self, jobs: &mut [Sha512<'_>]) {
        self.inner.sha512_many(jobs);
    }

    crate::plain_kernels!(passed_on);
    crate::lms_kernels!(passed_on);
    crate::xmss_kernels!(passed_on);
}
