//! Selects the kernel for each hash of SLH-DSA.

use gabion_scheme::kernels::Kernels;
use gabion_scheme::kernels::slh::{SlhChain, SlhFamily, SlhHash};

use super::{Neon, sha256, sha512, sponge};
use crate::common::chains::shake;
use crate::portable::Portable;

/// Runs every chain to its end.
pub(super) fn chain_many(isa: Neon, jobs: &mut [SlhChain<'_>]) {
    match (jobs.first().map(|job| job.context.family), isa) {
        (Some(SlhFamily::Shake), Neon { sha3: Some(sha3), .. }) => shake::chain_many(sha3, jobs),
        (Some(SlhFamily::Sha2), Neon { sha2: Some(_), .. }) => {
            // SAFETY: the token proves that the processor has the extension.
            unsafe { sha256::chain_many(jobs) }
        }
        _ => Portable.slh_chain_many(jobs),
    }
}

/// Runs every hash.
pub(super) fn hash_many(isa: Neon, jobs: &mut [SlhHash<'_>]) {
    match (jobs.first().map(|job| (job.context.family, job.context.n)), isa) {
        (Some((SlhFamily::Shake, _)), Neon { sha3: Some(sha3), .. }) => {
            // SAFETY: the token proves that the processor has the extension.
            shake::hash_many(jobs, |sponges| unsafe { sponge::sponge_many(sha3, sponges) });
        }
        (Some((SlhFamily::Sha2, 16)), Neon { sha2: Some(_), .. }) => {
            // SAFETY: the token proves that the processor has the extension.
            unsafe { sha256::hash_many(jobs) }
        }
        (Some((SlhFamily::Sha2, 24 | 32)), Neon { sha3: Some(_), .. }) => {
            // SAFETY: the token proves that the processor has the extension.
            unsafe { sha512::hash_many(jobs) }
        }
        _ => Portable.slh_hash_many(jobs),
    }
}
