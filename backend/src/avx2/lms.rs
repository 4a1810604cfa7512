//! LMS on eight lanes of SHA-256, or by the SHA extensions where they are (RFC 8554).
//!
//! A single remaining chain continues in general registers, and so does a single hash.
//!
//! Time depends on `start` and `steps` of the chains and on lengths, never on the hashed input.

use gabion_scheme::kernels::Kernels;
use gabion_scheme::kernels::lms::{LmsChain, LmsHash};

use super::sha256::{self, LANES};
use super::{Avx2, registers};
use crate::common::chains::sha2::in_groups;
use crate::common::chains::sha256::{Chains, LMS, Steps, chain_many as in_lanes};
use crate::portable::Portable;
use crate::x86::sha_ni;

impl<'a> Steps<LmsChain<'a>, LANES> for Avx2 {
    #[inline(always)]
    fn steps<const V: usize>(self, chains: &mut Chains<LANES>, steps: u32) {
        // SAFETY: the token proves that the processor has AVX2.
        unsafe { sha256::steps::<V, LMS>(chains, steps) }
    }

    #[inline(always)]
    fn few(self) -> usize {
        1
    }

    #[inline(always)]
    fn run_few(self, jobs: &mut [LmsChain<'a>]) {
        Portable.lms_chain_many(jobs);
    }

    #[inline(always)]
    fn clear(self) {
        // SAFETY: the token proves that the processor has AVX2.
        unsafe { registers::clear() }
    }
}

/// Runs every chain of SHA-256 to its end.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn chain_many(isa: Avx2, jobs: &mut [LmsChain<'_>]) {
    match isa.sha {
        // SAFETY: the token proves that the processor has the extensions.
        Some(sha) => unsafe { sha_ni::chain_many(sha, jobs) },
        None => in_lanes(isa, jobs),
    }
}

/// Runs every hash of SHA-256.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn hash_many(isa: Avx2, jobs: &mut [LmsHash<'_>]) {
    if let Some(sha) = isa.sha {
        // SAFETY: the token proves that the processor has the extensions.
        return unsafe { sha_ni::lms_hash_many(sha, jobs) };
    }
    in_groups::<LANES, _>(jobs, |group| match group {
        [_] => Portable.lms_hash_many(group),
        _ => sha256::hash(group),
    });
}
