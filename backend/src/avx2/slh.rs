//! Which kernel runs a hash of SLH-DSA.

use gabion_scheme::kernels::Kernels;
use gabion_scheme::kernels::slh::{SlhChain, SlhFamily, SlhHash};

use super::{Avx2, sponge};
use crate::portable::Portable;
use crate::sha_ni;
use crate::slh::shake;

/// Runs every chain to its end.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn chain_many(isa: Avx2, jobs: &mut [SlhChain<'_>]) {
    match jobs.first().map(|job| job.context.family) {
        Some(SlhFamily::Shake) => shake::chain_many(isa, jobs),
        Some(SlhFamily::Sha2) => match sha_ni::Plain::detect() {
            // SAFETY: the processor supports the kernel's features, as just detected.
            Some(plain) => unsafe { sha_ni::chain_many(plain, jobs) },
            None => Portable.slh_chain_many(jobs),
        },
        None => {}
    }
}

/// Runs every hash.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn hash_many(isa: Avx2, jobs: &mut [SlhHash<'_>]) {
    match jobs.first().map(|job| (job.context.family, job.context.n)) {
        Some((SlhFamily::Shake, _)) => {
            shake::hash_many(jobs, |sponges| sponge::sponge_many(isa, sponges));
        }
        Some((SlhFamily::Sha2, 16)) => match sha_ni::Plain::detect() {
            // SAFETY: the processor supports the kernel's features, as just detected.
            Some(plain) => unsafe { sha_ni::hash_many(plain, jobs) },
            None => Portable.slh_hash_many(jobs),
        },
        Some((SlhFamily::Sha2, _)) => Portable.slh_hash_many(jobs),
        None => {}
    }
}
