//! Selects the kernel for each hash of SLH-DSA.

use gabion_scheme::kernels::Kernels;
use gabion_scheme::kernels::slh::{SlhChain, SlhFamily, SlhHash};

use super::{Avx2, sha512, slh_sha256, slh_sha512, sponge};
use crate::common::chains::sha2::in_groups;
use crate::common::chains::shake;
use crate::portable::Portable;
use crate::x86::sha_ni;

/// Runs every chain to its end.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn chain_many(isa: Avx2, jobs: &mut [SlhChain<'_>]) {
    match (jobs.first().map(|job| job.context.family), isa.sha) {
        (Some(SlhFamily::Shake), _) => shake::chain_many(isa, jobs),
        // SAFETY: the token proves that the processor has the extensions.
        (Some(SlhFamily::Sha2), Some(sha)) => unsafe { sha_ni::chain_many(sha, jobs) },
        (Some(SlhFamily::Sha2), None) => slh_sha256::chain_many(isa, jobs),
        (None, _) => {}
    }
}

/// Runs every hash.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn hash_many(isa: Avx2, jobs: &mut [SlhHash<'_>]) {
    match (jobs.first().map(|job| (job.context.family, job.context.n)), isa.sha) {
        (Some((SlhFamily::Shake, _)), _) => {
            shake::hash_many(jobs, |sponges| sponge::sponge_many(isa, sponges));
        }
        // SAFETY: the token proves that the processor has the extensions.
        (Some((SlhFamily::Sha2, 16)), Some(sha)) => unsafe { sha_ni::hash_many(sha, jobs) },
        (Some((SlhFamily::Sha2, 16)), None) => slh_sha256::hash_many(jobs),
        (Some((SlhFamily::Sha2, _)), _) => sha512_many(jobs),
        (None, _) => {}
    }
}

/// Runs every hash of SHA-512; one alone is quicker in general registers.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn sha512_many(jobs: &mut [SlhHash<'_>]) {
    in_groups::<{ sha512::LANES }, _>(jobs, |group| match group {
        [_] => Portable.slh_hash_many(group),
        _ => slh_sha512::hash(group),
    });
}
