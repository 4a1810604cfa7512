//! SLH-DSA on sixteen lanes of SHA-256 (FIPS 205, section 11.2): which chains and hashes have which
//! lane, and which are too few for lanes.
//!
//! ```text
//!   chains of one shape, as those of a key and the leaves of FORS are --> sixteen begin and end together
//!   chains of any shape --> crate::shared::chains::sha256: a lane whose chain has ended takes the next one
//!   the last ones, too few --> four streams of the SHA extensions, or general registers
//! ```
//!
//! Time depends on `start` and `steps` of the chains and on lengths, never on what is hashed.

use gabion_scheme::kernels::Kernels;
use gabion_scheme::kernels::slh::{SlhChain, SlhHash};

use crate::avx512::registers;
use crate::avx512::sha2::sha256::Streams;
use crate::avx512::sha2::sha256_lanes::{self, LANES};
use crate::portable::Portable;
use crate::shared::chains::sha2::in_groups;
use crate::shared::chains::sha256::{Chains, Steps, chain_many as in_lanes};
use crate::x86::sha_ni;

/// Sixteen lanes, and what runs what is too little for them.
#[derive(Clone, Copy)]
pub(crate) struct Lanes {
    pub(crate) streams: Option<Streams>,
}

impl Steps<LANES> for Lanes {
    #[inline(always)]
    fn steps<const V: usize>(self, chains: &mut Chains<LANES>, steps: u32) {
        // SAFETY: whoever makes this has AVX-512.
        unsafe { sha256_lanes::advance::<V>(sha256_lanes::rows_mut(chains), steps) }
    }

    #[inline(always)]
    fn few(self) -> usize {
        // A step of all lanes takes the same time however many are used. On Intel's processors that is as long as
        // eight steps by the SHA extensions, or four in general registers.
        if self.streams.is_some() { 9 } else { 4 }
    }

    #[inline(always)]
    fn run_few(self, jobs: &mut [SlhChain<'_>]) {
        match self.streams {
            // SAFETY: the token proves that the processor has the extensions.
            Some(streams) => unsafe { sha_ni::chain_many(streams, jobs) },
            None => Portable.slh_chain_many(jobs),
        }
    }

    #[inline(always)]
    fn clear(self) {
        // SAFETY: whoever makes this has AVX-512.
        unsafe { registers::clear() }
    }
}

/// Runs every chain to its end.
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn chain_many(isa: Lanes, jobs: &mut [SlhChain<'_>]) {
    let shape = |job: &SlhChain<'_>| (job.steps, job.sk_seed.is_some());
    let [first, ..] = jobs else { return };
    let first = shape(first);
    if jobs.len() <= isa.few() || jobs.iter().any(|job| shape(job) != first) {
        in_lanes(isa, jobs);
        return;
    }
    SlhChain::assert_all(jobs);
    for group in jobs.chunks_mut(LANES) {
        match group[0].context.n {
            _ if group.len() <= isa.few() => isa.run_few(group),
            16 => sha256_lanes::run_together::<4>(group),
            24 => sha256_lanes::run_together::<6>(group),
            _ => sha256_lanes::run_together::<8>(group),
        }
    }
    isa.clear();
}

/// Runs every hash of the SHA-2 family with n = 16, H and T_l, which are SHA-256.
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn hash_many(isa: Lanes, jobs: &mut [SlhHash<'_>]) {
    in_groups::<LANES>(jobs, |group| {
        if group.len() > isa.few() {
            sha256_lanes::hash(group);
            return;
        }
        match isa.streams {
            // SAFETY: the token proves that the processor has the extensions.
            Some(streams) => unsafe { sha_ni::hash_many(streams, group) },
            None => Portable.slh_hash_many(group),
        }
    });
    registers::clear();
}
