//! SLH-DSA on eight lanes of SHA-256: the functions that [`crate::common::chains::sha256`] needs
//! from AVX2, and which hashes run in parallel (FIPS 205, section 11.2).
//!
//! A single remaining chain continues in general registers, and so does a single hash.
//!
//! Time depends on `start` and `steps` of the chains and on lengths, never on the hashed input.

use gabion_scheme::kernels::Kernels;
use gabion_scheme::kernels::slh::{SlhChain, SlhHash};

use super::sha256::{self, LANES};
use super::{Avx2, registers};
use crate::common::chains::sha2::in_groups;
use crate::common::chains::sha256::{Chains, SLH, Steps, chain_many as in_lanes};
use crate::portable::Portable;

impl<'a> Steps<SlhChain<'a>, LANES> for Avx2 {
    #[inline(always)]
    fn steps<const V: usize>(self, chains: &mut Chains<LANES>, steps: u32) {
        // SAFETY: the token proves that the processor has AVX2.
        unsafe { sha256::steps::<V, SLH>(chains, steps) }
    }

    #[inline(always)]
    fn few(self) -> usize {
        1
    }

    #[inline(always)]
    fn run_few(self, jobs: &mut [SlhChain<'a>]) {
        Portable.slh_chain_many(jobs);
    }

    #[inline(always)]
    fn clear(self) {
        // SAFETY: the token proves that the processor has AVX2.
        unsafe { registers::clear() }
    }
}

/// Runs every chain to its end.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn chain_many(isa: Avx2, jobs: &mut [SlhChain<'_>]) {
    in_lanes(isa, jobs);
}

/// Runs every hash of the SHA-2 family with n = 16, H and T_l, which are SHA-256.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn hash_many(jobs: &mut [SlhHash<'_>]) {
    in_groups::<LANES, _>(jobs, |group| match group {
        [_] => Portable.slh_hash_many(group),
        _ => sha256::hash(group),
    });
}
